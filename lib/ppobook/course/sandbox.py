"""The process of one submission, in a sandbox of bubblewrap's.

    with Sandbox(Limits()) as sandbox:
        grader = Grader(sandbox)

In a sandbox a process has no network, no rights, another user's identity, no files but the libraries (to
read) and its own small folder, and so much memory, disk, processes and time as `Limits` says. The limits
and the filter of system calls hold for bubblewrap's own processes too. A sandbox ends with its grader.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import syscalls

READY = b"ready"  # what a student's process says when it can be asked
_START = 300.0  # seconds that a process has for its imports
_WATCH = 0.1  # seconds between two looks at a process
_OPEN_FILES = 128
# Of the checks' folder, what can be read inside. The rest holds slow definitions, which are solutions.
_CHECKS = Path("teaching", "checks")
_SHOWN = ("__init__.py", "findings.py", "beside")


# By the reason, what a reader is told.
_WORDS = {
    "time": "it was still running when the time was up",
    "memory": "it needed more memory than it may have",
    "ended": "it ended the process that it ran in",
    "forged": "what its process sent back was no answer",
}


@dataclass(frozen=True)
class Limits:
    """The resources that a submission may use.

    seconds is for a check and cell_seconds for a cell; the others are for the submission as a whole, of whose
    time all cells together have one half.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - for `ppobook.course.settings`

    seconds: float = 20
    cell_seconds: float = 60
    submission_seconds: float = 1800
    memory_mb: int = 2048
    disk_mb: int = 256
    processes: int = 64


class Ended(BaseException):
    """The other process doesn't answer any more, or not in this form. No `except Exception` swallows it.

    reason is "time", "ended", "memory" or "forged"; the words are for a reader.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(_WORDS[reason])
        self.reason, self.words = reason, _WORDS[reason]


class NoSandbox(RuntimeError):  # noqa: N818
    """A sandbox can't be made here; the message says why."""


def available() -> str | None:
    """Return why there can be no sandbox here; None where there can."""
    try:
        said = _tried(_grouped(Limits()))
    except (OSError, KeyError, AttributeError) as error:  # no bubblewrap, another machine, another system
        said = f"{type(error).__name__}: {error}"
    return said and (
        f"bubblewrap doesn't start a sandbox here ({said}); the guide says at “If you do not have "
        "bubblewrap” and “If the system refuses bubblewrap” what this system needs"
    )


def readable(folder: Path) -> str | None:
    """Return why submissions could read a folder all the same; None where they can't."""
    here = folder.resolve()
    for place in (Path("/usr"), *libraries()):
        if here.is_relative_to(place.resolve()):
            return (
                f"the course's folder must lie outside of {place}, where Python's packages are and which "
                f"every submission can read, got {folder}"
            )
    return None


