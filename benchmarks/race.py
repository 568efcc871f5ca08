"""The race: PPO and TRPO of this book beside what one would pick instead. `make bench` runs it.

    python benchmarks/race.py                   # five seeds: most of an hour at the worst
    python benchmarks/race.py --quick           # two seeds, shorter runs: under five minutes
    python benchmarks/race.py --list            # what would run
    python benchmarks/race.py --only reach_cartpole,rate_zoo
    python benchmarks/race.py --what forms      # other recordings: forms, many (seeds), curves
    python benchmarks/race.py --record          # write to results/, which the site's page is made from

Each library has an environment of its own under benchmarks/.venvs, which the first run makes. Jobs run one at
a time, each in its own process with one thread; the jobs of a row and seed run back to back, ours first. What
is done is kept in benchmarks/.done: a stopped race goes on where it was. A job of ours is run again when the
library has changed, and the jobs that it is compared with are run again with it.

CleanRL and PureJaxRL have no package with their ppo.py in it. The files are fetched from their repositories
by commit, and checked; CLEANRL=PATH and PUREJAXRL=PATH take a checkout from this machine. Where they can't be
had their rows are named as skipped.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import json
import math
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import harness
import jobs
import ratios
import settings
from jobs import Job, Race

from ppobook.experiments.engines import machine

Result = dict[str, Any]
# One line of the table: a race, a contestant, a seed, what was measured, and the number.
Line = dict[str, Any]

LISTS = {
    "bench": jobs.bench,
    "quick": jobs.quick,
    "many": jobs.many_seeds,
    "curves": jobs.curves,
    "forms": jobs.forms,
}
# The folder of each list in results/.
NAMES = {
    "bench": "race",
    "quick": "race",
    "many": "race_many_seeds",
    "curves": "race_curves",
    "forms": "race_forms",
}


# The simulators that some environments need: the module, and the extra of ours that brings it.
NEEDS = {"Hopper-v5": ("mujoco", "mujoco"), "LunarLander-v3": ("Box2D", "box2d")}


# ---------------------------------------------------------------------------------------------- running it


def without(races: Sequence[Race], absent: dict[str, str]) -> tuple[list[Race], list[dict[str, str]]]:
    """The races without contestants that can't be had, and what was left out, by name."""
    kept, skipped = [], []
    for race in races:
        present = [job for job in race.jobs(race.seeds[0]) if job["peer"] not in absent]
        lacking = next((NEEDS[env] for job in present if (env := job.get("env")) in NEEDS), None)
        if lacking is not None and importlib.util.find_spec(lacking[0]) is None:
            why = f"{lacking[0]} is not installed beside the library; pip install 'ppobook[{lacking[1]}]'"
            skipped.append({"race": race.name, "title": race.title, "contestant": "all", "why": why})
            continue
        for job in race.jobs(race.seeds[0]):
            if job["peer"] in absent:
                skipped.append(
                    {
                        "race": race.name,
                        "title": race.title,
                        "contestant": job["label"],
                        "why": absent[job["peer"]],
                    }
                )
        peers = {job["label"] for job in race.jobs(race.seeds[0])} - {"ours", jobs.PLAIN}
        alone = bool(peers) and not peers & {job["label"] for job in present}
        if present and not alone:
            kept.append(race)
    return kept, skipped


def run(
    races: Sequence[Race], kept_as: str, absent: dict[str, str], *, wait: bool = True
) -> dict[str, list[tuple[Job, Result]]]:
    """Run every job that is not done yet, and return all results, by race."""
    plan = [
        (race, [job for job in unit if job["peer"] not in absent]) for race in races for unit in race.units()
    ]
    waiting = sum(not harness.is_done(kept_as, unit) for _, unit in plan)
    results: dict[str, list[tuple[Job, Result]]] = {race.name: [] for race in races}
    begin, done = time.monotonic(), 0
    for race, unit in plan:
        fresh = not harness.is_done(kept_as, unit)
        if fresh and not wait:
            continue
        found = harness.run_unit(kept_as, unit)
        results[race.name] += zip(unit, found, strict=True)
        if fresh:
            done += 1
            minutes = (time.monotonic() - begin) / 60
            print(f"[{done}/{waiting}, {minutes:4.1f} min] {race.name}: {_said(unit, found)}", flush=True)
    return results


