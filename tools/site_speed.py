"""Shortcuts that make a build of the site quicker; conf.py loads this file as an extension.

- AutoAPI writes all of the library's pages when any of its files has changed. Those that come out the same
  get back their time, so that Sphinx does not read them again, and pages of removed modules go.
- AutoAPI reads the library only, and not all of PyTorch to know what an attribute is.
- For references to numbered figures, each page is loaded once, and not once per reference.
- The sidebar, the same for all pages but for its links and marks, is made once: the theme takes half
  a second for each page.
- Pages are written on all processors. (sphinx-proof can't read them in parallel.)
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from astroid.builder import AstroidBuilder
from astroid.exceptions import AstroidImportError
from astroid.manager import AstroidManager
from docutils import nodes
from pydata_sphinx_theme.toctree import add_toctree_functions
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.environment import BuildEnvironment
from sphinx.util.osutil import relative_uri

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


# What marks the way to the page that is shown.
MARKS = re.compile(r' class="current"|(?<=")current | current active| open="open"')
# What can carry a mark, or ends what does.
TAGS = re.compile(r"(<(?:ul|li|a|details)\b[^>]*>|</(?:ul|li)>)")


def leads_to(address: str, link: str) -> str:
    """The address that a link on a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(address), link))


class Sidebar:
    """The theme's sidebar, the same on all pages but for its links and the way to the page that is shown.

    The theme makes it for the first page; for the others its tags are written anew.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.links: dict[int, str] = {}  # where a link stands in the parts, and to which page it goes
        self.ways: dict[str, list[list[int]]] = {}  # for each page, where the marks stand

    def take(self, html: str, address: str) -> None:
        """Keep the sidebar of the page with this address."""
        self.parts = TAGS.split(html)  # every second one is a tag
        self.parts[1::2] = [MARKS.sub("", tag) for tag in self.parts[1::2]]
        above: list[list[int]] = []  # the lists and entries around this place, each with its box to open
        for place, tag in enumerate(self.parts):
            if tag.startswith(("<ul", "<li")):
                above.append([place])
            elif tag.startswith("</"):
                above.pop()
            elif tag.startswith("<details"):
                above[-1].append(place)
            elif (link := re.search(r'href="([^"]*)"', tag)) and ":" not in link[1]:
                self.links[place] = address if link[1] == "#" else leads_to(address, link[1])
                self.ways[self.links[place]] = list(above)

    def of(self, address: str, above: Sequence[str] = ()) -> str:
        """The sidebar of a page, given also the pages above it: of one too deep to be listed, the next is."""
        parts = list(self.parts)
        way = next((self.ways[page] for page in (address, *above) if page in self.ways), [])
        for place in {place for around in way for place in around}:
            parts[place] = self.marked(parts[place])
        for place, other in self.links.items():
            here = other == address
            tag = self.marked(parts[place]) if here else parts[place]
            to = "#" if here else relative_uri(address, other)
            parts[place] = re.sub(r'href="[^"]*"', f'href="{to}"', tag)
        return "".join(parts)

    @staticmethod
    def marked(tag: str) -> str:
        """A tag on the way to the page that is shown."""
        if tag.startswith("<li"):
            return re.sub(r"(toctree-l\d+)", r"\1 current active", tag)
        if tag.startswith("<details"):
            return '<details open="open">'
        return tag.replace('class="', 'class="current ', 1) if "class=" in tag else '<ul class="current">'

    def come_between(self, app: Sphinx) -> None:
        """Let `make_once` come after the theme offers its sidebar and before it looks whether it is empty."""
        listeners = app.events.listeners["html-page-context"]
        offers = [place for place, one in enumerate(listeners) if one.handler is add_toctree_functions]
        if offers:
            app.connect("html-page-context", self.make_once)
            listeners.insert(offers[0] + 1, listeners.pop())

    def make_once(
        self, app: Sphinx, pagename: str, _template: str, context: dict[str, Any], _: object
    ) -> None:
        """Put a `generate_toctree_html` in the page's context that asks the theme once."""
        theirs = context["generate_toctree_html"]

        def ours(**options: Any) -> str:
            address = app.builder.get_target_uri(pagename)
            if not self.parts:
                self.take(str(theirs(**options)), address)
            above = [leads_to(address, one["link"]) for one in reversed(context.get("parents", []))]
            return self.of(address, above)

        context["generate_toctree_html"] = ours


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
    app.connect("builder-inited", Sidebar().come_between)
    app.connect("env-updated", write_on_all_processors)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
