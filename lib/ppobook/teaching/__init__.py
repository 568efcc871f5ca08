"""The layer between a reader and the library: checks, cards, figures and their look.

Everything here is imported when it is first used, and nothing here imports torch: the site is built
without it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppobook.teaching import checks, figures, style
    from ppobook.teaching.checks import check
    from ppobook.teaching.decks import cards
    from ppobook.teaching.questions import quiz
    from ppobook.teaching.sources import source_of

__all__ = ["cards", "check", "checks", "figures", "quiz", "source_of", "style"]

_FROM = {
    "cards": ("decks", "cards"),
    "check": ("checks", "check"),
    "checks": ("checks", None),
    "figures": ("figures", None),
    "quiz": ("questions", "quiz"),
    "source_of": ("sources", "source_of"),
    "style": ("style", None),
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module_name, attribute = _FROM[name]
    module = import_module(f"{__name__}.{module_name}")
    return module if attribute is None else getattr(module, attribute)


# Not in a kernel that builds notebooks: its outputs would depend on all that this imports.
if "ipykernel" in sys.modules and "PPOBOOK_BUILD" not in os.environ:
    import_module(f"{__name__}.lab").begin()
