"""Independence of arguments and results from a run: changes on one side do not reach the other."""

import gymnasium as gym
import pytest

from ppobook import load, train
from ppobook.envs import make_env

SMALL = {"total_steps": 32, "num_envs": 2, "num_steps": 16, "num_minibatches": 2, "progress": False}
POPPED = []


class Popping(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, cfg):
        POPPED.append(cfg.pop("n", 0))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        return self.observation_space.sample() * 0, 0.0, False, False, {}


@pytest.fixture
def popping():
    gym.register("test_handed_on/Popping-v0", Popping, max_episode_steps=8)
    POPPED.clear()
    yield "test_handed_on/Popping-v0"
    gym.registry.pop("test_handed_on/Popping-v0")


def test_each_environment_has_keyword_arguments_of_its_own(popping):
    given = {"cfg": {"n": 5}}
    make_env(popping, 3, **given)
    run = train("ppo", env=popping, env_kwargs=given, **SMALL)
    assert set(POPPED) == {5}
    assert given == run.config["env_kwargs"] == {"cfg": {"n": 5}}


def test_a_change_to_a_runs_config_is_not_saved(tmp_path):
    run = train("ppo", env="ppobook/Chain-v0", env_kwargs={"length": 5}, **SMALL)
    run.config["env_kwargs"]["length"] = 9
    run.save(tmp_path / "run")
    assert load(tmp_path / "run").config["env_kwargs"] == {"length": 5}
