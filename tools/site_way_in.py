"""Ways into the book, for people and for machines; conf.py loads this file as an extension.

- `{ready}` says what there is, counted; `{chapters}` shows what book.yml says of each chapter, and its
  minutes; `{modules}` shows modules of the library, each with the first sentence of its docstring.
- Each page says its title and what it is about to those who show links to it.
- A list of all pages for search engines, where the site's address is known; and a page for lost readers that
  finds its style sheets and links from an address of any depth.
"""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ppobook.teaching import minutes, paths
from ppobook.teaching.contents import number_of, read_book
from site_road import chapter_at
from site_sections import set_of

SOCIAL_PICTURE = "_static/social.png"


# --- directives ---------------------------------------------------------------------------------------------


class Written(SphinxDirective):
    """A directive that writes MyST and lets it be parsed."""

    def block(self, name: str, lines: list[str]) -> list[nodes.Node]:
        """The lines as a container of this class."""
        box = nodes.container(classes=[name])
        self.state.nested_parse(StringList(lines, self.name), self.content_offset, box)
        return [box]

    def read(self, path: str) -> str:
        """A file of the repository, whose changes change the page."""
        self.env.note_dependency(str(Path(self.env.srcdir, path)))
        return Path(self.env.srcdir, path).read_text(encoding="utf-8")

    def minutes_of(self, docname: str) -> float:
        """Return how long a chapter's road is."""
        notebook = Path(self.env.srcdir) / f"{docname}.ipynb"
        self.env.note_dependency(str(notebook))
        return chapter_at(notebook).minutes


class Chapters(Written):
    """`{chapters}`: each chapter's title and minutes, its exercises, and, folded, its outcomes."""

    def run(self) -> list[nodes.Node]:
        """Part by part, as book.yml has them."""
        lines = []
        chapters = self.config.book_meta["chapters"]
        for part in yaml.safe_load(self.read("book.yml"))["parts"]:
            own = [entry for entry in part["chapters"] if entry["file"] in chapters]
            if own:
                lines += [f"**{part['caption']}**", ""]
            for entry in own:
                sets = [section["file"] for section in entry.get("sections", [])]
                lines += self.chapter(entry["file"], chapters[entry["file"]], sets)
        return self.block("chapters", lines)

    def chapter(self, docname: str, chapter: dict[str, Any], sets: list[str]) -> list[str]:
        """A chapter's lines."""
        number = number_of(docname)
        links = "".join(f" · [{set_of(name) or 'exercises'}](/{name}.ipynb)" for name in sets)
        read, compute = minutes.about(self.minutes_of(docname)), chapter["minutes"]["compute"]
        outcomes = "".join(f"<li>{html.escape(outcome['text'])}</li>" for outcome in chapter["outcomes"])
        return [
            f"{number} · [{chapter['title']}](/{docname}.ipynb)",
            f": *{read} minutes to read, {compute} to compute*{links}",
            "",
            "  <details><summary>What you will be able to do"
            f'<span class="visually-hidden"> after chapter {number}</span></summary>'
            f"<ul>{outcomes}</ul></details>",
            "",
        ]


class Ready(Written):
    """`{ready}`: what there is today, counted."""

    def run(self) -> list[nodes.Node]:
        """One paragraph."""
        chapters = list(self.config.book_meta["chapters"])
        hours = sum(map(self.minutes_of, chapters)) / 60
        book = read_book(Path(self.env.srcdir))
        whole = paths.find(book, "whole-book").hours[1]
        said = (
            f"**Ready to read and to run:** {len(chapters)} chapters, about {hours:.0f} hours of reading; "
            f"{len(book.tasks)} exercises that check themselves; and the library. With every box and every "
            f"exercise it is a course of {whole:.0f} hours; there are [shorter paths](/reference/paths.md)."
        )
        return self.block("ready", [said])


class Modules(Written):
    """`{modules} NAME…`: modules of the library, each with a line on what it holds."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """A list of definitions."""
        lines = []
        for name in self.arguments[0].split():
            path = f"lib/ppobook/{name.replace('.', '/')}"
            file = f"{path}/__init__.py" if Path(self.env.srcdir, path).is_dir() else f"{path}.py"
            about = ast.get_docstring(ast.parse(self.read(file))) or ""
            page = f"/autoapi/ppobook/{name.replace('.', '/')}/index"
            lines += [f"[`ppobook.{name}`]({page})", f": {first_sentence(about)}", ""]
        return self.block("modules", lines)


def first_sentence(docstring: str) -> str:
    """Up to the first full stop, or colon before an indented block, on one line."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph)[0]
    return sentence.rstrip(":").rstrip(".") + "."


# --- for those who show links to a page ---------------------------------------------------------------------


def about_of(doctree: nodes.document) -> str:
    """The first paragraph of a page that says something, at most 200 letters of it."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) > 60:
            return text if len(text) <= 200 else text[:200].rsplit(" ", 1)[0] + " …"
    return ""


def add_social(app: Sphinx, pagename: str, _template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the page what `layout.html` puts into its head."""
    if app.builder.name != "html":
        return
    base = app.config.html_baseurl
    context["site_root"] = urlsplit(base).path or "/"
    if doctree is None:
        return
    title = html.unescape(re.sub(r"<[^>]+>", "", context.get("title", "")))
    about = about_of(doctree)
    social = {"description": about} if about else {}
    social |= {"og:title": title, "og:type": "article", "og:site_name": app.config.project}
    social |= {"og:description": about} if about else {}
    if base:
        social |= {"og:url": base + app.builder.get_target_uri(pagename), "og:image": base + SOCIAL_PICTURE}
        social |= {"twitter:card": "summary_large_image"}
    context["social"] = social


def sitemap(base: str, pages: list[str]) -> str:
    """The list of pages, as search engines read it."""
    lines = "".join(f"<url><loc>{html.escape(base + page)}</loc></url>\n" for page in pages)
    head = '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    return f"{head}{lines}</urlset>\n"


def write_sitemap(app: Sphinx, exception: Exception | None) -> None:
    """Write it, where the site's address is known: it may hold none but whole addresses."""
    if exception is None and app.builder.name == "html" and app.config.html_baseurl:
        pages = [app.builder.get_target_uri(docname) for docname in sorted(app.env.found_docs)]
        text = sitemap(app.config.html_baseurl, pages)
        Path(app.outdir, "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("chapters", Chapters)
    app.add_directive("ready", Ready)
    app.add_directive("modules", Modules)
    app.connect("html-page-context", add_social)
    app.connect("build-finished", write_sitemap)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
