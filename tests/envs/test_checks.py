"""What `reset` and `step` of an environment return is checked by kind, in every step."""

import sys
import warnings
from decimal import Decimal

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ppobook import evaluate
from ppobook.envs import list_envs, make_env
from ppobook.policies import CategoricalPolicy

BYTES = spaces.Box(0, 255, (2,), np.uint8)
IMAGE = spaces.Box(0, 255, (2, 2), np.uint8)
INTS = spaces.Box(-100, 100, (2,), np.int64)
REALS = spaces.Box(-1, 1, (2,), np.float32)
STATES = spaces.Discrete(3)
SHIFTED = spaces.Discrete(3, start=5)
PARTS = spaces.Dict(a=STATES, b=BYTES)
PAIR = spaces.Tuple([STATES, REALS])


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


OBSERVATIONS = [
    (BYTES, np.array([0.3, 0.3]), "of dtype uint8, got float64"),
    (BYTES, np.zeros(2, np.float32), "of dtype uint8, got float32"),
    (BYTES, [300, 1], r"of dtype uint8, got 300 \(int64\)"),
    (BYTES, np.array([-1, 1], np.int8), r"of dtype uint8, got -1 \(int8\)"),
    (BYTES, np.array([2**40, 1]), r"of dtype uint8, got 1099511627776 \(int64\)"),
    (IMAGE, np.full((2, 2), 0.3), "of dtype uint8, got float64"),
    (IMAGE, np.full((2, 2), 300), r"of dtype uint8, got 300 \(int64\)"),
    (INTS, np.array([0.0, 1.0]), "of dtype int64, got float64"),
    (INTS, [0.3, 1], "of dtype int64, got float64"),
    (INTS, np.array([2**63, 1], np.uint64), r"of dtype int64, got 9223372036854775808 \(uint64\)"),
    (REALS, np.array([1j, 0]), r"of shape \(2,\) and dtype float32, got array"),
    (REALS, ["0", "1"], r"of shape \(2,\) and dtype float32, got \['0', '1'\]"),
    (REALS, [[0], [1, 2]], r"of shape \(2,\) and dtype float32, got \[\[0\], \[1, 2\]\]"),
    (REALS, [10**400, 1], r"of shape \(2,\) and dtype float32, got \[10+\.\.\."),
    (REALS, {"x": 1}, r"of shape \(2,\) and dtype float32, got {'x': 1}"),
    (REALS, np.array([1e300, 0]), r"of numbers that a float32 can hold, got 1e\+300"),
    (spaces.Box(-1, 1, (2,), np.float64), np.array([0, -1e39]), r"of numbers .* float32 .*, got -1e\+39"),
    (REALS, [0.0, 1.0, 2.0], r"of shape \(2,\), got \(3,\)"),
    (REALS, 0.5, r"of shape \(2,\), got \(\)"),
    (STATES, 0.3, r"of dtype int64 in \[0, 2\], got 0.3 \(float\)"),
    (STATES, np.float32(1), r"of dtype int64 in \[0, 2\], got np.float32\(1.0\) \(float32\)"),
    (STATES, 3, r"of dtype int64 in \[0, 2\], got 3"),
    (STATES, np.int64(-1), r"of dtype int64 in \[0, 2\], got -1"),
    (STATES, np.array(7), r"of dtype int64 in \[0, 2\], got 7"),
    (STATES, np.array([1]), r"of dtype int64 in \[0, 2\], got array\(\[1\]\)"),
    (STATES, "1", r"of dtype int64 in \[0, 2\], got '1' \(str\)"),
    (SHIFTED, 0, r"of dtype int64 in \[5, 7\], got 0"),
    (spaces.MultiDiscrete([2, 3]), np.array([1, 3]), r"of the space MultiDiscrete\(.*\), got array"),
    (spaces.MultiDiscrete([2, 3]), np.array([0.5, 1]), "of dtype int64, got float64"),
    (spaces.MultiBinary(2), [0, 2], r"of the space MultiBinary\(2\), got \[0, 2\]"),
    (PARTS, {"a": 1, "b": [1, 256]}, r"of dtype uint8 in 'b', got 256 \(int64\)"),
    (PARTS, {"a": 0.5, "b": [1, 1]}, r"of dtype int64 in \[0, 2\] in 'a', got 0.5"),
    (PARTS, {"a": 1}, r"of the space Dict\(.*\), got {'a': 1}"),
    (PAIR, (1, [1, 2, 3]), r"of shape \(2,\) in \[1\], got \(3,\)"),
    (PAIR, (1,), r"of the space Tuple\(.*\), got \(1,\)"),
]  # fmt: skip


