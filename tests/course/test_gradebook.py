"""Scores: computed from records and decisions; marks of two people merge; corrections count for good."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filled_in import git
from made_up_class import SHEET, graded_class, hand_in, scores_of

from ppobook.course import gradebook, trail
from ppobook.course.gradebook import Decisions, Score, decide
from ppobook.course.records import text_digest

WHY = "hunt-minmax-why"
TEXT = "It is min."


@pytest.fixture
def handed(tmp_path: Path):
    """Ada and Bob have all checked points and an answer to read; Eve is a day late."""
    made = [
        hand_in(tmp_path, "ada", text=TEXT),
        hand_in(tmp_path, "bob", text="It is max."),
        hand_in(tmp_path, "eve", late=1),
    ]
    graded_class(tmp_path, *made)
    return made


def mark(folder: Path, points: float | None, *, student: str = "ada", text: str = TEXT, **facts: Any) -> str:
    """Give a mark; return its id."""
    given = {"points": points, "max": 3, "text": text_digest(text), **facts}
    decide(folder, "week-03", "mark", student, WHY, **given)
    return str(trail.read(folder, f"marks/week-03/{WHY}.jsonl")[-1]["id"])


def score(folder: Path, handed: Any, student: str = "ada", sheet: Any = SHEET) -> Score:
    return scores_of(folder, handed, sheet)[student]


def test_what_was_graded_and_what_is_taken_off(tmp_path, handed):
    ada, eve = score(tmp_path, handed), score(tmp_path, handed, "eve")
    assert (ada.points, ada.max, ada.final, ada.waiting) == (7, 10, 7, (WHY,))
    assert (eve.points, eve.penalty, eve.final) == pytest.approx((7, 0.7, 6.3))
    assert eve.waiting == ()  # nothing written is read by nobody
    assert list(ada.parts) == [part.name for part in SHEET.parts]
    assert score(tmp_path, [replace(handed[2], share=1.0)], "eve").final == 7


def test_a_mark_is_of_one_text_and_can_be_taken_back(tmp_path, handed):
    first = mark(tmp_path, 3, comment="Yes.")
    assert (score(tmp_path, handed).points, score(tmp_path, handed).parts[WHY].comment) == (10, "Yes.")
    mark(tmp_path, None, replaces=[first])
    assert score(tmp_path, handed).waiting == (WHY,)
    mark(tmp_path, 2, student="bob")  # of a text that Bob has not handed in
    assert score(tmp_path, handed, "bob").waiting == (WHY,)


def test_points_that_a_person_gave_are_scaled_with_the_part(tmp_path, handed):
    mark(tmp_path, 2)
    sheet = replace(SHEET, parts=(replace(SHEET.part(WHY), points=4.5),))
    assert score(tmp_path, handed, sheet=sheet).points == 3


# --- corrections --------------------------------------------------------------------------------------------


def test_a_correction_counts_more_than_a_mark_and_the_later_of_two_counts(tmp_path, handed):
    decide(tmp_path, "week-03", "points", "ada", WHY, points=1, max=3, comment="asked")
    mark(tmp_path, 3)
    assert (score(tmp_path, handed).points, score(tmp_path, handed).parts[WHY].reason) == (8, "asked")
    decide(tmp_path, "week-03", "full", gradebook.EVERYONE, WHY, comment="not clear")
    assert [one.points for one in scores_of(tmp_path, handed).values()] == [10, 10, 10]
    decide(tmp_path, "week-03", "undo", gradebook.EVERYONE, WHY)
    assert score(tmp_path, handed).points == 8
    decide(tmp_path, "week-03", "undo", "ada", WHY)
    assert score(tmp_path, handed).points == 10  # the mark


def test_an_excused_part_lets_the_others_count_more(tmp_path, handed):
    decide(tmp_path, "week-03", "excused", gradebook.EVERYONE, WHY, comment="not taught")
    ada = score(tmp_path, handed)
    assert (ada.points, ada.max, ada.waiting) == (10, 10, ())
    decide(tmp_path, "week-03", "excused", gradebook.EVERYONE, "hunt-minmax")
    decide(tmp_path, "week-03", "excused", gradebook.EVERYONE, "clipped-loss")
    assert score(tmp_path, handed).points == 0


def test_a_student_is_excused_without_a_submission(tmp_path, handed):
    decide(tmp_path, "week-03", "excused", "zoe", "", comment="joined later")
    found = scores_of(tmp_path, handed)
    assert (found["zoe"].excused, found["zoe"].parts) == ("joined later", {})
    assert found["ada"].excused == ""


# --- several markers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("union", [True, False])
def test_marks_of_two_people_merge_by_git_and_a_conflict_is_shown(tmp_path, handed, union):
    mine, theirs = tmp_path, tmp_path / "theirs"
    if union:
        (mine / ".gitattributes").write_text("*.jsonl merge=union\n")
    mark(mine, 2)
    git(mine, "init", "-q")
    git(mine, "add", ".")
    git(mine, "commit", "-qm", "graded")
    git(tmp_path, "clone", "-q", ".", "theirs")
    before = Decisions(mine, "week-03").marks("ada", WHY, TEXT)[0].id
    mark(mine, 3, replaces=[before])
    mark(theirs, 1, replaces=[before])
    mark(theirs, 2, student="bob", text="It is max.")
    decide(theirs, "week-03", "full", gradebook.EVERYONE, "hunt-minmax", comment="x")  # another file
    for folder in (mine, theirs):
        git(folder, "add", "marks")
        git(folder, "commit", "-qm", "marked")
    git(mine, "pull", "-q", "--no-rebase", "--no-edit", str(theirs), "main", code=0 if union else 1)
    found = scores_of(mine, handed)
    assert (found["bob"].parts[WHY].points, found["bob"].parts["hunt-minmax"].reason) == (2, "x")
    part = found["ada"].parts[WHY]
    assert (part.conflict, part.waiting, {one.points for one in part.marks}) == (True, True, {1, 3})
    mark(mine, 2, replaces=[one.id for one in part.marks])
    part = score(mine, handed).parts[WHY]
    assert (part.points, part.waiting) == (2, False)
