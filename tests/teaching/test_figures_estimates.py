"""The interactive figures of the chapter on advantages, without a browser: what the library computes."""

from __future__ import annotations

import numpy as np
import pytest

from ppobook.returns import gae, n_step_advantages
from ppobook.teaching import figures

# E5


def by_hand(segment, gamma, lam):
    """Every advantage as a sum over the later TD errors of its episode."""
    steps = len(segment["rewards"])
    deltas = []
    for t in range(steps):
        following = segment["values"][t + 1]
        if segment["truncated"][t]:
            following = segment["final_values"][t]
        if segment["terminated"][t]:
            following = 0.0
        deltas.append(segment["rewards"][t] + gamma * following - segment["values"][t])
    advantages = []
    for t in range(steps):
        total = 0.0
        for k in range(t, steps):
            total += (gamma * lam) ** (k - t) * deltas[k]
            if segment["terminated"][k] or segment["truncated"][k]:
                break
        advantages.append(total)
    return deltas, advantages


@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.8), (0.99, 0.95), (1.0, 1.0), (0.5, 0.0), (0.0, 1.0)])
def test_state_of_e5_is_what_the_library_computed(gamma, lam):
    for segment in figures.gae_explorer().state["segments"]:
        given = {name: column for name, column in segment.items() if name != "name"}
        state = figures.gae_explorer(**given, gamma=gamma, lam=lam).state
        assert state["segments"][0] == segment, "a segment that is known keeps its name"
        assert len(state["segments"]) == len(figures.gae_explorer().state["segments"])
        deltas, advantages = by_hand(segment, gamma, lam)
        np.testing.assert_allclose(state["deltas"], deltas, atol=1e-9)
        np.testing.assert_allclose(state["advantages"], advantages, atol=1e-9)


def test_a_segment_of_the_reader_comes_first():
    state = figures.gae_explorer([1, 2, 3], [0.5, 1, 0, 2], [0, 1, 0], [1, 1, 0], [4, np.nan, np.nan]).state
    first = state["segments"][0]
    assert first["name"] == "This segment"
    assert first["truncated"] == [True, False, False], "where both are set, terminated wins"
    assert first["final_values"] == [4.0, 1.0, 0.0], "what is not read starts as the step's own value"
    assert len(state["segments"]) == 5
    np.testing.assert_allclose(state["deltas"], [1 + 0.9 * 4 - 0.5, 2 - 1, 3 + 0.9 * 2])


def test_arrays_do_as_well_as_lists():
    rewards, values, ends = np.array([1.0, 0.0]), np.array([0.5, 0.2, 0.1]), np.array([False, True])
    state = figures.gae_explorer(rewards, values, ends).state
    np.testing.assert_allclose(state["advantages"], gae(rewards, values, ends, gamma=0.9, lam=0.8)[0])
    np.testing.assert_allclose(state["deltas"], n_step_advantages(rewards, values, ends, n=1, gamma=0.9))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"rewards": [1.0], "values": [1.0, 0.0], "terminated": [0]},
            "rewards must have 2 to 8 entries, got 1",
        ),
        ({"rewards": [0.0] * 9}, "rewards must have 2 to 8 entries, got 9"),
        ({"values": [0.5] * 7}, r"values must have shape \(8,\)"),
        ({"truncated": [True] + [False] * 6}, "final_values must be given"),
        ({"gamma": 1.5}, r"gamma must be a number in \[0, 1\], got 1.5"),
        ({"lam": -0.1}, r"lam must be a number in \[0, 1\]"),
        ({"rewards": [np.nan] * 7}, "rewards must be finite"),
    ],
)
def test_gae_explorer_refuses(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        figures.gae_explorer(**settings)


def test_alt_of_e5_has_the_numbers():
    alt = figures.gae_explorer().alt
    assert "step 3 terminated" in alt
    assert "δ are 0.31, −0.54, 0.23, 0.3, −0.23, 0.44, 0.12" in alt
    assert "are 0.15, −0.22, 0.45, 0.3, 0.15, 0.53, 0.12" in alt
    cut = figures.gae_explorer([0, 1], [1, 1, 1], [0, 0], [0, 1], [0, 0.25]).alt
    assert "step 1 was truncated, with final value 0.25" in cut
