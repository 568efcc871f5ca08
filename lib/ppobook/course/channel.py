"""Calls between two processes that exchange inert values only: the grader, and the process of a submission.

Both sides speak alike. A request names a function and brings arguments; until its answer comes, the side that
asked answers what it is asked itself. An answer brings the value, or what was raised, and what became of the
arguments that were changed in place. A tensor whose value hangs on others by autograd crosses as a number of
the other side's graph: its backward asks there for the gradients.

`ppobook.course.remote` is the grader's side, `ppobook.course.worker` the other.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .inert import LIMIT, Malformed, Reader, TooLarge, Writer
from .limits import Ended

__all__ = ["Side"]

_LENGTH = struct.Struct("<Q")
LASTING = 2**40  # numbers from here on are those of objects that stay the same from call to call


def renamed(name: str, base: type[BaseException], message: str, *marks: type, **own: Any) -> BaseException:
    """An exception of a class of this name, below `base` or the nearest class above that takes a message."""
    content = {"__str__": lambda self: message, **own}
    for above in base.__mro__:
        if issubclass(above, BaseException):
            with contextlib.suppress(TypeError):  # as of UnicodeDecodeError, which takes five
                return type(name, (*marks, above), content)(message)
    raise TypeError(f"`base` must be an exception, got {base.__name__}")


class _Border(torch.autograd.Function):
    """A tensor of the other side's graph."""

    @staticmethod
    def forward(
        ctx: Any, kept: _Kept, number: int, value: torch.Tensor, *inputs: torch.Tensor
    ) -> torch.Tensor:
        ctx.kept, ctx.number = kept, number
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return None, None, None, *ctx.kept.gradients(ctx.number, gradient)


class _Kept:
    """The graphs of one call, which the other side keeps as long as this object lives."""

    def __init__(self, side: Side, call: int, sent: dict[int, Any]) -> None:
        self.side, self.call = side, call
        self.inputs = {n: t for n, t in sent.items() if isinstance(t, torch.Tensor) and t.requires_grad}

    def gradients(self, number: int, gradient: torch.Tensor) -> list[torch.Tensor | None]:
        found = self.side.ask_plain(["gradients", self.call, number], gradient)
        if not isinstance(found, dict):
            raise Ended("forged", "the gradients weren't gradients")
        slopes = [found.get(n) for n in self.inputs]
        for slope, leaf in zip(slopes, self.inputs.values(), strict=True):
            if slope is not None and getattr(slope, "shape", None) != leaf.shape:
                raise Ended("forged", "the gradients weren't gradients")
        return slopes

    def __del__(self) -> None:
        self.side.forgotten.append(self.call)


