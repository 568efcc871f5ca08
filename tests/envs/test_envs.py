"""The small worlds against slow definitions, and Gymnasium's environments as `make_env` hands them out."""

import itertools
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from ppobook.envs import TabularMDP, chain, gridworld, list_envs, make_env

# ---------------------------------------------------------------------------------------- worlds to try


def random_mdp(seed, n_states=6, n_actions=3, gamma=0.9):
    """Any state to any other; the last one terminal; rewards depend on where one gets to."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    rewards = rng.normal(size=(n_states, n_actions, n_states))
    start = np.append(rng.dirichlet(np.ones(n_states - 1)), 0)
    return TabularMDP(transitions, rewards, gamma, start, np.arange(n_states) == n_states - 1)


def layered_mdp(seed, gamma=0.8):
    """Two states, then two states, then the end: few enough trajectories to write them all down."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((5, 2, 5))
    transitions[:2, :, 2:4] = rng.dirichlet(np.ones(2), size=(2, 2))
    transitions[2:4, :, 4] = 1
    start = np.array([0.3, 0.7, 0, 0, 0])
    return TabularMDP(transitions, rng.normal(size=(5, 2, 5)), gamma, start, np.arange(5) == 4)


def trajectories(mdp, probs):
    """Every trajectory of a world that soon ends: its probability, its discounted return, its steps."""

    def onward(state, probability, discount, earned, steps):
        if mdp.terminal[state]:
            yield probability, earned, steps
            return
        for action in range(mdp.n_actions):
            for following in np.flatnonzero(mdp.P[state, action]):
                yield from onward(
                    following,
                    probability * probs[state, action] * mdp.P[state, action, following],
                    discount * mdp.gamma,
                    earned + discount * mdp.rewards[state, action, following],
                    [*steps, (state, action)],
                )

    for state in np.flatnonzero(mdp.start):
        yield from onward(state, mdp.start[state], 1.0, 0.0, [])


def softmax(logits):
    return torch.as_tensor(logits).softmax(-1).numpy()


def random_policy(mdp, seed=0):
    return softmax(np.random.default_rng(seed).normal(size=(mdp.n_states, mdp.n_actions)))


WORLDS = {
    "chain": chain(),
    "undiscounted": chain(4, gamma=1.0, step_reward=-0.1),
    "gridworld": gridworld(),
    "random": random_mdp(1),
    "layered": layered_mdp(2),
}
worlds = pytest.mark.parametrize("mdp", WORLDS.values(), ids=WORLDS)


# ------------------------------------------------------------------------------------- exact quantities


@worlds
def test_values_are_the_limit_of_the_bellman_operator(mdp):
    probs = random_policy(mdp)
    values = np.zeros(mdp.n_states)
    for _ in range(5000):
        new = np.zeros(mdp.n_states)
        for s in np.flatnonzero(~mdp.terminal):
            for a in range(mdp.n_actions):
                new[s] += probs[s, a] * (mdp.P[s, a] @ (mdp.rewards[s, a] + mdp.gamma * values))
        done = np.abs(new - values).max() < 1e-14
        values = new
        if done:
            break
    np.testing.assert_allclose(mdp.policy_value(probs), values, atol=1e-9)
    assert mdp.objective(probs) == pytest.approx(mdp.start @ values, abs=1e-9)
    np.testing.assert_allclose((probs * mdp.q_values(probs)).sum(1), values, atol=1e-9)
    np.testing.assert_allclose((probs * mdp.advantages(probs)).sum(1), 0, atol=1e-9)
    assert (mdp.policy_value(probs)[mdp.terminal] == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_objective_and_gradient_are_sums_over_all_trajectories(seed):
    mdp = layered_mdp(seed)
    logits = np.random.default_rng(seed).normal(size=(5, 2))
    probs = softmax(logits)
    objective, gradient = 0.0, np.zeros_like(probs)
    for probability, earned, steps in trajectories(mdp, probs):
        score = np.zeros_like(probs)
        for s, a in steps:
            score[s] += np.eye(2)[a] - probs[s]
        objective += probability * earned
        gradient += probability * earned * score
    assert mdp.objective(probs) == pytest.approx(objective, abs=1e-12)
    np.testing.assert_allclose(mdp.policy_gradient(logits), gradient, atol=1e-12)


@worlds
def test_gradient_against_finite_differences_and_autograd(mdp):
    logits = np.random.default_rng(3).normal(size=(mdp.n_states, mdp.n_actions))
    gradient = mdp.policy_gradient(logits)

    slow = np.zeros_like(logits)
    for index in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[index] = 1e-5
        slow[index] = (mdp.objective(softmax(logits + step)) - mdp.objective(softmax(logits - step))) / 2e-5
    np.testing.assert_allclose(gradient, slow, atol=1e-8)

    tensor = torch.tensor(logits, requires_grad=True)
    objective = mdp.objective(tensor.softmax(-1))
    objective.backward()
    assert objective.item() == pytest.approx(mdp.objective(softmax(logits)), abs=1e-12)
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), atol=1e-12)


