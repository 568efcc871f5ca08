"""The process that makes sandboxes: it opens one, sends a child in, watches it, and reports how it ended.

It has imported what notebooks import and never runs anything of a student's itself. For each submission,
bubblewrap makes fresh namespaces; a fork of this process enters them, gives up all rights, and serves. So a
submission doesn't pay for importing torch. Where the system refuses to enter namespaces, bubblewrap starts a
Python of its own for each.

    python -m ppobook.course.keeper FD fork|each
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import mmap
import os
import re
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["command", "counted_too", "environment", "libraries", "main", "stage", "tried", "user"]

_NAMESPACES = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
_MOUNTS, _BIND, _RECURSIVE, _PRIVATE = 0x20000, 4096, 16384, 1 << 18
_NO_NEW_PRIVILEGES, _DROP_BOUND = 38, 24
_WATCH = 0.1  # seconds between two looks at the memory
# Of the checks' folder, what can be read inside. The rest holds slow definitions, which are solutions.
_CHECKS = Path("teaching", "checks")
_SHOWN = ("__init__.py", "findings.py", "beside")
_CORES = 1.2  # that all processes of a sandbox together may have for long, or others' clocks would run out
_BURST = 3.0  # seconds of a core that they may have besides
_LONGEST = 6 * 3600.0  # seconds that a sandbox may live, whatever its grader does


def user() -> int | None:
    """The user that a submission runs as: one of its own, where this process is root's; else this process's.

    A system counts processes by their user, so that of two submissions with one user a fork bomb in one would
    leave the other none.
    """
    if os.getuid() != 0:
        return None
    import pwd  # which Windows lacks, where `environment` is used too

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            taken.add(process.stat().st_uid)
    return secrets.choice([uid for uid in range(64_200, 65_500) if uid not in taken])


def counted_too(release: str) -> int:
    """Count this user's processes that the system adds to a submission's when it runs as the same user.

    Before Linux 5.14 a limit on processes was one on all of a user's, in whatever namespace.
    """
    version = re.match(r"(\d+)\.(\d+)", release)
    if version is None or (int(version[1]), int(version[2])) >= (5, 14):
        return 0
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                count += len(os.listdir(process / "task"))
    return count


def command(limits: dict[str, int], staged: dict[Path, str]) -> list[str]:
    """Bubblewrap's command line, less what is to be run: what can be seen inside, and that is all."""
    # By its path, for it is started without an environment: its own can be read inside, in /proc/1.
    line = [shutil.which("bwrap") or "bwrap", "--unshare-user", "--unshare-all", "--disable-userns"]
    line += ["--die-with-parent", "--new-session", "--uid", "65534", "--gid", "65534"]
    line += ["--hostname", "sandbox", "--clearenv"]
    line += ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        path = Path(name)
        if path.is_symlink():
            line += ["--symlink", os.readlink(path), name]
        elif path.exists():
            line += ["--ro-bind", name, name]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/fonts"):
        line += ["--ro-bind-try", name, name]
    # A mapping of /dev/zero would be memory that is no process's own: see `syscalls`.
    line += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/dev/null", "/dev/zero"]
    line += ["--size", str(limits["disk_mb"] * 2**20), "--tmpfs", "/tmp"]
    for place in libraries():  # perhaps below /tmp
        line += ["--ro-bind", staged.get(place, str(place)), str(place)]
    line += ["--size", str(2**20), "--tmpfs", str(_package() / _CHECKS)]
    for name in _SHOWN:
        shown = _package() / _CHECKS / name
        line += ["--ro-bind", _staged(shown, staged), str(shown)]
    line += ["--remount-ro", str(_package() / _CHECKS)]
    for mount in ("/dev/shm", "/dev"):  # what --dev makes can be written to
        line += ["--remount-ro", mount] if mount == "/dev" else ["--size", str(2**20), "--tmpfs", mount]
    line += ["--remount-ro", "/", "--chdir", "/tmp"]
    for key, value in environment().items():
        line += ["--setenv", key, value]
    return line


