"""The site's page "How it compares": its tables and figures, made from what is recorded in results/.

    python benchmarks/page.py    # draws the figures in results/race*/, writes reference/how_it_compares.md

The page is a text that people edit. What stands in it between a line ``% made: NAME`` and ``% end`` is
replaced by what the function of that name below makes; a test holds that the page is as they make it now.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd
from figures import draw, speedups
from recorded import PLAIN, ROOT, Facts, Recorded

PAGE = ROOT / "reference" / "how_it_compares.md"
MADE = re.compile(r"^% made: (\w+)\n.*?^% end\n", re.S | re.M)
ABSENT = "*Not recorded yet.*"


# ----------------------------------------------------------------------------------------------- the tables


def machine(recorded: Recorded) -> str:
    lines = []
    for title, facts in (
        ("The bench", recorded.race),
        ("Plain forms and PureJaxRL", recorded.forms),
        ("The longer races", recorded.many),
        ("The curves", recorded.curves),
    ):
        if facts is not None:
            lines.append(f"- {title}: {facts['date']}, {facts['machine']}; {_versions(facts)}.")
    return "\n".join(lines) or ABSENT


def _versions(facts: Facts) -> str:
    """Each package once: a test holds that what contestants share has one version."""
    found: dict[str, str] = {}
    for versions in facts["versions"].values():
        found |= versions
    return ", ".join(f"{name} {number}" for name, number in sorted(found.items()) if name != "ppobook")


def rates(recorded: Recorded) -> str:
    """Rates at equal settings; the last column is the plain form's, from a recording of its own."""
    facts = recorded.race
    if facts is None:
        return ABSENT
    plain = {} if recorded.forms is None else {one["race"]: one for one in _forms(recorded.forms, PLAIN)}
    rows = [("", "beside", "ours, steps a second", "theirs", "ours / theirs", "aimed at", "plain / theirs")]
    for one in facts["comparisons"]:
        if not one["race"].startswith("rate_"):
            continue
        slower = plain.get(one["race"])
        rows.append(
            (
                one["title"],
                one["contestant"],
                _number(one["ours"]),
                _number(one["theirs"]),
                _ratio(one),
                _aim(one),
                "—" if slower is None else _number(one["ratio"] / slower["ratio"]),
            )
        )
    return _markdown(rows, left=2)


def forms(recorded: Recorded) -> str:
    """The fast form beside the plain one."""
    if recorded.forms is None:
        return ABSENT
    rows = [("", "fast, steps a second", "plain", "fast / plain")]
    for one in _forms(recorded.forms, PLAIN):
        if not one["race"].startswith("rate_jax"):
            rows.append((one["title"], _number(one["ours"]), _number(one["theirs"]), _ratio(one)))
    return _markdown(rows, left=1)


def compiled(recorded: Recorded) -> str:
    """Beside PureJaxRL, once it has been compiled, and how long that takes."""
    facts = recorded.forms
    if facts is None:
        return ABSENT
    plain = {one["race"]: one for one in _forms(facts, PLAIN)}
    table = recorded.table("race_forms")
    rows = [("", "ours, steps a second", "plain form", "PureJaxRL", "ours / theirs", "its start, CPU s")]
    for one in _forms(facts, "PureJaxRL"):
        if not one["race"].startswith("rate_jax"):
            continue
        start = table[(table.race == one["race"]) & (table.measure == "start_up_seconds")]["value"].median()
        rows.append(
            (
                one["title"],
                _number(one["ours"]),
                _number(plain[one["race"]]["theirs"]),
                _number(one["theirs"]),
                _ratio(one),
                _number(start),
            )
        )
    return _markdown(rows, left=1)


def _forms(facts: Facts, contestant: str) -> list[Facts]:
    """The rates beside one contestant."""
    return [
        one
        for one in facts["comparisons"]
        if one["contestant"] == contestant and one["measure"] == "steps_per_second"
    ]


def gae(recorded: Recorded) -> str:
    facts = recorded.forms or recorded.race
    return _pairs(facts, lambda one: one["race"].startswith("gae_"), "milliseconds", "loop")


