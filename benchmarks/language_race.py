"""The race against TRL: a step of GRPO, PPO, DPO and SFT at equal work. `make bench-language` runs it.

    python benchmarks/language_race.py                # five seeds, about half an hour
    python benchmarks/language_race.py --quick        # two seeds, the small model: some minutes
    python benchmarks/language_race.py --list         # what would run
    python benchmarks/language_race.py --only grpo_2x64
    python benchmarks/language_race.py --blocks 1     # one seed of each row
    python benchmarks/language_race.py --done         # run nothing: report what is done so far
    python benchmarks/language_race.py --record       # write to results/, which the site's page is made from

The interpreter that runs this needs the library with its extra "hf". TRL has two environments of its own
under benchmarks/.venvs, which the first run makes: the last version that has PPO is not the present one. Jobs
run one at a time, each in its own process with one thread; the jobs of a row and seed run back to back. What
is done is kept in benchmarks/.done, and run again when the library has changed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import harness
import language_jobs
import ratios
from language_jobs import Job, Race
from race import _finite, listed, median, named, number, write

from ppobook.experiments.engines import machine

Result = dict[str, Any]
Line = dict[str, Any]
Results = dict[str, list[tuple[Job, Result]]]

NAME = "language_race"
MEASURES = (
    "milliseconds",
    "wall_milliseconds",
    "tokens_per_second",
    "peak_mb",
    "above_imports_mb",
    "load",
)


def start(races: Sequence[Race]) -> None:
    """Make the folders that all contestants begin from."""
    for layers, width in dict.fromkeys(race.size for race in races):
        job = {"label": "the model", "peer": "ours", "worker": "language_start"}
        harness.run_job({**job, "layers": layers, "width": width})


def without(races: Sequence[Race], absent: dict[str, str]) -> tuple[list[Race], list[dict[str, str]]]:
    """The rows whose contestants can be had, and those that were left out, by name."""
    kept, skipped = [], []
    for race in races:
        lacking = [job for job in race.jobs(race.seeds[0]) if job["peer"] in absent]
        if lacking:
            said = {"race": race.name, "title": race.title, "contestant": lacking[0]["label"]}
            skipped.append({**said, "why": absent[lacking[0]["peer"]]})
        else:
            kept.append(race)
    return kept, skipped


def run(races: Sequence[Race], kept_as: str, *, wait: bool = True) -> Results:
    """Run every job that is not done yet, seed by seed over all rows, and return all results, by row."""
    seeds = sorted({seed for race in races for seed in race.seeds})
    plan = [(race, race.jobs(seed)) for seed in seeds for race in races if seed in race.seeds]
    fresh = [not harness.is_done(kept_as, unit) for _, unit in plan]
    if wait and any(fresh):
        start(races)
    results: Results = {race.name: [] for race in races}
    begin, done = time.monotonic(), 0
    for (race, unit), new in zip(plan, fresh, strict=True):
        if new and not wait:
            continue
        found = harness.run_unit(kept_as, unit)
        results[race.name] += zip(unit, found, strict=True)
        if new:
            done += 1
            minutes = (time.monotonic() - begin) / 60
            said = ", ".join(
                f"{job['label']} {result['milliseconds']:.3g} ms"
                for job, result in zip(unit, found, strict=True)
            )
            print(f"[{done}/{sum(fresh)}, {minutes:4.1f} min] {race.name}: {said}", flush=True)
    return results


def table(results: Results) -> list[Line]:
    """All that was measured, one number a line."""
    return [
        {
            "race": race,
            "contestant": job["label"],
            "seed": job["seed"],
            "measure": name,
            "value": result[name],
        }
        for race, found in results.items()
        for job, result in found
        for name in MEASURES
        if name in result
    ]


def comparisons(races: Sequence[Race], lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Each of ours beside theirs: medians, the ratio of processor times and its interval, memory."""
    found = []
    for race in races:
        mine = [line for line in lines if line["race"] == race.name]
        *ours, theirs = dict.fromkeys(line["contestant"] for line in mine)
        goal, limit = race.goal or (None, None)
        for label in ours:
            made = ratios.of_pairs(*(numbers(mine, one, "milliseconds") for one in (label, theirs)))
            medians = {
                measure: [_finite(median(numbers(mine, one, measure))) for one in (label, theirs)]
                for measure in MEASURES
                if measure != "load" and any(line["measure"] == measure for line in mine)
            }
            found.append(
                {
                    "race": race.name,
                    "title": race.title,
                    "contestant": label,
                    "beside": theirs,
                    "ratio": _finite(made.ratio),
                    "low": _finite(made.low),
                    "high": _finite(made.high),
                    "seeds": made.seeds,
                    "goal": goal,
                    "limit": limit,
                    "medians": medians,
                }
            )
    return found


