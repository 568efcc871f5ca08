"""Commands that are stopped, as a shell sees it: exit code, what is said, what is saved; no traceback."""

import re
import subprocess
import sys

import pytest
from warm import python

from ppobook import load

# In its step AT_STEP the environment does what AT_STEP_DO says; signals are as in a shell.
MODULE = """
import os
import signal
import gymnasium as gym
import numpy as np

signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)


def stop(*names):
    for name in names:
        os.kill(os.getpid(), getattr(signal, name))


def fail():
    return int("x")  # fails


class World(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        self.taken += 1
        if self.taken == int(os.environ.get("AT_STEP", 0)):
            eval(os.environ["AT_STEP_DO"])
        observation = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return observation, 1.0, self.np_random.random() < 0.2, False, {}


gym.register("Mine-v0", World)

"""
(PLACE,) = [number for number, line in enumerate(MODULE.splitlines(), 1) if line.endswith("# fails")]
TRAIN = "-m ppobook train ppo --env mine:Mine-v0 --num-envs 1 --num-steps 20 --hidden 8, --num-minibatches 1"
TRAIN += " --epochs 1 --total-steps 100 --out run --quiet"
ON = "-m ppobook train --resume run --quiet"
ANSWER = "stopping after this update; press Ctrl-C again to stop at once without it"
GO_ON = r"go on with --resume \S*run"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    return tmp_path


def stopped(code, *lines, updates):
    """The exit code, the lines on stderr, and the updates that are saved."""
    return code, lines, updates


# What an environment does in step 50, which is in the third update of 20 steps.
STOPS = {
    "stop('SIGINT')": stopped(
        130, ANSWER, f"ppobook: stopped by Ctrl-C after update 3, 60 steps; {GO_ON}", updates=3
    ),
    "stop('SIGHUP', 'SIGTERM')": stopped(
        129,
        "SIGHUP: stopping after this update",
        f"ppobook: stopped by SIGHUP after update 3, 60 steps; {GO_ON}",
        updates=3,
    ),
    # At once: the updates since the last checkpoint are lost.
    "stop('SIGINT', 'SIGINT')": stopped(
        130, ANSWER, f"ppobook: stopped by Ctrl-C; update 0 is saved; {GO_ON}", updates=0
    ),
    "fail()": stopped(
        2,
        rf"ppobook: invalid literal .*; mine\.py, line {PLACE}, in fail; update 0 is saved; {GO_ON}",
        updates=0,
    ),
}


@pytest.mark.parametrize("what", STOPS)
def test_a_command_that_is_stopped(folder, what):
    code, lines, updates = STOPS[what]
    done = python(*TRAIN.split(), cwd=folder, AT_STEP="50", AT_STEP_DO=what)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    said = done.stderr.splitlines()
    assert len(said) == len(lines), done.stderr
    assert all(re.fullmatch(line, one) for line, one in zip(lines, said, strict=True)), done.stderr
    assert len(load(folder / "run").history) == updates
    on = python(*ON.split(), cwd=folder)
    assert "100 steps, 5 updates" in on.stdout, on.stderr


# Ctrl-C at the import of a module, before training begins.
IMPORTS = ["ppobook.cli", "torch"]
PRESSED = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
def press(event, given):
    if event == "import" and given[0] == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(press)
sys.argv = ["ppobook", "train", "ppo", "--env", "CartPole-v1"]
runpy.run_module("ppobook", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", IMPORTS)
def test_ctrl_c_before_training_begins(module, tmp_path):
    command = [sys.executable, "-c", PRESSED.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ppobook: stopped by Ctrl-C\n")
