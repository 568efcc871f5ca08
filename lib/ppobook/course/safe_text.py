"""Text of anybody as HTML that can do nothing: no tag and no address of it comes alive.

Markdown is rendered by markdown-it without HTML and links, which are shown as they were typed, since they
could call another machine. Formulas become MathML; one that isn't LaTeX is shown in `<code>`. Of pictures
those are shown that stand in the text itself and were made anew: see `ppobook.course.pictures`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from html import escape, unescape
from types import MappingProxyType
from typing import Any
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import Converter
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from ppobook.course import pictures

# A longer text is truncated: nobody reads it, and it would only make pages slow.
LIMIT = 20_000

_DIRECTIVE = re.compile(r"^:{3,}\{([\w-]+)\}[ \t]*(.*)\n(?::[\w-]+:.*\n)*", re.M)
# What a file can't hold or a page can't show: control characters, and halves of surrogate pairs.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# What turns the direction of writing round, of all that follows too.
_TURNING = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LONGEST_FORMULA = 2000  # characters

# What a formula is made of, and how it is laid out. The converter writes more: addresses, classes, styles.
_ELEMENTS = {
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mpadded", "mphantom", "mstyle", "menclose"),
    *("mfrac", "msqrt", "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover"),
    *("mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mlabeledtr", "mtd"),
}
_ATTRIBUTES = {
    *("xmlns", "display", "displaystyle", "scriptlevel", "mathvariant", "linethickness", "accent", "width"),
    *("form", "fence", "stretchy", "largeop", "movablelimits", "minsize", "maxsize", "lspace", "rspace"),
    *("columnalign", "columnspacing", "rowspacing", "columnlines", "rowlines", "notation", "linebreak"),
}


def line(text: Any, limit: int = 500) -> str:
    """Any text as one line for a terminal: nothing in it moves the cursor, ends the line or turns it."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(text)[:limit])


def plain(text: Any, limit: int = LIMIT) -> str:
    """Any text, escaped, for a place where it is not rendered."""
    return escape(_clean(str(text), limit))


def inline(text: Any) -> str:
    """One paragraph of Markdown as HTML, for `<span>`."""
    return str(_markdown().renderInline(_clean(str(text), LIMIT)))


def rendered(text: str) -> str:
    """Markdown as HTML, for `<div>`, with the pictures between the pieces of the text."""
    html, left = "", LIMIT
    for piece, picture in pictures.divided(text):
        html += str(_markdown().render(_clean(piece, left))) if left > 0 else ""
        html += picture
        left -= len(piece)
    return html


def statement(text: str) -> str:
    """An exercise's text as HTML; what the book puts into boxes stands below its title."""
    opened = _DIRECTIVE.sub(lambda found: f"**{found[2]}**\n" if found[1] != "exercise" else "", text)
    return rendered(re.sub(r"^:{3,}[ \t]*$", "", opened, flags=re.M))


def _clean(text: str, limit: int) -> str:
    text = _TURNING.sub("", text)
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    return text if len(text) <= limit else f"{text[:limit]} [… the rest is not shown]"


@functools.cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.use(dollarmath_plugin, allow_space=False, double_inline=True).use(amsmath_plugin)
    markdown.use(myst_role_plugin)
    for name in ("math_inline", "math_inline_double", "math_block", "amsmath"):
        markdown.add_render_rule(name, _math)
    markdown.add_render_rule("myst_role", _role)
    # What is not parsed stays text.
    addresses = ["link", "autolink", "reference", "image"]
    return markdown.disable([*addresses, "html_inline", "html_block", "entity"])


def _math(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    return _formula(tokens[at].content, block=tokens[at].type != "math_inline")


def _role(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    """The book's roles, such as {ref}`ex-name`, as what they name."""
    text = tokens[at].content
    return _formula(text) if tokens[at].meta["name"] == "math" else f"<code>{escape(text)}</code>"


def _formula(text: str, *, block: bool = False) -> str:
    try:
        return mathml(text, block=block)
    except ValueError:
        return f"<code>{escape(text.strip())}</code>"


# --- formulas -----------------------------------------------------------------------------------------------


def mathml(formula: str, *, block: bool = False) -> str:
    """Convert a formula to MathML that has the formula as its label.

    It can come from anybody: what isn't mathematics is left out, and text is escaped.
    """
    if len(formula) > LONGEST_FORMULA:
        raise ValueError(f"a formula must have at most {LONGEST_FORMULA} characters, got {len(formula)}")
    # The converter knows the environments that stand alone, but not those that stand inside a formula.
    written = re.sub(r"(begin|end)\{(?:aligned|split|align)\}", r"\1{align*}", formula.strip())
    written = re.sub(r"(begin|end)\{gathered\}", r"\1{matrix}", written)
    written = re.sub(r"(\\\\)\[[\d.]+\w+\]", r"\1", written)
    converter = Converter(display="block" if block else "inline")
    # No commands of its own: two dozen that double each other would fill the memory.
    refusing: Any = MappingProxyType({})
    converter.macros = refusing
    try:
        made = converter.convert_to_element(written)
        _only_mathematics(made)
    except Exception as error:  # of any kind, as the text can be anything
        raise ValueError(f"a formula must be LaTeX, got {formula[:60]!r}") from error
    made.set("aria-label", formula.strip())
    return tostring(made, encoding="unicode")


def _only_mathematics(element: Element) -> None:
    """Leave of an element what is mathematics; characters that it names become themselves."""
    if element.tag not in _ELEMENTS:
        element.tag = "mrow"
    for name in set(element.attrib) - _ATTRIBUTES:
        del element.attrib[name]
    element.text = unescape(element.text) if element.text else None
    element.tail = None
    for inner in element:
        _only_mathematics(inner)
