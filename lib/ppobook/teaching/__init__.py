"""The layer between a reader and the library: checks, cards, figures and their look.

Everything here is imported when it is first used, and nothing here imports torch: the site is built
without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FROM = {
    "cards": ("decks", "cards"),
    "check": ("checks", "check"),
    "checks": ("checks", None),
    "figures": ("figures", None),
    "quiz": ("questions", "quiz"),
    "source_of": ("sources", "source_of"),
    "style": ("style", None),
}
__all__ = list(_FROM)


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module_name, attribute = _FROM[name]
    module = import_module(f"{__name__}.{module_name}")
    return module if attribute is None else getattr(module, attribute)