@worlds
def test_occupancy_is_the_sum_of_discounted_state_distributions(mdp):
    probs = random_policy(mdp)
    onward = np.einsum("sa,sat->st", probs, mdp.P)
    visits, now = np.zeros(mdp.n_states), mdp.start.copy()
    for t in range(5000):
        visits += mdp.gamma**t * np.where(mdp.terminal, 0, now)
        now = now @ onward
    np.testing.assert_allclose(mdp.state_occupancy(probs), visits, atol=1e-9)
    # J once more, from the visits: what is earned in each state, as often as one is there.
    assert mdp.state_occupancy(probs) @ (probs * mdp.R).sum(1) == pytest.approx(
        mdp.objective(probs), abs=1e-9
    )


@pytest.mark.parametrize(
    "mdp",
    [random_mdp(seed, n_states=4) for seed in range(5)]
    + [chain(3), chain(4, left_reward=0.9), layered_mdp(0)],
)
def test_no_deterministic_policy_is_better_than_the_optimal_one(mdp):
    best = mdp.optimal_policy()
    assert set(np.unique(best)) == {0.0, 1.0}
    assert (best.sum(1) == 1).all()
    values = [
        mdp.policy_value(np.eye(mdp.n_actions)[list(choice)])
        for choice in itertools.product(range(mdp.n_actions), repeat=mdp.n_states)
    ]
    np.testing.assert_allclose(mdp.policy_value(best), np.max(values, axis=0), atol=1e-9)


def test_optimal_policy_ends_where_actions_tie():
    # Up and down the sides of a square are equally good ways.
    mdp = gridworld(["S.", ".G"], slip=0.0)
    assert mdp.objective(mdp.optimal_policy()) == pytest.approx(-0.02 + 0.95 * 0.98)


@worlds
def test_tensors_come_back_as_they_came(mdp):
    probs = torch.tensor(random_policy(mdp), dtype=torch.float32)
    for method in (mdp.policy_value, mdp.q_values, mdp.advantages, mdp.objective, mdp.state_occupancy):
        found = method(probs)
        assert isinstance(found, torch.Tensor)
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found.numpy(), method(probs.double().numpy()), rtol=1e-4, atol=1e-5)
    logits = torch.zeros(mdp.n_states, mdp.n_actions, requires_grad=True)
    assert mdp.policy_gradient(logits).dtype == torch.float32
    assert not mdp.policy_gradient(logits).requires_grad


def test_lists_and_whole_number_policies_are_policies():
    mdp = chain(1)
    right = [[0, 1]] * 3
    assert mdp.objective(right) == pytest.approx(0.91)
    assert mdp.objective(torch.tensor(right)).item() == pytest.approx(0.91)


# --------------------------------------------------------------------------------------------- samples


@worlds
def test_samples_earn_what_the_objective_says(mdp):
    probs = random_policy(mdp)
    batch = mdp.sample_episodes(probs, 20_000, seed=0)
    discounts = mdp.gamma ** np.arange(batch.rewards.shape[1])
    returns = (batch.rewards * discounts).sum(1)
    error = returns.std() / np.sqrt(len(returns))
    assert returns.mean() == pytest.approx(mdp.objective(probs), abs=4 * error)
    visits = [((batch.states == s) & batch.mask) @ discounts for s in range(mdp.n_states)]
    np.testing.assert_allclose(np.mean(visits, axis=1), mdp.state_occupancy(probs), atol=0.06)


