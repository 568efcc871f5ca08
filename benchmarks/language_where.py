"""Where a step of ours goes, and what its arithmetic alone would take. `make bench-language` runs it as well.

    python benchmarks/language_where.py             # three seeds, some minutes
    python benchmarks/language_where.py --quick     # one seed of the small model
    python benchmarks/language_where.py --record    # write to results/, which the site's page is made from

Each job counts what a step multiplies, and has torch's profiler look at others (`language_profile.py`).
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

import harness
import language_jobs
from language_jobs import DECODER, LARGE, LARGE_SEEDS, SMALL
from language_race import start
from race import Line, number, write

from ppobook.experiments.engines import machine

NAME = "language_race_where"
MEASURES = (
    "milliseconds",
    "gflop",
    "gflops_of_one_product",
    "products",
    "attention",
    "each_number",
    "between",
)


def measured(sizes: list[tuple[int, int]], seeds: range) -> tuple[list[Line], dict[str, Any]]:
    """One number a line, as in the race's own table; and what stands beside that table."""
    races = [one for one in language_jobs.bench() if one.goal is not None and one.size in sizes]
    start(races)
    lines = []
    for seed in seeds:
        for race in races:
            job = next(job for job in race.jobs(seed) if job["label"] == DECODER)
            found = harness.run_job({**job, "worker": "language_profile"})
            print(
                f"{race.name}, seed {seed}: " + ", ".join(f"{m} {number(found[m])}" for m in MEASURES),
                flush=True,
            )
            who = {"race": race.name, "contestant": DECODER, "seed": seed}
            lines += [{**who, "measure": measure, "value": found[measure]} for measure in MEASURES]
    facts = {
        "name": NAME,
        "note": "One job at a time, each in its own process with one thread. products, attention, "
        "each_number and between: shares of a step's time, under torch's profiler. gflop: multiplications "
        "and additions of a step's products. gflops_of_one_product: so many a second of one product alone.",
        "date": datetime.now(UTC).date().isoformat(),
        "made_by": "benchmarks/language_where.py",
        "machine": machine(),
        "versions": found["versions"],
        "seeds": list(seeds),
    }
    return lines, facts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="language_where", description="Where a step of ours goes.")
    parser.add_argument("--quick", action="store_true", help="one seed, and the small model only")
    parser.add_argument("--record", action="store_true", help="write to results/, and make the page again")
    options = parser.parse_args(arguments)
    lines, facts = (
        measured([SMALL], LARGE_SEEDS[:1]) if options.quick else measured([SMALL, LARGE], LARGE_SEEDS)
    )
    write(NAME, lines, facts, recorded=options.record)
    if options.record:
        import language_page

        language_page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
