"""The grader's side: a student's function that stands in another process and is called like any other.

    with Sandbox(Limits()) as sandbox:
        grader = Grader(sandbox)
        grader.cell("def my_loss(x): ...", 60.0)
        checks.run("pg-loss", grader.name("my_loss"))

Nothing of the student's runs here. What the function returns comes back as plain values, or as a
`StudentFunction` where it is a function itself. What it raises comes as an exception of the same name, and
arguments that it changes in place are changed. Where the process doesn't answer, `Ended` is raised, which no
check takes for an answer.
"""

from __future__ import annotations

import builtins
import io
import itertools
import json
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ppobook.teaching.checks import Mistake, Stop

from .channel import Graphs, Request, Side, attach, base_of, raised_as
from .limits import Ended
from .sandbox import Sandbox
from .serialization import Malformed, Reader, differentiable, opaque, pack, sent_generator, sent_tensor

__all__ = ["Grader", "StudentFunction"]

# Characters of an exception's name, its message and its line, and of all that a finding says.
NAME = 60
MESSAGE = 500
LINE = 160
FINDING = 200
# What a function may ask of objects that stay with the grader: these and no more.
_LENDS = {
    "gymnasium.vector.sync_vector_env.SyncVectorEnv": (
        *("reset", "step", "num_envs", "metadata", "single_observation_space", "single_action_space"),
        *("observation_space", "action_space"),
    )
}
_PLAIN = (type(None), bool, int, float, str, bytes, tuple)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_CHANGE = (list, dict, np.ndarray, torch.Tensor, np.random.Generator, torch.Generator)
# Packages that a sandbox has too, so that their classes and functions can be named.
_THERE = (
    "builtins",
    "collections",
    "pickle",
    "copyreg",
    "functools",
    "fractions",
    "numpy",
    "torch",
    "ppobook",
)
_CHECKS, _BESIDE = "ppobook.teaching.checks.", "ppobook.teaching.checks.beside."
_WORLDS = ("ppobook.envs.tabular", "gymnasium.spaces.")


class StudentFunction:
    """Stands for a function in the student's process.

    `given` is what the call was given that it came out of: it may hold on to that, so changes are passed on.
    """

    def __init__(self, grader: Grader, number: int, name: str, given: tuple[Any, ...]) -> None:
        self._grader, self._number, self.__name__, self._given = grader, number, name, given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._grader.ask(["call", self._number], (self._given, *args), kwargs)

    def beside(self, name: str, companion: Callable[..., Any], *args: Any) -> Any:
        """Run a check's function in the student's process, around the call, and return its result.

        The companion is a function of a module of the checks; its first argument is the student's function.
        """
        return self._grader.ask(["beside", self._number, name], (companion, *args))


