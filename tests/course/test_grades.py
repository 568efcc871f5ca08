"""Grades for Canvas, Moodle and plain."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from made_up_class import STUDENTS

from ppobook.course import grades
from ppobook.course.gradebook import PartScore, Score
from ppobook.course.grades import Column, Grades


def score(student: str, points: float, *, waiting: bool = False, share: float = 1.0) -> Score:
    why = PartScore(3, None if waiting else 0.0)
    return Score(student, {"a": PartScore(10, points), "why": why}, share)


COLUMN = Column(
    "week-03",
    "week-03",
    13,
    {
        "ada": score("ada", 10),
        "bob": score("bob", 7.5, share=0.9),
        "eve": score("eve", 3, waiting=True),
        "zoe": Score("zoe", {}, excused="joined later"),
    },
    {"bob": "1"},
    {"ada": "=HYPERLINK(1)", "bob": "One day late."},
)


def rows(form: str, template: str | None = None, column: Column = COLUMN, **options) -> list[list[str]]:
    given = None if template is None else list(csv.reader(io.StringIO(template)))
    made = grades.written(Grades(STUDENTS, [column], **options).table(form, given))
    return list(csv.reader(io.StringIO(made, newline="")))


def test_plain():
    head, *lines = rows("plain")
    found = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    assert [found[s]["week-03 points"] for s in found] == ["10", "6.75", "", "", ""]
    assert found["bob"]["last_name"] == "O'Neil, Jr."
    assert (found["bob"]["week-03 late_days"], found["bob"]["week-03 before_late"]) == ("1", "7.5")
    statuses = ["graded", "graded", "not marked yet", "nothing graded", "excused"]
    assert [found[s]["week-03 status"] for s in found] == statuses
    assert found["zoe"]["last_name"] == "'=Zoe"
    assert [line[5] for line in rows("plain", missing="0")[1:]] == ["10", "6.75", "", "0", ""]
    assert [line[5] for line in rows("plain", unfinished=True)[1:]] == ["10", "6.75", "3", "", ""]


def test_what_is_to_be_graded_has_no_number_and_is_no_zero():
    anew = replace(COLUMN, to_grade={"ada", "mel"}, scores={"ada": score("ada", 10)})
    found = [line[5] for line in rows("plain", column=anew, missing="0")[1:]]
    assert found == ["", "0", "0", "", "0"]


def test_canvas_has_the_numbers_of_the_roster():
    head, possible, ada, *_, zoe = rows("canvas")
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "week-03"]
    assert possible == ["    Points Possible", "", "", "", "", "13"]
    assert ada == ["Lovelace, Ada", "900", "", "ada", "", "10"]
    assert zoe[-1] == "EX"


def test_canvas_from_its_own_export():
    template = (
        "Student,ID,SIS User ID,SIS Login ID,Section,week-02 (11),week-03 (12),Final Score\n"
        ",,,,,Manual Posting,,(read only)\n"
        "    Points Possible,,,,,5,20,(read only)\n"
        '"Lovelace, Ada",77,ADA,ada,A,5,,9\n'
        '"Neil, Bob",901,,,A,5,,9\n'
        '"Test, Student",903123,,x,A,,,\n'
    )
    head, posting, possible, *lines = rows("canvas", template)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "week-03 (12)"]
    assert (posting[-1], possible[-1]) == ("", "20")  # the platform's own
    assert lines == [
        ["Lovelace, Ada", "77", "ADA", "ada", "A", "10"],
        ["Neil, Bob", "901", "", "", "A", "6.75"],
    ]
    titled = replace(COLUMN, title="Sheet 3")
    assert rows("canvas", "Student,ID,Sheet 3 (9)\n", titled) == [["Student", "ID", "Sheet 3 (9)"]]
    with pytest.raises(ValueError, match="make the assignment in Canvas first"):
        rows("canvas", "Student,ID,week-04 (1)\n")
    with pytest.raises(ValueError, match="must be what Canvas exports"):
        rows("canvas", "Name,Grade\n")


def test_moodle():
    head, ada, bob, eve, *_ = rows("moodle")
    assert head == ["ID number", "Email address", "week-03", "week-03 feedback"]
    assert ada == ["ada", "ada@example.org", "10", "'=HYPERLINK(1)"]
    assert (bob[2:], eve[2:]) == (["6.75", "One day late."], ["", ""])


def test_moodle_into_its_own_worksheet():
    template = (
        "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Feedback comments\n"
        "Participant 12,Ada Lovelace,ada@example.org,Submitted,,13.00,\n"
        "Participant 13,Eve,eve@example.org,Submitted,4,13.00,old\n"
        "Participant 14,Who,who@example.org,No submission,-,13.00,\n"
    )
    _, ada, eve, who = rows("moodle", template)
    assert ada[4:] == ["10", "13.00", "'=HYPERLINK(1)"]
    assert (eve[4:], who[4]) == (["4", "13.00", "old"], "-")
    german = (
        "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Feedback als Kommentar\n"
        'Teilnehmer/in12,Ada Lovelace,ada@example.org,Abgegeben,-,"12,00",\n'
    )
    assert rows("moodle", german)[1][4:] == ["10", "12,00", "'=HYPERLINK(1)"]
    with pytest.raises(ValueError, match="must be Moodle's grading worksheet"):
        rows("moodle", "Name,Points\n")


@pytest.mark.parametrize("cell", ["=1", "+1 (0)", "-x", "@SUM(1)", " =1", "\t=1", "\r\n=1", "＝1"])
def test_no_cell_is_a_formula(cell):
    assert grades.as_text(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-1.5", "12", "", "Ünal", "a=b", '"quoted"', "line\nline"])
def test_other_cells_stay(cell):
    assert list(csv.reader(io.StringIO(grades.written([[cell, "x"]]), newline=""))) == [[cell, "x"]]


def test_reading_a_template(tmp_path):
    path = tmp_path / "export.csv"
    path.write_text("Identifier;Grade\r\n1;2\r\n", encoding="utf-8-sig", newline="")
    assert grades.read(path) == [["Identifier", "Grade"], ["1", "2"]]
    path.write_text("")
    with pytest.raises(ValueError, match="got an empty one"):
        grades.read(path)


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="form must be one of plain, canvas, moodle"):
        rows("gradescope")
