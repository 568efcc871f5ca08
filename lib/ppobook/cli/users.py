"""What users bring: modules of their own, as my_module:MyPPO, and files of settings."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ppobook.cli.options import Default, MaybeFile, MaybeRun, literal
from ppobook.run.settings import NUMBERS, Settings, argument
from ppobook.run.spellings import did_you_mean


@dataclass(frozen=True)
class Training:
    """Options of every command that trains.

    Args:
        seed: random seed
        out: a new folder for the run; none: nothing is saved
        checkpoint_every: updates between checkpoints; none: 10, or 50 for language models
        checkpoint_minutes: minutes after which one is written in any case
        resume: resume from the last checkpoint in this folder
        config: YAML (or a run's config.json) with settings by name, and options like seed and out
        device: device of the networks
        num_threads: threads of torch
        tensorboard: write TensorBoard events into RUN as well
        quiet: no progress bar, and no lines while training
        list: list the settings and exit
    """

    seed: Any = Default(0)  # noqa: RUF009 - a Default is never changed
    out: MaybeRun = None
    checkpoint_every: int | None = None
    checkpoint_minutes: Any = Default(5)  # noqa: RUF009
    resume: MaybeRun = None
    config: MaybeFile = None
    device: Any = Default("cpu")  # noqa: RUF009
    num_threads: Any = Default(1)  # noqa: RUF009
    tensorboard: bool = False
    quiet: bool = False
    list: bool = False

    def given(self) -> dict[str, Any]:
        """The arguments of `train` among the options that were given."""
        values = {name: getattr(self, name) for name in OF_TRAINING}
        return {name: x for name, x in values.items() if x is not None and not isinstance(x, Default)}

    def file(self) -> str | None:
        """The file of settings."""
        if self.config is not None and self.resume is not None:
            raise ValueError(f"--config {self.config}: a resumed run keeps its settings; leave it out")
        return self.config

    def how(self, out: Any) -> dict[str, Any]:
        """The arguments of `train` that do not come from a file; `out` may."""
        for name in ("checkpoint_every", "checkpoint_minutes") if not (out or self.resume) else ():
            if name in (given := self.given()):
                raise ValueError(
                    f"out must be a folder for the checkpoints of {name}={given[name]}, got None"
                )
        progress = False if self.quiet else None
        return {"resume": self.resume, "progress": progress, "tensorboard": self.tensorboard}

    def refuse_with_list(self, **others: Any) -> None:
        """Raise for what was given beside --list, which reads nothing of it."""
        alone = {f.name: f.default for f in fields(self)}
        mine = {name: x for name in alone if name != "list" and (x := getattr(self, name)) != alone[name]}
        for name in mine | {name: x for name, x in others.items() if x is not None}:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} must be left out with --list, which only lists the settings")

    def config_before(self) -> dict[str, Any]:
        """The config.json of the run that is resumed; empty if it can't be read, which others report."""
        try:
            found = json.loads(Path(self.resume or "", "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if self.resume and isinstance(found, dict) else {}

    def updates(self) -> int:
        """How many updates the run has that is to be resumed; -1 for a new one."""
        from ppobook.run.folder import checkpoints, is_run, update_of

        return update_of(checkpoints(Path(self.resume))[-1]) if self.resume and is_run(self.resume) else -1

    def saved_in(self, out: Any) -> str:
        """The last line about a run."""
        folder = self.resume or out
        return f"saved in {folder}" if folder else "not saved: --out was not given"


# Those that a file may have, too.
OF_TRAINING = ("seed", "out", "checkpoint_every", "checkpoint_minutes", "device", "num_threads")


def merged(
    file: str,
    in_file: dict[str, Any],
    given: dict[str, Any],
    settings: dict[str, Any],
    arguments: Collection[str],
    known: Collection[str],
    called: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments and settings of the command line, and those of a file that the command line lacks."""
    for name in in_file:
        if name not in arguments and name not in known:
            if name in {f.name for f in fields(Training)}:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(
                    f"config={file!r} has {name!r}, which no file can have: give {option} on the command line"
                )
            hint = did_you_mean(name, [*arguments, *known])
            if isinstance(in_file[name], dict):
                hint = ": settings are not grouped"
            raise ValueError(f"config={file!r} has {name!r}, which is not a setting of {called}{hint}")
    first = {name: x for name, x in in_file.items() if name in arguments}
    return first | given, {name: x for name, x in in_file.items() if name not in arguments} | settings


def check_settings(
    kind: type[Settings],
    called: str,
    given: dict[str, Any],
    settings: dict[str, Any],
    preset: dict[str, Any],
) -> None:
    """Raise for arguments and settings that `train` would refuse, before torch is imported."""
    for name in NUMBERS:
        if name in given:
            argument(name, given[name])
    kind.make(called.partition(":")[2] or called, settings, preset)


def used_elsewhere(name: str) -> str:
    """The end of a message about an unknown name: the command that has it."""
    from ppobook.cli.language import STAGES
    from ppobook.settings import SETTINGS

    commands = [f"ppobook train {name}"] * (name in SETTINGS) + [f"ppobook language {name}"] * (
        name in STAGES
    )
    return f": use {' or '.join(commands)}" if commands else ""


def see_here(*named: Any) -> None:
    """Let a module in the working directory be imported, where one of these names is MODULE:NAME."""
    if any(isinstance(name, str) and ":" in name for name in named) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def imported(named: str, what: str, example: str) -> Any:
    """The object that my_module:MyPPO names."""
    see_here(named)
    module, _, name = named.partition(":")
    if not module or module.endswith(".py") or "/" in module:
        raise ValueError(
            f"{what} must be MODULE:NAME, as in my_module:{example} for my_module.py, got {named!r}"
        )
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A module that the user's own module imports says itself that it is missing.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"{named!r}: there is no module {module!r} here, nor an installed one") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{what} must be a name in {module}, got {part!r}, which is not in it")
        found = getattr(found, part)
    return found


def imported_class(named: str, what: str, example: str) -> Any:
    """The class that my_module:MyPPO names."""
    found = imported(named, what, example)
    if not isinstance(found, type):
        raise ValueError(f"{what} must be a class, got {named!r}, of type {type(found).__name__}")
    return found


def read_settings(file: str) -> dict[str, Any]:
    """The settings in a YAML file (or a run's config.json), by name."""
    import yaml

    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        found, repeated = yaml.safe_load(text), _repeated(yaml.compose(text, yaml.SafeLoader))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise ValueError(f"config must be a YAML file, got {file!r}, which cannot be read ({why})") from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        why = " ".join(str(error).split())
        if mark is not None and problem is not None:
            why = f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
        raise ValueError(f"config must be a YAML file, got {file!r} ({why})") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"config must be a YAML file with lines such as 'lr: 0.001', got {file!r}")
    if repeated:
        raise ValueError(f"config must have each setting once, got {repeated!r} twice in {file!r}")
    # YAML reads 1e-3 as text. The names of settings are in lower case.
    names = {name: name.replace("-", "_") if name.islower() else name for name in found}
    return {names[name]: literal(x) if isinstance(x, str) else x for name, x in found.items()}


def _repeated(node: Any) -> str | None:
    """The first name that a mapping in a file has twice, at any depth; YAML would keep the last."""
    kind, inside = getattr(node, "id", ""), getattr(node, "value", ())
    seen: set[str] = set()
    for key, _ in inside if kind == "mapping" else ():
        name = str(key.value).replace("-", "_")
        if name in seen:
            return name
        seen.add(name)
    deeper = [value for _, value in inside] if kind == "mapping" else inside if kind == "sequence" else []
    return next((found for one in deeper if (found := _repeated(one)) is not None), None)


def refuse_to_import(file: str, what: str, named: Any) -> None:
    """Raise if a file names a module of a user: it may be a stranger's, and importing runs its code."""
    if isinstance(named, str) and ":" in named:
        raise ValueError(
            f"config={file!r} has the {what} {named!r}: a module that a file names is not imported unasked. "
            f"Give it on the command line"
        )
