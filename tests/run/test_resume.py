"""A run that is killed and resumed ends with the bits of one that was not."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import small_language
import small_stages
from engines import ENGINES
from small_runs import SMALL, same_run, small, timeless
from warm import started

import ppobook.language
from ppobook import load, train
from ppobook.analysis.compare import compare
from ppobook.run.interrupts import Interrupted
from ppobook.training import read_record

HELPERS = str(Path(__file__).parents[1] / "helpers")
EVERY = 3
KILLED = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 16, "hidden": (8,), "checkpoint_every": EVERY}
# Each algorithm, with all that it keeps from one update to the next.
CASES = {
    "vanilla": {"algorithm": "vanilla", "value_epochs": 2},
    "vanilla, whole episodes": {"algorithm": "vanilla", "baseline": "mean"},
    "trpo": {"algorithm": "trpo"},
    "ppo": {"algorithm": "ppo", "epochs": 2, "num_minibatches": 4, "lr_final": 0.0, "clip_eps_final": 0.1},
    "ppo, plain form": {"algorithm": "ppo", "epochs": 2, "num_minibatches": 4, "fast": False},
    "ppo, all of it": {
        "algorithm": "ppo",
        "env": "Pendulum-v1",
        "epochs": 3,
        "num_minibatches": 2,
        "objective": "adaptive_kl",
        "max_kl": 0.05,
        "normalize_observations": True,
        "normalize_rewards": True,
        "shared_trunk": True,
        "entropy_coef_final": 0.0,
    },
}


def unscheduled(case):
    """Settings of a case, but for those that make a run depend on how long it is to be."""
    return {name: x for name, x in {**KILLED, **CASES[case]}.items() if not name.endswith("_final")}


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request):
    return request.param


def counted(function, arguments, count=os.devnull):
    """A process that trains, and writes a byte into the file `count` after each update."""
    words = "-m", "counted", repr((function, arguments)), str(count)
    return started(*words, cwd=Path.cwd(), PYTHONPATH=HELPERS)


def kill_again_and_again(kills, start, resume, history, moments, count):
    """Kill a run, and what resumes it; returns the length of the history each time."""
    begun, lengths, run = 0, [], start
    for _ in range(kills):
        count.unlink(missing_ok=True)
        with counted(*run, count) as process:
            stop = moments.randint(1, 3 * EVERY)
            deadline = time.monotonic() + 60
            while (not count.exists() or count.stat().st_size < stop) and time.monotonic() < deadline:
                time.sleep(0.0005)
            time.sleep(moments.uniform(0, 0.006))
            assert process.kill() == -signal.SIGKILL
        came = begun + count.stat().st_size
        begun = history()
        assert came >= stop
        assert 0 <= came - begun <= EVERY
        lengths.append(begun)
        run = resume
    return lengths


posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")


@posix
@pytest.mark.parametrize("case", CASES)
def test_kill_9_at_random_moments_control(tmp_path, case):
    """The moments have a seed, the machine's pace has none."""
    folder, kills = tmp_path / "run", 4
    given = {**KILLED, **CASES[case], "total_steps": 32 * 20 * kills}
    unbroken = train(**given)

    def history():
        kept = read_record(folder).history
        if len(kept):  # an empty table has no types to compare
            assert timeless(kept).equals(timeless(unbroken.history).head(len(kept)))
        return len(kept)

    start = "small_runs:train", {**given, "out": str(folder)}
    resume = "small_runs:train", {"resume": str(folder)}
    lengths = kill_again_and_again(kills, start, resume, history, random.Random(case), tmp_path / "count")
    assert max(lengths) < len(unbroken.history)
    same_run(train(resume=folder), unbroken)
    same_run(load(folder), unbroken)


