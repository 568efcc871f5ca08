"""Environments that show what a rollout can get wrong, and collectors in them."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle

from ppobook.envs import make_env
from ppobook.policies import CategoricalPolicy
from ppobook.rollouts import Collector, Rollout


class Clock(gym.Env):
    """Observations are the number of the episode, the step in it, and the last action.

    An episode terminates after `length` steps (random from 2 to 9 if None), with rewards 1, 2, 3, …
    """

    def __init__(self, length=None, bad=None):
        self.observation_space = spaces.Box(-1, np.inf, (3,))
        self.action_space = spaces.Discrete(3)
        self.length, self.bad, self.episode = length, bad, -1

    def observe(self, action):
        return np.array([self.episode, self.t, action], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        self.ends = self.length or int(self.np_random.integers(2, 10))
        return self.observe(-1), {}

    def step(self, action):
        self.t += 1
        reward, seen = float(self.t), self.observe(action)
        if self.bad and self.t == 3:
            reward = np.nan if self.bad == "reward" else reward
            seen[1] = {"observation": np.inf, "unknown": np.nan}.get(self.bad, seen[1])
        return seen, reward, self.t == self.ends, False, {}


class Forgetful(Clock, EzPickle):
    """Is pickled without an error, and without its state."""

    def __init__(self):
        Clock.__init__(self)
        EzPickle.__init__(self)


class Recorder(gym.Env):
    """Records the actions that it gets, which must be in its action space."""

    box = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 0.5], np.float32))

    def __init__(self, action_space=box):
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,)), action_space
        self.given = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.given.append(action.copy())
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Script(gym.Env):
    """Ends its episodes as a script says: one pair (terminated, truncated) per step."""

    observation_space = spaces.Box(-1, np.inf, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, script):
        self.script, self.step_number, self.episode = script, 0, -1

    def observe(self):
        return np.array([self.episode, self.step_number], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        return self.observe(), {"reset": self.episode}

    def step(self, action):
        ends = self.script[self.step_number % len(self.script)]
        self.step_number += 1
        return self.observe(), self.step_number + 0.5 * action, *ends, {"count": self.step_number}


gym.register("rollouts/Clock-v0", Clock)
gym.register("rollouts/Forgetful-v0", Forgetful)
gym.register("rollouts/Recorder-v0", Recorder)


def clocks(n=4, seed=0, collector_seed=0, **settings):
    envs = make_env("rollouts/Clock-v0", n, seed, **settings)
    return Collector(envs, CategoricalPolicy(3, 3), seed=collector_seed)


def same(a, b):
    for name in Rollout.__dataclass_fields__:
        x, y = (np.asarray(getattr(rollout, name)) for rollout in (a, b))
        np.testing.assert_array_equal(x, y, err_msg=name)
        assert x.dtype == y.dtype
