"""The report: what a class made of an assignment."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from made_up_class import DUE, SHEET, grade_one, hand_in

from ppobook.course import report
from ppobook.course.gradebook import PartScore, Score
from ppobook.course.records import Record

WRONG = {"clipped-loss": 0}
RAISED = {"hunt-minmax": ("raised", "ValueError", "✗\n  ValueError: <b>"), "clipped-loss": ("right", "", "✓")}


@pytest.fixture
def found(tmp_path):
    answers = {
        ("ada",): {},
        ("bob", "eve"): {**WRONG, "hunt-minmax": 0, "text": "It is min."},
        ("mel",): {**WRONG, "hunt-minmax": 0, "verdicts": {"hunt-minmax": RAISED["hunt-minmax"]}},
    }
    submissions, records, scores = [], {}, {}
    for students, answer in answers.items():
        submissions.append(hand_in(tmp_path, *students, late=2 if "bob" in students else 0, **answer))
        result = grade_one(json.dumps(answer).encode(), students[0])
        for student in students:
            records[student] = Record(
                "week-03", student, students[0], students[0], DUE.isoformat(), "", {}, "", result=result
            )
            parts = {
                name: PartScore(part["max"], part["points"], None, "", False)
                for name, part in result["parts"].items()
            }
            waits = bool(answer.get("text"))
            parts["hunt-minmax-why"] = PartScore(3, None if waits else 0.0, None, "", waits)
            scores[student] = Score(student, DUE, parts, 0.0)
    return report.report(SHEET, submissions, records, scores, students=5)


def test_numbers(found):
    assert (found.graded, found.students, found.late) == (4, 5, 2)
    assert found.mean == 7 / 2  # bob and eve have an answer that nobody has marked
    clipped, hunt, why = found.parts
    assert (clipped.answered, clipped.full, clipped.mean) == (3, pytest.approx(1 / 3), pytest.approx(4 / 3))
    assert hunt.kinds == {"right": 1, "mistake": 1, "raised": 1}
    assert (why.waiting, why.full) == (1, 0)
    assert (why.answered, why.solved, clipped.solved) == (1, 0, 1)
    assert found.unsolved == ()  # nobody has marked what was written
    assert found.seconds == 1.5


def test_a_groups_submission_is_counted_once_and_the_most_frequent_mistake_is_first(found):
    first, *others = found.mistakes
    assert (first.part, first.name, first.students) == (
        "clipped-loss",
        "old_logp is not detached",
        ("eve", "mel"),
    )
    assert first.think == "The old policy is the anchor. Who may move it?"
    assert [(m.kind, m.name, m.count) for m in others] == [
        ("raised", "ValueError", 1),
        ("mistake", "old_logp is not detached", 1),
    ]


def test_in_the_terminal_without_names(found):
    said = report.text(found)
    assert "4 of 5 students graded, mean 3.5 of 10 points of those marked to the end, 2 late" in said
    assert "  2 × clipped-loss: old_logp is not detached" in said
    assert "Nobody solved" not in said
    assert "33 %" in said
    assert not any(name in said for name in ("ada", "bob", "eve", "mel"))
    assert "(eve, mel)" in report.text(found, names=True)


def test_as_a_page_and_as_a_table(found):
    page, rows = report.html([found]), report.table(found)
    assert "<script" not in page
    assert "old_logp is not detached" in page
    assert not any(name in page for name in ("bob", "eve", "mel<"))
    assert "eve, mel" in report.html([found], names=True)
    assert {len(row) for row in rows} == {8}
    assert rows[4][:6] == ["week-03", "clipped-loss", "mistake", "old_logp is not detached", "2", "0.667"]
    assert report.table(found, names=True)[4][-1] == "eve mel"


def test_nobody_has_handed_in():
    found = report.report(SHEET, [], {}, {}, students=5)
    assert report.text(found).startswith("week-03: 0 of 5 students graded, 0 late")
    assert "Nothing." in report.html([found])
    assert not found.unsolved


def test_what_is_not_known_is_not_counted(tmp_path):
    submission = replace(hand_in(tmp_path, "ada", text="It is min."), timed=False)
    result = grade_one(json.dumps({"text": "It is min.", **WRONG}).encode(), "ada")
    record = Record("week-03", "ada", "ada", "ada", DUE.isoformat(), "", {}, "", result=result)
    parts = {"clipped-loss": PartScore(4, 0, None, "", False)}
    parts["hunt-minmax-why"] = PartScore(3, None, None, "", True)
    scores = {"ada": Score("ada", DUE, parts, 0.0)}
    found = report.report(SHEET, [submission], {"ada": record}, scores, 1, varied={"clipped-loss"})
    assert (found.hours, found.mean, found.unsolved) == (None, None, ("clipped-loss",))
    assert "mean" not in report.text(found).splitlines()[0]
    assert found.mistakes[0].think.startswith("In the book's numbers: The old policy")
