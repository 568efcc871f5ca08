"""The site's page of the race against TRL: tables and a figure, made from what is recorded in results/.

    python benchmarks/language_page.py    # draws the figure in results/language_race/, writes the page

The page is a text that people edit, as `page.py` describes.
"""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import language_jobs
from figures import _save
from page import ABSENT, MADE, _figure, _markdown, _number, _ratio
from recorded import RESULTS, ROOT

PAGE = ROOT / "reference" / "how_it_compares_language.md"
Facts = dict[str, Any]


def recorded(folder: Path = RESULTS) -> Facts | None:
    """What is recorded so far; None if nothing is."""
    path = folder / "language_race" / "facts.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


# ----------------------------------------------------------------------------------------------- the tables


def machine(facts: Facts) -> str:
    found = {
        name: f"{name} {number}"
        for versions in facts["versions"].values()
        for name, number in versions.items()
        if name in ("python", "torch", "transformers", "accelerate", "datasets")
    }
    trl = " and ".join(sorted(v["trl"] for peer, v in facts["versions"].items() if peer.startswith("trl")))
    load = facts["load"]
    blocks = {one["name"]: len(one["seeds"]) for one in facts["races"]}
    whole = all(blocks.get(one.name) == len(one.seeds) for one in language_jobs.bench())
    lacking = "" if whole else " **This recording is not whole**: rows are missing, or have too few blocks."
    return (
        f"{facts['date']}, {facts['machine']}; {', '.join(found.values())}; trl {trl} (PPO: the older one). "
        f"The load while it ran, processes that wanted a processor at a time with the race's own among them: "
        f"{_number(load['median'])} (the median over jobs; from {_number(load['least'])} to "
        f"{_number(load['most'])}).{lacking}"
    )


def small(facts: Facts) -> str:
    return _steps(facts, language_jobs.SMALL)


def large(facts: Facts) -> str:
    return _steps(facts, language_jobs.LARGE)


def _steps(facts: Facts, size: tuple[int, int]) -> str:
    rows = [("", "", "ours, ms", "TRL, ms", "ours / TRL", "on the wall", "blocks", "aimed at")]
    before = ""
    for one in _of_size(facts, size):
        if one["beside"] != "TRL":
            continue
        ours, theirs = one["medians"]["milliseconds"]
        wall = one["medians"]["wall_milliseconds"]
        name = one["title"].split(",")[0]
        rows.append(
            (
                "" if name == before else name,
                one["contestant"].removeprefix("ours, "),
                _number(ours),
                _number(theirs),
                _ratio(one),
                _number(wall[0] / wall[1]),
                str(one["seeds"]),
                _aim(one),
            )
        )
        before = name
    return _markdown(rows, left=2) if len(rows) > 1 else ABSENT


def where(facts: Facts, folder: Path = RESULTS) -> str:
    """Where our decoder's steps go, and what share of TRL's time their products alone would take."""
    path = folder / "language_race_where" / "table.csv"
    if not path.is_file():
        return ABSENT
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    rows = [("", "width", "products", "attention", "each number", "between", "GFLOP", "floor / TRL")]
    for race in dict.fromkeys(line["race"] for line in lines):
        found: dict[str, list[float]] = {}
        for line in lines:
            if line["race"] == race:
                found.setdefault(line["measure"], []).append(float(line["value"]))
        m = {measure: statistics.median(values) for measure, values in found.items()}
        one = next(
            x for x in facts["comparisons"] if x["race"] == race and x["contestant"] == language_jobs.DECODER
        )
        alone = 1e3 * m["gflop"] / m["gflops_of_one_product"]
        shares = (f"{100 * m[kind]:.0f} %" for kind in ("products", "attention", "each_number", "between"))
        theirs = one["medians"]["milliseconds"][1]
        name, width = one["title"].partition(",")[0], one["title"].rpartition(" ")[2]
        rows.append((name, width, *shares, _number(m["gflop"]), _number(alone / theirs)))
    return _markdown(rows, left=1)


def _aim(one: Facts) -> str:
    return "" if one["goal"] is None else f"{one['goal']:.2g}, at worst {one['limit']:g}"


def _of_size(facts: Facts, size: tuple[int, int]) -> list[Facts]:
    return [one for one in facts["comparisons"] if one["race"].endswith("_{}x{}".format(*size))]


def generation(facts: Facts) -> str:
    rows = [("", "", "ours, tokens a second", "transformers", "ours / theirs, time", "blocks")]
    for one in facts["comparisons"]:
        if one["beside"] == "transformers":
            ours, theirs = one["medians"]["tokens_per_second"]
            size = one["title"].partition(", ")[2]
            who = one["contestant"].removeprefix("ours, ")
            rows.append((size, who, _number(ours), _number(theirs), _ratio(one), str(one["seeds"])))
    return _markdown(rows, left=2) if len(rows) > 1 else ABSENT


def memory(facts: Facts) -> str:
    rows = [("", "", "ours, MB", "theirs, MB", "ours above imports", "theirs above imports")]
    for one in facts["comparisons"]:
        peak, above = one["medians"]["peak_mb"], one["medians"]["above_imports_mb"]
        who = one["contestant"].removeprefix("ours, ")
        rows.append((one["title"], who, *(_number(x) for x in (*peak, *above))))
    return _markdown(rows, left=2)


