"""CartPole, Acrobot and Pendulum in NumPy against Gymnasium's own environments, one by one."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.envs import env_seeds
from ppobook.fast import classic_envs
from ppobook.fast.classic import Acrobot, CartPole, Pendulum

FORMS = {"CartPole-v0": CartPole, "CartPole-v1": CartPole, "Acrobot-v1": Acrobot, "Pendulum-v1": Pendulum}


def some_actions(envs, rng):
    if isinstance(envs.single_action_space, gym.spaces.Discrete):
        return rng.integers(envs.single_action_space.n, size=envs.num_envs)
    return rng.uniform(-2.5, 2.5, size=(envs.num_envs, 1)).astype(np.float32)


@pytest.mark.parametrize("env_id", FORMS)
def test_environments_with_a_fast_form(env_id):
    envs = classic_envs(env_id, 3, seed=0)
    single = gym.make(env_id)
    assert type(envs) is FORMS[env_id]
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.single_observation_space == single.observation_space
    assert envs.single_action_space == single.action_space
    assert envs.observation_space.shape == (3, *single.observation_space.shape)
    assert envs.spec.id == env_id


def test_environments_without():
    class Mine(CartPoleEnv):
        pass

    gym.register("test_classic/Mine-v0", Mine)
    for env_id, given_settings in [
        ("test_classic/Mine-v0", {}),
        ("MountainCar-v0", {}),
        ("Pendulum-v1", {"g": 9.81}),
        ("CartPole-v1", {"sutton_barto_reward": True}),
    ]:
        assert classic_envs(env_id, 2, **given_settings) is None
    wrapped = gym.register(
        "test_classic/Wrapped-v0",
        "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
        additional_wrappers=(gym.wrappers.TransformReward.wrapper_spec(func=lambda r: 2 * r),),
    )
    assert wrapped is None
    assert classic_envs("test_classic/Wrapped-v0", 2) is None


@settings(max_examples=25)
@given(
    st.sampled_from(list(FORMS)), st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([None, 1, 7, 30])
)
def test_episodes_are_gymnasiums_with_the_same_seeds(env_id, seed, num_envs, limit):
    """Episodes, ends, first observations and the random numbers of later episodes: everything."""
    given_settings = {} if limit is None else {"max_episode_steps": limit}
    envs = classic_envs(env_id, num_envs, seed, **given_settings)
    singles = [gym.make(env_id, **given_settings) for _ in range(num_envs)]
    seeds = env_seeds(seed, num_envs)
    rng = np.random.default_rng(seed)
    # make_env has reset them once already, and so do we; a reset without a seed goes on with the numbers.
    for single, one in zip(singles, seeds, strict=True):
        single.reset(seed=one)
    seen, _ = envs.reset()
    # A cosine of an array may round another way than that of a number.
    rounding = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(seen, np.array([single.reset()[0] for single in singles]), **rounding)
    # Acrobot is chaotic: what is a rounding error now is an angle 100 steps later.
    for _ in range(40 if env_id == "Acrobot-v1" else 120):
        actions = some_actions(envs, rng)
        seen, rewards, terminated, truncated, infos = envs.step(actions)
        for i, single in enumerate(singles):
            now, reward, over, cut, _ = single.step(actions[i])
            assert (terminated[i], truncated[i]) == (over, cut)
            np.testing.assert_allclose(rewards[i], reward, rtol=1e-9, atol=1e-9)
            if over or cut:
                np.testing.assert_allclose(infos["final_obs"][i], now, rtol=1e-6, atol=1e-7)
                assert infos["_final_obs"][i]
                now, _ = single.reset()
                np.testing.assert_allclose(seen[i], now, **rounding)
            elif "_final_obs" in infos:
                assert not infos["_final_obs"][i]
                assert infos["final_obs"][i] is None
            np.testing.assert_allclose(seen[i], now, rtol=1e-6, atol=1e-7)
        assert seen.dtype == np.float32
        assert rewards.dtype == np.float64
        assert terminated.dtype == truncated.dtype == bool


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1"])
def test_one_step_from_any_state(env_id):
    """From states all over the place, extreme ones too, as no random policy gets to."""
    n, rng = 400, np.random.default_rng(0)
    envs = classic_envs(env_id, n, seed=0)
    widest = {
        "CartPole-v1": [2.4, 5, 0.21, 5],
        "Acrobot-v1": [np.pi, np.pi, 4 * np.pi, 9 * np.pi],
        "Pendulum-v1": [40, 8],
    }[env_id]
    states = rng.uniform(-1, 1, size=(n, len(widest))) * widest
    envs._state[:] = states.T
    actions = some_actions(envs, rng)
    seen, rewards, terminated, _, infos = envs.step(actions)
    single = gym.make(env_id).unwrapped
    for i in range(n):
        single.reset()
        single.state = states[i]
        now, reward, over, _, _ = single.step(actions[i])
        assert terminated[i] == over
        shown = infos["final_obs"][i] if over else seen[i]
        np.testing.assert_allclose(shown, now, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rewards[i], reward, rtol=1e-9)
        if not over:
            np.testing.assert_allclose(envs._state[:, i], single.state, rtol=1e-9, atol=1e-9)
    if env_id != "Pendulum-v1":
        assert 10 < terminated.sum() < n - 10


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1"])
def test_a_saved_state_continues_to_the_same_bits(env_id):
    def played(envs, seed):
        rng = np.random.default_rng(seed)
        return [envs.step(some_actions(envs, rng))[:4] for _ in range(50)]

    envs = classic_envs(env_id, 3, seed=0, max_episode_steps=13)
    played(envs, 1)
    saved = pickle.dumps(envs.state_dict())
    whole = pickle.dumps(envs)
    expected = played(envs, 2)
    other = classic_envs(env_id, 3, seed=5, max_episode_steps=13)
    played(other, 3)
    other.load_state_dict(pickle.loads(saved))
    for found in (played(other, 2), played(pickle.loads(whole), 2)):
        for a, b in zip(found, expected, strict=True):
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(x, y)