def tried() -> str:
    """Return bubblewrap's message when it can't start a Python; "" where it can."""
    uid = user()
    as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    line = [*command({"disk_mb": 16}, stage()), "--", sys.executable, "-c", "import json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={}, **as_user)  # type: ignore[call-overload]
    return done.stderr.strip() or "it says nothing" if done.returncode else ""


def libraries() -> list[Path]:
    """The folders, besides /usr, that Python and its packages lie in."""
    package = _package()
    places = [Path(sys.base_prefix), Path(sys.prefix), package, package.parents[1] / "results"]
    for name in ("torch", "numpy", "IPython"):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            places.append(Path(found.origin).parents[1])
    kept: list[Path] = []
    for place in places:
        if place.is_dir() and not any(place.is_relative_to(other) for other in (Path("/usr"), *kept)):
            kept.append(place)
    return kept


def _package() -> Path:
    return Path(__file__).resolve().parents[1]


def _staged(path: Path, staged: dict[Path, str]) -> str:
    """Return the place where a path can be reached."""
    for place, where in staged.items():
        if path.is_relative_to(place):
            return str(Path(where) / path.relative_to(place))
    return str(path)


def stage() -> dict[Path, str]:
    """Make libraries reachable that lie where the submission's user may not go, such as below /root.

    Only root has to: in a view of the file system that is this process's own, they're seen below /mnt.
    """
    hidden = [p for p in libraries() if not all(above.stat().st_mode & 0o001 for above in p.parents)]
    if user() is None or not hidden:
        return {}
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: str, kind: str | None, flags: int) -> None:
        if libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, None) != 0:
            raise OSError(ctypes.get_errno(), f"{target} can't be mounted")

    if libc.unshare(_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "the file system can't have a view of its own")
    mount("none", "/", None, _RECURSIVE | _PRIVATE)
    mount("tmpfs", "/mnt", "tmpfs", 0)
    staged = {}
    for number, place in enumerate(hidden):
        staged[place] = f"/mnt/{number}"
        os.mkdir(staged[place])
        mount(str(place), staged[place], None, _BIND | _RECURSIVE)
    return staged


def environment(folder: str = "/tmp") -> dict[str, str]:
    """Return the environment of a submission's process; `folder` is its own."""
    return {
        **{"PATH": "/usr/bin:/bin", "USER": "student", "LANG": "C.UTF-8", "TZ": "UTC"},
        **dict.fromkeys(("HOME", "MPLCONFIGDIR", "IPYTHONDIR"), folder),
        **{"MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1"},
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }


class _Child:
    """One sandbox, as the keeper sees it."""

    def __init__(self, limits: dict[str, int], channel: int, control: socket.socket) -> None:
        self.limits, self.control, self.why = limits, control, ""
        self.memory = limits["memory_mb"] * 2**20
        self.peak, self.used, self.until = 0, 0.0, time.monotonic() + _LONGEST
        self.wrap: subprocess.Popen[bytes] | None = None
        self.inside = self.entered = 0
        self.channel = channel
        self.spare, self.looked = _BURST, time.monotonic()  # what is left of the cores' time
        self.spent: dict[int, float] = {}

    def open(self, staged: dict[Path, str], fork: bool, notebook: Any) -> None:
        """Start bubblewrap, and in it the worker.

        Raises
        ------
        OSError
            The system refuses.
        """
        uid = user()
        if uid is None:
            self.limits["processes"] += counted_too(os.uname().release)
        status, status_end = os.pipe()
        ready, ready_end = os.pipe()
        as_user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        line = [*command(self.limits, staged), "--json-status-fd", str(status_end), "--"]
        if fork:
            line += ["sh", "-c", "echo ready; exec sleep 1000000 > /dev/null"]
        else:
            line += [sys.executable, "-m", "ppobook.course.worker", "socket", str(self.channel)]
            line.append(json.dumps(self.limits))
        kept = [status_end] if fork else [status_end, self.channel]
        self.wrap = subprocess.Popen(  # type: ignore[call-overload]
            line,
            env={},
            pass_fds=kept,
            stdin=subprocess.DEVNULL,
            stdout=ready_end,
            stderr=subprocess.PIPE,
            **as_user,
        )
        os.close(status_end)
        os.close(ready_end)
        with open(status, "rb"), open(ready, "rb"):
            status_line = _read_until(status, b"\n")
            if status_line:  # only now is everything mounted, and tied to the life of this process
                _read_until(ready, b"\n", 60.0)
        try:
            self.inside = int(json.loads(status_line.splitlines()[0])["child-pid"])
        except (ValueError, IndexError, KeyError):
            self.wrap.kill()
            _, said = self.wrap.communicate()
            raise OSError(said.decode(errors="replace").strip() or "bubblewrap didn't start") from None
        if fork:
            self._send_in(uid, notebook)

    def _send_in(self, uid: int | None, notebook: Any) -> None:
        ours, theirs = os.pipe()
        self.entered = os.fork()
        if self.entered:
            os.close(theirs)
            said = os.read(ours, 1000)
            os.close(ours)
            if said != b"in":
                raise OSError(said.decode() or "the sandbox couldn't be entered")
            return
        try:  # in the fork
            if uid is not None:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            _enter(self.inside)
            os.setsid()
            child = os.fork()
        except BaseException as error:
            os.write(theirs, f"{error}"[:900].encode())
            os._exit(1)
        if child:  # stays behind, so that somebody outside can say what was used
            os.write(theirs, b"in")
            os.closerange(0, 1 << 16)
            with contextlib.suppress(BaseException):
                _give_up()
                os.waitpid(child, 0)
            os._exit(0)
        try:
            os.setsid()
            os.dup2(self.channel, 3)
            os.closerange(4, 1 << 16)
            os.environ.clear()
            os.environ.update(environment())
            _give_up()
            from . import worker

            worker.begin(socket.socket(fileno=3), notebook, self.limits)
        finally:
            os._exit(1)

    def look(self) -> None:
        """Check that it has no more memory than it may, and does not live too long."""
        if self.why and time.monotonic() < self.until:
            return
        processes = self._processes()
        self._hold_back(processes)
        used = [(_memory(pid), pid) for pid in processes]
        total = sum(size for size, _ in used)
        if total > self.memory:  # forked processes share; a slower look counts that once
            total = sum(_shared_memory(pid, size) for size, pid in used)
        self.peak = max(self.peak, total)
        self._count()
        if total > self.memory:
            self.kill("memory")
        elif time.monotonic() > self.until:
            self.kill("time")

    def _hold_back(self, processes: list[int]) -> None:
        """Let processes stand still that have had more of the machine's cores than they may."""
        spent, now = {pid: _seconds(pid, waited_for=False) for pid in processes}, time.monotonic()
        more = sum(max(seconds - self.spent.get(pid, 0.0), 0.0) for pid, seconds in spent.items())
        left = self.spare + _CORES * (now - self.looked) - more
        stood, self.spare = self.spare < 0, min(left, _BURST)
        self.spent, self.looked = spent, now
        if stood or self.spare < 0:
            for pid in processes:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP if self.spare < 0 else signal.SIGCONT)

    def _processes(self) -> list[int]:
        found, left = [], [self.inside, self.entered]
        while left:
            pid = left.pop()
            left += _children(pid)
            if pid not in (self.inside, self.entered):
                found.append(pid)
        return found

    def kill(self, why: str) -> None:
        self.why = self.why or why
        self._count()
        with contextlib.suppress(OSError):
            if self.inside:
                os.kill(self.inside, signal.SIGKILL)
            elif self.wrap is not None:
                self.wrap.kill()

    def _count(self) -> None:
        """The seconds used so far, where nobody outside waits for the worker to end."""
        if self.inside and not self.entered:
            self.used = max(self.used, sum(map(_seconds, self._processes())))

    def end(self) -> dict[str, Any]:
        """End what the worker left running, and return what was used."""
        if not self.why:
            self.kill("ended")
        used = self.used
        for pid in filter(None, (self.entered, self.wrap.pid if self.wrap else 0)):
            with contextlib.suppress(ChildProcessError):
                usage = os.wait4(pid, 0)[2]
                used += usage.ru_utime + usage.ru_stime
        if self.wrap is not None:
            self.wrap.returncode = 0  # it has been waited for
            assert self.wrap.stderr is not None
            self.wrap.stderr.close()
        return {"event": "end", "why": self.why, "cpu": used, "peak_mb": self.peak / 2**20}

    @property
    def main(self) -> int:
        """The process whose end is the end of all."""
        assert self.wrap is not None
        return self.entered or self.wrap.pid


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    target = os.pidfd_open(pid)
    if libc.setns(target, _NAMESPACES) != 0:
        raise OSError(ctypes.get_errno(), "the namespaces of a sandbox can't be entered")
    os.close(target)
    os.chdir("/tmp")