@pytest.mark.parametrize("on_reset", [False, True])
@pytest.mark.parametrize(("space", "seen", "message"), OBSERVATIONS)
def test_an_observation_of_another_kind_is_refused(space, seen, message, on_reset):
    where = "on a reset" if on_reset else "in step 2 of an episode"
    named = r"environment 0 of 2 \(test_checks/Returns-v0\) must return an observation "
    with pytest.raises(ValueError, match=f"^{named}{message}.* {where}$"):
        two_steps(space=space, seen=seen, on_reset=on_reset)


@pytest.mark.parametrize(
    ("space", "seen", "kept"),
    [
        (BYTES, [0, 255], [0, 255]),
        (BYTES, np.array([3, 4], np.int64), [3, 4]),
        (BYTES, np.array([True, False]), [1, 0]),
        (IMAGE, np.arange(4, dtype=np.int32).reshape(2, 2), [0, 1, 2, 3]),
        (REALS, np.array([0.25, 7.0]), [0.25, 7.0]),  # bounds are not enforced
        (REALS, (1, 2), [1, 2]),
        (REALS, torch.ones(2), [1, 1]),
        (REALS, np.array([np.inf, 0]), [np.inf, 0]),  # for the collector to find
        (REALS, [np.nan, 0], [np.nan, 0]),
        (STATES, np.int8(2), 2),
        (STATES, np.array(2), 2),
        (SHIFTED, np.uint8(6), [0, 1, 0]),
        (spaces.MultiDiscrete([2, 3]), [1, 2], [0, 1, 0, 0, 1]),
        (PARTS, {"b": [1, 2], "a": np.int32(1)}, [0, 1, 0, 1, 2]),
        (PAIR, [1, [0, 1]], [0, 1, 0, 0, 1]),
    ],
)
def test_an_observation_that_can_be_cast_is_taken(space, seen, kept):
    observations = two_steps(space=space, seen=seen)[0]
    np.testing.assert_array_equal(observations, np.array([kept, kept]))


@pytest.mark.parametrize("name", ["terminated", "truncated"])
@pytest.mark.parametrize(
    "flag", ["False", np.nan, 0.0, None, 0, 1, np.int64(0), np.array([False]), np.array(False), []], ids=repr
)
def test_a_flag_must_be_a_bool(name, flag):
    with pytest.raises(
        ValueError, match=rf"0 of 2 \(.*\) must return True or False as {name}, got .* in step 2"
    ):
        two_steps(**{name: flag})


@pytest.mark.parametrize("flag", [True, np.True_])
def test_flags(flag):
    assert two_steps(terminated=flag)[2].tolist() == [True, True]
    assert two_steps(truncated=flag)[3].tolist() == [True, True]


@pytest.mark.parametrize(
    "reward",
    ["1", None, 1j, np.zeros(2), [1.0, 2.0], [[1], [1, 2]], Decimal(1), {}, np.array([])],
    ids=lambda x: str(x)[:20],
)
def test_a_reward_must_be_a_real_number(reward):
    with pytest.raises(
        ValueError, match=r"0 of 2 \(.*\) must return a real number as reward, got .* in step 2"
    ):
        two_steps(reward=reward)


