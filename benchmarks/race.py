"""Race this book's library against Stable-Baselines3, CleanRL, PureJaxRL and TRL. `make bench` runs it.

    python benchmarks/race.py                   # every race: some hours
    python benchmarks/race.py --quick           # two seeds of the races behind our goals: under five minutes
    python benchmarks/race.py --list            # names of the races
    python benchmarks/race.py --only reach_cartpole,rate --seeds 20    # by the beginnings of their names
    python benchmarks/race.py --only real       # on SmolLM2, which `make real` downloads
    python benchmarks/race.py --curves          # the long runs on LunarLander and Hopper
    python benchmarks/race.py --record          # write to results/, and make the site's page again

Each library has an environment of its own under benchmarks/.venvs, which the first run makes. Jobs run one at
a time, each in its own process with one thread; the jobs of a race and seed run back to back. Finished jobs
are kept in benchmarks/.done, so that a race that was stopped goes on; they run again after a change of the
library.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import harness
import pandas as pd
import races as lists
import ratios
from races import Job, Race

from ppobook.experiments.engines import machine

Result = dict[str, Any]
Results = dict[str, list[tuple[Job, Result]]]
MEASURES = ("milliseconds", "peak_mb", "cpu_seconds", "steps", "start_up_seconds")


def run(races: Sequence[Race], absent: dict[str, str]) -> Results:
    """Run what is not done yet, race by race, and return all results. Races without a peer are left out."""
    results: Results = {}
    make_models(races)
    for race in races:
        for seed in race.seeds:
            unit = [job for job in race.jobs(seed) if job["peer"] not in absent]
            if all(job["peer"] == "ours" for job in unit):
                break
            found = harness.run_unit(unit)
            results.setdefault(race.name, []).extend(zip(unit, found, strict=True))
            said = "; ".join(
                f"{job['label']} {shown(result)}" for job, result in zip(unit, found, strict=True)
            )
            print(f"{race.name}, seed {seed}: {said}", flush=True)
    return results


def make_models(races: Sequence[Race]) -> None:
    """Make the folders that the contestants of the language races begin from."""
    jobs = {job["folder"]: job for race in races if "folder" in (job := race.jobs(0)[0])}
    for job in jobs.values():
        harness.run_job({**job, "label": "the model", "worker": job["maker"]})


def shown(result: Result) -> str:
    if "milliseconds" in result:
        return f"{result['milliseconds']:.3g} ms"
    if result["reached"] is not None:
        return f"{'in' if result['reached'] else 'not in'} {result['cpu_seconds']:.2f} s"
    return f"{result['steps'] / result['cpu_seconds']:,.0f} steps/s"


def table(results: Results) -> pd.DataFrame:
    """Return all that was measured, one number per row."""
    rows = []
    for race, found in results.items():
        for job, result in found:
            numbers = {name: result[name] for name in MEASURES if name in result}
            if "steps" in result:
                numbers["steps_per_second"] = result["steps"] / result["cpu_seconds"]
            if result.get("reached") is not None:
                numbers["reached"] = int(result["reached"])
            rows += [(race, job["label"], job["seed"], *number) for number in numbers.items()]
    return pd.DataFrame(rows, columns=["race", "contestant", "seed", "measure", "value"])


def curve_table(results: Results) -> pd.DataFrame:
    """Return the returns on the way, one evaluation per row."""
    rows = [
        (job["env"], job["label"], job["seed"], *(check[x] for x in ("steps", "cpu_seconds", "mean", "std")))
        for found in results.values()
        for job, result in found
        for check in result["checks"]
    ]
    names = ["env", "contestant", "seed", "steps", "cpu_seconds", "return_mean", "return_std"]
    return pd.DataFrame(rows, columns=names)


def report(races: Sequence[Race], found: pd.DataFrame) -> str:
    """Return what came out as text: how many times as fast each of ours is as each peer."""
    lines = []
    for race in races:
        labels = list(dict.fromkeys(found[found.race == race.name].contestant))
        peers = [job["label"] for job in race.jobs(race.seeds[0]) if job["peer"] != "ours"]
        for mine in labels:
            for peer in peers if mine not in peers else []:
                if peer in labels:
                    made = ratios.times_as_fast(found, race.name, mine, peer)
                    goal = race.goals.get((mine, peer))
                    lines.append(
                        f"{race.title:<44} {mine:<22} beside {peer:<12} {made.ratio:6.2f}x "
                        f"({made.low:.2f} to {made.high:.2f})" + (f"  goal {goal}" if goal else "")
                    )
    return "\n".join(lines)


def facts(races: Sequence[Race], results: Results, skipped: dict[str, str]) -> dict[str, Any]:
    """Return what stands beside a table: settings, seeds, machine, versions, date."""
    mine = {race.name: results[race.name] for race in races}
    return {
        "name": races[0].recording,
        "note": "One job at a time, each in its own process with one thread; the jobs of a race and seed run "
        "back to back. cpu_seconds: processor time of training alone. milliseconds: that of one step.",
        "date": datetime.now(UTC).date().isoformat(),
        "made_by": "benchmarks/race.py",
        "machine": machine(),
        "versions": {job["peer"]: result["versions"] for found in mine.values() for job, result in found},
        "races": [
            {
                "name": race.name,
                "title": race.title,
                "seeds": sorted({job["seed"] for job, _ in mine[race.name]}),
                "contestants": {job["label"]: job["settings"] for job, _ in mine[race.name]},
            }
            for race in races
        ],
        "skipped": skipped,
    }


def write(races: Sequence[Race], results: Results, skipped: dict[str, str], *, recorded: bool) -> None:
    """Write table.csv and facts.json of each recording, to results/ or to _build/bench/."""
    where = harness.ROOT / "results" if recorded else harness.ROOT / "_build" / "bench"
    for name in dict.fromkeys(race.recording for race in races):
        mine = [race for race in races if race.recording == name]
        folder = where / name
        folder.mkdir(parents=True, exist_ok=True)
        make = curve_table if name == "race_curves" else table
        rows = make({race.name: results[race.name] for race in mine})
        rows.to_csv(folder / "table.csv", index=False, float_format="%.5g")
        text = json.dumps(facts(mine, results, skipped), indent=1, ensure_ascii=False)
        (folder / "facts.json").write_text(text + "\n", encoding="utf-8")
        print(f"written: {folder.relative_to(harness.ROOT)}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="race", description="Race this book's library against its peers.")
    parser.add_argument("--quick", action="store_true", help="two seeds and shorter runs, under five minutes")
    parser.add_argument("--curves", action="store_true", help="the long runs on LunarLander and Hopper")
    parser.add_argument("--only", default="", metavar="NAME,…", help="races whose names begin like this")
    parser.add_argument("--seeds", type=int, metavar="N", help="so many seeds per race")
    parser.add_argument("--list", action="store_true", help="list the races and run nothing")
    parser.add_argument("--record", action="store_true", help="write to results/, and make the page again")
    options = parser.parse_args(arguments)
    races = lists.quick() if options.quick else lists.curves() if options.curves else lists.bench()
    races = [race for race in races if race.name.startswith(tuple(options.only.split(",")))]
    if not races:
        parser.error(f"--only: no race begins with {options.only!r}; --list shows their names")
    seeds = options.seeds or (2 if options.quick else None)
    if seeds:
        races = [replace(race, seeds=range(100, 100 + seeds)) for race in races]
    if options.list:
        for race in races:
            print(f"{race.name}: {race.title}; {', '.join(job['label'] for job in race.jobs(100))}")
        return 0
    absent = harness.absent(job["peer"] for race in races for job in race.jobs(100))
    for peer, why in absent.items():
        print(f"skipped: {peer}: {why}", flush=True)
    try:
        results = run(races, absent)
    except harness.JobError as error:
        print(f"stopped: {error}. Finished jobs are kept; the same command goes on.", file=sys.stderr)
        return 1
    races = [race for race in races if race.name in results]
    if not races:
        return 1
    if not options.curves:
        print(report(races, table(results)))
    write(races, results, absent, recorded=options.record)
    if options.record:
        import page

        page.draw()
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