def _said(unit: Sequence[Job], found: Sequence[Result]) -> str:
    """What a unit measured, on one line."""
    words = []
    for job, result in zip(unit, found, strict=True):
        if "milliseconds" in result:
            number = f"{result['milliseconds']:.3g} ms"
        elif "seconds" in result:
            number = f"{result['seconds']:.2f} s"
        elif result.get("reached") is not None:
            there = "in" if result["reached"] else "not in"
            number = f"{there} {result['steps']} steps, {result['cpu_seconds']:.2f} s"
        else:
            number = f"{result['steps'] / result['cpu_seconds']:,.0f} steps/s"
        words.append(f"{job['label']} {number}")
    return "; ".join(words)


# ------------------------------------------------------------------------------------------- what came out


def table(results: dict[str, list[tuple[Job, Result]]]) -> list[Line]:
    """All that was measured, one number a line."""
    lines = []
    for race, found in results.items():
        for job, result in found:
            for measure, value in measures(result).items():
                lines.append(
                    {
                        "race": race,
                        "contestant": job["label"],
                        "seed": job["seed"],
                        "measure": measure,
                        "value": value,
                    }
                )
    return lines


def measures(result: Result) -> dict[str, float]:
    """The numbers of a result that stand in the table."""
    kept = {name: result[name] for name in ("milliseconds", "seconds", "cpu_seconds") if name in result}
    if "steps" in result:
        kept |= {
            "steps": result["steps"],
            "steps_per_second": result["steps"] / result["cpu_seconds"],
            "steps_per_wall_second": result["steps"] / result["wall_seconds"],
        }
    if "start_up_seconds" in result:
        kept["start_up_seconds"] = result["start_up_seconds"]
    if result.get("reached") is not None:
        kept["reached"] = int(result["reached"])
    if "rollout_seconds" in result:
        kept["rollout_share"] = result["rollout_seconds"] / (
            result["rollout_seconds"] + result["update_seconds"]
        )
    return kept


def curve_table(results: dict[str, list[tuple[Job, Result]]]) -> list[Line]:
    """What the policies of the curves earned on the way, one check a line."""
    return [
        {
            "env": job["env"],
            "contestant": job["label"],
            "seed": job["seed"],
            "steps": check["steps"],
            "cpu_seconds": check["cpu_seconds"],
            "return_mean": check["mean"],
            "return_std": check["std"],
        }
        for found in results.values()
        for job, result in found
        for check in result["checks"]
    ]


