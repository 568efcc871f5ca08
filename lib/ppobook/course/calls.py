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
import pickle
import sys
import types
from collections import ChainMap, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from ppobook.teaching.checks import Mistake, Stop, TooSlow

from .channel import Side, raised_as
from .sandbox import Ended, Sandbox
from .serialization import Attach, Malformed, Reader, Writer, encoded, opaque

# Characters of an exception's name, its message and its line, and of all that a finding says.
NAME = 60
MESSAGE = 500
LINE = 160
FINDING = 200
DEEPEST = 20  # levels of a network
# What a function may ask of objects that stay with the grader: these and no more.
_LENDS = {
    "gymnasium.vector.sync_vector_env.SyncVectorEnv": (
        *("reset", "step", "num_envs", "metadata", "single_observation_space", "single_action_space"),
        *("observation_space", "action_space"),
    )
}
_METHODS = (types.BuiltinFunctionType, types.MethodType)
_FUNCTIONS = (types.FunctionType, *_METHODS)
# Packages that a sandbox has too, so that their classes and functions can be named.
_THERE = ("builtins", "collections", "functools", "fractions", "gymnasium", "numpy", "torch", "ppobook")
_CHECKS, _BESIDE = "ppobook.teaching.checks.", "ppobook.teaching.checks.beside."


class StudentFunction:
    """Stands for a function in the student's process."""

    def __init__(self, grader: Grader, number: int, name: str) -> None:
        self._grader, self._number, self.__name__ = grader, number, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._grader.ask(("call", self._number), args, kwargs)

    def beside(self, name: str, companion: Callable[..., Any], *args: Any) -> Any:
        """Run a check's function in the student's process, around the call, and return its result.

        The companion is a function of a module of the checks; its first argument is the student's function.
        """
        return self._grader.ask(("beside", self._number, name), (companion, *args))


