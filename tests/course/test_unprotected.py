"""Students' code without a sandbox: what still holds, on systems that have less than this one as well."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from ppobook.course import unprotected, worker
from ppobook.course.limits import Ended
from ppobook.course.remote import Grader
from ppobook.course.sandbox import Limits, NoSandbox
from ppobook.course.unprotected import Unprotected


@pytest.fixture(scope="module")
def process():
    with Unprotected() as server, server.start(Limits(disk_mb=8)) as started:
        yield started


@pytest.fixture(scope="module")
def grader(process):
    return Grader(process)


def test_functions_answer_and_a_cell_has_its_time(grader):
    assert grader.cell("import numpy as np\ndef double(x): return np.asarray(x) * 2", 20.0) is None
    assert grader.name("double")([1, 2]).tolist() == [2, 4]
    assert grader.cell("while True: pass", 0.3)["type"] == "_TooSlow"


def test_memory_and_files_are_limited(grader):
    assert "Memory" in grader.cell("import numpy as np\na = np.ones(2**30)", 20.0)["type"]
    assert grader.cell("open('x', 'wb').write(b'x' * 2**24)", 20.0)["type"] == "OSError"


def test_it_has_a_folder_of_its_own_and_little_of_the_environment(monkeypatch):
    monkeypatch.setenv("PASSWORD", "x")
    cell = "import os, tempfile; where = [os.getcwd(), os.environ['HOME'], tempfile.gettempdir()]"
    with Unprotected() as server, server.start() as process:
        grader = Grader(process)
        assert grader.cell(cell, 20.0) is None
        here, home, temporary = (os.path.realpath(path) for path in grader.name("where"))
        assert here == home == temporary
        assert here != os.getcwd()
        assert grader.cell("assert 'PASSWORD' not in os.environ", 20.0) is None


def test_what_it_has_started_ends_with_it_and_its_folder_goes():
    with Unprotected() as server, server.start() as process:
        grader = Grader(process)
        cell = (
            "import os, subprocess, sys\nchild = subprocess.Popen(['sleep', '100']).pid; here = os.getcwd()"
        )
        assert grader.cell(cell, 20.0) is None
        child, here = grader.name("child"), grader.name("here")
        grader.deadline = time.monotonic() + 0.5
        with pytest.raises(Ended) as caught:
            grader.cell("import signal; signal.signal(14, lambda *a: 0)\nwhile True: pass", 60.0)
        assert caught.value.reason == "time"
    used = process.close()
    assert 0.1 < used.cpu < 100
    assert 50 < used.peak_mb < 3000
    assert not os.path.exists(here)
    for _ in range(100):
        if not _lives(child):
            break
        time.sleep(0.1)
    assert not _lives(child)


def test_a_process_that_ended_before_its_token_came_is_no_broken_pipe(monkeypatch):
    start = subprocess.Popen

    def ends_at_once(line, **how):
        process = start([sys.executable, "-c", ""], **how)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(unprotected.subprocess, "Popen", ends_at_once)
    with Unprotected() as server, pytest.raises(NoSandbox, match="doesn't start"):
        server.start()


def test_a_process_that_ends_itself_is_said_to():
    with Unprotected() as server, server.start() as process, pytest.raises(Ended) as caught:
        Grader(process).cell("import os; os._exit(0)", 20.0)
    assert caught.value.reason == "ended"


def test_one_that_does_not_start(monkeypatch):
    monkeypatch.setattr(unprotected.sys, "executable", "/usr/bin/false")
    with pytest.raises(NoSandbox, match="doesn't start"):
        Unprotected().start()


def test_who_does_not_have_the_token_is_sent_away():
    with socket.create_server(("127.0.0.1", 0)) as listening, subprocess.Popen(["sleep", "60"]) as lives:
        there = listening.getsockname()

        def connect() -> None:
            with socket.create_connection(there) as stranger:
                stranger.sendall(b"x" * 32)
                stranger.recv(1)
            with socket.create_connection(there) as ours:
                ours.sendall(b"t" * 32)
                ours.recv(1)

        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        found = unprotected._accepted(listening, lives, b"t" * 32)
        assert found is not None
        with found:
            found.sendall(b"!")
            thread.join(20)
        assert not thread.is_alive()
        lives.kill()


# What macOS or Windows lack; and a course's commands are imported all the same.
ELSEWHERE = """
import os, signal, sys
import torch, gymnasium, IPython, nbgrader.api
for name in ("resource", "pwd", "fcntl"):
    sys.modules[name] = None
for owner, names in ((os, "fork wait4 killpg pread getuid"), (signal, "SIGALRM setitimer")):
    for name in names.split():
        delattr(owner, name)
from ppobook.course import run, sandbox, trail, work, worker
from ppobook.course.remote import Grader
from ppobook.course.unprotected import Unprotected
sys.platform = "win32"
assert "Windows" in sandbox.available()
with Unprotected() as server, server.start() as process:
    assert Grader(process).cell("1 + 1", 20.0) is None
from pathlib import Path
trail.note(Path(sys.argv[1]), "one")
trail.note(Path(sys.argv[1]), "two")
assert [entry["what"] for entry in trail.read(Path(sys.argv[1]))] == ["one", "two"]
"""


def test_a_system_without_what_this_one_has(tmp_path):
    line = [sys.executable, "-c", ELSEWHERE, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "USER": "ada"}
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_without_a_clock_a_cell_runs(monkeypatch):
    monkeypatch.delattr(signal, "setitimer")
    with worker._clock(0.0):
        pass


def _lives(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
