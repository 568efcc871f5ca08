"""Right and wrong answers to the exercises, for the tests of their checks."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def tables(*modules: ModuleType) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """RIGHT, WRONG and UNNAMED of several modules, each in one."""
    right, wrong, unnamed = (
        {name: row for module in modules for name, row in getattr(module, table).items()}
        for table in ("RIGHT", "WRONG", "UNNAMED")
    )
    return right, wrong, unnamed
