"""Commands by tyro: options from a function's signature or from a `Settings` class, one word a value.

Then what the commands that train share: their options, files of settings, and modules of a user's own.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import functools
import importlib
import io
import json
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from ppobook.run.spellings import did_you_mean
from ppobook.settings import Settings

# Types of parameters, with their name in the help.
Run = Annotated[str, tyro.conf.arg(metavar="RUN")]
File = Annotated[str, tyro.conf.arg(metavar="FILE")]
MaybeRun = Annotated[str | None, tyro.conf.arg(metavar="RUN")]
MaybeFolder = Annotated[str | None, tyro.conf.arg(metavar="FOLDER")]
MaybeName = Annotated[str | None, tyro.conf.arg(metavar="NAME")]
MaybeFile = Annotated[str | None, tyro.conf.arg(metavar="FILE")]

METAVARS = {int: "N", float: "X", bool: "BOOL", str: "TEXT", dict: "DICT", tuple: "N,N"}
registry = ConstructorRegistry()


def _kind_of(annotation: Any) -> tuple[Any, bool]:
    """The type of a value that is read from one word, and True if it may be None; no type if it is tyro's."""
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    kind, *others = [one for one in kinds if one is not types.NoneType] or kinds
    own = not others and (typing.get_origin(kind) or kind) in METAVARS and kind != tuple[str, ...]
    return kind if own else None, types.NoneType in kinds


