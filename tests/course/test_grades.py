"""Grades for Canvas, Moodle and plain."""

import csv
import io
from dataclasses import replace

import pytest
from made_up_class import SHEET, STUDENTS

from ppobook.course import grades
from ppobook.course.gradebook import PartScore, Score
from ppobook.course.grades import Column


def score(student, points, *, waiting=False, share=1.0, comment="") -> Score:
    why = PartScore(3, None if waiting else 0.0, comment=comment)
    return Score(student, {"a": PartScore(7, points), "why": why}, share)


COLUMN = Column(
    SHEET,
    {
        "ada": score("ada", 7, comment="=HYPERLINK(1)"),
        "bob": score("bob", 5.5, share=0.9),
        "eve": score("eve", 3, waiting=True),
        "zoe": Score("zoe", {}, excused="joined later"),
    },
    {"bob": "1"},
)


def rows(form: str, column: Column = COLUMN) -> list[list[str]]:
    text = grades.written(grades.table(form, STUDENTS, [column]))
    return list(csv.reader(io.StringIO(text, newline="")))


def test_plain():
    head, *lines = rows("plain")
    found = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    assert [found[s]["week-03 points"] for s in found] == ["7", "4.95", "", "", ""]
    assert found["bob"]["last_name"] == "O'Neil, Jr."
    assert (found["bob"]["week-03 late_days"], found["bob"]["week-03 before_late"]) == ("1", "5.5")
    statuses = ["graded", "graded", "not marked yet", "nothing graded", "excused"]
    assert [found[s]["week-03 status"] for s in found] == statuses
    assert found["zoe"]["last_name"] == "'=Zoe"
    anew = replace(COLUMN, to_grade={"ada", "mel"})
    assert [(line[5], line[-1]) for line in rows("plain", anew)[1::3]] == [("", "to grade"), ("", "to grade")]
    with pytest.raises(ValueError, match="form must be one of 'plain', 'canvas', 'moodle'"):
        rows("gradescope")


def test_canvas_has_the_numbers_of_the_roster():
    head, possible, ada, *_, zoe = rows("canvas", replace(COLUMN, sheet=replace(SHEET, title="Sheet 3")))
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Sheet 3"]
    assert possible == ["    Points Possible", "", "", "", "", "10"]
    assert ada == ["Lovelace, Ada", "900", "", "ada", "", "7"]
    assert zoe[-1] == "EX"


def test_moodle():
    head, ada, bob, eve, *_ = rows("moodle")
    assert head == ["ID number", "Email address", "week-03", "week-03 feedback"]
    assert ada == ["ada", "ada@example.org", "7", "why: =HYPERLINK(1)"]
    assert (bob[2:], eve[2:]) == (["4.95", ""], ["", ""])


@pytest.mark.parametrize("cell", ["=1", "+1 (0)", "-x", "@SUM(1)", " =1", "\t=1", "\r\n=1", "＝1"])
def test_no_cell_is_a_formula(cell):
    assert grades.as_text(cell) == f"'{cell}"
