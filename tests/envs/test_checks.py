"""A reward or an observation that would go wrong in silence is refused, in every step."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ppobook.envs import list_envs, make_env

IMAGE = spaces.Box(0, 255, (2, 2), np.uint8)
REALS = spaces.Box(-1, 1, (2,), np.float32)


class Returns(gym.Env):
    """Returns what one asks for in its second step, or on a reset."""

    action_space = spaces.Discrete(2)

    def __init__(self, space=REALS, on_reset=False, seen=None, **returned):
        self.observation_space, self.on_reset, self.t = space, on_reset, 0
        self.good = space.sample()
        self.seen = self.good if seen is None else seen
        self.returned = returned

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return (self.seen if self.on_reset else self.good), {}

    def step(self, action):
        self.t += 1
        if self.t != 2:
            return self.good, 0.0, False, False, {}
        given = {"reward": 0.0, "terminated": False, "truncated": False} | self.returned
        return self.seen, *given.values(), {}


gym.register("test_checks/Returns-v0", Returns)


def two_steps(**settings):
    """The second of two steps; no warning is allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = make_env("test_checks/Returns-v0", 2, 0, **settings)
        envs.step(np.zeros(2, np.int64))
        return envs.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("on_reset", [False, True])
@pytest.mark.parametrize(
    ("space", "seen", "message"),
    [
        (IMAGE, np.full((2, 2), 0.3), "of dtype uint8, got float64"),  # all of them would be 0
        (REALS, [0.0, 1.0, 2.0], r"of shape \(2,\), got \(3,\)"),
    ],
)
def test_an_observation_of_another_kind_is_refused(space, seen, message, on_reset):
    where = "on a reset" if on_reset else "in step 2 of an episode"
    named = r"environment 0 of 2 \(test_checks/Returns-v0\) must return an observation "
    with pytest.raises(ValueError, match=f"^{named}{message} {where}$"):
        two_steps(space=space, seen=seen, on_reset=on_reset)


@pytest.mark.parametrize("reward", [np.nan, -np.inf, -1e39, np.float32("inf")])
def test_a_reward_must_be_finite(reward):
    message = r"0 of 2 \(.*\) must return a reward that a float32 can hold, got .* in step 2"
    with pytest.raises(ValueError, match=message):
        two_steps(reward=reward)


def test_all_environments_here_pass():
    """A hundred steps in each, with random actions and no warning of NumPy's."""
    for env_id in list_envs()["id"]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            envs = make_env(env_id, 1, 0)
            envs.action_space.seed(0)
            for _ in range(20 if "Racing" in env_id else 100):
                envs.step(envs.action_space.sample())
            envs.close()