class Sandbox:
    """The process of one submission. It reads from `writes`, and what it says can be read from `reads`.

    At the time `deadline` it is ended, whatever it does. Where it doesn't start, it raises NoSandbox.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.deadline = time.monotonic() + _START
        self.reason = ""  # why it was ended, as far as is known
        # What is imported stays, so that looking for garbage meanwhile is a tenth of the time for nothing.
        worker = ["-c", "import gc; gc.disable(); from ppobook.course import worker; worker.main()"]
        self._process = _started(_grouped(self.limits), self.limits, worker, start_new_session=True)
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self.reads, self.writes = self._process.stdout, self._process.stdin
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        if self.reads.read(len(READY)) != READY:
            self.kill()
            said = self._process.stderr.read(2000).decode(errors="replace").strip()  # type: ignore[union-attr]
            self.close()
            raise NoSandbox(f"a sandbox can't be made: {said[-200:]}")

    def _watch(self) -> None:
        """Look at the process tree until it ends: its memory and its time."""
        while not self._ended.wait(_WATCH):
            if self._too_much():
                self.reason = "memory"
            elif time.monotonic() > self.deadline:
                self.reason = "time"
            if self.reason:
                return self.kill()

    def _too_much(self) -> bool:
        """Return whether the processes use too much memory that is no file's."""
        tree = [self._process.pid]
        for pid in tree:
            with contextlib.suppress(OSError, ValueError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    with contextlib.suppress(OSError, ValueError):  # it has just ended
                        tree += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        most = self.limits.memory_mb * 2**20
        # Nearly always the quick count, which takes what forks share for each of them, is enough.
        return all(sum(_memory(pid, exact) for pid in tree) > most for exact in (False, True))

    def kill(self) -> None:
        """End it now, and all that it has started."""
        self._ended.set()
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        if self._process.returncode is None:
            self._watcher.join()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()  # type: ignore[union-attr]

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- what is started ----------------------------------------------------------------------------------------


def command(limits: Limits, filter_number: int) -> list[str]:
    """The command line of a sandbox, less what is to be run: what can be seen inside, and that is all."""
    # By its path, for it is started without an environment: its own can be read inside, in /proc/1.
    line = [*_as_another_user(), _program("env"), "-i", *_bound(limits)]
    line += [_program("bwrap"), "--seccomp", str(filter_number)]
    line += ["--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session"]
    line += ["--uid", "65534", "--gid", "65534"]
    line += ["--hostname", "sandbox", "--clearenv", "--ro-bind", "/usr", "/usr"]
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
    line += ["--size", str(limits.disk_mb * 2**20), "--tmpfs", "/tmp"]
    for place in libraries():  # perhaps below /tmp
        line += ["--ro-bind", str(place), str(place)]
    checks = _package() / _CHECKS
    line += ["--size", str(2**20), "--tmpfs", str(checks)]
    for name in _SHOWN:
        line += ["--ro-bind", str(checks / name), str(checks / name)]
    line += ["--remount-ro", str(checks), "--size", str(2**20), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    line += ["--remount-ro", "/", "--chdir", "/tmp"]
    environment = {
        **{"PATH": "/usr/bin:/bin", "USER": "student", "LANG": "C.UTF-8", "TZ": "UTC"},
        **dict.fromkeys(("HOME", "MPLCONFIGDIR", "IPYTHONDIR"), "/tmp"),
        **{"MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(_package().parent)},
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    }
    for key, value in environment.items():
        line += ["--setenv", key, value]
    return [*line, "--"]


@functools.cache
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


def _program(name: str) -> str:
    return shutil.which(name) or name


def _bound(limits: Limits) -> list[str]:
    """Limits that hold for what is started by the rest of the line, and for all that this starts."""
    line = [_program("prlimit"), f"--data={limits.memory_mb * 2**20}", f"--fsize={limits.disk_mb * 2**20}"]
    line += [f"--nofile={_OPEN_FILES}", "--core=0", "--msgqueue=0", "--memlock=0", "--cpu=3600"]
    # The system adds up all that are of one user; root's are not counted.
    others = _threads()[os.getuid()] if os.getuid() else 0
    return [*line, f"--nproc={others + limits.processes}"]


def _threads() -> Counter[int]:
    """Count processes and threads by user."""
    found: Counter[int] = Counter()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            found[process.stat().st_uid] += len(os.listdir(process / "task"))
    return found


def _as_another_user() -> list[str]:
    """For root, a line that runs the rest as a user of its own, who can reach the libraries below /root too.

    A system counts processes by their user, and root's not at all.
    """
    if os.getuid() != 0:
        return []
    uid = str(secrets.choice([*set(range(64_200, 65_500)) - _threads().keys()]))
    line = [_program("bwrap"), "--die-with-parent", "--dev-bind", "/", "/"]
    line += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    for place in libraries():
        above = [*place.parents][::-1]
        closed = next((n for n, folder in enumerate(above) if not folder.stat().st_mode & 1), len(above))
        for n, folder in enumerate(above[closed:]):
            line += ["--tmpfs", str(folder)] if n == 0 and str(folder) not in line else []
            line += ["--perms", "0755", "--dir", str(folder)] if n else []
        line += ["--ro-bind", str(place), str(place)] if closed < len(above) else []
    return [*line, "--", _program("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]


@functools.cache
def _grouped(limits: Limits) -> tuple[str, ...]:
    """The beginning of a line that starts the rest in a control group with limits, where there can be one."""
    line = [_program("systemd-run"), "--scope", "--quiet", "--collect", *(["--user"] if os.getuid() else [])]
    most = {"MemoryMax": f"{limits.memory_mb}M", "MemorySwapMax": "0", "TasksMax": str(limits.processes + 8)}
    line += [f"--property={key}={value}" for key, value in most.items()] + ["--property=CPUQuota=120%", "--"]
    return tuple(line) if shutil.which("systemd-run") and _tried(line) is None else ()


def _tried(line: Sequence[str]) -> str | None:
    """Return the error of a line that can't start Python in a sandbox; None where it can."""
    process = _started(line, Limits(), ["-c", "import json"])
    said = process.communicate()[1].decode(errors="replace").strip()
    return (said.splitlines() or ["it says nothing"])[-1] if process.returncode else None


def _started(
    line: Sequence[str], limits: Limits, words: list[str], **options: Any
) -> subprocess.Popen[bytes]:
    """Python with these words, in a sandbox that `line` starts."""
    with tempfile.TemporaryFile() as calls:  # from which bubblewrap reads the filter of system calls
        calls.write(syscalls.program(os.uname().machine))
        calls.seek(0)
        whole = [*line, *command(limits, calls.fileno()), sys.executable, *words]
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # The environment by which systemd is reached; `env -i` takes it away again.
        session = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
        environ = {key: os.environ[key] for key in session if key in os.environ}
        return subprocess.Popen(whole, env=environ, pass_fds=[calls.fileno()], **pipes, **options)


# --- what it uses -------------------------------------------------------------------------------------------


def _memory(pid: int, exact: bool) -> int:
    """A process's memory that is no file's, and its page tables; `exact` counts shared pages by its share."""
    with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        counted = ["VmPTE:", "RssAnon:", "RssShmem:"]
        if exact:
            with contextlib.suppress(PermissionError):
                lines += Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                counted = ["VmPTE:", "Pss_Anon:", "Pss_Shmem:"]
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(tuple(counted)))
    return 0
