"""One student's data: all of it is exported, and nothing of it is left when it is erased."""

import zipfile

import pytest
from filled_in import put
from small_course import write_course

from ppobook.cli import main
from ppobook.course import collecting, lateness, roster, settings, trail

WEEK = "week-01"


@pytest.fixture
def course(tmp_path):
    """A course of which every kind of file names ada and bob."""
    made = write_course(tmp_path / "course")
    until = settings.moment("2027-03-07 23:59", made.timezone)
    for who in ("ada", "bob"):
        lateness.extend(made, who, WEEK, until, "ill, as ada was")
    for name in ("ada", "bob", "whose"):
        cell = {"cell_type": "code", "id": name, "source": name}
        put(tmp_path / "in" / f"{name}.ipynb", {"cells": [cell], "nbformat": 4})
    collecting.collect(made, WEEK, tmp_path / "in")
    (unknown,) = (made.folder / "submitted" / WEEK / "_unknown").glob("*/*/week-01.ipynb")
    collecting.collect(made, WEEK, unknown, student="ada")
    for who in ("ada", "bob"):
        for file in (f"graded/{WEEK}/{who}.json", f"feedback/{who}/{WEEK}.html"):
            put(made.folder / file, f"of {who}".encode())
        trail.note(made.folder, "mark", assignment=WEEK, student=who, part="why", comment='good,\u2028"ada"?')
    (made.folder / "students.csv").write_text("student_id,name\nada,Ada\nbob,ada\n")
    for file in ("feedback/all.zip", "grades/plain.csv"):
        put(made.folder / file, b"of ada and bob")
    return settings.load(made.folder)


def test_all_of_one_student_is_exported_and_erased_and_nothing_of_the_others(course, tmp_path, capsys):
    words = ["--course", str(course.folder)]
    before = {path: path.read_bytes() for path in course.folder.rglob("*") if path.is_file()}
    assert main(["course", "export", "ada", "--out", str(tmp_path / "ada.zip"), *words]) == 0
    with zipfile.ZipFile(tmp_path / "ada.zip") as archive:
        held = {name: archive.read(name).decode() for name in archive.namelist()}
    assert sum(name.endswith("week-01.ipynb") for name in held) == 3
    assert {f"graded/{WEEK}/ada.json", f"feedback/ada/{WEEK}.html"} <= set(held)
    assert "Lovelace" in held["roster.csv"]
    assert "extension" in held["log.jsonl"]
    assert held["students.csv"] == "ada,Ada\n"
    assert not any("Müller" in text or "of bob" in text or course.secret in text for text in held.values())
    assert main(["course", "erase", "ada", "--dry-run", *words]) == 0
    assert {path: path.read_bytes() for path in course.folder.rglob("*") if path.is_file()} == before
    assert main(["course", "erase", "ada", *words]) == 0
    assert "files erased or changed" in capsys.readouterr().out
    left = settings.load(course.folder)
    assert [one.student_id for one in roster.load(course.folder)] == ["bob", "eve", "mel"]
    assert not list(course.folder.rglob("ada*"))
    assert not [path for name in ("_unknown", "all.zip", "plain.csv") for path in course.folder.rglob(name)]
    said = [(one["what"], one.get("student")) for one in trail.read(course.folder)]
    assert said == [("extension", "bob"), ("mark", "bob"), ("erasure", None)]
    assert [one.by for one in collecting.counting(left, WEEK)] == ["bob"]


def test_what_others_need_is_changed_by_hand_first_and_nobody_unknown_is_erased(course, capsys):
    words = ["--course", str(course.folder)]
    assert main(["course", "erase", "eve", *words]) == 2  # in a group
    assert "course.yml must not name eve: take them out by hand first" in capsys.readouterr().err
    assert main(["course", "export", "nobody", *words]) == 2
    assert "student must be one of whom something is kept, got 'nobody'" in capsys.readouterr().err