def settings(facts: Facts) -> str:
    """What is equal, row by row: the settings that have a name on both sides, and those of one side alone."""
    rows = [("", "", "ours", "TRL's", "value")]
    for algorithm, equal in language_jobs.EQUAL.items():
        title = language_jobs.TITLES[algorithm]
        for one in equal:
            rows.append((title, one.what, f"`{one.ours}`", f"`{one.trl}`", f"{one.value}"))
            title = ""
        ours, theirs = (_listed(each[algorithm]) for each in (language_jobs.OURS, language_jobs.TRL))
        rows.append(("", "besides", ours, theirs, ""))
        if algorithm in language_jobs.UNEQUAL:
            left = (_listed(each) for each in language_jobs.UNEQUAL[algorithm])
            rows.append(("", "unlike: left at each one's default", *left, ""))
    return _markdown(rows, left=5)


def _listed(given: Facts) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in given.items())


def worse(facts: Facts) -> str:
    """Every comparison in which ours is behind, in time or memory, or does not reach what was aimed at."""
    lines = []
    for one in facts["comparisons"]:
        who = one["contestant"].removeprefix("ours, ")
        ours, theirs = one["medians"]["peak_mb"]
        if ours > theirs:
            lines.append(
                f"- {one['title']}, {who}: a peak of {_number(ours)} MB, {one['beside']}'s {_number(theirs)}."
            )
        past = one["limit"] is not None and one["ratio"] > one["limit"]
        short = one["goal"] is not None and one["ratio"] > one["goal"]
        if one["ratio"] > 1:
            why = "behind" + (f", and past the limit of {one['limit']:g}" if past else "")
        elif past:
            why = f"past the limit of {one['limit']:g}"
        elif short:
            why = f"more than the {one['goal']:.2g} that was aimed at"
        else:
            continue
        lines.append(f"- {one['title']}, {who}: {_ratio(one)} of {one['beside']}'s time, {why}.")
    return "\n".join(lines) or "In no row above."


def skipped(facts: Facts) -> str:
    lines = [f"- {one['title']}, {one['contestant']}: {one['why']}" for one in facts["skipped"]]
    return "\n".join(lines) or "Nothing was skipped in this recording."


def figure(facts: Facts) -> str:
    said = "; ".join(f"{label} {ratio:.2f}" for label, _, ratio, *_ in shares(facts))
    alt = (
        "How much of TRL's processor time a step of ours takes, row by row, with 95 % intervals and a line "
        f"at 1: {said}."
    )
    return _figure("language_race/shares.svg", alt)


# ---------------------------------------------------------------------------------------------- the figure


def shares(facts: Facts) -> list[tuple[str, str, float, float | None, float | None]]:
    """What the figure shows: a label, whose model, the share of TRL's time, and its interval."""
    return [
        (
            f"{one['title'].split(',')[0]}, {one['contestant'].removeprefix('ours, ')}",
            one["contestant"],
            one["ratio"],
            one["low"],
            one["high"],
        )
        for one in _of_size(facts, language_jobs.SMALL)
        if one["beside"] == "TRL"
    ]


def draw(source: Path = RESULTS, target: Path = RESULTS) -> None:
    """Draw the figure of what is recorded in one folder into another."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    facts = recorded(source)
    if facts is not None and shares(facts):
        with plt.rc_context(style.settings()):
            _save(_drawn(shares(facts)), target / "language_race" / "shares.svg")


def _drawn(rows: list[tuple[str, str, float, float | None, float | None]]) -> Any:
    import matplotlib.pyplot as plt

    from ppobook.teaching import style

    rows = rows[::-1]
    fig, ax = plt.subplots(figsize=(style.WIDTH, 0.42 * len(rows) + 1.0))
    for height, (_, who, ratio, low, high) in enumerate(rows):
        colour = style.colour("ppo" if who == language_jobs.GPT2 else "trpo")
        if low is not None and high is not None:
            ax.plot([low, high], [height, height], color=colour, linewidth=2.2)
        ax.plot(ratio, height, "o", color=colour, markersize=7)
        place = (max(high or ratio, ratio), height)
        ax.annotate(f"{ratio:.2f}", place, xytext=(8, 0), textcoords="offset points", va="center")
    ax.axvline(1, color=style.colour("ink"), linewidth=1)
    ax.set_xlim(0, max(1.1, *(1.15 * (row[4] or row[2]) for row in rows)))
    ax.set_yticks(range(len(rows)), [row[0] for row in rows])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xlabel("share of TRL's processor time")
    return fig


# -------------------------------------------------------------------------------------------------- the page


PARTS: dict[str, Callable[[Facts], str]] = {
    part.__name__: part
    for part in (machine, settings, small, large, where, generation, memory, worse, skipped, figure)
}


def made(text: str, facts: Facts | None) -> str:
    """The page's text, with the parts that are made from what is recorded."""
    return MADE.sub(
        lambda m: f"% made: {m[1]}\n\n{ABSENT if facts is None else PARTS[m[1]](facts)}\n\n% end\n", text
    )


def write() -> None:
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8"), recorded()), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    draw()
    write()
