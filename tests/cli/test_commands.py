"""The command line: what each command prints, what it refuses, and its exit codes."""

import contextlib
import json
import subprocess
import sys

import pytest
from warm import python

from ppobook.cli import main
from ppobook.presets import VANILLA
from ppobook.settings import VanillaSettings

SMALL = ["--env", "CartPole-v1", "--num-envs", "2", "--num-steps", "16", "--hidden", "8,8", "--quiet"]


def refused(capsys, *argv):
    """The one sentence on stderr, with exit code 2."""
    assert main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ppobook: ")
    assert said.err.count("\n") == 1
    return said.err


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_train_resume_evaluate(tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert main(["train", "vanilla", *SMALL, "--seed", "1", "--total_steps", "1e2", "--out", folder]) == 0
    said = capsys.readouterr().out
    assert "vanilla on CartPole-v1, seed 1" in said
    assert "128 steps, 4 updates" in said
    assert f"saved in {folder}" in said
    assert main(["train", "--resume", folder, "--quiet"]) == 0
    expected = f"nothing to do: {folder} has its 128 steps; a larger --total-steps continues it\n"
    assert capsys.readouterr().out == expected
    assert main(["train", "--resume", folder, "--total-steps", "200", "--quiet"]) == 0
    assert "224 steps, 7 updates" in capsys.readouterr().out
    assert main(["evaluate", folder, "--episodes", "5"]) == 0
    said = capsys.readouterr().out
    assert "5 episodes" in said
    assert "return: mean" in said
    assert "must be a new folder, got one that holds a run" in refused(
        capsys, "train", "vanilla", *SMALL, "--out", folder
    )
    assert "lr" in refused(capsys, "train", "--resume", folder, "--lr", "0.5")
    (state,) = (tmp_path / "run").glob("checkpoint-*7/state.pt")
    state.write_bytes(state.read_bytes()[:-9])
    assert "state.pt" in refused(capsys, "evaluate", folder)


def test_settings_from_a_file_and_which_counts(tmp_path):
    """The command line before the file, the file before the preset, the preset before the defaults."""
    file = tmp_path / "settings.yml"
    file.write_text(
        "algorithm: vanilla\nenv: CartPole-v1\nseed: 3\ntotal_steps: 1e2\nhidden: [8, 8]\n"
        "num-envs: 2\nnum_steps: 16\ngamma: 0.9\nvalue_lr: 2e-3\nweight: return\n"
    )
    folder, again = tmp_path / "run", tmp_path / "again"
    given = ["--gamma", "0.8", "--seed", "0", "--env-kwargs", "{'sutton_barto_reward': True}", "--quiet"]
    given += ["--epochs", "1", "--normalize-advantages", "true"]
    assert main(["train", "--config", str(file), *given, "--out", str(folder)]) == 0
    config = config_of(folder)
    assert (config["gamma"], config["seed"], config["epochs"]) == (0.8, 0, 1)  # the command line
    assert config["env_kwargs"] == {"sutton_barto_reward": True}
    assert config["normalize_advantages"] is True
    assert (config["value_lr"], config["hidden"], config["num_envs"]) == (2e-3, [8, 8], 2)  # the file
    assert (config["weight"], config["total_steps"]) == ("return", 100)
    assert config["value_epochs"] == VANILLA["CartPole-v1"]["value_epochs"]  # the preset
    assert config["entropy_coef"] == VanillaSettings().entropy_coef  # the default
    assert main(["train", "--config", str(folder / "config.json"), "--out", str(again), "--quiet"]) == 0
    assert config_of(again) == config


@pytest.mark.parametrize("asked", ["--list", "--help"])
def test_settings_are_listed(asked, capsys):
    with pytest.raises(SystemExit, match="0") if asked == "--help" else contextlib.nullcontext():
        main(["train", "vanilla", "--env", "CartPole-v1", asked])
    listed = capsys.readouterr().out
    assert "--value-epochs" in listed
    assert "--weight return|reward_to_go" in listed
    assert "(default: 0.003)" in listed  # the preset's lr
    assert ("preset of ppobook/Chain-v0\n    --num-steps 32 --lr 0.1" in listed) == (asked == "--list")


ON_CARTPOLE = "train vanilla --env CartPole-v1"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("trane", "Did you mean 'train'?"),
        ("train", "ppobook train needs ALGORITHM: vanilla, trpo, ppo, or MODULE:CLASS"),
        ("train vanilla", "ppobook train vanilla needs --env ID, as in --env CartPole-v1"),
        (f"{ON_CARTPOLE} --totl_steps 5", "Did you mean --total-steps"),
        (f"{ON_CARTPOLE} --learning-rate 1", "Did you mean --lr? See ppobook train vanilla --help"),
        (f"{ON_CARTPOLE} --lr abc", "--lr must be a number, got 'abc'"),
        (f"{ON_CARTPOLE} extra", "unexpected argument 'extra'"),
        ("train vanilla --config nowhere.yml", "config must be a YAML file, got 'nowhere.yml'"),
        ("evaluate nowhere", "'nowhere' must be the folder of a run, got"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(line, sentence, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(capsys, *line.split())


def test_a_file_does_not_name_code_to_import(tmp_path, capsys):
    (tmp_path / "bad.yml").write_text("env: my_worlds:World-v0")
    said = refused(capsys, "train", "vanilla", "--config", str(tmp_path / "bad.yml"))
    assert "has the env 'my_worlds:World-v0': a module that a file names is not" in said


OWN = """
import gymnasium as gym
from ppobook.vanilla import Vanilla

class Mine(Vanilla):
    def update(self, rollout):
        return {**super().update(rollout), "mine": 1.0}

class World(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        self.t += 1
        return self.observation_space.sample() * 0, float(action), self.t == 5, False, {}

gym.register("World-v0", World)
"""


def test_a_learner_and_a_world_from_the_current_folder(tmp_path):
    """Run in processes of their own, as a user does who has written one file."""
    (tmp_path / "own_things.py").write_text(OWN)

    def ppobook(*argv, code=0):
        done = python("-m", "ppobook", *argv, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    small = ["--num-envs", "2", "--num-steps", "16", "--hidden", "8,", "--quiet", "--total-steps", "64"]
    world, learner = ["--env", "own_things:World-v0"], ["--learner", "own_things:Mine"]
    assert "Mine on own_things:World-v0" in ppobook(
        "train", "own_things:Mine", *world, *small, "--out", "run"
    )
    assert "give --learner MODULE:CLASS" in ppobook("evaluate", "run", code=2)
    said = ppobook("evaluate", "run", *learner, code=2)
    assert "'own_things:World-v0': a module that a run names is not imported unasked. Give --env" in said
    assert "return: mean" in ppobook("evaluate", "run", *learner, *world, "--episodes", "3")
    assert "own_things:Mine" in ppobook("train", "--resume", "run", code=2)
    more = ["--resume", "run", "--total-steps", "128", "--quiet"]
    assert "4 updates" in ppobook("train", "own_things:Mine", *more)
    assert "4 updates" in ppobook("doctor", "run")  # reads no class
    assert "Mine" in ppobook("compare", "run", "--metric", "mine")


LINES = [
    "--help",
    "--version",
    "progress",
    "train --help",
    "train ppo --list",
    "language grpo --help",
    "doctor --help",
]


def test_help_and_progress_load_no_torch(tmp_path):
    code = f"""
import sys
from ppobook.cli import main
for line in {LINES!r}:
    try:
        main(line.split())
    except SystemExit as stop:
        assert not stop.code, line
    assert "torch" not in sys.modules, line
    assert main("train ppo --env CartPole-v1 --gamma 2".split()) == 2
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
