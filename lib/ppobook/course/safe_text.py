"""A student's text as HTML that can do nothing: no tag, no address and no picture of it comes alive.

Markdown is rendered (emphasis, lists, tables, code), raw HTML is shown as it was typed, and so are links and
images, which could call another machine. Formulas stay TeX, in `<span class="math">`, to which "display" is
added for those on a line of their own.
"""

from __future__ import annotations

import functools
import re
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

# A longer text is truncated: nobody reads it, and it would only make pages slow.
LIMIT = 20_000

_ROLE = re.compile(r"\{[\w:-]+\}(`+)(.+?)\1", re.S)
# What a file can't hold or a page can't show: control characters, and halves of surrogate pairs.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def plain(text: Any, limit: int = LIMIT) -> str:
    """Any text, escaped, for a place where it is not rendered."""
    return escape(_clean(str(text), limit))


def rendered(text: str, limit: int = LIMIT) -> str:
    """Markdown as HTML, for `<div>`."""
    # The book's roles, {ref}`ex-name`, are shown as what they name.
    return _markdown().render(_ROLE.sub(r"\1\2\1", _clean(text, limit)))


def _clean(text: str, limit: int) -> str:
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    return text if len(text) <= limit else f"{text[:limit]} […]"


@functools.cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.use(dollarmath_plugin, allow_space=False, double_inline=True, renderer=_math)
    # Raw HTML is not parsed either, so that it stays text.
    return markdown.disable(["link", "image", "autolink", "reference", "html_inline", "html_block", "entity"])


def _math(content: str, options: dict[str, bool]) -> str:
    display = " display" if options.get("display_mode") else ""
    return f'<span class="math{display}">{escape(content.strip())}</span>'
