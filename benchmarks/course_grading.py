"""What grading a class costs, beside plain nbgrader with the same notebooks; and a class of 200, end to end.

    python benchmarks/course_grading.py                 # beside nbgrader; ten minutes where nothing else runs
    python benchmarks/course_grading.py --what whole    # 200 submissions, from the folder to the grades
    python benchmarks/course_grading.py --quick         # a class of four, some minutes
    python benchmarks/course_grading.py --record        # write to results/

Plain nbgrader runs each notebook in a kernel of its own, without a sandbox, and believes what the checks say
in there. CPU seconds are those that the system counts for a command and all processes that it started;
memory is the sum of what is theirs alone and their shares of what they have together (Pss).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import course_class
import psutil
import ratios
from course_class import ASSIGNMENT, CELL_SECONDS, EXERCISES, MadeUp
from harness import ROOT
from race import Line, write

from ppobook.experiments.engines import machine, versions

NAME = "course_grading"
SIZES = (20, 30)  # of the classes that both grade
WHOLE = 200  # submissions that are graded end to end
OURS, THEIRS = "ppobook course", "nbgrader"
Points = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Used:
    """What a command took: CPU seconds and peak memory of all its processes, and seconds by the clock."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float


def measured(command: list[str], folder: Path) -> Used:
    """Run a command and all that it starts, with one thread each.

    Raises
    ------
    RuntimeError
        It failed; the message has what it said last.
    """
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own = {
        name: str(folder / ".jupyter") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    library = {"PYTHONPATH": str(ROOT / "lib"), "PATH": path}
    with (folder / "said.txt").open("w+", encoding="utf-8") as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **single, **own, **library}, stdout=said, stderr=said
        )
        peak = _Peak(process.pid)
        peak.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        peak.over.set()
        peak.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{said.read()[-2000:]}")
    return Used(usage.ru_utime + usage.ru_stime, wall, peak.highest / 2**20)


class _Peak(threading.Thread):
    """Looks at the memory of a process and its descendants, twice a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root, self.highest, self.over = psutil.Process(pid), 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            with suppress(psutil.Error):
                everyone = [self.root, *self.root.children(recursive=True)]
                self.highest = max(self.highest, sum(map(_pss, everyone)))


def _pss(process: psutil.Process) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0  # it has just ended


# --- the two contestants


def ours(made: MadeUp, *steps: str) -> tuple[dict[str, Used], Points]:
    """Run steps of `ppobook course`; what each took, and the points of each tested part by student."""
    commands = {
        "collect": ["collect", ASSIGNMENT, str(made.submissions)],
        "grade": ["grade", ASSIGNMENT, "--processes", "2"],
        "feedback": ["feedback", ASSIGNMENT],
        "grades": ["grades", ASSIGNMENT, "--unfinished"],
    }
    used = {
        step: measured([sys.executable, "-m", "ppobook", "course", *commands[step]], made.folder)
        for step in steps
    }
    found, inside = {}, 0.0
    for student in made.handed_in:
        path = made.folder / "graded" / ASSIGNMENT / f"{student}.json"
        result = json.loads(path.read_text(encoding="utf-8"))["result"]
        found[student] = {name: part["points"] for name, part in result["parts"].items()}
        inside += result["cpu"]
    if used["grade"].cpu_seconds < inside:
        raise RuntimeError("the sandboxes used more than was counted for grading as a whole")
    return used, found


def theirs(made: MadeUp, folder: Path) -> tuple[dict[str, Used], Points]:
    """The same of nbgrader, in an empty folder of its own."""
    source = folder / "source" / ASSIGNMENT
    source.mkdir(parents=True)
    (source / f"{ASSIGNMENT}.ipynb").write_text(json.dumps(made.solved), encoding="utf-8")
    for student, notebook in made.handed_in.items():
        handed_in = folder / "submitted" / student / ASSIGNMENT
        handed_in.mkdir(parents=True)
        (handed_in / f"{ASSIGNMENT}.ipynb").write_bytes(notebook)
    (folder / "nbgrader_config.py").write_text(
        f'c = get_config()\nc.CourseDirectory.course_id = "course"\nc.Execute.timeout = {CELL_SECONDS}\n'
    )
    command = [sys.executable, "-m", "nbgrader"]
    measured([*command, "generate_assignment", ASSIGNMENT, "--create"], folder)
    used = {
        "grade": measured([*command, "autograde", ASSIGNMENT, "--create"], folder),
        "feedback": measured([*command, "generate_feedback", ASSIGNMENT], folder),
    }
    from nbgrader.api import Gradebook

    found: Points = {student: {} for student in made.handed_in}
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        for submission in book.assignment_submissions(ASSIGNMENT):
            for grade in submission.notebooks[0].grades:
                if grade.name.startswith("test-"):
                    found[submission.student.id][grade.name.removeprefix("test-")] = grade.auto_score
    return used, found


# --- the runs


def beside(size: int, seed: int) -> dict[str, dict[str, Used]]:
    """One class, graded by both, one directly after the other; both have to give the same points."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        made = course_class.make(Path(one), size, seed)
        used, points = ours(made, "collect", "grade", "feedback")
        used_there, points_there = theirs(made, Path(other))
    if points != points_there:
        differ = {who: (points[who], points_there[who]) for who in points if points[who] != points_there[who]}
        raise RuntimeError(f"the points must be the same, got {differ}")
    return {OURS: used, THEIRS: used_there}


