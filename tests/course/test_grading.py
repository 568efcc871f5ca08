"""Whole submissions: what they earn; those of a cheat earn nothing, and harm nobody."""

import json
import re
import time
from pathlib import Path

import far_answers
import filled_in
import pytest

from ppobook.course import masters
from ppobook.course.grading import grade_submission, part_seeds
from ppobook.course.sandbox import Limits
from ppobook.teaching import checks

MASTERS = Path(__file__).parents[2] / "exercises" / "masters"
NAMES = sorted(path.stem for path in MASTERS.glob("*.ipynb"))
SECRET = "5f0c" * 16


def pack_of(name):
    master = masters.read(MASTERS / f"{name}.ipynb")
    return filled_in.pack_of(name, masters.reader(master)), masters.solutions(master)


def part_of(name, exercises):
    """A pack of some exercises of a set, and their solutions: its first code cell, and theirs."""
    pack, solutions = pack_of(name)
    cells = pack.notebook["cells"]
    kept = [next(c for c in cells if c["cell_type"] == "code")]
    kept += [c for c in cells if {t.split(":")[1] for t in masters.tags(c) if ":" in t} & set(exercises)]
    small = filled_in.pack_of(name, pack.notebook | {"cells": kept})
    return small, {key: solutions[key] for key in exercises}


def filled(pack, answers):
    return json.dumps(masters.fill(pack.notebook, answers)).encode()


PACK, SOLUTIONS = part_of("03_the_clipped_surrogate", ["clipped-loss", "ratio-one", "eps-kl"])
RIGHT = {name: solution.source for name, solution in SOLUTIONS.items()}
LIMITS = Limits(seconds=15.0, cell_seconds=60.0, memory_mb=900, processes=40)


def grade(answers=(), *, before=(), behind=(), limits=LIMITS):
    """Grade the right answers with some of them replaced, and with cells of the student's around them."""
    first, *others = masters.fill(PACK.notebook, RIGHT | dict(answers))["cells"]
    own = [
        {"cell_type": "code", "id": f"mine-{i}", "metadata": {}, "source": source, "outputs": []}
        for i, source in enumerate([*before, *behind])
    ]
    cells = [first, *own[: len(before)], *others, *own[len(before) :]]
    submission = json.dumps(PACK.notebook | {"cells": cells}).encode()
    return grade_submission(PACK, submission, limits=limits, seed=part_seeds(SECRET, "ada", b""))


def points(result):
    return sum(part.points for part in result.parts.values())


def kinds(result):
    return {name: part.kind for name, part in result.parts.items()}


ALL_RIGHT = dict.fromkeys(RIGHT, "right")


# --- the book's own solutions


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n[:2] in ("01", "02", "06") else n for n in NAMES],
)
def test_the_masters_solutions_are_right_and_its_blanks_are_not_yet(name):
    pack, solutions = pack_of(name)
    result = grade_submission(pack, filled(pack, solutions), seed=part_seeds(SECRET, "eve", b""))
    assert {part: found.said for part, found in result.parts.items() if found.kind != "right"} == {}
    assert points(result) == sum(part.points for part in pack.tested) > 0
    blank = grade_submission(pack, json.dumps(pack.notebook).encode())
    assert set(kinds(blank).values()) == {"not yet"}


def test_planted_answers_get_the_verdict_that_they_get_here(grader):
    assert grader.cell(far_answers.cell(), 300.0) is None
    for place in [p for p in far_answers.planted() if p[2] != "capstone-learning"][5::300]:
        module, table, name, keys = place
        near = checks.run(name, far_answers.here(*place))
        grader.sandbox.deadline = time.monotonic() + 300
        far = checks.run(name, grader.name(f"planted({module!r}, {table!r}, {name!r}, *{keys!r})"))
        assert (far.kind, far.name) == (near.kind, near.name), place


def test_the_generators_do_not_tell_what_the_problems_are_drawn_from():
    source = "def clipped_loss(*given): raise Exception(torch.initial_seed())"
    first, second = (grade({"clipped-loss": source}).parts["clipped-loss"].said[0] for _ in range(2))
    assert first == second
    (number,) = re.findall(r"Exception: (\d+)", first)
    hidden = part_seeds(SECRET, "ada", b"")("clipped-loss")
    assert int(number) % 2**32 != hidden % 2**32


def test_half_a_character_is_no_harm():
    result = grade(
        {"clipped-loss": "def clipped_loss(*given): raise ValueError(chr(0xD83D))"},
        before=["raise ValueError(chr(0xD83D))  # \ud83d"],
    )
    assert kinds(result) == ALL_RIGHT | {"clipped-loss": "raised"}
    assert "\N{REPLACEMENT CHARACTER}" in result.parts["clipped-loss"].said[0]
    assert [error["message"] for error in result.errors] == ["\N{REPLACEMENT CHARACTER}"]


def test_cells_have_half_of_the_time_and_what_is_defined_is_judged():
    limits = Limits(cell_seconds=900.0, submission_seconds=60.0)
    result = grade(behind=["import time; time.sleep(999)"] * 2, limits=limits)
    assert kinds(result) == ALL_RIGHT
    assert [error["type"] for error in result.errors] == ["TooSlow", "TooSlow"]
    assert "took more than half" in result.errors[1]["message"]
    result = grade(limits=Limits(submission_seconds=0.0))
    assert set(kinds(result).values()) == {"ended"}


# --- what ends, and what stays; see test_hostile.py for what is meant to do harm


def test_a_process_that_ends_again_and_again_is_left():
    result = grade({name: "import os; os._exit(0)" for name in RIGHT}, before=["import os; os._exit(0)"])
    assert points(result) == 0
    assert set(kinds(result).values()) <= {"missing", "ended"}


def test_threads_that_stay_do_not_matter():
    spin = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()"
    slow = Limits(seconds=120.0, cell_seconds=60.0, memory_mb=900)  # two threads share one interpreter
    assert kinds(grade(before=[spin], limits=slow)) == ALL_RIGHT


def test_a_name_that_was_deleted_is_missing_and_one_that_comes_later_counts():
    result = grade({"eps-kl": RIGHT["eps-kl"] + "\ndel " + PACK.tested[-1].expression})
    assert result.parts["eps-kl"].kind == "missing"
    assert "is not defined" in result.parts["eps-kl"].said[0]
    assert kinds(grade({"eps-kl": "x = 1"}, behind=[RIGHT["eps-kl"]])) == ALL_RIGHT
    assert grade({"eps-kl": f"{PACK.tested[-1].expression} = 7"}).parts["eps-kl"].kind == "returned"
