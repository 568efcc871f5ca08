"""What a build of the site may leave as it was; conf.py loads this file as an extension.

Sphinx reads the pages whose sources have changed and writes those that it has read. That would be too much
for the library's pages, whose sources each build makes anew, and too little where a page shows something of
another one. So:

- The library's pages are made when the library has changed; those that come out the same keep their time.
- A page is read too if its source, or a file that it depends on, was put back as it was before.
- When titles, numbers, labels, names or citations have changed, every page is written. When a page has gone,
  its file goes too.
- When the code that makes the site has changed, or a pinned version, every page is read again; when a style
  sheet or a script has, every page is written, since it holds their checksums.
- A build that was stopped, or gave warnings, is not built upon: the warnings come until they are mended.

And what makes a build quicker:

- AutoAPI reads the library only, and not all of PyTorch to know what an attribute is. (So its pages are the
  same, whether PyTorch is installed or not.)
- Pages are loaded to count the figures if one has been read, and once for what refers to their numbers.
- The sidebar, the same for all pages but for its links and marks, is made once.
- Pages are written on all processors.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from astroid.builder import AstroidBuilder
from astroid.exceptions import AstroidImportError
from astroid.manager import AstroidManager
from docutils import nodes
from pydata_sphinx_theme.toctree import add_toctree_functions
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.domains.std import StandardDomain
from sphinx.environment import CONFIG_CHANGED, BuildEnvironment
from sphinx.environment.collectors.toctree import TocTreeCollector
from sphinx.util.osutil import relative_uri

Page = tuple[bytes, int]  # its text, and when it was written


def digest(paths: Iterable[Path]) -> str:
    """A checksum of files and their names."""
    files = sorted(path for path in paths if path.is_file())
    return hashlib.sha256(b"".join(repr((str(f), f.read_bytes())).encode() for f in files)).hexdigest()


# --- what the site is made by -------------------------------------------------------------------------------


def note_code_and_assets(app: Sphinx, config: Config) -> None:
    """Make the code and the assets settings, which Sphinx compares with those of the last build."""
    root = Path(app.srcdir)
    ours = [
        module
        for name, module in sys.modules.items()
        if name.startswith(("ppobook", "site_", "claims", "edition_", "minutes", "notebook_"))
    ]
    code = {Path(module.__file__ or "") for module in ours}
    config.book_code = digest(code | {root / "conf.py", root / "constraints.txt"})
    scripts = root / "lib" / "ppobook" / "teaching" / "figures"
    config.book_assets = digest(
        [*(root / "_static").rglob("*"), *scripts.rglob("*.js"), *scripts.rglob("*.css")]
    )


def trust_no_unfinished_build(app: Sphinx) -> None:
    """Read everything again if the last build did not come to a good end."""
    marker = Path(app.doctreedir) / "unfinished"
    if marker.exists():
        app.env.config_status = CONFIG_CHANGED
    marker.touch()


def note_good_end(app: Sphinx, exception: Exception | None) -> None:
    """Remember that the build was finished, without a warning."""
    if exception is None and app._warncount == 0:
        (Path(app.doctreedir) / "unfinished").unlink()


# --- the library's pages ------------------------------------------------------------------------------------


class LibraryPages:
    """The sources that AutoAPI writes, before it writes them and after."""

    def __init__(self) -> None:
        self.before: dict[Path, Page] = {}

    @staticmethod
    def made_from(app: Sphinx) -> str:
        """A checksum of the library and of the pages themselves."""
        library = [
            path for folder in app.config.autoapi_dirs for path in Path(app.srcdir, folder).rglob("*.py")
        ]
        return digest([*library, *Path(app.srcdir, app.config.autoapi_root).rglob("*.rst")])

    def clear(self, app: Sphinx) -> None:
        """Before AutoAPI: put the pages away if they have to be made; else it leaves them alone by itself."""
        if getattr(app.env, "book_library", None) == self.made_from(app):
            return
        folder = Path(app.srcdir, app.config.autoapi_root)
        self.before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*.rst")}
        shutil.rmtree(folder, ignore_errors=True)
        app.env.autoapi_source_hashes = None

    def age(self, app: Sphinx) -> None:
        """After AutoAPI: give a page that came out the same its time again."""
        for path, (text, written) in self.before.items():
            if path.exists() and path.read_bytes() == text:
                os.utime(path, ns=(written, written))
        app.env.book_library = self.made_from(app)


find_module = AstroidManager.ast_from_module_name


def find_own_module(manager: AstroidManager, name: str, *rest: Any, **named: Any) -> Any:
    """Astroid's `ast_from_module_name`, for the library and Python's own modules only."""
    if name and name.partition(".")[0] not in {"ppobook", *sys.stdlib_module_names}:
        raise AstroidImportError("no installed package is read", modname=name)
    return find_module(manager, name, *rest, **named)


def read_the_library_only() -> None:
    """Let Astroid leave out other packages, and which values attributes may have."""
    AstroidManager.ast_from_module_name = find_own_module  # type: ignore[method-assign]
    AstroidBuilder.delayed_assattr = lambda _self, _node: None  # type: ignore[method-assign]


# --- files that are put back --------------------------------------------------------------------------------


def times_of(env: BuildEnvironment, docname: str) -> dict[str, int]:
    """When the source of a page, and each file that it depends on, was written."""
    names = [env.doc2path(docname, base=False), *env.dependencies.get(docname, ())]
    paths = {str(name): Path(env.srcdir, name) for name in names}
    return {name: path.stat().st_mtime_ns for name, path in paths.items() if path.exists()}


def note_times(_app: Sphinx, env: BuildEnvironment) -> None:
    """Remember these times."""
    env.book_times = {docname: times_of(env, docname) for docname in env.found_docs}


def put_back(
    _app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """The pages with a file of another time; Sphinx itself sees only what is newer than its reading."""
    times = getattr(env, "book_times", {})
    return [name for name in env.found_docs & times.keys() if times[name] != times_of(env, name)]


def without_a_picture(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The pages to write since the file of a picture on them has gone."""
    folder = Path(app.outdir, app.builder.imagedir)
    gone = (pages for pages, name in env.images.values() if not (folder / name).exists())
    return [page for pages in gone for page in pages]


