"""Rollouts against stepping each environment alone, and the ends of episodes in every order."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from clocks import Clock, Script, clocks, same
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.envs import SameStepVectorEnv, env_seeds, make_env
from ppobook.fast import classic_envs, numpy_actor
from ppobook.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    RunningNorm,
    TabularPolicy,
    policy_for,
)
from ppobook.rollouts import Collector, PolicyActor, Rollout

ACTORS = {True: numpy_actor, False: PolicyActor}


class Plain:
    """A user's policy, with the methods of `Policy` only."""

    def __init__(self, policy):
        for name in ("sample", "logp", "entropy", "mode", "in_bounds", "distribution"):
            setattr(self, name, getattr(policy, name))


def test_sampled_actions_are_stored_and_environments_get_those_in_bounds():
    envs = make_env("rollouts/Recorder-v0", 2, seed=0)
    policy = GaussianPolicy(2, 2, low=envs.single_action_space.low, high=envs.single_action_space.high)
    actions = Collector(envs, policy, seed=0).collect(50).actions
    given = torch.tensor(np.array([env.unwrapped.given for env in envs.envs]))
    assert (actions != given).any()
    torch.testing.assert_close(given, policy.in_bounds(actions))


class Motor(gym.Env):
    """Writes into the actions that it gets, if it is told to."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.MultiDiscrete([3, 3])

    def __init__(self, writes):
        self.writes = writes

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if self.writes:
            action[:] = 0
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_an_environment_may_write_into_its_action():
    policy = MultiCategoricalPolicy(1, (3, 3))
    plain, other = (
        Collector(make_env(Motor(writes)), policy, seed=0).collect(9).actions for writes in (False, True)
    )
    assert plain.any()
    assert torch.equal(plain, other)


def test_joined_parts_are_one_rollout():
    settings = {"n": 5, "max_episode_steps": 6}
    whole = clocks(**settings).collect(40)
    collector = clocks(**settings)
    same(Rollout.join([collector.collect(steps) for steps in (3, 1, 20, 16)]), whole)
    assert len(whole.final_observations) > 10


def played_alone(env_id, rollout, seeds, first_resets, given_settings):
    """The records of a rollout, by stepping each environment alone with its actions."""
    found = {name: [] for name in ("observations", "rewards", "terminated", "truncated", "last", "finals")}
    episodes = []
    for i, seed in enumerate(seeds):
        env = gym.make(env_id, disable_env_checker=True, **given_settings)
        env.reset(seed=seed)
        for _ in range(first_resets):
            seen, _ = env.reset()
        row = {name: [] for name in found}
        total = length = 0
        for t, action in enumerate(rollout.actions[i].numpy()):
            row["observations"].append(seen)
            if isinstance(env.action_space, spaces.Box):
                action = np.clip(action, env.action_space.low, env.action_space.high)
            seen, reward, terminated, truncated, _ = env.step(action)
            total, length = total + reward, length + 1
            for name, x in (("rewards", reward), ("terminated", terminated), ("truncated", truncated)):
                row[name].append(x)
            if terminated or truncated:
                episodes.append((t, i, total, length))
                if not terminated:
                    found["finals"].append(np.array(seen))
                seen, total, length = env.reset()[0], 0, 0
        for name in ("observations", "rewards", "terminated", "truncated"):
            found[name].append(row[name])
        found["last"].append(seen)
    episodes.sort()
    return {name: np.array(x) for name, x in found.items()}, episodes


@settings(max_examples=30)
@given(
    st.sampled_from(["CartPole-v1", "Pendulum-v1", "rollouts/Clock-v0", "MountainCar-v0"]),
    st.integers(1, 4),
    st.integers(1, 40),
    st.sampled_from([1, 2, 7, 1000]),
    st.integers(0, 10**6),
)
def test_a_rollout_is_that_of_each_environment_alone(env_id, n, steps, limit, seed):
    envs = make_env(env_id, n, seed, max_episode_steps=limit)
    policy = policy_for(envs.single_observation_space, envs.single_action_space, seed=seed)
    # Making resets once, with the seeds; a collector without a seed resets again, without.
    rollout = Collector(envs, policy).collect(steps)
    found, episodes = played_alone(env_id, rollout, env_seeds(seed, n), 1, {"max_episode_steps": limit})
    np.testing.assert_allclose(rollout.observations, found["observations"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rollout.rewards, found["rewards"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(rollout.terminated, found["terminated"])
    np.testing.assert_array_equal(rollout.truncated, found["truncated"])
    np.testing.assert_allclose(rollout.last_observations, found["last"], rtol=1e-5, atol=1e-5)
    assert len(rollout.final_observations) == len(found["finals"])
    if len(found["finals"]):
        np.testing.assert_allclose(rollout.final_observations, found["finals"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rollout.episode_returns, [total for *_, total, _ in episodes], rtol=1e-9)
    assert rollout.episode_lengths.tolist() == [length for *_, length in episodes]
    torch.testing.assert_close(rollout.logp, policy.logp(rollout.observations, rollout.actions).detach())


@settings(max_examples=150)
@given(st.data())
def test_ends_of_both_kinds_at_every_place(data):
    """First step, last step, two environments at once, both flags set: in any order."""
    n, steps = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    ends = st.sampled_from([(False, False), (True, False), (False, True), (True, True)])
    scripts = data.draw(
        st.lists(st.lists(ends, min_size=steps, max_size=steps), min_size=n, max_size=n), label="scripts"
    )
    envs = SameStepVectorEnv([lambda script=script: Script(script) for script in scripts])
    rollout = Collector(envs, CategoricalPolicy(2, 2), seed=0).collect(steps)
    flags = np.array(scripts)
    np.testing.assert_array_equal(rollout.terminated, flags[..., 0])
    np.testing.assert_array_equal(rollout.truncated, flags[..., 1])
    over = flags.any(-1)
    episode = np.concatenate([np.zeros((n, 1)), over.cumsum(1)], axis=1)
    np.testing.assert_array_equal(rollout.observations[..., 0], episode[:, :-1])
    np.testing.assert_array_equal(rollout.observations[..., 1], np.tile(np.arange(steps), (n, 1)))
    np.testing.assert_array_equal(
        rollout.last_observations, np.stack([episode[:, -1], np.full(n, steps)], axis=-1)
    )
    truncations = np.argwhere(flags[..., 1] & ~flags[..., 0])
    assert rollout.final_observations.tolist() == [[episode[i, t], t + 1] for i, t in truncations]
    rewards = rollout.rewards.double().numpy()
    np.testing.assert_array_equal(rewards, np.arange(1, steps + 1) + 0.5 * rollout.actions.numpy())
    returns, lengths = [], []
    for t in range(steps):
        for i in np.flatnonzero(over[:, t]):
            begun = max([-1, *np.flatnonzero(over[i, :t])]) + 1
            returns.append(rewards[i, begun : t + 1].sum())
            lengths.append(t + 1 - begun)
    assert rollout.episode_returns.tolist() == returns
    assert rollout.episode_lengths.tolist() == lengths


@pytest.mark.parametrize(
    "make",
    [
        lambda fast: Collector(
            make_env("rollouts/Clock-v0", 3, 0), CategoricalPolicy(3, 3), seed=0, actor=ACTORS[fast]
        ),
        lambda fast: Collector(
            (classic_envs if fast else make_env)("Pendulum-v1", 3, 0),
            GaussianPolicy(3, 1, low=-2, high=2),
            seed=0,
            actor=ACTORS[fast],
        ),
        lambda fast: Collector(
            make_env("ppobook/Chain-v0", 3, 0), TabularPolicy(7, 2), seed=0, actor=ACTORS[fast]
        ),
        lambda fast: Collector(
            (classic_envs if fast else make_env)("CartPole-v1", 3, 0),
            CategoricalPolicy(4, 2, normalizer=RunningNorm((4,))),
            seed=0,
            actor=ACTORS[fast],
        ),
    ],
    ids=["categorical", "gaussian", "table", "normalized"],
)
def test_plain_and_fast_forms_collect_the_same_rollouts(make):
    fast, plain, other = make(True), make(False), make(False)
    other.policy = Plain(other.policy)
    a, b, c = fast.collect(60), plain.collect(60), other.collect(60)
    for name in Rollout.__dataclass_fields__:
        x, y, z = (np.asarray(getattr(rollout, name)) for rollout in (a, b, c))
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4, err_msg=name)
        np.testing.assert_allclose(x, z, rtol=1e-4, atol=1e-4, err_msg=name)
        assert x.dtype == y.dtype == z.dtype
    # They draw the same random numbers.
    for one in (plain, other):
        assert torch.equal(fast.generator.get_state(), one.generator.get_state())


def not_finite(attribute, **settings):
    """A collector in three clocks, the last of which returns a value that is not finite."""
    if attribute == "reward":  # which `make_env` has checked already
        envs = SameStepVectorEnv([partial(Clock, 9)] * 3)
    else:
        envs = make_env("rollouts/Clock-v0", 3, 0, length=9, **settings)
    envs.envs[2].unwrapped.bad = attribute
    return Collector(envs, CategoricalPolicy(3, 3), seed=0)


BAD = [
    (
        lambda: Collector(gym.make_vec("CartPole-v1", 2), CategoricalPolicy(4, 2)),
        "envs must have the autoreset mode SAME_STEP, .*, got NEXT_STEP",
    ),
    (lambda: not_finite("reward").collect(10), r"each reward in Clock .* got nan \(index \[2, 2\]"),
    (lambda: not_finite("observation").collect(10), r"each observation in .* must be finite, got inf"),
    (lambda: not_finite("unknown").collect(10), r"each observation in .* must be finite, got nan"),
    (lambda: Collector(make_env("Acrobot-v1"), CategoricalPolicy(6, 2)), "must have n_actions 3 .* got 2"),
    (lambda: Collector(make_env("CartPole-v1"), CategoricalPolicy(3, 2)), "must have obs_dim 4 .* got 3"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("actor", ACTORS.values())
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_policy_whose_outputs_are_not_finite_is_refused(env_id, actor):
    envs = make_env(env_id, 2, seed=0)
    policy = policy_for(envs.single_observation_space, envs.single_action_space)
    collector = Collector(envs, policy, seed=0, actor=actor)
    with torch.no_grad():
        policy.network.layers[-1].weight.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"got nan|finite"):
        collector.collect(5)
