"""Tables and figure of the page "What happens on the tiny world", made from `results/language_*`.

    python tools/language_results.py   # draws the figure and writes reference/language_results.md

Edit the page by hand, except for the parts between a line ``% made: NAME`` and ``% end``. These parts are the
output of the function NAME below, and a test checks that they are current. They contain all measured numbers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ppobook.evaluation import aggregate

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
sys.path.append(str(RESULTS))  # where the experiments are
PAGE = ROOT / "reference" / "language_results.md"
FIGURE = "language_overoptimisation/gold.svg"
MADE = re.compile(r"^% made: (\w+)\n.*?^% end\n", re.S | re.M)
POOLINGS = {"last": "last token", "sum": "sum"}  # what a reward model reads
# The parts of gold and their names on the page.
PARTS_OF_GOLD = {
    "kind": "kind words",
    "grim": "grim words",
    "noun": "the animal",
    "place": "the place",
    "strangers": "other animals and places",
    "errors": "grammar",
    "truncated": "missing end",
}
# The smallest drop from its peak after which we say that gold fell.
FELL = 0.3
Rows = list[tuple[str, ...]]
# The values of β in the tables of gold's parts, of gauges and of texts.
SHOWN_BETAS = (0.0, 0.03, 0.1)


def table_of(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / name / "table.csv")


def facts_of(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((RESULTS / name / "facts.json").read_text(encoding="utf-8"))
    return facts


# ---------------------------------------------------------------------------------------------- the numbers


def peaks(name: str = "language_overoptimisation", by: str = "kl_coef") -> pd.DataFrame:
    """Return, for each run, its highest and its last gold, and the parts of both."""
    rows = []
    for (pooling, setting, seed), run in table_of(name).groupby(["pooling", by, "seed"], sort=False):
        top, end = run.loc[run["gold"].idxmax()], run.iloc[-1]
        rows.append(
            {
                "pooling": pooling,
                by: setting,
                "seed": seed,
                "peak": top["gold"],
                "kl_at_peak": top["kl"],
                **end[["gold", "proxy", "held_out", "kl", "kind_words", "length", "ended", "entropy"]],
                "distinct_2": end["distinct_2"],
                **{f"{part}_at_peak": top[part] for part in PARTS_OF_GOLD},
                **{part: end[part] for part in PARTS_OF_GOLD},
                # Gold fell while the proxy rose.
                "fell": top["gold"] - end["gold"] > FELL and end["proxy"] > top["proxy"],
            }
        )
    return pd.DataFrame(rows)


def at_the_same_kl(columns: list[str]) -> pd.DataFrame:
    """Return columns where the KL first reaches a level: PPO by β, slower PPO and best of n."""
    from language_chain.shared import at_kl

    curves = table_of("language_overoptimisation")
    curves["who"] = [f"PPO, β {beta:g}" for beta in curves["kl_coef"]]
    slow = table_of("language_overoptimisation_controls").query("control == 'slow'").assign(who=SLOW)
    best = table_of("language_best_of_n").query("chosen_by != 'gold'").assign(who=BEST)
    best["pooling"] = best["chosen_by"]
    every = pd.concat([curves, slow, best])
    return at_kl(every, ["pooling", "who", "seed"], LEVELS, columns)


SLOW, BEST = "PPO, β 0, slower", "best of n"
LEVELS = (1, 2, 4)


# ----------------------------------------------------------------------------------------------- the tables


def overoptimisation() -> str:
    groups = peaks().groupby(["pooling", "kl_coef"], sort=False)
    digits = {"peak": 2, "gold": 2, "proxy": 1, "held_out": 1, "kl": 1}
    rows: Rows = []
    for (pooling, beta), runs in groups:
        cells = [_mean(runs[name], some) for name, some in digits.items()]
        rows.append((POOLINGS[pooling], f"{beta:g}", *cells, _fell(runs)))
    head = "reward of | β | highest gold | gold at the end | proxy | held-out model | KL | over a peak"
    return _markdown(head, _by_pooling(rows), left=2)


def _by_pooling(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row[0])


def _fell(runs: pd.DataFrame) -> str:
    return f"{int(runs['fell'].sum())} of {len(runs)}"


def controls() -> str:
    """Compare PPO without a penalty with and without a deduction for completions that do not end."""
    free = peaks().query("kl_coef == 0 and pooling == 'sum'")
    every = peaks("language_overoptimisation_controls", "control").query("control == 'ends'")
    rows = []
    for named, runs in (("none", free), ("1 for a missing end", every)):
        cells = [_mean(runs["gold"]), _mean(runs["length"], 1), _share(runs["ended"]), _fell(runs)]
        rows.append((named, *cells))
    return _markdown("deduction | gold at the end | length | ended, % | over a peak", rows, left=1)


def parts() -> str:
    """Return what each part of gold contributes to it, at the peak and at the end."""
    rows = []
    head = " | ".join(f"{named}: at peak, at end" for named in PARTS_OF_GOLD.values())
    for (pooling, beta), runs in peaks().groupby(["pooling", "kl_coef"], sort=False):
        if beta in SHOWN_BETAS:
            cells = (
                f"{runs[f'{part}_at_peak'].mean():.2f}, {runs[part].mean():.2f}" for part in PARTS_OF_GOLD
            )
            rows.append((POOLINGS[pooling], f"{beta:g}", *cells, _mean(runs["kind_words"], 1)))
    return _markdown(f"reward of | β | {head} | kind words at the end", _by_pooling(rows), left=2)


def gauges() -> str:
    start = table_of("language_overoptimisation").query("update == 0 and kl_coef == 0 and pooling == 'last'")
    every, rows = [("after SFT", "", start)], []
    for (pooling, beta), runs in sorted(peaks().groupby(["pooling", "kl_coef"])):
        if beta in SHOWN_BETAS:
            every.append((POOLINGS[pooling], f"{beta:g}", runs))
    for named, beta, runs in every:
        cells = [_mean(runs["entropy"]), _mean(100 * runs["distinct_2"], 1), _mean(runs["length"], 1)]
        rows.append((named, beta, *cells, _share(runs["ended"])))
    head = "reward of | β | entropy per token, nats | distinct bigrams, % | length | ended, %"
    return _markdown(head, rows, left=2)


def texts() -> str:
    """Return the texts that the policies of one seed write for one prompt."""
    found = json.loads((RESULTS / "language_overoptimisation" / "texts.json").read_text(encoding="utf-8"))
    rows = []
    for one in found:
        if one["prompt"] == found[0]["prompt"] and one["kl_coef"] in (None, *SHOWN_BETAS):
            beta = "SFT" if one["kl_coef"] is None else f"{one['kl_coef']:g}"
            text = one["text"].replace("<eos>", "").strip() + (" ■" if "<eos>" in one["text"] else " …")
            rows.append((POOLINGS[one["pooling"]], beta, text, f"{one['proxy']:.1f}", f"{one['gold']:.1f}"))
    return _markdown("reward of | β | text | proxy | gold", _by_pooling(rows), left=3)


def _ladders() -> dict[tuple[str, bool], pd.DataFrame]:
    """Return rewards by seed and number of kind words, for each kind of reward model."""
    every = table_of("language_ladder").groupby(["pooling", "held_out"])
    return {key: some.pivot(index="seed", columns="kind", values="proxy") for key, some in every}


def ladder() -> str:
    found = _ladders()
    gold = table_of("language_ladder").groupby("kind")["gold"].mean()
    rows = [
        (str(kind), f"{gold[kind]:.2f}", *(_mean(found[name, False][kind]) for name in POOLINGS))
        for kind in gold.index
    ]
    return _markdown(" | ".join(["kind words", "gold", *POOLINGS.values()]), rows, left=0)


def judges() -> str:
    """Return the scale, accuracy, agreement and calibration of the reward models."""
    head = "reward of | learned from | learned standard deviation | accuracy, %"
    head += " | agreement, % | calibration error, points"
    rows = []
    every = table_of("language_ladder").query("kind == 0")
    for (held_out, pooling), some in every.groupby(["held_out", "pooling"]):
        cells = [_mean(100 * some[name], 1) for name in ("accuracy", "agreement", "calibration_error")]
        pairs = "other pairs (held out)" if held_out else "its 3,000 pairs"
        rows.append((POOLINGS[pooling], pairs, _mean(some["scale"]), *cells))
    return _markdown(head, rows, left=2)


def best_of_n() -> str:
    """Return the KL of best of n, and its gold with each kind of reward model and with gold as the judge."""
    rows = []
    for n, some in table_of("language_best_of_n").groupby("n"):
        last, total, gold = (some[some["chosen_by"] == by] for by in ("last", "sum", "gold"))
        kl = f"{last['kl'].mean():.2f}"
        rows.append((str(n), kl, *(_mean(chosen["gold"]) for chosen in (last, total, gold))))
    head = "n | KL | gold, chosen by last token | gold, chosen by sum | gold, chosen by gold"
    return _markdown(head, rows, left=0)


def methods() -> str:
    every = table_of("language_methods")
    head = "steps | method | β | learning rate | gold | proxy | KL | length"
    rows = []
    last = every.groupby(["steps", "method", "seed"], sort=False).tail(1)
    for (steps, method, beta, lr), some in last.groupby(["steps", "method", "beta", "lr"], sort=False):
        cells = [_mean(some[name]) for name in ("gold", "proxy", "kl")]
        cells += [_mean(some["length"], 1), _mean(some["cpu"], 1)]
        rows.append((str(steps), str(method), f"{beta:g}", _rate(lr), *cells))
    return _markdown(f"{head} | CPU s", rows, left=2)


def pairs_of_methods() -> str:
    """Return differences in gold at the end, within each seed."""
    every = table_of("language_methods").groupby(["steps", "method", "seed"], sort=False).tail(1)
    gold = every.pivot(index="seed", columns=["steps", "method"], values="gold")
    batches, rows = sorted(every["steps"].unique()), []
    pairs = [("PPO", "GRPO"), ("PPO", "RLOO"), ("GRPO", "RLOO"), ("online DPO", "DPO"), ("PPO", "online DPO")]
    for one, other in pairs:
        apart = (_apart(gold[steps, one] - gold[steps, other]) for steps in batches)
        rows.append((f"{one} minus {other}", *apart))
    return _markdown(" | ".join(["", *(f"{steps} per batch" for steps in batches)]), rows, left=1)


def chain() -> str:
    every = table_of("language_chain")
    titles = {"sft": "SFT", "reward": "reward model", "ppo": "PPO"}
    rows = []
    for stage, some in every.groupby("stage", sort=False):
        known = some["gold"].notna().all()
        cells = [_mean(some[name]) if known else "" for name in ("gold", "kl", "length")]
        ended = _share(some["ended"]) if known else ""
        rows.append((titles[stage], _mean(some["cpu"], 1), *cells, ended))
    total = every.groupby("seed")["cpu"].sum()
    rows.append(("total", _mean(total, 1), "", "", "", ""))
    return _markdown(" | CPU s | gold afterward | KL to SFT | length | ended, %", rows, left=1)


def machine() -> str:
    facts = facts_of("language_chain")
    known = ", ".join(f"{name} {facts['versions'][name]}" for name in ("python", "torch", "numpy"))
    return f"Recorded on {facts['date']}: {facts['machine']}; {known}."


def penalty_or_speed() -> str:
    """Return differences in gold from PPO without a penalty at the same KL, within each seed."""
    found = at_the_same_kl(["gold"]).set_index(["pooling", "who", "at_kl", "seed"])["gold"].unstack("seed")
    rows = []
    for pooling, named in POOLINGS.items():
        for who in ("PPO, β 0.03", "PPO, β 0.1", "PPO, β 0.3", SLOW, BEST):
            cells = []
            for level in LEVELS:
                free = found.loc[pooling, "PPO, β 0", level]
                key = (pooling, who, level)
                apart = (found.loc[key] - free).dropna() if key in found.index else []
                cells.append(_apart(apart) if len(apart) == 10 else f"reached by {len(apart)} of 10")
            rows.append((named, who, *cells))
    levels = " | ".join(f"KL {level:g}" for level in LEVELS)
    return _markdown(f"reward of | minus PPO, β 0 | {levels}", rows, left=2)


def _apart(numbers: pd.Series) -> str:
    """Format a mean difference, its interval, and the number of seeds above 0."""
    return f"{_mean(numbers)}, {int((numbers > 0).sum())} of {len(numbers)}"


def best_against_trained() -> str:
    """Return the gold of best of n at a policy's last KL minus that policy's gold, over seeds."""
    best = table_of("language_best_of_n")
    lines = []
    for pooling, named in POOLINGS.items():
        for beta in (0.3, 1.0):
            apart = []
            for _, run in peaks().query("pooling == @pooling and kl_coef == @beta").iterrows():
                mine = best[(best["chosen_by"] == pooling) & (best["seed"] == run["seed"])]
                if run["kl"] <= mine["kl"].max():
                    apart.append(float(np.interp(run["kl"], mine["kl"], mine["gold"])) - run["gold"])
            if len(apart) > 2:
                lines.append(f"- {named[0].upper()}{named[1:]}, β {beta:g}: {_mean(apart)}.")
    return "\n".join(lines)


def figure() -> str:
    ends = "; ".join(
        f"{POOLINGS[pooling]}, β {beta:g}: peak {some['peak'].mean():.2f} at KL "
        f"{some['kl_at_peak'].mean():.1f}, end {some['gold'].mean():.2f} at KL {some['kl'].mean():.1f}"
        for (pooling, beta), some in peaks().groupby(["pooling", "kl_coef"], sort=False)
    )
    alt = (
        "Four panels over the KL to the reference, on a square-root scale. The first two show PPO's gold, "
        "with reward models that read the last token and with reward models that sum over tokens. Each has "
        f"a mean curve for each β, darker for smaller β ({ends}), thin curves for the single runs, and best "
        "of n up to 256. The other two show the proxy of the same policies in the same order."
    )
    return f":::{{image}} ../results/{FIGURE}\n:alt: {alt}\n:::"


# ---------------------------------------------------------------------------------------------- the figure


def draw(curves: pd.DataFrame, best: pd.DataFrame, target: Path) -> None:
    """Draw gold and proxy against KL, for PPO's runs and best of n, into a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    panels = [(name, pooling) for name in ("gold", "proxy") for pooling in POOLINGS]
    with plt.rc_context(style.settings()):
        drawn, axes = plt.subplots(4, 1, figsize=(style.WIDTH, 12.0), sharex=True)
        for ax, (name, pooling) in zip(axes, panels, strict=True):
            mine = curves[curves["pooling"] == pooling]
            for _, run in mine.groupby(["kl_coef", "seed"]):
                ax.plot(run["kl"].clip(lower=0), run[name], color=style.colour("ppo"), lw=0.6, alpha=0.3)
            shades = plt.get_cmap("Blues")(np.linspace(0.95, 0.4, mine["kl_coef"].nunique()))
            for shade, (beta, runs) in zip(shades, mine.groupby("kl_coef"), strict=True):
                mean = runs.groupby("update")[["kl", name]].mean()
                ax.plot(mean["kl"], mean[name], color=shade, label=f"β {beta:g}")
            drawing = best[best["chosen_by"] == pooling].groupby("n")[["kl", name]].mean()
            ax.plot(drawing["kl"], drawing[name], color=style.colour("truth"), marker=".", label="best of n")
            ax.set(title=f"{name}, reward of the {POOLINGS[pooling]}", ylabel=name)
        for one, other in ((0, 1), (2, 3)):
            low, high = zip(*(axes[k].get_ylim() for k in (one, other)), strict=True)
            for k in (one, other):
                axes[k].set_ylim(min(low), max(high) + 0.5)
        top = curves["kl"].max()
        axes[-1].set_xscale("function", functions=(np.sqrt, np.square))
        axes[-1].set_xticks([k * k for k in range(0, int(top**0.5) + 1, 1 if top < 130 else 2)])
        axes[-1].set(xlabel="KL to the reference, nats", xlim=(0, 1.1 * top))
        axes[0].legend(ncols=2, loc="lower left", fontsize=13)
        drawn.savefig(target, metadata={"Date": None, "Creator": None})
        plt.close(drawn)