@posix
@pytest.mark.parametrize("case", small_stages.CASES)
def test_kill_9_at_random_moments_language(tmp_path, case):
    folder, kills, updates = tmp_path / "run", 2, 24
    unbroken = small_stages.fit(case, updates=updates)

    def history():
        kept = ppobook.language.load(folder).history
        if len(kept):
            expected = small_language.timeless(unbroken.history[kept.columns]).head(len(kept))
            assert small_language.timeless(kept).equals(expected)
        return len(kept)

    start = "small_stages:fit", {"case": case, "updates": updates, "out": str(folder)}
    resume = "small_stages:go_on", {"case": case, "folder": str(folder)}
    lengths = kill_again_and_again(kills, start, resume, history, random.Random(case), tmp_path / "count")
    assert max(lengths) < updates
    small_language.same_run(small_stages.go_on(folder, case), unbroken)
    small_language.same_run(ppobook.language.load(folder), unbroken)


def last(folder):
    return max((path.name for path in folder.glob("checkpoint-*[0-9]")), default="")


def wait_for_another(folder, before):
    deadline = time.monotonic() + 60
    while last(folder) in (before, "") and time.monotonic() < deadline:
        time.sleep(0.002)


@pytest.mark.parametrize("algorithm", ["vanilla", "trpo", "ppo"])
def test_every_checkpoint_is_a_place_to_go_on_from(tmp_path, algorithm):
    given = {**unscheduled(algorithm), "env": "ppobook/Gridworld-v0"}
    del given["hidden"]  # a table has none
    straight = train(**given, total_steps=480)
    for stop in (32, 160, 320):
        train(**given, total_steps=stop, out=tmp_path / str(stop))
        same_run(train(resume=tmp_path / str(stop), total_steps=480), straight)


def test_total_steps_count_from_the_start_of_the_run(tmp_path):
    small(total_steps=100, out=tmp_path / "run")
    assert train(resume=tmp_path / "run").history["steps"].iloc[-1] == 128
    assert train(resume=tmp_path / "run", total_steps=129).history["steps"].iloc[-1] == 160
    assert load(tmp_path / "run").config["total_steps"] == 129


def test_a_finished_run_has_the_config_of_its_folder(engine, tmp_path, capfd):
    engine.new(out=tmp_path / "run")
    less = {name: 2 for name in engine.longer}
    run = engine.train(resume=tmp_path / "run", progress=False, **less)
    assert run.config == engine.load(tmp_path / "run").config
    (name,) = less
    assert f"{name}=2 changes nothing: the run has its" in capfd.readouterr().err


@pytest.mark.parametrize("final", [None, 0.0])
def test_a_longer_run_says_that_its_schedules_go_back(tmp_path, capfd, final):
    settings = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 32, "num_minibatches": 2, "epochs": 1}
    settings |= {"clip_eps_final": None}
    train("ppo", total_steps=256, lr=1e-3, lr_final=final, hidden=(4,), out=tmp_path / "run", **settings)
    capfd.readouterr()
    train(resume=tmp_path / "run", total_steps=512)
    said = "lr_final: schedules go by total_steps, so they go on at 50% of their way, where they were at 100%"
    scheduled = final is not None
    assert (said in capfd.readouterr().err) == scheduled
    with warnings.catch_warnings(record=True):
        notes = compare([tmp_path / "run"], "entropy").notes
    went_back = f"{str(tmp_path / 'run')!r} was resumed with a larger total_steps: its schedules went back"
    assert any(note.startswith(went_back) for note in notes) == scheduled


def test_schedules_of_a_run_without_an_update_do_not_go_back(tmp_path, capfd):
    settings = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 32, "num_minibatches": 2, "epochs": 1}
    train("ppo", total_steps=64, lr_final=0.0, hidden=(4,), out=tmp_path / "run", **settings)
    shutil.rmtree(tmp_path / "run" / "checkpoint-000001")
    capfd.readouterr()
    assert len(train(resume=tmp_path / "run", total_steps=128, progress=False).history) == 2
    assert "schedules" not in capfd.readouterr().err


