"""Calls between the grader and the process of a submission.

Both sides can ask: the grader calls the student's functions, and these may call functions that they were
given, which stay with the grader. A side that waits for an answer answers what it is asked itself. A tensor
that was computed from others stays in its autograd graph: its backward asks the other side for the
gradients.

The two sides differ in what they write and read beyond plain values: see `ppobook.course.calls` and
`ppobook.course.worker`. Only the student's process reads anything that could run code.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
from collections.abc import Callable
from typing import IO, Any

import torch

from .sandbox import Ended
from .serialization import LARGEST, Attach, Malformed, Reader, Writer

_HEAD = struct.Struct("<cQ")
_ASK, _VALUE, _RAISED = b"?", b"=", b"!"
MESSAGE = 5000  # characters of an exception's text that are sent


class Graphs:
    """The autograd graphs of one call on the other side, kept there until the next name is asked for."""

    def __init__(self, side: Side, call: int, sent: dict[int, Any]) -> None:
        self.side, self.call = side, call
        self.inputs = {n: t for n, t in sent.items() if isinstance(t, torch.Tensor) and t.requires_grad}

    def attach(self, number: int, value: torch.Tensor) -> torch.Tensor:
        return _Border.apply(self, number, value, *self.inputs.values())

    def gradients(self, number: int, gradient: torch.Tensor) -> list[torch.Tensor | None]:
        with torch.no_grad():
            found = self.side.ask(("gradients", self.call, number), (gradient,))
        slopes = [found.get(n) if isinstance(found, dict) else found for n in self.inputs]
        for slope, leaf in zip(slopes, self.inputs.values(), strict=True):
            if slope is not None and getattr(slope, "shape", None) != leaf.shape:
                raise Ended("forged")
        return slopes


class _Border(torch.autograd.Function):
    """A tensor of the other side's graph."""

    @staticmethod
    def forward(
        ctx: Any, graphs: Graphs, number: int, value: torch.Tensor, *inputs: torch.Tensor
    ) -> torch.Tensor:
        ctx.graphs, ctx.number = graphs, number
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return None, None, None, *ctx.graphs.gradients(ctx.number, gradient)


