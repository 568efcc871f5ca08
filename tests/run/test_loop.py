"""The loop with a trainer that has neither environment nor policy, killed at every change of the disk."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from line import fit

from ppobook.run.folder import checkpoints


def test_a_run_of_another_kind(tmp_path):
    run = fit(out=tmp_path / "run")
    assert list(run.history.columns) == ["update", "points", "loss", "seconds", "average"]
    assert run.history["points"].tolist() == [4 * i for i in range(1, 8)]
    assert fit(200, lr=0.1).model.weight.item() == pytest.approx(2, abs=0.4)
    assert repr(run) == "LineRun(line, 7 updates)"


def test_resuming_goes_on_to_the_same_bits(tmp_path):
    unbroken = fit(9)
    for stop in (1, 2, 5):
        fit(stop, out=tmp_path / str(stop))
        assert fit(9, resume=tmp_path / str(stop)).bits() == unbroken.bits()


HELPERS = Path(__file__).parents[1] / "helpers"
DEADLY = f"""
import os, signal, sys
sys.path[:0] = [{str(HELPERS)!r}, {os.path.dirname(__file__)!r}]
import line, test_loop
line.fit(1)  # an optimizer's first step imports half of torch: better once, before the forks
os.fsync = lambda file: None  # it helps against a loss of power, and takes its time

def killed(n, how):
    '''Whether a process that runs this dies at its n-th change of the disk, or ends before.'''
    pid = os.fork()
    if pid == 0:
        left = n
        def hook(event, args):
            nonlocal left
            if event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR) or event in {{
                "os.rename", "os.mkdir", "os.remove", "os.rmdir"
            }}:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        line.fit(**how)
        os._exit(0)
    ended = os.waitpid(pid, 0)[1]
    assert ended in (0, signal.SIGKILL), ended
    return ended != 0

for scenario in test_loop.SCENARIOS:
    print(test_loop.deaths(killed, scenario, sys.argv[1]))
"""
# How far a run is trained before; and how it is then trained on, in a process that is killed.
SCENARIOS = {
    "new": (None, {}),
    "resumed": (3, {}),
    "resumed where it had not begun": (0, {}),
}


def deaths(killed, scenario, folder):
    """Kill a run at each change that it makes to the disk, and resume it; returns the number of changes."""
    folder, unbroken, n = Path(folder), fit(5).bits(), 0
    before, how = SCENARIOS[scenario]
    begun_before = folder.with_name(f"begun-{before}")
    if before is not None:
        fit(before, out=begun_before)
    while True:
        n += 1
        shutil.rmtree(folder, ignore_errors=True)
        if before is not None:
            shutil.copytree(begun_before, folder)
        if not killed(n, {"updates": 5, "out" if before is None else "resume": folder, **how}):
            return n - 1
        begun = folder.exists() and checkpoints(folder)
        assert begun or before is None, (scenario, n)
        assert fit(5, **{"resume" if begun else "out": folder}).bits() == unbroken, (scenario, n)
        assert not list(folder.glob("checkpoint-*.part")), (scenario, n)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")
def test_kill_9_at_every_change_of_the_disk(tmp_path):
    command = [sys.executable, "-c", DEADLY, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(int(count) > 20 for count in done.stdout.split())
    assert len(done.stdout.split()) == len(SCENARIOS)
