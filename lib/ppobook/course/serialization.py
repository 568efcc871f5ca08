"""The form in which a student's process sends values: JSON, with the bytes of arrays and tensors in base64.

Reading it makes numbers, text, containers, arrays and tensors and runs no code of the sender's. The grader
sends pickles instead, which only the student's process reads: see `ppobook.course.channel`.

    data = json.dumps(Writer().node({"loss": torch.ones(2)}))
    Reader().value(json.loads(data))
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

__all__ = [
    *("LARGEST", "Malformed", "Opaque", "Reader", "TooLarge", "Writer", "differentiable", "opaque", "pack"),
    *("put_tensor", "sent_generator", "sent_tensor", "unpack"),
]

LARGEST = 32 * 2**20  # bytes of a message
_ENTRIES, _DEPTH = 500_000, 60
_KEYS = 10_000  # keys of dicts in a message, because keys with equal hashes are compared pairwise
_KINDS = "biufc"  # the kinds of NumPy arrays that are sent as bytes
_TENSORS = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}


class Malformed(ValueError):  # noqa: N818
    """The bytes are not a message of this form."""


class TooLarge(ValueError):  # noqa: N818
    """A value does not fit into a message."""


class Opaque:
    """Stands for a value that cannot be sent; only the name of its class is known."""


def opaque(name: str) -> Opaque:
    """Make a stand-in for a value of the class of this name."""
    kept = "".join(c for c in name[:60] if c.isalnum() or c in " _.-") or "value"
    return type(kept, (Opaque,), {})()


def pack(value: torch.Tensor | np.ndarray) -> tuple[str, list[int], bytes]:
    """The dtype, the shape and the bytes of a tensor or an array.

    Raises
    ------
    TooLarge
        The bytes don't fit into a message.
    """
    shape = list(value.shape)
    if math.prod(shape) * value.itemsize > LARGEST / 2:
        raise TooLarge(f"a value of shape {shape} is too large to be sent")
    if isinstance(value, np.ndarray):
        return value.dtype.str, shape, np.ndarray.tobytes(value)
    plain = value.detach().resolve_conj().resolve_neg().contiguous()
    raw = plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain
    return str(value.dtype).removeprefix("torch."), shape, raw.numpy().tobytes()


def unpack(name: Any, shape: Any, data: bytes) -> Any:
    """The tensor or the array of which `pack` gave the dtype, the shape and the bytes."""
    if type(name) is not str or any(type(size) is not int or not 0 <= size < 2**40 for size in shape):
        raise Malformed("a dtype must be a name, and a size an integer of at least 0")
    if name not in _TENSORS:
        dtype = np.dtype(name)
        if len(name) > 4 or dtype.kind not in _KINDS:
            raise Malformed("an array must hold numbers")
        if not data and 0 in shape:
            return np.zeros(shape, dtype)
        found = np.frombuffer(data, np.uint8 if dtype.kind == "b" else dtype).reshape(shape)
        return found != 0 if dtype.kind == "b" else found.copy()
    tensor = _TENSORS[name]
    if not data and 0 in shape:
        return torch.zeros(shape, dtype=tensor)
    raw = torch.frombuffer(bytearray(data), dtype=torch.uint8 if tensor == torch.bool else tensor)
    return (raw != 0 if tensor == torch.bool else raw).reshape(shape).clone()


class Writer:
    """Writes the nodes of one message.

    `numbers` maps the id() of an object to the number by which the reader knows it. An array, a tensor or a
    generator that stands twice in a message gets a number, so that it arrives as one object.
    """

    def __init__(self, numbers: Mapping[int, int] | None = None, count: Iterator[int] | None = None) -> None:
        self._numbers = dict(numbers or {})
        self._count = itertools.count(-1, -1) if count is None else count
        self.sent: dict[int, Any] = {}  # what was given a number in this message
        self.graphs: dict[int, torch.Tensor] = {}  # of those, what carries an autograd graph
        self._entries = self._size = self._depth = 0

    def node(self, value: Any) -> Any:
        """A value as JSON.

        Raises
        ------
        TooLarge
            The message would have too many bytes, entries or levels.
        """
        if (number := self._numbers.get(id(value))) is not None:
            return ["ref", number]
        self._entries += 1
        self._depth += 1
        if self._entries > _ENTRIES or self._depth > _DEPTH:
            raise TooLarge("a value with too many entries or levels can't be sent")
        try:
            return self._node(value)
        finally:
            self._depth -= 1

    def _node(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            plain = value.dtype.kind not in _KINDS
            return self.node(value.item()) if plain else ["scalar", *self.packed(np.asarray(value))]
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            self._grow(len(value))
            return value
        if isinstance(value, bytes | bytearray):
            return ["bytes", self.base64(value)]
        if isinstance(value, list | tuple):
            return ["tuple" if isinstance(value, tuple) else "list", self.content(value)]
        if isinstance(value, dict):
            return ["dict", self.content(value)]
        if isinstance(value, np.random.Generator) and type(value.bit_generator) is np.random.PCG64:
            return ["numpy generator", self._number(value), *self.content(value)]
        if isinstance(value, torch.Generator):
            return ["torch generator", self._number(value), *self.content(value)]
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in _KINDS:
                return self.node(value.tolist())
            return ["array", self._number(value), *self.content(value)]
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.device.type != "cpu" or _name(value) not in _TENSORS:
                return self.other(value)
            number, graph = self._number(value), value.requires_grad and not value.is_leaf
            if graph:
                self.graphs[number] = value
            return ["tensor", number, *self.content(value), graph]
        return self.other(value)

    def content(self, value: Any) -> list[Any]:
        """The value of an object that can change, without its identity."""
        if isinstance(value, list | tuple):
            return [self.node(entry) for entry in value]
        if isinstance(value, dict):
            return [[self.node(key), self.node(entry)] for key, entry in value.items()]
        if isinstance(value, np.random.Generator):
            return [self.node(value.bit_generator.state)]
        if isinstance(value, torch.Generator):
            return [self.base64(value.get_state().numpy().tobytes())]
        if isinstance(value, np.ndarray):
            return self.packed(value)
        if isinstance(value, torch.Tensor):
            slope = value.grad if value.is_leaf else None
            return [*self.packed(value), value.requires_grad, None if slope is None else self.packed(slope)]
        plain = bool | int | float | str | list | dict | tuple | np.ndarray | torch.Tensor | None
        kept = {k: entry for k, entry in vars(value).items() if k[0] != "_" and isinstance(entry, plain)}
        return [[key, self.node(entry)] for key, entry in kept.items()]

    def packed(self, value: Any) -> list[Any]:
        name, shape, data = pack(value)
        return [name, shape, self.base64(data)]

    def base64(self, data: bytes | bytearray) -> str:
        self._grow(4 * len(data) // 3)
        return base64.b64encode(data).decode()

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > LARGEST * 0.9:
            raise TooLarge("a value with too many bytes can't be sent")

    def _number(self, value: Any) -> int:
        number = self._numbers[id(value)] = next(self._count)
        self.sent[number] = value
        return number

    def other(self, value: Any) -> Any:
        """A node for what is neither a number nor text, a container, an array, a tensor or a generator."""
        if isinstance(value, Iterator):
            return ["iterator", [self.node(entry) for entry in itertools.islice(value, 10_000)]]
        if isinstance(value, Mapping):
            return self.node(dict(value))
        if isinstance(value, Sequence):
            return self.node(list(itertools.islice(value, _ENTRIES)))
        if hasattr(value, "__array__"):
            found = np.asarray(value)
            if type(found) is np.ndarray:
                return self.node(found)
        elif hasattr(value, "__float__"):
            return float(value)
        return ["opaque", type(value).__name__]


def _name(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


class Reader:
    """Reads the nodes of one message; `known` holds what the sender may refer to by a number."""

    def __init__(self, known: Mapping[int, Any] | None = None) -> None:
        self.known = dict(known or {})
        self._containers: set[int] = set()  # lists and dicts that were referred to
        self._keys = 0

    def value(self, node: Any) -> Any:
        """The value of a node.

        Raises
        ------
        Malformed
            The node is not one that `Writer` writes.
        """
        if node is None or isinstance(node, bool | int | float | str):
            return node
        try:
            kind, *rest = node
            return self._value(kind, *rest)
        except Malformed:
            raise
        except (TypeError, ValueError, KeyError, IndexError, OverflowError, RuntimeError) as error:
            raise Malformed(f"a node is wrong: {type(error).__name__}") from None

    def put(self, value: Any, content: Any) -> None:
        """Change an object to what `Writer.content` gave for it."""
        if isinstance(value, list):
            value[:] = [self.value(entry) for entry in content]
        elif isinstance(value, dict):
            entries = self._dict(content)
            value.clear()
            value.update(entries)
        elif isinstance(value, np.random.Generator):
            value.bit_generator.state = self.value(*content)
        elif isinstance(value, torch.Generator):
            value.set_state(torch.frombuffer(bytearray(_decoded(*content)), dtype=torch.uint8))
        elif isinstance(value, np.ndarray):
            value[...] = self._packed(*content)
        elif isinstance(value, torch.Tensor):
            name, shape, data, requires_grad, slope = content
            put_tensor(value, self._packed(name, shape, data), bool(requires_grad), self._slope(value, slope))
        else:
            own = {key: entry for key, entry in vars(value).items() if key[0] != "_" and not callable(entry)}
            vars(value).update({key: self.value(node) for key, node in content if key in own})

    def _value(self, kind: str, *rest: Any) -> Any:
        match kind, rest:
            case "ref", (number,):
                found = self.known[number]
                if isinstance(found, list | dict):  # named twice, a few of them could unfold to millions
                    if number in self._containers:
                        raise Malformed("a list must not stand twice in a message")
                    self._containers.add(number)
                return found
            case "list" | "tuple", (entries,):
                return (list if kind == "list" else tuple)([self.value(entry) for entry in entries])
            case "dict", (entries,):
                return self._dict(entries)
            case "scalar", packed:
                return self._packed(*packed)[()]
            case "bytes", (data,):
                return _decoded(data)
            case "array", (number, *packed):
                return self.keep(number, self._packed(*packed))
            case "tensor", (number, name, shape, data, requires_grad, slope, graph):
                made = self._packed(name, shape, data)
                if graph:
                    return self.keep(number, self.graph(number, made))
                if requires_grad:
                    made.requires_grad_().grad = self._slope(made, slope)
                return self.keep(number, made)
            case "numpy generator", (number, *content):
                made = np.random.Generator(np.random.PCG64(0))
                self.put(made, content)
                return self.keep(number, made)
            case "torch generator", (number, *content):
                made = torch.Generator()
                self.put(made, content)
                return self.keep(number, made)
            case "iterator", (entries,):
                return iter([self.value(entry) for entry in entries])
            case "opaque", (str() as name,):
                return opaque(name)
        return self.other(kind, rest)

    def keep(self, number: Any, value: Any) -> Any:
        """Note an object by the number that its sender gave to it."""
        if type(number) is not int or number >= 0 or number in self.known:
            raise Malformed("an object must have a number of its own")
        self.known[number] = value
        return value

    def graph(self, number: int, value: torch.Tensor) -> torch.Tensor:
        """A tensor that was computed from others on the sender's side."""
        return differentiable(value)

    def other(self, kind: str, rest: tuple[Any, ...]) -> Any:
        """The value of a node of another kind."""
        raise Malformed("a node must be of a kind that there is")

    def _dict(self, entries: Any) -> dict[Any, Any]:
        self._keys += len(entries)
        if self._keys > _KEYS:
            raise Malformed(f"dicts must have at most {_KEYS} keys")
        return {self.value(key): self.value(entry) for key, entry in entries}

    @staticmethod
    def _packed(name: Any, shape: Any, data: Any) -> Any:
        return unpack(name, shape, _decoded(data))

    def _slope(self, value: torch.Tensor, packed: Any) -> torch.Tensor | None:
        slope = None if packed is None else self._packed(*packed)
        fits = isinstance(slope, torch.Tensor) and (slope.shape, slope.dtype) == (value.shape, value.dtype)
        return slope if fits else None


