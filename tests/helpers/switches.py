"""An environment with several discrete actions at once."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Switches(gym.Env):
    """Two switches: a reward of 1 for each that is set as the observation says; over after ten steps."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.MultiDiscrete([2, 3])

    def _observation(self):
        self.right = self.np_random.integers([2, 3])
        return (self.right / [1, 2] * 2 - 1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        reward = float((action == self.right).sum())
        self.steps += 1
        return self._observation(), reward, self.steps >= 10, False, {}


gym.register("tests/Switches-v0", Switches)
