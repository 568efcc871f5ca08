"""The program inside the sandbox: it runs a notebook's cells, then the student's functions, call by call.

Nothing here is trusted: a student's code can change all of it. It holds no key, no number that isn't on its
way to the student's function anyway, and what it says is judged on the other side.
"""

from __future__ import annotations

import builtins
import collections.abc
import contextlib
import functools
import importlib
import io
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from traitlets.config import Config

from ppobook.teaching import checks

from . import syscalls
from .channel import Side, SideReader, SideWriter, renamed
from .inert import Malformed
from .limits import Ended
from .remote import MODULES, base_of

__all__ = ["Notebook", "Worker"]


class _TooSlow(BaseException):
    """Raised by the clock in a cell that takes too long."""


class _Quiet(io.TextIOBase):
    """The output stream of a cell, with a limited size."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.dropped = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.left -= len(text)
        self.dropped |= self.left < 0
        return len(text)


class _Shell(InteractiveShell):
    """Runs cells and prints no tracebacks. What was raised is reported, and nobody reads what was printed."""

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        pass

    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
        pass

    @contextlib.contextmanager
    def _tee(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        yield  # IPython would keep a copy of all that is printed


class Notebook:
    """A notebook that is being run. It is made before anything of a student's is there."""

    def __init__(self) -> None:
        settings = Config()
        settings.HistoryManager.enabled = False
        self.shell = _Shell.instance(config=settings)
        # A reader's test cells print a verdict; here it is the grader who decides.
        checks.check = lambda name, answer: None

    def run(self, source: str, seconds: float) -> BaseException | None:
        """Run one cell; what it raised comes back."""
        with _clock(seconds):
            try:
                found = self.shell.run_cell(source, store_history=False)
            except BaseException as stopped:
                return stopped
        error = found.error_before_exec or found.error_in_exec
        frames = traceback.extract_tb(None if error is None else error.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith("<ipython-input")]
        if own:
            error.in_cell = own[-1].lineno, (own[-1].line or "").strip()
        return error

    def value(self, expression: str) -> Any:
        return eval(expression, self.shell.user_ns)


