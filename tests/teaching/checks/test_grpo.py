"""The checks of chapter 8's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from answers import tables
from answers.grpo import groups, kl, losses, rules, updates
from checks import CheckTests, Exercises, in_double, printed

from ppobook.teaching import checks
from ppobook.teaching.checks import grpo

EXERCISES = Exercises("08_grpo")
RIGHT, WRONG, UNNAMED = tables(groups, losses, kl, rules, updates)


class TestChecks(CheckTests):
    module = grpo
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 3, "Build": 5, "Hunt": 3, "Reflect": 1}  # noqa: RUF012


@pytest.mark.parametrize("name", ["prompt-weight", "grpo-token-loss", "hunt-three"])
def test_float64_is_as_good(name: str) -> None:
    assert checks.run(name, in_double(EXERCISES.reference(name))).right


def test_a_number_cut_off_from_the_graph_is_no_loss() -> None:
    answer = EXERCISES.reference("grpo-token-loss")
    verdict = checks.run("grpo-token-loss", lambda *given: answer(*given).detach())
    assert (verdict.kind, verdict.name) == ("mistake", "cut off from autograd")
    verdict = checks.run("grpo-token-loss", lambda *given: answer(*given).item())
    assert (verdict.kind, verdict.name) == ("returned", "no tensor")


def test_what_does_not_come_back_as_asked_for_is_said() -> None:
    answer = EXERCISES.reference("grpo-update")
    assert checks.run("grpo-update", lambda *given: [answer(*given), []][1]).name == "no losses"
    answer = EXERCISES.reference("hunt-groups")
    assert checks.run("hunt-groups", lambda *given: answer(*given)[2][None]).name == "not three things"


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world(WORDS=[*map(str, range(9)), "answer", "<eos>"])


def test_thousands_are_seen_by_all_ten_and_by_none_after_mending(world, capsys) -> None:
    world["ten_learners"](world["suspicious_batch"])
    hard, largest = (line[1:] if len(line) > 10 else line for line in printed(capsys))
    assert min(largest) > 1000
    assert min(hard) < 0.02
    assert max(hard) > 0.98
    world["ten_learners"](world["mended_batch"])
    hard, largest = (line[1:] if len(line) > 10 else line for line in printed(capsys))
    assert max(largest) == pytest.approx(2.47, abs=0.01)
    assert min(hard) > 0.3
    # With both bugs they come late, with one mended at once.
    one_left = WRONG["hunt-groups"]["another group's standard deviation"]
    for seed in range(10):
        assert world["learn_table"](world["suspicious_batch"], seed, updates=30)[1] < 10
        assert world["learn_table"](one_left, seed, updates=1)[1] > 1000


def test_the_bugs_hide_behind_a_reward_that_rises(world, capsys) -> None:
    world["learn_to_stop"](world["suspicious_loss"])
    wrong = printed(capsys)
    world["learn_to_stop"](world["mended_loss"])
    right = printed(capsys)
    assert wrong[-1][1] > 0.9  # update, reward, length, stops at once
    assert right[-1][1] > 0.9
    assert wrong[-1][3] < 0.5 < right[-1][3]
    assert wrong[-1][2] > right[-1][2] + 0.4


def test_a_blind_policy_fools_the_first_rule_only(world, capsys) -> None:
    def rewards(rule):
        world["train_blind"](rule)
        lines = capsys.readouterr().out.splitlines()
        return [float(re.search(r"reward ([\d.]+)", line)[1]) for line in lines]

    assert rewards(world["suspicious_rule"])[-1] > 0.7
    assert max(rewards(world["mended_rule"])) < 0.45