def test_sampling_frequencies():
    mdp = random_mdp(5)
    probs = random_policy(mdp)
    probs[0] = [0.0, 1.0, 0.0]
    states, actions, rewards, mask = mdp.sample_episodes(probs, 40_000, seed=1)
    np.testing.assert_allclose(np.bincount(states[:, 0], minlength=6) / 40_000, mdp.start, atol=0.01)
    for s in range(5):
        here = mask & (states == s)
        chosen = np.bincount(actions[here], minlength=3) / here.sum()
        np.testing.assert_allclose(chosen, probs[s], atol=0.015)
        assert (chosen[probs[s] == 0] == 0).all()
    # The state after each step that was not an episode's last, and the reward that goes with getting there.
    goes_on = mask[:, 1:]
    for s, a in itertools.product(range(5), range(3)):
        here = goes_on & (states[:, :-1] == s) & (actions[:, :-1] == a)
        if here.sum() > 3000:
            following = states[:, 1:][here]
            given_on = mdp.P[s, a, :5] / mdp.P[s, a, :5].sum()
            np.testing.assert_allclose(np.bincount(following, minlength=5) / here.sum(), given_on, atol=0.04)
            np.testing.assert_array_equal(rewards[:, :-1][here], mdp.rewards[s, a, following])


def test_padding_is_zero_and_only_behind_the_end():
    batch = chain().sample_episodes(np.full((7, 2), 0.5), 500, seed=3)
    lengths = batch.mask.sum(1)
    assert lengths.max() == batch.mask.shape[1]
    assert len(np.unique(lengths)) > 5
    np.testing.assert_array_equal(batch.mask, np.arange(lengths.max()) < lengths[:, None])
    for column in (batch.states, batch.actions, batch.rewards):
        assert (column[~batch.mask] == 0).all()
    assert (batch.states[batch.mask] > 0).all()


def test_sampling_is_seeded_and_can_be_cut():
    mdp, uniform = chain(), np.full((7, 2), 0.5)
    first, again, other = (mdp.sample_episodes(uniform, 50, seed=seed) for seed in (7, 7, 8))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.mask.shape != other.mask.shape or (first.actions != other.actions).any()
    cut = mdp.sample_episodes(uniform, 50, seed=7, max_steps=2)
    np.testing.assert_array_equal(cut.actions, first.actions[:, :2])
    rng = np.random.default_rng(7)
    drawn = mdp.sample_episodes(uniform, 50, rng)
    np.testing.assert_array_equal(drawn.actions, first.actions)
    assert (mdp.sample_episodes(uniform, 50, rng).actions[:, 0] != first.actions[:, 0]).any()


# -------------------------------------------------------------------------------- the chain and the grid


def test_values_of_a_drunkard_lie_on_a_line():
    mdp = chain(5, left_reward=0.0, right_reward=1.0, slip=0.0, gamma=1.0)
    values = mdp.policy_value(np.full((7, 2), 0.5))
    np.testing.assert_allclose(values[1:-1], np.arange(1, 6) / 6, atol=1e-12)


def test_a_slip_of_one_half_makes_the_actions_alike():
    mdp = chain(4, slip=0.5)
    np.testing.assert_allclose(
        mdp.policy_gradient(np.random.default_rng(0).normal(size=(6, 2))), 0, atol=1e-12
    )


def test_default_worlds_are_worth_solving():
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


# ------------------------------------------------------------------------------------------- bad input

P = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
R = np.zeros((2, 1))
START = np.array([1.0, 0.0])
END = np.array([False, True])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((P[0], R, 0.9, START, END), r"P has shape \(1, 2\); \(S, A, S\) is wanted"),
        ((P * 0.9, R, 0.9, START, END), "P adds up to 0.9 at index .0, 0.; 1 is wanted"),
        ((P * [[[-1, 3]]], R, 0.9, START, END), "P is -0.5 at index .0, 0, 0.; probabilities are wanted"),
        ((P * np.nan, R, 0.9, START, END), "P is nan at index"),
        ((P, R[0], 0.9, START, END), r"R has shape \(1,\); \(2, 1\) or \(2, 1, 2\) is wanted"),
        ((P, R + np.inf, 0.9, START, END), "R is inf at index .0, 0, 0."),
        ((P, R, 1.5, START, END), "gamma is 1.5"),
        ((P, R, np.nan, START, END), "gamma is nan"),
        ((P, R, 0.9, START[:1], END), r"start has shape \(1,\); \(2,\) is wanted"),
        ((P, R, 0.9, START / 2, END), "start adds up to 0.5; 1 is wanted"),
        ((P, R, 0.9, START[::-1], END), "start puts probability on a terminal state"),
        ((P, R, 0.9, START, [0, 1]), "terminal has shape .* one bool for each of the 2 states"),
    ],
)
def test_a_world_that_is_none_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        TabularMDP(*arguments)


def test_rows_of_terminal_states_are_not_read():
    broken = P.copy()
    broken[1] = np.nan
    assert TabularMDP(broken, R + 1, 1.0, START, END).objective([[1], [1]]) == pytest.approx(2)


@pytest.mark.parametrize("method", ["policy_value", "q_values", "objective", "state_occupancy", "advantages"])
def test_what_is_no_policy_is_refused(method):
    for mdp in (chain(), gridworld()):
        take = getattr(mdp, method)
        with pytest.raises(ValueError, match=r"probs has shape \(3, 2\); .* is wanted"):
            take(np.full((3, 2), 0.5))
        with pytest.raises(ValueError, match=r"probs adds up to 0 at index 0.*logits.softmax"):
            take(np.zeros((mdp.n_states, mdp.n_actions)))
        with pytest.raises(ValueError, match="probs is nan"):
            take(torch.full((mdp.n_states, mdp.n_actions), torch.nan))


def test_a_policy_that_never_ends_is_refused_without_a_discount():
    mdp = chain(2, slip=0.0, gamma=1.0)
    to_and_fro = np.array([[1, 0], [0, 1], [1, 0], [1, 0]])
    with pytest.raises(ValueError, match="probs goes on for ever from state 1; with gamma = 1"):
        mdp.objective(to_and_fro)
    assert chain(2, slip=0.0, gamma=0.9).objective(to_and_fro) == 0


