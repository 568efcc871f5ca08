"""The grader's side: a student's function that stands in another process and is called like any other.

    with server.start(limits) as sandbox:
        grader = Grader(sandbox)
        answer = grader.name("my_loss")
        checks.run("pg-loss", answer)

Nothing of the student's runs here. What the function returns comes back as plain values, or as a `Remote`
where it is a function itself; what it raises comes as an exception of the same name; arguments that it
changes in place are changed. Where the process doesn't answer, `Ended` is raised, which no check takes
for an answer.
"""

from __future__ import annotations

import builtins
import enum
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ppobook.teaching.checks import Mistake, Stop

from .channel import Side, SideReader, SideWriter, renamed
from .inert import Malformed, opaque
from .limits import Ended

__all__ = ["MODULES", "Grader", "Remote"]

# What a student's function may return as a network: torch's own layers, with no code of the student's.
MODULES = (
    *("Linear", "Identity", "Flatten", "Sequential", "ModuleList", "LayerNorm", "Embedding", "Dropout"),
    *("Tanh", "ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Sigmoid", "Softplus", "Softmax", "LogSoftmax"),
)
# What a function may ask of objects that stay with the grader: these and no more.
LENDS = {
    "gymnasium.vector.sync_vector_env.SyncVectorEnv": (
        *(
            "reset",
            "step",
            "num_envs",
            "single_observation_space",
            "single_action_space",
            "observation_space",
        ),
        *("action_space", "metadata"),
    )
}


BUDGET = 2**30  # bytes that one process may send in all
# Characters of an exception's name, its message and its line, and of all that a finding says.
NAME = 60
MESSAGE = 500
LINE = 160
FINDING = 200


class Remote:
    """Stands for a function of the student's."""

    def __init__(self, grader: Grader, number: int, name: str) -> None:
        self._grader, self._number, self.__name__ = grader, number, name
        # What the call was given that this function came out of: it may hold on to it.
        self._given = {n: (v, _bytes(v)) for n, v in grader.given.items() if _bytes(v) is not None}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        changed = [(n, value) for n, (value, before) in self._given.items() if _bytes(value) != before]
        self._given |= {n: (value, _bytes(value)) for n, value in changed}
        numbers, values = [n for n, _ in changed], tuple(value for _, value in changed)
        return self._grader.ask(["call", self._number, numbers], (*values, *args), kwargs)

    def beside(self, name: str, companion: Callable[..., Any], *args: Any) -> Any:
        """Run a check's function in the student's process, around the call, and return its result.

        The companion is a function of a module of the checks; its first argument is the student's function.
        """
        path = f"{companion.__module__}:{companion.__qualname__}"
        return self._grader.ask(["beside", self._number, path, name], args)


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().tobytes()
    return value.tobytes() if isinstance(value, np.ndarray) else None