@registry.primitive_rule
def _one_word(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Read a value from one word: --total-steps 1e5, --hidden 64,64, --lr-final none."""
    kind, optional = _kind_of(info.type)
    if kind is None:
        return None

    def read(words: Sequence[str]) -> Any:
        return None if optional and words[0].lower() in ("none", "null") else _value(kind, words[0])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=METAVARS[typing.get_origin(kind) or kind],
        instance_from_str=read,
        is_instance=lambda _: True,
        str_from_instance=lambda x: [as_word(x)],
    )


def _value(kind: Any, word: str) -> Any:
    """The value of a word, of the type that a parameter or a setting has."""
    if kind is str:
        return word
    value = literal(word)
    if kind is bool and not isinstance(value, bool):
        raise ValueError(f"must be true or false, got {word!r}")
    if kind in (int, float) and not isinstance(value, kind | int):
        raise ValueError(f"must be {'an integer' if kind is int else 'a number'}, got {word!r}")
    if kind is float:
        return float(value)
    if typing.get_origin(kind) is tuple:
        values = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(one, int | float) for one in values):
            raise ValueError(f"must be numbers, as in 64,64, got {word!r}")
        return values
    if (typing.get_origin(kind) or kind) is dict and not isinstance(value, dict):
        raise ValueError(f"must be a dict, as in {{'slip': 0.1}}, got {word!r}")
    return value


def literal(text: str) -> Any:
    """Read a number, a tuple, a dict, … as Python or JSON does, with 1e5 as an integer; else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    value: Any = text
    for read in (ast.literal_eval, json.loads):
        with contextlib.suppress(ValueError, SyntaxError):
            value = read(text)
            break
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_word(value: Any) -> str:
    """A value as it is typed: none, true, 32,32."""
    if isinstance(value, tuple):
        return ",".join(map(as_word, value)) or "()"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def as_words(values: dict[str, Any]) -> str:
    """Settings as they are typed: --lr 0.001 --hidden 32,32."""
    return " ".join(f"--{name.replace('_', '-')} {as_word(x)}" for name, x in values.items())


def command(function: Callable[..., None]) -> Callable[[Sequence[str], str], None]:
    """A function that is called with the words of the command line and the command's name, for the help."""

    @functools.wraps(function)
    def collect(*positional: Any, **options: Any) -> Callable[[], None]:
        return functools.partial(function, *positional, **options)

    def run(words: Sequence[str], prog: str) -> None:
        call, unknown = parse(collect, words, prog)
        refuse(unknown, names_of(function), prog)
        call()

    return run


def parse(kind: Any, words: Sequence[str], prog: str, *, help: bool = True) -> tuple[Any, list[str]]:
    """Call a function or make a dataclass from the words; the words that belong to no option come back.

    ValueError for a value that cannot be read, or one that is missing; SystemExit after --help.
    """
    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard):
            return tyro.cli(
                kind,
                args=words,
                prog=prog,
                registry=registry,
                return_unknown_args=True,
                add_help=help,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ValueError(f"{_said(heard.getvalue())}. See {prog} --help") from None


def _said(box: str) -> str:
    """The first part of an error that tyro prints in a box, as one sentence."""
    lines = [line.strip("│| ") for line in box.splitlines()[1:]]
    rule = [not re.search(r"\w", line) for line in lines]
    begin = rule.index(False)
    end = next((i for i in range(begin, len(lines)) if rule[i]), len(lines))
    text = " ".join(lines[begin:end])
    text = re.sub(r"Error parsing (\S+): ", r"\1 ", text)
    return text.removesuffix(".")


def refuse(unknown: Sequence[str], known: Iterable[str], prog: str) -> None:
    """Raise for a word that belongs to no option, with the option that it may stand for."""
    if not unknown:
        return
    word = next((one for one in unknown if one.startswith("--")), None)
    if word is None:
        raise ValueError(f"unexpected argument {unknown[0]!r}. See {prog} --help")
    name = name_of(word)
    others = [one for one in known if one != name]  # `name` itself where it is positional
    hint = re.sub(r"--\w+", lambda found: found[0].replace("_", "-"), did_you_mean(name, others, "--{}"))
    raise ValueError(f"--{name.replace('_', '-')}: {prog} has no such option{hint or '.'} See {prog} --help")


def names_of(kind: Any) -> Iterator[str]:
    """The names of the options of a function or a dataclass, and of the dataclasses among its parameters."""
    for name, one in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(one):
            yield from names_of(one)
        elif name != "return":
            yield name


def options_of(settings: Settings) -> Any:
    """A dataclass with the fields of settings as options, whose defaults are these settings."""
    hints = typing.get_type_hints(type(settings))
    options: list[Any] = []
    for f in dataclasses.fields(settings):
        choices, default = f.metadata.get("choices"), getattr(settings, f.name)
        shown = tyro.conf.arg(help=f.metadata.get("help"), metavar="|".join(choices) if choices else None)
        kind: Any = Annotated[hints[f.name], shown, tyro.conf.FlagConversionOff]
        options.append(
            (f.name, kind, dataclasses.field(default_factory=functools.partial(copy.copy, default)))
        )
    made = dataclasses.make_dataclass("settings", options)
    made.__doc__ = "Settings, with their defaults."
    return made


def read_settings(settings: Settings, words: Sequence[str], prog: str) -> tuple[dict[str, Any], list[str]]:
    """The settings that the words give, and the words that are no settings."""
    found, rest = parse(options_of(settings), words, prog, help=False)
    typed = {name_of(word) for word in words if word.startswith("--")}
    return {name: x for name, x in vars(found).items() if name in typed}, rest


def name_of(option: str) -> str:
    """The name of the setting that --num-envs or --num_envs=8 gives."""
    return option[2:].partition("=")[0].replace("-", "_")


def print_settings(settings: Settings, prog: str) -> None:
    """Print the options, help texts and values of settings."""
    with contextlib.suppress(SystemExit):
        parse(options_of(settings), ["--help"], prog)


def peek(words: Sequence[str], name: str) -> str | None:
    """The value of an option, before all words are read: other options depend on it."""
    for word, after in zip(words, [*words[1:], None], strict=False):
        option, given, value = word.partition("=")
        if option == name:
            return value if given else after
    return None


# ---------------------------------------------------------------------- the commands that train


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of every command that trains.

    Args:
        seed: random seed; none: 0
        out: a new folder for the run; none: nothing is saved
        checkpoint_every: updates between checkpoints; none: 10, or 50 for language models
        resume: resume from the last checkpoint in this folder
        config: YAML (or a run's config.json) with settings by name, and options like seed and out
        device: device of the networks; none: cpu
        num_threads: threads of torch; none: 1
        tensorboard: write TensorBoard events into RUN as well
        quiet: no progress bar, and no lines while training
        list: list the settings and exit
    """

    seed: int | None = None
    out: MaybeRun = None
    checkpoint_every: int | None = None
    resume: MaybeRun = None
    config: MaybeFile = None
    device: str | None = None
    num_threads: int | None = None
    tensorboard: bool = False
    quiet: bool = False
    list: bool = False

    def given(self) -> dict[str, Any]:
        """The options that a file may have too, where they were given."""
        own = (f.name for f in dataclasses.fields(self) if f.name not in NOT_IN_FILES)
        return {name: x for name in own if (x := getattr(self, name)) is not None}

    def how(self) -> dict[str, Any]:
        """The arguments of `train` that no file has."""
        progress = False if self.quiet else None
        return {"resume": self.resume, "progress": progress, "tensorboard": self.tensorboard}

    def updates(self) -> int:
        """The number of updates that the run to resume has; -1 for a new run."""
        from ppobook.run.folder import checkpoints, is_run, update_of

        return update_of(checkpoints(Path(self.resume))[-1]) if self.resume and is_run(self.resume) else -1

    def saved_in(self, out: Any) -> str:
        """The last line about a run."""
        folder = self.resume or out
        return f"saved in {folder}" if folder else "not saved: --out was not given"


NOT_IN_FILES = ("resume", "config", "tensorboard", "quiet", "list", "start")


def read(
    kind: type[RunOptions], settings: Settings, words: Sequence[str], prog: str
) -> tuple[Any, dict[str, Any]]:
    """The options of a run, and the settings that the words change; errors as of `parse`."""
    changed, rest = read_settings(settings, words, prog)
    known = [*names_of(kind), *names_of(options_of(settings)), "help"]
    refuse([word for word in rest if word.startswith("--") and name_of(word) not in known], known, prog)
    try:
        options, unknown = parse(kind, rest, prog)
    except SystemExit:
        print_settings(settings, prog)
        raise
    refuse(unknown, known, prog)
    if options.config is not None and options.resume is not None:
        raise ValueError(f"--config {options.config}: a resumed run keeps its settings; leave it out")
    return options, changed


def made(kind: type[Settings], called: str, file: dict[str, Any], preset: dict[str, Any]) -> Settings:
    """The settings that are in use unless the command line changes them."""
    known = {f.name for f in dataclasses.fields(kind)}
    return kind.make(called, {name: x for name, x in file.items() if name in known}, preset)


def filled_up(
    options: RunOptions, settings: dict[str, Any], in_file: dict[str, Any], kind: type[Settings], called: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of `train`, and its settings: of the command line, else of the file.

    Raises for a name in the file that is neither.
    """
    given = options.given()
    arguments = [name for name in names_of(type(options)) if name not in NOT_IN_FILES]
    known = [*arguments, *(f.name for f in dataclasses.fields(kind))]
    for name in in_file:
        if name not in known:
            hint = did_you_mean(name, known)
            has = f"config={options.config!r} has {name!r}"
            raise ValueError(f"{has}, which is not a setting of {called}{hint}")
    given = {name: in_file[name] for name in arguments if name in in_file} | given
    return given, {name: x for name, x in in_file.items() if name not in arguments} | settings


def read_file(file: str) -> dict[str, Any]:
    """The settings in a YAML file (or a run's config.json), by name."""
    import yaml

    try:
        found = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"config must be a YAML file, got {file!r} ({why})") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"config must be a YAML file with lines such as 'lr: 0.001', got {file!r}")
    # The names of settings are in lower case. YAML reads 1e-3 as text.
    names = {name: name.replace("-", "_") if name.islower() else name for name in found}
    return {names[name]: literal(x) if isinstance(x, str) else x for name, x in found.items()}


