"""Make the tables and figures of the page "How it compares" from what is recorded in results/.

    python benchmarks/page.py    # draws the figures, writes reference/how_it_compares.md

People edit the page's text. The part between a line ``% made: NAME`` and ``% end`` is replaced by the result
of the function of that name below; a test checks that the page is up to date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import ROOT
from races import FAST, PLAIN
from ratios import Ratio, times_as_fast, wide

RESULTS = ROOT / "results"
PAGE = ROOT / "reference" / "how_it_compares.md"
MADE = re.compile(r"^% made: (\w+)\n.*?^% end\n", re.S | re.M)
# Recordings from before `fast` became opt-in name what was the default then.
FORMER = {
    "ours": FAST,
    "ours, the same GPT-2": "the same GPT-2, fast",
    "ours, our decoder": "our decoder, fast",
}
RECORDINGS = {
    "race": "Rates",
    "race_forms": "PureJaxRL and the cold start",
    "race_many_seeds": "Until it has learned",
    "race_curves": "The long runs",
    "language_race": "Language models",
    "real_race": "A real model",
}


def facts(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name / "facts.json").read_text(encoding="utf-8"))
    return found


def table(name: str, folder: Path = RESULTS) -> pd.DataFrame:
    return pd.read_csv(folder / name / "table.csv").replace({"contestant": FORMER})


def titles(name: str, begins: str = "") -> dict[str, str]:
    """Return the recorded races whose names begin like this, with their titles."""
    return {one["name"]: one["title"] for one in facts(name)["races"] if one["name"].startswith(begins)}


def contestants(found: pd.DataFrame, race: str) -> tuple[list[str], list[str]]:
    """Return the contestants of a race: ours, and the peers."""
    labels = list(dict.fromkeys(found[found.race == race].contestant))
    mine = [label for label in labels if label.endswith((", plain", ", fast"))]
    return mine, [label for label in labels if label not in mine]


# ---------------------------------------------------------------------------------------- the tables


def machine() -> str:
    """Say when and on which machines the races ran, and with which versions."""
    known = {title: facts(name) for name, title in RECORDINGS.items()}
    said = [f"- {title}: {found['date']}, {found['machine']}." for title, found in known.items()]
    versions: dict[str, set[str]] = {}
    for found in known.values():
        for peer in found["versions"].values():
            for package, version in peer.items():
                versions.setdefault(package, set()).add(version)
    versions.pop("ppobook", None)
    listed = ", ".join(f"{package} {' and '.join(sorted(v))}" for package, v in sorted(versions.items()))
    return "\n".join([*said, f"- Versions: {listed}."])


def rates() -> str:
    found = table("race")
    rows = [("", "ours", "compared with", "ours, steps per second", "theirs", "times as fast")]
    for race, title in titles("race", "rate_").items():
        rows += _rows(found, race, title, "steps_per_second")
    return _markdown(rows, left=3)


def forms() -> str:
    """Compare the fast form with the plain one."""
    source = "race" if (table("race").contestant == PLAIN).any() else "race_forms"
    found = table(source)
    rows = [("", "fast, steps per second", "plain", "times as fast")]
    for race, title in titles(source, "rate_").items():
        if not race.startswith("rate_jax"):
            numbers = (_median(wide(found, race, label)["steps_per_second"]) for label in (FAST, PLAIN))
            rows.append((title, *numbers, _ratio(times_as_fast(found, race, FAST, PLAIN))))
    return _markdown(rows, left=1)


def compiled() -> str:
    """Compare with the compiled PureJaxRL, and show the time that compilation takes."""
    found = table("race_forms")
    rows = [("", "ours", "ours, steps per second", "PureJaxRL", "times as fast", "its start-up, CPU s")]
    for race, title in titles("race_forms", "rate_jax").items():
        start = _median(wide(found, race, "PureJaxRL")["start_up_seconds"])
        for row in _rows(found, race, title, "steps_per_second"):
            rows.append((*row[:2], *row[3:], start))
    return _markdown(rows, left=2)


def cold() -> str:
    return _learned("race_forms", "cold_")


def until_learned() -> str:
    return _learned("race_many_seeds", "reach_")


def _learned(name: str, begins: str) -> str:
    found = table(name)
    rows = [("", "", "reached it", "CPU s", "steps", "ours, times as fast")]
    for race, title in titles(name, begins).items():
        mine, peers = contestants(found, race)
        best = FAST if FAST in mine else mine[0]
        for label in [*mine, *peers]:
            one = wide(found, race, label)
            beside = _ratio(times_as_fast(found, race, best, label)) if label in peers else ""
            there = f"{int((one['reached'] == 1).sum())} of {len(one)}"
            rows.append((title, label, there, _median(one["cpu_seconds"]), _median(one["steps"]), beside))
            title = ""
    return _markdown(rows, left=2)


def curves() -> str:
    rows = [("", "", "return at the end, seed by seed", "CPU s", "steps per CPU second")]
    for (env, label), mine in table("race_curves").groupby(["env", "contestant"], sort=False):
        last = mine.sort_values("steps").groupby("seed").last()
        returns = ", ".join(f"{x:.0f}" for x in last["return_mean"])
        speed = _median(last["steps"] / last["cpu_seconds"])
        rows.append((str(env), str(label), returns, _median(last["cpu_seconds"]), speed))
    return _markdown(rows, left=2)


def language() -> str:
    return _steps("language_race")


def real() -> str:
    return _steps("real_race")


def _steps(name: str) -> str:
    found = table(name)
    rows = [("", "ours", "ours, ms", "TRL, ms", "times as fast", "ours, MB", "TRL, MB")]
    for race, title in titles(name).items():
        if race.startswith("generate"):
            continue
        theirs = wide(found, race, "TRL")
        for row in _rows(found, race, title, "milliseconds"):
            if row[1].startswith("our decoder"):
                continue
            memory = (_median(one["peak_mb"]) for one in (wide(found, race, row[1]), theirs))
            rows.append((*row[:2], *row[3:], *memory))
    return _markdown(rows, left=2)


def behind() -> str:
    """List every comparison in which ours is slower than the peer."""
    lines = []
    for name in ("race", "race_forms", "race_many_seeds", "language_race", "real_race"):
        found = table(name)
        for race, title in titles(name).items():
            mine, peers = contestants(found, race)
            if race.startswith(("rate_", "reach_", "cold_")) or name in ("language_race", "real_race"):
                for label in mine:
                    for peer in peers:
                        made = times_as_fast(found, race, label, peer)
                        if made.ratio < 1:
                            lines.append(f"- {title}: {label}, is {_ratio(made)} times as fast as {peer}.")
    return "\n".join(lines) or "In no race above."


def _rows(found: pd.DataFrame, race: str, title: str, measure: str) -> list[tuple[str, ...]]:
    rows = []
    mine, peers = contestants(found, race)
    for label in mine:
        for peer in peers:
            first, second = (_median(wide(found, race, one)[measure]) for one in (label, peer))
            rows.append((title, label, peer, first, second, _ratio(times_as_fast(found, race, label, peer))))
            title = ""
    return rows


def _number(x: float) -> str:
    if not np.isfinite(x):
        return "—"
    return f"{float(f'{x:.3g}'):,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def _median(x: pd.Series) -> str:
    return _number(float(np.median(x.to_numpy())))


def _ratio(one: Ratio) -> str:
    return f"{_number(one.ratio)} ({_number(one.low)} to {_number(one.high)})"


def _markdown(rows: list[tuple[str, ...]], *, left: int) -> str:
    """Return a table; all columns but the first few are aligned to the right."""
    head, *body = rows
    rule = tuple(":---" if i < left else "---:" for i in range(len(head)))
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body])


# --------------------------------------------------------------------------------------- the figures


def speedups(names: Sequence[tuple[str, str]]) -> list[tuple[str, Ratio]]:
    """Return how many times as fast ours is, race by race, for recordings and beginnings of names."""
    rows = []
    for name, begins in names:
        found = table(name)
        for race, title in titles(name, begins).items():
            mine, peers = contestants(found, race)
            for label in mine:
                rows += [(f"{title}, {label} / {x}", times_as_fast(found, race, label, x)) for x in peers]
    return [(label, one) for label, one in rows if 0 < one.ratio < np.inf]


FIGURES = {
    "control": [("race", "rate_"), ("race_many_seeds", "reach_")],
    "tokens": [("language_race", one) for one in ("grpo", "ppo", "dpo", "sft", "rloo")],
}


def figure_control() -> str:
    return _figure("race/ratios.svg", speedups(FIGURES["control"]))


def figure_tokens() -> str:
    return _figure("language_race/ratios.svg", speedups(FIGURES["tokens"]))


def _figure(name: str, rows: list[tuple[str, Ratio]]) -> str:
    slow, fast = (pick(rows, key=lambda row: row[1].ratio) for pick in (min, max))
    alt = (
        f"The other library's time divided by ours in {len(rows)} comparisons, on a logarithmic axis, "
        f"with 95 % intervals. Lowest: {slow[0]} {slow[1].ratio:.3g}. Highest: {fast[0]} {fast[1].ratio:.3g}."
    )
    return f":::{{image}} ../results/{name}\n:alt: {alt}\n:::"


def figure_curves() -> str:
    ends = table("race_curves").sort_values("steps").groupby(["env", "contestant", "seed"]).last()
    said = "; ".join(
        f"{env}, {label}: {', '.join(f'{x:.0f}' for x in mine)}"
        for (env, label), mine in ends["return_mean"].groupby(level=[0, 1], sort=False)
    )
    alt = (
        "Two panels, LunarLander-v3 and Hopper-v5: mean return of 20 episodes against environment steps, one "
        f"thin curve per seed. At the end: {said}."
    )
    return f":::{{image}} ../results/race_curves/curves.svg\n:alt: {alt}\n:::"


def draw(target: Path = RESULTS) -> None:
    """Draw the figures of the page."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    with plt.rc_context(style.settings()):
        for path, made in (
            ("race/ratios.svg", _draw_ratios(speedups(FIGURES["control"]))),
            ("language_race/ratios.svg", _draw_ratios(speedups(FIGURES["tokens"]))),
            ("race_curves/curves.svg", _draw_curves()),
        ):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            made.savefig(target / path, metadata={"Date": None, "Creator": None})
            plt.close(made)


