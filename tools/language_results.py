"""The site's page "What happens on the tiny world": its tables and figure, made from `results/language_*`.

    python tools/language_results.py   # draws the figure, writes reference/language_results.md

The page is edited by hand, but for what stands between a line ``% made: NAME`` and ``% end``: that is the
output of the function NAME below, and a test checks that it is current. No measured number stands elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ppobook.evaluation import aggregate

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
PAGE = ROOT / "reference" / "language_results.md"
FIGURE = "language_overoptimisation/gold.svg"
MADE = re.compile(r"^% made: (\w+)\n.*?^% end\n", re.S | re.M)
NAMES = {"ppo": "PPO", "grpo": "GRPO"}


def table_of(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / name / "table.csv")


def facts_of(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((RESULTS / name / "facts.json").read_text(encoding="utf-8"))
    return facts


# ---------------------------------------------------------------------------------------------- the numbers


def peaks() -> pd.DataFrame:
    """Of each run of PPO and GRPO: where gold was highest, and where it was in the end."""
    rows = []
    for (method, beta, seed), run in table_of("language_overoptimisation").groupby(
        ["method", "kl_coef", "seed"], sort=False
    ):
        top, end = run.loc[run["gold"].idxmax()], run.iloc[-1]
        rows.append(
            {
                "method": NAMES[method],
                "beta": beta,
                "seed": seed,
                "first": run["gold"].iloc[0],
                "peak": top["gold"],
                "kl_at_peak": top["kl"],
                "gold": end["gold"],
                "proxy": end["proxy"],
                "proxy_at_peak": top["proxy"],
                "kl": end["kl"],
                "ended": end["ended"],
                # Gold that fell while the proxy rose. Means over five updates scatter by less than a tenth.
                "fell": top["gold"] - end["gold"] > FELL and end["proxy"] > top["proxy"],
            }
        )
    return pd.DataFrame(rows)


# By how much gold has to fall from its peak to be called fallen.
FELL = 0.3
# The β of PPO at which seeds part.
SHOWN_BETA = 0.1


# ----------------------------------------------------------------------------------------------- the tables


def overoptimisation() -> str:
    rows = [("", "β", "peak of gold", "KL there", "gold in the end", "proxy in the end", "KL in the end")]
    rows[0] += ("gold fell, seeds",)
    for (method, beta), runs in peaks().groupby(["method", "beta"], sort=False):
        digits = {"peak": 2, "kl_at_peak": 1, "gold": 2, "proxy": 1, "kl": 1}
        cells = [_mean(runs[name], some) for name, some in digits.items()]
        rows.append((method, f"{beta:g}", *cells, f"{int(runs['fell'].sum())} of {len(runs)}"))
    return _markdown(rows, left=1)


def seed_by_seed() -> str:
    found = peaks()
    ladder = table_of("language_ladder").pivot(index="seed", columns="kind", values="proxy")
    ladder = ladder.sub(ladder[0], axis=0)
    ppo = found[found["method"] == "PPO"].set_index("seed")
    betas = sorted(ppo["beta"].unique())
    rungs = (1, 3, 6)
    rows = [("seed", *(f"reward, {k} kind" for k in rungs), *(f"β {beta:g}" for beta in betas))]
    for seed, rewards in ladder.iterrows():
        of_seed = ppo.loc[[seed]].set_index("beta")
        ends = (f"{of_seed.peak[beta]:.2f} → {of_seed.gold[beta]:.2f}" for beta in betas)
        rows.append((str(seed), *(f"{rewards[k]:.2f}" for k in rungs), *ends))
    return _markdown(rows, left=1)


def ladder() -> str:
    rows = [("kind words", "gold", "reward model")]
    for kind, some in table_of("language_ladder").groupby("kind"):
        rows.append((str(kind), f"{some['gold'].mean():.2f}", _mean(some["proxy"])))
    return _markdown(rows, left=0)


def best_of_n() -> str:
    every = table_of("language_best_of_n")
    rows = [("n", "KL", "log n − (n − 1) / n", "proxy", "gold", "gold, chosen by gold")]
    for n, some in every.groupby("n"):
        by_proxy, by_gold = (some[some["chosen_by"] == by] for by in ("proxy", "gold"))
        cells = [f"{by_proxy['kl'].mean():.2f}", f"{by_proxy['kl_bound'].iloc[0]:.2f}"]
        cells += [_mean(by_proxy["proxy"]), _mean(by_proxy["gold"]), _mean(by_gold["gold"])]
        rows.append((str(n), *cells))
    return _markdown(rows, left=0)


def reward_models() -> str:
    every = table_of("language_reward_models")
    rows = [("pairs", "width", "pooling", "accuracy", "peak of gold", "gold in the end", "KL in the end")]
    rows[0] += ("3 kind words", "6 kind words")
    every = every.sort_values(["pooling", "width", "pairs"], ascending=[False, False, True])
    for key, some in every.groupby(["pairs", "width", "pooling"], sort=False):
        cells = [_mean(some["accuracy"], 3)]
        cells += [_mean(some[name]) for name in ("peak", "gold")]
        cells += [_mean(some["kl"], 1), *(_mean(some[name]) for name in ("kind_3", "kind_6"))]
        rows.append((f"{key[0]:,}", *map(str, key[1:]), *cells))
    return _markdown(rows, left=3)


def methods() -> str:
    every = table_of("language_methods")
    rows = [("", "learning rate", "gold", "proxy", "KL", "length", "ended, %", "updates", "CPU s")]
    for (method, lr), some in every.groupby(["method", "lr"], sort=False):
        cells = [_mean(some[name]) for name in ("gold", "proxy", "kl", "length")]
        cells += [_mean(100 * some["ended"], 0), f"{some['updates'].mean():.0f}", _mean(some["cpu"], 1)]
        rows.append((str(method), _rate(lr), *cells))
    return _markdown(rows, left=1)


def rates() -> str:
    tried = table_of("language_settle").groupby(["method", "lr"], sort=False)["gold"].mean().unstack()
    rows = [("", *map(_rate, tried.columns))]
    for method, golds in tried.iterrows():
        rows.append((str(method), *(f"{gold:.2f}" for gold in golds)))
    return _markdown(rows, left=1)


def chain() -> str:
    every = table_of("language_chain")
    titles = {"sft": "SFT", "reward": "reward model", "ppo": "PPO"}
    rows = [("", "CPU s", "gold after it", "KL to SFT", "length", "ended, %")]
    for stage, some in every.groupby("stage", sort=False):
        known = some["gold"].notna().all()
        cells = [_mean(some[name]) if known else "" for name in ("gold", "kl", "length")]
        ended = _mean(100 * some["ended"], 0) if known else ""
        rows.append((titles[stage], _mean(some["cpu"], 1), *cells, ended))
    total = every.groupby("seed")["cpu"].sum()
    rows.append(("together", _mean(total, 1), "", "", "", ""))
    return _markdown(rows, left=1)


def machine() -> str:
    facts = facts_of("language_chain")
    known = ", ".join(f"{name} {facts['versions'][name]}" for name in ("python", "torch", "numpy"))
    return f"Recorded on {facts['date']}: {facts['machine']}; {known}."


# ------------------------------------------------------------------------------------------ the sentences


def peak_or_no_peak() -> str:
    """Which of the runs went over a peak, in words."""
    found = peaks()
    said = []
    for method, runs in found.groupby("method", sort=False):
        parts = []
        for beta, some in runs.groupby("beta", sort=False):
            parts.append(f"{int(some['fell'].sum())} of {len(some)} at β {beta:g}")
        said.append(f"{method}: {', '.join(parts)}.")
    return (
        f"So many seeds went over a peak: gold ended more than {FELL:g} below its highest, and the "
        "reward model's reward was higher in the end than there. " + " ".join(said)
    )


def ladder_and_fall() -> str:
    """Rewards for six kind words less those for three, for seeds that fell and seeds that did not."""
    found, rewards = peaks(), table_of("language_ladder").pivot(index="seed", columns="kind", values="proxy")
    ppo = found[(found["method"] == "PPO") & (found["beta"] == SHOWN_BETA)].set_index("seed")
    steep = rewards[6] - rewards[3]
    said = [
        f"{number} give from {some.min():.2f} to {some.max():.2f} more"
        for number, some in (
            (f"those of the {int(ppo['fell'].sum())} seeds that fell", steep[ppo["fell"]]),
            (f"of the {int((~ppo['fell']).sum())} that did not", steep[~ppo["fell"]]),
        )
    ]
    return (
        f"Take β {SHOWN_BETA:g}. For six kind words rather than three, where gold gives 1.5 less, the reward "
        f"models differ: {', and '.join(said)}."
    )


def figure() -> str:
    found = peaks()
    ppo = found[found["method"] == "PPO"]
    ends = "; ".join(
        f"β {beta:g}: peak {some['peak'].mean():.2f} at KL {some['kl_at_peak'].mean():.1f}, "
        f"end {some['gold'].mean():.2f} at KL {some['kl'].mean():.1f}"
        for beta, some in ppo.groupby("beta", sort=False)
    )
    best = table_of("language_best_of_n")
    best = best[(best["chosen_by"] == "proxy") & (best["n"] == best["n"].max())]
    alt = (
        "Four panels over the same axis, KL to the reference, its square root to scale. Above, gold: PPO's "
        f"curves by β, means over seeds ({ends}), each run thin behind them; then GRPO's. With both, that of "
        f"best of n, which at n {int(best['n'].iloc[0])} is at {best['gold'].mean():.2f}, "
        f"KL {best['kl'].mean():.1f}. Below, the reward model's reward for the same policies: on average it "
        "rises with KL."
    )
    return f":::{{image}} ../results/{FIGURE}\n:alt: {alt}\n:::"


# --------------------------------------------------------------------------------------------- the figure


# A mean curve that ends at a smaller KL has its label below.
NEAR = 2.0


def draw(target: Path = RESULTS) -> None:
    """Draw gold and proxy against KL."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    curves, best = table_of("language_overoptimisation"), table_of("language_best_of_n")
    best = best[best["chosen_by"] == "proxy"].groupby("n")[["kl", "proxy", "gold"]].mean()
    panels = (("gold", "ppo"), ("gold", "grpo"), ("proxy", "ppo"), ("proxy", "grpo"))
    with plt.rc_context(style.settings()):
        drawn, axes = plt.subplots(4, 1, figsize=(style.WIDTH, 12.0), sharex=True)
        for ax, (name, method) in zip(axes, panels, strict=True):
            mine = curves[curves["method"] == method]
            for _, run in mine.groupby(["kl_coef", "seed"]):
                ax.plot(run["kl"].clip(lower=0), run[name], color=style.colour(method), lw=0.6, alpha=0.3)
            for beta, runs in mine.groupby("kl_coef"):
                mean = runs.groupby("update")[["kl", name]].mean()
                ax.plot(mean["kl"], mean[name], color=style.colour(method))
                _label(ax, f"β {beta:g}", mean.iloc[-1], style.colour(method, "text"))
            ax.plot(best["kl"], best[name], color=style.colour("truth"), marker=".")
            _label(ax, "best of n", best[["kl", name]].iloc[-1], style.colour("truth", "text"), up=12)
            ax.set(title=f"{NAMES[method]}: {name}", ylabel=name)
        for one, other in ((0, 1), (2, 3)):
            low, high = zip(*(axes[k].get_ylim() for k in (one, other)), strict=True)
            for k in (one, other):
                axes[k].set_ylim(min(low), max(high) + 0.5)
        axes[-1].set_xscale("function", functions=(np.sqrt, np.square))
        axes[-1].set_xticks([0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100])
        axes[-1].set(xlabel="KL to the reference, nats", xlim=(0, 121))
        drawn.savefig(target / FIGURE, metadata={"Date": None, "Creator": None})
        plt.close(drawn)


