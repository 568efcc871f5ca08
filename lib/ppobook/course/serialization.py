"""The form in which values travel between the grader and a student's process: JSON, with bytes in base64.

Reading it makes numbers, text, containers, arrays and tensors and runs no code of the sender's. The student's
process reads a few kinds of nodes more, which only the grader writes: see `ppobook.course.calls`.

    data = json.dumps(Writer().node({"loss": torch.ones(2)}))
    Reader().value(json.loads(data))
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

LARGEST = 8 * 2**20  # bytes of a message
_ENTRIES = 500_000  # of an iterator, and of lists that are copied in a message
_KEYS = 10_000  # keys of dicts in a message, because keys with equal hashes are compared pairwise
_KINDS = "biufc"  # the kinds of NumPy arrays that are sent as bytes


class Malformed(ValueError):  # noqa: N818
    """The bytes are not a message of this form."""


def opaque(name: str) -> Any:
    """Make an object in place of one that cannot be sent; it has nothing of it but the name of its class."""
    kept = "".join(c for c in name[:60] if c.isalnum() or c in " _.-") or "value"
    return type(kept, (), {})()


class Writer:
    """Writes the nodes of one message.

    `known` holds, by their numbers, objects that the reader has. An array, a tensor or a generator gets a
    number, so that it arrives as one object where it stands twice.
    """

    def __init__(self, known: Mapping[int, Any] | None = None) -> None:
        self._numbers = {id(value): number for number, value in (known or {}).items()}
        self.sent: dict[int, Any] = {}  # what was given a number in this message
        self.graphs: dict[int, torch.Tensor] = {}  # of those, what carries an autograd graph

    def node(self, value: Any) -> Any:
        """A value as JSON."""
        if (number := self._numbers.get(id(value))) is not None:
            return ["ref", number]
        return self._node(value)

    def _node(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return self.node(value.item())
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, bytes):
            return ["bytes", encoded(value)]
        if isinstance(value, tuple):
            return ["tuple", *self.content([*value])]
        if isinstance(value, list | dict):
            return ["list" if isinstance(value, list) else "dict", None, *self.content(value)]
        if isinstance(value, np.ndarray) and value.dtype.kind not in _KINDS:
            return self.node(value.tolist())
        kind = _kind(value)
        return self.numbered(kind, value) if kind else self.other(value)

    def numbered(self, kind: str, value: Any) -> list[Any]:
        """A node for an object that can change and be referred to."""
        number = self._numbers[id(value)] = self.number(value)
        self.sent[number] = value
        if kind == "graph":
            self.graphs[number] = value
        return [kind, number, *self.content(value)]

    def number(self, value: Any) -> int:
        return -1 - len(self.sent)

    def content(self, value: Any) -> list[Any]:
        """The content of an object that can change, without its identity."""
        if isinstance(value, list):
            return [[self.node(entry) for entry in value]]
        if isinstance(value, dict):
            return [[[self.node(key), self.node(entry)] for key, entry in value.items()]]
        if isinstance(value, np.random.Generator):
            return [self.node(value.bit_generator.state)]
        if isinstance(value, torch.Generator):
            return [encoded(value.get_state().numpy().tobytes())]
        if isinstance(value, np.ndarray):
            return packed(value)
        if isinstance(value, torch.Tensor):
            slope = value.grad if value.is_leaf else None
            return [*packed(value), value.requires_grad, None if slope is None else packed(slope)]
        plain = bool | int | float | str | list | dict | tuple | np.ndarray | torch.Tensor | None
        kept = {k: entry for k, entry in vars(value).items() if k[0] != "_" and isinstance(entry, plain)}
        return [[[key, self.node(entry)] for key, entry in kept.items()]]

    def other(self, value: Any) -> Any:
        """A node for what is neither a number nor text, a container, an array, a tensor or a generator."""
        if isinstance(value, Mapping):
            return self.node(dict(value))
        if isinstance(value, Iterator | Sequence):
            return self.node(list(itertools.islice(value, _ENTRIES)))
        if hasattr(value, "__array__"):
            return self.node(np.asarray(value))
        return float(value) if hasattr(value, "__float__") else ["opaque", type(value).__name__]


def packed(value: Any) -> list[Any]:
    """The dtype, the shape and the bytes of a tensor or an array."""
    shape = list(value.shape)
    if isinstance(value, torch.Tensor):
        value = value.numpy(force=True)
    return [value.dtype.str, shape, encoded(np.ndarray.tobytes(value))]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _kind(value: Any) -> str:
    """The kind of node of an array, a tensor or a generator; empty for other values."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.device.type != "cpu":
            return ""
        graph = value.requires_grad and not value.is_leaf
        return "graph" if graph else "parameter" if isinstance(value, nn.Parameter) else "tensor"
    if isinstance(value, np.random.Generator):
        return "numpy generator" if type(value.bit_generator) is np.random.PCG64 else ""
    if isinstance(value, torch.Generator):
        return "torch generator"
    return "array" if isinstance(value, np.ndarray) else ""


# A tensor's number and the tensor, to the tensor with its graph.
Attach = Callable[[int, torch.Tensor], torch.Tensor]