def start_up(recorded: Recorded) -> str:
    facts = recorded.race
    if facts is None:
        return ABSENT
    table = _pairs(facts, lambda one: one["race"] == "start_import", "seconds")
    said = [
        f"`{one['title'].split(',')[0]}` takes {_number(one['ours'])} s; the aim is {one['limit']:g} s."
        for one in facts["alone"]
    ]
    return "\n".join([table, "", *said])


def _pairs(facts: Facts | None, wanted: Callable[[Facts], bool], unit: str, theirs: str = "theirs") -> str:
    if facts is None:
        return ABSENT
    rows = [("", "beside", f"ours, {unit}", theirs, "ours / theirs", "aimed at")]
    for one in filter(wanted, facts["comparisons"]):
        rows.append(
            (
                one["title"],
                one["contestant"],
                _number(one["ours"]),
                _number(one["theirs"]),
                _ratio(one),
                _aim(one),
            )
        )
    return _markdown(rows, left=2)


def cold(recorded: Recorded) -> str:
    """From the start of the process to a return of 475, by processor seconds."""
    facts = recorded.forms
    races = [] if facts is None else [one for one in facts["races"] if one["name"] == "cold_cartpole"]
    if facts is None or not races:
        return ABSENT
    table = recorded.table("race_forms")
    rows = [("", "got there", "CPU s", "steps", "ours / theirs, CPU s")]
    for label in races[0]["contestants"]:
        mine = table[(table.race == "cold_cartpole") & (table.contestant == label)]
        wide = mine.pivot(index="seed", columns="measure", values="value")
        late = wide["reached"] == 0
        compared = [
            one
            for one in facts["comparisons"]
            if (one["race"], one["contestant"], one["measure"]) == ("cold_cartpole", label, "cpu_seconds")
        ]
        rows.append(
            (
                label,
                f"{int((~late).sum())} of {len(wide)}",
                _median(wide["cpu_seconds"].mask(late, np.inf)),
                _median(wide["steps"].mask(late, np.inf)),
                _ratio(compared[0]) if compared else "",
            )
        )
    return _markdown(rows, left=1)


def until_learned(recorded: Recorded) -> str:
    return _learned(recorded, lambda name: name.startswith("reach_") and "trpo" not in name)


def trpo(recorded: Recorded) -> str:
    return _learned(recorded, lambda name: name.startswith("reach_trpo_"))


def _learned(recorded: Recorded, wanted: Callable[[str], bool]) -> str:
    facts = recorded.learned()
    if facts is None:
        return ABSENT
    table = recorded.table(facts["name"])
    rows = [("", "", "got there", "CPU s", "steps", "ours / theirs, CPU s", "ours / theirs, steps")]
    for race in facts["races"]:
        if not wanted(race["name"]):
            continue
        for label in race["contestants"]:
            mine = table[(table.race == race["name"]) & (table.contestant == label)]
            wide = mine.pivot(index="seed", columns="measure", values="value")
            late = wide["reached"] == 0
            found = {
                one["measure"]: one
                for one in facts["comparisons"]
                if one["race"] == race["name"] and one["contestant"] == label
            }
            rows.append(
                (
                    race["title"] if label == "ours" else "",
                    label,
                    f"{int((~late).sum())} of {len(wide)}",
                    _median(wide["cpu_seconds"].mask(late, np.inf)),
                    _median(wide["steps"].mask(late, np.inf)),
                    _ratio(found["cpu_seconds"]) if found else "",
                    _ratio(found["steps"]) if found else "",
                )
            )
    return _markdown(rows, left=2) if len(rows) > 1 else ABSENT


def curves(recorded: Recorded) -> str:
    facts = recorded.curves
    if facts is None:
        return ABSENT
    table = recorded.table("race_curves")
    rows = [("", "", "seeds", "return at the end, seed by seed", "CPU s", "steps a CPU second")]
    for (env, label), mine in table.groupby(["env", "contestant"], sort=False):
        last = mine.sort_values("steps").groupby("seed").last()
        rows.append(
            (
                str(env),
                str(label),
                str(len(last)),
                ", ".join(f"{x:.0f}" for x in last["return_mean"]),
                _number(last["cpu_seconds"].median()),
                _number((last["steps"] / last["cpu_seconds"]).median()),
            )
        )
    return _markdown(rows, left=2)