def _draw_ratios(rows: list[tuple[str, Ratio]]) -> Any:
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    figure, ax = plt.subplots(figsize=(style.WIDTH, 0.7 * len(rows) + 1.0))
    for height, (label, one) in enumerate(rows[::-1]):
        ax.plot([one.low, one.high], [height, height], color=style.colour("ppo"), linewidth=2.2)
        ax.plot(one.ratio, height, "o", color=style.colour("ppo"), markersize=7)
        place = (one.high, height)
        ax.annotate(f"{one.ratio:.2g}×", place, xytext=(8, 0), textcoords="offset points", va="center")
        where = ("axes fraction", "data")
        ax.annotate(
            label,
            (0, height + 0.24),
            xycoords=where,
            xytext=(6, 0),
            textcoords="offset points",
            fontsize=13,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},  # the line at 1 stops behind it
        )
    ends = [x for _, one in rows for x in (one.low, one.high)]
    ax.set_xscale("log")
    ax.axvline(1, color=style.colour("ink"), linewidth=1)
    ax.set_xlim(min(1, *ends) / 1.1, max(2, *ends) * 2.5)
    ax.set_ylim(-0.6, len(rows) - 0.2)
    ax.set_yticks([])
    ax.minorticks_off()
    low, high = ax.get_xlim()
    ax.set_xticks([x for x in (0.1, 0.3, 1, 3, 10, 30, 100, 300) if low < x < high])
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}×")
    ax.set_xlabel("times as fast, in processor time")
    return figure