@pytest.mark.parametrize(
    ("reward", "what"),
    [
        (np.nan, "is finite"),
        (-np.inf, "is finite"),
        (np.float32("inf"), "is finite"),
        (-1e39, "a float32 can hold"),
        (10**400, "a float32 can hold"),
        (-(10**400), "a float32 can hold"),
    ],
)
def test_a_reward_must_be_finite(reward, what):
    with pytest.raises(
        ValueError, match=rf"0 of 2 \(.*\) must return a reward that {what}, got .* in step 2"
    ):
        two_steps(reward=reward)


@pytest.mark.parametrize(
    "reward", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0), np.array([2.0]), torch.tensor(2.0)], ids=repr
)
def test_rewards(reward):
    assert two_steps(reward=reward)[1].tolist() == [2.0, 2.0]


class Quits(Returns):
    def step(self, action):
        sys.exit("done here")


class Faulty(Returns):
    """Raises GeneratorExit in a step or on a reset; its close fails."""

    def __init__(self, where=None):
        super().__init__()
        self.where = where

    def reset(self, **given):
        if self.where == "reset":
            raise GeneratorExit
        return super().reset(**given)

    def step(self, action):
        if self.where == "step":
            raise GeneratorExit
        return *super().step(action)[:2], True, False, {}

    def close(self):
        raise ZeroDivisionError


@pytest.mark.parametrize("where", ["reset", "step"])
def test_an_environment_that_raises_what_is_no_exception_is_named(where):
    with pytest.raises(ValueError, match=r"environment 0 of 1 \(.*\) raised GeneratorExit (on|in)"):
        make_env(lambda: Faulty(where)).step(np.zeros(1, np.int64))


def test_an_environment_whose_close_fails_costs_no_result():
    assert len(evaluate(CategoricalPolicy(2, 2, (4,)), Faulty, episodes=3)["returns"]) == 3


@pytest.mark.parametrize("missing", ["observation_space", "action_space"])
@pytest.mark.parametrize("given", ["class", "environment", "None"])
def test_an_environment_without_a_space_is_named(missing, given):
    spaces = {"observation_space": REALS, "action_space": STATES}
    del spaces[missing]
    if given == "None":
        spaces[missing] = None
    kind = type("Bare", (gym.Env,), spaces)
    with pytest.raises(
        TypeError, match=rf"{missing} of env '.*Bare\(\)' must be a gymnasium\.Space, got None"
    ):
        make_env(kind() if given == "environment" else kind)


def test_an_environment_that_calls_exit_is_named():
    envs = make_env(Quits, 2, 0)
    with pytest.raises(
        ValueError, match=r"environment 0 of 2 \(.*Quits\(\)\) raised SystemExit: done here in step 1"
    ):
        envs.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(
    "returned", [(np.zeros(2), 0.0, False, {}), None, np.zeros(2)], ids=["four", "None", "array"]
)
def test_step_and_reset_must_return_all_of_it(returned):
    class Old(Returns):
        def step(self, action):
            return returned

        def reset(self, **kwargs):
            return self.good if self.on_reset is None else (self.good, {})

    with pytest.raises(
        ValueError, match="must return observation, reward, terminated, truncated and info, got"
    ):
        make_env(Old, 2, 0).step(np.zeros(2, np.int64))
    for size in (2, 3):  # an observation of two numbers can be unpacked as a pair
        with pytest.raises(ValueError, match=r"must return observation and info, got .* on a reset"):
            make_env(lambda size=size: Old(spaces.Box(0, 1, (size,)), on_reset=None), 2, 0)


def test_all_environments_here_pass():
    """A hundred steps in each, with random actions and no warning of NumPy's."""
    for env_id in list_envs()["id"]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            envs = make_env(env_id, 1, 0, fast=False)
            envs.action_space.seed(0)
            for _ in range(20 if "Racing" in env_id else 100):
                envs.step(envs.action_space.sample())
            envs.close()
