"""The program inside the sandbox: it runs a notebook's cells, then the student's functions, call by call.

Nothing here is trusted: a student's code can change all of it. It holds no key, no number that isn't on its
way to the student's function anyway, and what it says is judged on the other side.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import pickle
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from traitlets.config import Config

import ppobook.envs  # noqa: F401 - its environments can be made by their ids
from ppobook.teaching import checks

from .channel import Graphs, Request, Side, attach, base_of, raised_as
from .limits import Ended
from .sandbox import READY
from .serialization import TooLarge, Writer, differentiable, put_tensor, unpack

__all__ = ["Notebook", "Worker"]


class _TooSlow(BaseException):
    """Raised by the clock in a cell that takes too long."""


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

    def __init__(self, reads: Any, writes: Any, notebook: Notebook) -> None:
        super().__init__(reads, writes)
        self.notebook, self._process = notebook, os.getpid()
        self.proxies: dict[int, _Lent] = {}
        self.shared: dict[int, Any] = {}  # what stays the same object from call to call, by its number

    def send(self, kind: bytes, data: bytes) -> None:
        if os.getpid() != self._process:  # a fork of a cell that went on as if it were the notebook
            os._exit(0)
        super().send(kind, data)

    def do(self, verb: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        match verb:
            case ["cell", source, seconds]:
                error = self.notebook.run(source, seconds)
                return None if error is None else _told(error)
            case ["name", expression]:
                self.shared.clear()
                return self.notebook.value(expression)
            case ["beside", number, name]:
                companion, *args = args
                return companion(checks.Answer(name, self.lent[number]), *args, **kwargs)
            case ["call", number]:
                try:
                    return self.lent[number](*args[1:], **kwargs)
                except BaseException as error:
                    with contextlib.suppress(Exception):
                        error.in_cell = checks.line_of(error, self.lent[number])  # type: ignore[attr-defined]
                    raise
        return super().do(verb, args, kwargs)

    # --- reading pickles

    def read_request(self, data: bytes) -> Request:
        reader = _Unpickler(self, data)
        verb, args, kwargs, context, tracked = reader.load()
        objects = dict(tracked) | reader.objects
        tensors = {n: t for n, t in objects.items() if isinstance(t, torch.Tensor)}
        inputs = {n: getattr(t, "leaf", t) for n, t in tensors.items() if t.requires_grad}
        before = {n: _content(value, objects) for n, value in objects.items()}
        return Request(verb, args, kwargs, context, inputs, objects, before)

    def read_reply(self, data: bytes, sent: dict[int, Any], graphs: Graphs, *, raised: bool) -> Any:
        found, chance, generators = _Unpickler(self, data, graphs).load()
        self.set_random(chance)
        for number, moved in generators.items():
            if isinstance(moved, torch.Generator):
                sent[number].set_state(moved.get_state())
            else:
                sent[number].bit_generator.state = moved.bit_generator.state
        if raised:
            name, base, message, number = found
            return raised_as(name, getattr(builtins, base, Exception), message, lent_number=number)
        return found

    # --- writing JSON

    def write_request(self, verb: Any, args: Any, kwargs: Any, context: Any) -> tuple[bytes, dict[int, Any]]:
        writer = _Writer(self, {})
        nodes = [writer.node(part) for part in (verb, args, kwargs, context)]
        return json.dumps(nodes).encode(), writer.sent

    def write_reply(self, request: Request, found: Any, *, raised: bool) -> tuple[bytes, dict[int, Any]]:
        writer = _Writer(self, self.shared | request.objects)
        node = writer.node(_described(found) if raised else found)
        changes = [
            [n, writer.content(value)]
            for n, value in request.objects.items()
            if _content(value, request.objects) != request.before[n]
        ]
        if writer.functions:  # they may hold on to what the call was given
            self.shared |= request.objects
        return json.dumps([node, changes, writer.node(self.random_changed())]).encode(), writer.graphs


def _content(value: Any, objects: dict[int, Any]) -> Any:
    """The content of an object, to see whether it changes."""
    try:
        return _Content({id(one): n for n, one in objects.items()}).content(value)
    except (TooLarge, RecursionError):
        return None


class _Content(Writer):
    def other(self, value: Any) -> Any:
        return ["object", id(value)]


class _Writer(Writer):
    """Writes functions and networks of the student's too."""

    def __init__(self, worker: Worker, objects: dict[int, Any]) -> None:
        super().__init__({id(value): n for n, value in objects.items()})
        self._worker, self.functions = worker, 0

    def _node(self, value: Any) -> Any:
        if isinstance(value, nn.Parameter):
            return ["parameter", self._number(value), *self.content(value)]
        return super()._node(value)

    def other(self, value: Any) -> Any:
        if isinstance(value, _Lent):
            return ["yours", value._number]
        if isinstance(value, nn.Module):

            def forward(parameters: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
                return torch.func.functional_call(value, parameters, args, kwargs)

            return ["network", self.other(forward), [[k, self.node(p)] for k, p in value.named_parameters()]]
        if callable(value):
            self.functions += 1
            return [
                "function",
                self._worker.lend(value),
                str(getattr(value, "__name__", type(value).__name__)),
            ]
        return super().other(value)


class _Unpickler(pickle.Unpickler):
    """Reads what the grader sends; `objects` is what is shared with it."""

    def __init__(self, worker: Worker, data: bytes, graphs: Graphs | None = None) -> None:
        super().__init__(io.BytesIO(data))
        self._worker, self._graphs = worker, graphs
        self.objects: dict[int, Any] = {}
        self._tensors: dict[int, torch.Tensor] = {}

    def persistent_load(self, pid: Any) -> Any:
        worker = self._worker
        match pid:
            case "yours", number:
                return worker.lent[number]
            case "lent", number, name, is_function:
                if number not in worker.proxies:
                    worker.proxies[number] = (_LentFunction if is_function else _Lent)(worker, number, name)
                return worker.proxies[number]
            case "graph", number, packed:
                value, graphs = unpack(*packed), self._graphs
                if graphs is not None and graphs.inputs:
                    value = attach(graphs, number, value)
                else:
                    value = differentiable(value)
                self._tensors[number] = value
                return value
            case "shared", number, None, None:
                return self._tensors[number] if number in self._tensors else worker.shared[number]
            case "shared", number, kind, state:
                found = worker.shared[number] = _put(worker.shared.get(number), kind, state)
                self.objects[number] = found
                return found
        raise pickle.UnpicklingError("unknown reference")


def _put(found: Any, kind: Any, state: Any) -> Any:
    """Bring a shared object to a state; None is made first."""
    if kind == "array":
        new = unpack(*state)
        if found is None:
            return new
        found[...] = new
    elif kind in ("tensor", "parameter"):
        *packed, requires_grad, slope = state
        new, slope = unpack(*packed), None if slope is None else unpack(*slope)
        if found is None:
            found = nn.Parameter(new) if kind == "parameter" else new
        put_tensor(found, new, requires_grad, slope)
    elif kind == "world":
        new = pickle.loads(state)
        if found is None:
            return new
        vars(found).update(vars(new))
    else:
        found = kind.__new__(kind) if found is None else found
        vars(found).update(state)
    return found


def _told(error: BaseException) -> dict[str, Any]:
    line = getattr(error, "in_cell", None)
    return {"type": type(error).__name__, "base": base_of(error), "message": _text(error), "line": line}


def _described(error: BaseException) -> dict[str, Any]:
    finding: Any = None
    if isinstance(error, checks.Mistake):
        finding = "mistake", error.name, error.section, dict(error.values)
    elif isinstance(error, checks.Stop):
        finding = "stop", error.kind, error.name, list(error.paragraphs)
    return {**_told(error), "lent": getattr(error, "lent_number", None), "finding": finding}


def _text(error: BaseException) -> str:
    try:
        return str(error)[:20_000]
    except BaseException:
        return ""


def main() -> None:
    """Serve one submission over what were the standard input and output."""
    reads, writes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    with contextlib.suppress(OSError):  # where memory runs out, the system ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    worker = Worker(reads, writes, Notebook())
    writes.write(READY)
    writes.flush()
    with contextlib.suppress(Ended):
        while True:
            worker.answer(worker.receive()[1])
    os._exit(0)


if __name__ == "__main__":
    main()