def test_an_episode_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr("ppobook.envs._ENDLESS", 50)
    to_and_fro = np.array([[1, 0], [0, 1], [1, 0], [1, 0]])
    mdp = chain(2, slip=0.0)
    with pytest.raises(ValueError, match="an episode had not ended after 50 steps"):
        mdp.sample_episodes(to_and_fro, 3, seed=0)
    assert mdp.sample_episodes(to_and_fro, 3, seed=0, max_steps=20).mask.all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: chain(0), "length is 0"),
        (lambda: chain(slip=1.1), "slip is 1.1"),
        (lambda: chain(start=6), "start is 6; one of the states 1 to 5 is wanted"),
        (lambda: gridworld(["S.", "G"]), "strings of one length"),
        (lambda: gridworld([]), "strings of one length"),
        (lambda: gridworld(["SxG"]), "layout holds 'x'"),
        (lambda: gridworld(["S.."]), "one goal G"),
        (lambda: gridworld(slip=-1), "slip is -1"),
        (lambda: chain().sample_episodes(np.full((7, 2), 0.5), 0), "episodes is 0"),
        (lambda: chain().sample_episodes(np.full((7, 2), 0.5), 5, max_steps=0), "max_steps is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


# ------------------------------------------------------------------------------------------- Gymnasium


@pytest.mark.parametrize(
    ("env_id", "mdp"), [("ppobook/Chain-v0", chain()), ("ppobook/Gridworld-v0", gridworld())]
)
def test_registered_worlds_are_the_tabular_ones(env_id, mdp):
    check_env(gym.make(env_id).unwrapped, skip_render_check=True)
    probs = random_policy(mdp)
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


def test_settings_reach_the_world():
    envs = make_env("ppobook/Chain-v0", 2, seed=0, length=9, slip=0.0, max_episode_steps=3)
    assert envs.single_observation_space.n == 11
    for flags in (False, False, True):
        *_, truncated, _ = envs.step(np.array([0, 1]))
        assert truncated.tolist() == [flags, flags]


def test_seeds_decide_and_are_not_shared():
    def first(seed, n=8):
        return make_env("CartPole-v1", n, seed).reset()[0]

    np.testing.assert_array_equal(first(3), first(3))
    assert len(np.unique(np.concatenate([first(0), first(1), first(2)]), axis=0)) == 24
    assert (first(None) != first(None)).any()


def test_same_numbers_as_gymnasiums_own_vector():
    ours = make_env("CartPole-v1", 3, seed=0)
    theirs = gym.vector.SyncVectorEnv(
        [lambda: gym.make("CartPole-v1")] * 3, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    rng = np.random.default_rng(0)
    for _ in range(200):
        actions = rng.integers(2, size=3)
        a, b = ours.step(actions), theirs.step(actions)
        for x, y in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(x, y)
        assert a[4].keys() == b[4].keys()
        if "final_obs" in a[4]:
            for x, y in zip(a[4]["final_obs"], b[4]["final_obs"], strict=True):
                np.testing.assert_array_equal(x, y)


class Odd(gym.Env):
    """An environment with whatever spaces one asks for."""

    def __init__(self, observation=spaces.Discrete(3), action=spaces.Discrete(2)):  # noqa: B008
        self.observation_space, self.action_space = observation, action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 0.0, False, False, {}


gym.register("test_envs/Odd-v0", Odd)
BOX = spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("observation", "action", "seen"),
    [
        (spaces.Discrete(3), spaces.Discrete(2), spaces.Discrete),
        (spaces.Discrete(3, start=1), spaces.Discrete(2), (3,)),
        (spaces.Discrete(3), BOX, (3,)),
        (spaces.Box(0, 1, (2, 3)), spaces.Discrete(4, start=-2), (6,)),
        (spaces.Box(0, 255, (4, 4, 3), dtype=np.uint8), spaces.Box(-1, 1, (2, 2)), (48,)),
        (spaces.Box(-1, 1, ()), spaces.Box(-1, 1, ()), (1,)),
        (spaces.Dict(a=spaces.Discrete(3), b=BOX), BOX, (5,)),
        (spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]), spaces.Discrete(2), (5,)),
        (spaces.MultiDiscrete([2, 3]), spaces.Discrete(2), (5,)),
        (BOX, spaces.MultiDiscrete([2, 3]), (2,)),
        (BOX, spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 2], [3, 4]], dtype=np.int32), (2,)),
        (BOX, spaces.MultiBinary(3), (2,)),
        (spaces.Discrete(3), spaces.MultiBinary([2, 2]), (3,)),
    ],
)
def test_spaces_become_plain(observation, action, seen):
    envs = make_env("test_envs/Odd-v0", 2, seed=0, observation=observation, action=action)
    space = envs.single_observation_space
    assert isinstance(space, spaces.Discrete) if seen is spaces.Discrete else space.shape == seen
    if isinstance(action, spaces.Discrete):
        assert envs.single_action_space == spaces.Discrete(action.n)
        batches = [np.full(2, a) for a in range(action.n)]
    else:
        assert len(envs.single_action_space.shape) == 1
        batches = [envs.action_space.sample()]
    for actions in batches:
        found = envs.step(actions)[0]
        assert envs.observation_space.contains(found)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"action": spaces.Text(3)}, "actions are Text.*; discrete or box actions are wanted"),
        ({"action": spaces.Dict(a=BOX)}, "discrete or box actions are wanted"),
        ({"action": spaces.Box(0, 5, (2,), dtype=np.int64)}, "a box of real numbers is wanted"),
        (
            {"observation": spaces.Sequence(spaces.Discrete(2))},
            "observations are .*; some of a fixed size are wanted",
        ),
        ({"nonsense": 1}, "cannot be made: .*nonsense"),
        ({"observation": spaces.Box(-1, 1, (0,))}, "whose observations are .*, which is empty"),
        ({"action": spaces.Box(-1, 1, (0,))}, "whose actions are .*, which is empty"),
    ],
)
def test_spaces_nobody_here_knows_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=f"env is 'test_envs/Odd-v0'.*{sentence}"):
        make_env("test_envs/Odd-v0", **settings)


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("CartPol-v1", "did you mean 'CartPole-v1'"),
        ("cartpole-v1", "did you mean 'CartPole-v1'"),
        ("CartPole-v7", "did you mean 'CartPole-v1'"),
        ("Chain-v0", "did you mean .*'ppobook/Chain-v0'"),
        ("xyzzy", "the id of a known environment is wanted"),
        ("", "cannot be made"),
        ("no_such_module:Env-v0", "needs what is not installed: .*no_such_module"),
    ],
)
def test_unknown_environments_are_refused(env_id, sentence):
    with pytest.raises(ValueError, match=f"env is '{env_id}'.*{sentence}"):
        make_env(env_id)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"raises": KeyError("wheel")}, r"raised KeyError: 'wheel' in step 2 of an episode"),
        ({"raises": AssertionError()}, r"raised AssertionError in step 2 of an episode"),
        ({"reward": np.zeros(2)}, r"gave the reward array.* in step 2 .*; one number is wanted"),
        ({"reward": None}, r"gave the reward None"),
        ({"seen": None}, r"gave None in step 2 .*; an observation of shape \(2,\) is wanted"),
        ({"seen": np.zeros(1, np.float32)}, r"gave an observation of shape \(1,\) in step 2"),
        ({"four": True}, r"raised ValueError: not enough values to unpack .*in step 2"),
        (
            {"raises": gym.error.DependencyNotInstalled("pip install\nwheels")},
            ".*: pip install wheels in step 2",
        ),
        ({"resets": RuntimeError("no world")}, "raised RuntimeError: no world on a reset"),
    ],
)
def test_whatever_fails_inside_is_named(broken, sentence):
    def two_steps():
        envs = make_env("test_envs/Broken-v0", 2, 0, **broken)
        for _ in range(2):
            envs.step(np.zeros(2, np.int64))

    with pytest.raises(ValueError, match=r"environment 0 of 2 \(test_envs/Broken-v0\) " + sentence) as caught:
        two_steps()
    original = broken.get("raises") or broken.get("resets")
    if original:
        assert caught.value.__cause__ is original


