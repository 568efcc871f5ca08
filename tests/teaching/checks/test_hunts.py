"""Sentences of the exercises on what their bugs show, against the tables and numbers that they print."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from answers.clipped_surrogate import losses as clip_losses
from answers.gae import estimators
from answers.grpo import groups
from answers.whole_ppo import updates
from checks import Exercises, printed


def world_of(chapter: str, *skipped: str, **more: Any) -> Any:
    """A fixture: the names that a master and its solutions define."""
    return pytest.fixture(scope="module")(lambda: Exercises(chapter).world(*skipped, **more))


clip_world = world_of("03_the_clipped_surrogate", "learn(", "tune(", assigned=True)
gae_world = world_of("04_generalized_advantage_estimation", "best", assigned=True)
whole_world = world_of("05_the_whole_of_ppo", assigned=True)
grpo_world = world_of("08_grpo", WORDS=[*map(str, range(9)), "answer", "<eos>"])
dpo_world = world_of("09_dpo", END=0, KIND=1, PLAIN=2, RUDE=3, ASK=4, LIMIT=8)
online_world = world_of("10_online_loops")


# vanilla


def test_two_intervals_that_look_right_do_not_hold_what_they_promise() -> None:
    vanilla = Exercises("01_vanilla_policy_gradient")
    space = vanilla.namespace()
    held = {name: space["coverage"](space[name], 5) for name in ("of_all_returns", "bootstrap")}
    assert 0.40 < held["of_all_returns"] < 0.5
    assert 0.15 < 1 - held["bootstrap"] < 0.18  # one time in six
    reference = vanilla.reference("interval")
    assert 0.935 < space["coverage"](reference, 5) < 0.965


# clipped_surrogate


@pytest.mark.slow
def test_the_hunts_of_chapter_3_show_what_their_bugs_produce(clip_world) -> None:
    learn, steps_of = clip_world["learn"], clip_world["twenty_steps"]
    healthy = learn(lambda *b: steps_of(clip_world["clipped_surrogate_loss"], *b))
    assert healthy.worst.iloc[-1] > 0.6
    assert healthy.earned.iloc[-1] == pytest.approx(0.94, abs=0.03)
    assert healthy.clip_fraction[0] > 0.5

    swapped = learn(lambda *b: steps_of(clip_world["suspicious_loss"], *b))
    assert swapped.earned[0] > healthy.earned[0] + 0.05
    assert swapped["KL, all actions"][0] > 10 * healthy["KL, all actions"][0]
    assert swapped.clip_fraction[0] > 0.95
    assert swapped["largest ratio"].max() > 200
    assert swapped.earned.iloc[-1] == pytest.approx(0.55, abs=0.08)

    divided = learn(
        lambda *b: clip_world["with_penalty"](clip_world["suspicious_penalized_loss"], *b), updates=21
    )
    assert divided["KL, all actions"].between(0.003, 0.03).all()
    assert divided.clip_fraction.max() < 0.25
    assert divided.ratio_mean.sub(1).abs().max() < 0.01
    assert (divided.loss < 0).all()
    assert divided.earned.iloc[-1] < 0.12
    assert divided.earned[0] < 0.25

    twice = learn(clip_world["and_its_log"])
    assert twice.earned.iloc[-1] == pytest.approx(0.93, abs=0.03)
    assert twice.ratio_mean.min() > 1.02
    assert twice.ratio_mean[0] == pytest.approx(1.12, abs=0.02)
    assert healthy.ratio_mean.sub(1).abs().max() < 0.02
    for one_bug in ("only the ratio is mended", "only the maximum is mended"):
        loss = clip_losses.WRONG["hunt-two-bugs"][one_bug]
        assert learn(lambda *b, loss=loss: steps_of(loss, *b)).earned.iloc[-1] < 0.03

    stale = learn(clip_world["suspicious_update"])
    assert (stale.clip_fraction == 0).all()
    assert stale.approx_kl.abs().max() < 1e-6
    assert stale["largest ratio"].max() == pytest.approx(1, abs=1e-6)
    assert stale.loss.abs().max() < 1e-6
    assert stale["KL, all actions"][0] > 1
    assert stale.earned.iloc[-1] == pytest.approx(0.65, abs=0.06)


# gae


def test_the_critic_without_a_last_value_is_far_too_modest(gae_world, capsys) -> None:
    gae_world["learn_values"](gae_world["suspicious_gae"])
    lines = printed(capsys)
    columns, last = lines[-1], lines[-2]  # update, explained variance, six values
    assert 0.4 < last[1] < 0.7
    assert last[2] < 0.13 < 0.75 < gae_world["true_values"](False)[0]
    assert all(a > b for a, b in pairwise(columns))
    gae_world["learn_values"](gae_world["mended_gae"])
    lines = printed(capsys)
    assert max(map(abs, lines[-1])) < 0.05
    assert lines[-2][2] == pytest.approx(gae_world["true_values"](False)[0], abs=0.04)


def test_starts_read_one_step_off_harm_the_first_place(gae_world, capsys) -> None:
    gae_world["by_place"](gae_world["suspicious_starts"])
    wrong = [row[1] for row in printed(capsys)]
    assert wrong[0] == pytest.approx(-0.32, abs=0.02)
    assert wrong[1:] == sorted(wrong[1:])
    assert 0 < wrong[1] < wrong[5] < 0.05
    gae_world["by_place"](gae_world["mended_starts"])
    assert max(abs(row[1]) for row in printed(capsys)) < 0.01


def test_of_two_bugs_one_mended_changes_nothing_and_the_other_not_enough(gae_world, capsys) -> None:
    def means(estimate):
        gae_world["by_kind"](estimate)
        return [row[-1] for row in printed(capsys)]

    both = means(gae_world["suspicious_ends"])
    first = estimators.flawed(delta_mask=lambda over, cut: over | cut)
    second = estimators.flawed(cut_value=lambda cut, f, v: v[..., 1:])
    assert both[0] < -0.6
    assert both[2] < -0.3
    assert means(first) == both
    assert both[0] + 0.2 < means(second)[0] < -0.2
    mended = means(gae_world["mended_ends"])
    assert abs(mended[0]) < 0.03
    assert abs(mended[2]) < 0.01
    assert mended[1] > 0


# whole_ppo


@pytest.mark.slow
def test_the_hunts_of_chapter_5_show_what_their_bugs_produce(whole_world) -> None:
    settle = whole_world["settle"]
    plain, punished = (settle(whole_world["suspicious_loss"], coef) for coef in (0.0, 0.1))
    cured = settle(whole_world["loss_with_bonus"], 0.1)
    assert punished.entropy[20] < plain.entropy[20] < cured.entropy[20]
    lost = "best arm below 1%"
    assert punished[lost].iloc[-1] > plain[lost].iloc[-1] > cured[lost].iloc[-1]
    assert cured.earned.iloc[-1] > punished.earned.iloc[-1] + 0.05

    suspicious = whole_world["judge"](whole_world["suspicious_snapshot"]).str.rstrip("%").astype(int)
    assert suspicious.iloc[0] >= 97
    assert suspicious.iloc[1:3].max() < 65
    assert whole_world["judge"](whole_world["snapshot"]).str.rstrip("%").astype(int).min() >= 95

    learn = whole_world["learn"]
    sick, well = learn(whole_world["suspicious_update"]), learn(whole_world["update"])
    moved = learn(updates.WRONG["hunt-epochs"]["old_logp is another pull's"][0])
    assert sick.KL.iloc[0] > 2 * well.KL.iloc[0]
    assert moved.earned.iloc[-1] < sick.earned.iloc[-1] - 0.2 < well.earned.iloc[-1] - 0.25


# rlhf


@pytest.mark.parametrize("mended", [False, True])
def test_the_batch_with_two_bugs_shows_both(mended: bool, capsys: pytest.CaptureFixture[str]) -> None:
    space = Exercises("07_rlhf").world(END=1)
    space["ratios_of"](space["collate" if mended else "suspicious_collate"])
    drawn, masked, ended, _, *columns = map(int, re.findall(r"\d+", capsys.readouterr().out))
    assert drawn - masked == (0 if mended else ended)
    shares = [columns[k] for k in (1, 4, 7)]
    assert (shares[0] > 50) != mended
    assert shares[1:] == [0, 0]


# grpo


def test_thousands_are_seen_by_all_ten_and_by_none_after_mending(grpo_world, capsys) -> None:
    grpo_world["ten_learners"](grpo_world["suspicious_batch"])
    hard, largest = (line[1:] if len(line) > 10 else line for line in printed(capsys))
    assert min(largest) > 1000
    assert min(hard) < 0.02
    assert max(hard) > 0.98
    grpo_world["ten_learners"](grpo_world["mended_batch"])
    hard, largest = (line[1:] if len(line) > 10 else line for line in printed(capsys))
    assert max(largest) == pytest.approx(2.47, abs=0.01)
    assert min(hard) > 0.3
    # With both bugs they come late, with one mended at once.
    one_left = groups.WRONG["hunt-groups"]["another group's standard deviation"]
    for seed in range(10):
        assert grpo_world["learn_table"](grpo_world["suspicious_batch"], seed, updates=30)[1] < 10
        assert grpo_world["learn_table"](one_left, seed, updates=1)[1] > 1000


def test_the_bugs_hide_behind_a_reward_that_rises(grpo_world, capsys) -> None:
    grpo_world["learn_to_stop"](grpo_world["suspicious_loss"])
    wrong = printed(capsys)
    grpo_world["learn_to_stop"](grpo_world["mended_loss"])
    right = printed(capsys)
    assert wrong[-1][1] > 0.9  # update, reward, length, stops at once
    assert right[-1][1] > 0.9
    assert wrong[-1][3] < 0.5 < right[-1][3]
    assert wrong[-1][2] > right[-1][2] + 0.4


def test_a_blind_policy_fools_the_first_rule_only(grpo_world, capsys) -> None:
    def rewards(rule):
        grpo_world["train_blind"](rule)
        lines = capsys.readouterr().out.splitlines()
        return [float(re.search(r"reward ([\d.]+)", line)[1]) for line in lines]

    assert rewards(grpo_world["suspicious_rule"])[-1] > 0.7
    assert max(rewards(grpo_world["mended_rule"])) < 0.45


# dpo


def test_three_gauges_show_three_bugs(dpo_world, capsys) -> None:
    dpo_world["gauges"](dpo_world["suspicious_loss"])
    first, counted, *pushes = printed(capsys)
    assert first[-1] == pytest.approx(0.5 * math.log(2), abs=1e-3)
    assert counted[0] - counted[1] == 2000  # a token of each text
    assert pushes[0][1] > 1.8 * pushes[1][1] > 3 * pushes[2][1]
    dpo_world["gauges"](dpo_world["pair_loss"])
    first, counted, *pushes = printed(capsys)
    assert first[-1] == pytest.approx(math.log(2), abs=1e-3)
    assert counted[0] == counted[1]
    assert np.ptp([push[1] for push in pushes]) < 1e-6


def test_with_the_bugs_the_loss_falls_and_gold_rises(dpo_world, capsys) -> None:
    dpo_world["learn"](dpo_world["suspicious_loss"])
    rows = printed(capsys)  # step, loss, gold, KL, cut off
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    assert rows[-1][2] > rows[0][2] + 1
    dpo_world["learn"](dpo_world["pair_loss"])
    mended = printed(capsys)
    assert mended[-1][4] < 0.05 < 0.1 < rows[-1][4]
    assert mended[-1][2] < rows[-1][2]
    worth = [end[2] - 0.5 * end[3] for end in (mended[-1], rows[-1])]
    assert worth == pytest.approx([0.3, 0.0], abs=0.15)


# online


def test_the_bugs_make_texts_shorter_and_the_mended_rewards_do_not(online_world, capsys) -> None:
    online_world["talk"](online_world["suspicious_rewards"])
    wrong = printed(capsys)  # update, reward, tokens, KL, score
    online_world["talk"](online_world["mended_rewards"])
    right = printed(capsys)
    assert wrong[-1][1] > wrong[0][1] + 0.5
    assert wrong[-1][2] < 1.5 < wrong[0][2]
    assert wrong[-1][4] < wrong[0][4]
    assert right[-1][1] > right[0][1]
    assert right[-1][2] > right[0][2]
    assert right[-1][4] > 7
