"""A run that is killed and resumed ends with the bits of one that was not."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import small_language
import small_stages
from small_runs import same_run, small, timeless
from warm import started

import ppobook.language
from ppobook import load, train
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
    "ppo, fast": {"algorithm": "ppo", "epochs": 2, "num_minibatches": 4, "fast": True},
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
            deadline = time.monotonic() + 300
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
    folder, kills = tmp_path / "run", 3
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


def test_environments_that_cannot_be_pickled_begin_new_episodes(tmp_path, capfd):
    locked = {"env": "ppobook-test/Odd-v0", "env_kwargs": {"locked": True}, "progress": False}
    unbroken = small(**locked, total_steps=32 * 9)
    small(**locked, total_steps=32 * 5, out=tmp_path / "run")
    assert not list(tmp_path.rglob("environments.pkl"))
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    capfd.readouterr()
    on = train(resume=tmp_path / "run", total_steps=32 * 9, progress=False)
    said = (
        f"resume={str(tmp_path / 'run')!r}: checkpoint-000005 has no environments.pkl: the run goes on with"
    )
    assert said in capfd.readouterr().err
    assert timeless(on.history.head(5)).equals(timeless(unbroken.history.head(5)))
    same_run(on, train(resume=tmp_path / "copy", total_steps=32 * 9))
    same_run(small(**locked, out=tmp_path / "whole", total_steps=32 * 9), unbroken)
