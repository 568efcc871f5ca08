"""The benchmark of grading: its made-up class is what it says, and a command's cost counts its children."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from ppobook.course import masters, packs, settings
from ppobook.course.sets import open_set
from ppobook.teaching import checks, tags

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import course_class  # noqa: E402
import course_grading  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return course_class.make(tmp_path_factory.mktemp("course"), 20, 5, endless=2)


@pytest.fixture(scope="module")
def verdict(made):
    """What the check says of a source, as grading asks it."""
    course = settings.load(made.folder)
    handout = packs.released(course, course_class.ASSIGNMENT)
    forms = packs.forms(course, handout)
    names = {one.name: one.expression for one in handout.parts if one.role == "test"}

    def found(part, source):
        space = {}
        exec(f"import numpy as np\nimport torch\n{source}", space)
        return checks.run(part, forms[part].adapter(space[names[part]]), 7)

    return found


def right_answers(made):
    found = masters.solutions(open_set(course_class.SET, made.folder).notebook)
    course = settings.load(made.folder)
    forms = packs.forms(course, packs.released(course, course_class.ASSIGNMENT))
    return {name: form.reference(found[name].source) for name, form in forms.items()}


def test_right_answers_are_right_and_each_mistake_has_a_name(made, verdict):
    right = right_answers(made)
    assert set(right) == set(course_class.MISTAKES)
    for part, source in right.items():
        assert verdict(part, source).right, part
        for old, new in course_class.MISTAKES[part]:
            assert old in source
            assert verdict(part, source.replace(old, new)).kind == "mistake", (part, new)


def kind(right, content):
    cells = json.loads(content)["cells"]
    sources = {p.name: c["source"].strip() for c in cells if (p := tags.part(c)) and p.role == "solution"}
    if any("while True: pass" in cell["source"] for cell in cells):
        return "endless"
    if any("not yet" in source for source in sources.values()):
        return "blank"
    return "right" if sources == right else "wrong"


def test_the_class_is_mixed_as_it_says(made):
    right = {name: source.strip() for name, source in right_answers(made).items()}
    kinds = Counter(kind(right, content) for content in made.handed_in.values())
    assert kinds == {"right": 12, "wrong": 5, "blank": 1, "endless": 2}
    assert {path.parent.name for path in made.submissions.glob("*/week-03.ipynb")} == set(made.handed_in)


def test_what_a_commands_children_use_is_counted(tmp_path):
    burn = "import time\nx = bytearray(40_000_000)\nwhile time.process_time() < 1.0: pass"
    command = [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])",
    ]
    used = course_grading.measured(command, tmp_path)
    assert 1.0 <= used.cpu_seconds < 10.0
    assert used.peak_mb > 40
    with pytest.raises(RuntimeError, match="failed:\nno such"):
        course_grading.measured([sys.executable, "-c", "import sys; sys.exit('no such')"], tmp_path)


def test_the_ratio_is_of_grading_alone():
    rows = [
        {"contestant": who, "step": step, "submissions": size, "cpu_seconds": seconds}
        for who, step, size, seconds in [
            (course_grading.OURS, "grade", 20, 30.0),
            (course_grading.OURS, "grade", 30, 40.0),
            (course_grading.OURS, "feedback", 20, 99.0),
            (course_grading.THEIRS, "grade", 20, 60.0),
            (course_grading.THEIRS, "grade", 30, 90.0),
            (course_grading.THEIRS, "feedback", 20, 1.0),
        ]
    ]
    assert course_grading.ratio(rows, 20).ratio == pytest.approx(1 / 2)
    assert course_grading.ratio(rows, 30).ratio == pytest.approx(4 / 9)
