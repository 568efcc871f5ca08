"""The interactive figure of the chapter on GRPO, without a browser."""

from __future__ import annotations

from itertools import islice, product
from statistics import mean, stdev

import numpy as np
import pytest

from ppobook.teaching import figures
from ppobook.teaching.figures import _group


@pytest.mark.parametrize("rewards", [[1, 0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1], [0] * 8])
@pytest.mark.parametrize("divided", [False, True])
def test_advantages_are_their_definition(rewards, divided):
    found = figures.group_drawn(rewards, divided=divided)
    centered = [reward - mean(rewards) for reward in rewards]
    assert (found.mean, found.std) == pytest.approx((mean(rewards), stdev(rewards)))
    assert found.dead == (found.std == 0)
    over = stdev(rewards) if divided and not found.dead else 1
    np.testing.assert_allclose(found.advantages, [entry / over for entry in centered], atol=1e-12)


@pytest.mark.parametrize("p", [0.0, 0.05, 0.3, 1.0])
def test_the_share_of_dead_groups_by_enumeration(p):
    share = 0.0
    for group in product((0, 1), repeat=4):
        if len(set(group)) == 1:
            share += float(np.prod([p if reward else 1 - p for reward in group]))
    assert figures.dead_share(p, 4) == pytest.approx(share)


def test_the_groups_that_are_drawn_have_that_share():
    drawn = np.array(list(islice(_group.groups(0), 2000)))
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    for p, size in ((0.05, 8), (0.3, 4), (0.98, 64)):
        right = (drawn[:, :size] < p).sum(axis=1)
        dead = np.isin(right, (0, size)).mean()
        assert dead == pytest.approx(figures.dead_share(p, size), abs=0.04)


def test_the_first_group_is_dead_where_the_question_leads():
    state = figures.group_explorer().state
    assert (state["p"], state["group_size"]) == (0.3, 8)
    assert state["drawn"]["mean"] == 3 / 8
    (first,) = islice(_group.groups(state["seed"]), 1)
    assert min(first[:8]) > 0.05