class _StudentNetwork(nn.Module):
    """A student's network. Its parameters are here; what it does with them is asked for."""

    def __init__(self, forward: StudentFunction, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self._forward = forward
        for path, parameter in parameters.items():
            place: nn.Module = self
            *above, last = path.split(".")
            for part in above:
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place._modules[part]  # type: ignore[assignment]
            place.register_parameter(last, parameter)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(dict(self.named_parameters()), *args, **kwargs)


class Grader(Side):
    """The grader's end of the channel to one submission's process."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox.reads, sandbox.writes)
        self.sandbox = sandbox
        self.ended: Ended | None = None
        self.count = itertools.count(1)
        # By id(): the number, and the object, of what stays the same object there from call to call.
        self.shared: dict[int, tuple[int, Any]] = {}
        self._functions: dict[int, StudentFunction] = {}
        self._raised: dict[int, BaseException] = {}
        self._asking: list[Any] = []

    def cell(self, source: str, seconds: float) -> dict[str, Any] | None:
        """Run a cell; None, or its error as a dict with `type`, `message` and `line`."""
        found = self.ask(["cell", source, seconds])
        if found is None:
            return None
        if not isinstance(found, dict) or not all(isinstance(found.get(k), str) for k in ("type", "message")):
            raise Ended("forged", "an answer was none")
        return found

    def name(self, expression: str) -> Any:
        """Return an object of the student's notebook by its expression. Earlier loans end."""
        self.lent.clear()
        self._numbers.clear()
        self.shared.clear()
        return self.ask(["name", expression])

    def ask(self, verb: list[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if self.ended is not None:
            raise self.ended
        self._asking.append(verb[0])
        answered = False
        try:
            found = super().ask(verb, args, kwargs)
            answered = True
            return found
        except Ended as ended:
            self.ended = self.sandbox.explain(ended)
            raise self.ended from None
        except Exception:
            answered = True
            raise
        finally:
            self._asking.pop()
            if not self._asking:
                self._raised.clear()
            if not answered and self.ended is None:  # a check's clock rang in the middle of an answer
                self.ended = Ended("time", "it took too long")
            if self.ended is not None:
                self.sandbox.kill()

    def do(self, verb: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        match verb:
            case ["get", int() as number, str() as name]:
                owner = self.lent.get(number)
                names = _lends(owner) or ()
                if name in names:
                    return getattr(owner, name)
                refuse = getattr(type(owner), "__getattr__", None) if names else None
                if refuse is None or name.startswith("_"):
                    raise AttributeError(f"it has no {name[:60]!r}")
                return refuse(owner, name)
        return super().do(verb, args, kwargs)

    # --- writing pickles

    def write_request(self, verb: Any, args: Any, kwargs: Any, context: Any) -> tuple[bytes, dict[int, Any]]:
        file = io.BytesIO()
        pickler = _Pickler(file, self)
        pickler.dump((tuple(verb), args, kwargs, (*context[:-1], tuple(context[-1])), pickler.tracked))
        return file.getvalue(), pickler.sent

    def write_reply(self, request: Request, found: Any, *, raised: bool) -> tuple[bytes, dict[int, Any]]:
        if raised:
            number = len(self._raised) + 1
            self._raised[number] = found
            found = type(found).__name__, base_of(found), str(found)[:5000], number
        file = io.BytesIO()
        pickler = _Pickler(file, self, graphs={})
        pickler.dump((found, self.random_changed(), request.objects))
        return file.getvalue(), pickler.graphs or {}

    # --- reading JSON

    def read_request(self, data: bytes) -> Request:
        reader = _Reader(self, {n: value for n, value in self.shared.values()})
        verb, args, kwargs, context = (reader.value(node) for node in json.loads(data))
        own = {n: value for n, value in reader.known.items() if n < 0}
        leaves = {n: getattr(t, "leaf", t) for n, t in own.items() if isinstance(t, torch.Tensor)}
        inputs = {n: leaf for n, leaf in leaves.items() if leaf.requires_grad}
        generators = {n: v for n, v in own.items() if isinstance(v, np.random.Generator | torch.Generator)}
        return Request(verb, args, kwargs, context, inputs, generators)

    def read_reply(self, data: bytes, sent: dict[int, Any], graphs: Graphs, *, raised: bool) -> Any:
        payload, changes, chance = json.loads(data)
        given = tuple(v for v in sent.values() if isinstance(v, torch.Tensor | np.ndarray))
        reader = _Reader(self, dict(self.shared.values()) | sent, graphs, given)
        for number, content in changes:
            if not _is_world(sent[number]):
                reader.put(sent[number], content)
        self.set_random(reader.value(chance))
        found = reader.value(payload)
        if reader.functions:
            self.shared |= {id(v): (n, v) for n, v in sent.items() if any(v is one for one in given)}
        return self._exception(reader, found) if raised else found

    def function(self, number: int, name: str, given: tuple[Any, ...]) -> StudentFunction:
        if number not in self._functions:
            self._functions[number] = StudentFunction(self, number, name, given)
        return self._functions[number]

    def _exception(self, reader: Reader, described: Any) -> BaseException:
        """A fresh exception class of the same name; or one of ours that went through the student's code."""
        if not isinstance(described, dict):
            raise Malformed("an exception must be described")
        if (lent := described.get("lent")) in self._raised:
            return self._raised[lent]
        finding = described.get("finding")
        if finding is not None and self._asking[-1:] == ["beside"]:  # a student's own is one like any other
            return _finding(finding)
        base = getattr(builtins, str(described.get("base")), Exception)
        if not isinstance(base, type) or not issubclass(base, Exception):
            base = Exception
        name, message = str(described.get("type"))[:NAME], str(described.get("message"))[:MESSAGE]
        line, in_cell = described.get("line"), None
        if isinstance(line, tuple) and len(line) == 2 and type(line[0]) is int and abs(line[0]) < 2**31:
            in_cell = line[0], str(line[1])[:LINE]
        return raised_as(name if name.isidentifier() else "Exception", base, message, in_cell=in_cell)


class _Pickler(pickle.Pickler):
    """Writes what the student's process reads.

    Functions and objects of the checks stay here and are lent. `tracked` is what the message brings that can
    change there, each with its number; `graphs` is given for an answer: its tensors that carry a graph.
    """

    def __init__(
        self, file: io.BytesIO, grader: Grader, graphs: dict[int, torch.Tensor] | None = None
    ) -> None:
        super().__init__(file, protocol=5)
        self._grader, self.graphs = grader, graphs
        self.tracked: list[tuple[int, Any]] = []
        self.sent: dict[int, Any] = {}
        self._seen = {id(self.tracked)}

    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return None
        grader, shared = self._grader, self._grader.shared.get(id(value))
        graph = kind is torch.Tensor and value.requires_grad and not value.is_leaf
        if graph and self.graphs is not None:
            number = next((n for n, one in self.graphs.items() if one is value), None)
            if number is not None:
                return "shared", number, None, None
            number = next(grader.count)
            self.graphs[number] = value
            return "graph", number, pack(value)
        if shared is not None or isinstance(value, nn.Module | nn.Parameter) or _shares(value):
            number, _ = grader.shared.setdefault(id(value), shared or (next(grader.count), value))
            if number in self.sent:
                return "shared", number, None, None
            self.sent[number] = value
            return "shared", number, _kind(value), _state(value)
        if kind in _CHANGE:
            if id(value) not in self._seen:
                self._seen.add(id(value))
                self.sent[next_number := next(grader.count)] = value
                self.tracked.append((next_number, value))
            return None
        if isinstance(value, StudentFunction):
            return "yours", value._number
        if isinstance(value, (type, *_FUNCTIONS)):
            owner = getattr(value, "__self__", None)
            if _named_there(value) or isinstance(owner, list) or _shares(owner):
                return None
        elif _lends(value) is None and _there(kind.__module__):
            return None
        if _lends(value) is not None or (callable(value) and not isinstance(value, type)):
            name = value.__name__ if isinstance(value, _FUNCTIONS) else kind.__name__
            return "lent", grader.lend(value), name, callable(value)
        raise TypeError(
            f"`value` must be something that can be sent, got {kind.__module__}.{kind.__qualname__}"
        )

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.random.Generator):
            return sent_generator, (value.bit_generator.state,)
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        graph = value.requires_grad and not value.is_leaf
        slope = pack(value.grad) if value.is_leaf and value.grad is not None else None
        return sent_tensor, (*pack(value), value.requires_grad, slope, graph)


def _shares(value: Any) -> bool:
    return getattr(type(value), "__travels__", False) or _is_world(value)


def _is_world(value: Any) -> bool:
    """Return whether it is an environment or a space, which no student's function can change."""
    return type(value).__module__.startswith(_WORLDS) and not isinstance(value, tuple | type)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return "parameter" if isinstance(value, nn.Parameter) else "tensor"
    return "array" if isinstance(value, np.ndarray) else "world" if _is_world(value) else type(value)


def _state(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        slope = pack(value.grad) if value.is_leaf and value.grad is not None else None
        return (*pack(value), value.requires_grad, slope)
    if isinstance(value, np.ndarray):
        return pack(value)
    return pickle.dumps(value) if _is_world(value) else tuple(vars(value).items())


def _there(module: str) -> bool:
    """Return whether a student's process has a module."""
    hidden = module.startswith(_CHECKS) and not module.startswith(_BESIDE)
    return module.partition(".")[0] in _THERE and not hidden


def _named_there(value: Any) -> bool:
    """Return whether a student's process can find a function or a class by its name."""
    module = getattr(value, "__module__", None) or ""
    if not _there(module):
        return False
    found: Any = sys.modules.get(module)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _lends(value: Any) -> tuple[str, ...] | None:
    """Return the operations that the student's process may ask of an object that stays here."""
    kind = type(value)
    return getattr(kind, "__lends__", _LENDS.get(f"{kind.__module__}.{kind.__qualname__}"))


class _Reader(Reader):
    """Reads what the student's process sends: functions and networks of its own too."""

    def __init__(
        self,
        grader: Grader,
        known: dict[int, Any],
        graphs: Graphs | None = None,
        given: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(known)
        self._grader, self._graphs, self._given = grader, graphs, given
        self.functions = 0

    def graph(self, number: int, value: torch.Tensor) -> torch.Tensor:
        if self._graphs is None or not self._graphs.inputs:
            return differentiable(value)
        return attach(self._graphs, number, value)

    def other(self, kind: str, rest: tuple[Any, ...]) -> Any:
        match kind, rest:
            case "function", (int() as number, str() as name):
                self.functions += 1
                return self._grader.function(number, name[:NAME], self._given)
            case "parameter", (number, name, shape, data, requires_grad, slope):
                made = nn.Parameter(self._packed(name, shape, data), requires_grad=bool(requires_grad))
                made.grad = self._slope(made, slope)
                return self.keep(number, made)
            case "network", (function, parameters):
                found = {str(key): self.value(node) for key, node in parameters}
                return _StudentNetwork(self.value(function), found)
            case "yours", (int() as number,):
                return self._grader.lent.get(number, opaque("lent"))
        return super().other(kind, rest)


def _finding(found: Any) -> BaseException:
    """A `Mistake` or a `Stop` that a part of the check raised in the student's process. Never a good one.

    It may have been forged there, so it says little: numbers, and a short text.
    """
    match found:
        case ("mistake", str() as name, str() as section, dict() as values):
            plain = all(isinstance(value, bool | int | float | str) for value in values.values())
            size = len("".join([name, section, *map(str, values.values())]))
            if plain and size <= FINDING and all(isinstance(key, str) for key in values):
                left_out = ("name", "section", "headline", "self")
                kept = {key: value for key, value in values.items() if key not in left_out}
                return Mistake(name, section=section, **kept)
        case ("stop", ("raised" | "returned" | "not yet") as kind, str() as name, list() as paragraphs):
            return Stop(kind, name[:NAME], *(str(text)[:MESSAGE] for text in paragraphs[:2]))
    raise Malformed("a finding must be a mistake or a stop")
