"""The limits of a process in a sandbox, in both ways of starting one."""

import contextlib
import os
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ppobook.course import keeper, syscalls
from ppobook.course import sandbox as sandboxes
from ppobook.course.limits import Ended
from ppobook.course.remote import Grader
from ppobook.course.sandbox import Limits, Server, available
from ppobook.teaching import checks


def test_there_can_be_a_sandbox_here():
    assert available() is None


@pytest.fixture(scope="module")
def each():
    with Server(fork=False) as made:
        yield made


@pytest.fixture(params=["fork", "each"])
def grader(request, server):
    chosen = server if request.param == "fork" else request.getfixturevalue("each")
    with chosen.start(Limits()) as sandbox:
        yield Grader(sandbox)
    assert chosen.fork == (request.param == "fork")


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
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 40):  # the last: a machine's host
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
        assert target.startswith(("socket", "/dev/null", "/proc", "/usr", "pipe")), target

others = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
assert len(others) <= 3, others
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(16, {os.getpid()}, 0, 0) == -1 and refused(os.kill, {os.getpid()}, 0)
assert libc.unshare(0x10000000) == -1 and libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == -1
status = pathlib.Path("/proc/self/status").read_text()
assert "CapEff:\\t0000000000000000" in status and "CapBnd:\\t0000000000000000" in status
assert "NoNewPrivs:\\t1" in status
assert not pathlib.Path("/proc/1/environ").read_bytes()
checks = pathlib.Path({os.path.dirname(checks.__file__)!r})
assert sorted(path.name for path in checks.iterdir()) == ["__init__.py", "beside", "findings.py"]
assert refused((checks / "x").write_text, "x")
inside = [name.split(".")[3] for name in sys.modules if name.startswith("ppobook.teaching.checks.")]
assert set(inside) <= {{"beside", "findings"}}, inside
os.kill(1, 9)
assert refused(os.setuid, 0)
assert "SECRET" not in os.environ and "/root" not in os.environ["HOME"]
"""


def test_nothing_is_there_that_should_not_be(grader, monkeypatch):
    assert grader.cell(CLOSED, 20.0) is None
    assert grader.cell("assert os.getpid() > 1", 20.0) is None


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
assert libc.shmget(0, 2**20, 0o1600) == libc.msgget(0, 0o1600) == libc.semget(0, 9, 0o1600) == -1
assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize <= 2**20
assert len(mmap.mmap(-1, 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)) == 2**20
with open("/tmp/x", "w+b") as file:
    file.write(bytes(4096)); file.flush()
    assert len(mmap.mmap(file.fileno(), 4096)) == 4096
"""


def test_no_memory_is_made_that_is_not_counted(grader):
    assert grader.cell(UNCOUNTED, 20.0) is None


def test_the_system_ends_a_sandbox_first(grader):
    assert grader.cell("assert open('/proc/self/oom_score_adj').read() == '1000\\n'", 20.0) is None


def filtered(machine, name, number, *arguments):
    """Return the filter's answer to a request: "allow", "fail" or "end"."""
    given = struct.pack("=IIQ6Q", number, name, 0, *arguments, *[0] * (6 - len(arguments)))
    lines, at, held = [*struct.iter_unpack("=HBBI", syscalls.program(machine))], 0, 0
    while True:
        code, then, otherwise, value = lines[at]
        at += 1
        if code == 0x06:
            return {0x7FFF0000: "allow", 0x80000000: "end"}.get(value, "fail")
        if code == 0x20:
            (held,) = struct.unpack_from("=I", given, value)
        elif code == 0x54:
            held &= value
        else:
            at += then if (held >= value if code == 0x35 else held == value) else otherwise


@pytest.mark.parametrize(
    ("machine", "name", "mmap", "socket", "read", "refused"),
    [("x86_64", 0xC000003E, 9, 41, 0, 319), ("aarch64", 0xC00000B7, 222, 198, 63, 279)],
)
def test_what_the_filter_says(machine, name, mmap, socket, read, refused):
    assert filtered(machine, name, read) == "allow"
    assert filtered(machine, name, refused) == "fail"
    assert filtered(machine, name, 2**30 + read) == "fail"
    assert filtered(machine, 0x40000003, read) == "end"
    assert [filtered(machine, name, socket, family) for family in (1, 2, 40)] == ["allow", "fail", "fail"]
    flags = {0x02: "allow", 0x22: "allow", 0x01: "allow", 0x21: "fail", 0x23: "fail", 0x8021: "fail"}
    assert {one: filtered(machine, name, mmap, 0, 1, 3, one) for one in flags} == flags


def test_of_another_machine_nothing_is_known():
    assert syscalls.program("riscv64") == b""