# --- what a page shows of others ----------------------------------------------------------------------------


def drop_pages(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list:
    """Remove the files of pages that have gone."""
    for docname in removed:
        Path(app.builder.get_output_path(docname)).unlink(missing_ok=True)
    return []


def write_all_if_shown_elsewhere(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Every page, if anything has changed that a page can show of another one."""
    exercises = getattr(env, "sphinx_exercise_registry", {})
    citations = env.domains["cite"].citations if "cite" in env.domaindata else []
    shown = [
        sorted((docname, str(title)) for docname, title in env.titles.items()),
        sorted(env.toctree_includes.items()),
        sorted(env.toc_secnumbers.items()),
        sorted(env.toc_fignumbers.items()),
        sorted(tuple(thing) for domain in env.domains.sorted() for thing in domain.get_objects()),
        sorted((cited.key, cited.citation_id, repr(cited.entry)) for cited in citations),
        sorted((label, str(exercise.get("title"))) for label, exercise in exercises.items()),
    ]
    before, env.book_shown = (
        getattr(env, "book_shown", None),
        hashlib.sha256(repr(shown).encode()).hexdigest(),
    )
    return [] if before == env.book_shown else env.found_docs


class Numbers(StandardDomain):
    """Sphinx's own domain, which would load a page anew for each reference that is numbered."""

    @cached_property
    def loaded(self) -> Callable[[str], nodes.document]:
        """Pages by name, which nobody may change."""
        return cache(self.env.get_doctree)

    def _resolve_numref_xref(self, env: BuildEnvironment, *rest: Any) -> Any:
        env.get_doctree = self.loaded  # type: ignore[method-assign]
        try:
            return super()._resolve_numref_xref(env, *rest)
        finally:
            del env.get_doctree  # type: ignore[method-assign]


count_figures = TocTreeCollector.assign_figure_numbers


def count_figures_of_new_pages(collector: TocTreeCollector, env: BuildEnvironment) -> list[str]:
    """Sphinx's `assign_figure_numbers`, if a page has been read, or has gone, since they were counted."""
    read = dict(env.all_docs)  # each with the time of its reading
    if getattr(env, "book_counted", None) == read:
        return []
    env.book_counted = read
    return count_figures(collector, env)


# --- the sidebar --------------------------------------------------------------------------------------------


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


# --- processors ---------------------------------------------------------------------------------------------


def write_on_all_processors(app: Sphinx, _env: BuildEnvironment) -> None:
    """Let pages be written in parallel; read they cannot be: sphinx-proof does not merge what it reads."""
    app.parallel = (os.cpu_count() or 1) + 1  # the process that hands the pages out counts too


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("book_code", "", "env")
    app.add_config_value("book_assets", "", "html")
    app.add_domain(Numbers, override=True)
    read_the_library_only()
    TocTreeCollector.assign_figure_numbers = count_figures_of_new_pages  # type: ignore[method-assign]
    app.connect("config-inited", note_code_and_assets)
    # AutoAPI runs at 500.
    pages = LibraryPages()
    app.connect("builder-inited", trust_no_unfinished_build, priority=100)
    app.connect("builder-inited", pages.clear, priority=400)
    app.connect("builder-inited", pages.age, priority=600)
    app.connect("env-get-outdated", drop_pages)
    app.connect("env-get-outdated", put_back)
    app.connect("env-get-updated", without_a_picture)
    # After everything has been numbered.
    app.connect("env-get-updated", write_all_if_shown_elsewhere, priority=950)
    app.connect("env-updated", note_times)
    app.connect("env-updated", write_on_all_processors)
    app.connect("builder-inited", Sidebar().come_between)
    app.connect("build-finished", note_good_end)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
