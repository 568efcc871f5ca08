"""Values as inert bytes: a JSON header and raw buffers, so that reading them runs nobody's code.

The grader and the process of a submission exchange values in this form. Reading makes numbers, text,
containers, arrays and tensors, and nothing else; no pickle, no class of the sender's. Objects that can
change travel with a number: the same list, array or tensor twice in a message arrives as one object, and
a message can refer to what the receiver already knows.

    dump({"loss": torch.ones(2)})  ->  bytes  ->  load(data)  ->  {"loss": tensor([1., 1.])}

`Writer` and `Reader` are the two halves. What they do with functions and objects, which aren't inert, is said
by the two sides of a channel: see `ppobook.course.channel`.
"""

from __future__ import annotations

import json
import math
import numbers
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

__all__ = ["LIMIT", "Malformed", "Opaque", "Reader", "TooLarge", "Writer", "dump", "load", "opaque"]

LIMIT = 64 * 2**20  # bytes of a message
_HEADER = 8 * 2**20  # bytes of its JSON
_DEPTH, _NODES, _AXES = 60, 500_000, 16
_SPELLED_OUT = 2**24  # entries, where a list that is named again, or a range, is written out
_HASHED = 10_000  # entries of sets and dicts: of numbers with one hash, each is compared with all others
_OBJECTS = 20_000  # tensors, functions and the like, each of which takes a kilobyte
_LIGHT = frozenset(
    (
        *("ref", "tuple", "list", "dict", "set", "frozenset", "int", "scalar", "complex", "bytes", "..."),
        *("slice", "range", "dtype"),
    )
)
_KINDS = "biufcSUmM"  # the kinds of NumPy arrays that hold plain data
_TENSORS = {
    str(d).removeprefix("torch."): d
    for d in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
_LENGTHS = struct.Struct("<QI")


class Malformed(ValueError):  # noqa: N818
    """Bytes that aren't a message of this form."""


class TooLarge(ValueError):  # noqa: N818
    """A value that doesn't fit into a message."""


class Opaque:
    """Stands for a value that can't be sent. Nothing can be done with it but name its class."""


def opaque(name: str) -> Opaque:
    """A value of which only the name of its class is known."""
    kept = "".join(c for c in name[:60] if c.isalnum() or c in " _.-") or "value"
    return type(kept, (Opaque,), {})()


def dump(value: Any) -> bytes:
    """The value as bytes.

    Raises
    ------
    TooLarge
        It has more bytes, entries or levels than a message may have.
    """
    writer = Writer()
    return writer.finish(writer.node(value))


def load(data: bytes, *, limit: int = LIMIT) -> Any:
    """The value that `dump` wrote.

    Raises
    ------
    Malformed
        The bytes are longer than `limit`, or aren't what `dump` writes.
    """
    if len(data) > limit:
        raise Malformed(f"`data` must have at most {limit} bytes, got {len(data)}")
    reader = Reader(data)
    return reader.value(reader.header)


class _Bounds:
    """A counter of a message's size, for readers of its values. `error` is what is raised."""

    def __init__(self, error: type[ValueError]) -> None:
        self._error = error
        self._spelled_out = self._hashed = self._objects = 0
        self._extents: dict[int, int | None] = {}

    def hashes(self, count: int) -> None:
        self._hashed += count
        if self._hashed > _HASHED:
            raise self._error(f"sets and dicts with more than {_HASHED} entries")

    def names(self, kind: str) -> None:
        self._objects += kind not in _LIGHT
        if self._objects > _OBJECTS:
            raise self._error(f"a value with more than {_OBJECTS} objects")

    def spells_out(self, value: Any) -> None:
        """A value stands in the message once more, by its number or its ends."""
        self._spelled_out += self._extent(value)
        if self._spelled_out > _SPELLED_OUT:
            raise self._error("a value with too many entries, where all of them are written out")

    def _extent(self, value: Any) -> int:
        if isinstance(value, torch.Tensor):
            return math.prod(value.shape)
        if isinstance(value, range):
            return (value.stop - value.start) // value.step + 1 if value else 0  # len() may overflow
        entries: Any
        if isinstance(value, np.ndarray):
            if value.dtype != object:
                return math.prod(value.shape)
            entries = value.ravel().tolist()
        elif isinstance(value, dict):
            entries = [*dict.keys(value), *dict.values(value)]
        elif isinstance(value, list | tuple | set | frozenset):
            entries = value
        else:
            return 1
        if id(value) not in self._extents:
            self._extents[id(value)] = None
            self._extents[id(value)] = 1 + sum(map(self._extent, entries))
        found = self._extents[id(value)]
        if found is None:
            raise self._error("a value that holds itself")
        return found


class Writer:
    """Writes one message. `known` maps the id() of an object to the number that the receiver knows it by."""

    names = False  # whether tuples with names keep them

    def __init__(
        self, known: Mapping[int, int] | None = None, numbers: Callable[[], int] | None = None
    ) -> None:
        self._known, self._seen = known or {}, dict[int, int]()
        self._next = numbers or iter(range(1, 2**31)).__next__
        self._buffers: list[bytes | memoryview] = []
        self._size = self._nodes = self._depth = 0
        self.sent: dict[int, Any] = {}  # what has got a number in this message
        self._alive: list[Any] = []
        self._bounds = _Bounds(TooLarge)
        self.graphs: list[int] = []  # the numbers of tensors that carry a graph

    def finish(self, header: Any) -> bytes:
        """The message: the length of all, the length of the header, the header, the buffers."""
        text = json.dumps([header, [len(b) for b in self._buffers]], separators=(",", ":")).encode()
        if len(text) > _HEADER:
            raise TooLarge("a value with too many entries")
        return b"".join([_LENGTHS.pack(len(text) + self._size, len(text)), text, *self._buffers])

    def node(self, value: Any) -> Any:
        """A value as JSON; raw data is put aside."""
        self._nodes += 1
        if self._nodes > _NODES:
            raise TooLarge("a value with too many entries")
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is float or kind is str:
            return value
        if kind is int:
            return (
                value
                if abs(value) < 2**63
                else ["int", hex(value)]
                if value.bit_length() < 8000
                else self.other(value)
            )
        number = self._known.get(id(value), self._seen.get(id(value)))
        if number is not None:
            self._bounds.spells_out(value)
            return ["ref", number]
        self._depth += 1
        if self._depth > _DEPTH:
            raise TooLarge("a value with too many levels")
        try:
            node = self._structure(value)
            if type(node) is list:
                self._bounds.names(node[0])
            return node
        finally:
            self._depth -= 1

    def numbered(self, value: Any) -> int:
        """A number for an object, by which both sides know it from now on."""
        number = self._next()
        self._seen[id(value)] = number
        self.sent[number] = value  # kept alive, or its id() might come again
        return number

    def content(self, value: Any) -> Any:
        """Return the content of an object that has a number, without its own number."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, dict):
            self._bounds.hashes(dict.__len__(value))
            return [[self.node(key), self.node(entry)] for key, entry in dict.items(value)]
        if isinstance(value, list):
            return [self.node(entry) for entry in list.__iter__(value)]
        if isinstance(value, torch.Generator):
            return self.buffer(value.get_state().numpy().tobytes())
        if isinstance(value, np.random.Generator):
            return self.node(value.bit_generator.state)
        raise TypeError(
            f"`value` must be a container, array, tensor or generator, got {type(value).__name__}"
        )

    def buffer(self, data: bytes | memoryview) -> int:
        self._size += len(data)
        if self._size > LIMIT - _HEADER:
            raise TooLarge(f"a value of more than {(LIMIT - _HEADER) // 2**20} MB")
        self._buffers.append(data)
        return len(self._buffers) - 1

    def other(self, value: Any) -> Any:
        """Return the form of a value that isn't inert: by itself, the name of its class."""
        return ["opaque", type(value).__name__]

    def _structure(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if type(value) not in (torch.Tensor, torch.nn.Parameter):
                with torch._C.DisableTorchFunctionSubclass():
                    self._alive.append(value)
                    return self.tensor(value.as_subclass(torch.Tensor))
            return self.tensor(value)
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in _KINDS and value.dtype != object:
                return self.other(value)
            return ["array", self.numbered(value), self.content(value)]
        if isinstance(value, list | dict):
            name = "list" if isinstance(value, list) else "dict"
            return [name, self.numbered(value), self.content(value)]
        if type(value) is tuple or (isinstance(value, tuple) and not self.names):
            return ["tuple", [self.node(entry) for entry in tuple.__iter__(value)]]
        if isinstance(value, set | frozenset):
            name = "set" if isinstance(value, set) else "frozenset"
            self._bounds.hashes(len(value))
            return [name, [self.node(entry) for entry in value]]
        if isinstance(value, np.generic):
            if value.dtype.kind not in _KINDS:
                return self.other(value)
            return ["scalar", value.dtype.str, self.buffer(value.tobytes())]
        if isinstance(value, bytes | bytearray):
            return ["bytes", self.buffer(bytes(value))]
        if isinstance(value, str):
            return "".join(str.__iter__(value))
        if isinstance(value, int):
            return self.node(int.__index__(value))
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, complex):
            return ["complex", [complex.real.__get__(value), complex.imag.__get__(value)]]
        if value is ...:
            return ["..."]
        if isinstance(value, slice | range):
            self._bounds.spells_out(value)
            ends = [self.node(end) for end in (value.start, value.stop, value.step)]
            return [type(value).__name__, ends]
        if isinstance(value, torch.dtype) and str(value).removeprefix("torch.") in _TENSORS:
            return ["dtype", "torch", str(value).removeprefix("torch.")]
        if isinstance(value, np.dtype) and value.kind in _KINDS and len(value.str) < 20:
            return ["dtype", "numpy", value.str]
        if isinstance(value, torch.Generator) and value.device.type == "cpu":
            return ["torch generator", self.numbered(value), self.content(value)]
        if isinstance(value, np.random.Generator) and type(value.bit_generator) is np.random.PCG64:
            return ["numpy generator", self.numbered(value), self.content(value)]
        if isinstance(value, numbers.Real) and not callable(value):
            return float(value)  # a fraction, a decimal
        return self.other(value)

    def tensor(self, value: torch.Tensor) -> Any:
        name = str(value.dtype).removeprefix("torch.")
        if value.layout != torch.strided or value.device.type != "cpu" or name not in _TENSORS:
            return self.other(value)
        number = self.numbered(value)
        flag = 0 if not value.requires_grad else 1 if value.is_leaf else 2
        if flag == 2:
            self.graphs.append(number)
        return ["tensor", number, self._tensor(value), flag, self.slope(value)]

    def slope(self, value: torch.Tensor) -> Any:
        """The gradient that a leaf holds."""
        return self.node(value.grad) if value.is_leaf and value.grad is not None else None

    def _tensor(self, value: torch.Tensor) -> Any:
        size = math.prod(value.shape) * value.element_size()  # before a view of a few bytes is written out
        if self._size + size > LIMIT - _HEADER:
            raise TooLarge(f"a tensor of shape {list(value.shape)}")
        plain = value.detach().resolve_conj().resolve_neg().contiguous()
        raw = plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain
        data = raw.numpy().tobytes()
        return [str(value.dtype).removeprefix("torch."), list(value.shape), self.buffer(data)]

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype == object:
            return ["object", list(value.shape), [self.node(entry) for entry in value.ravel().tolist()]]
        size = math.prod(value.shape) * value.itemsize
        if self._size + size > LIMIT - _HEADER:
            raise TooLarge(f"an array of shape {list(value.shape)}")
        return [value.dtype.str, list(value.shape), self.buffer(np.ndarray.tobytes(value))]


class Reader:
    """Reads one message; `known` holds what the two sides know by numbers, and grows."""

    def __init__(self, data: bytes | memoryview, known: dict[int, Any] | None = None) -> None:
        view = memoryview(data)
        self.known = {} if known is None else known
        self.read: dict[int, Any] = {}  # what has got a number in this message
        self.inputs: dict[int, torch.Tensor] = {}  # of those, the leaves of what carries a graph
        self._nodes = self._depth = 0
        self._bounds = _Bounds(Malformed)
        self._unfinished: set[int] = set()  # by their numbers, lists and dicts that are being read
        try:
            total, length = _LENGTHS.unpack_from(view)
            if total != len(view) - _LENGTHS.size or length > min(total, _HEADER):
                raise ValueError("the lengths are wrong")
            start = _LENGTHS.size + length
            self.header, sizes = json.loads(bytes(view[_LENGTHS.size : start]))
            self._buffers = []
            for size in sizes:
                if type(size) is not int or not 0 <= size <= len(view) - start:
                    raise ValueError("a buffer has a wrong length")
                self._buffers.append(view[start : start + size])
                start += size
            self._left = sum(sizes)  # of the buffers' bytes, which nobody reads twice
        except (ValueError, TypeError, RecursionError, struct.error) as error:
            raise Malformed(f"`data` must be a message, and it isn't: {error}") from None

    def value(self, node: Any) -> Any:
        """The value of a node.

        Raises
        ------
        Malformed
            The node isn't one that `Writer` writes.
        """
        self._nodes += 1
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if type(node) is not list or not node or type(node[0]) is not str:
            raise Malformed("a node must be a list that begins with its kind")
        self._depth += 1
        if self._depth > _DEPTH + 5 or self._nodes > _NODES + 2 * _OBJECTS:
            raise Malformed("a message must not have so many levels or entries")
        self._bounds.names(node[0])
        try:
            return self._structure(*node)
        except Malformed:
            raise
        except (TypeError, ValueError, KeyError, IndexError, OverflowError, RuntimeError) as error:
            raise Malformed(f"a node of the kind {node[0][:20]!r} is wrong: {type(error).__name__}") from None
        finally:
            self._depth -= 1

    def keep(self, number: Any, value: Any) -> Any:
        """Note that the two sides know an object by a number."""
        if type(number) is not int or number in self.known:
            raise Malformed("an object must have a number of its own")
        self.known[number] = self.read[number] = value
        return value

    def buffer(self, index: Any) -> memoryview:
        if type(index) is not int or not 0 <= index < len(self._buffers):
            raise Malformed("a buffer must be one of the message's")
        self._left -= len(self._buffers[index])
        if self._left < 0:
            raise Malformed("a buffer must be read once")
        return self._buffers[index]

    def other(self, kind: str, rest: list[Any]) -> Any:
        """A node of a kind that only some sides know."""
        raise Malformed(f"a node can't be of the kind {kind[:20]!r}")

    def put(self, value: Any, content: Any) -> None:
        """Give an object that has a number what stands inside it now."""
        if isinstance(value, list) and type(content) is list:
            value[:] = [self.value(entry) for entry in content]
        elif isinstance(value, dict) and type(content) is list:
            self._bounds.hashes(len(content))
            entries = [(self.value(key), self.value(entry)) for key, entry in content]
            value.clear()
            value.update(entries)
        elif isinstance(value, torch.Tensor):
            with torch.no_grad():
                new = self._tensor(*content)
                if new.shape != value.shape or new.dtype != value.dtype:
                    value.data = new
                elif not torch.equal(new, value):  # what stays is not touched, or graphs would be spoilt
                    value.copy_(new)
        elif isinstance(value, np.ndarray):
            value[...] = self._array(*content)
        elif isinstance(value, torch.Generator):
            value.set_state(torch.frombuffer(bytearray(self.buffer(content)), dtype=torch.uint8))
        elif isinstance(value, np.random.Generator):
            value.bit_generator.state = self.value(content)
        else:
            raise Malformed("this object can't be changed")

    def _structure(self, kind: str, *rest: Any) -> Any:
        match kind, rest:
            case "ref", (number,):
                if number in self._unfinished:
                    raise Malformed("a value must not hold itself")
                self._bounds.spells_out(self.known[number])
                return self.known[number]
            case "tuple", (entries,):
                return tuple([self.value(entry) for entry in entries])
            case "list" | "dict", (number, content):
                made: Any = self.keep(number, [] if kind == "list" else {})
                self._unfinished.add(number)
                self.put(made, content)
                self._unfinished.remove(number)
                return made
            case "tensor", (number, content, flag, slope):
                return self.tensor(number, self._tensor(*content), flag, slope)
            case "array", (number, content):
                return self.keep(number, self._array(*content))
            case "scalar", (dtype, index):
                return self._plain(bytes(self.buffer(index)), self._dtype(dtype), 1)[0]
            case "int", (digits,):
                return int(digits[:2100], 16)
            case "complex", ((real, imaginary),):
                return complex(real, imaginary)
            case "bytes", (index,):
                return bytes(self.buffer(index))
            case (("set" | "frozenset"), (entries,)):
                self._bounds.hashes(len(entries))
                return (set if kind == "set" else frozenset)([self.value(entry) for entry in entries])
            case "...", ():
                return ...
            case (("slice" | "range"), (ends,)):
                made = (slice if kind == "slice" else range)(*[self.value(end) for end in ends])
                self._bounds.spells_out(made)
                return made
            case "dtype", ("torch", name):
                return _TENSORS[name]
            case "dtype", ("numpy", name):
                return self._dtype(name)
            case "torch generator", (number, index):
                generator = self.keep(number, torch.Generator())
                self.put(generator, index)
                return generator
            case "numpy generator", (number, content):
                state = self.value(content)
                made = np.random.Generator(np.random.PCG64(0))  # the others would read past a forged state
                made.bit_generator.state = state
                return self.keep(number, made)
            case "opaque", (name,):
                return opaque(name)
        return self.other(kind, list(rest))

    def tensor(self, number: Any, made: torch.Tensor, flag: Any, slope: Any) -> Any:
        if flag:
            made.requires_grad_()
            self.inputs[number] = made
            if flag == 2:  # no leaf: it may be written into
                made = made.clone()
        self.keep(number, made)
        if flag != 2:
            self.put_slope(made, slope)
        return made

    def put_slope(self, leaf: torch.Tensor, node: Any) -> None:
        """Give a leaf the gradient that it holds on the other side."""
        slope = self.value(node)
        fits = isinstance(slope, torch.Tensor) and slope.shape == leaf.shape and slope.dtype == leaf.dtype
        leaf.grad = slope.detach() if fits else None

    @staticmethod
    def _dtype(name: Any) -> np.dtype:
        dtype = np.dtype(name) if type(name) is str and len(name) < 20 else None
        if dtype is None or dtype.kind not in _KINDS or dtype.names or dtype.subdtype:
            raise Malformed("an array must hold plain data")
        return dtype

    @staticmethod
    def _shape(shape: Any) -> tuple[int, ...]:
        if type(shape) is not list or len(shape) > _AXES:
            raise Malformed(f"a shape must be a list of at most {_AXES} sizes")
        if any(type(n) is not int or not 0 <= n < 2**40 for n in shape):
            raise Malformed("a size must be an integer of at least 0")
        return tuple(shape)

    def _tensor(self, name: Any, shape: Any, index: Any) -> torch.Tensor:
        dtype, size, data = _TENSORS[name], self._shape(shape), self.buffer(index)
        if math.prod(size) * dtype.itemsize != len(data):
            raise Malformed("a tensor must have as many bytes as its shape says")
        if not len(data):
            return torch.zeros(size, dtype=dtype)
        made = torch.frombuffer(bytearray(data), dtype=torch.uint8 if dtype == torch.bool else dtype)
        return torch.empty(size, dtype=dtype).copy_((made != 0 if dtype == torch.bool else made).view(size))

    def _array(self, name: Any, shape: Any, index: Any) -> np.ndarray:
        size = self._shape(shape)
        if name == "object":
            if type(index) is not list or len(index) != math.prod(size):
                raise Malformed("an array must have as many entries as its shape says")
            made = np.empty(len(index), dtype=object)
            for i, entry in enumerate(index):
                made[i] = self.value(entry)
            return made.reshape(size)
        dtype, data = self._dtype(name), self.buffer(index)
        if math.prod(size) * dtype.itemsize != len(data):
            raise Malformed("an array must have as many bytes as its shape says")
        made = self._plain(data, np.dtype(np.uint8) if dtype.kind == "b" else dtype)
        return (made != 0 if dtype.kind == "b" else made).reshape(size).copy()

    @staticmethod
    def _plain(data: bytes | memoryview, dtype: np.dtype, count: int = -1) -> np.ndarray:
        if (
            dtype.kind == "U"
            and np.frombuffer(data, np.dtype("u4").newbyteorder(dtype.byteorder)).max(initial=0)
            > sys.maxunicode
        ):
            raise Malformed("a text must be made of characters")  # whoever shows it would fail
        return np.frombuffer(data, dtype=dtype, count=count)
