"""The chain and the gridworld: known values and moves, and as environments of Gymnasium."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ppobook.envs import chain, gridworld, make_env


def test_values_of_a_random_walk_lie_on_a_line():
    mdp = chain(5, left_reward=0.0, right_reward=1.0, slip=0.0, gamma=1.0)
    values = mdp.policy_value(np.full((7, 2), 0.5))
    np.testing.assert_allclose(values[1:-1], np.arange(1, 6) / 6, atol=1e-12)


def test_moves_on_the_grid():
    mdp = gridworld(["S.#", "P.G"], slip=0.0, step_reward=-0.5)
    names = [name[0] for name in mdp.state_names]
    assert names == ["S", ".", "P", ".", "G"]
    np.testing.assert_array_equal(mdp.positions, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)])
    np.testing.assert_array_equal(mdp.terminal, [False, False, True, False, True])
    to = mdp.P.argmax(-1)  # up, right, down, left
    assert to[0].tolist() == [0, 1, 2, 0]
    assert to[1].tolist() == [1, 1, 3, 0]  # the wall on the right sends one back
    assert to[3].tolist() == [1, 4, 3, 2]
    assert mdp.R[0].tolist() == [-0.5, -0.5, -1.5, -0.5]
    assert mdp.R[3].tolist() == [-0.5, 0.5, -0.5, -1.5]


def test_slipping_goes_to_either_side():
    mdp = gridworld(["...", ".S.", "..G"], slip=0.2)
    at = {tuple(position): state for state, position in enumerate(mdp.positions)}
    right = mdp.P[at[1, 1], 1]
    assert right[at[1, 2]] == pytest.approx(0.8)
    assert right[at[0, 1]] == pytest.approx(0.1)
    assert right[at[2, 1]] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("env_id", "mdp"), [("ppobook/Chain-v0", chain()), ("ppobook/Gridworld-v0", gridworld())]
)
def test_registered_worlds_are_the_tabular_ones(env_id, mdp):
    check_env(gym.make(env_id).unwrapped, skip_render_check=True)
    rough = np.exp(np.random.default_rng(0).normal(size=(mdp.n_states, mdp.n_actions)))
    probs = rough / rough.sum(1, keepdims=True)
    envs, rng = make_env(env_id, 50, seed=0), np.random.default_rng(0)
    state, _ = envs.reset()
    returns, now, played = np.zeros(50), np.ones(50), []
    for _ in range(600):
        action = (rng.random((50, 1)) > probs[state].cumsum(1)).sum(1)
        state, reward, terminated, truncated, infos = envs.step(action)
        returns += now * reward
        now *= mdp.gamma
        for i in np.flatnonzero(terminated):
            assert mdp.terminal[infos["final_obs"][i]]
            played.append(returns[i])
            returns[i], now[i] = 0, 1
        assert not truncated.any()
    assert np.mean(played) == pytest.approx(
        mdp.objective(probs), abs=4 * np.std(played) / np.sqrt(len(played))
    )