def cost(recorded: Recorded) -> str:
    if recorded.race is None:
        return ABSENT
    table = recorded.table("race")
    rows = [("", "steps a CPU second", "steps a second on the wall", "share of the rollout")]
    for race in recorded.race["races"]:
        if race["measure"] != "cost":
            continue
        wide = (
            table[table.race == race["name"]]
            .pivot_table(index="contestant", columns="measure", values="value", aggfunc="median", sort=False)
            .reindex(list(race["contestants"]))
        )
        threads = ", 2 threads" if race["name"].endswith("_2") else ""
        for label, one in wide.iterrows():
            rows.append(
                (
                    f"{label}{threads}",
                    _number(one["steps_per_second"]),
                    _number(one["steps_per_wall_second"]),
                    f"{one['rollout_share']:.0%}",
                )
            )
    return _markdown(rows, left=1)


def widths(recorded: Recorded) -> str:
    """What each doubling of the networks' width costs."""
    if recorded.race is None:
        return ABSENT
    table = recorded.table("race")
    mine = table[(table.race == "cost_width_1") & (table.measure == "steps_per_second")]
    rates = mine.groupby("contestant", sort=False)["value"].median()
    if len(rates) < 3:
        return ABSENT
    times = [f"{a / b:.1f}" for a, b in pairwise(rates)]
    first, last = (label.removeprefix("width ") for label in (rates.index[0], rates.index[-1]))
    return (
        f"With the width of the networks it is the other way round. From {first} to {last}, each doubling "
        f"makes a step {', '.join(times[:-1])} and {times[-1]} times as dear."
    )


def worse(recorded: Recorded) -> str:
    """Every comparison in which ours is behind, or does not reach what was aimed at."""
    if recorded.race is None:
        return ABSENT
    longer = {} if recorded.many is None else {_row(one): one for one in recorded.many["comparisons"]}
    comparisons = list(longer.values())  # more seeds of the same rows, or the same ones again
    if recorded.forms is not None:
        beside = ("PureJaxRL", "a plain torch loop")
        comparisons += [one for one in recorded.forms["comparisons"] if one["contestant"] in beside]
    later = {_row(one) for one in comparisons} - longer.keys()
    for one in recorded.race["comparisons"]:
        if _row(one) in later:
            continue
        if _row(one) not in longer or longer[_row(one)]["seeds"] > one["seeds"]:
            comparisons.append(one)
    lines = []
    for one in comparisons:
        if one["ratio"] is None:
            lines.append(f"- {one['title']}, beside {one['contestant']}: half of the runs did not get there.")
            continue
        more = one["measure"] == "steps_per_second"
        behind = one["ratio"] < 1 if more else one["ratio"] > 1
        missed = one["limit"] is not None and (
            one["ratio"] < one["limit"] if more else one["ratio"] > one["limit"]
        )
        short = one["goal"] is not None and (
            one["ratio"] < one["goal"] if more else one["ratio"] > one["goal"]
        )
        if behind or missed or short:
            why = "behind" if behind else "not what was aimed at"
            if missed:
                why = (
                    f"{why}, and past the limit of {_number(one['limit'])}"
                    if behind
                    else (f"past the limit of {_number(one['limit'])}")
                )
            again = longer.get(_row(one), one)
            note = "" if again is one else f" (on {one['seeds']} seeds; the table above has {again['seeds']})"
            what = {"steps_per_second": "rate", "cpu_seconds": "CPU seconds", "steps": "steps"}
            lines.append(
                f"- {one['title']}, beside {one['contestant']}: {_ratio(one)} of its "
                f"{what.get(one['measure'], 'time')}: {why}{note}."
            )
    for one in recorded.race["alone"]:
        if one["ours"] > one["limit"]:
            lines.append(f"- `{one['title']}`: {_number(one['ours'])} s, past the limit of {one['limit']:g}.")
    return "\n".join(lines) or "In no row above."