def _draw_curves() -> Any:
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    found = table("race_curves")
    envs = list(dict.fromkeys(found["env"]))
    figure, axes = plt.subplots(len(envs), 1, figsize=(style.WIDTH, 3.4 * len(envs)), squeeze=False)
    for ax, env in zip(axes[:, 0], envs, strict=True):
        for label, colour in (("SB3", "muted"), (FAST, "ppo")):
            mine = found[(found["env"] == env) & (found["contestant"] == label)]
            for i, (_, run) in enumerate(mine.groupby("seed")):
                shown = label if i == 0 else None
                look = {"color": style.colour(colour), "linewidth": 1.6}
                ax.plot(run["steps"] / 1000, run["return_mean"], label=shown, **look)
        ax.set(title=env, xlabel="thousand environment steps", ylabel="mean return")
        ax.set_xlim(0, 560)
        style.label_curves(ax)
    return figure


# ------------------------------------------------------------------------------------------ the page

PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part
    for part in (machine, rates, forms, compiled, cold, until_learned, curves, language, real)
}
PARTS |= {part.__name__: part for part in (behind, figure_control, figure_tokens, figure_curves)}


def made(text: str) -> str:
    """Return the page's text with the parts that are made from the recordings."""
    return MADE.sub(lambda m: f"% made: {m[1]}\n\n{PARTS[m[1]]()}\n\n% end\n", text)


def write() -> None:
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    draw()
    write()
