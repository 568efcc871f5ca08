"""The program inside the sandbox: it runs a notebook's cells, then the student's functions, call by call.

Nothing here is trusted: a student's code can change all of it. It holds no key, no number that isn't on its
way to the student's function anyway, and what it says is judged on the other side.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import gc
import os
import pickle
import random
import signal
import traceback
from collections import ChainMap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from traitlets.config import Config

import ppobook.envs  # noqa: F401 - its environments can be made by their ids
from ppobook.teaching import checks

from .channel import Side, raised_as
from .sandbox import READY, Ended
from .serialization import Attach, Reader, Writer

# Nodes of objects that may be here already.
_CHANGING = (
    *("list", "dict", "array", "tensor", "parameter", "object"),
    *("numpy generator", "torch generator"),
)


class _TooSlow(BaseException):
    """Raised by the clock in a cell that takes too long."""


class _Shell(InteractiveShell):
    """Runs cells and prints no tracebacks. What was raised is reported, and nobody reads what was printed."""

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        pass

    showsyntaxerror = showtraceback

    @contextlib.contextmanager
    def _tee(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        yield  # IPython would keep a copy of all that is printed


class Notebook:
    """A notebook that is being run. It is made before anything of a student's is there."""

    def __init__(self) -> None:
        settings = Config()
        settings.HistoryManager.enabled = False
        self.shell = _Shell.instance(config=settings)
        nothing = dict.fromkeys(("matplotlib", "pylab", "gui", "config"), lambda line: None)
        self.shell.magics_manager.magics["line"].update(nothing)  # nobody sees a figure
        # A reader's test cells print a verdict; here it is the grader who decides.
        checks.check = lambda name, answer: None

    def run(self, source: str, seconds: float) -> BaseException | None:
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
    """Interrupts what takes too long, and again each half second, for what swallows every exception."""

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
        return self._worker.ask(("get", self._number, name))

    def __repr__(self) -> str:
        return f"<{self._kind}>"

    def __deepcopy__(self, memo: Any) -> _Lent:
        return self


class _LentFunction(_Lent):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._worker.ask(("call", self._number), args, kwargs)


class Worker(Side):
    """The submission's end of the channel."""

    def __init__(self, reads: Any, writes: Any, notebook: Notebook) -> None:
        super().__init__(reads, writes)
        self.writer, self.reader = partial(_Writer, self), partial(_Reader, self)
        self.notebook, self._process = notebook, os.getpid()
        self.proxies: dict[int, _Lent] = {}

    def send(self, kind: bytes, message: Any) -> None:
        if os.getpid() != self._process:  # a fork of a cell that went on as if it were the notebook
            os._exit(0)
        super().send(kind, message)

    def do(self, verb: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        match verb:
            case ("cell", source, seconds):
                error = self.notebook.run(source, seconds)
                return None if error is None else self.described(error)
            case ("name", expression):
                self.objects.clear()
                self._graphs.clear()
                return self.notebook.value(expression)
            case ("beside", number, name):
                companion, *args = args
                return companion(checks.Answer(name, self.lent[number]), *args, **kwargs)
            case ("call", number):
                try:
                    return self.lent[number](*args, **kwargs)
                except BaseException as error:
                    with contextlib.suppress(Exception):
                        error.in_cell = checks.line_of(error, self.lent[number])  # type: ignore[attr-defined]
                    raise
        return super().do(verb, args, kwargs)

    def seeded(self, seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        torch.default_generator.manual_seed(seed)

    def described(self, error: BaseException) -> dict[str, Any]:
        finding: Any = None
        if isinstance(error, checks.Mistake):
            finding = "mistake", error.name, error.section, dict(error.values)
        elif isinstance(error, checks.Stop):
            finding = "stop", error.kind, error.name, list(error.paragraphs)
        own = {"line": getattr(error, "in_cell", None), "lent": getattr(error, "lent_number", None)}
        return {**super().described(error), **own, "finding": finding}

    def exception(self, described: Any) -> BaseException:
        base = getattr(builtins, described["base"], Exception)
        return raised_as(described["type"], base, described["message"], lent_number=described["number"])


class _Writer(Writer):
    """Writes functions and networks of the student's too."""

    def __init__(self, worker: Worker, known: dict[int, Any]) -> None:
        super().__init__(known)
        self._worker = worker

    def other(self, value: Any) -> Any:
        if isinstance(value, _Lent):
            return ["yours", value._number]
        if isinstance(value, nn.Module):

            def forward(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
                return torch.func.functional_call(value, parameters, args, kwargs)

            return ["network", self.other(forward), [[k, self.node(p)] for k, p in value.named_parameters()]]
        if callable(value):
            name = str(getattr(value, "__name__", type(value).__name__))
            return ["function", self._worker.lend(value), name]
        return super().other(value)


class _Reader(Reader):
    """Reads what the grader sends, and brings what is here already to the state that it has there."""

    def __init__(self, worker: Worker, sent: dict[int, Any], attach: Attach | None) -> None:
        super().__init__(ChainMap(worker.objects, sent), attach)
        self._worker = worker

    def keep(self, number: Any, value: Any) -> Any:
        self.known[number] = self.objects[number] = value
        return value

    def referred(self, number: Any) -> Any:
        return self.known[number]

    def put_object(self, value: Any, entries: Any) -> None:
        vars(value).update({key: self.value(node) for key, node in entries})

    def _value(self, kind: str, *rest: Any) -> Any:
        number, *content = rest
        if kind in _CHANGING and number in self.known:
            found = self.objects[number] = self.known[number]
            self.put(found, content)
            return found
        return super()._value(kind, *rest)

    def other(self, kind: str, rest: tuple[Any, ...]) -> Any:
        match kind, rest:
            case "object", (number, entries, kind_of):
                found = self.value(kind_of)
                made = found.__new__(found)
                if isinstance(made, nn.Module):
                    nn.Module.__init__(made)
                self.keep(number, made)
                self.put_object(made, entries)
                return made
            case "pickle", (data,):
                return pickle.loads(base64.b64decode(data))
            case "method", (owner, name):
                return getattr(self.value(owner), name)
            case "yours", (number,):
                return self._worker.lent[number]
            case "lent", (number, name, is_function):
                proxies = self._worker.proxies
                if number not in proxies:
                    proxies[number] = (_LentFunction if is_function else _Lent)(self._worker, number, name)
                return proxies[number]
        return super().other(kind, rest)


def main() -> None:
    """Serve one submission over what were the standard input and output."""
    reads, writes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    with contextlib.suppress(OSError):  # where memory runs out, the system ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    notebook = Notebook()
    gc.freeze()
    gc.enable()
    worker = Worker(reads, writes, notebook)
    writes.write(READY)
    writes.flush()
    with contextlib.suppress(Ended):
        while True:
            worker.answer(worker.receive()[1])
    os._exit(0)