def test_disk_files_and_memory_are_limited(open_grader):
    grader = open_grader(disk_mb=8)
    fill = """
try:
    with open('/tmp/x', 'wb') as f:
        for _ in range(40): f.write(b'x' * 2**20)
except OSError as error: found = error.errno
import os
for n in range(40):
    try: open(f'/tmp/{n}', 'wb').write(b'x' * 2**20)
    except OSError: found = 28
assert found in (27, 28)
"""
    assert grader.cell(fill, 20.0) is None
    error = grader.cell("import numpy as np\na = np.ones(2**30)", 20.0)
    assert error is not None
    assert "Memory" in error["type"]
    assert grader.cell("1 + 1", 20.0) is None


ENDS = {
    "exit": "import os; os._exit(0)",
    "itself": "import os; os.kill(os.getpid(), 9)",
    "its parent": "import os; os.kill(os.getppid() or os.getpid(), 9); os.kill(0, 9)",
    "everything": "import os; os.kill(-1, 9); os._exit(0)",
    "a fault": "import ctypes; ctypes.string_at(0)",
    "closed descriptors": "import os; os.closerange(0, 100); 1 / 0",
}


@pytest.mark.parametrize("cell", ENDS.values(), ids=ENDS)
def test_a_process_that_ends_itself_ends_nobody_else(server, cell):
    with server.start() as quiet, server.start() as loud:
        other = Grader(quiet)
        with pytest.raises(Ended) as caught:
            Grader(loud).cell(cell, 20.0)
        assert caught.value.reason == "ended"
        assert other.cell("1 + 1", 20.0) is None


def test_forks_are_limited_and_end_with_the_sandbox(server):
    bomb = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(100)
        made += 1
except OSError:
    assert made < 40, made
"""
    with server.start(Limits(processes=20)) as sandbox:
        grader = Grader(sandbox)
        assert grader.cell(HERE, 20.0) is None
        assert grader.cell(bomb, 20.0) is None
        space = grader.name("space")
        began = time.monotonic()
    assert time.monotonic() - began < 90  # the forks sleep for 100 seconds
    assert _left_over(space) == []


def test_the_processes_of_the_graders_user_do_not_count(each, server):
    sleepers = [subprocess.Popen(["sleep", "300"]) for _ in range(80)]
    try:
        for chosen in (server, each):
            with chosen.start(Limits(processes=40)) as sandbox:
                cell = "import subprocess, threading\nassert subprocess.run(['true']).returncode == 0\n"
                assert Grader(sandbox).cell(cell + "threading.Thread(target=print).start()", 20.0) is None
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def test_an_old_kernel_counts_them_and_so_do_we():
    assert keeper.counted_too("6.1.0-25-amd64") == keeper.counted_too("5.14.0") == 0
    before = keeper.counted_too("4.18.0-553.el8")
    sleepers = [subprocess.Popen(["sleep", "300"]) for _ in range(50)]
    try:
        assert keeper.counted_too("5.10.0-32-amd64") > before + 25  # others may end meanwhile
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def test_memory_counts_over_all_processes(server):
    bomb = """
import os, time
import numpy as np
for _ in range(5):
    if os.fork() == 0:
        a = np.ones(2**24); time.sleep(100)
time.sleep(20)
"""
    with server.start(Limits(memory_mb=700)) as sandbox, pytest.raises(Ended) as caught:
        Grader(sandbox).cell(bomb, 30.0)
    assert caught.value.reason == "memory"


def test_who_takes_all_cores_stands_still_until_it_is_even(monkeypatch):
    now, used, sent = [100.0], {7: 0.0, 8: 0.0}, []
    monkeypatch.setattr(keeper, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(keeper, "_seconds", lambda pid, **_: used[pid])
    monkeypatch.setattr(keeper.os, "kill", lambda pid, what: sent.append((pid, what)))
    child = keeper._Child({"memory_mb": 1}, -1, None)

    def after(seconds, *more):
        now[0] += seconds
        for pid, seconds in zip(used, more, strict=False):
            used[pid] += seconds
        sent.clear()
        child._hold_back([*used])
        return {what for _, what in sent}

    assert after(60.0, 30.0, 30.0) == set()  # one core for long
    assert after(1.0, 2.0, 2.0) == set()  # more for a while
    assert after(1.0, 2.0, 2.0) == {signal.SIGSTOP}
    assert sent == [(7, signal.SIGSTOP), (8, signal.SIGSTOP)]
    assert after(1.0, 0.0, 0.0) == {signal.SIGSTOP}
    assert after(2.0, 0.0, 0.0) == {signal.SIGCONT}
    assert after(1.0, 1.0, 0.0) == set()
    del used[8]  # it has ended, and its time is not given back
    used[9] = 6.0
    assert after(1.0, 1.0) == {signal.SIGSTOP}


def test_an_endless_cell_is_stopped_and_the_next_one_runs(server):
    with server.start() as sandbox:
        grader = Grader(sandbox)
        error = grader.cell("while True: pass", 0.3)
        assert error["type"] == "_TooSlow"
        assert grader.cell("1 + 1", 20.0) is None


def test_a_cell_that_swallows_everything_is_ended_from_outside(server):
    stubborn = (
        "import signal\nsignal.signal(14, lambda *a: 0)\nwhile True:\n    try: 1\n    except BaseException: 1"
    )
    with server.start() as sandbox:
        grader = Grader(sandbox)
        grader.deadline = time.monotonic() + 1.0
        with pytest.raises(Ended) as caught:
            grader.cell(stubborn, 0.2)
        assert caught.value.reason == "time"


def test_output_is_dropped_and_threads_end_with_the_sandbox(server):
    noise = """
