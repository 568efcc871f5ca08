"""Training of policies: the history, when it stops, settings, environments, learners of a user's own.

What it has in common with training of language models is in tests/run/test_contract.py.
"""

import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from small_runs import own, same_run, small, timeless
from threadpoolctl import threadpool_info

from ppobook import load, train
from ppobook.run.machine import threads
from ppobook.settings import SETTINGS, VanillaSettings
from ppobook.spaces import describe_space, space_of
from ppobook.training import ALGORITHMS, COLUMNS
from ppobook.vanilla import Vanilla

# ------------------------------------------------------------------------------------- history, stopping


def test_the_history_is_a_tidy_table():
    run = small()
    assert list(run.history.columns) == list(COLUMNS)
    history = run.history
    assert (history["update"] == np.arange(1, len(history) + 1)).all()
    assert history["steps"].dtype.kind == "i"
    assert history["episodes"].is_monotonic_increasing
    assert (history["entropy"] <= np.log(2) + 1e-6).all()
    assert (history["approx_kl"] >= 0).all()
    assert (history["grad_norm"] > 0).all()
    ended = history.dropna()
    assert (ended["return_min"] <= ended["return_mean"]).all()
    assert (ended["return_mean"] == ended["length_mean"]).all()  # CartPole pays 1 a step
    assert np.isfinite(timeless(history)[["policy_loss", "value_loss"]].to_numpy()).all()
    assert (history["seconds"].diff().dropna() > 0).all()


@pytest.mark.parametrize("total_steps", [33, 1e2])
def test_it_stops_at_the_first_whole_batch_at_or_past_the_total(total_steps):
    steps = small(total_steps=total_steps).history["steps"]
    assert steps.iloc[-1] >= total_steps
    assert steps.iloc[-1] - 32 < total_steps
    assert (steps.diff().dropna() == 32).all()


def test_threads_are_given_back():
    before = torch.get_num_threads()
    seen = []
    with threads(2):
        seen.append(torch.get_num_threads())
        with threads(1):
            seen.append(torch.get_num_threads())
            # NumPy's too: the closed form and the quick actor multiply there.
            assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}
    small(num_threads=1)
    assert seen == [2, 1]
    assert torch.get_num_threads() == before


# --------------------------------------------------------------------------------------------- settings


def test_a_reward_that_is_not_finite_is_refused(tmp_path):
    with pytest.raises(ValueError, match="reward"):
        small(env="ppobook-test/Odd-v0", env_kwargs={"nan_at": 5}, out=tmp_path / "run")


# ------------------------------------------------------------------------ environments, functions, ids