class _StudentNetwork(nn.Module):
    """A student's network. Its parameters are here; what it does with them is asked for."""

    def __init__(self, forward: StudentFunction, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self._forward = forward
        for path, parameter in parameters.items():
            place: nn.Module = self
            *above, last = path.split(".")
            if len(above) > DEEPEST:
                raise Malformed(f"a network must have at most {DEEPEST} levels")
            for part in above:
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place._modules[part]  # type: ignore[assignment]
            place.register_parameter(last, parameter)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(dict(self.named_parameters()), *args, **kwargs)


class Grader(Side):
    """The grader's end of the channel to one submission's process."""

    ends = (Ended, TooSlow)

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox.reads, sandbox.writes)
        self.writer, self.reader = partial(_Writer, self), partial(_Reader, self)
        self.sandbox = sandbox
        self.ended: Ended | None = None
        self.ids: dict[int, int] = {}  # the numbers of `objects`, by id()
        self.functions: dict[int, StudentFunction] = {}
        self._raised: dict[int, BaseException] = {}
        self._asking: list[Any] = []

    def cell(self, source: str, seconds: float) -> dict[str, Any] | None:
        """Run a cell; None, or its error as a dict with `type`, `message` and `line`."""
        found = self.ask(("cell", source, seconds))
        if found is None:
            return None
        if not isinstance(found, dict) or not all(isinstance(found.get(k), str) for k in ("type", "message")):
            raise Ended("forged")
        return found

    def name(self, expression: str) -> Any:
        """Return an object of the student's notebook by its expression. Earlier loans end."""
        for held in (self.lent, self._numbers, self.objects, self.ids, self._graphs):
            held.clear()
        return self.ask(("name", expression))

    def ask(self, verb: tuple[Any, ...], args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if self.ended is not None:
            raise self.ended
        self._asking.append(verb[0])
        answered = False
        try:
            found = super().ask(verb, args, kwargs)
            answered = True
            return found
        except Ended as ended:
            self.ended = Ended(self.sandbox.reason) if self.sandbox.reason else ended
            raise self.ended from None
        except Exception:
            answered = True
            raise
        finally:
            self._asking.pop()
            if not self._asking:
                self._raised.clear()
            if not answered and self.ended is None:  # a check's clock rang in the middle of an answer
                self.ended = Ended("time")
            if self.ended is not None:
                self.sandbox.kill()

    def do(self, verb: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        match verb:
            case ("get", int() as number, str() as name):
                owner = self.lent.get(number)
                names = _lends(owner) or ()
                if name in names:
                    return getattr(owner, name)
                refuse = getattr(type(owner), "__getattr__", None) if names else None
                if refuse is None or name.startswith("_"):
                    raise AttributeError(f"it has no {name[:60]!r}")
                return refuse(owner, name)
        return super().do(verb, args, kwargs)

    def seed(self) -> int:
        """Drawn from the generator that a check seeds: what is seeded again draws the same again."""
        return int(torch.randint(2**62, (1,)))

    def described(self, error: BaseException) -> dict[str, Any]:
        number = len(self._raised) + 1
        self._raised[number] = error
        return {**super().described(error), "number": number}

    def exception(self, described: Any) -> BaseException:
        """A fresh exception class of the same name; or one of ours that went through the student's code."""
        if not isinstance(described, dict):
            raise Malformed("an exception must be described")
        if (lent := described.get("lent")) in self._raised:
            return self._raised[lent]
        finding = described.get("finding")
        if finding is not None and self._asking[-1:] == ["beside"]:  # a student's own is one like any other
            return _finding(finding)
        base = getattr(builtins, str(described.get("base")), Exception)
        if not isinstance(base, type) or not issubclass(base, Exception) or issubclass(base, ExceptionGroup):
            base = Exception
        name, message = str(described.get("type"))[:NAME], str(described.get("message"))[:MESSAGE]
        line, in_cell = described.get("line"), None
        if isinstance(line, tuple) and len(line) == 2 and type(line[0]) is int and abs(line[0]) < 2**31:
            in_cell = line[0], str(line[1])[:LINE]
        return raised_as(name if name.isidentifier() else "Exception", base, message, in_cell=in_cell)


class _Writer(Writer):
    """Writes what the student's process reads: lists and dicts, networks and optimizers with a number too.

    A number stays until the next name is asked for, so that a network is the same object there in each call.
    Functions and objects of the checks stay here and are lent. What else there is goes as a pickle.
    """

    def __init__(self, grader: Grader, known: dict[int, Any]) -> None:
        super().__init__(known)
        self._grader = grader

    def number(self, value: Any) -> int:
        number = self._grader.ids.setdefault(id(value), len(self._grader.ids) + 1)
        self._grader.objects[number] = value
        return number

    def _node(self, value: Any) -> Any:
        kind = type(value)
        if kind in (list, dict):
            return self.numbered(kind.__name__, value)
        if isinstance(value, tuple | list | dict) and kind is not tuple:
            return self.other(value)
        if kind is np.ndarray and value.dtype.kind == "O":
            return self.other(value)
        return super()._node(value)

    def content(self, value: Any) -> list[Any]:
        if not _moves(value):
            return super().content(value)
        own = vars(value).items()
        if isinstance(value, nn.Module):  # a new one has the hooks, none of them set
            own = {k: v for k, v in own if not isinstance(v, OrderedDict | set)}.items()
        return [[[key, self.node(entry)] for key, entry in own]]

    def other(self, value: Any) -> Any:
        if isinstance(value, StudentFunction):
            return ["yours", value._number]
        kind, owner = type(value), getattr(value, "__self__", None)
        if _moves(value):
            return [*self.numbered("object", value), self.other(kind)]
        if isinstance(value, _METHODS) and (isinstance(owner, list) or _moves(owner)):
            return ["method", self.node(owner), value.__name__]
        named = isinstance(value, (type, *_FUNCTIONS))
        if _lends(value) is None and (_named_there(value) if named else _there(kind.__module__)):
            return ["pickle", encoded(pickle.dumps(value))]
        if _lends(value) is not None or (callable(value) and not isinstance(value, type)):
            name = value.__name__ if isinstance(value, _FUNCTIONS) else kind.__name__
            return ["lent", self._grader.lend(value), name, callable(value)]
        raise TypeError(
            f"`value` must be something that can be sent, got {kind.__module__}.{kind.__qualname__}"
        )


def _moves(value: Any) -> bool:
    """Return whether it is a network, or an object that is made anew where the student's function runs."""
    return isinstance(value, nn.Module) or getattr(type(value), "__travels__", False)


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

    def __init__(self, grader: Grader, sent: dict[int, Any], attach: Attach | None) -> None:
        super().__init__(ChainMap({}, grader.objects), attach)
        self._grader = grader

    def other(self, kind: str, rest: tuple[Any, ...]) -> Any:
        match kind, rest:
            case "function", (int() as number, str() as name):
                made = StudentFunction(self._grader, number, name[:NAME])
                return self._grader.functions.setdefault(number, made)
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
            if plain and size <= FINDING and "headline" not in values:
                return Mistake(name, section=section, **values)
        case ("stop", ("raised" | "returned" | "not yet") as kind, str() as name, list() as paragraphs):
            return Stop(kind, name[:NAME], *(str(text)[:MESSAGE] for text in paragraphs[:2]))
    raise Malformed("a finding must be a mistake or a stop")