@contextlib.contextmanager
def _clock(seconds: float) -> Iterator[None]:
    """Interrupts what takes too long, and again each half second, for what swallows every exception.

    Windows has no such clock; there the grader ends the process when the time is up.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise _TooSlow(f"it was still running after {seconds:g} seconds")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _Lent:
    """An object that stays with the grader: what is asked of it is asked there."""

    def __init__(self, worker: Worker, number: int, name: str) -> None:
        vars(self).update(_worker=worker, _number=number, _kind=name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._worker.ask(["get", self._number, name])

    def __repr__(self) -> str:
        return f"<{self._kind}>"

    def __deepcopy__(self, memo: Any) -> _Lent:
        return self


class _LentFunction(_Lent):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._worker.ask(["call", self._number], args, kwargs)


class Worker(Side):
    """The submission's end of the channel."""

    sign, keeps = -1, True

    def __init__(self, connection: Any, notebook: Notebook) -> None:
        super().__init__(connection)
        self.notebook, self._process = notebook, os.getpid()
        self._given: dict[int, Any] = {}
        self._sources: dict[int, dict[int, Any]] = {}  # what the call was given that a function came out of

    def serve(self) -> None:
        """Answer until the grader hangs up."""
        while True:
            self.answer(self.reader(self.receive()))

    def send(self, data: bytes) -> None:
        if os.getpid() != self._process:  # a fork of a cell that went on as if it were the notebook
            os._exit(0)
        super().send(data)

    def do(self, verb: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any], reader: SideReader) -> Any:
        match verb:
            case ["cell", source, seconds]:
                error = self.notebook.run(source, seconds)
                return None if error is None else self._told(error)
            case ["name", expression]:
                return self.notebook.value(expression)
            case ["beside", number, path, name]:
                return _find(path)(checks.Answer(name, self.lent[number]), *args, **kwargs)
            case ["call", number, numbers]:
                for n, new in zip(numbers, args, strict=False):
                    with torch.no_grad():
                        self._sources[number][n][...] = new
                args, self._given = args[len(numbers) :], reader.read
                try:
                    return self.lent[number](*args, **kwargs)
                except BaseException as error:
                    _note_line(error, self.lent[number])
                    raise
        return super().do(verb, args, kwargs, reader)

    # --- how values are written

    def write_other(self, writer: SideWriter, value: Any) -> Any:
        if isinstance(value, _Lent):
            return ["yours", value._number]
        if isinstance(value, nn.Module):
            return self._module(writer, value)
        if callable(value):
            return self._function(value, getattr(value, "__name__", type(value).__name__))
        if isinstance(value, collections.abc.Iterator):
            return ["iterator", [writer.node(entry) for _, entry in zip(range(10_000), value, strict=False)]]
        if isinstance(value, collections.abc.Mapping):
            return writer.node(dict(value))
        if isinstance(value, collections.abc.Sequence | collections.abc.Set | collections.abc.ValuesView):
            return writer.node(list(value))
        if hasattr(value, "__array__"):
            found = np.asarray(value)
            return writer.node(found) if type(found) is np.ndarray else ["opaque", type(value).__name__]
        if hasattr(value, "__float__"):
            return float(value)
        return ["opaque", type(value).__name__]

    def _function(self, value: Any, name: Any) -> list[Any]:
        number = self.lend(value)
        self._sources.setdefault(number, self._given)
        return ["function", number, str(name)]

    def _module(self, writer: SideWriter, value: nn.Module) -> Any:
        kind = type(value)
        own = kind.__module__.startswith("torch.nn.modules.") and kind.__name__ in MODULES
        if own and "forward" not in vars(value) and not value._forward_hooks and not value._forward_pre_hooks:
            settings = [
                [key, writer.node(entry)]
                for key, entry in vars(value).items()
                if key != "training"
                and not key.startswith("_")
                and not hasattr(kind, key)
                and isinstance(entry, bool | int | float | str | tuple)
            ]
            tables = [
                [[key, writer.node(entry)] for key, entry in table.items()]
                for table in (value._parameters, value._buffers, value._modules)
            ]
            return ["module", writer.numbered(value), kind.__name__, value.training, *tables, settings]

        def forward(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
            return torch.func.functional_call(value, parameters, args, kwargs)

        parameters = [[key, writer.node(entry)] for key, entry in value.named_parameters()]
        return ["network", self._function(forward, "forward"), kind.__name__, parameters]

    def described(self, writer: SideWriter, error: BaseException) -> dict[str, Any]:
        finding: Any = None
        if isinstance(error, checks.Mistake):
            finding = ["mistake", error.name, error.section, writer.node(dict(error.values))]
        elif isinstance(error, checks.Stop):
            finding = ["stop", error.kind, error.name, list(error.paragraphs)]
        return {**self._told(error), "lent": getattr(error, "lent_number", None), "finding": finding}

    @staticmethod
    def _told(error: BaseException) -> dict[str, Any]:
        line = getattr(error, "in_cell", None)
        return {"type": type(error).__name__, "base": base_of(error), "message": _text(error), "line": line}

    # --- and read

    def read_other(self, reader: SideReader, kind: str, rest: list[Any]) -> Any:
        match kind, rest:
            case "function", (number, name):
                return self._proxy(_LentFunction, number, name)
            case "lent", (number, name, is_function):
                return self._proxy(_LentFunction if is_function else _Lent, number, name)
            case "yours", (number,):
                return self.lent[number]
            case "enum", (path, name):
                return _find(path)[name]
            case "class", (path,):
                return _find(path)
            case "named", (path, entries):
                return _find(path)(*[reader.value(entry) for entry in entries])
            case "partial", (function, args, kwargs):
                return functools.partial(reader.value(function), *reader.value(args), **reader.value(kwargs))
            case "method", (owner, name):
                return getattr(reader.value(owner), name)
            case "built", (number, path, content):
                found = _find(path)
                made = reader.keep(number, found.__new__(found))
                vars(made).update({key: reader.value(node) for key, node in content})
                return made
        raise Malformed(f"a node can't be of the kind {kind[:20]!r}")

    def _proxy(self, kind: type[_Lent], number: int, name: str) -> _Lent:
        if number not in self.proxies:
            self.proxies[number] = kind(self, number, name)
        return self.proxies[number]

    def exception(self, reader: SideReader, described: Any) -> BaseException:
        base = getattr(builtins, described["base"], Exception)
        return renamed(described["type"], base, described["message"], lent_number=described["lent"])


def _find(path: str) -> Any:
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)[:20_000]
    except BaseException:
        return ""


def _note_line(error: BaseException, function: Any) -> None:
    """Write the line of the student's cell to the exception."""
    found = checks.line_of(error, function)
    if found is not None:
        with contextlib.suppress(Exception):
            error.in_cell = found  # type: ignore[attr-defined]


def main() -> None:
    """Serve one submission.

    `ppobook.course.keeper` starts this where it can't fork, with a socket; `ppobook.course.unprotected` where
    there is no sandbox, with a port of this machine and, as its input, what opens it.
    """
    how, number, limits = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    notebook = Notebook()
    if how == "port":
        connection = socket.create_connection(("127.0.0.1", number))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(sys.stdin.buffer.read())
    else:
        connection = socket.socket(fileno=number)
        os.write(1, b"ready\n")
    begin(connection, notebook, limits, sandboxed=how == "socket")


def _bind(limits: dict[str, int], sandboxed: bool) -> None:
    """Set the limits of this process."""
    if not sandboxed and sys.platform == "win32":  # which has none
        return
    import resource

    memory, disk = limits["memory_mb"] * 2**20, limits["disk_mb"] * 2**20
    most = {resource.RLIMIT_DATA: memory, resource.RLIMIT_FSIZE: disk, resource.RLIMIT_NOFILE: 256}
    most |= {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: 3600}
    if sandboxed:
        most[resource.RLIMIT_NPROC] = limits["processes"]
    for what, value in most.items():
        # Outside of a sandbox a system may have lower limits, or refuse one.
        with contextlib.nullcontext() if sandboxed else contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (value, value))
    if sandboxed:
        syscalls.refuse()


def begin(
    connection: socket.socket, notebook: Notebook, limits: dict[str, int], *, sandboxed: bool = True
) -> None:
    """Bind this process to its limits, and serve until the grader hangs up."""
    _bind(limits, sandboxed)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    quiet: Any = _Quiet(1024 * limits["output_kb"])
    for stream in ("stdout", "stderr", "__stdout__", "__stderr__"):
        setattr(sys, stream, quiet)
    with contextlib.suppress(Ended):
        Worker(connection, notebook).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