class Doubled(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def doubled():
    return Doubled(gym.make("ppobook-test/Odd-v0"))


@pytest.mark.parametrize(
    ("env", "same", "preset"),
    [
        ("CartPole", "CartPole-v1", True),
        (gym.make("CartPole-v1"), "cartpole.CartPoleEnv())))", False),
        (lambda: gym.make("CartPole-v1"), "test_training.<lambda>()", False),
    ],
)
def test_an_environment_trains_as_its_id(env, same, preset, monkeypatch):
    monkeypatch.setattr(Vanilla, "presets", {"CartPole-v1": {"lr": 0.123}})
    run = small(env=env)
    assert run.config["env"].endswith(same)
    assert run.config["lr"] == (0.123 if preset else VanillaSettings().lr)
    assert run.config["env_kwargs"] == {}
    settings = {"env": "CartPole-v1", "lr": run.config["lr"], "env_kwargs": run.config["env_kwargs"]}
    same_run(run, small(**settings))
    json.dumps(run.config)


@pytest.mark.parametrize("env", [doubled, doubled()], ids=["function", "object"])
def test_a_run_without_an_id_is_resumed_with_its_environment(env, tmp_path):
    kind = {"env": env, "checkpoint_every": 2}
    whole = small(**kind, total_steps=300, out=tmp_path / "whole")
    small(**kind, total_steps=130, out=tmp_path / "run")
    assert load(tmp_path / "run").config["env"] == whole.config["env"]
    with pytest.raises(ValueError, match=r"env must be passed on resume, .*oubled.*\(\).*, got None"):
        train(resume=tmp_path / "run", total_steps=300)
    with pytest.raises(ValueError, match=r"env must be left out on resume, or '.*oubled.*'CartPole-v1'"):
        train(resume=tmp_path / "run", total_steps=300, env="CartPole-v1")
    same_run(train(resume=tmp_path / "run", total_steps=300, env=env), whole)


def test_a_run_is_resumed_with_the_environment_that_its_function_made(tmp_path):
    kinds = [lambda env: env, Doubled]

    def make():
        return kinds[0](gym.make("CartPole-v1"))

    small(env=make, total_steps=130, out=tmp_path / "run")
    kinds.reverse()
    with pytest.raises(ValueError, match=r"env must be the run's, <.*, got <Doubled<"):
        train(resume=tmp_path / "run", total_steps=300, env=make)


def test_an_environment_with_an_id_is_not_needed_on_resume(tmp_path):
    env = {"env": "ppobook/Chain-v0", "env_kwargs": {"slip": 0.25}}
    train("vanilla", num_steps=4, **env, total_steps=32, out=tmp_path / "run")
    run = train(resume=tmp_path / "run", total_steps=64)
    assert run.config["env_kwargs"] == {"slip": 0.25}
    train(resume=tmp_path / "run", total_steps=96, **env)
    train(resume=tmp_path / "run", total_steps=128, env="ppobook/Chain")
    with pytest.raises(ValueError, match=r"env_kwargs must be left out on resume, or \{'slip': 0.25\}"):
        train(resume=tmp_path / "run", total_steps=160, env=gym.make("ppobook/Chain-v0"))
    with pytest.raises(ValueError, match=r"env(_kwargs)? must be left out on resume, or "):
        train(resume=tmp_path / "run", total_steps=160, env=doubled)


# ------------------------------------------------------------------------------------- saving and loading


def test_loading_opens_no_pickle_and_makes_no_environment(tmp_path, monkeypatch):
    small(out=tmp_path / "run")
    (tmp_path / "run" / "checkpoint-000007" / "environments.pkl").write_bytes(b"not a pickle")
    monkeypatch.setattr("ppobook.training.make_env", None)
    monkeypatch.setattr(pickle, "loads", None)
    assert len(load(tmp_path / "run").history) == 7


def test_a_truncated_environment_state(tmp_path):
    small(out=tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-000007" / "environments.pkl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        ValueError,
        match=r"environments.pkl must be as it was written.*; without the file the run",
    ):
        train(resume=tmp_path / "run", total_steps=400)


# ---------------------------------------------------------------------------------- learners of one's own


def test_a_learner_of_ones_own_trains_and_adds_columns(tmp_path):
    run = own(memory=0.25, pair=[1, 0.5])
    assert run.config["algorithm"] == "small_runs:Own"
    assert run.config["memory"] == 0.25
    assert run.config["pair"] == (1.0, 0.5)
    assert list(run.history.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert run.history["progress"].tolist() == [32 * i / 200 for i in range(7)]
    assert run.history["late"].isna().tolist() == [True] * 4 + [False] * 3
    assert not run.history["average"].equals(own().history["average"])
    same = own(memory=0.25, pair=[1, 0.5])
    assert torch.equal(run.policy.layers[0].weight, same.policy.layers[0].weight)
    assert timeless(run.history).equals(timeless(same.history))


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(3),
        gym.spaces.MultiDiscrete([3, 2, 4]),
        gym.spaces.Box(-1, np.array([1, np.inf], np.float32), (2,), np.float32),
    ],
    ids=str,
)
def test_spaces_are_kept_in_plain_data(space):
    described = describe_space(space)
    assert space_of(json.loads(json.dumps(described))) == space


def test_the_command_line_knows_the_settings_of_each_algorithm():
    assert {name: ALGORITHMS.find(name).settings_class for name in ALGORITHMS} == SETTINGS