def comparisons(races: Sequence[Race], lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Ours beside each other contestant, race by race: the two medians, the ratio and its interval."""
    found = []
    for race in races:
        if race.measure in ("cost", "curve"):
            continue
        mine = [line for line in lines if line["race"] == race.name]
        labels = list(dict.fromkeys(line["contestant"] for line in mine))
        for label in labels[1:]:
            kinds = ["cpu_seconds", "steps"] if race.measure == "seconds_to_threshold" else [race.measure]
            for measure in kinds:
                found.append(_compared(race, mine, labels[0], label, measure))
    return found


def _compared(race: Race, lines: Sequence[Line], ours: str, theirs: str, measure: str) -> dict[str, Any]:
    # On the seeds that both have: the longest runs are made on fewer.
    both = set.intersection(*({x["seed"] for x in lines if x["contestant"] == one} for one in (ours, theirs)))
    lines = [line for line in lines if line["seed"] in both]
    first, second = (_numbers(lines, label, measure) for label in (ours, theirs))
    learned = race.measure == "seconds_to_threshold"
    made = (ratios.of_medians if learned else ratios.of_pairs)(first, second)
    goal, limit = race.goals.get(theirs, (None, None))
    if learned and goal is not None and measure == "steps":
        goal = limit = jobs.STEPS_LIMIT
    return {
        "race": race.name,
        "title": race.title,
        "measure": measure,
        "contestant": theirs,
        "ours": _finite(median(first)),
        "theirs": _finite(median(second)),
        "ratio": _finite(made.ratio),
        "low": _finite(made.low),
        "high": _finite(made.high),
        "seeds": made.seeds,
        "not_reached": [sum(map(math.isinf, first)), sum(map(math.isinf, second))] if learned else None,
        "goal": goal,
        "limit": limit,
    }


def alone(races: Sequence[Race], lines: Sequence[Line]) -> list[dict[str, Any]]:
    """What ours may take by itself, and took: the median over seeds."""
    found = []
    for race in races:
        if race.at_most is not None:
            mine = [line for line in lines if line["race"] == race.name]
            took = median(_numbers(mine, "ours", race.measure))
            said = {"race": race.name, "title": race.title, "measure": race.measure}
            found.append({**said, "ours": _finite(took), "limit": race.at_most})
    return found


def _numbers(lines: Sequence[Line], label: str, measure: str) -> list[float]:
    """A contestant's numbers in the order of seeds; infinite where a run did not get there."""
    of_seed: dict[int, dict[str, float]] = {}
    for line in lines:
        if line["contestant"] == label:
            of_seed.setdefault(line["seed"], {})[line["measure"]] = line["value"]
    return [math.inf if row.get("reached") == 0 else row[measure] for _, row in sorted(of_seed.items())]


def median(numbers: Sequence[float]) -> float:
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _finite(number: float) -> float | None:
    """A number as JSON can hold it: four digits, and nothing in place of what does not exist."""
    return float(f"{number:.4g}") if math.isfinite(number) else None


def facts(
    what: str,
    races: Sequence[Race],
    results: dict[str, list[tuple[Job, Result]]],
    lines: Sequence[Line],
    skipped: list[dict[str, str]],
) -> dict[str, Any]:
    """What stands beside the table: settings, seeds, ratios, what was skipped, machine, versions, date."""
    versions: dict[str, dict[str, str]] = {}
    for found in results.values():
        for job, result in found:
            if "versions" in result:
                versions[job["peer"]] = result["versions"]
    return {
        "name": NAMES[what],
        "note": "One job at a time, each in its own process; the jobs of a row and seed run back to back. "
        "cpu_seconds: processor time of training alone. No seed of these was used to settle our settings.",
        "date": datetime.now(UTC).date().isoformat(),
        "made_by": "benchmarks/race.py",
        "machine": machine(),
        "versions": versions,
        "peer_files": {
            peer: {"commit": files["commit"], "sha256": files["files"]}
            for peer, files in settings.PEER_FILES.items()
        },
        "rl_zoo": {"commit": settings.ZOO_COMMIT},
        "races": [_described(race, results[race.name]) for race in races if results[race.name]],
        "comparisons": comparisons(races, lines) if what != "curves" else [],
        "alone": alone(races, lines) if what != "curves" else [],
        "skipped": skipped,
    }


def _described(race: Race, found: Sequence[tuple[Job, Result]]) -> dict[str, Any]:
    contestants: dict[str, dict[str, Any]] = {}
    for job, _ in found:
        kept = {name: value for name, value in job.items() if name not in ("label", "peer", "worker", "seed")}
        contestants.setdefault(job["label"], kept)
    return {
        "name": race.name,
        "title": race.title,
        "measure": race.measure,
        "seeds": sorted({job["seed"] for job, _ in found}),
        "contestants": contestants,
    }


# --------------------------------------------------------------------------------------------- writing it


def as_csv(lines: Sequence[Line]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow(
            {name: f"{value:.5g}" if isinstance(value, float) else value for name, value in line.items()}
        )
    return text.getvalue()


UNITS = {
    "steps_per_second": "steps/s",
    "cpu_seconds": "CPU s",
    "steps": "steps",
    "milliseconds": "ms",
    "seconds": "s",
}


def report(facts: dict[str, Any]) -> str:
    """What came out, as text for a terminal."""
    rows = [("", "", "ours", "theirs", "ours / theirs", "95 % interval", "aimed at")]
    for one in facts["comparisons"]:
        aim = "" if one["goal"] is None else f"{one['goal']:.3g}"
        if one["limit"] not in (None, one["goal"]):
            aim += f" (limit {one['limit']:.3g})"
        interval = (
            "" if one["low"] is None or one["high"] is None else f"{one['low']:.3g} to {one['high']:.3g}"
        )
        rows.append(
            (
                one["title"],
                f"{one['contestant']}, {UNITS[one['measure']]}",
                number(one["ours"]),
                number(one["theirs"]),
                number(one["ratio"]),
                interval,
                aim,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if i < 2 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells))
    lines += [
        f"{one['title'].split(',')[0]}: {one['ours']:.2g} {UNITS[one['measure']]} (at most {one['limit']:g})"
        for one in facts["alone"]
    ]
    lines += [f"skipped: {one['title']}, {one['contestant']}: {one['why']}" for one in facts["skipped"]]
    return "\n".join(line.rstrip() for line in lines)


def number(x: float | None) -> str:
    if x is None:
        return "—"
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def named(races: Sequence[Any], names: str) -> list[Any] | None:
    """The rows of these names, or all; None, and a line that says why, where there is no such row."""
    only = [name for name in names.split(",") if name]
    unknown = sorted(set(only) - {race.name for race in races})
    if unknown:
        print(f"--only: there is no row {unknown[0]!r}; there are {', '.join(race.name for race in races)}")
        return None
    return [race for race in races if not only or race.name in only]


def listed(races: Sequence[Any]) -> str:
    """What would run, a line a row."""
    said = []
    for race in races:
        labels = ", ".join(job["label"] for job in race.jobs(race.seeds[0]))
        said.append(f"{race.name}: {race.title}; {labels}; {len(race.seeds)} seeds")
    return "\n".join(said)


def write(name: str, lines: Sequence[Line], said: dict[str, Any], *, recorded: bool) -> Path:
    """Write table.csv and facts.json to a folder NAME of results/, or of _build/bench; return its parent."""
    where = harness.ROOT / "results" if recorded else harness.ROOT / "_build" / "bench"
    folder = where / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.csv").write_text(as_csv(lines), encoding="utf-8")
    (folder / "facts.json").write_text(
        json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(f"written: {folder.relative_to(harness.ROOT)}")
    return where


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="race", description="Race this book's library against its peers.")
    parser.add_argument("--quick", action="store_true", help="two seeds and shorter runs, under five minutes")
    parser.add_argument("--what", choices=("bench", "forms", "many", "curves"), default="bench")
    parser.add_argument("--only", default="", metavar="NAME,…", help="only these rows")
    parser.add_argument("--list", action="store_true", help="say what would run, and run nothing")
    parser.add_argument("--record", action="store_true", help="write to results/, and draw the page again")
    parser.add_argument("--done", action="store_true", help="run nothing: report what is done so far")
    options = parser.parse_args(arguments)
    what = "quick" if options.quick else options.what
    races = named(LISTS[what](), options.only)
    if races is None:
        return 2
    if options.list:
        print(listed(races))
        return 0

    absent = harness.absent(job["peer"] for race in races for job in race.jobs(race.seeds[0]))
    races, skipped = without(races, absent)
    for one in skipped:
        print(f"skipped: {one['title']}, {one['contestant']}: {one['why']}", flush=True)
    try:
        results = run(races, what, absent, wait=not options.done)
    except harness.JobError as error:
        print(
            f"stopped: {error}. What is done is kept; the same command goes on from there.", file=sys.stderr
        )
        return 1
    results = {name: found for name, found in results.items() if found}
    races = [race for race in races if race.name in results]
    if not races:
        print("nothing is done yet")
        return 0
    lines = curve_table(results) if what == "curves" else table(results)
    said = facts(what, races, results, lines, skipped)
    if what != "curves":
        print(report(said))
    where = write(NAMES[what], lines, said, recorded=options.record)
    import figures
    import page

    figures.draw(where, where)
    if options.record:
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