class Side:
    """One end of the channel; a subclass says what it answers and how it writes what isn't inert."""

    sign = 1  # of the numbers that this side gives to objects
    keeps = False  # whether what the other side sends again stays the same object here

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._numbers = itertools.count(self.sign, self.sign)
        self._chance: tuple[Any, ...] | None = None
        self._graphs: dict[int, tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]] = {}
        self.lasting: dict[int, tuple[int, Any]] = {}  # by id(): the number, and the object, to keep it alive
        self.kept: dict[int, Any] = {}  # the other side's
        self.lent: dict[int, Any] = {}  # what the other side may call, by its number
        self._lent_ids: dict[int, int] = {}
        self.proxies: dict[int, Any] = {}  # what stands for the other side's functions
        self.forgotten: list[int] = []
        self.deadline: float | None = None  # by time.monotonic()
        self.budget = 2**63  # bytes that may come

    # --- frames

    def send(self, data: bytes) -> None:
        try:
            self._connection.settimeout(self._left())
            self._connection.sendall(data)
        except TimeoutError:
            raise Ended("time", "it took too long") from None
        except OSError:
            raise Ended("ended", "the process ended") from None

    def receive(self) -> bytes:
        first = self._exactly(12, b"")
        size = 12 + _LENGTH.unpack_from(first)[0]
        if not 12 <= size <= LIMIT:
            raise Ended("forged", f"a message of {size} bytes was announced")
        self.budget -= size
        if self.budget < 0:
            raise Ended("much", "it sent back more than it may")
        return self._exactly(size, first)

    def _exactly(self, size: int, begun: bytes) -> bytes:
        parts, have = [begun], len(begun)
        while have < size:
            self._wait()
            try:
                part = self._connection.recv(min(size - have, 2**20))
            except BlockingIOError:
                continue
            except OSError:
                part = b""
            if not part:
                raise Ended("ended", "the process ended")
            parts.append(part)
            have += len(part)
        return parts[0] + parts[1] if len(parts) == 2 else b"".join(parts)

    def _left(self) -> float | None:
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.001)

    def _wait(self) -> None:
        """Until there is something to read."""
        if self.deadline is None:
            return
        left = self.deadline - time.monotonic()
        if left <= 0 or not select.select([self._connection], [], [], left)[0]:
            raise Ended("time", "it took too long")

    # --- asking

    def ask(self, verb: list[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Send a request, answer what is asked meanwhile, and give back the value or raise the exception."""
        writer = self.writer({})
        entries = writer.node(args), [[key, writer.node(value)] for key, value in (kwargs or {}).items()]
        self.forgotten, gone = [], self.forgotten
        header = ["ask", verb, *entries, torch.is_grad_enabled(), self._chance_out(), gone]
        self.send(writer.finish(header))
        while True:
            reader = self.reader(self.receive())
            header = reader.header
            if type(header) is not list or not header or header[0] not in ("ask", "value", "error"):
                raise Ended("forged", "a message was none")
            if header[0] == "ask":
                self.answer(reader)
                continue
            reader.known = dict(writer.sent)
            try:
                found = self._come(reader, header, writer)
            except Exception as error:  # whatever goes wrong is the sender's doing
                raise Ended("forged", f"{error}") from None
            if header[0] == "error":
                raise found
            return found

    def ask_plain(self, verb: list[Any], *args: Any) -> Any:
        with torch.no_grad():
            return self.ask(verb, args)

    def _come(self, reader: SideReader, header: list[Any], writer: SideWriter) -> Any:
        """The value of an answer, or the exception; what was changed meanwhile is changed here."""
        kind, node, call, changes, chance = header
        if call is not None and type(call) is not int:
            raise Malformed("a call must have a number")
        reader.graph = None if call is None else _Kept(self, call, writer.sent)
        for number, content, flag, grad in changes:
            if number in writer.sent and number not in writer.fixed:
                self._change(reader, writer.sent[number], content, flag, grad)
        self._chance_in(chance)
        self.came(reader, writer)
        return self.exception(reader, node) if kind == "error" else reader.value(node)

    def _change(self, reader: SideReader, value: Any, content: Any, flag: Any, grad: Any) -> None:
        if content is not None:
            reader.put(value, content)
        if isinstance(value, torch.Tensor):
            if value.requires_grad and not flag:
                value.detach_()
            elif flag and not value.requires_grad:
                value.requires_grad_()
            if value.is_leaf:
                reader.put_slope(value, grad)

    # --- answering

    def answer(self, reader: SideReader) -> None:
        """Do what was asked, and send what came of it."""
        try:
            try:
                _, verb, args, kwargs, grad, chance, gone = reader.header
                for call in gone:
                    self._graphs.pop(call, None)
                self._chance_in(chance)
                given = reader.value(args)
                named = {str(key): reader.value(node) for key, node in kwargs}
                ids = {id(value): number for number, value in reader.read.items()}
                before = {number: self._mark(value, ids) for number, value in reader.read.items()}
            except Exception as wrong:
                raise Malformed(f"a request is malformed: {type(wrong).__name__}") from wrong
            found: Any = None
            error: BaseException | None = None
            with torch.set_grad_enabled(bool(grad)):
                try:
                    found = self.do(verb, given, named, reader)
                except (Ended, Malformed):
                    raise
                except BaseException as raised:
                    error = raised
            try:
                reply = self._reply(reader, found, error, before)
            except Exception as unwritten:  # too large, or not to be looked at
                reply = self._reply(reader, None, unwritten, {})
        except Malformed as malformed:
            raise Ended("forged", f"{malformed}") from None
        self.send(reply)

    def do(self, verb: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any], reader: SideReader) -> Any:
        """Do what a request asks for."""
        match verb:
            case ["call", int() as number]:
                return self.lent[number](*args, **kwargs)
            case ["gradients", int() as call, int() as number]:
                outputs, inputs = self._graphs[call]
                leaves = {n: leaf for n, leaf in inputs.items() if leaf.requires_grad}
                if not leaves:
                    return {}
                slopes = torch.autograd.grad(
                    outputs[number], [*leaves.values()], args[0], retain_graph=True, allow_unused=True
                )
                return {n: s for n, s in zip(leaves, slopes, strict=True) if s is not None}
        raise Malformed("a request must be one that this side answers")

    def _reply(
        self, reader: SideReader, found: Any, error: BaseException | None, before: dict[int, Any]
    ) -> bytes:
        writer = self.writer({id(value): number for number, value in reader.known.items()})
        node = writer.node(found) if error is None else self.described(writer, error)
        changes = []
        ids = {id(value): number for number, value in reader.read.items()}
        for number, mark in before.items():
            value = reader.read[number]
            if self._mark(value, ids) != mark:
                is_tensor = isinstance(value, torch.Tensor)
                slope = writer.slope(value) if is_tensor else None
                changes.append(
                    [number, writer.content(value), bool(is_tensor and value.requires_grad), slope]
                )
        call = None
        if writer.graphs:
            call = next(self._numbers)
            self._graphs[call] = {n: writer.sent[n] for n in writer.graphs}, dict(reader.inputs)
        header = ["value" if error is None else "error", node, call, changes, self._chance_out()]
        return writer.finish(header)

    def _mark(self, value: Any, ids: dict[int, int]) -> Any:
        """Return a fingerprint that shows whether an object was changed."""
        writer = self.writer(ids)
        try:
            content = json.dumps(writer.content(value))
        except (TooLarge, RecursionError):
            return None
        extra: Any = None
        if isinstance(value, torch.Tensor):
            grad = value.grad if value.is_leaf else None
            extra = value.requires_grad, None if grad is None else grad.numpy().tobytes()
        return content, writer.data, extra

    # --- what the two sides do differently

    def writer(self, known: dict[int, int]) -> SideWriter:
        return SideWriter(self, known)

    def reader(self, data: bytes) -> SideReader:
        try:
            return SideReader(self, data)
        except Malformed as error:
            raise Ended("forged", f"{error}") from None

    def write_other(self, writer: SideWriter, value: Any) -> Any:
        """A node for what isn't inert."""
        raise NotImplementedError

    def read_other(self, reader: SideReader, kind: str, rest: list[Any]) -> Any:
        """The value of such a node of the other side's."""
        raise NotImplementedError

    def described(self, writer: SideWriter, error: BaseException) -> dict[str, Any]:
        """An exception as JSON."""
        raise NotImplementedError

    def exception(self, reader: SideReader, described: Any) -> BaseException:
        """The exception that the other side described."""
        raise NotImplementedError

    def came(self, reader: SideReader, writer: SideWriter) -> None:
        """Called before an answer is read."""

    def lend(self, value: Any) -> int:
        """A number by which the other side can call a function."""
        number = self._lent_ids.get(id(value))
        if number is None:
            number = self._lent_ids[id(value)] = next(self._numbers)
            self.lent[number] = value
        return number

    # --- the global random generators, which a check seeds

    def _chance_out(self) -> Any:
        state = _chance()
        if state == self._chance:
            return None
        self._chance = state
        tensor, (kind, keys, *rest), (version, numbers, gauss) = state
        return [tensor.hex(), [kind, keys.hex(), *rest], [version, list(numbers), gauss]]

    def _chance_in(self, node: Any) -> None:
        if node is None:
            return
        tensor, (kind, keys, *rest), (version, numbers, gauss) = node
        torch.set_rng_state(torch.frombuffer(bytearray.fromhex(tensor), dtype=torch.uint8))
        words, place = np.frombuffer(bytes.fromhex(keys), dtype=np.uint32), rest[0]
        if kind != "MT19937" or len(words) != 624 or type(place) is not int or not 0 <= place <= 624:
            raise Malformed("a random state must be one of NumPy's")  # who would read past its end
        np.random.set_state((kind, words, *rest))  # noqa: NPY002
        random.setstate((version, tuple(numbers), gauss))
        self._chance = _chance()


def _chance() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    assert isinstance(keys, np.ndarray)
    return torch.get_rng_state().numpy().tobytes(), (kind, keys.tobytes(), *rest), random.getstate()


class SideWriter(Writer):
    """A writer of one side."""

    def __init__(self, side: Side, known: dict[int, int]) -> None:
        super().__init__(known, side._numbers.__next__)
        self.names = side.sign > 0
        self._side = side
        self._fixing = self._lasting = 0
        self.fixed: set[int] = set()  # the numbers of what the other side must not change

    @property
    def data(self) -> list[bytes | memoryview]:
        return self._buffers

    @contextlib.contextmanager
    def fixing(self) -> Iterator[None]:
        """Keep the values that are written in this context from coming back changed."""
        self._fixing += 1
        try:
            yield
        finally:
            self._fixing -= 1

    @contextlib.contextmanager
    def lasting(self) -> Iterator[None]:
        """Keep the identity of the objects written in this context when they are sent again."""
        self._lasting += 1
        try:
            yield
        finally:
            self._lasting -= 1

    def numbered(self, value: Any) -> int:
        if self._lasting:
            number, _ = self._side.lasting.setdefault(id(value), (LASTING + len(self._side.lasting), value))
            self._seen[id(value)], self.sent[number] = number, value
        else:
            number = super().numbered(value)
        if self._fixing:
            self.fixed.add(number)
        return number

    def tensor(self, value: torch.Tensor) -> Any:
        if isinstance(value, torch.nn.Parameter):
            number, flag = self.numbered(value), int(value.requires_grad)
            return ["parameter", number, self._tensor(value), flag, self.slope(value)]
        return super().tensor(value)

    def other(self, value: Any) -> Any:
        return self._side.write_other(self, value)

    def content(self, value: Any) -> Any:
        if hasattr(value, "__dict__") and not isinstance(value, torch.Tensor | np.ndarray | dict | list):
            return [[key, self.node(entry)] for key, entry in vars(value).items()]
        return super().content(value)


class SideReader(Reader):
    """A reader of one side."""

    def __init__(self, side: Side, data: bytes) -> None:
        self._side = side
        self.graph: _Kept | None = None
        super().__init__(data)

    def keep(self, number: Any, value: Any) -> Any:
        if type(number) is not int or number * self._side.sign >= 0:
            raise Malformed("an object must have a number of its sender's")
        if number >= LASTING:
            self._side.kept[number] = value
        return super().keep(number, value)

    def put(self, value: Any, content: Any) -> None:
        if hasattr(value, "__dict__") and not isinstance(value, torch.Tensor | np.ndarray | dict | list):
            for key, node in content:
                if key in vars(value) or self._side.keeps:
                    vars(value)[key] = self.value(node)
            return
        super().put(value, content)

    def _structure(self, kind: str, *rest: Any) -> Any:
        made = self._side.kept.get(rest[0]) if rest and type(rest[0]) is int else None
        if made is None or kind == "ref" or (kind == "tensor" and rest[2] == 2):
            return super()._structure(kind, *rest)
        self.keep(rest[0], made)
        self.put(made, rest[2] if kind == "built" else rest[1])
        if isinstance(made, torch.Tensor):
            made.requires_grad_(bool(rest[2]))
            if rest[2]:
                self.inputs[rest[0]] = made
            self.put_slope(made, rest[3])
        return made

    def other(self, kind: str, rest: list[Any]) -> Any:
        if kind == "parameter":
            number, content, flag, slope = rest
            made = torch.nn.Parameter(self._tensor(*content), requires_grad=bool(flag))
            if flag:
                self.inputs[number] = made
            self.keep(number, made)
            self.put_slope(made, slope)
            return made
        return self._side.read_other(self, kind, rest)

    def tensor(self, number: Any, made: torch.Tensor, flag: Any, slope: Any) -> Any:
        if flag == 2 and self.graph is not None and self.graph.inputs:
            inputs = self.graph.inputs.values()
            return self.keep(number, _Border.apply(self.graph, number, made, *inputs))
        return super().tensor(number, made, flag, slope)
