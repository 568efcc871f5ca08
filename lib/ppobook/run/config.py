"""The config of a run: everything that it was asked for, in plain data."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ppobook import validation
from ppobook.run.checkpoint import Checkpoint
from ppobook.run.folder import RunFolder
from ppobook.run.machine import checked_device
from ppobook.run.registry import Registry


def new_config(
    registry: Registry[Any], asked: dict[str, Any], *, checkpoint_every: int
) -> tuple[type[Any], dict[str, Any]]:
    """The class that trains a new run, and the config entries that all runs have, taken from `asked`."""
    kind = registry.find(asked.pop(registry.argument, None))
    return kind, {
        registry.argument: registry.name_of(kind),
        "seed": validation.count("seed", asked.pop("seed", 0), low=0),
        "checkpoint_every": validation.count(
            "checkpoint_every", asked.pop("checkpoint_every", checkpoint_every)
        ),
        "device": checked_device(asked.pop("device", "cpu")),
    }


def resumed_config(
    registry: Registry[Any], folder: RunFolder, checkpoint: Checkpoint, asked: dict[str, Any], limit: str
) -> tuple[type[Any], Any, dict[str, Any]]:
    """The class, the settings and the config of a run that is resumed.

    Only `checkpoint_every`, `device` and the entry named by `limit` may differ from before; all else that is
    `asked` raises ValueError if it does.
    """
    before = checkpoint.config
    with checkpoint.rebuilding():
        kind = registry.of_run(before, asked.pop(registry.argument, None))
        settings = settings_of(kind, before)
    every = asked.pop("checkpoint_every", before["checkpoint_every"])
    config = before | {
        "device": checked_device(asked.pop("device", before["device"])),
        "checkpoint_every": validation.count("checkpoint_every", every),
    }
    if limit in asked:
        check = settings.checked if hasattr(settings, limit) else validation.whole
        config[limit] = check(limit, asked.pop(limit))
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
    return kind, settings, config


def settings_of(kind: type[Any], config: dict[str, Any]) -> Any:
    """The settings of a run, from its config."""
    return kind.settings_class(**{f.name: config[f.name] for f in fields(kind.settings_class)})
