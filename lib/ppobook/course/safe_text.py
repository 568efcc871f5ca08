"""A student's text as HTML that can do nothing: no tag, no address and no picture of it comes alive.

Markdown is rendered (emphasis, lists, tables, code), raw HTML is shown as it was typed, and so are links and
images, which could call another machine. Formulas become MathML; one that isn't LaTeX is shown as it was
typed, in `<code>`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

from ppobook.course.formulas import mathml

# A longer text is truncated: nobody reads it, and it would only make pages slow.
LIMIT = 20_000

_ROLE = re.compile(r"\{([\w:-]+)\}(`+)(.+?)\2", re.S)
_DIRECTIVE = re.compile(r"^:{3,}\{([\w-]+)\}[ \t]*(.*)\n(?::[\w-]+:.*\n)*", re.M)
# What a file can't hold or a page can't show: control characters, and halves of surrogate pairs.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

# What turns the direction of writing round, of all that follows too.
_TURNING = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def line(text: Any, limit: int = 500) -> str:
    """Any text as one line for a terminal: nothing in it moves the cursor, ends the line or turns it."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(text)[:limit])


def plain(text: Any, limit: int = LIMIT) -> str:
    """Any text, escaped, for a place where it is not rendered."""
    return escape(_clean(str(text), limit))


def inline(text: Any, limit: int = LIMIT) -> str:
    """One paragraph of Markdown as HTML, for `<span>`."""
    return str(_markdown().renderInline(_ROLE.sub(_named, _clean(str(text), limit))))


def rendered(text: str, limit: int = LIMIT) -> str:
    """Markdown as HTML, for `<div>`."""
    return str(_markdown().render(_ROLE.sub(_named, _clean(text, limit))))


def statement(text: str) -> str:
    """An exercise's text as HTML; what the book puts into boxes stands below its title."""
    opened = _DIRECTIVE.sub(lambda found: f"**{found[2]}**\n" if found[1] != "exercise" else "", text)
    return rendered(re.sub(r"^:{3,}[ \t]*$", "", opened, flags=re.M))


def _named(role: re.Match[str]) -> str:
    """The book's roles, such as {ref}`ex-name`, as what they name."""
    return f"${role[3]}$" if role[1] == "math" else f"{role[2]}{role[3]}{role[2]}"


def _clean(text: str, limit: int) -> str:
    text = _TURNING.sub("", text)
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    return text if len(text) <= limit else f"{text[:limit]} […]"


@functools.cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.use(dollarmath_plugin, allow_space=False, double_inline=True).use(amsmath_plugin)
    markdown.core.ruler.push("marks", _take_marks)
    for name in ("math_inline", "math_inline_double", "math_block", "amsmath"):
        markdown.add_render_rule(name, _math)
    # Raw HTML is not parsed either, so that it stays text.
    return markdown.disable(["link", "image", "autolink", "reference", "html_inline", "html_block", "entity"])


def _take_marks(state: StateCore) -> None:
    """Give a formula the mark behind it, which a line could begin with otherwise."""
    for token in state.tokens:
        for formula, after in itertools.pairwise(token.children or ()):
            if formula.type == "math_inline" and after.type == "text":
                rest = after.content.lstrip(".,;:!?")
                formula.meta["mark"] = after.content[: len(after.content) - len(rest)]
                after.content = rest


def _math(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    token = tokens[at]
    mark = token.meta.get("mark", "")
    try:
        return mathml(token.content, block=token.type != "math_inline", mark=mark)
    except ValueError:
        return f"<code>{escape(token.content.strip())}</code>{mark}"
