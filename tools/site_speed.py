"""Shortcuts that make a build of the site quicker; conf.py loads this file as an extension.

- AutoAPI writes all of the library's pages when any of its files has changed. Those that come out the same
  get back their time, so that Sphinx does not read them again, and pages of removed modules go.
- AutoAPI reads the library only, and not all of PyTorch to know what an attribute is.
- For references to numbered figures, each page is loaded once, and not once per reference.
- Pages are written on all processors. (sphinx-proof can't read them in parallel.)

Sphinx builds anew what it sees to have changed: pages, their dependencies and conf.py. After a change of
tools/, of _static/ or of the pinned versions, `make clean` comes first.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from astroid.builder import AstroidBuilder
from astroid.exceptions import AstroidImportError
from astroid.manager import AstroidManager
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.environment import BuildEnvironment

find_module = AstroidManager.ast_from_module_name


def newest(app: Sphinx) -> tuple[float, int]:
    """Return the time of the library's newest file, and how many files there are."""
    folders = [Path(app.srcdir, folder) for folder in app.config.autoapi_dirs]
    times = [file.stat().st_mtime for folder in folders for file in folder.rglob("*.py")]
    return max(times, default=0.0), len(times)


def clear_library(app: Sphinx) -> None:
    """Put the library's pages away before AutoAPI makes them, if the library has changed."""
    folder = Path(app.srcdir, app.config.autoapi_root)
    app.env.book_pages = {}
    if getattr(app.env, "book_library", None) == newest(app) and folder.is_dir():
        return
    app.env.book_library = newest(app)
    pages = folder.rglob("*.rst")
    app.env.book_pages = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in pages}
    shutil.rmtree(folder, ignore_errors=True)
    app.env.autoapi_source_hashes = None


def keep_times(app: Sphinx) -> None:
    """Give a page that AutoAPI made the same as before its time again."""
    for path, (text, written) in app.env.book_pages.items():
        if path.exists() and path.read_bytes() == text:
            os.utime(path, ns=(written, written))
    app.env.book_pages = {}


def find_own_module(manager: AstroidManager, name: str, *rest: Any, **named: Any) -> Any:
    """Find a module as Astroid does, if it is the library's or Python's own."""
    if name and name.partition(".")[0] not in {"ppobook", *sys.stdlib_module_names}:
        raise AstroidImportError("no installed package is read", modname=name)
    return find_module(manager, name, *rest, **named)


class Numbers(StandardDomain):
    """Sphinx's own domain, which would load a page anew for each reference that is numbered."""

    @cached_property
    def loaded(self) -> Callable[[str], nodes.document]:
        """Return pages by name, which nobody may change."""
        return cache(self.env.get_doctree)

    def _resolve_numref_xref(self, env: BuildEnvironment, *rest: Any) -> Any:
        env.get_doctree = self.loaded  # type: ignore[method-assign]
        try:
            return super()._resolve_numref_xref(env, *rest)
        finally:
            del env.get_doctree  # type: ignore[method-assign]


def write_on_all_processors(app: Sphinx, _env: object) -> None:
    """Let pages be written in parallel."""
    app.parallel = (os.cpu_count() or 1) + 1  # the process that hands the pages out counts too


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    AstroidManager.ast_from_module_name = find_own_module  # type: ignore[method-assign]
    AstroidBuilder.delayed_assattr = lambda _self, _node: None  # type: ignore[method-assign]
    app.add_domain(Numbers, override=True)
    # AutoAPI runs at 500.
    app.connect("builder-inited", clear_library, priority=400)
    app.connect("builder-inited", keep_times, priority=600)
    app.connect("env-updated", write_on_all_processors)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