# ------------------------------------------------------------------------------------------------ the page


def _mean(numbers: Iterable[float], digits: int = 2) -> str:
    """Format a mean over seeds and its 95 % interval."""
    mean, low, high = aggregate(list(numbers))
    if low == high:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _share(numbers: Iterable[float]) -> str:
    """Format a mean share in percent and its 95 % interval, limited to 0 and 100."""
    mean, low, high = aggregate(list(numbers))
    low, high = max(low, 0.0), min(high, 1.0)
    return f"{100 * mean:.0f}" + (f" ({100 * low:.0f} to {100 * high:.0f})" if low < high else "")


def _rate(lr: float) -> str:
    return f"{lr:g}" if lr >= 1e-4 else f"{lr:.0e}"


def _markdown(head: str, rows: Rows, *, left: int) -> str:
    """Format a table whose first `left` columns are aligned to the left and the others to the right."""
    rule = [":---" if i < left else "---:" for i in range(head.count(" | ") + 1)]
    return "\n".join(f"| {line} |" for line in [head, *map(" | ".join, [rule, *rows])])


MAKERS = (
    machine,
    figure,
    overoptimisation,
    penalty_or_speed,
    controls,
    parts,
    gauges,
    texts,
    ladder,
    judges,
    best_of_n,
    best_against_trained,
    methods,
    pairs_of_methods,
    chain,
)
PARTS: dict[str, Callable[[], str]] = {maker.__name__: maker for maker in MAKERS}


def made(text: str) -> str:
    """Return the page's text with the parts that are made from the records."""
    return MADE.sub(lambda m: f"% made: {m[1]}\n\n{PARTS[m[1]]()}\n\n% end\n", text)


if __name__ == "__main__":
    draw(table_of("language_overoptimisation"), table_of("language_best_of_n"), RESULTS / FIGURE)
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
