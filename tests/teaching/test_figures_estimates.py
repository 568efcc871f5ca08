"""The interactive figures of the chapter on advantages, without a browser: what the library computes."""

from __future__ import annotations

import numpy as np
import pytest

from ppobook.envs import chain, gridworld
from ppobook.returns import gae
from ppobook.teaching import figures
from ppobook.teaching.figures import gae_error

# E5


def by_hand(segment, gamma, lam):
    """Every advantage as a sum over the later TD errors of its episode."""
    steps = len(segment["rewards"])
    deltas = []
    for t in range(steps):
        following = 0.0 if segment["terminated"][t] else segment["values"][t + 1]
        deltas.append(segment["rewards"][t] + gamma * following - segment["values"][t])
    advantages = []
    for t in range(steps):
        total = 0.0
        for k in range(t, steps):
            total += (gamma * lam) ** (k - t) * deltas[k]
            if segment["terminated"][k]:
                break
        advantages.append(total)
    return deltas, advantages


@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.8), (1.0, 1.0), (0.5, 0.0)])
def test_state_of_e5_is_what_the_library_computed(gamma, lam):
    state = figures.gae_explorer(gamma=gamma, lam=lam).state
    deltas, advantages = by_hand(state["segments"][0], gamma, lam)
    np.testing.assert_allclose(state["deltas"], deltas, atol=1e-9)
    np.testing.assert_allclose(state["advantages"], advantages, atol=1e-9)


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


@pytest.mark.parametrize(("world", "lam"), [("chain", 0.0), ("grid", 0.7), ("chain", 1.0)])
def test_gae_error_against_sampled_episodes(world, lam):
    mdp = chain(4, gamma=0.9) if world == "chain" else gridworld(gamma=0.95)
    generator = np.random.default_rng(1)
    probs = generator.dirichlet(np.full(mdp.n_actions, 3.0), size=mdp.n_states)
    critic = mdp.policy_value(probs) + generator.normal(0, 0.3, mdp.n_states)
    found = gae_error(mdp, probs, critic, lam=lam)
    assert found == pytest.approx(sampled_error(mdp, probs, critic, lam), rel=0.06, abs=2e-4)


@pytest.fixture(scope="module")
def sweep():
    return figures.lambda_sweep()


def numbers(row):
    """One curve of the state, which holds each as a text."""
    return np.array(row.split(), dtype=float)


def test_state_of_e6_is_what_the_library_computed(sweep):
    state = sweep.state
    probs = np.tile([0.3, 0.7], (11, 1))
    for g, gamma in list(enumerate(state["gammas"]))[::4]:
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