class Broken(gym.Env):
    """Does something wrong in its second step, or when it is reset."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, **broken):
        self.broken, self.t = broken, 0

    def reset(self, *, seed=None, options=None):
        if "resets" in self.broken:
            raise self.broken["resets"]
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        broken = self.broken if self.t == 2 else {}
        if "raises" in broken:
            raise broken["raises"]
        if "four" in broken:
            return np.zeros(2, np.float32), 0.0, False, {}
        return broken.get("seen", np.zeros(2, np.float32)), broken.get("reward", 0.0), False, False, {}


gym.register("test_envs/Broken-v0", Broken)


def test_other_arguments_are_refused():
    with pytest.raises(TypeError, match="env is 3"):
        make_env(3)
    with pytest.raises(ValueError, match=r"num_envs is 1000000000000; .* at most 10000"):
        make_env("CartPole-v1", 10**12)
    with pytest.raises(ValueError, match="num_envs is 0"):
        make_env("CartPole-v1", 0)
    with pytest.raises(ValueError, match="seed is -1"):
        make_env("CartPole-v1", 1, -1)
    with pytest.raises(TypeError, match=r"seed is 0\.5"):
        make_env("CartPole-v1", 1, 0.5)


def test_listing():
    begin = time.perf_counter()
    table = list_envs().set_index("id")
    assert time.perf_counter() - begin < 5
    assert list(table.columns) == ["observation", "actions", "step_limit"]
    assert table.loc["CartPole-v1"].tolist() == ["4 numbers", "one of 2", 500]
    assert table.loc["Pendulum-v1", "actions"] == "1 number in [-2, 2]"
    assert table.loc["ppobook/Chain-v0", "observation"] == "one of 7"
    assert table["step_limit"].isna().loc["Blackjack-v1"]
    assert "CartPole-v0" not in table.index  # there is a newer one
    assert "Reacher-v2" not in table.index  # can't be made
    for env_id in table.index:
        make_env(env_id).close()


def test_importing_needs_no_torch_and_no_pandas():
    code = (
        "import sys, ppobook.envs; print([m for m in ('torch', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
