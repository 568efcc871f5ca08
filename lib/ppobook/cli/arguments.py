"""How words on the command line become settings, and how they are refused.

The commands of the control trainers and those of `ppobook.language` share it. It holds nothing of the
subject, and imports nothing that a `--help` would have to wait for.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence; the usage is a `--help` away."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def remember(command: argparse.ArgumentParser, *, takes_settings: bool) -> None:
    """For `main`: what a command is called, its options, and whether others are settings of what it runs."""
    known = [option for action in command._actions for option in action.option_strings]
    command.set_defaults(
        called=command.prog.partition(" ")[2],
        options=[option for option in known if option.startswith("--")],
        takes_settings=takes_settings,
    )


def number(low: int) -> Callable[[str], int]:
    """A reader of whole numbers of at least `low`, also as 1e5 or 100_000."""

    def read(text: str) -> int:
        number = literal(text)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if type(number) is not int or number < low:
            raise argparse.ArgumentTypeError(f"it is {text!r}; a whole number of at least {low} is wanted")
        return number

    return read


# What trains has a reward, and what measures a judge; the two may be the same network.
_TWINS = {"--reward": "--judge", "--judge": "--reward"}


def no_such_option(option: str, command: str, known: Sequence[str]) -> str:
    """A sentence that refuses an option, with what is near to it."""
    hint = hint_of(option, known)
    return f"{option}: ppobook {command} has no such option; {hint}see ppobook {command} --help"


def hint_of(name: str, known: Sequence[str]) -> str:
    """The question whether something near was meant; empty, if nothing is near."""
    from difflib import get_close_matches

    close = [x for x in known if x == _TWINS.get(name)] or get_close_matches(name, known, n=2)
    return f"did you mean {' or '.join(close)}? " if close else ""


def settings_in(rest: Sequence[str], most: int = 1) -> tuple[list[str], dict[str, Any]]:
    """`vanilla --num-envs 4 --hidden 32,32` as ["vanilla"] and {"num_envs": 4, "hidden": (32, 32)}.

    Of words that belong to no setting there are `most` at most.
    """
    words: list[str] = []
    settings: dict[str, Any] = {}
    waiting = list(rest)
    while waiting:
        option = waiting.pop(0)
        if not option.startswith("--"):
            if len(words) == most:
                raise ValueError(f"{option!r} was not expected here; wanted: settings as --name value")
            words.append(option)
            continue
        name, given, text = option[2:].partition("=")
        if not given:
            # A negative number is a value too; another --name is not.
            if not waiting or waiting[0].startswith("--"):
                raise ValueError(f"{option} came without a value; wanted: {option} VALUE")
            text = waiting.pop(0)
        settings[name.replace("-", "_")] = literal(text)
    return words, settings


def literal(text: str) -> Any:
    """A number, a tuple, True, …, as Python would read it; else the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def written_in(file: str) -> dict[str, Any]:
    """What a file of settings says."""
    import yaml

    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        said, twice = yaml.safe_load(text), _said_twice(yaml.compose(text, yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ValueError(f"config={file!r} cannot be read ({why}); a YAML file is wanted") from None
    except yaml.YAMLError as error:
        why = " ".join(str(error).split())
        raise ValueError(f"config={file!r} is no YAML ({why}); lines as in 'lr: 0.001' are wanted") from None
    if not isinstance(said, dict) or not all(isinstance(name, str) for name in said):
        raise ValueError(f"config={file!r} holds no settings by name; lines as in 'lr: 0.001' are wanted")
    if twice:
        raise ValueError(f"config={file!r} has {twice!r} twice; each setting once is wanted")
    # 1e-3 is a number to everybody but YAML.
    return {
        name.replace("-", "_"): literal(value) if isinstance(value, str) else value
        for name, value in said.items()
    }


def _said_twice(node: Any) -> str | None:
    """The first name that a file gives two values to, of which YAML would keep the last."""
    seen: set[str] = set()
    for key, _ in getattr(node, "value", ()) if getattr(node, "id", "") == "mapping" else ():
        name = str(key.value).replace("-", "_")
        if name in seen:
            return name
        seen.add(name)
    return None


def see_here(*named: Any) -> None:
    """Let a module in the folder that the user stands in be found, where one is asked for."""
    if any(isinstance(name, str) and ":" in name for name in named) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def imported(named: str, wanted: str, example: str) -> Any:
    """What a user means by my_module:MyPPO."""
    from importlib import import_module

    module, _, name = named.partition(":")
    if module.endswith(".py") or "/" in module:
        raise ValueError(
            f"{named!r}: a module is wanted, as in my_module:{example} for my_module.py in this folder"
        )
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        # A module that the user's own lacks is another matter, and says so itself.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ValueError(
            f"{named!r}: there is no module {module!r} here, nor one that is installed"
        ) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{named!r}: {module} has no {part!r}; the name of {wanted} in it is wanted")
        found = getattr(found, part)
    return found


def imported_class(named: str, wanted: str, example: str) -> Any:
    """The class that a user means by my_module:MyPPO."""
    found = imported(named, wanted, example)
    if not isinstance(found, type):
        raise ValueError(f"{named!r} is of type {type(found).__name__}; {wanted} is wanted, a class")
    return found


def list_settings(settings: Any, presets: dict[str, dict[str, Any]]) -> None:
    """Print the fields of a `Settings` class, and what some of them are where something else is chosen."""
    from dataclasses import fields

    for f in fields(settings):
        default = f.default_factory() if callable(f.default_factory) else f.default
        choices = f.metadata["choices"]
        known = f" ({', '.join(choices)})" if choices else ""
        print(f"--{f.name.replace('_', '-')}\n    {f.metadata['help']}{known}; default {default}")
    for name, preset in presets.items():
        print(f"{name}\n    " + " ".join(f"--{k.replace('_', '-')} {v}" for k, v in preset.items()))


def counted(count: int) -> str:
    """So many updates, in words."""
    return f"{count} update{'s' * (count != 1)}"
