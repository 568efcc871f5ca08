"""Kill grading with kill -9 at random moments, and check that nothing is lost or graded twice.

    python tests/course/kills.py               # twenty kills, a quarter of an hour
    python tests/course/kills.py --kills 6 --students 5

Every other kill is of the whole process group, the others of the command alone, whose processes then have
to end by themselves. Each notebook starts a process that sleeps, so that a sandbox that lived on would be
seen. A moment is drawn by how many submissions are graded and by seconds after that: by the clock alone,
grading would be killed on a busy machine while it starts, each time.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import small_class
from small_class import ASSIGNMENT

ROOT = Path(__file__).parents[2]
CELL = "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\n    os._exit(0)\ntime.sleep(0.3)"
PATIENCE = 300.0  # seconds that something may take on a busy machine before it counts as hanging


class Wrong(Exception):  # noqa: N818
    """A record was lost, graded twice, damaged, or a process was left alive."""


def must(holds: bool, words: str) -> None:
    if not holds:
        raise Wrong(words)


def start(folder: Path) -> subprocess.Popen[bytes]:
    """`ppobook course grade`, in a process group of its own."""
    command = [sys.executable, "-m", "ppobook", "course", "grade", ASSIGNMENT]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        command, cwd=folder, env=env, stdout=quiet, stderr=quiet, stdin=quiet, start_new_session=True
    )


def finish(folder: Path) -> None:
    """Grade what is left, undisturbed."""
    must(start(folder).wait() == 0, "grading failed")


def records(folder: Path) -> dict[str, bytes]:
    """The bytes of each record; each has to be a whole one."""
    found = {path.stem: path.read_bytes() for path in (folder / "graded" / ASSIGNMENT).glob("*.json")}
    for student, content in found.items():
        with suppress(ValueError):
            if json.loads(content)["student"] == student:
                continue
        raise Wrong(f"the record of {student} is no whole one")
    return found


def results(folder: Path) -> dict[str, Any]:
    """Return the results of each submission without the parts that differ from run to run."""
    found = {student: json.loads(content) for student, content in records(folder).items()}
    for record in found.values():
        del record["result"]["cpu"], record["result"]["peak_mb"]
        for part in record["result"]["parts"].values():
            del part["seconds"]
    return found


def all_ended() -> None:
    """Wait until no process is left of those that were started, reaping those that are orphans."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not (left := psutil.Process().children(recursive=True)):
            return
        time.sleep(0.05)
    raise Wrong(f"processes are left alive: {[one.cmdline() for one in left]}")


def kill(folder: Path, draw: random.Random, whole_group: bool) -> tuple[int, int] | None:
    """Start grading and kill it; how many records were there before and after, or None if it was done."""
    before = records(folder)
    awaited, seconds = len(before) + draw.randint(0, 3), draw.uniform(0.0, 2.0)
    process, until = start(folder), time.monotonic() + PATIENCE
    while len(list((folder / "graded" / ASSIGNMENT).glob("*.json"))) < awaited and process.poll() is None:
        must(time.monotonic() < until, "grading hangs")
        time.sleep(0.01)
    with suppress(subprocess.TimeoutExpired):
        must(process.wait(seconds) == 0, "grading failed")
    killed = process.returncode is None
    if killed:
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
    all_ended()
    after = records(folder)
    must({one: after.get(one) for one in before} == before, "a submission was graded twice, or was lost")
    return (len(before), len(after)) if killed else None


def killed(folder: Path, kills: int, seed: int, students: int) -> None:
    """Kill grading so many times, over as many copies of a class of this size as that needs.

    Raises
    ------
    Wrong
        Something was lost, graded twice, damaged or left alive.
    """
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans become this process's children
    draw, fresh, undisturbed = random.Random(seed), folder / "fresh", folder / "undisturbed"
    fresh.mkdir()
    handed_in = small_class.make(fresh, students, seed, cell=CELL)
    collect = [sys.executable, "-m", "ppobook", "course", "collect", ASSIGNMENT, str(handed_in)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "lib")}
    subprocess.run(collect, cwd=fresh, env=env, check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(fresh, undisturbed)
    finish(undisturbed)
    count = classes = 0
    while count < kills:
        classes += 1
        course = folder / f"class-{classes}"
        shutil.copytree(fresh, course)
        while count < kills:
            whole_group = count % 2 == 0
            found = kill(course, draw, whole_group)
            if found is None:
                break
            count += 1
            what = "all processes" if whole_group else "the command"
            print(f"kill {count}, {what}: {found[0]} records before, {found[1]} after", flush=True)
        finish(course)
        all_ended()
        must(results(course) == results(undisturbed), "the records differ from those of an undisturbed run")
        names = {path.relative_to(course) for path in course.rglob("*")}
        other = names ^ {path.relative_to(undisturbed) for path in undisturbed.rglob("*")}
        must(not other, f"files differ from those of an undisturbed run: {sorted(map(str, other))}")
    print(f"{count} kills over {classes} classes of {students}: nothing lost, nothing graded twice")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kills", description="Kill grading at random moments.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--students", type=int, default=8)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        killed(Path(folder), options.kills, options.seed, options.students)
    return 0


if __name__ == "__main__":
    sys.exit(main())