class Reader:
    """Reads the nodes of one message.

    `known` holds what the sender may refer to by a number, and `attach` gives a tensor, with its number, the
    autograd graph that it has on the sender's side.
    """

    def __init__(self, known: MutableMapping[int, Any] | None = None, attach: Attach | None = None) -> None:
        self.known = {} if known is None else known
        self.objects: dict[int, Any] = {}  # what has a number in this message
        self._attach = attach
        self._containers: set[int] = set()  # lists and dicts that were referred to
        self._keys = self._copied = 0

    def value(self, node: Any) -> Any:
        """The value of a node; it raises Malformed for one that `Writer` does not write."""
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
            value[:] = [self.value(entry) for entry in content[0]]
        elif isinstance(value, dict):
            entries = self._dict(content[0])
            value.clear()
            value.update(entries)
        elif isinstance(value, np.random.Generator):
            value.bit_generator.state = self.value(*content)
        elif isinstance(value, torch.Generator):
            value.set_state(torch.frombuffer(bytearray(base64.b64decode(*content)), dtype=torch.uint8))
        elif isinstance(value, np.ndarray):
            value[...] = _array(*content)
        elif isinstance(value, torch.Tensor):
            _put_tensor(value, *content)
        else:
            self.put_object(value, content[0])

    def put_object(self, value: Any, entries: Any) -> None:
        """Change those attributes of an object that are there, are no functions and have a public name."""
        own = {key: entry for key, entry in vars(value).items() if key[0] != "_" and not callable(entry)}
        vars(value).update({key: self.value(node) for key, node in entries if key in own})

    def _value(self, kind: str, *rest: Any) -> Any:
        match kind, rest:
            case "ref", (number,):
                return self.referred(number)
            case "tuple", (entries,):
                return tuple([self.value(entry) for entry in entries])
            case "bytes", (data,):
                return base64.b64decode(data)
            case "opaque", (str() as name,):
                return opaque(name)
            case "array", (number, *content):
                return self.keep(number, _array(*content))
            case "graph", (number, name, shape, data, *_):
                made = _tensor(name, shape, data)
                made = differentiable(made) if self._attach is None else self._attach(number, made)
                return self.keep(number, made)
            case "list" | "dict" | "tensor" | "parameter" | "numpy generator" | "torch generator", (
                number,
                *content,
            ):
                made = self.keep(number, self._made(kind, content))
                self.put(made, content)
                return made
        return self.other(kind, rest)

    def _made(self, kind: str, content: list[Any]) -> Any:
        """A new object of a kind, whose content comes next."""
        if kind in ("tensor", "parameter"):
            made = _tensor(*content[:3])
            return made if kind == "tensor" else nn.Parameter(made, requires_grad=bool(content[3]))
        if kind == "numpy generator":
            return np.random.Generator(np.random.PCG64(0))
        return {"list": list, "dict": dict, "torch generator": torch.Generator}[kind]()

    def referred(self, number: Any) -> Any:
        found = self.known[number]
        if isinstance(found, list | dict) and number in self._containers:
            self._copied += len(found)
            entries = found.values() if isinstance(found, dict) else found
            # Named twice, a few of them could unfold to millions.
            if self._copied > _ENTRIES or any(isinstance(one, list | dict | tuple) for one in entries):
                raise Malformed("only lists of values may stand twice in a message, and not too many")
            return found.copy()
        self._containers.add(number)
        return found

    def keep(self, number: Any, value: Any) -> Any:
        """Note an object by the number that its sender gave to it; a list or a dict may have none."""
        if number is None and isinstance(value, list | dict):
            return value
        if type(number) is not int or number >= 0 or number in self.known:
            raise Malformed("an object must have a number of its own")
        self.known[number] = self.objects[number] = value
        return value

    def other(self, kind: str, rest: tuple[Any, ...]) -> Any:
        """The value of a node of another kind."""
        raise Malformed("a node must be of a kind that there is")

    def _dict(self, entries: Any) -> dict[Any, Any]:
        self._keys += len(entries)
        if self._keys > _KEYS:
            raise Malformed(f"dicts must have at most {_KEYS} keys")
        return {self.value(key): self.value(entry) for key, entry in entries}


def differentiable(value: torch.Tensor) -> torch.Tensor:
    """A copy that gradients go through, and that may be written into; `leaf` is where they arrive."""
    leaf = value.requires_grad_()
    made = leaf.clone()
    made.leaf = leaf  # type: ignore[attr-defined]
    return made


def _put_tensor(
    value: torch.Tensor, name: Any, shape: Any, data: Any, requires_grad: Any, packed: Any
) -> None:
    """Change a tensor in place. Where nothing changed it is not touched, because graphs may need it."""
    new, slope = _tensor(name, shape, data), None if packed is None else _tensor(*packed)
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
        fits = slope is not None and (slope.shape, slope.dtype) == (value.shape, value.dtype)
        value.grad = slope if fits else None


def _array(name: Any, shape: Any, data: Any) -> np.ndarray:
    """The array of which `packed` gave the dtype, the shape and the bytes."""
    dtype = np.dtype(name)
    if len(name) > 4 or dtype.kind not in _KINDS:
        raise Malformed("an array must hold numbers")
    made: np.ndarray = np.ndarray(
        shape, np.uint8 if dtype.kind == "b" else dtype, bytearray(base64.b64decode(data))
    )
    return made != 0 if dtype.kind == "b" else made


def _tensor(name: Any, shape: Any, data: Any) -> torch.Tensor:
    return torch.from_numpy(_array(name, shape, data))
