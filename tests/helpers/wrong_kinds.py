"""Arguments of the wrong kind, and what is wrong with a call that takes them or names none."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

KINDS = {
    "None": None,
    "text": "x",
    "-1": -1,
    "1.5": 1.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "True": True,
    "[]": [],
    "ragged": [[1.0], [1.0, 2.0]],
    "int64": np.int64(2),
    "tensor": torch.linspace(0.1, 0.7, 7),
    "ints": torch.ones(3, dtype=torch.int64),
    "path": Path("no-such-file"),
    "{}": {},
    "object": object(),
}


# By the argument's name: kinds that are accepted beside those of `legal_beside`.
LEGAL = {
    # An array of any length, where nothing beside it has a shape; a single number broadcasts.
    **dict.fromkeys(("advantages", "log_ratio"), "-1 1.5 True int64 tensor ints"),
    **dict.fromkeys(("std_q", "std_p"), "1.5 True int64 tensor"),
    **dict.fromkeys(("gradients", "values", "curves", "logits", "mean", "std"), "tensor ints"),
    **dict.fromkeys(("tokens", "mask"), "ints"),
    **dict.fromkeys(("x", "b", "critic", "final_values"), "tensor"),
    "rewards": "[] tensor ints",
    "kl": "-1 tensor",
    "low": "-1 1.5 True int64",
    "high": "-1 1.5 inf True int64",
    # Numbers of both signs.
    **dict.fromkeys(("advantage", "baseline", "gain", "output_scale"), "-1"),
    **dict.fromkeys(("left_reward", "right_reward", "step_reward", "goal_reward", "pit_reward"), "-1"),
    "margin": "-1 1.5 int64",
    # Numbers whose default is None.
    **dict.fromkeys(("clip_eps_high", "clip_eps_low"), "None 1.5 int64"),
    **dict.fromkeys(("at_once", "max_length", "start", "top_k"), "int64"),
    "rate": "1.5",
    "seed": "None int64",
    "prompt_mask": "None",
    # Empty ones.
    **dict.fromkeys(("hidden", "shape"), "[]"),
    **dict.fromkeys(("columns", "ends", "env_kwargs", "measured", "settings", "state"), "{}"),
    # Texts and paths.
    **dict.fromkeys(("alt", "plain"), "text"),
    "path": "text path",
}


GRAMMAR = re.compile(r"\bmust\b.*\bgot\b", re.DOTALL)


def legal_beside(valid):
    """The kinds that may be accepted where this is: another number for a number, True for a bool."""
    if isinstance(valid, bool):
        return ["True"]
    if isinstance(valid, float):
        return ["1.5", "int64"]
    return ["int64"] if isinstance(valid, int) else []


def public(room):
    """The functions and classes that a module offers."""
    module = import_module(f"ppobook.{room}")
    own = getattr(module, "__all__", None) or [
        name
        for name, x in vars(module).items()
        if name[0] != "_" and getattr(x, "__module__", "") == module.__name__
    ]
    return {name for name in own if inspect.isfunction(x := getattr(module, name)) or inspect.isclass(x)}


def refused(call, given, legal_here=None, others=()):
    """What is wrong: a kind of an argument that is accepted, or an error that does not name the argument.

    `legal_here` stands before `LEGAL`; `others` is what else the message may name.
    """
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(call).parameters
    named = [x.name for x in parameters.values() if x.kind not in variable]
    wrong = []
    for argument in dict.fromkeys([*named, *given]):
        default = given.get(argument, getattr(parameters.get(argument), "default", None))
        legal = (LEGAL | (legal_here or {})).get(argument, "").split() + legal_beside(default)
        if getattr(parameters.get(argument), "default", ...) is None:
            legal.append("None")
        for kind, x in KINDS.items():
            try:
                result = call(**given | {argument: x})
                if isinstance(result, Iterator):
                    list(result)
            except (ValueError, TypeError, OSError) as error:
                # Of two that must agree in shape, the message may name the other one.
                names = "|".join([argument, *others])
                if not re.search(rf"\b({names})\b|must have shape", str(error)) or not GRAMMAR.search(
                    str(error)
                ):
                    wrong.append(f"{argument} = {kind}: the message doesn't name it: {error}")
            except Exception as error:
                wrong.append(f"{argument} = {kind}: {type(error).__name__}: {error}")
            else:
                if kind not in legal:
                    wrong.append(f"{argument} = {kind}: accepted")
    return wrong
