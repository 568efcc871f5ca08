"""Shortcuts of a build of the site that must not show: the sidebar made once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sphinx_process import sphinx

pytest.importorskip("sphinx_book_theme", reason="Sphinx is not installed")

# A book whose last page is too deep for the sidebar; it counts how often the theme asks Sphinx for one.
DEEP = {
    "conf.py": """
import os
from site_speed import Sidebar
extensions = ["myst_parser"]
html_theme = "sphinx_book_theme"
exclude_patterns = ["_build", "_other"]
def count(app, page, template, context, doctree):
    def toctree(**options):
        with open(app.outdir / "asked", "a", encoding="utf-8") as asked:
            asked.write("x")
        return theirs(**options)
    theirs, context["toctree"] = context["toctree"], toctree
def setup(app):
    app.connect("html-page-context", count, priority=100)
    if "ONCE" in os.environ:
        app.connect("builder-inited", Sidebar().come_between)
""",
    "index.md": "# Deep\n\n```{toctree}\n:caption: One part\none\na/index\n```\n"
    "```{toctree}\n:caption: Another\ntwo\nElsewhere <https://example.org/a>\n```\n",
    "one.md": "# One\n\n## A heading\n",
    "two.md": "# Two & `more`\n",
    "a/index.md": "# A\n\n```{toctree}\nb/index\n```\n",
    "a/b/index.md": "# B\n\n```{toctree}\nc/index\nbeside\n```\n",
    "a/b/beside.md": "# The current active one\n",
    "a/b/c/index.md": "# C\n\n```{toctree}\nd/index\n```\n",
    "a/b/c/d/index.md": "# D\n\n```{toctree}\ne\n```\n",
    "a/b/c/d/e.md": "# E\n",
}
# How many entries of the sidebar lead to each page.
MARKS = {
    **{"index": 0, "search": 0, "genindex": 0, "one": 1, "two": 1, "a/index": 1, "a/b/index": 2},
    **{"a/b/beside": 3, "a/b/c/index": 3, "a/b/c/d/index": 4, "a/b/c/d/e": 4},
}


def test_the_sidebar_is_the_themes(tmp_path: Path) -> None:
    for name, text in DEEP.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    theirs, ours = tmp_path / "_build", tmp_path / "_other"
    for out, environment in ((theirs, {}), (ours, {"ONCE": "1"})):
        done = sphinx(tmp_path, "-q", "-b", "html", ".", str(out), **environment)
        assert done.returncode == 0, done.stderr
    assert (theirs / "asked").stat().st_size == len(MARKS)
    assert (ours / "asked").stat().st_size == 1
    for name, marks in MARKS.items():
        page = (theirs / f"{name}.html").read_text("utf-8")
        assert len(re.findall(r"toctree-l\d current active", page)) == marks
        assert (ours / f"{name}.html").read_text("utf-8") == page, name
