"""Files of the book to take along; conf.py loads this file as an extension.

- `{edition}` names a file that `tools/editions.py` makes, linked where the repository publishes it.
- The menu of downloads at the head of each page leads to the page that lists them.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from edition_builder import TAG

PAGE = "reference/editions"


def edition_role(
    _name: str, rawtext: str, text: str, _line: int, inliner: Any, *_: object
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """`{edition}`TITLE <FILE>``: a link, or the title and the file's name, as the workflow is GitHub's."""
    title, file = re.fullmatch(r"(.+) <(.+)>", text).groups()
    repository = inliner.document.settings.env.config.book_repository
    if not repository.startswith("https://github.com/"):
        return [nodes.Text(f"{title}, "), nodes.literal("", file)], []
    url = f"{repository}/releases/download/{TAG}/{file}"
    return [nodes.reference(rawtext, title, refuri=url)], []


def add_to_downloads(
    app: Sphinx, _pagename: str, _template: str, context: dict[str, Any], _doctree: object
) -> None:
    """Add the whole book to the theme's menu of downloads."""
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons":
            entry = {"type": "link", "text": "The whole book", "tooltip": "The whole book: zip, PDF, EPUB"}
            url = context["pathto"](PAGE)
            group["buttons"].append(
                {**entry, "icon": "fas fa-book", "url": url, "label": "download-book-button"}
            )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_role("edition", edition_role)
    # After the theme has made its menus, at 501.
    app.connect("html-page-context", add_to_downloads, priority=700)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
