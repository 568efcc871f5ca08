"""Means to keep pages light; conf.py loads this file as an extension.

- Formulas are set by KaTeX. Only pages that have some ask for it, and so with other scripts.
- A picture is fetched when the reader comes near it, and its room is kept until then.
- Sphinx's search index is not made: site_search.py makes the book's own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import imagesize
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.mathjax import html_visit_displaymath, html_visit_math

KATEX = "vendored/katex"


# --- formulas -----------------------------------------------------------------------------------------------


def mark_up(app: Sphinx) -> None:
    """Write formulas between TeX's own marks, as for MathJax; formulas.js has KaTeX set them."""
    app.add_html_math_renderer(
        "katex",
        inline_renderers=(html_visit_math, None),
        block_renderers=(html_visit_displaymath, None),
    )


#: What is in a page that asks for these files.
NEEDED = {
    r'class="math\b': (f"{KATEX}/katex.min.css", f"{KATEX}/katex.min.js"),
    'class="term-tips"': ("terms.js",),
    'class="claims-of"': ("claims.js",),
    'class="card-desk"': ("cards.js",),
    'id="hill"': ("front.css", "hill.js"),
    'class="settings docutils': ("cheatsheet.css",),  # by which it prints on three sheets
}


def ask_for_files(
    app: Sphinx, pagename: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    """Add the scripts and style sheets that only some pages need."""
    for mark, files in NEEDED.items():
        if app.builder.format == "html" and re.search(mark, context.get("body") or ""):
            for file in files:
                app.add_css_file(file, priority=900) if file.endswith(".css") else app.add_js_file(
                    file, defer="defer"
                )


# --- pictures ----------------------------------------------------------------------------------------------


def fetch_when_near(html: str, sizes: dict[str, tuple[int, ...]]) -> str:
    """A page whose pictures are fetched when the reader comes near, in the room that they will need."""

    def changed(tag: re.Match[str]) -> str:
        text = tag[0]
        if "loading=" in text or 'src="data:' in text:
            return text
        source = re.search(r'src="([^"]*)"', text)
        width, height = sizes.get(Path(source[1]).name, (-1, -1)) if source else (-1, -1)
        room = f' width="{width}" height="{height}"' if width > 0 and "width" not in text else ""
        return f'<img loading="lazy"{room}{text[4:]}'

    return re.sub(r"<img\b[^>]*>", changed, html)


def lighten(app: Sphinx, _pagename: str, _template: str, context: dict[str, Any], doctree: object) -> None:
    """Do this to the text of a page."""
    if app.builder.name != "html" or not context.get("body"):
        return
    sizes = {}
    if isinstance(doctree, nodes.document):
        for source, name in app.builder.images.items():
            path = Path(app.srcdir, source)
            sizes[name] = tuple(map(round, imagesize.get(path))) if path.is_file() else (-1, -1)
    context["body"] = fetch_when_near(context["body"], sizes)


def no_search_index(app: Sphinx) -> None:
    """Tell Sphinx not to make its index."""
    if app.builder.format == "html":
        app.builder.search = False


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    mark_up(app)
    # Before the builder prepares its index, as it does once the pages have been read.
    app.connect("builder-inited", no_search_index)
    app.connect("html-page-context", ask_for_files)
    app.connect("html-page-context", lighten, priority=800)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
