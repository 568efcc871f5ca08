"""The chain and the gridworld: known values and moves, and as environments of Gymnasium."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ppobook.envs import TabularEnv, TabularMDP, chain, gridworld, make_env


def test_values_of_a_random_walk_lie_on_a_line():
    mdp = chain(5, left_reward=0.0, right_reward=1.0, slip=0.0, gamma=1.0)
    values = mdp.policy_value(np.full((7, 2), 0.5))
    np.testing.assert_allclose(values[1:-1], np.arange(1, 6) / 6, atol=1e-12)


def test_a_slip_of_one_half_makes_the_actions_alike():
    mdp = chain(4, slip=0.5)
    np.testing.assert_allclose(
        mdp.policy_gradient(np.random.default_rng(0).normal(size=(6, 2))), 0, atol=1e-12
    )


def test_optimal_policies_are_much_better_than_uniform_ones():
    for mdp in (chain(), gridworld()):
        uniform = np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)
        assert mdp.objective(mdp.optimal_policy()) > mdp.objective(uniform) + 0.4


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


def world(**changes):
    """One step from the first state to the second, which ends the episode."""
    given = {"P": [[[0.0, 1.0]]] * 2, "R": [[1.0]] * 2, "gamma": 1.0, "start": [1.0, 0.0]}
    return TabularMDP(**given | {"terminal": [False, True]} | changes)


def test_settings_reach_the_world():
    envs = make_env("ppobook/Chain-v0", 2, seed=0, length=9, slip=0.0, max_episode_steps=3)
    assert envs.single_observation_space.n == 11
    for flags in (False, False, True):
        *_, truncated, _ = envs.step(np.array([0, 1]))
        assert truncated.tolist() == [flags, flags]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chain(0), "length must be an integer of at least 1, got 0"),
        (lambda: chain(slip=1.1), r"slip must be a number in \[0, 1\], got 1.1"),
        (lambda: chain(start=6), r"start must be an integer in \[1, 5\], got 6"),
        (lambda: gridworld(["S.", "G"]), "layout must be strings of one length"),
        (lambda: gridworld([]), "layout must be strings of one length"),
        (lambda: gridworld(["SxG"]), r"layout must consist of .*, got \['x'\]"),
        (lambda: gridworld(["S.."]), "layout must have at least one start S and one goal G"),
        (lambda: gridworld(slip=-1), "slip must be .*, got -1"),
        *(
            (lambda name=name: gridworld(**{name: "x"}), f"{name} must be a finite number, got 'x'")
            for name in ("goal_reward", "pit_reward", "step_reward")
        ),
        *(
            (lambda name=name: chain(**{name: [1.0]}), rf"{name} must be a finite number, got \[1.0\]")
            for name in ("left_reward", "right_reward", "step_reward")
        ),
        (lambda: chain(start=1.0), r"start must be an integer in \[1, 5\], got 1.0"),
        (lambda: gridworld("S.G"), "layout must be a sequence of strings, one per row, got 'S.G'"),
        (lambda: gridworld([1, 2]), r"layout must be a sequence of strings, .* got \[1, 2\]"),
        (lambda: TabularEnv("chain"), "mdp must be a TabularMDP, got str"),
        (lambda: TabularEnv(chain()).step(-1), r"action must be an integer in \[0, 1\], got -1"),
        (lambda: TabularMDP([[[1.0], [1.0, 2.0]]], 0, 1, 0), "P must be an array of real numbers, got list"),
        (lambda: world(R=[["x"]]), r"R must be an array of real numbers, got \[\['x'\]\]"),
        (lambda: world(start=None), "start must be an array of real numbers, got None"),
        (lambda: world(terminal=[[True], [True, False]]), "terminal must be 2 bools, one per state"),
        (lambda: world(state_names="AB"), "state_names must be 2 strings, got 'AB'"),
        (lambda: world(action_names=["on", "off"]), r"action_names must be 1 strings, got \['on', 'off'\]"),
        (lambda: world(positions=[1, 2]), r"positions must have shape \(2, 2\), row and column"),
        (
            lambda: world().sample_episodes([[1.0]] * 2, 3, "x"),
            "seed must be an integer of at least 0, got 'x'",
        ),
        (lambda: world().policy_value("x"), "probs must be an array of real numbers, got 'x'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
