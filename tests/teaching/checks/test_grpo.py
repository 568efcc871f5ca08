"""The checks of chapter 8's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from answers import tables
from answers.grpo import groups, kl, losses, rules, updates
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.teaching import checks
from ppobook.teaching.checks import grpo
from ppobook.teaching.checks.grpo.groups import BASELINES

EXERCISES = Exercises("08_grpo")
RIGHT, WRONG, UNNAMED = tables(groups, losses, kl, rules, updates)


class TestChecks(CheckTests):
    module = grpo
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 3, "Build": 5, "Hunt": 3, "Reflect": 1}  # noqa: RUF012


def test_the_page_says_how_many_exercises_there_are() -> None:
    assert EXERCISES.cells[0]["source"].find("Twelve exercises for") > 0
    assert len(masters.exercises(masters.read(EXERCISES.master))) == 12


@pytest.mark.parametrize("name", ["group-advantages", "prompt-weight", "pass-at-k"])
def test_float64_and_plain_numbers_are_as_good(name: str) -> None:
    answer = EXERCISES.reference(name)

    def in_double(*given: Any) -> Any:
        back = answer(*(x.double() if isinstance(x, torch.Tensor) else x for x in given))
        return back.tolist() if isinstance(back, torch.Tensor) else np.float64(back)

    assert checks.run(name, in_double).right


@pytest.mark.parametrize("name", ["grpo-token-loss", "kl-in-loss", "hunt-three"])
def test_a_loss_in_float64_is_as_good(name: str) -> None:
    answer = EXERCISES.reference(name)

    def in_double(*given: Any) -> Any:
        return answer(
            *(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given)
        )

    assert checks.run(name, in_double).right


def test_a_number_cut_off_from_the_graph_is_no_loss() -> None:
    answer = EXERCISES.reference("grpo-token-loss")
    verdict = checks.run("grpo-token-loss", lambda *given: answer(*given).detach())
    assert (verdict.kind, verdict.name) == ("mistake", "cut off from autograd")
    verdict = checks.run("grpo-token-loss", lambda *given: answer(*given).item())
    assert (verdict.kind, verdict.name) == ("returned", "no tensor")


@pytest.mark.parametrize("back", [None, [], "a loss", {"loss": 0.0}])
def test_an_update_has_to_report_its_losses(back: Any) -> None:
    answer = EXERCISES.reference("grpo-update")

    def silent(*given: Any) -> Any:
        answer(*given)
        return back

    verdict = checks.run("grpo-update", silent)
    assert (verdict.kind, verdict.name) == ("returned", "no losses")


def test_three_things_are_asked_for_where_one_came() -> None:
    answer = EXERCISES.reference("hunt-groups")
    verdict = checks.run("hunt-groups", lambda *given: answer(*given)[2][None])
    assert (verdict.kind, verdict.name) == ("returned", "not three things")


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world(WORDS=[*map(str, range(9)), "answer", "<eos>"])


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[float]]:
    """The numbers of each line."""
    lines = capsys.readouterr().out.splitlines()
    return [[float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", line)] for line in lines]


def test_the_obvious_estimate_is_too_low_and_most_groups_of_a_hard_prompt_are_dead(world) -> None:
    average = world["over_all_samples"]
    for p in (0.01, 0.1, 0.5, 0.9):
        truth = 1 - (1 - p) ** 4
        assert average(lambda n, c: world["pass_at_k"](n, c, 4), p) == pytest.approx(truth)
        assert average(lambda n, c: 1 - (1 - c / n) ** 4, p) < truth
    live = average(lambda n, c: 0 < c < n, 0.01)
    assert live == pytest.approx(1 - 0.99**8 - 0.01**8)
    assert round(1 / live) == 13


def test_one_baseline_alone_turns_the_direction(world) -> None:
    probs, rewards = np.array([0.7, 0.2, 0.1]), np.array([0.0, 1.0, 1.2])
    exact = probs * (rewards - probs @ rewards)
    found = {name: world["expected_push"](probs, rewards, 4, f) for name, f in BASELINES.items()}
    shares = {name: push / exact for name, push in found.items()}
    for name in ("nothing", "mean_of_others", "worst_of_others"):
        assert shares[name] == pytest.approx([1, 1, 1])
    assert shares["mean_of_all"] == pytest.approx([0.75] * 3)
    assert np.ptp(shares["best_of_all"]) > 0.05


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


def test_k3_in_the_loss_settles_elsewhere(world) -> None:
    best = np.array([0.49, 0.49, 0.02]) * np.exp([2.0, 0, 0])
    best /= best.sum()
    for where in (("k1", "reward"), ("k2", "loss")):
        assert world["settle"](world["mean_gradient"], *where) == pytest.approx(best, abs=2e-3)
    assert world["settle"](world["mean_gradient"], "k3", "loss")[0] < best[0] - 0.05


def test_the_weights_and_the_push_are_those_of_the_text(world) -> None:
    weight = world["prompt_weight"]
    assert weight(1e-7, 8) == pytest.approx(2.47, abs=0.01)
    assert weight(0.5, 8) == pytest.approx(1.74, abs=0.01)
    probs, rewards = np.array([0.02, 0.49, 0.49]), np.array([1.0, 0, 0])
    plain = world["push"](probs, rewards, np.ones(3))
    assert (np.sign(plain) == [1, -1, -1]).all()
    assert world["push"](probs, rewards, np.array([40, 10, 80]))[2] > 0


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
    sums = [a + b for a in range(5) for b in range(5)]
    assert max(map(sums.count, sums)) == sums.count(4) == 5


def test_a_group_of_eight_has_no_larger_advantage_than_the_text_says() -> None:
    sigma = {c: (c * (8 - c) / 56) ** 0.5 for c in range(1, 8)}
    assert max((1 - c / 8) / sigma[c] for c in sigma) == pytest.approx(7 / 8**0.5)
