"""The checks of chapter 10's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from answers import tables
from answers.online import loops, pairs, stale
from answers.online import symptoms as cured
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.experiments import results
from ppobook.teaching import checks
from ppobook.teaching.checks import online
from ppobook.teaching.checks.online import symptoms

EXERCISES = Exercises("10_online_loops")
RIGHT, WRONG, UNNAMED = tables(loops, stale, pairs, cured)


class TestChecks(CheckTests):
    module = online
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 2, "Build": 4, "Hunt": 2, "Reflect": 1}  # noqa: RUF012


def test_the_page_says_how_many_exercises_there_are() -> None:
    assert EXERCISES.cells[0]["source"].find("Nine exercises for") > 0
    assert len(masters.exercises(masters.read(EXERCISES.master))) == 9


def test_a_table_that_is_not_filled_says_where() -> None:
    stub = 'raise NotImplementedError("not yet: four-loops")'
    rows = ", ".join(f'"{name}": {name}' for name in loops.TABLE)
    blank = EXERCISES.blank("four-loops", lambda s: s.replace(stub, f"return {{{rows}}}"))
    verdict = checks.run("four-loops", blank)
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")
    assert "“texts”" in verdict.message


# --- six logs


def test_the_page_has_the_list_of_names() -> None:
    page = EXERCISES.master.read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", page, re.MULTILINE)) == symptoms.FAULTS
    assert set(symptoms.EXPECTED) == set(symptoms.FAULTS)


def test_the_page_shows_the_logs_that_the_check_reads(world) -> None:
    shown, read = world["six_logs"](), symptoms.runs()
    assert list(shown) == sorted(read) == list(symptoms.CASES)
    for case, log in read.items():
        assert shown[case].equals(log[list(shown[case])])


@pytest.mark.parametrize("case", symptoms.CASES)
def test_every_other_name_is_contradicted_by_a_number_and_the_right_one_is_not(case: str) -> None:
    gauges = symptoms.gauges()
    for name, limits in symptoms.EXPECTED.items():
        assert any(limit.broken(gauges[case]) for limit in limits) == (name != cured.CURED[case]), name


@pytest.mark.parametrize("name", symptoms.FAULTS)
@pytest.mark.parametrize("case", symptoms.CASES)
def test_each_case_and_name(case: str, name: str) -> None:
    verdict = checks.run("loop-clinic", cured.but(**{case: name}))
    assert verdict.right == (cured.CURED[case] == name)
    if not verdict.right:
        assert verdict.name == symptoms.FAULTS[name]
        assert f"{case}✗" in verdict.message
        assert f"In case {case}" in verdict.message
        assert verdict.message.startswith(f"✗ Not right: case {case} is not “{symptoms.FAULTS[name]}”\n")


@pytest.mark.parametrize("part", cured.SO_FAR)
def test_a_part_of_the_cases_may_be_left_out_and_is_not_called_wrong(part: str) -> None:
    verdict = checks.run("loop-clinic", cured.SO_FAR[part])
    assert (verdict.kind, verdict.name) == ("so far", part)
    assert verdict.message.startswith(f"✓ Right so far: {part}\n  A✓")
    assert "Not right" not in verdict.message
    assert f"✓ A: {symptoms.FAULTS[cured.CURED['A']]}" in verdict.message
    with pytest.raises(checks.NotYet, match="Right so far"):
        checks.check("loop-clinic", cured.SO_FAR[part])


def test_no_case_yet_is_no_mistake() -> None:
    verdict = checks.run("loop-clinic", dict)
    assert (verdict.kind, verdict.name) == ("not yet", "no case has a name")


@pytest.mark.parametrize(
    "given", [{"K": "collapse"}, {"A": "measles"}, {"A": None}, {1: 2}, {"AB": "no-end"}]
)
def test_what_is_not_on_the_list_is_refused_in_words(given: object) -> None:
    assert checks.run("loop-clinic", lambda: given).kind == "returned"


def test_what_the_answer_says_of_the_six_logs() -> None:
    logs = symptoms.runs()
    last = {case: log.iloc[-1] for case, log in logs.items()}
    assert logs["A"]["kl"].max() < 0.4
    assert last["B"]["kl"] > 50
    assert last["B"]["reward"] - logs["B"]["reward"].iloc[0] == pytest.approx(0, abs=0.05)
    assert last["B"]["ended"] == pytest.approx(0.75, abs=0.03)
    assert last["C"]["length"] > 23.5
    assert last["C"]["ended"] == pytest.approx(0.75, abs=0.03)
    before, after = logs["D"].loc[27], logs["D"].loc[36]
    assert after["reward"] < before["reward"] - 0.2
    assert abs(after["length"] - before["length"]) < 0.6
    assert after["kl"] - before["kl"] < 1.5
    assert last["E"]["kl"] == pytest.approx(6, abs=0.5)
    assert last["E"]["clip"] == pytest.approx(0.31, abs=0.03)
    assert last["F"]["kl"] > 40
    rewards = {case: row["reward"] for case, row in last.items()}
    assert rewards["C"] > 5 > max(rewards[case] for case in "ABDEF")
    assert rewards["D"] == pytest.approx(rewards["F"], abs=0.2)
    assert rewards["A"] == pytest.approx(0.7, abs=0.05)
    over = results("language_overoptimisation").query("update == 60")
    gold = over.groupby(["pooling", "kl_coef"])["gold"].mean()
    assert gold["sum", 0.03] == pytest.approx(-2.2, abs=0.06)
    assert gold["last", 0.0] == pytest.approx(-1.6, abs=0.06)
    judged = results("language_refresh").query("judge == 'refreshed' and update == 45")
    assert judged["gold"].mean() == pytest.approx(2.05, abs=0.06)


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world()


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[float]]:
    """The numbers of each line."""
    lines = capsys.readouterr().out.splitlines()
    return [[float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", line)] for line in lines]


def test_what_is_left_by_length(world, capsys) -> None:
    world["left_by_length"](world["samples_left"])
    rows = printed(capsys)
    assert [row[0] for row in rows] == [1, 4, 16, 64]
    assert [row[1] for row in rows] == pytest.approx([np.exp(-0.09)] * 4, abs=0.02)
    for length, _, texts in rows[:3]:
        assert texts == pytest.approx(np.exp(-0.09 * length), abs=0.04)
    assert np.exp(-0.09 * 64) == pytest.approx(0.003, abs=2e-4)
    assert rows[3][2] < 0.03


def test_without_a_correction_a_baseline_pulls_or_pushes(world, capsys) -> None:
    world["nothing_to_learn"](world["stale_gradient"])
    pulled, pushed, still = (np.array(line[-3:]) for line in printed(capsys))
    assert abs(pulled - [0.6, 0.3, 0.1]).max() > 0.2
    assert abs(pushed - [0.6, 0.3, 0.1]).max() > 0.2
    assert still == pytest.approx([0.6, 0.3, 0.1])


def test_the_bugs_make_texts_shorter_and_the_mended_rewards_do_not(world, capsys) -> None:
    world["talk"](world["suspicious_rewards"])
    wrong = printed(capsys)  # update, reward, tokens, KL, score
    world["talk"](world["mended_rewards"])
    right = printed(capsys)
    assert wrong[-1][1] > wrong[0][1] + 0.5
    assert wrong[-1][2] < 1.5 < wrong[0][2]
    assert wrong[-1][4] < wrong[0][4]
    assert right[-1][1] > right[0][1]
    assert right[-1][2] > right[0][2]
    assert right[-1][4] > 7