def _row(one: Facts) -> tuple[str, str, str]:
    return one["race"], one["contestant"], one["measure"]


def skipped(recorded: Recorded) -> str:
    lines = [
        f"- {one['title']}, {one['contestant']}: {one['why']}"
        for facts in (recorded.race, recorded.forms, recorded.many, recorded.curves)
        if facts is not None
        for one in facts["skipped"]
    ]
    return "\n".join(lines) or "Nothing was skipped in this recording."


def figure_ratios(recorded: Recorded) -> str:
    if recorded.race is None:
        return ABSENT
    said = "; ".join(f"{label} {times:.3g}" for label, times, *_ in speedups(recorded))
    alt = (
        f"How many times as fast ours trains, row by row, on a logarithmic axis, with 95 % intervals: {said}."
    )
    return _figure("race/ratios.svg", alt)


def figure_curves(recorded: Recorded) -> str:
    if recorded.curves is None:
        return ABSENT
    table = recorded.table("race_curves")
    ends = table.sort_values("steps").groupby(["env", "contestant", "seed"]).last()["return_mean"]
    said = "; ".join(
        f"{env}, {label}: {', '.join(f'{x:.0f}' for x in mine)}"
        for (env, label), mine in ends.groupby(level=[0, 1], sort=False)
    )
    alt = (
        "Two panels, LunarLander-v3 and Hopper-v5: mean return of 20 episodes against environment steps, one "
        f"thin curve a seed. At the end: {said}."
    )
    return _figure("race_curves/curves.svg", alt)


def figure_cost(recorded: Recorded) -> str:
    if recorded.race is None:
        return ABSENT
    alt = (
        "Two panels with logarithmic axes. Above: processor time of a step against the number of "
        "environments, as a whole, of the rollout and of the update. Below: steps a second on the wall "
        "against the width of the networks, with one thread and with two. The table below has the numbers."
    )
    return _figure("race/cost.svg", alt)


def _figure(name: str, alt: str) -> str:
    return f":::{{image}} ../results/{name}\n:alt: {alt}\n:::"


# ------------------------------------------------------------------------------------------------ numbers


def _number(x: float | None) -> str:
    if x is None or not np.isfinite(x):
        return "—"
    if abs(x) >= 1000:
        return f"{float(f'{x:.3g}'):,.0f}"
    return f"{x:.3g}"


def _median(x: pd.Series) -> str:
    return _number(float(np.median(x.to_numpy())))


def _ratio(one: Facts) -> str:
    if one["ratio"] is None:
        return "—"
    if one["low"] is None or one["high"] is None:
        return _number(one["ratio"])
    return f"{_number(one['ratio'])} ({_number(one['low'])} to {_number(one['high'])})"


def _aim(one: Facts) -> str:
    if one["goal"] is None:
        return ""
    if one["limit"] == one["goal"]:
        return _number(one["goal"])
    return f"{_number(one['goal'])}, at worst {_number(one['limit'])}"


def _markdown(rows: list[tuple[str, ...]], *, left: int) -> str:
    """A table; all columns but the first few are aligned to the right."""
    head, *body = rows
    rule = [":---" if i < left else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, tuple(rule), *body])


# -------------------------------------------------------------------------------------------------- the page


PARTS: dict[str, Callable[[Recorded], str]] = {
    part.__name__: part
    for part in (
        machine,
        rates,
        forms,
        compiled,
        cold,
        until_learned,
        trpo,
        curves,
        gae,
        start_up,
        cost,
        widths,
        worse,
        skipped,
        figure_ratios,
        figure_curves,
        figure_cost,
    )
}


def made(text: str, recorded: Recorded) -> str:
    """The page's text, with the parts that are made from what is recorded."""
    return MADE.sub(lambda m: f"% made: {m[1]}\n\n{PARTS[m[1]](recorded)}\n\n% end\n", text)


def write() -> None:
    recorded = Recorded()
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8"), recorded), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    draw()
    write()
