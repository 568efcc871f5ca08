"""`make_env` and `SameStepVectorEnv`: seeds, spaces, infos, errors."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ppobook.envs import list_envs, make_env

BOX = spaces.Box(-1, 1, (2,))


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


class Unlike(Odd):
    """An environment whose steps return an observation of one's choice."""

    def __init__(self, space, seen, truncated=False):
        super().__init__(space)
        self.seen, self.truncated = seen, truncated

    def step(self, action):
        return self.seen, 0.0, False, self.truncated, {}


gym.register("test_envs/Odd-v0", Odd)


def test_seeds_decide_and_are_not_shared():
    def first(seed, n=8):
        return make_env("CartPole-v1", n, seed).reset()[0]

    np.testing.assert_array_equal(first(3), first(3))
    assert len(np.unique(np.concatenate([first(0), first(1), first(2)]), axis=0)) == 24
    assert (first(None) != first(None)).any()


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (BOX, np.array([0.5])),
        (BOX, 0.5),
        (spaces.Box(-1, 1, (2, 3)), np.zeros((3, 2))),
        (spaces.Box(0, 9, (2,), np.uint8), np.array([0.5, 0.7])),
        (spaces.Dict(a=spaces.Box(0, 9, (2,), np.int64), b=BOX), {"a": np.ones(2), "b": np.ones(2)}),
        (spaces.Discrete(5, start=1), 0),
        (spaces.MultiDiscrete((2, 7)), np.array([1, 7])),
        (spaces.Tuple([spaces.Discrete(2), BOX]), (2, np.ones(2))),
    ],
)
def test_an_observation_outside_the_space_is_refused(space, seen):
    """NumPy would broadcast, cut or reorder it, or set a place of the next part."""
    for truncated in (False, True):
        envs = make_env(Unlike(space, seen, truncated))
        with pytest.raises(ValueError, match=r"each observation of .*Unlike.* must be in "):
            envs.step(np.array([0]))
    for x in (np.array([0.1, 0.2]), [0, 7], np.array([True, False])):
        make_env(Unlike(BOX, x)).step(np.array([0]))


def test_same_numbers_as_gymnasiums_own_vector():
    ours = make_env("CartPole-v1", 3, seed=0)
    theirs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    rng = np.random.default_rng(0)
    for _ in range(200):
        actions = rng.integers(2, size=3)
        a, b = ours.step(actions), theirs.step(actions)
        for x, y in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(x, y)
        assert a[4].keys() == b[4].keys()
        for x, y in zip(a[4].get("final_obs", ()), b[4].get("final_obs", ()), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("observation", "action", "seen"),
    [
        (spaces.Discrete(3), spaces.Discrete(2), spaces.Discrete),
        (spaces.Discrete(3, start=1), spaces.Discrete(2), (3,)),
        (spaces.Discrete(3), BOX, (3,)),
        (spaces.Box(0, 255, (4, 4, 3), dtype=np.uint8), spaces.Box(-1, 1, (2, 2)), (48,)),
        (spaces.Box(-1, 1, ()), spaces.Box(-1, 1, ()), (1,)),
        (spaces.Dict(a=spaces.Discrete(3), b=BOX), BOX, (5,)),
        (spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]), spaces.Discrete(2), (5,)),
        (BOX, spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 2], [3, 4]], dtype=np.int32), (2,)),
        (BOX, spaces.MultiBinary(3), (2,)),
    ],
)
def test_spaces_become_flat(observation, action, seen):
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


def test_listing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log
    table = list_envs().set_index("id")
    assert list(table.columns) == ["observation", "actions", "step_limit"]
    assert table.loc["CartPole-v1"].tolist() == ["4 numbers", "one of 2", 500]
    assert table.loc["Pendulum-v1", "actions"] == "1 number in [-2, 2]"
    assert table.loc["ppobook/Chain-v0", "observation"] == "one of 7"
    assert table["step_limit"].isna().loc["Blackjack-v1"]
    assert "CartPole-v0" not in table.index  # there is a newer one
    assert "Reacher-v2" not in table.index  # can't be made
    for env_id in table.index:
        make_env(env_id).close()
