"""Runs of earlier versions, in today's names. No other file knows the old ones.

Version 1 of both formats (ppobook 0.1 before the renaming) differs in names only; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Old format to new one.
_FORMATS = {1: "ppobook.train 2", "language 1": "ppobook.language.train 2"}

# Settings, and other entries of the config. PPO for control had `target_kl` for a bound.
_PPO_SETTINGS = {"kl_coef_target": "kl_target", "target_kl": "max_kl"}
_LANGUAGE_SETTINGS = {
    "steps": "updates",
    "cut": "truncation",
    "judge_epochs": "reward_model_epochs",
    "judge_batch_size": "reward_model_batch_size",
    "judge_lr": "reward_model_lr",
}
# Settings that are new; earlier versions behaved as if they had these values.
_NEW_SETTINGS = {"fast": True}
# Those of language models that came without a new format, and a setting that all stages with them have.
_ADDED_SETTINGS = {"gradient_checkpointing": (False, "updates"), "generation_rows": (None, "truncation")}
# Parts of a language run, their kinds, and the entries of the config that name one of them.
_PARTS = {"judge": "reward_model"}
_NAME_PARTS = ("reward", "critic_from")


def translated(state: Any) -> Any:
    """The content of a checkpoint in today's format, with today's settings; anything else as it is."""
    found = state.get("format") if isinstance(state, dict) else None
    if not isinstance(found, int | str) or found not in _FORMATS:
        return _with_added_settings(state) if found == _FORMATS["language 1"] else state
    state = {**state, "format": _FORMATS[found]}
    config, language = state.get("config"), found == "language 1"
    if isinstance(config, dict):
        names = _LANGUAGE_SETTINGS if language else _PPO_SETTINGS if "kl_coef_target" in config else {}
        state["config"] = config = _NEW_SETTINGS | _renamed(config, names)
        config |= {name: _part(config[name]) for name in _NAME_PARTS if language and name in config}
    if isinstance(state.get("stage"), dict):
        state["stage"] = _renamed(state["stage"], _PARTS)
    if isinstance(state.get("architecture"), dict):
        state["architecture"] = {
            _part(name): {**described, "kind": _part(described.get("kind"))}
            for name, described in state["architecture"].items()
        }
    return _with_added_settings(state) if language else state


def _with_added_settings(state: dict[str, Any]) -> dict[str, Any]:
    config = state.get("config")
    if not isinstance(config, dict):
        return state
    added = {name: value for name, (value, beside) in _ADDED_SETTINGS.items() if beside in config}
    return {**state, "config": added | config}


def _renamed(mapping: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in mapping.items()}


def _part(name: Any) -> Any:
    return _PARTS.get(name, name) if isinstance(name, str) else name
