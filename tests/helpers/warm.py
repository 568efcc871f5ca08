"""Python in a process of its own that has imported torch already: what a user's shell does, without the wait.

One process a worker imports the libraries and then forks for each command, so that a command shares nothing
with the tests or with other commands. What importing costs or brings in needs a fresh interpreter instead.
"""

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SERVER = """
import json, os, runpy, sys, traceback
import gymnasium.envs.classic_control, numpy, pandas, scipy.signal, scipy.special, torch, tyro, yaml
import ppobook.cli.main, ppobook.training, ppobook.vanilla, ppobook.trpo, ppobook.ppo
import ppobook.language.training, ppobook.fast
torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()
for line in sys.stdin:
    words, folder, environment, out = json.loads(line)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(folder)
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(os.path.join(out, name), os.O_WRONLY | os.O_CREAT), number)
            os.environ.clear()
            os.environ.update(environment)
            sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
            # As the interpreter: the folder of a script is on the path.
            sys.argv = words[1:] if words[0] == "-m" else words
            if words[0] == "-m":
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, folder)
                runpy.run_path(words[0], run_name="__main__")
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@functools.cache
def _server():
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    pipe = subprocess.PIPE
    server = subprocess.Popen([sys.executable, "-P", "-c", SERVER], stdin=pipe, stdout=pipe, text=True)

    @atexit.register
    def end():
        server.stdin.close()
        server.wait()

    return server


class Process:
    """A process that runs: its `pid`, and its `returncode` once it has ended."""

    def __init__(self, request):
        self.server, self.returncode = _server(), None
        print(json.dumps(request), file=self.server.stdin, flush=True)
        self.pid = int(self.server.stdout.readline())

    def wait(self):
        if self.returncode is None:
            self.returncode = int(self.server.stdout.readline())
        return self.returncode

    def kill(self):
        """kill -9; returns the exit code, minus the number of a signal."""
        if self.returncode is None:
            # One that has ended is waited for by the server, and may be gone.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.wait()


@contextlib.contextmanager
def started(*words, cwd, out=None, **environment):
    """The `Process` of ``python -P WORDS`` in a folder; what still runs at the end is killed.

    The words are ``-m MODULE …`` or a script of the folder; the further arguments are environment variables.
    Files in the folder `out` have what it prints.
    """
    with tempfile.TemporaryDirectory() as own:
        process = Process([list(words), str(cwd), {**os.environ, **environment}, str(out or own)])
        try:
            yield process
        finally:
            process.kill()


def python(*words, cwd, **environment):
    """Run such a process, and return what `subprocess.run` would: `stdout`, `stderr` and `returncode`."""
    with tempfile.TemporaryDirectory() as out, started(*words, cwd=cwd, out=out, **environment) as process:
        code = process.wait()
        said = (Path(out, name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(words, code, *said)
