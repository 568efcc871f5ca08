"""Sandboxes for submissions, from the grader's side: whether there can be any, how one is opened and closed.

    with Server() as server, server.start(Limits()) as sandbox:
        grader = Grader(sandbox)

In a sandbox a process has no network, no files but the libraries (to read) and its own small folder, no
rights, another user's identity, and so much memory, disk, processes and time as `Limits` says. When the
grader ends, in whatever way, its sandboxes end.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from . import keeper
from .limits import Ended, Limits

__all__ = ["Limits", "NoSandbox", "Sandbox", "Server", "Usage", "available", "seen"]


# Systems without bubblewrap, where one would look for another word.
ELSEWHERE = {
    "darwin": "macOS",
    "win32": "Windows (outside of WSL)",
}
PROC_SYS = Path("/proc/sys")
# A system's setting, the value with which bubblewrap can't do its work, and what to do.
REFUSING = (
    (
        "kernel.apparmor_restrict_unprivileged_userns",
        "1",
        "allow it with the AppArmor profile that the guide shows at “Where bubblewrap is refused”, or until "
        "the next start with sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "kernel.unprivileged_userns_clone",
        "0",
        "allow it with sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    ("user.max_user_namespaces", "0", "allow it with sudo sysctl -w user.max_user_namespaces=10000"),
)


class NoSandbox(RuntimeError):  # noqa: N818
    """A sandbox can't be made here; the message says why."""


@dataclass(frozen=True)
class Usage:
    """Resources that a sandbox has used: CPU seconds, and the most memory at once."""

    cpu: float = 0.0
    peak_mb: float = 0.0


def available() -> str | None:
    """Why there can be no sandbox here; None where there can."""
    if not sys.platform.startswith("linux"):
        return f"{ELSEWHERE.get(sys.platform, 'this system')} has no bubblewrap, which needs Linux."
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing: install it (Debian, Ubuntu: sudo apt install bubblewrap)."
    # In a process of its own, because root's libraries may have to be mounted for it.
    line = [sys.executable, "-c", "from ppobook.course import keeper; print(keeper.tried())"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd="/", env=_environment())
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if not said:
        return None
    for setting, refuses, do in REFUSING:
        with contextlib.suppress(OSError):
            if (PROC_SYS / setting.replace(".", "/")).read_text().strip() == refuses:
                return f"this system lets bubblewrap make no namespaces ({said[-1]}): {do}."
    return f"bubblewrap doesn't start a sandbox here: {said[-1]}"


def seen(folder: Path) -> str | None:
    """Why submissions could read a folder all the same; None where they can't."""
    here = folder.resolve()
    for place in (Path("/usr"), *keeper.libraries()):
        if here.is_relative_to(place.resolve()):
            return (
                f"the course's folder must lie outside of {place}, where Python's packages are and which "
                f"every submission can read, got {folder}"
            )
    return None


class Sandbox:
    """One sandbox. `connection` is the grader's end of the channel to the worker in it."""

    def __init__(self, connection: socket.socket, control: socket.socket) -> None:
        self.connection, self._control = connection, control
        self._said = b""
        self._usage: Usage | None = None
        self._why = ""

    def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def why(self, ended: Ended) -> Ended:
        """Explain as far as known why the worker doesn't answer."""
        if ended.reason == "ended":
            self.close()
            if self._why == "memory":
                return Ended("memory", "it needed more memory than it may have")
        return ended

    def close(self) -> Usage:
        """End it, and what it has used."""
        if self._usage is None:
            self.kill()
            said = self.hear(10.0) or {}
            self._usage = Usage(float(said.get("cpu", 0.0)), float(said.get("peak_mb", 0.0)))
            self._why = str(said.get("why", ""))
            self._control.close()
            self.connection.close()
        return self._usage

    def hear(self, seconds: float) -> dict[str, Any] | None:
        """The next thing that the keeper says of it."""
        self._control.settimeout(seconds)
        with contextlib.suppress(OSError):
            while b"\n" not in self._said:
                more = self._control.recv(4096)
                if not more:
                    return None
                self._said += more
            line, _, self._said = self._said.partition(b"\n")
            return json.loads(line)
        return None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


class Server:
    """Makes sandboxes. The process behind it is started with the first, and again if it was killed.

    Parameters
    ----------
    fork : bool
        False starts a Python for each submission, which costs the seconds of its imports; it is what happens
        anyway where the system doesn't let a process enter another's namespaces.
    """

    def __init__(self, *, fork: bool = True) -> None:
        self.fork = fork
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self, limits: Limits | None = None) -> Sandbox:
        """Open a sandbox.

        Raises
        ------
        NoSandbox
            None can be made.
        """
        for _ in range(2):
            sandbox = self._open(limits or Limits())
            said = sandbox.hear(60.0)
            if said is not None and said.get("event") == "started":
                return sandbox
            sandbox.connection.close()
            if said is None:
                self.close()  # the keeper was killed; another will do
            elif self.fork:
                self.close()
                self.fork = False
            else:
                raise NoSandbox(f"a sandbox can't be made: {said.get('why')}")
        raise NoSandbox("a sandbox can't be made: the process that makes them doesn't answer")

    def _open(self, limits: Limits) -> Sandbox:
        if self._process is None or self._process.poll() is not None:
            self._begin()
        ours, channel = socket.socketpair()
        control, other_end = socket.socketpair()
        assert self._socket is not None
        handed = array.array("i", [channel.fileno(), other_end.fileno()])
        request = json.dumps(asdict(limits)).encode()
        with channel, other_end, contextlib.suppress(OSError):
            self._socket.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
        return Sandbox(ours, control)

    def _begin(self) -> None:
        self.close()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line = [sys.executable, "-m", "ppobook.course.keeper", str(theirs.fileno())]
        line.append("fork" if self.fork else "each")
        quiet = subprocess.DEVNULL
        with theirs:
            self._process = subprocess.Popen(
                line, pass_fds=[theirs.fileno()], stdin=quiet, stdout=quiet, cwd="/", env=_environment()
            )
        self._socket.settimeout(120.0)
        try:
            ready = self._socket.recv(100)
        except OSError:
            ready = b""
        if ready != b"ready":
            raise NoSandbox("the process that makes sandboxes didn't start")

    def close(self) -> None:
        """End the process that makes sandboxes, and with it all of them."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5.0)
            self._process.kill()
            self._process.wait()
        self._process = self._socket = None

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """The keeper's own environment: nothing of the grader's that a fork could read."""
    kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    return keeper.environment() | kept
