"""What a build of the site may leave as it was; conf.py loads this file as an extension.

Sphinx reads the pages whose sources have changed and writes those that it has read. That would be too much
for the library's pages, whose sources each build makes anew, and too little where a page shows something of
another one. So:

- The library's pages are made when the library has changed; those that come out the same keep their time.
- When titles, numbers, labels, names or citations have changed, every page is written. When a page has gone,
  its file goes too.
- When the code that makes the site has changed, or a pinned version, every page is read again; when a style
  sheet or a script has, every page is written, since it holds their checksums.
- A build that was stopped, or gave warnings, is not built upon: the warnings come until they are mended.

And what makes a build of everything quicker: the sidebar, the same for all pages but for its links, is made
from titles alone, and pages are written on all processors.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import CONFIG_CHANGED, BuildEnvironment

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


# --- the sidebar --------------------------------------------------------------------------------------------


def titles_alone(toc: nodes.bullet_list) -> nodes.bullet_list:
    """A page's contents, less its own headings: what Sphinx leaves of a copy of it for the sidebar."""
    toc = toc.deepcopy()
    for title in toc:
        if len(title) > 1:
            pages = list(title.findall(addnodes.toctree))
            title[1][:] = pages
            if not pages:
                title.pop(1)
    return toc


class Sidebar:
    """Lets Sphinx make a page's sidebar without copying every heading, and every name of the library."""

    def __init__(self) -> None:
        self.titles: dict[str, nodes.bullet_list] = {}

    def note_titles(self, app: Sphinx, _builder: object) -> None:
        """Before pages are written."""
        self.titles = {docname: titles_alone(toc) for docname, toc in app.env.tocs.items()}

    def make_quickly(
        self, app: Sphinx, pagename: str, template: str, context: dict[str, Any], _: object
    ) -> None:
        """Put `toctree` in the page's context that makes the same sidebar sooner."""
        as_it_is = context["toctree"]

        def toctree(**options: Any) -> str:
            if not options.get("titles_only"):
                return as_it_is(**options)
            tocs, app.env.tocs = app.env.tocs, self.titles
            try:
                return as_it_is(**options)
            finally:
                app.env.tocs = tocs

        context["toctree"] = toctree


# --- processors ---------------------------------------------------------------------------------------------


def write_on_all_processors(app: Sphinx, _env: BuildEnvironment) -> None:
    """Let pages be written in parallel; read they cannot be: sphinx-proof does not merge what it reads."""
    app.parallel = (os.cpu_count() or 1) + 1  # the process that hands the pages out counts too


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("book_code", "", "env")
    app.add_config_value("book_assets", "", "html")
    app.connect("config-inited", note_code_and_assets)
    # AutoAPI runs at 500.
    pages = LibraryPages()
    app.connect("builder-inited", trust_no_unfinished_build, priority=100)
    app.connect("builder-inited", pages.clear, priority=400)
    app.connect("builder-inited", pages.age, priority=600)
    app.connect("env-get-outdated", drop_pages)
    # After everything has been numbered.
    app.connect("env-get-updated", write_all_if_shown_elsewhere, priority=950)
    app.connect("env-updated", write_on_all_processors)
    sidebar = Sidebar()
    app.connect("write-started", sidebar.note_titles)
    # Before the theme uses it, at 500.
    app.connect("html-page-context", sidebar.make_quickly, priority=100)
    app.connect("build-finished", note_good_end)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
