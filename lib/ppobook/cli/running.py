"""Options of the commands that train, files of settings, and modules of a user's own: my_module:MyPPO."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ppobook.cli.parsing import (
    MaybeFile,
    MaybeRun,
    literal,
    name_of,
    names_of,
    options_of,
    parse,
    print_settings,
    read_settings,
    refuse,
)
from ppobook.run.settings import Settings
from ppobook.run.spellings import did_you_mean


@dataclass(frozen=True)
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
        own = (f.name for f in fields(self) if f.name not in NOT_IN_FILES)
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


NOT_IN_FILES = ("resume", "config", "tensorboard", "quiet", "list")


def read(
    kind: type[RunOptions], settings: Settings, words: Sequence[str], prog: str, without: Sequence[str] = ()
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
    for name in without:
        if getattr(options, name) is not None:
            raise ValueError(f"--{name}: {prog} has no such option. See {prog} --help")
    if options.config is not None and options.resume is not None:
        raise ValueError(f"--config {options.config}: a resumed run keeps its settings; leave it out")
    return options, changed


def made(kind: type[Settings], called: str, file: dict[str, Any], preset: dict[str, Any]) -> Settings:
    """The settings that are in use unless the command line changes them."""
    known = {f.name for f in fields(kind)}
    return kind.make(called, {name: x for name, x in file.items() if name in known}, preset)


def refuse_unknown(file: str, found: dict[str, Any], known: Sequence[str], called: str) -> None:
    """Raise for a name in a file that is neither a setting nor an option."""
    for name in found:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"config={file!r} has {name!r}, which is not a setting of {called}{hint}")


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
