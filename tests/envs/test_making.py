"""Environments from an id, an environment or a function: what is trained on is what was passed."""

import gymnasium as gym
import numpy as np
import pytest

from ppobook.envs import env_maker, has_id, make_env


class Coin(gym.Env):
    """Uniform random observations, and the given reward in each step."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, pays=1.0):
        self.pays = pays

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        return self._seen(), self.pays, bool(self.np_random.random() < 0.2), False, {}

    def _seen(self):
        return self.np_random.random(1).astype(np.float32)


class Twice(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class Rebuilt(gym.utils.EzPickle, Coin):
    """Copies of it are made by its constructor."""

    def __init__(self):
        gym.utils.EzPickle.__init__(self)
        Coin.__init__(self)


gym.register("test_making/Coin-v0", Coin, max_episode_steps=50)
gym.register("test_making/Coin-v3", Coin, max_episode_steps=50)
HERE = __name__


def coins():
    return Coin(3.0)


def changed(env, **attributes):
    for name, value in attributes.items():
        setattr(env.unwrapped, name, value)
    return env


@pytest.mark.parametrize(
    ("env", "name", "settings"),
    [
        (lambda: "CartPole", "CartPole-v1", {}),
        (lambda: "test_making/Coin", "test_making/Coin-v3", {}),
        (lambda: "test_making/Coin-v0", "test_making/Coin-v0", {}),
        (lambda: Twice(Coin()), f"Twice({HERE}.Coin())", None),
        (lambda: Coin, f"{HERE}.Coin()", None),
        (lambda: coins, f"{HERE}.coins()", None),
    ],
)
def test_the_id_where_there_is_one_and_else_a_description(env, name, settings):
    maker = env_maker(env())
    assert maker.name == name
    assert has_id(maker.name) == (settings is not None)
    assert (maker.own is None) == has_id(name)
    assert maker.settings == (settings or {})
    make_env(maker, 2, seed=0).step(np.array([env_action(maker)] * 2))


def env_action(maker):
    space = next(maker.make(1)).action_space
    return space.sample() * 0 if isinstance(space, gym.spaces.Box) else 0


@pytest.mark.parametrize("num_envs", [1, 4])
@pytest.mark.parametrize(
    ("env", "pays"),
    [
        (lambda: Coin(3.0), 3.0),
        (lambda: Twice(Coin(3.0)), 6.0),
        (lambda: gym.make("test_making/Coin-v0", pays=7.0), 7.0),
        (lambda: coins, 3.0),
    ],
)
def test_every_copy_is_what_was_passed_and_has_its_own_numbers(env, pays, num_envs):
    given = env()
    envs = make_env(given, num_envs, seed=0)
    first = envs.reset(seed=list(range(num_envs)))[0]
    assert len(np.unique(first)) == num_envs
    assert envs.step(np.zeros(num_envs, int))[1].tolist() == [pays] * num_envs
    # Without a seed, too.
    assert len(np.unique(make_env(given, num_envs).step(np.zeros(num_envs, int))[0])) == num_envs
    np.testing.assert_array_equal(
        make_env(env(), num_envs, seed=5).step(np.zeros(num_envs, int))[0],
        make_env(env(), num_envs, seed=5).step(np.zeros(num_envs, int))[0],
    )


def test_an_environment_that_copies_differ_from_is_refused():
    with pytest.raises(ValueError, match=r"got .*Rebuilt\(\), which cannot be copied"):
        make_env(changed(Rebuilt(), pays=2.0), 2)


def test_a_function_that_returns_one_environment_twice_is_refused():
    env = gym.make("CartPole-v1")
    with pytest.raises(ValueError, match="must return a new environment each time"):
        make_env(lambda: env, 2)
