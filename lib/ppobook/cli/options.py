"""A function as a command: tyro makes its options from the signature, and its help from the docstring.

Positional-only parameters are words, keyword-only ones are options, and the fields of a `Settings` class can
be options too. A value is read as Python would read it and is validated by the library, where Python's
callers have theirs validated; so there is one definition and one message.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import json
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from ppobook.run.settings import Settings
from ppobook.run.spellings import did_you_mean

# Types of parameters, with their name in the help.
Run = Annotated[str, tyro.conf.arg(metavar="RUN")]
File = Annotated[str, tyro.conf.arg(metavar="FILE")]
MaybeRun = Annotated[str | None, tyro.conf.arg(metavar="RUN")]
MaybeFolder = Annotated[str | None, tyro.conf.arg(metavar="FOLDER")]
MaybeName = Annotated[str | None, tyro.conf.arg(metavar="NAME")]
MaybeFile = Annotated[str | None, tyro.conf.arg(metavar="FILE")]


class Default:
    """A setting's default: shown in the help, and left out of what was given."""

    def __init__(self, value: Any) -> None:
        self.value = value


# The default of an argument that has none.
_REQUIRED = "(required)"

_registry = ConstructorRegistry()


@_registry.primitive_rule
def _one_word(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Every option takes one word: --hidden 32,32, --total-steps 1e5, --lr-final none."""
    if dataclasses.is_dataclass(info.type) or typing.get_origin(info.type) in (tuple, list):
        return None
    text = str in (info.type, *typing.get_args(info.type))
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="TEXT" if text else "N" if int in (info.type, *typing.get_args(info.type)) else "X",
        instance_from_str=lambda words: words[0] if text else literal(words[0]),
        is_instance=lambda _: True,
        str_from_instance=lambda x: [_shown(x.value if isinstance(x, Default) else x)],
    )


class Typed(tuple[Any, ...]):
    """A tuple that messages show as it was typed: 1,000 may have been meant as a number."""

    text: str

    def __repr__(self) -> str:
        return self.text


def literal(text: str) -> Any:
    """A number, a tuple, True, None, …, as Python reads it, with 1e5 as an integer; else the text itself.

    A dict or a list may be JSON, too.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        with contextlib.suppress(ValueError):
            return json.loads(text) if text.lstrip()[:1] in ("{", "[") else text
        return text
    if isinstance(value, tuple):
        value = Typed(value)
        value.text = text
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(value: Any) -> str:
    """A value as one writes it on the command line: none, true, 32,32."""
    if isinstance(value, tuple):
        return ",".join(map(_shown, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def command(function: Callable[..., None]) -> Callable[[Sequence[str], str], None]:
    """A function that is called with the words of the command line and the command's name, for the help."""

    def run(words: Sequence[str], prog: str) -> None:
        positional, options, _ = read(function, words, prog)
        given = {name: x.value if isinstance(x, Default) else x for name, x in options.items()}
        function(*positional, **given)

    return run


def read(
    function: Callable[..., Any],
    words: Sequence[str],
    prog: str,
    settings: Sequence[type[Settings]] = (),
    presets: dict[str, Any] | None = None,
    *,
    shown: Sequence[type[Settings]] = (),
    without: Sequence[str] = (),
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """The positional arguments, options and settings that the words give to a function.

    Parameters
    ----------
    function : callable
    words : sequence of str
    prog : str
        The command's name.
    settings : sequence of Settings classes
        Their fields are options too.
    presets : dict, optional
        Defaults that differ from those of the class, for the help.
    shown : sequence of Settings classes
        Those that --help lists after the options.
    without : sequence of str
        Parameters of the function that are not options here.

    Raises
    ------
    ValueError
        A word that is none of these, or an argument that is missing.
    SystemExit
        After --help.
    """
    parse: Any = functools.partial(
        tyro.cli,
        prog=prog,
        registry=_registry,
        return_unknown_args=True,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    given = _as_dataclass(settings, presets or {})
    options = _arguments_of(function, without)
    known = [*_names(options), *_names(given)]
    takes_a_value = [name for name, default in known if default is not False]
    several = [name for name, default in known if default == ()]
    seen: set[str | None] = set()
    for word, after in itertools.pairwise([*words, "--"]):
        name = _named(word)
        if name not in takes_a_value:
            if "=" in word and (name, False) in known:
                raise ValueError(f"{word.partition('=')[0]} takes no value, got {word!r}. See {prog} --help")
            continue
        if name in seen and name not in several:
            raise ValueError(f"{word.partition('=')[0]} must be given once, got it twice")
        seen.add(name)
        _refuse_repeated(word.partition("=")[2] or after)
        if "=" not in word and after.startswith("--"):
            raise ValueError(f"{word} needs a value. See {prog} --help")
    chosen, rest = parse(given, args=words, add_help=False) if settings else (given(), words)
    try:
        found, unknown = parse(options, args=rest)
    except SystemExit as stop:
        for one in shown if stop.code in (None, 0) else ():
            print_settings(one, presets or {}, prog)
        raise
    if unknown:
        places = [
            f.metadata["needed"]
            for f in dataclasses.fields(options)
            if f.metadata["positional"] and "needed" in f.metadata
        ]
        raise ValueError(_unknown(unknown, [name for name, _ in known], prog, places))
    arguments = vars(found)
    for f in dataclasses.fields(options):
        if "needed" in f.metadata and (arguments[f.name] == () or arguments[f.name] is _REQUIRED):
            raise ValueError(f"{prog} needs {f.metadata['needed']}. See {prog} --help")
    words_first = [f.name for f in dataclasses.fields(options) if f.metadata["positional"]]
    values = {name: x for name, x in vars(chosen).items() if not isinstance(x, Default)}
    return tuple(arguments.pop(name) for name in words_first), arguments, values


def _refuse_repeated(text: str) -> None:
    """Raise for a dict with a name twice; Python would keep the last."""
    try:
        nodes = ast.walk(ast.parse(text.strip(), mode="eval")) if text.lstrip().startswith("{") else ()
    except SyntaxError:
        return
    for node in nodes:
        names = [ast.unparse(key) for key in node.keys if key] if isinstance(node, ast.Dict) else []
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f"a dict must have each name once, got {name} twice in {text}")


def _arguments_of(function: Callable[..., Any], without: Sequence[str] = ()) -> Any:
    """A dataclass with the parameters of a function and its docstring."""
    hints = typing.get_type_hints(function, include_extras=True)
    options = []
    for p in inspect.signature(function).parameters.values():
        if p.name in without:
            continue
        kind, positional = hints[p.name], p.kind is p.POSITIONAL_ONLY
        inner, *notes = typing.get_args(kind) if typing.get_origin(kind) is Annotated else (kind,)
        metadata: dict[str, Any] = {"positional": positional}
        default = p.default
        if dataclasses.is_dataclass(inner):
            default = typing.cast(Any, inner)()
        elif default is p.empty:
            default = () if typing.get_origin(inner) is tuple else _REQUIRED
            metavar = next((x.metavar for x in notes if hasattr(x, "metavar")), p.name)
            metadata["needed"] = metavar if positional else f"--{p.name} {metavar}"
            kind = Annotated[kind, tyro.conf.arg(help_behavior_hint="(required)")]
        kind = Annotated[kind, tyro.conf.Positional] if positional else kind
        options.append((p.name, kind, dataclasses.field(default=default, metadata=metadata)))
    made = dataclasses.make_dataclass("arguments", options, kw_only=True)
    made.__doc__ = function.__doc__
    return made


def _as_dataclass(settings: Sequence[type[Settings]], presets: dict[str, Any]) -> Any:
    """The fields of these classes as options of any value."""
    options = {}
    for f in itertools.chain(*map(dataclasses.fields, settings)):
        kind = Annotated[Any, tyro.conf.arg(help=_help(f), metavar=_metavar(f))]
        options[f.name] = (f.name, kind, Default(_default(f, presets)))
    made = dataclasses.make_dataclass("settings", options.values())
    made.__doc__ = "Settings, with their defaults."
    return made


def _help(f: dataclasses.Field[Any]) -> str:
    choices = f.metadata.get("choices")
    return f.metadata.get("help", "") + (f" ({', '.join(choices)})" if choices else "")


def _metavar(f: dataclasses.Field[Any]) -> str:
    kinds = {"float": "X", "int": "N", "tuple": "N,N", "bool": "BOOL", "dict": "DICT"}
    name = f.type.__name__ if isinstance(f.type, type) else str(f.type)
    return kinds.get(re.split(r"\W", name)[0], "NAME")


def _default(f: dataclasses.Field[Any], presets: dict[str, Any]) -> Any:
    """A setting's default: the preset's, else its own."""
    if f.name in presets:
        return presets[f.name]
    return f.default_factory() if callable(f.default_factory) else f.default


def print_settings(kind: type[Settings], presets: dict[str, Any], prog: str) -> None:
    """Print the settings of a class: their options, help texts and defaults."""
    with contextlib.suppress(SystemExit):
        tyro.cli(_as_dataclass([kind], presets), args=["--help"], prog=prog, registry=_registry)


def as_words(values: dict[str, Any]) -> str:
    """Settings as one types them: --lr 0.001 --hidden 32,32."""
    return " ".join(f"--{name.replace('_', '-')} {_shown(x)}" for name, x in values.items())


def first_word(function: Callable[..., Any], words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The first word that is neither an option nor the value of one, if there is one; and all others."""
    flags = [name for name, default in _names(_arguments_of(function)) if default is False]
    waiting = iter(enumerate(words))
    for i, word in waiting:
        if not word.startswith("-"):
            return word, [*words[:i], *words[i + 1 :]]
        if "=" not in word and _named(word) not in [*flags, "help"] and word != "-h":
            next(waiting, None)
    return None, [*words]


def _named(word: str) -> str | None:
    """The parameter that --num-envs or --num_envs=8 means; None for another word."""
    return word[2:].partition("=")[0].replace("-", "_") if word.startswith("--") else None


def _names(options: Any) -> Iterator[tuple[str, Any]]:
    """The names and defaults of the fields of a dataclass, and of the dataclasses in them."""
    for f in dataclasses.fields(options):
        inside = dataclasses.is_dataclass(f.default)
        yield from _names(f.default) if inside else ((f.name, f.default),)


def _unknown(
    words: Sequence[str],
    known: Sequence[str],
    prog: str,
    places: Sequence[str],
) -> str:
    """The message about words that belong to no option."""
    name = next((_named(word) for word in words if _named(word)), None)
    if name is None:
        takes = f": {prog} takes {' and '.join(f'one {place}' for place in places)}" if places else ""
        if not places and re.fullmatch(r"[\d.]+", words[0]):
            takes = ": several numbers are one word, as in --hidden 64,64"
        elif not places and "env" in known and re.fullmatch(r"(\S+[:/])?\w+-v\d+", words[0]):
            takes = f". Did you mean --env {words[0]}?"
            return f"unexpected argument {words[0]!r}{takes} See {prog} --help"
        return f"unexpected argument {words[0]!r}{takes}. See {prog} --help"
    hint = did_you_mean(name, [one for one in known if one != name], "--{}")
    if name == "render":
        hint = ": use ppobook watch."
    hint = re.sub(r"--\w+", lambda found: found[0].replace("_", "-"), hint)
    return f"--{name.replace('_', '-')}: {prog} has no such option{hint or '.'} See {prog} --help"
