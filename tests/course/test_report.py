"""The report: what a class made of an assignment."""

from dataclasses import replace
from typing import Any

from made_up_class import SHEET, graded_class, hand_in, scores_of

from ppobook.course import report
from ppobook.course.records import read_records
from ppobook.course.work import State

WRONG = {"clipped-loss": 0}
WHY = "hunt-minmax-why"
RAISED = {"hunt-minmax": ("raised", "ValueError", ["ValueError: <b>"])}


def of(folder, *handed, sheet=SHEET, **options: Any) -> str:
    graded_class(folder, *handed)
    records = read_records(folder, "week-03", handed)
    return report.report(State(sheet, [*handed], records, scores_of(folder, handed, sheet)), 5, **options)


def test_a_groups_submission_is_counted_once_and_names_are_asked_for(tmp_path):
    handed = (
        hand_in(tmp_path, "ada"),
        hand_in(tmp_path, "bob", "eve", late=2, **{**WRONG, "hunt-minmax": 0, "text": "It is min."}),
        hand_in(tmp_path, "mel", missing=[WHY], verdicts=RAISED, **{**WRONG, "hunt-minmax": 0}),
    )
    said = of(tmp_path, *handed)
    assert "4 of 5 students graded, 2 late" in said
    assert "  2 × clipped-loss: old_logp is not detached" in said
    assert said.index("  2 × clipped-loss") < said.index("  1 × hunt-minmax: raised ValueError")
    table = [line.split() for line in said.splitlines()]
    assert ["clipped-loss", "3", "33", "%", "1.33", "/", "4"] in table
    assert [WHY, "1", "–,", "1", "to", "mark", "–", "/", "3"] in table
    assert f"  1 × {WHY}: the cell for the answer was deleted" in said
    assert not any(name in said for name in ("ada", "bob", "eve", "mel"))
    named = of(tmp_path, *handed, names=True)
    assert "(bob, mel)" in named
    assert "was deleted (mel)" in named


def test_a_hand_in_late_by_nobody_knows_how_much_is_for_the_instructor_to_decide(tmp_path):
    handed = replace(hand_in(tmp_path, "ada", **WRONG), received=None, late_unknown=True)
    part = replace(SHEET.parts[0], partial={"old_logp is not detached": 0.5})
    sheet = replace(SHEET, parts=(part, *SHEET.parts[1:]))
    said = of(tmp_path, handed, sheet=sheet, names=True)
    assert "mean 5 of 10 points, 1 late\n" in said
    assert "all points count until you decide (ada)" in said
    assert "worth 50 % of the points (ada)" in said
