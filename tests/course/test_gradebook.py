"""The gradebook: what is put in comes out, people's points win, and nbgrader reads it."""

from __future__ import annotations

import csv
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_class import DUE, ROSTER, SHEET
from nbgrader.api import Gradebook
from nbgrader.plugins.export import CsvExportPlugin

from ppobook.course import trail
from ppobook.course.gradebook import Book
from ppobook.course.records import SheetPart

AUTO = {"clipped-loss": 4.0, "hunt-minmax": 0.0, "hunt-minmax-why": None}


@pytest.fixture
def book(tmp_path: Path):
    with Book(tmp_path) as book:
        book.enrol(ROSTER)
        book.declare(SHEET)
        yield book


def test_what_was_graded_is_in_the_book(book):
    book.record("week-03", "ada", received=DUE, auto=AUTO)
    score = book.scores("week-03")["ada"]
    assert (score.points, score.max, score.final, score.received) == (4, 10, 4, DUE)
    assert score.waiting == ("hunt-minmax-why",)
    assert list(score.parts) == [part.name for part in SHEET.parts]
    assert set(book.scores("week-03")) == {"ada"}


def test_twice_changes_nothing(book):
    for _ in range(2):
        book.enrol(ROSTER)
        book.declare(SHEET)
        book.record("week-03", "ada", received=DUE, auto=AUTO, share=0.9)
    score = book.scores("week-03")["ada"]
    assert (score.points, score.penalty, score.final) == (4, 0.4, 3.6)


def test_a_persons_points_win_and_survive_a_regrade(book):
    book.record("week-03", "ada", received=DUE, auto=AUTO)
    book.mark("week-03", "ada", "hunt-minmax", 2.5, "The idea was right.")
    book.mark("week-03", "ada", "hunt-minmax-why", 3)
    book.record("week-03", "ada", received=DUE, auto={**AUTO, "clipped-loss": 0.0})
    score = book.scores("week-03")["ada"]
    assert score.parts["hunt-minmax"].points == 2.5
    assert score.parts["hunt-minmax"].comment == "The idea was right."
    assert score.points == 5.5
    assert not score.waiting
    book.mark("week-03", "ada", "hunt-minmax", None, "")
    assert book.scores("week-03")["ada"].parts["hunt-minmax"].comment == ""
    assert book.scores("week-03")["ada"].points == 3


def test_what_is_taken_off_follows_the_points(book):
    book.record("week-03", "ada", received=DUE, auto=AUTO, share=0.5)
    book.mark("week-03", "ada", "hunt-minmax-why", 2, share=0.5)
    assert book.scores("week-03")["ada"].final == 3
    book.late("week-03", "ada", 1.0)
    assert book.scores("week-03")["ada"].final == 6


def test_a_mark_of_another_text_is_waited_for_again(book):
    book.record("week-03", "ada", received=DUE, auto=AUTO)
    book.mark("week-03", "ada", "hunt-minmax-why", 3)
    book.record("week-03", "ada", received=DUE, auto=AUTO, stale=["hunt-minmax-why"])
    assert book.scores("week-03")["ada"].waiting == ("hunt-minmax-why",)


def test_the_sheet_may_change_after_grading(book):
    book.record("week-03", "ada", received=DUE, auto=AUTO)
    more = SheetPart("extra", "test", 5)
    book.declare(replace(SHEET, parts=(replace(SHEET.parts[0], max=8), SHEET.parts[2], more)))
    assert "hunt-minmax" not in book.scores("week-03")["ada"].parts
    book.record("week-03", "ada", received=DUE, auto={"clipped-loss": 8, "hunt-minmax-why": 0, "extra": 5})
    score = book.scores("week-03")["ada"]
    assert (score.points, score.max) == (13, 16)


def test_a_persons_points_keep_their_share_of_a_part_that_is_worth_less(book, tmp_path):
    book.record("week-03", "ada", received=DUE, auto=AUTO)
    book.mark("week-03", "ada", "clipped-loss", SHEET.parts[0].max)
    less = replace(SHEET, parts=(replace(SHEET.parts[0], max=1), *SHEET.parts[1:]))
    (changed,) = book.declare(less)
    assert (changed.student, changed.part, changed.points, changed.max) == ("ada", "clipped-loss", 1, 1)
    assert book.scores("week-03")["ada"].parts["clipped-loss"].points == 1
    assert [one["before"] for one in trail.read(tmp_path) if one["what"] == "rescaled"] == [
        SHEET.parts[0].max
    ]
    assert book.declare(less) == []


def test_bad_names_are_refused_in_a_sentence(book):
    with pytest.raises(ValueError, match="student must be in the roster, got 'nobody'"):
        book.record("week-03", "nobody", received=DUE, auto=AUTO)
    with pytest.raises(ValueError, match="assignment must be in the gradebook, got 'week-99'"):
        book.record("week-99", "ada", received=DUE, auto=AUTO)
    with pytest.raises(ValueError, match="'ada' must have a graded submission for 'week-03', got none"):
        book.mark("week-03", "ada", "hunt-minmax", 1)
    book.record("week-03", "ada", received=DUE, auto=AUTO)
    with pytest.raises(ValueError, match=r"part must be one of clipped-loss, .*, got 'clip'"):
        book.mark("week-03", "ada", "clip", 1)


def test_nbgrader_reads_and_exports_it(book, tmp_path):
    book.record("week-03", "ada", received=DUE, auto=AUTO, share=0.9)
    book.mark("week-03", "ada", "hunt-minmax-why", 2, "Yes.", share=0.9)
    book.record("week-03", "eve", received=DUE, auto=AUTO)
    path = tmp_path / "export.csv"
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as theirs:
        CsvExportPlugin(to=str(path)).export(theirs)
        (dicts,) = [d for d in theirs.submission_dicts("week-03") if d["student"] == "ada"]
        assert (dicts["score"], dicts["code_score"], dicts["written_score"]) == (6, 4, 2)
        waits = {d["student"]: d["needs_manual_grade"] for d in theirs.submission_dicts("week-03")}
        assert waits == {"ada": False, "eve": True}
        assert len(theirs.student_dicts()) == len(ROSTER)
        assert theirs.find_comment("hunt-minmax-why", SHEET.notebook, "week-03", "ada").comment == "Yes."
    with path.open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file) if None not in row}
    assert (rows["ada"]["raw_score"], rows["ada"]["score"]) == ("6.0", "5.4")
    assert rows["eve"]["max_score"] == "10.0"


def test_several_writers_lose_nothing(book, tmp_path):
    def write(student: str) -> None:
        with Book(tmp_path) as mine:
            mine.record("week-03", student, received=DUE, auto=AUTO)
            for points in (1, 2, 3):
                mine.mark("week-03", student, "hunt-minmax-why", points)

    threads = [threading.Thread(target=write, args=(row["student_id"],)) for row in ROSTER]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {score.points for score in book.scores("week-03").values()} == {7}
    assert len(book.scores("week-03")) == len(ROSTER)


def test_the_trail_keeps_every_line(tmp_path):
    trail.note(tmp_path, "mark", student="ada", points=2)
    with (tmp_path / trail.FILE).open("a") as file:
        file.write('{"what": "ma')  # interrupted
    trail.note(tmp_path, "appeal", student="ada", reason="“quoted”\nin two lines")
    first, second = trail.read(tmp_path)
    assert (first["what"], second["what"]) == ("mark", "appeal")
    assert second["reason"] == "“quoted”\nin two lines"
    assert set(first) == {"time", "who", "what", "student", "points"}
