"""Runs made by ppobook 0.1 before its settings were renamed: they load, evaluate and resume as they did then.

`old/runs.tar.xz` holds their folders, and what that version made of them: `evaluated.json`, and
`resumed.csv`, the history after two more updates.
"""

import dataclasses
import json
import shutil
import tarfile
from pathlib import Path

import pandas as pd
import pytest
import torch

import ppobook
import ppobook.language
from ppobook.envs import make_env
from ppobook.language.settings import SETTINGS
from ppobook.rollouts import Collector
from ppobook.run import old
from ppobook.run.folder import checkpoints

ARCHIVE = Path(__file__).parent / "old" / "runs.tar.xz"
CONTROL = ["ppo", "ppo-adaptive-kl", "trpo", "vanilla"]
LANGUAGE = ["sft", "reward", "language-ppo", "grpo", "iterative-ppo", "dpo"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def folder(archive, tmp_path):
    def copied(name):
        return Path(shutil.copytree(archive / name, tmp_path / name))

    return copied


def close(one, other):
    """The same numbers. Sums in another order may have changed their last digits."""
    assert sorted(one) == sorted(other)
    pd.testing.assert_frame_equal(one[other.columns], other, rtol=1e-3, atol=1e-5, check_dtype=False)


def timeless(history):
    return history.loc[:, ~history.columns.str.startswith("seconds")]


def first_returns(policy, env):
    """Of three environments, the first return of each; as `evaluate` played when the numbers were stored."""
    collector, found = Collector(make_env(env, 3), policy, seed=1), {}
    while len(found) < 3:
        actions, _ = policy.sample(collector.observations, collector.generator)
        for episode in collector.step(actions)[-1]:
            found.setdefault(episode.environment, episode.total)
    return [found[i] for i in range(3)]


@pytest.mark.parametrize("name", CONTROL)
def test_control(folder, name):
    path = folder(name)
    run = ppobook.load(path)
    assert len(run.history) == 2
    expected = json.loads((path / "evaluated.json").read_text())["returns"]
    assert first_returns(run.policy, run.config["env"]) == pytest.approx(expected, rel=1e-3)
    resumed = ppobook.train(resume=path, total_steps=128)
    close(timeless(resumed.history), pd.read_csv(path / "resumed.csv"))
    ppobook.train(resume=path, total_steps=160)  # and on from a checkpoint of today


@pytest.mark.parametrize("name", LANGUAGE)
def test_language(folder, name):
    path = folder(name)
    run = ppobook.language.load(path)
    assert len(run.history) == 2
    if name != "reward":
        expected = json.loads((path / "evaluated.json").read_text())
        assert ppobook.language.evaluate(run, n=16, seed=1).numbers == pytest.approx(expected, rel=1e-3)
    resumed = ppobook.language.train(resume=path, updates=4, progress=False)
    close(timeless(resumed.history), pd.read_csv(path / "resumed.csv"))
    ppobook.language.train(resume=path, updates=5, progress=False)


def test_a_saved_copy_is_in_todays_format(folder, tmp_path):
    copy = ppobook.load(folder("ppo")).save(tmp_path / "copy")
    state = torch.load(checkpoints(copy)[-1] / "state.pt", weights_only=True)
    assert state["format"] == "ppobook.train 2"
    assert len(ppobook.train(resume=copy, total_steps=128).history) == 4


def test_settings_have_their_new_names(folder):
    config = ppobook.load(folder("ppo")).config
    assert config["max_kl"] == 0.5
    assert config["kl_target"] == 0.01
    assert config["fast"] is True
    config = ppobook.language.load(folder("language-ppo")).config
    assert config["updates"] == 2
    assert config["truncation"] == "penalty"
    assert config["reward"] == config["critic_from"] == "reward_model"
    config = ppobook.language.load(folder("iterative-ppo")).config
    assert config["reward_model_batch_size"] == 4
    assert not {"steps", "cut", "judge_epochs", "judge_batch_size", "judge_lr"} & config.keys()


def test_settings_of_language_models_that_came_later_have_the_value_of_before():
    """They came without a new format, and only where stages have them."""
    later = {"gradient_checkpointing", "generation_rows"}
    for kind in SETTINGS.values():
        new = {f.name: f.default for f in dataclasses.fields(kind) if f.name in later}
        before = {f.name: 1 for f in dataclasses.fields(kind) if f.name not in later}
        assert (
            old.translated({"format": "ppobook.language.train 2", "config": before})["config"] == before | new
        )
    config = {"updates": 1, "truncation": "end", "gradient_checkpointing": True, "generation_rows": 4}
    state = {"format": "ppobook.language.train 2", "config": config}
    assert old.translated(state) == state


def test_a_users_setting_by_an_old_name_keeps_it():
    """Only PPO's settings were renamed, and a user's class of another kind may have one of that name."""
    state = {"format": 1, "config": {"algorithm": "mine:Mine", "target_kl": 3, "steps": 4}}
    assert old.translated(state)["config"] == {
        "fast": True,
        "algorithm": "mine:Mine",
        "target_kl": 3,
        "steps": 4,
    }


@pytest.mark.parametrize("state", [None, [1], {"format": 2}, {"format": [1]}, {}, {"format": "other 1"}])
def test_what_is_in_no_old_format_is_left_alone(state):
    assert old.translated(state) is state
