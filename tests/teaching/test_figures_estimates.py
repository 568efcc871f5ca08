"""The interactive figures of the chapter on advantages, without a browser: what the library computes."""

from __future__ import annotations

import numpy as np
import pytest

from ppobook.envs import TabularMDP, chain, gridworld
from ppobook.returns import gae, n_step_advantages
from ppobook.teaching import figures
from ppobook.teaching.figures import gae_error

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


# E6


def sampled_error(mdp, probs, critic, lam, episodes=20_000):
    """Squared bias and variance by `gae` on sampled episodes: for each state and action that was met."""
    played = mdp.sample_episodes(probs, episodes, seed=0)
    critic = np.where(mdp.terminal, 0.0, critic)
    rows, longest = played.mask.shape
    lengths = played.mask.sum(axis=1)
    values = np.zeros((rows, longest + 1))
    values[:, :-1] = np.where(played.mask, critic[played.states], 0.0)
    terminated = np.arange(longest) == lengths[:, None] - 1
    advantages, _ = gae(played.rewards, values, terminated, gamma=mdp.gamma, lam=lam)
    aim = mdp.q_values(probs) - critic[:, None]
    pairs = played.states[played.mask] * mdp.n_actions + played.actions[played.mask]
    seen = advantages[played.mask]
    squared_bias = variance = 0.0
    for pair in np.unique(pairs):
        mine = seen[pairs == pair]
        share = len(mine) / len(seen)
        squared_bias += share * (mine.mean() - aim.flat[pair]) ** 2
        variance += share * mine.var()
    return squared_bias, variance


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("world", ["chain", "grid"])
def test_gae_error_against_sampled_episodes(world, lam):
    mdp = chain(4, gamma=0.9) if world == "chain" else gridworld(gamma=0.95)
    generator = np.random.default_rng(1)
    probs = generator.dirichlet(np.full(mdp.n_actions, 3.0), size=mdp.n_states)
    critic = mdp.policy_value(probs) + generator.normal(0, 0.3, mdp.n_states)
    found = gae_error(mdp, probs, critic, lam=lam)
    assert found == pytest.approx(sampled_error(mdp, probs, critic, lam), rel=0.06, abs=2e-4)


def test_gae_error_at_both_ends_of_lambda():
    mdp = chain(5, gamma=0.95)
    probs = np.full((7, 2), 0.5)
    true = mdp.policy_value(probs)
    for lam in (0.0, 0.5, 1.0):
        assert gae_error(mdp, probs, true, lam=lam).squared_bias == pytest.approx(0, abs=1e-20)
    assert gae_error(mdp, probs, true + 3, lam=1.0).squared_bias == pytest.approx(0, abs=1e-20)
    # With λ = 0 the bias is γ times the error of the next state, which is 0 where the episode ends.
    steps = chain(5, gamma=1.0).state_occupancy(probs)
    ends = (mdp.P * mdp.terminal).sum(axis=2)
    expected = (steps[:, None] * probs * (0.95 * 0.2 * (1 - ends)) ** 2).sum() / steps.sum()
    assert gae_error(mdp, probs, true + 0.2, lam=0.0).squared_bias == pytest.approx(expected)


def test_a_terminal_states_value_is_not_read():
    mdp = chain(3)
    probs, critic = np.full((5, 2), 0.5), np.array([np.nan, 0.1, 0.2, 0.3, np.inf])
    expected = gae_error(mdp, probs, [0, 0.1, 0.2, 0.3, 0], lam=0.8)
    assert gae_error(mdp, probs, critic, lam=0.8) == expected


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"lam": 1.1}, r"lam must be a number in \[0, 1\]"),
        ({"critic": np.zeros(4)}, r"critic must have shape \(7,\), one value per state, got \(4,\)"),
        ({"critic": np.full(7, np.nan)}, "critic must be finite"),
        ({"probs": np.ones((7, 2))}, "probs must sum to 1"),
    ],
)
def test_gae_error_refuses(settings, sentence):
    given = {"probs": np.full((7, 2), 0.5), "critic": np.zeros(7), "lam": 0.9, **settings}
    with pytest.raises(ValueError, match=sentence):
        gae_error(chain(5), **given)


@pytest.fixture(scope="module")
def sweep():
    return figures.lambda_sweep()


def numbers(row):
    """One curve of the state, which holds each as a text."""
    return np.array(row.split(), dtype=float)


def test_state_of_e6_is_what_the_library_computed(sweep):
    state = sweep.state
    probs = np.tile([0.3, 0.7], (11, 1))
    for g, gamma in list(enumerate(state["gammas"]))[::3]:
        mdp = chain(9, gamma=gamma)
        true = mdp.policy_value(probs)
        sign = np.array([-1, 1] * 5 + [-1])
        for critic, values in zip(
            state["critics"], (true, true + 0.2, true + 0.2 * sign, 0 * true), strict=True
        ):
            for k in (0, 10, 20, 26):
                error = gae_error(mdp, probs, values, lam=state["lambdas"][k])
                shown = [numbers(critic[part][g])[k] for part in ("squared_bias", "variance")]
                assert shown == pytest.approx(error, abs=1e-6), (gamma, critic["name"])


def test_what_e6_says_of_its_curves_holds_for_all_of_them(sweep):
    for critic in sweep.state["critics"]:
        for bias, variance in zip(critic["squared_bias"], critic["variance"], strict=True):
            bias, variance = numbers(bias), numbers(variance)
            best = int(np.argmin(bias + variance))
            assert (bias[:best] > bias[best]).all(), "a smaller λ takes more bias from the critic"
            assert (variance[best + 1 :] > variance[best]).all(), "a larger λ takes more variance"
            assert bias[-1] == 0
            if critic["name"] == "that is right":
                assert best == 0
    best = sweep.state["lambdas"][best]
    assert best == 1.0, "the untrained critic at γ = 1 is best not used"


def test_alt_of_e6_has_the_numbers(sweep):
    assert "falls from 0.033 at λ = 0 to 0 at λ = 1" in sweep.alt
    assert "Their sum is least, 0.020, at λ = 0.9; at λ = 0.5 it is 0.030." in sweep.alt


def test_a_world_of_the_readers():
    mdp = gridworld()
    figure = figures.lambda_sweep(mdp, error=0.5, gamma=0.99, lam=0.95)
    assert "a world of the reader's" in figure.alt
    world = TabularMDP(mdp.P, mdp.rewards, 0.99, mdp.start, mdp.terminal)
    probs = np.full((mdp.n_states, 4), 0.25)
    error = gae_error(world, probs, world.policy_value(probs) + 0.5, lam=0.95)
    assert figure.state["errors"] == pytest.approx(error._asdict(), abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"gamma": 0.97}, "gamma must be one of 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1, got 0.97"),
        ({"lam": 0.96}, "lam must be one of 0, 0.05, 0.1"),
        ({"error": -0.1}, "error must be"),
    ],
)
def test_lambda_sweep_refuses_what_no_slider_can_show(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        figures.lambda_sweep(**settings)
