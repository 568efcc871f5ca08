"""The report: what a class made of an assignment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_class import DUE, SHEET, graded_class, hand_in, scores_of

from ppobook.course import report
from ppobook.course.records import read_records

WRONG = {"clipped-loss": 0}
WHY = "hunt-minmax-why"
RAISED = {"hunt-minmax": ("raised", "ValueError", "✗\n  ValueError: <b>")}


def of(folder, *handed, sheet=SHEET, **options):
    graded_class(folder, *handed)
    records = read_records(folder, "week-03", ["ada", "bob", "eve", "mel"])
    return report.report(sheet, handed, records, scores_of(folder, handed), 5, **options)


@pytest.fixture
def found(tmp_path):
    return of(
        tmp_path,
        hand_in(tmp_path, "ada"),
        hand_in(tmp_path, "bob", "eve", late=2, **{**WRONG, "hunt-minmax": 0, "text": "It is min."}),
        hand_in(tmp_path, "mel", missing=[WHY], verdicts=RAISED, **{**WRONG, "hunt-minmax": 0}),
    )


def test_a_groups_submission_is_counted_once_and_the_most_frequent_mistake_is_first(found):
    clipped, hunt, why = found.parts
    assert (clipped.answered, clipped.solved, clipped.mean) == (3, 1, pytest.approx(4 / 3))
    assert (hunt.solved, why.answered, why.waiting) == (1, 1, 1)
    first, *others = found.mistakes
    assert (first.part, first.students) == ("clipped-loss", ("bob", "mel"))
    assert first.think == "The old policy is the anchor. Who may move it?"
    assert [(m.kind, m.name) for m in others] == [
        ("raised", "ValueError"),
        ("mistake", "old_logp is not detached"),
    ]


def test_in_the_terminal_without_names(found):
    said = report.text(found)
    assert "4 of 5 students graded, mean 3.5 of 10 points of those marked to the end, 2 late" in said
    assert "  2 × clipped-loss: old_logp is not detached" in said
    assert "33 %" in said
    assert f"  1 × {WHY}: the cell for the answer was deleted" in said
    assert not any(name in said for name in ("ada", "bob", "eve", "mel"))
    named = report.text(found, names=True)
    assert "(bob, mel)" in named
    assert "was deleted (mel)" in named


def test_nobody_has_handed_in():
    said = report.text(report.report(SHEET, [], {}, {}, students=5))
    assert said.startswith("week-03: 0 of 5 students graded, 0 late\n")


def test_a_hand_in_late_by_nobody_knows_how_much_is_for_the_instructor_to_decide(tmp_path):
    handed = hand_in(tmp_path, "ada", **WRONG)
    part = replace(SHEET.parts[0], partial={"old_logp is not detached": 0.5})
    sheet = replace(SHEET, parts=(part, *SHEET.parts[1:]))
    graded_class(tmp_path, handed)
    late = replace(handed, received=None, late_unknown=True)
    records = read_records(tmp_path, "week-03", ["ada"])
    found = report.report(sheet, [late], records, scores_of(tmp_path, [late], sheet), 1, ["clipped-loss"])
    said = report.text(found, names=True)
    assert "mean 5 of 10 points, 1 late, 1.5 CPU s" in said  # no hours
    assert "all points count until you decide (ada)" in said
    assert "worth 50 % of the points (ada)" in said
    assert "In the book’s numbers: The old policy" in said


def test_the_hours_are_those_before_an_extended_date(tmp_path):
    late = replace(hand_in(tmp_path, "ada", late=2), late_days=0, due=DUE.replace(day=4))
    assert "handed in 25.0 h before the due date" in report.text(of(tmp_path, late))
