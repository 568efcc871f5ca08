"""The limits of a submission's process, and of all that belongs to its sandbox."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from ppobook.course import sandbox as sandboxes
from ppobook.course.sandbox import Limits, NoSandbox, Sandbox, available
from ppobook.teaching import checks


def test_there_can_be_a_sandbox_here():
    assert available() is None


# Each raises an AssertionError where something is possible that should not be.
CLOSED = f"""
import os, socket, ctypes, pathlib, sys

def refused(do, *args):
    try:
        do(*args)
    except (OSError, PermissionError):
        return True
    return False

assert os.getuid() == 65534
assert len(pathlib.Path("/proc/net/route").read_text().splitlines()) == 1
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 40):  # the last: a host
    assert refused(socket.socket, family), family
a, b = socket.socketpair()
a.sendall(b"x"); assert b.recv(1) == b"x"

here = {os.getcwd()!r}
for place in ("/root", "/home", "/etc/passwd", "/etc/shadow", "/var", here + "/exercises", here + "/tests"):
    path = pathlib.Path(place)
    try:
        found = not path.exists() or set(os.listdir(path)) <= {{".pyenv", ".local", ".cache"}}
    except OSError:
        found = True
    assert found, place
assert refused(open, "/usr/x", "w") and refused(open, "/x", "w") and refused(open, os.__file__, "a")
assert refused(os.mkdir, "/dev/x")
for number in os.listdir("/proc/self/fd"):
    if int(number) > 2 and os.path.exists("/proc/self/fd/" + number):
        target = os.readlink("/proc/self/fd/" + number)
        assert target.startswith(("pipe", "socket", "/dev/null", "/proc", "/usr")), target

others = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
assert others == [1], others
# Bubblewrap's own process has the filter and the limits too, whoever writes into its memory.
assert "Seccomp:\\t2" in pathlib.Path("/proc/1/status").read_text()
limits = [line.split() for line in pathlib.Path("/proc/1/limits").read_text().splitlines()]
assert [line for line in limits if line[:3] == ["Max", "open", "files"]][0][3:5] == ["128", "128"]
assert [line for line in limits if line[:3] == ["Max", "data", "size"]][0][3] != "unlimited"
assert [line for line in limits if line[:2] == ["Max", "processes"]][0][2] != "unlimited"
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(16, 1, 0, 0) == -1 and refused(os.kill, {os.getpid()}, 0)
assert libc.process_vm_readv(1, None, 0, None, 0, 0) == libc.process_vm_writev(1, None, 0, None, 0, 0) == -1
pipe = 278 if os.uname().machine == "x86_64" else 75
for number in (438, 444, pipe):  # pidfd_getfd, landlock_create_ruleset, vmsplice
    assert libc.syscall(number, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1, number
if os.uname().machine == "x86_64":  # which knows the same calls by other numbers
    assert libc.syscall(2**30 + 39) == -1 and ctypes.get_errno() == 1
assert refused(os.sched_setaffinity, 0, os.sched_getaffinity(0))
assert libc.unshare(0x10000000) == -1 and libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == -1
status = pathlib.Path("/proc/self/status").read_text()
assert "CapEff:\\t0000000000000000" in status and "CapBnd:\\t0000000000000000" in status
assert "NoNewPrivs:\\t1" in status
assert not pathlib.Path("/proc/1/environ").read_bytes()
assert "SECRET" not in os.environ and "/root" not in os.environ["HOME"]
checks = pathlib.Path({os.path.dirname(checks.__file__)!r})
assert sorted(path.name for path in checks.iterdir()) == ["__init__.py", "beside", "findings.py"]
assert refused((checks / "x").write_text, "x")
os.kill(1, 9)
assert refused(os.setuid, 0)
assert open("/proc/self/oom_score_adj").read() == "1000\\n"
"""
# Memory that would be no process's own, and so be counted to nobody.
UNCOUNTED = """
import ctypes, mmap, os

def made(do):
    try:
        return do()
    except OSError:
        return None

assert made(lambda: os.memfd_create("x")) is None
assert made(lambda: mmap.mmap(-1, 2**20)) is None
assert made(lambda: open("/dev/zero", "r+b")) is None
libc = ctypes.CDLL(None)
assert made(lambda: os.setxattr(".", "user.x", b"x")) is None
assert libc.shmget(0, 2**20, 0o1600) == libc.msgget(0, 0o1600) == libc.semget(0, 9, 0o1600) == -1
assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize <= 2**20
assert len(mmap.mmap(-1, 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)) == 2**20
"""
FORKS = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
        made += 1
except OSError:
    assert made < 80, made
"""


@pytest.mark.parametrize("cell", [CLOSED, UNCOUNTED, FORKS], ids=["closed", "uncounted", "forks"])
def test_nothing_is_possible_that_should_not_be(grader, cell):
    assert grader.cell(cell, 300.0) is None
    assert "Memory" in grader.cell("import numpy as np\na = np.ones(2**30)", 300.0)["type"]


@pytest.mark.parametrize("magic", ["matplotlib inline", "matplotlib widget", "pylab inline", "gui qt"])
def test_magics_that_show_figures_do_nothing(grader, magic):
    line = f"%config InlineBackend.figure_format = 'retina'\n%{magic}"
    assert grader.cell(f"{line}\nimport matplotlib.pyplot as plt\nplt.plot([1]); plt.show()", 300.0) is None


def test_an_endless_cell_is_stopped_and_what_is_printed_fills_nothing(open_grader):
    grader = open_grader()
    assert grader.cell("while True: pass", 0.5)["type"] == "_TooSlow"
    printing = "import os\nfor _ in range(1000): print('x' * 10_000); os.write(1, b'x' * 10**5)"
    assert grader.cell(printing, 300.0) is None


def test_it_ends_with_the_grader(tmp_path):
    script = """
from ppobook.course.calls import Grader
from ppobook.course.sandbox import Sandbox
import os
grader = Grader(Sandbox())
grader.cell("import os; space = os.readlink('/proc/self/ns/pid')", 300.0)
print(grader.name("space"), flush=True)
os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("pid:[")
    assert _left_over(done.stdout.strip()) == []


def test_a_control_group_is_used_where_there_can_be_one(tmp_path, monkeypatch):
    fake = tmp_path / "systemd-run"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandboxes._grouped.cache_clear()
    try:
        line = sandboxes._grouped(Limits(memory_mb=700, processes=20))
        assert line[0] == str(fake)
        assert {"--property=MemoryMax=700M", "--property=TasksMax=28"} <= set(line)
        fake.write_text("#!/bin/sh\nexit 1\n")
        sandboxes._grouped.cache_clear()
        assert sandboxes._grouped(Limits()) == ()
    finally:
        sandboxes._grouped.cache_clear()


def test_where_there_can_be_none_it_says_why(monkeypatch):
    monkeypatch.setattr(sandboxes, "_tried", lambda line: "setting up uid map: Permission denied")
    sandboxes._grouped.cache_clear()
    said = "bubblewrap doesn't start a sandbox here (setting up uid map: Permission denied); the guide says"
    assert available().startswith(said)
    sandboxes._grouped.cache_clear()
    monkeypatch.undo()
    monkeypatch.setattr(sandboxes.shutil, "which", lambda name: name == "bwrap" and "/nowhere/bwrap")
    assert "bwrap" in available()
    monkeypatch.undo()
    monkeypatch.setattr(sandboxes.sys, "executable", "/usr/bin/false")
    with pytest.raises(NoSandbox, match="can't be made"):
        Sandbox()


def _left_over(space):
    """Processes in the sandbox's space of processes that are still there a moment later."""
    for _ in range(3000):
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/pid") == space:
                    found.append(name)
        if not found:
            return []
        time.sleep(0.1)
    return found