class _Network(nn.Module):
    """A student's own module. Its parameters are here, what it does with them is asked for."""

    def __init__(self, forward: Remote, name: str, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self._far = [forward]
        self._kind = name
        for path, parameter in parameters.items():
            place: nn.Module = self
            *above, last = path.split(".")
            for part in above:
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place._modules[part]  # type: ignore[assignment]
            place.register_parameter(last, parameter)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._far[0](dict(self.named_parameters()), *args, **kwargs)


class Grader(Side):
    """The grader's end of the channel to one submission's process.

    Parameters
    ----------
    sandbox : has a `connection`, and `close`
    """

    sign = 1

    def __init__(self, sandbox: Any) -> None:
        super().__init__(sandbox.connection)
        self.sandbox = sandbox
        self.budget = BUDGET
        self.given: dict[int, Any] = {}  # what the last call sent
        self._raised: dict[int, BaseException] = {}
        self._past: set[int] = set()  # the numbers of what was lent for another part
        self._asking: list[str] = []
        self.ended: Ended | None = None

    # --- what is asked of the worker

    def cell(self, source: str, seconds: float) -> dict[str, Any] | None:
        """Run a cell; None, or its error as a dict with `type`, `message` and `line`."""
        found = self.ask(["cell", source, seconds])
        if found is None:
            return None
        if not isinstance(found, dict) or not all(isinstance(found.get(k), str) for k in ("type", "message")):
            raise Ended("forged", "an answer was none")
        return found

    def name(self, expression: str) -> Any:
        """Return an object of the student's notebook by its expression. Objects lent before are lent no more."""
        self._past |= self.lent.keys()
        self.lent.clear()
        self._lent_ids.clear()
        return self.ask(["name", expression])

    def ask(self, verb: list[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if self.ended is not None:
            raise self.ended
        self._asking.append(verb[0])
        whole = False
        try:
            found = super().ask(verb, args, kwargs)
            whole = True
            return found
        except Ended as ended:
            self.ended = ended = self.sandbox.why(ended)
            raise ended from None
        except Exception:
            whole = True
            raise
        finally:
            self._asking.pop()
            if not self._asking:
                self._raised.clear()
            if not whole and self.ended is None:  # a check's clock rang in the middle of an answer
                self.ended = Ended("time", "it took too long")
            if self.ended is not None:
                self.sandbox.kill()

    # --- what the worker may ask

    def do(self, verb: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any], reader: SideReader) -> Any:
        match verb:
            case ["call" | "get", int() as number, *_] if number in self._past:
                raise ReferenceError("it was lent for another part, and can't be used any more")
            case ["call", int() as number] if not callable(self.lent.get(number)):
                raise Malformed("what is called must have been lent")
            case ["get", int() as number, str() as name]:
                return self._attribute(self.lent.get(number), name)
        return super().do(verb, args, kwargs, reader)

    @staticmethod
    def _attribute(owner: Any, name: str) -> Any:
        if owner is None:
            raise Malformed("what is asked for must have been lent")
        names = _lends(owner)
        if names is None:  # a function
            raise AttributeError(f"it has no {name[:60]!r}")
        if name in names:
            return getattr(owner, name)
        refuse = getattr(type(owner), "__getattr__", None)
        if refuse is None or name.startswith("_"):
            raise AttributeError(f"it has no {name[:60]!r}")
        return refuse(owner, name)

    # --- how values are written

    def write_other(self, writer: SideWriter, value: Any) -> Any:
        kind = type(value)
        path = f"{kind.__module__}:{kind.__qualname__}"
        if isinstance(value, Remote):
            return ["yours", value._number]
        if isinstance(value, _Network):
            raise TypeError("a network of the student's own can't be sent back")
        if isinstance(value, enum.Enum):
            return ["enum", path, value.name]
        if isinstance(value, tuple):  # one with names
            return ["named", path, [writer.node(entry) for entry in value]]
        if isinstance(value, functools.partial):
            return ["partial", writer.node(value.func), writer.node(value.args), writer.node(value.keywords)]
        if isinstance(value, types.FunctionType) and _by_path(value):
            return ["class", f"{value.__module__}:{value.__qualname__}"]
        if isinstance(value, type):
            return ["class", f"{value.__module__}:{value.__qualname__}"]
        if isinstance(value, nn.Module) or getattr(kind, "__travels__", False):
            with writer.lasting():
                return ["built", writer.numbered(value), path, writer.content(value)]
        if path.startswith(("ppobook.envs.tabular:", "gymnasium.spaces.")):
            with writer.fixing(), writer.lasting():
                return ["built", writer.numbered(value), path, writer.content(value)]
        if _lends(value) is not None:
            return ["lent", self.lend(value), kind.__name__, callable(value)]
        owner = getattr(value, "__self__", None)
        if isinstance(value, types.MethodType) and getattr(type(owner), "__travels__", False):
            return ["method", writer.node(owner), value.__name__]
        if callable(value):
            return ["function", self.lend(value), getattr(value, "__name__", kind.__name__)]
        raise TypeError(
            f"`value` must be something that can be sent, got {kind.__module__}.{kind.__qualname__}"
        )

    # --- and read

    def came(self, reader: SideReader, writer: SideWriter) -> None:
        self.given = {n: value for n, value in writer.sent.items() if n not in writer.fixed}

    def read_other(self, reader: SideReader, kind: str, rest: list[Any]) -> Any:
        match kind, rest:
            case "function", (int() as number, str() as name):
                if number not in self.proxies:
                    self.proxies[number] = Remote(self, number, name[:100])
                return self.proxies[number]
            case "yours", (int() as number,):
                return opaque("lent") if number in self._past else self.lent[number]
            case "iterator", (entries,):
                return iter([reader.value(entry) for entry in entries])
            case "module", (number, name, training, parameters, buffers, children, settings):
                return self._module(reader, number, name, training, parameters, buffers, children, settings)
            case "network", (function, str() as name, parameters):
                found = {str(key): reader.value(node) for key, node in parameters}
                return _Network(reader.value(function), name[:60], found)
        raise Malformed(f"a node can't be of the kind {kind[:20]!r}")

    @staticmethod
    def _module(
        reader: SideReader,
        number: Any,
        name: Any,
        training: Any,
        parameters: Any,
        buffers: Any,
        children: Any,
        settings: Any,
    ) -> nn.Module:
        if name not in MODULES:
            raise Malformed("a module must be one of torch's own")
        kind = getattr(nn, name)
        made = kind.__new__(kind)
        nn.Module.__init__(made)
        made.training = bool(training)
        for key, node in settings:
            plain = reader.value(node)
            if not key.isidentifier() or hasattr(kind, key) or key in vars(made):
                raise Malformed("a module's setting must be a plain one")
            if not isinstance(plain, bool | int | float | str | tuple | None):
                raise Malformed("a module's setting must be a plain one")
            setattr(made, key, plain)
        for key, node in parameters:
            made.register_parameter(key, reader.value(node))
        for key, node in buffers:
            made.register_buffer(key, reader.value(node))
        for key, node in children:
            made.add_module(key, reader.value(node))
        return reader.keep(number, made)

    def exception(self, reader: SideReader, described: Any) -> BaseException:
        """A fresh exception class of the same name; or one of ours that went through the student's code."""
        if not isinstance(described, dict):
            raise Malformed("an exception must be described")
        lent = described.get("lent")
        if type(lent) is int and lent in self._raised:
            return self._raised[lent]
        finding = described.get("finding")
        if finding is not None and self._asking[-1:] == ["beside"]:  # a student's own is one like any other
            return _finding(reader, finding)
        base = getattr(builtins, str(described.get("base")), Exception)
        if not isinstance(base, type) or not issubclass(base, Exception):
            base = Exception
        name, message = str(described.get("type"))[:NAME], str(described.get("message"))[:MESSAGE]
        if not name.isidentifier():
            name = "Exception"
        line = described.get("line")
        in_cell = None
        if isinstance(line, list) and len(line) == 2 and type(line[0]) is int and abs(line[0]) < 2**31:
            in_cell = line[0], str(line[1])[:LINE]
        return renamed(name, base, message, _Far, __module__="builtins", in_cell=in_cell)

    def described(self, writer: SideWriter, error: BaseException) -> dict[str, Any]:
        number = len(self._raised) + 1
        self._raised[number] = error
        return {
            "lent": number,
            "type": type(error).__name__,
            "base": base_of(error),
            "message": str(error)[:5000],
        }


class _Far:
    """Marks an exception of the student's process; `in_cell` is the line of the cell, and its text."""

    in_cell: tuple[int, str] | None = None


def _by_path(function: types.FunctionType) -> bool:
    """Return whether it is a function that the other process can import."""
    module = sys.modules.get(function.__module__)
    here = function.__module__.startswith("ppobook.teaching.checks.beside.")
    return here and getattr(module, function.__qualname__, None) is function


def base_of(error: BaseException) -> str:
    """The nearest of Python's own classes that an exception belongs to."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins" and getattr(builtins, kind.__name__, None) is kind:
            return kind.__name__
    return "Exception"


def _lends(value: Any) -> tuple[str, ...] | None:
    """Return the operations that the other process may ask of an object that stays here."""
    kind = type(value)
    return getattr(kind, "__lends__", LENDS.get(f"{kind.__module__}.{kind.__qualname__}"))


def _finding(reader: SideReader, node: Any) -> BaseException:
    """A `Mistake` or a `Stop` that a part of the check raised in the student's process. Never a good one.

    It may have been forged there, so it says little: numbers, and a short text.
    """
    match node:
        case ["mistake", str() as name, str() as section, values] if len(name) + len(section) <= FINDING:
            found = reader.value(values)
            if isinstance(found, dict) and all(isinstance(key, str) for key in found):
                plain = all(isinstance(value, bool | int | float | str) for value in found.values())
                if plain and len("".join(map(str, found.values()))) <= FINDING:
                    left_out = ("name", "section", "headline", "self")
                    found = {key: value for key, value in found.items() if key not in left_out}
                    return Mistake(name, section=section, **found)
        case ["stop", ("raised" | "returned" | "not yet") as kind, str() as name, list() as paragraphs]:
            return Stop(kind, name[:NAME], *(str(text)[:MESSAGE] for text in paragraphs[:2]))
    raise Malformed("a finding must be a mistake or a stop")