def edited(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


class Paying(gym.Env):
    """Episodes of four steps, each of which pays the same."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(2)

    def __init__(self, pays=1.0):
        self.pays, self.steps = pays, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), self.pays, self.steps == 4, False, {}


def test_an_environment_that_was_pickled_goes_on_as_it_was_which_is_said(tmp_path, capfd):
    given = {"num_envs": 1, "num_steps": 8, "hidden": (4,), "progress": False}
    train("vanilla", Paying(), total_steps=16, out=tmp_path / "run", **given)
    assert "goes on as it was saved" not in capfd.readouterr().err
    run = train(resume=tmp_path / "run", env=Paying(7.0), total_steps=32, progress=False)
    assert set(run.history["return_mean"]) == {4.0}
    assert "Paying()' goes on as it was saved: attributes of the one passed" in capfd.readouterr().err


def test_an_edited_config_is_refused_on_resume(engine, tmp_path, capfd):
    folder = tmp_path / "run"
    run = engine.new(out=folder)
    edited(folder, lr=0.125)
    with pytest.raises(
        ValueError, match=r"config\.json' must be as it was written, with lr=.*, got 0\.125: a"
    ):
        engine.train(resume=folder)
    # What may change on resume is one behind after a kill between the checkpoint and this file.
    edited(folder, lr=run.config["lr"], checkpoint_every=9)
    engine.train(resume=folder, progress=False)
    assert "config.json' is not read: checkpoint_every is 2, not 9" in capfd.readouterr().err
    for damaged in ("", "[]"):
        (folder / "config.json").write_text(damaged)
        assert len(engine.train(resume=folder, **engine.longer).history) == 11


@posix
@pytest.mark.parametrize(
    ("case", "wait"), [("vanilla", False), ("vanilla", True), ("trpo", True), ("ppo", True)]
)
def test_environments_that_cannot_be_saved_are_reset_at_checkpoints_by_both(tmp_path, case, wait):
    given = {**unscheduled(case), "env": "ppobook-test/Odd-v0", "env_kwargs": {"locked": True}}
    folder = tmp_path / "run"
    with counted("small_runs:train", {**given, "total_steps": 10**7, "out": str(folder)}) as process:
        wait_for_another(folder, "")
        if wait:
            wait_for_another(folder, "checkpoint-000000")
        assert process.kill() == -signal.SIGKILL
    updates = len(load(folder).history)
    assert not list(folder.rglob("environments.pkl"))
    on = train(resume=folder, total_steps=32 * (updates + 5))
    same_run(on, train(**given, total_steps=32 * (updates + 5), out=tmp_path / "unbroken"))


@pytest.mark.parametrize("presses", [[6], [6, 5, 7], [3, 4]])
def test_ctrl_c_between_the_resets_of_environments_that_cannot_be_saved(tmp_path, monkeypatch, presses):
    """What is resumed goes back to the last reset, and so does what an unbroken run did."""
    from ppobook.vanilla import Vanilla

    real, folder, at = Vanilla.update, tmp_path / "run", []

    def pressed(self, rollout):
        at.append(None)
        if len(at) == waiting:
            signal.raise_signal(signal.SIGINT)
        return real(self, rollout)

    given = {**SMALL, "env": "ppobook-test/Odd-v0", "env_kwargs": {"locked": True}, "checkpoint_every": 4}
    unbroken = small(**given, total_steps=32 * 11, out=tmp_path / "unbroken")
    monkeypatch.setattr(Vanilla, "update", pressed)
    how = {"algorithm": "vanilla", **given, "total_steps": 32 * 11, "out": folder}
    for stop in presses:
        done = len(load(folder).history) if folder.exists() else 0
        waiting = stop - done // 4 * 4
        at.clear()
        with pytest.raises(Interrupted):
            train(**how)
        assert len(load(folder).history) == stop
        how = {"resume": folder}
    waiting = 0
    same_run(train(resume=folder), unbroken)
    # The end of a run lies between two resets as well.
    same_run(
        train(resume=folder, total_steps=32 * 14), small(**given, total_steps=32 * 14, out=tmp_path / "long")
    )


STOPPED = {**SMALL, "checkpoint_every": 4}
LOCKED = {**STOPPED, "env": "ppobook-test/Odd-v0", "env_kwargs": {"locked": True}}


@pytest.mark.parametrize(
    ("changes", "said", "resets"),
    [
        (
            {},
            "Odd-v0 (attribute 'lock' of Odd) can't be pickled: its episodes are cut every 4 updates = "
            "64 steps, at a checkpoint; checkpoint_every=4 sets it\n",
            [4, 8],
        ),
        ({"out": None}, "", []),
        ({"total_steps": 128}, "", [4]),
        ({"env_kwargs": {}}, "", []),
    ],
    ids=["saved", "not saved", "short", "can be pickled"],
)
def test_episodes_that_checkpoints_cut_are_named(tmp_path, monkeypatch, capfd, changes, said, resets):
    from ppobook.training import _Training

    at, real = [], _Training._reset_environments
    monkeypatch.setattr(_Training, "_reset_environments", lambda self: at.append(self.update) or real(self))
    given = LOCKED | {"total_steps": 32 * 11, "out": tmp_path / "run", "progress": False} | changes
    train("vanilla", **given)
    err = capfd.readouterr().err
    assert err.endswith(said) if said else err == ""
    assert at == resets


@posix
def test_ctrl_c_saves(tmp_path):
    """On the command line, as somebody sees it who presses Ctrl-C."""
    folder = tmp_path / "run"
    small_options = {**SMALL, "hidden": "8,", "out": folder, "total_steps": 10**9, "checkpoint_every": 10**6}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in small_options.items()]
    command = [sys.executable, "-m", "ppobook", "train", "vanilla", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for_another(folder, "")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "\nppobook: stopped by Ctrl-C after update" in said
    assert f"--resume {folder}" in said
    kept = load(folder)
    assert len(kept.history) > 0
    same_run(kept, small(total_steps=int(kept.history["steps"].iloc[-1])))


SHORT_PPO = {**LOCKED, "algorithm": "ppo", "epochs": 2, "num_minibatches": 2, "lr_final": 0.0}
del SHORT_PPO["value_epochs"]


@pytest.mark.parametrize(
    ("given", "longer", "kept", "said"),
    [
        # Whoever removes a stranger's pickles keeps the updates.
        ({**STOPPED, "checkpoint_every": 100}, 12, 10, "-000010 has no environments.pkl: the run goes on"),
        (STOPPED, 12, 10, "-000010 has no environments.pkl: the run goes on with new episodes"),
        # A schedule would make other updates of those that are repeated.
        (SHORT_PPO, 12, 10, "-000010 has no environments.pkl: the run goes on with new episodes"),
        (LOCKED, 12, 8, "last reset at update 8: the run goes back to it, and repeats 2 updates"),
        (LOCKED, 10, 10, ""),
    ],
    ids=["pickles removed, rarely saved", "pickles removed", "schedule", "the same updates", "finished"],
)
def test_updates_that_are_done_are_kept_or_repeated_aloud(tmp_path, capfd, given, longer, kept, said):
    folder = tmp_path / "run"
    given = {"algorithm": "vanilla", **given}
    before = train(**given, total_steps=320, out=folder, progress=False).history
    before = before["seconds"].tolist()
    for pickle in folder.rglob("environments.pkl"):
        pickle.unlink()
    capfd.readouterr()
    run = train(resume=folder, total_steps=32 * longer, progress=False)
    assert len(run.history) == longer
    assert [x in before for x in run.history["seconds"]] == [True] * kept + [False] * (longer - kept)
    err = capfd.readouterr().err
    assert said in err
    assert bool(said) == bool(err)
