"""Small runs of vanilla policy gradient, an environment that can misbehave, and a learner of a user's own."""

import dataclasses
import threading

import gymnasium as gym
import numpy as np
import torch

from ppobook import train
from ppobook.policies import Categorical
from ppobook.run.settings import setting
from ppobook.vanilla import Vanilla

SMALL = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 16, "hidden": (8,), "value_epochs": 2}


def timeless(history):
    """A history without its columns of seconds."""
    return history.loc[:, ~history.columns.str.startswith("seconds")]


def small(**changes):
    """A small run; without a critic, or in a small world, without the settings that have no effect there."""
    given = {"algorithm": "vanilla", **SMALL, "total_steps": 200, **changes}
    idle = {"value_epochs"} if given.get("baseline", "value") != "value" else set()
    idle |= {"hidden"} if "ppobook/" in str(given["env"]) else set()
    return train(**{name: x for name, x in given.items() if name not in idle - changes.keys()})


def same_run(a, b):
    assert timeless(a.history).equals(timeless(b.history))
    for module in ("policy", "value"):
        if getattr(a, module) is not None:
            one, other = (getattr(run, module).state_dict() for run in (a, b))
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)  # the statistics of a norm, too


class Odd(gym.Env):
    """Three numbers, two actions; can pay NaN, and can refuse to be pickled."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, nan_at=None, locked=False):
        self.nan_at = nan_at
        self.lock = threading.Lock() if locked else None
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        reward = float("nan") if self.t == self.nan_at else float(action)
        return self._observe(), reward, self.t >= 7 and self.np_random.random() < 0.2, False, {}

    def _observe(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


gym.register("ppobook-test/Odd-v0", entry_point=Odd, max_episode_steps=20)


@dataclasses.dataclass(frozen=True)
class OwnSettings(Vanilla.settings_class):
    memory: float = setting(0.5, "of the average", low=0, high=1)


class OwnPolicy(torch.nn.Module):
    """No class of the book's: layers of torch, and the methods that a policy has."""

    def __init__(self, size, actions):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(size, 8), torch.nn.ReLU(), torch.nn.Linear(8, actions)
        )

    def distribution(self, observations):
        return Categorical(self.layers(observations))

    @torch.no_grad()
    def sample(self, observations, generator=None):
        distribution = self.distribution(observations)
        actions = distribution.sample(generator)
        return actions, distribution.logp(actions)

    def logp(self, observations, actions):
        return self.distribution(observations).logp(actions)

    def entropy(self, observations):
        return self.distribution(observations).entropy()

    def mode(self, observations):
        return self.layers(observations).argmax(-1)

    def in_bounds(self, actions):
        return actions


class Own(Vanilla):
    """A user's own learner: own network, own setting, own state, own column."""

    settings_class = OwnSettings
    state_attributes = (*Vanilla.state_attributes, "average", "dice", "draw", "weights")

    def __init__(self, observation_space, action_space, settings, **kwargs):
        super().__init__(observation_space, action_space, settings, **kwargs)
        self.average = 0.0
        self.dice = np.random.default_rng(0)
        self.draw = torch.Generator().manual_seed(0)
        self.weights = torch.zeros(3)

    def networks(self, observation_space, action_space, seed):
        _, value = super().networks(observation_space, action_space, seed)
        return OwnPolicy(observation_space.shape[0], int(action_space.n)), value

    def update(self, rollout):
        metrics = super().update(rollout)
        m = self.settings.memory
        self.average = m * self.average + (1 - m) * metrics["policy_loss"]
        self.weights = self.weights + torch.rand(3, generator=self.draw)
        chance = {"dice": self.dice.random(), "drawn": self.weights.sum()}
        late = {"late": 1.0} if self.progress > 0.5 else {}
        return {**metrics, **late, **chance, "average": self.average, "progress": self.progress}
