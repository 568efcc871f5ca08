"""Submissions without a sandbox, where there can be none and the instructor trusts every student.

    with Unprotected() as server, server.start(Limits()) as process:
        grader = Grader(process)

The student's code runs in a process of its own, by the same channel and in the same inert format as in a
sandbox, and is judged outside of it. So a wrong answer is a wrong answer here too. But that process is the
instructor's: it can read and change what they can, and it has a network. Limits on memory, files and time
hold where the system has them; one on processes would count all of the instructor's, so there is none.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict

from . import keeper
from .sandbox import Limits, NoSandbox, Sandbox, Usage

__all__ = ["Unprotected"]

_START = 120.0  # seconds that a process has for its imports
_TOKEN = 32  # bytes by which a process shows that it is the one that was started
_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class _Process(Sandbox):
    """One submission's process, in a folder of its own that ends with it."""

    def __init__(
        self,
        connection: socket.socket,
        process: subprocess.Popen[bytes],
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        self.connection, self._process, self._folder = connection, process, folder
        self._usage: Usage | None = None
        self._why = ""

    def kill(self) -> None:
        _kill(self._process)

    def close(self) -> Usage:
        if self._usage is None:
            self.kill()
            self._usage = _waited(self._process)
            self.connection.close()
            self._folder.cleanup()
        return self._usage


class Unprotected:
    """Starts a Python for each submission, on every system that has one."""

    def start(self, limits: Limits | None = None) -> Sandbox:
        """Start a process for a submission.

        Raises
        ------
        NoSandbox
            It doesn't start.
        """
        folder = tempfile.TemporaryDirectory(prefix="submission-", ignore_cleanup_errors=True)
        token = secrets.token_bytes(_TOKEN)
        # A socket on this machine, because not every system lets a process inherit one.
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port, most = listening.getsockname()[1], json.dumps(asdict(limits or Limits()))
            line = [sys.executable, "-m", "ppobook.course.worker", "port", str(port), most]
            environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
            environment = keeper.environment(folder.name) | environment
            environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP", "USERPROFILE"), folder.name)
            process = subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd=folder.name,
                env=environment,
                start_new_session=True,
            )
            assert process.stdin is not None
            # Closing the pipe also writes, and raises where the process has already ended.
            with contextlib.suppress(OSError), process.stdin:
                process.stdin.write(token)
            connection = _accepted(listening, process, token)
        if connection is None:
            _kill(process)
            _waited(process)
            folder.cleanup()
            raise NoSandbox("the process of a submission doesn't start")
        return _Process(connection, process, folder)

    def __enter__(self) -> Unprotected:
        return self

    def __exit__(self, *_: object) -> None:
        """Each process ends with its submission; there is nothing else."""


def _accepted(
    listening: socket.socket, process: subprocess.Popen[bytes], token: bytes
) -> socket.socket | None:
    """The connection of the process that has the token; None if it doesn't come."""
    listening.settimeout(0.5)
    until = time.monotonic() + _START
    while time.monotonic() < until:
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            if process.poll() is not None:
                break
            continue
        connection.settimeout(5.0)
        with contextlib.suppress(OSError):
            if hmac.compare_digest(connection.recv(_TOKEN, socket.MSG_WAITALL), token):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(None)
                return connection
        connection.close()
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process, and with it what it has started, as far as the system knows of it."""
    if process.returncode is not None:
        return
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _waited(process: subprocess.Popen[bytes]) -> Usage:
    """Wait for a process that was ended; what it has used, where the system says so."""
    if process.returncode is not None or not hasattr(os, "wait4"):
        process.wait()
        return Usage()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return Usage(used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 2**20)