def _give_up() -> None:
    """Drop every right that entering the namespaces gave."""
    libc = ctypes.CDLL(None, use_errno=True)
    for right in range(64):
        libc.prctl(_DROP_BOUND, right, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0 or libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "rights can't be given up")


def _read_until(descriptor: int, mark: bytes, seconds: float = 20.0) -> bytes:
    said, until = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while mark not in said and selector.select(max(until - time.monotonic(), 0)):
            more = os.read(descriptor, 4096)
            if not more:
                break
            said += more
    return said


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def _seconds(pid: int, *, waited_for: bool = True) -> float:
    """Return the usage of a process, with or without that of its children that were waited for."""
    with contextlib.suppress(OSError, ValueError):
        times = (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11 : 15 if waited_for else 13]
        )
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(resident) - int(shared)) * mmap.PAGESIZE
    return 0


def _shared_memory(pid: int, otherwise: int) -> int:
    """A process's share of the memory that it has together with others."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) * 1024
    except PermissionError:
        return otherwise
    except OSError:
        pass
    return 0  # it has just ended


def _receive(server: socket.socket) -> tuple[dict[str, int], int, socket.socket] | None:
    """A request: limits, the worker's end of the channel, and the control."""
    data, extra, *_ = server.recvmsg(65536, socket.CMSG_LEN(8))
    if not data:
        return None
    found = array.array("i")
    for _, _, part in extra:
        found.frombytes(part)
    channel, control = found
    return json.loads(data), channel, socket.socket(fileno=control)


def _tell(control: socket.socket, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(what).encode() + b"\n")


def main() -> None:
    """Make sandboxes until the grader hangs up."""
    server, fork = socket.socket(fileno=int(sys.argv[1])), sys.argv[2] == "fork"
    # Where memory runs out all the same, the system ends a sandbox, and none of its user's programs.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    staged = stage()
    notebook = _prepared() if fork else None
    server.send(b"ready")
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ)
    children: dict[int, _Child] = {}
    while True:
        for key, _ in selector.select(_WATCH if children else None):
            if key.fileobj is server:
                request = _receive(server)
                if request is None:
                    for child in children.values():
                        child.kill("ended")
                    return
                _start(selector, children, _Child(*request), staged, fork, notebook)
            elif isinstance(key.data, tuple) and key.data[1] in children:
                what, number = key.data
                child = children[number]
                if what == "control":
                    child.kill("closed")  # whatever came, or the end: it's over
                    selector.unregister(child.control)
                else:
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    del children[number]
                    with contextlib.suppress(KeyError, ValueError):
                        selector.unregister(child.control)
                    _tell(child.control, child.end())
                    child.control.close()
        for child in children.values():
            child.look()


def _start(
    selector: selectors.BaseSelector,
    children: dict[int, _Child],
    child: _Child,
    staged: dict[Path, str],
    fork: bool,
    notebook: Any,
) -> None:
    try:
        child.open(staged, fork, notebook)
        watch = os.pidfd_open(child.main)
    except OSError as error:
        child.kill("refused")
        with contextlib.suppress(Exception):
            child.end()
        _tell(child.control, {"event": "refused", "why": str(error)})
        child.control.close()
        return
    finally:
        os.close(child.channel)
    number = child.main
    children[number] = child
    selector.register(watch, selectors.EVENT_READ, ("end", number))
    selector.register(child.control, selectors.EVENT_READ, ("control", number))
    _tell(child.control, {"event": "started"})


def _prepared() -> Any:
    """Import the modules that notebooks import, and return an empty notebook."""
    for name in (
        *("gymnasium", "pandas", "scipy.stats", "matplotlib.pyplot", "matplotlib_inline", "tqdm"),
        *("ppobook.envs", "ppobook.objectives", "ppobook.teaching.checks.beside.descent"),
        "torch.fx.experimental.symbolic_shapes",  # with sympy; the first torch.autograd.grad would import it
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from .worker import Notebook

    notebook = Notebook()
    notebook.run("import numpy as np, torch\nnp.ones(2).sum()", 60.0)
    notebook.shell.reset(new_session=False)
    gc.collect()
    gc.freeze()
    return notebook


if __name__ == "__main__":
    main()