def numbers(lines: Sequence[Line], label: str, measure: str) -> list[float]:
    """A contestant's numbers in the order of seeds."""
    mine = [line for line in lines if line["contestant"] == label and line["measure"] == measure]
    return [line["value"] for line in sorted(mine, key=lambda line: line["seed"])]


def facts(
    races: Sequence[Race], results: Results, lines: Sequence[Line], skipped: list[dict[str, str]]
) -> dict[str, Any]:
    """What stands beside the table: settings, seeds, ratios, what was skipped, machine, versions, date."""
    load = [line["value"] for line in lines if line["measure"] == "load"]
    versions = {job["peer"]: result["versions"] for found in results.values() for job, result in found}
    return {
        "name": NAME,
        "note": "One job at a time, each in its own process with one thread; the jobs of a row and seed run "
        "back to back. milliseconds: processor time from the end of one step to the end of the next, the "
        "median over the steps after the warm-up. load: how many processes wanted a processor, the average "
        "over the minute before a job ended.",
        "date": datetime.now(UTC).date().isoformat(),
        "made_by": "benchmarks/language_race.py",
        "machine": machine(),
        "load": {"median": _finite(median(load)), "least": _finite(min(load)), "most": _finite(max(load))},
        "versions": versions,
        "races": [_described(race, results[race.name]) for race in races],
        "comparisons": comparisons(races, lines),
        "skipped": skipped,
    }


def _described(race: Race, found: Sequence[tuple[Job, Result]]) -> dict[str, Any]:
    return {
        "name": race.name,
        "title": race.title,
        "seeds": sorted({job["seed"] for job, _ in found}),
        "warm_up": race.warm_up,
        "steps": race.steps,
        "settings": {job["label"]: job["settings"] for job, _ in found if "settings" in job},
    }


def report(facts: dict[str, Any]) -> str:
    """What came out, as text for a terminal."""
    rows = [("", "", "ms a step", "theirs", "ratio", "95 %", "aimed at")]
    for one in facts["comparisons"]:
        ours, theirs = one["medians"]["milliseconds"]
        low, high = number(one["low"]), number(one["high"])
        aim = "" if one["goal"] is None else f"{one['goal']:.2g}, at worst {one['limit']:g}"
        rows.append(
            (
                one["title"],
                one["contestant"],
                number(ours),
                number(theirs),
                number(one["ratio"]),
                f"{low} to {high}",
                aim,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"skipped: {one['title']}, {one['contestant']}: {one['why']}" for one in facts["skipped"]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="language_race", description="Race ppobook.language against TRL.")
    parser.add_argument("--quick", action="store_true", help="two seeds, and the small model only")
    parser.add_argument("--only", default="", metavar="NAME,…", help="only these rows")
    parser.add_argument("--blocks", type=int, default=5, metavar="N", help="at most so many seeds a row")
    parser.add_argument("--list", action="store_true", help="say what would run, and run nothing")
    parser.add_argument("--record", action="store_true", help="write to results/, and make the page again")
    parser.add_argument("--done", action="store_true", help="run nothing: report what is done so far")
    options = parser.parse_args(arguments)
    races = language_jobs.quick() if options.quick else language_jobs.bench()
    chosen = named(races, options.only)
    if chosen is None:
        return 2
    races = [replace(race, seeds=race.seeds[: max(1, options.blocks)]) for race in chosen]
    if options.list:
        print(listed(races))
        return 0

    races, skipped = without(races, harness.absent(job["peer"] for race in races for job in race.jobs(0)))
    for one in skipped:
        print(f"skipped: {one['title']}, {one['contestant']}: {one['why']}", flush=True)
    try:
        results = run(races, "language", wait=not options.done)
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
    lines = table(results)
    said = facts(races, results, lines, skipped)
    print(report(said))
    write(NAME, lines, said, recorded=options.record)
    if options.record:
        import language_page

        language_page.draw()
        language_page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
