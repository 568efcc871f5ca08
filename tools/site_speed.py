"""Shortcuts that make a build of the site quicker; conf.py loads this file as an extension.

- AutoAPI reads the library only, and not all of PyTorch to know what an attribute is.
- Pages are written on all processors. (sphinx-proof can't read them in parallel.)

Sphinx builds anew what it sees to have changed: pages, their dependencies and conf.py. After a change of
tools/, of _static/ or of the pinned versions, or when a module of the library has gone, `make clean` comes
first.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from astroid.builder import AstroidBuilder
from astroid.exceptions import AstroidImportError
from astroid.manager import AstroidManager
from sphinx.application import Sphinx

find_module = AstroidManager.ast_from_module_name


def find_own_module(manager: AstroidManager, name: str, *rest: Any, **named: Any) -> Any:
    """Find a module as Astroid does, if it is the library's or Python's own."""
    if name and name.partition(".")[0] not in {"ppobook", *sys.stdlib_module_names}:
        raise AstroidImportError("no installed package is read", modname=name)
    return find_module(manager, name, *rest, **named)


def write_on_all_processors(app: Sphinx, _env: object) -> None:
    """Let pages be written in parallel."""
    app.parallel = (os.cpu_count() or 1) + 1  # the process that hands the pages out counts too


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    AstroidManager.ast_from_module_name = find_own_module  # type: ignore[method-assign]
    AstroidBuilder.delayed_assattr = lambda _self, _node: None  # type: ignore[method-assign]
    app.connect("env-updated", write_on_all_processors)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
