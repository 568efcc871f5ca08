"""The real grader, killed by kill -9 at random moments; `kills.py` does it twenty times."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kills.py")


@pytest.mark.slow
def test_killed_twice_nothing_is_lost_or_graded_twice():
    # All processes, then the command alone; in a process of its own, which adopts what a killed one leaves.
    command = [sys.executable, str(SCRIPT), "--kills", "2", "--students", "6"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith("2 kills over ")