class Side:
    """One end of the channel.

    `objects` has by its number what the grader has sent of objects that can change, here as this side's own;
    `lent` has by its number what the other side may call.
    """

    # Of a message whose reader knows objects by their numbers; of one that may answer a message with objects.
    writer: Callable[[dict[int, Any]], Writer]
    reader: Callable[[dict[int, Any], Attach | None], Reader]
    # What ends an answer instead of being sent.
    ends: tuple[type[BaseException], ...] = (Ended,)

    def __init__(self, reads: IO[bytes], writes: IO[bytes]) -> None:
        self._reads, self._writes = reads, writes
        self._calls = itertools.count(1)
        self._graphs: dict[int, tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]] = {}
        self.objects: dict[int, Any] = {}
        self.lent: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # of what was lent, by its id()
        self._lent_count = itertools.count(1)

    # --- messages

    def send(self, kind: bytes, message: Any) -> None:
        data = json.dumps(message).encode()
        if len(data) > LARGEST:
            raise ValueError(
                f"a value must have at most {LARGEST >> 20} MB to be sent, got {len(data) >> 20} MB"
            )
        try:
            self._writes.write(_HEAD.pack(kind, len(data)) + data)
            self._writes.flush()
        except (OSError, ValueError):
            raise Ended("ended") from None

    def receive(self) -> tuple[bytes, bytes]:
        kind, size = _HEAD.unpack(self._exactly(_HEAD.size))
        if kind not in (_ASK, _VALUE, _RAISED) or size > LARGEST:
            raise Ended("forged")
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        with contextlib.suppress(OSError, ValueError):
            if len(found := self._reads.read(size)) == size:
                return found
        raise Ended("ended")

    # --- asking and answering

    def ask(self, verb: tuple[Any, ...], args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Send a request, answer what is asked meanwhile, and give back the value or raise the exception."""
        call = next(self._calls)
        context = call, torch.is_grad_enabled(), self.seed()
        writer = self.writer({})
        parts = (verb, args, tuple((kwargs or {}).items()), context)
        self.send(_ASK, [writer.node(part) for part in parts])
        graphs = Graphs(self, call, writer.sent)
        while True:
            kind, data = self.receive()
            if kind == _ASK:
                self.answer(data)
                continue
            try:
                payload, changes = json.loads(data)
                reader = self.reader(writer.sent, graphs.attach if graphs.inputs else None)
                for number, content in changes:
                    reader.put(writer.sent[number], content)
                found = reader.value(payload)
                if kind == _RAISED:
                    found = self.exception(found)
            except Exception:  # whatever goes wrong is the sender's doing
                raise Ended("forged") from None
            if kind == _RAISED:
                raise found
            return found

    def answer(self, data: bytes) -> None:
        """Do what was asked, and send the result."""
        try:
            reader = self.reader({}, None)
            verb, args, kwargs, context = (reader.value(node) for node in json.loads(data))
            call, grad, seed = context
            self.seeded(seed)
            named, objects = dict(kwargs), reader.objects
            before = self._contents(objects)
        except Exception:
            raise Ended("forged") from None
        tensors = {n: getattr(t, "leaf", t) for n, t in objects.items() if isinstance(t, torch.Tensor)}
        inputs = {n: leaf for n, leaf in tensors.items() if leaf.requires_grad}
        kind, found = _VALUE, None
        with torch.set_grad_enabled(bool(grad)):
            try:
                found = self.do(verb, args, named)
            except Malformed:
                raise Ended("forged") from None
            except self.ends:
                raise
            except BaseException as error:
                kind, found = _RAISED, self.described(error)
        try:
            graphs = self._reply(kind, objects, before, found)
        except Exception as error:  # it is too large, or can't be looked at
            graphs = self._reply(_RAISED, objects, before, self.described(error))
        if graphs:
            self._graphs[call] = graphs, inputs

    def _reply(
        self, kind: bytes, objects: dict[int, Any], before: dict[int, Any], found: Any
    ) -> dict[int, torch.Tensor]:
        writer = self.writer(objects)
        node = writer.node(found)  # first, because an iterator that is read may change them too
        after = self._contents(objects)
        changes = [[n, writer.content(value)] for n, value in objects.items() if after[n] != before[n]]
        self.send(kind, [node, changes])
        return writer.graphs

    def _contents(self, objects: dict[int, Any]) -> dict[int, Any]:
        writer = self.writer(objects)
        return {n: writer.content(value) for n, value in objects.items()}

    def do(self, verb: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Do what a request asks for."""
        match verb:
            case ("call", int() as number):
                if not callable(self.lent.get(number)):
                    raise ReferenceError("it was lent for another part, or never")
                return self.lent[number](*args, **kwargs)
            case ("gradients", int() as call, int() as number):
                outputs, inputs = self._graphs[call]
                leaves = {n: leaf for n, leaf in inputs.items() if leaf.requires_grad}
                if not leaves:
                    return {}
                with torch.enable_grad():  # given a gradient, torch would import sympy, in half a second
                    total = torch.dot(outputs[number].flatten(), args[0].flatten())
                slopes = torch.autograd.grad(total, [*leaves.values()], retain_graph=True, allow_unused=True)
                return {n: slope for n, slope in zip(leaves, slopes, strict=True) if slope is not None}
        raise Malformed("a request must be one that this side answers")

    def lend(self, value: Any) -> int:
        """The number by which the other side can call something."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = next(self._lent_count)
            self.lent[number] = value
        return number

    # --- what the two sides do differently

    def described(self, error: BaseException) -> dict[str, Any]:
        """Describe an exception that the other side raises in its turn."""
        kinds = type(error).__mro__
        base = next(kind.__name__ for kind in kinds if kind.__module__ == "builtins")
        try:
            text = str(error)[:MESSAGE]
        except BaseException:
            text = ""
        return {"type": kinds[0].__name__, "base": base, "message": text}

    def exception(self, described: Any) -> BaseException:
        """The exception that was described."""
        raise NotImplementedError

    def seed(self) -> int | None:
        """A number for the other side's global generators while it answers; None where it draws its own."""
        return None

    def seeded(self, seed: Any) -> None:
        """Seed this side's global generators, which the grader never does."""


def raised_as(name: str, base: type[BaseException], message: str, **own: Any) -> BaseException:
    """An exception of a class of this name below `base`, however that is made."""
    own |= {"__init__": lambda self: None, "__str__": lambda self: message, "__module__": "builtins"}
    made: BaseException = type(name, (base,), own)()
    return made
