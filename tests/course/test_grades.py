"""Grades for Canvas, Moodle, Gradescope and plain."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from made_up_class import DUE, ROSTER

from ppobook.course import grades
from ppobook.course.gradebook import PartScore, Score
from ppobook.course.grades import Column


def score(student: str, points: float, *, waiting: bool = False, penalty: float = 0.0) -> Score:
    parts = {"a": PartScore(10, points, None, "", False), "why": PartScore(3, None, None, "", waiting)}
    return Score(student, DUE, parts, penalty)


COLUMN = Column(
    "week-03",
    13,
    {
        "ada": score("ada", 10),
        "bob": score("bob", 7.125, penalty=0.5),
        "eve": score("eve", 3, waiting=True),
        "zoe": score("zoe", 0),
    },
    {"bob": 1},
    {"ada": "=HYPERLINK(1)", "bob": "One day late."},
)


def rows(form: str, template: str | None = None, **options: bool) -> list[list[str]]:
    given = None if template is None else list(csv.reader(io.StringIO(template)))
    made = grades.written(grades.table(form, ROSTER, [COLUMN], given, **options))
    return list(csv.reader(io.StringIO(made, newline="")))


def test_plain():
    head, *lines = rows("plain")
    found = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    assert [found[s]["week-03 points"] for s in found] == ["10", "6.63", "", "", "0"]
    assert found["bob"]["last_name"] == "O'Neil, Jr."
    assert found["bob"]["week-03 late_days"] == "1"
    assert found["bob"]["week-03 before_late"] == "7.13"
    assert found["eve"]["last_name"] == "Ünal"
    statuses = ["graded", "graded", "not marked yet", "nothing graded", "graded"]
    assert [found[s]["week-03 status"] for s in found] == statuses
    assert found["zoe"]["last_name"] == "'=Zoe"
    assert [line[5] for line in rows("plain", zeros=True)[1:]] == ["10", "6.63", "", "0", "0"]
    assert [line[5] for line in rows("plain", unfinished=True)[1:]] == ["10", "6.63", "3", "", "0"]


def test_what_is_to_be_graded_has_no_number_and_is_no_zero():
    anew = replace(COLUMN, to_grade={"ada", "mel"}, scores={"ada": score("ada", 10)})
    assert [anew.final(one, "0", unfinished=False) for one in ("ada", "mel", "eve")] == ["", "", "0"]
    assert anew.final("ada", "0", unfinished=True) == "10"
    assert [anew.status(one) for one in ("ada", "mel", "eve")] == ["to grade", "to grade", "nothing graded"]


def test_canvas():
    head, possible, *lines = rows("canvas")
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "week-03"]
    assert possible == ["    Points Possible", "", "", "", "", "13"]
    assert lines[0] == ["Lovelace, Ada", "", "ada", "ada@example.org", "", "10"]


def test_canvas_from_its_own_export():
    template = (
        "Student,ID,SIS User ID,SIS Login ID,Section,week-02 (11),week-03 (12),Final Score\n"
        ",,,,,Manual Posting,,(read only)\n"
        "    Points Possible,,,,,5,20,(read only)\n"
        '"Lovelace, Ada",901,ADA,ada,A,5,,9\n'
        '"Neil, Bob",902,,Bob@Example.org,A,5,,9\n'
        '"Test, Student",903,,x,A,,,\n'
    )
    head, posting, possible, *lines = rows("canvas", template)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "week-03 (12)"]
    assert posting[-1] == ""
    assert possible[-1] == "20"  # the platform's own
    assert list(grades.other_points(list(csv.reader(io.StringIO(template))), [COLUMN])) == [
        "week-03: the template has 20 points possible, what was released 13; the template's were left as "
        "they are"
    ]
    titled = grades.table(
        "canvas", ROSTER, [replace(COLUMN, title="Sheet 3")], [["Student", "ID", "Sheet 3 (9)"]]
    )
    assert titled == [["Student", "ID", "Sheet 3 (9)"]]
    assert lines == [
        ["Lovelace, Ada", "901", "ADA", "ada", "A", "10"],
        ["Neil, Bob", "902", "", "Bob@Example.org", "A", "6.63"],
    ]
    with pytest.raises(ValueError, match="make the assignment in Canvas first"):
        rows("canvas", "Student,ID,week-04 (1)\n")
    with pytest.raises(ValueError, match="must be what Canvas exports"):
        rows("canvas", "Name,Grade\n")


def test_moodle():
    head, ada, bob, eve, *_ = rows("moodle")
    assert head == ["ID number", "Email address", "week-03", "week-03 feedback"]
    assert ada == ["ada", "ada@example.org", "10", "'=HYPERLINK(1)"]
    assert bob[2:] == ["6.63", "One day late."]
    assert eve[2:] == ["", ""]


def test_moodle_into_its_own_worksheet():
    template = (
        "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Feedback comments\n"
        "Participant 12,Ada Lovelace,ada@example.org,Submitted,,13.00,\n"
        "Participant 13,Eve,eve@example.org,Submitted,4,13.00,old\n"
        "Participant 14,Who,who@example.org,No submission,,13.00,\n"
    )
    _, ada, eve, who = rows("moodle", template)
    assert ada[4:] == ["10", "13.00", "'=HYPERLINK(1)"]
    assert eve[4:] == ["4", "13.00", "old"]
    assert who[4] == ""
    german = (
        "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Feedback als Kommentar\n"
        'Teilnehmer/in12,Ada Lovelace,ada@example.org,Abgegeben,-,"12,00",\n'
        'Teilnehmer/in14,Who,who@example.org,-,-,"12,00",\n'
    )
    _, ada, who = rows("moodle", german)
    assert ada[4:] == ["10", "12,00", "'=HYPERLINK(1)"]
    assert who[3:5] == ["-", "-"]
    (said,) = grades.other_points(list(csv.reader(io.StringIO(german))), [COLUMN])
    assert "has 12 points possible" in said
    with pytest.raises(ValueError, match="must be Moodle's grading worksheet"):
        rows("moodle", "Name,Points\n")


def test_gradescope():
    head, ada, *_ = rows("gradescope")
    assert head == ["First Name", "Last Name", "SID", "Email", "week-03", "week-03 - Max Points"]
    assert ada == ["Ada", "Lovelace", "ada", "ada@example.org", "10", "13"]
    with pytest.raises(ValueError, match="template must be left out for gradescope"):
        rows("gradescope", "a\n")


@pytest.mark.parametrize("cell", ["=1", "+1 (0)", "-x", "@SUM(1)", " =1", "\t=1", "\r\n=1", "＝1"])
def test_no_cell_is_a_formula(cell):
    assert grades.inert(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-1.5", "12", "", "Ünal", "a=b", "O'Neil, Jr.", '"quoted"', "line\nline"])
def test_other_cells_stay(cell):
    assert grades.inert(cell) == cell
    assert list(csv.reader(io.StringIO(grades.written([[cell, "x"]]), newline=""))) == [[cell, "x"]]


def test_reading_a_template(tmp_path):
    path = tmp_path / "export.csv"
    path.write_text("Identifier;Grade\r\n1;2\r\n", encoding="utf-8-sig", newline="")
    assert grades.read(path) == [["Identifier", "Grade"], ["1", "2"]]
    path.write_bytes("Ü".encode("latin-1"))
    with pytest.raises(ValueError, match="must be a CSV file in UTF-8"):
        grades.read(path)
    path.write_text("")
    with pytest.raises(ValueError, match="got an empty one"):
        grades.read(path)


def test_an_unknown_form_is_refused():
    with pytest.raises(
        ValueError, match="form must be one of plain, canvas, moodle, gradescope, got 'excel'"
    ):
        rows("excel")


def test_what_is_not_final_is_said():
    assert list(grades.unfinished([COLUMN])) == ["week-03: answers of 1 student are not marked yet"]