def whole(size: int, seed: int, endless: int) -> dict[str, Used]:
    """A class, from its folder of notebooks to the grades."""
    with tempfile.TemporaryDirectory() as folder:
        made = course_class.make(Path(folder), size, seed, endless=endless)
        return ours(made, "collect", "grade", "feedback", "grades")[0]


def lines(who: dict[str, Any], used: dict[str, Used]) -> list[Line]:
    """One row for each step."""
    rows = []
    for step, one in used.items():
        numbers = {"cpu_seconds": one.cpu_seconds, "wall_seconds": one.wall_seconds, "peak_mb": one.peak_mb}
        rows.append({**who, "step": step, **{name: round(x, 2) for name, x in numbers.items()}})
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    return rows


def ratio(rows: list[Line], size: int) -> ratios.Ratio:
    """How many times nbgrader's CPU seconds ours are, for grading, over the classes of one size."""
    spent = {
        name: [
            row["cpu_seconds"]
            for row in rows
            if (row["contestant"], row["step"], row["submissions"]) == (name, "grade", size)
        ]
        for name in (OURS, THEIRS)
    }
    return ratios.of_pairs(spent[OURS], spent[THEIRS])


def all_beside(sizes: tuple[int, ...], repeats: int) -> tuple[list[Line], dict[str, Any]]:
    """Classes that both grade: the rows, and what is said of them."""
    rows: list[Line] = []
    for seed in range(repeats):
        for size in sizes:
            for contestant, used in beside(size, seed).items():
                rows += lines({"contestant": contestant, "submissions": size, "seed": seed}, used)
    for size in sizes:
        found = ratio(rows, size)
        print(
            f"{size} submissions, ours to nbgrader's: {found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})"
        )
    words = "Both grade each class, starting included, and give the same points; nbgrader has one process."
    return rows, {"note": words, "seeds": list(range(repeats))}


def all_whole(size: int, seed: int, endless: int) -> tuple[list[Line], dict[str, Any]]:
    """A class of ours, end to end: the rows, and what is said of them."""
    rows = lines({"contestant": OURS, "submissions": size, "seed": seed}, whole(size, seed, endless))
    return rows, {"note": f"{endless} of the submissions never end.", "seeds": [seed]}


def facts(name: str, note: str, also: str = "", **more: Any) -> dict[str, Any]:
    """What stands beside a table."""
    return {
        "name": name,
        "note": f"Exercises {', '.join(EXERCISES)} of chapter 3, in a private variant. {note} Two processes "
        "of ours. CPU seconds are a command's with all its processes; peak_mb is their Pss together, looked "
        f"at twice a second.{f' {also}' if also else ''}",
        "date": datetime.now(UTC).date().isoformat(),
        "made_by": "benchmarks/course_grading.py",
        "machine": machine(),
        "versions": {**versions(), "nbgrader": version("nbgrader")},
        **more,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="course_grading", description="What grading a class costs.")
    parser.add_argument("--what", choices=("beside", "whole"), default="beside")
    parser.add_argument("--quick", action="store_true", help="a class of four, once")
    parser.add_argument("--repeats", type=int, default=1, help="how many classes of each size both grade")
    parser.add_argument("--record", action="store_true", help="write to results/")
    parser.add_argument("--note", default="", help="what else there is to say, such as a busy machine")
    options = parser.parse_args(arguments)
    if shutil.which("bwrap") is None:
        print("grading must have a sandbox: install bubblewrap", file=sys.stderr)
        return 2
    if options.what == "beside":
        name, (rows, said) = NAME, all_beside((4,) if options.quick else SIZES, options.repeats)
    else:
        name, (rows, said) = f"{NAME}_whole", all_whole(*((4, 99, 0) if options.quick else (WHOLE, 99, 2)))
    write(name, rows, facts(name, also=options.note, **said), recorded=options.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
