"""Advantages of groups of completions, against loops over single ones."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_statistics import mean, sample_std

from ppobook.language.grpo import group_advantages
from ppobook.language.settings import BASELINES, SCALES


def slow_advantages(rewards, size, baseline, scale, eps):
    """One completion at a time, each with a list of the others."""
    found = []
    for i, reward in enumerate(rewards):
        begin = i // size * size
        group = rewards[begin : begin + size]
        others = group[: i - begin] + group[i - begin + 1 :]
        if min(group) == max(group) and not (baseline == "batch" and scale != "group"):
            found.append(0.0)
            continue
        taken = {"group": group, "leave_one_out": others, "batch": rewards}[baseline]
        advantage = reward - mean(taken)
        if scale != "none":
            advantage /= sample_std({"group": group, "batch": rewards}[scale]) + eps
        found.append(advantage)
    return found


EVERY_WAY = list(itertools.product(BASELINES, SCALES))
numbers = st.floats(-50, 50).map(lambda x: round(x, 3))


@settings(max_examples=150)
@given(st.data(), st.sampled_from(EVERY_WAY), st.integers(2, 5), st.integers(1, 4))
def test_advantages_are_those_of_loops(data, how, size, groups):
    rewards = data.draw(st.lists(numbers, min_size=size * groups, max_size=size * groups))
    if data.draw(st.booleans()):
        rewards[:size] = rewards[:1] * size
    eps = data.draw(st.sampled_from([1e-4, 0.5]))
    found = group_advantages(torch.tensor(rewards, dtype=torch.float64), size, **named(how), eps=eps)
    np.testing.assert_allclose(found, slow_advantages(rewards, size, *how, eps), rtol=1e-9, atol=1e-9)


def named(how):
    return dict(zip(("baseline", "scale"), how, strict=True))


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
def test_rewards_far_from_zero(how):
    """Float32 holds these rewards exactly, but not their mean."""
    rewards = 1e7 + torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 7.0])
    expected = group_advantages(rewards.double(), 3, **named(how))
    torch.testing.assert_close(group_advantages(rewards, 3, **named(how)), expected.float())


def test_equal_rewards_have_advantage_zero_and_not_a_rounding():
    """Neither 0.1 nor its threefold sum is a float; the difference must not be blown up by eps."""
    for value in (0.1, 0.7, 1e8 / 3):
        rewards = torch.tensor([value] * 3 + [1.0, 2.0, 4.0])
        for how in EVERY_WAY:
            advantages = group_advantages(rewards, 3, **named(how), eps=0.0)
            assert torch.isfinite(advantages).all()
            alone = how[0] != "batch" or how[1] == "group"
            assert bool((advantages[:3] == 0).all()) is alone
            assert advantages[3:].abs().min() > 0
    assert not group_advantages(torch.full((6,), 0.1), 3, baseline="batch", scale="batch", eps=0.0).any()