def differentiable(value: torch.Tensor) -> torch.Tensor:
    """A copy that gradients go through, and that may be written into; `leaf` is where they arrive."""
    leaf = value.requires_grad_()
    made = leaf.clone()
    made.leaf = leaf  # type: ignore[attr-defined]
    return made


def put_tensor(
    value: torch.Tensor, new: torch.Tensor, requires_grad: bool, slope: torch.Tensor | None
) -> None:
    """Change a tensor in place. Where nothing changed it is not touched, because graphs may need it."""
    with torch.no_grad():
        if new.shape != value.shape or new.dtype != value.dtype:
            value.data = new
        elif not torch.equal(new, value):
            value.copy_(new)
    if value.requires_grad and not requires_grad:
        value.detach_()
    elif requires_grad and not value.requires_grad:
        value.requires_grad_()
    if value.is_leaf:
        value.grad = slope


def _decoded(data: Any) -> bytes:
    return base64.b64decode(data, validate=True)


def sent_tensor(
    name: str, shape: list[int], data: bytes, requires_grad: bool, slope: Any, graph: bool
) -> torch.Tensor:
    """A tensor from a pickle."""
    made = unpack(name, shape, data)
    if graph:
        return differentiable(made)
    if requires_grad:
        made.requires_grad_().grad = None if slope is None else unpack(*slope)
    return made


def sent_generator(state: dict[str, Any]) -> np.random.Generator:
    """A random generator of NumPy's from a pickle."""
    made = np.random.Generator(getattr(np.random, state["bit_generator"])())
    made.bit_generator.state = state
    return made