def config_of(folder: str | None) -> dict[str, Any]:
    """The config.json of the run to resume; empty for a new run."""
    if folder is None:
        return {}
    try:
        found: dict[str, Any] = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"--resume must be the folder of a run, got {folder!r} ({error})") from None
    return found


def refuse_to_import(file: str, what: str, named: Any) -> None:
    """Raise if a file names a module of a user: it may be a stranger's, and importing runs its code."""
    if isinstance(named, str) and ":" in named:
        raise ValueError(
            f"config={file!r} has the {what} {named!r}: a module that a file names is not imported unasked. "
            f"Give it on the command line"
        )


def see_here(*named: Any) -> None:
    """Let a module in the working directory be imported, where one of these names is MODULE:NAME."""
    if any(isinstance(name, str) and ":" in name for name in named) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def imported(named: str, what: str, example: str) -> Any:
    """The object that my_module:MyPPO names."""
    see_here(named)
    module, _, name = named.partition(":")
    if not module or not name or module.endswith(".py") or "/" in module:
        raise ValueError(
            f"{what} must be MODULE:NAME, as in my_module:{example} for my_module.py, got {named!r}"
        )
    found = importlib.import_module(module)
    if not hasattr(found, name):
        raise ValueError(f"{what} must be a name in {module}, got {name!r}, which is not in it")
    return getattr(found, name)


def imported_class(named: str, what: str, example: str) -> Any:
    """The class that my_module:MyPPO names."""
    found = imported(named, what, example)
    if not isinstance(found, type):
        raise ValueError(f"{what} must be a class, got {named!r}, of type {type(found).__name__}")
    return found
