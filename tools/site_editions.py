"""Files of the book to take along; conf.py loads this file as an extension.

- `{editions}` lists the files that `tools/editions.py` makes, linked where the repository publishes them.
- The menu of downloads at the head of each page leads to the page with this list.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from edition_builder import CHECKSUMS, FILES, PRINTED, TAG
from site_way_in import Written

PAGE = "reference/editions"
ABOUT = {
    "zip": (
        "The site, as one zip",
        "everything that is here, with no server and no network: unpack it and open `index.html`",
    ),
    "pdf": (
        "The book as a PDF",
        "A4, for a screen or for paper, with bookmarks, and tags for screen readers",
    ),
    "epub": (
        "The book as an EPUB",
        "for readers of electronic books; formulas are MathML, which a program can read aloud",
    ),
}


def address(repository: str, name: str) -> str:
    """Return the address of a file of the editions; "" where unknown, as the workflow is GitHub's."""
    published = repository.startswith("https://github.com/")
    return f"{repository}/releases/download/{TAG}/{name}" if published else ""


class Editions(Written):
    """`{editions}`: the files, each with a line on what it is."""

    def run(self) -> list[nodes.Node]:
        """A list, and where the files are."""
        self.read("book.yml")  # which says what pages there are
        repository = self.config.book_repository
        named = [(FILES[kind], *ABOUT[kind]) for kind in FILES]
        for docname, name in PRINTED.items():
            if docname in self.env.found_docs:
                title = f"{name.removesuffix('.pdf').capitalize()}, printed"
                named.append((name, title, f"[its page](/{docname}.md) on two sheets of A4"))
        lines = []
        for name, title, about in named:
            url = address(repository, name)
            lines += [f"- **[{title}]({url})**: {about}." if url else f"- **{title}**, `{name}`: {about}."]
        sums = address(repository, CHECKSUMS)
        if sums:
            said = f"They are made anew whenever this site is. [Checksums]({sums}) are beside them."
        else:
            said = (
                "This copy of the site is not published from a repository, so there is nothing to "
                "download here: `make editions` makes them, with their checksums, in `_build/editions`."
            )
        return self.block("editions", [*lines, "", said] if sums else [said, "", *lines])


def add_to_downloads(
    app: Sphinx, _pagename: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    """Add the whole book to the theme's menu of downloads."""
    if PAGE not in app.env.found_docs:
        return
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons":
            entry = {"type": "link", "text": "The whole book", "tooltip": "The whole book: zip, PDF, EPUB"}
            url = context["pathto"](PAGE)
            group["buttons"].append(
                {**entry, "icon": "fas fa-book", "url": url, "label": "download-book-button"}
            )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("editions", Editions)
    # After the theme has made its menus, at 501.
    app.connect("html-page-context", add_to_downloads, priority=700)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
