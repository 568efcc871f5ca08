"""Checks beside an instructor's own exercises: the grader has them, and students never do."""

import json
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from small_course import CHECKS, MESSAGES, write_course
from tiny_book import replace

from ppobook.cli import main
from ppobook.course import checking, masters, own_checks, packs, sets, settings, work
from ppobook.course.grading import grade_submission, part_seeds
from ppobook.course.records import named
from ppobook.course.sandbox import Limits
from ppobook.teaching import checks


def file(folder: Path, ending: str = "_checks.py") -> Path:
    return folder / "exercises" / f"90_doubling{ending}"


def verdict(course: settings.Course, source: str | None):
    """The verdict on what a student has handed in."""
    pack = packs.make(course, course.assignments[0])
    content = json.dumps(masters.fill(pack.notebook, {"double": source} if source else {})).encode()
    limits, seed = Limits(cell_seconds=30.0), part_seeds(course.secret, "ada", content)
    with own_checks.known(sets.open_set(pack.set, course.folder)):
        return grade_submission(pack, content, seed=seed, limits=limits).parts["double"]


# --- grading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "points", "kind"),
    [("2 * x", 2, "right"), ("x * x", 0, "mistake"), (None, 0, "not yet")],
)
def test_an_own_exercise_is_graded(tmp_path, source, points, kind):
    found = verdict(write_course(tmp_path), source and f"def double(x):\n    return {source}")
    assert (found.points, found.kind) == (points, kind)
    if kind == "mistake":
        assert (found.mistake, found.said[0]) == ("squared", "Seen: of 3 your function makes 9.")
        assert found.said[-1] == "Read: chapter 90, Doubling, “Twice as much” (sec-twice)."


def test_a_mended_check_grades_again_and_one_that_cannot_be_loaded_is_refused(tmp_path, capsys):
    course = write_course(tmp_path)
    packs.release(course, "week-01")
    before = work.sheet(course, "week-01").checks
    replace(file(tmp_path), "squared", "squarred")
    assert work.sheet(course, "week-01").checks != before
    file(tmp_path).write_text("import nothing_of_that_name\n")
    assert main(["course", "grade", "week-01", "--course", str(tmp_path)]) == 2
    assert "exercises/90_doubling_checks.py, line 1: ModuleNotFoundError" in capsys.readouterr().err


SPY = """
import gc, sys
from pathlib import Path

def double(x):
    modules = [name for name in sys.modules if "doubling" in name or name.endswith("others")]
    objects = [o for o in gc.get_objects() if isinstance(o, dict) and "sec-twice" in o]
    from ppobook.teaching import checks
    known = [name for name in checks.names() if name == "double"]
    files = [path for path in (Path("FOLDER"), Path("FOLDER").parent) if path.exists()]
    assert not (modules or objects or known or files), (modules, objects, known, files)
    return x + x
"""


def test_a_students_process_has_nothing_of_the_check(tmp_path):
    course = write_course(tmp_path)
    found = verdict(course, SPY.replace("FOLDER", str(file(tmp_path).parent)))
    assert found.kind == "right", found.said


# --- what students get --------------------------------------------------------------------------------------


def test_nothing_of_the_check_is_in_the_pack(tmp_path):
    course = write_course(tmp_path)
    packs.release(course, "week-01")
    path = tmp_path / "release" / "week-01.zip"
    with zipfile.ZipFile(path) as archive:
        text = "\n".join(archive.read(name).decode() for name in archive.namelist())
    text += path.with_suffix(".json").read_text()
    for line in (CHECKS + MESSAGES).splitlines():
        assert len(line.strip()) < 12 or line.strip() not in text
    assert not list(file(tmp_path).parent.glob("**/*.pyc"))


def test_the_test_cell_says_that_it_is_checked_later(tmp_path, capsys):
    course = write_course(tmp_path)
    replace(file(tmp_path, ".md"), 'check("double", double)', 'y = 1\ncheck(\n"double",\ndouble)\ny = 2')
    handout = packs.make(course, course.assignments[0])
    (cell,) = (c["source"] for c in handout.notebook["cells"] if "test:double:2" in masters.tags(c))
    space: dict[str, object] = {}
    exec(cell, space)
    assert capsys.readouterr().out == "double: this exercise is checked when you hand it in.\n"
    assert space["y"] == 2
    assert named(handout.parts, "double").expression == "double"


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"double", section', '"dubble", section', "There is no check named 'double'. Did you mean 'dubble'"),
        ('check("double"', 'check("pg-loss"', "one that no check of the book has, got 'pg-loss'"),
        ("def double(answer):", "def double(answer)", "90_doubling_checks.py, line 10: SyntaxError"),
    ],
)
def test_what_could_not_be_graded_is_not_handed_out(tmp_path, old, new, said):
    course = write_course(tmp_path)
    replace(file(tmp_path), old, new)
    before = dict(checks.names()), set(sys.modules)
    with pytest.raises(ValueError, match=said):
        packs.release(course, "week-01")
    assert not (tmp_path / "release").exists()
    assert (dict(checks.names()), {m for m in sys.modules if "90_doubling" in m}) == (before[0], set())
    assert checks.run("pg-loss", lambda *_: 0).kind == "returned"
    # `course check` says the same.
    looked = checking.check(course, now=datetime(2027, 2, 1, tzinfo=UTC))
    (found,) = (one for one in looked if one[1].startswith("week-01: "))
    assert (found[0], said in found[1]) == ("fails", True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("p.x * 2", "p.x * 3", "accept the solution in exercises/90_doubling.md, and said: "),
        ("got = as_array", "return\n    got = as_array", "refuse the blank, and accepts it"),
    ],
)
def test_a_check_that_is_wrong_about_its_own_solution(tmp_path, old, new, said):
    course = write_course(tmp_path)
    replace(file(tmp_path), old, new)
    (found,) = (one for level, one in checking.check(course) if level == "fails" and "week" in one)
    assert found.startswith(f"week-01: the check of double must {said}")


def test_two_mistakes_with_equal_outputs_fail_the_check(tmp_path):
    course = write_course(tmp_path)
    replace(file(tmp_path), '{"squared": 9}', '{"squared": 9, "cubed": 27, "tripled": either(8, 9)}')
    replace(file(tmp_path), "as_array, recognise", "as_array, either, recognise")
    text = file(tmp_path, "_checks.toml").read_text()
    more = [text.replace("double.squared", f"double.{name}") for name in ("cubed", "tripled")]
    file(tmp_path, "_checks.toml").write_text("\n".join([text, *more]))
    (found,) = (one for level, one in checking.check(course) if level == "fails" and "week" in one)
    assert found.startswith("week-01: mistakes must have different outputs in the checks of exercises/90_d")
    assert found.endswith("got the same for 'squared' and 'tripled'")
