"""A run that is killed and resumed is the run that was not."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from test_training import SMALL, small, timeless

from ppobook import load, train
from ppobook.run.interrupts import Interrupted
from ppobook.training import read_record

EVERY = 3
KILLED = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 16, "hidden": (8,), "checkpoint_every": EVERY}
# Each algorithm, with all that it keeps from one update to the next.
CASES = {
    "vanilla": {"algorithm": "vanilla", "value_epochs": 2},
    "vanilla, whole episodes": {"algorithm": "vanilla", "baseline": "mean"},
    "trpo": {"algorithm": "trpo"},
    "ppo": {"algorithm": "ppo", "epochs": 2, "num_minibatches": 4, "lr_final": 0.0, "clip_eps_final": 0.1},
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
KILLS = 4  # of each, which is 20 together


def unscheduled(case):
    """Settings of a case, but for those that make a run depend on how long it is to be."""
    return {name: x for name, x in {**KILLED, **CASES[case]}.items() if not name.endswith("_final")}


def same_run(a, b):
    assert timeless(a.history).equals(timeless(b.history))
    for module in ("policy", "value"):
        if getattr(a, module) is not None:
            one, other = (getattr(run, module).state_dict() for run in (a, b))
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)  # the statistics of a norm, too


SERVER = f"""
import os, sys, torch
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_training  # registers its environment
from ppobook.registry import ALGORITHMS, learner_class
from ppobook.training import _Training
from ppobook import train
for name in ALGORITHMS:
    learner_class(name)
# How far a process has come is one byte an update, in a file of its own.
one_update = _Training.one_update
def counted(self):
    row = one_update(self)
    os.write(count, b".")
    return row
_Training.one_update = counted
# An optimizer's first step imports half of torch: better once, before the forks.
torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()
for line in sys.stdin:
    how = eval(line)
    pid = os.fork()
    if pid == 0:
        count = os.open(how.pop("count", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        train(**how)
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


class Forks:
    """Processes that train and can be killed, forked from one that has imported torch already."""

    def __init__(self):
        pipe = subprocess.PIPE
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )

    def start(self, how):
        print(repr(how), file=self.server.stdin, flush=True)
        return int(self.server.stdout.readline())

    def ended(self):
        """The signal that ended the process, or 0."""
        return int(self.server.stdout.readline()) & 0x7F


@pytest.fixture(scope="module")
def forks():
    made = Forks()
    yield made
    made.server.kill()
    made.server.communicate()


def last(folder):
    return max((path.name for path in folder.glob("checkpoint-*[0-9]")), default="")


def wait_for_another(folder, before):
    deadline = time.monotonic() + 60
    while last(folder) in (before, "") and time.monotonic() < deadline:
        time.sleep(0.002)


posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")


@posix
@pytest.mark.parametrize("case", CASES)
def test_kill_9_at_random_moments_then_resume(tmp_path, forks, case):
    """Killed again and again, and resumed each time. The moments have a seed, the machine's pace has none."""
    given = {**KILLED, **CASES[case], "total_steps": 32 * 20 * KILLS}
    unbroken = train(**given)
    moments = random.Random(case)
    folder, count = tmp_path / "run", tmp_path / "count"
    how = {**given, "out": str(folder)}
    begun = 0
    for _ in range(KILLS):
        count.unlink(missing_ok=True)
        process = forks.start({**how, "count": str(count)})
        stop = moments.randint(1, 4 * EVERY)
        deadline = time.monotonic() + 60
        while (not count.exists() or count.stat().st_size < stop) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.01))
        os.kill(process, signal.SIGKILL)
        assert forks.ended() == signal.SIGKILL
        came = begun + count.stat().st_size
        kept = read_record(folder).history
        assert came >= begun + stop
        assert 0 <= came - len(kept) <= EVERY
        if len(kept):  # an empty table has no types to compare
            assert timeless(kept).equals(timeless(unbroken.history).head(len(kept)))
        begun = len(kept)
        assert begun < len(unbroken.history)
        how = {"resume": str(folder)}
    same_run(train(resume=folder), unbroken)
    same_run(load(folder), unbroken)


@pytest.mark.parametrize("algorithm", ["vanilla", "trpo", "ppo"])
def test_every_checkpoint_is_a_place_to_go_on_from(tmp_path, algorithm):
    given = {**unscheduled(algorithm), "env": "ppobook/Gridworld-v0"}
    straight = train(**given, total_steps=480)
    for stop in (32, 160, 320):
        train(**given, total_steps=stop, out=tmp_path / str(stop))
        same_run(train(resume=tmp_path / str(stop), total_steps=480), straight)


def test_total_steps_count_from_the_start_of_the_run(tmp_path):
    small(total_steps=100, out=tmp_path / "run")
    assert train(resume=tmp_path / "run").history["steps"].iloc[-1] == 128
    assert train(resume=tmp_path / "run", total_steps=129).history["steps"].iloc[-1] == 160
    assert load(tmp_path / "run").config["total_steps"] == 129


@posix
@pytest.mark.parametrize(
    ("case", "wait"), [("vanilla", False), ("vanilla", True), ("trpo", True), ("ppo", True)]
)
def test_environments_that_cannot_be_saved_are_reset_at_checkpoints_by_both(tmp_path, forks, case, wait):
    given = {**unscheduled(case), "env": "ppobook-test/Odd-v0", "env_kwargs": {"locked": True}}
    folder = tmp_path / "run"
    process = forks.start({**given, "total_steps": 10**7, "out": str(folder)})
    wait_for_another(folder, "")
    if wait:
        wait_for_another(folder, "checkpoint-000000")
    os.kill(process, signal.SIGKILL)
    assert forks.ended() == signal.SIGKILL
    updates = len(load(folder).history)
    assert not list(folder.rglob("environments.pkl"))
    on = train(resume=folder, total_steps=32 * (updates + 5))
    same_run(on, train(**given, total_steps=32 * (updates + 5)))


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
    unbroken = small(**given, total_steps=32 * 11)
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
    same_run(train(resume=folder, total_steps=32 * 14), small(**given, total_steps=32 * 14))


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
    assert said.startswith("ppobook: stopped by Ctrl-C after update")
    assert f"--resume {folder}" in said
    kept = load(folder)
    assert len(kept.history) > 0
    same_run(kept, small(total_steps=int(kept.history["steps"].iloc[-1])))


def test_ctrl_c_without_a_folder_hands_the_run_over(monkeypatch):
    from ppobook.vanilla import Vanilla

    real = Vanilla.update

    def pressed(self, rollout):
        signal.raise_signal(signal.SIGINT)
        return real(self, rollout)

    monkeypatch.setattr(Vanilla, "update", pressed)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match=r"kept nowhere but in .run") as caught:
        small(total_steps=10_000)
    assert len(caught.value.run.history) == 1
    assert signal.getsignal(signal.SIGINT) is before

    def twice(self, rollout):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Vanilla, "update", twice)
    with pytest.raises(KeyboardInterrupt) as caught:
        small(total_steps=10_000)
    assert not isinstance(caught.value, Interrupted)