import threading, sys, os
def shout():
    while True: sys.stdout.write('x' * 1000)
threading.Thread(target=shout, daemon=True).start()
for _ in range(1000): print('x' * 10_000); os.write(1, b'x' * 100_000)
"""
    with server.start(Limits(output_kb=1)) as sandbox:
        grader = Grader(sandbox)
        assert grader.cell(HERE, 20.0) is None
        assert grader.cell(noise, 20.0) is None
        space = grader.name("space")
    assert _left_over(space) == []


WORK = "sum(i * i for i in range(3_000_000))"


def test_what_was_used_is_reported(server):
    with server.start() as sandbox:
        Grader(sandbox).cell(WORK, 20.0)
        time.sleep(2.0)
    used = sandbox.close()
    assert 0.05 < used.cpu < 60
    assert 50 < used.peak_mb < 1500


def test_the_keeper_is_started_again_and_its_sandboxes_end_with_it(each):
    with each.start() as sandbox:
        grader = Grader(sandbox)
        assert grader.cell(HERE, 20.0) is None
        space = grader.name("space")
        os.kill(each._process.pid, signal.SIGKILL)
        assert _left_over(space) == []
        with pytest.raises(Ended):
            grader.cell("1 + 1", 20.0)
    with each.start() as sandbox:
        assert Grader(sandbox).cell(WORK, 30.0) is None
        time.sleep(2.0)
    assert 0.05 < sandbox.close().cpu < 60


def test_sandboxes_that_were_forked_end_with_the_keeper_too():
    with Server() as server, server.start() as sandbox:
        grader = Grader(sandbox)
        assert grader.cell(HERE, 20.0) is None
        space = grader.name("space")
        os.kill(server._process.pid, signal.SIGKILL)
        assert _left_over(space) == []


def test_libraries_that_lie_below_tmp_are_there(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        file = Path(place) / "library.py"
        file.write_text("x = 1\n")
        monkeypatch.setattr(keeper, "libraries", lambda: [Path(place)])
        line = [*keeper.command({"disk_mb": 16}, {}), "--", "cat", str(file)]
        assert subprocess.run(line, capture_output=True, text=True, check=False).stdout == "x = 1\n"


def test_without_bubblewrap_it_says_so(monkeypatch):
    monkeypatch.setattr(sandboxes.shutil, "which", lambda name: None)
    assert "bubblewrap is missing: install it" in available()
    monkeypatch.setattr(sandboxes.sys, "platform", "darwin")
    assert available() == "macOS has no bubblewrap, which needs Linux."


@pytest.mark.parametrize(("setting", "refuses", "do"), sandboxes.REFUSING)
def test_where_the_system_refuses_it_says_what_to_do(tmp_path, monkeypatch, setting, refuses, do):
    failed = subprocess.CompletedProcess([], 0, "bwrap: setting up uid map: Permission denied\n", "")
    monkeypatch.setattr(sandboxes.subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(sandboxes, "PROC_SYS", tmp_path)
    assert available() == (
        "bubblewrap doesn't start a sandbox here: bwrap: setting up uid map: Permission denied"
    )
    path = tmp_path / setting.replace(".", "/")
    path.parent.mkdir()
    path.write_text(f"{refuses}\n")
    said = available()
    assert "(bwrap: setting up uid map: Permission denied)" in said
    assert f"{setting}=" in said
    assert do in said


HERE = "import os; space = os.readlink('/proc/self/ns/pid')"


def _left_over(space):
    """Processes in the sandbox's space of processes that are still there a moment later."""
    for _ in range(600):
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/pid") == space:
                    found.append(name)
        if not found:
            return []
        time.sleep(0.1)
    return found
