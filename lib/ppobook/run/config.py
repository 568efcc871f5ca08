"""The config of a run: everything that it was asked for, in plain data."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import fields
from typing import Any

from ppobook.run.checkpoint import Checkpoint
from ppobook.run.folder import RunFolder
from ppobook.run.machine import checked_device
from ppobook.run.progress import say
from ppobook.run.registry import Registry
from ppobook.run.settings import Settings, argument, settings_class_of


def new_config(
    registry: Registry[Any], asked: dict[str, Any], *, checkpoint_every: int
) -> tuple[type[Any], dict[str, Any]]:
    """The class that trains a new run, and the entries of the config that all runs have.

    They are removed from `asked`. `checkpoint_every` is its default.
    """
    kind = registry.find(asked.pop(registry.argument, None))
    settings_class_of(kind)
    return kind, {
        registry.argument: registry.name_of(kind),
        "seed": argument("seed", asked.pop("seed", 0)),
        "checkpoint_every": argument("checkpoint_every", asked.pop("checkpoint_every", checkpoint_every)),
        "device": checked_device(asked.pop("device", "cpu")),
    }


def resumed_config(
    registry: Registry[Any], folder: RunFolder, checkpoint: Checkpoint, asked: dict[str, Any], limit: str
) -> tuple[type[Any], Any, dict[str, Any]]:
    """The class, the settings and the config of a run that is resumed.

    Everything is as it was; only `checkpoint_every`, `device` and the entry named by `limit` may be asked for
    anew.

    Raises
    ------
    ValueError, TypeError
        Something else was asked for than the run has, or config.json was edited.
    """
    before = checkpoint.config
    with checkpoint.rebuilding():
        kind = registry.of_run(before, asked.pop(registry.argument, None))
        settings = settings_of(kind, before)
        device = before["device"]
    _refuse_edited(folder, checkpoint.written, {limit, "checkpoint_every", "device"}, asked)
    config = before | {"device": checked_device(asked.pop("device", device))}
    every = asked.pop("checkpoint_every", before["checkpoint_every"])
    config["checkpoint_every"] = argument("checkpoint_every", every)
    if limit in asked:
        check = settings.checked if hasattr(settings, limit) else argument
        config[limit] = check(limit, asked.pop(limit))
    refuse_other_settings(folder, asked, config, settings)
    return kind, settings, config


def _refuse_edited(
    folder: RunFolder, written: dict[str, Any], may_change: Collection[str], asked: Collection[str]
) -> None:
    """Raise if config.json has other settings than the checkpoint, which is what is read.

    After a kill it may be one behind in what may change on resume; that is only said.
    """
    file = folder.path / "config.json"
    try:
        in_file, kept = json.loads(file.read_text(encoding="utf-8")), json.loads(json.dumps(written))
        edited = {name: x for name, x in in_file.items() if repr(kept.get(name, x)) != repr(x)}
    except (OSError, ValueError, AttributeError):  # it is for people; a run does without
        return
    for name, x in edited.items():
        if name not in may_change:
            raise ValueError(
                f"{str(file)!r} must be as it was written, with {name}={kept[name]!r}, got {x!r}: a resumed "
                "run keeps its settings"
            )
        if name not in asked:
            say(f"{str(file)!r} is not read: {name} is {kept[name]!r}, not {x!r}; pass {name} to change it")


def settings_of(kind: type[Any], config: dict[str, Any]) -> Any:
    """The settings of a run, from its config.

    Raises
    ------
    ValueError
        The class has a setting that the run was made without.
    """
    names = [f.name for f in fields(settings_class_of(kind))]
    new = [name for name in names if name not in config]
    if new:
        raise ValueError(
            f"{kind.__name__} must have the settings that it had when the run was made, got a new one, "
            f"{new[0]!r}"
        )
    return kind.settings_class(**{name: config[name] for name in names})


def refuse_other_settings(
    folder: RunFolder, asked: dict[str, Any], config: dict[str, Any], settings: Settings
) -> None:
    """Raise if what was asked of a resumed run differs from what it has.

    Parameters
    ----------
    folder : RunFolder
    asked : dict
        Settings, and other entries of the config, by name.
    config : dict
        The run's.
    settings : Settings
        The run's, made from the config.

    Raises
    ------
    ValueError, TypeError
    """
    for name, value in asked.items():
        if name not in config:
            raise ValueError(
                f"{name} must be left out on resume, for the run has no such setting, got {value!r}"
            )
        checked = settings.checked(name, value) if hasattr(settings, name) else value
        if checked != config[name]:
            raise ValueError(
                f"{name} must be left out on resume, or {config[name]!r} as in {str(folder.path)!r}, "
                f"got {value!r}"
            )