def _label(ax: Any, text: str, end: pd.Series, colour: str, up: float = 0) -> None:
    """What a curve is, where it ends; below its end where that is near the others."""
    beside = (6, up) if up or end.iloc[0] > NEAR else (4, -14)
    ax.annotate(
        text,
        tuple(end),
        xytext=beside,
        textcoords="offset points",
        color=colour,
        va="center",
        fontsize=11,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8},
    )


# ------------------------------------------------------------------------------------------------ the page


def _mean(numbers: Iterable[float], digits: int = 2) -> str:
    """A mean over seeds, and its 95 % interval."""
    mean, low, high = aggregate(list(numbers))
    if low == high:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _rate(lr: float) -> str:
    return f"{lr:g}" if lr >= 1e-4 else f"{lr:.0e}"


def _markdown(rows: list[tuple[str, ...]], *, left: int) -> str:
    """A table; all columns but the first few are aligned to the right."""
    head, *body = rows
    rule = tuple(":---" if i < left else "---:" for i in range(len(head)))
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body])


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part
    for part in (
        machine,
        figure,
        overoptimisation,
        peak_or_no_peak,
        seed_by_seed,
        ladder_and_fall,
        ladder,
        best_of_n,
        reward_models,
        methods,
        rates,
        chain,
    )
}


def made(text: str) -> str:
    """The page's text, with the parts that are made from what is recorded."""
    return MADE.sub(lambda m: f"% made: {m[1]}\n\n{PARTS[m[1]]()}\n\n% end\n", text)


if __name__ == "__main__":
    draw()
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
