"""A chapter's text for its slides: MyST in blocks, sentences, and HTML with formulas as MathML.

MathML is what browsers show without a library, so that a file of slides needs no network.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from ppobook.course.formulas import mathml
from ppobook.teaching.tags import Cell

_KINDS = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "table_open": "table",
    "math_block": "math",
    "math_block_label": "math",
    "amsmath": "math",
    "fence": "code",
    "colon_fence": "box",
    "myst_target": "target",
    "myst_block_break": "target",
    "myst_line_comment": "target",
}
# Behind a sentence's last mark, and behind the brackets and the emphasis that close after it.
_END = r"(?:(?<=[.!?:])|(?<=[.!?:][”\")*])|(?<=[.!?:]\*\*)|(?<=[.!?:]\)\*\*))"
# "**Verdict.**", "**Measured: the variance.**"
_LABEL = re.compile(r"\*\*[^*]{2,45}[.:!?]\*\*")
# A person's initial ends no sentence.
_INITIAL = re.compile(r"(?:^|\*\* )[A-Z]\.$")
# Slides have no list of references, so citations are left out, with the space before them.
_CITED = re.compile(r"\s*\{cite[\w:]*\}`[^`]*`")
_LABELLED = re.compile(r"\$\$[ \t]*\(([\w:-]+)\)[ \t]*$", re.M)


@dataclass(frozen=True)
class Block:
    """A block of a text cell: of which kind it is, and how it was written."""

    kind: str
    source: str


def equations(chapter: int, text: str) -> dict[str, str]:
    """The labelled equations of a chapter's text, with their numbers."""
    return _numbered(chapter, _LABELLED.findall(text))


def titles(text: str) -> dict[str, str]:
    """The labelled headings of a text."""
    return dict(re.findall(r"^\(([\w:-]+)\)=\n+#+ (.+)$", text, re.M))


class Text:
    """The text of one chapter, with the numbers of its equations and figures and its sections' titles.

    Parameters
    ----------
    number : of the chapter
    cells : of the chapter
    others : mapping, optional
        The texts of chapters that it may refer to, by number.
    """

    def __init__(self, number: int, cells: list[Cell], others: Mapping[int, str] | None = None) -> None:
        written = "\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
        self.equations = equations(number, written)
        self.elsewhere: dict[str, str] = {}
        figures = [cell["metadata"].get("mystnb", {}).get("figure", {}).get("name") for cell in cells]
        self.figures = _numbered(number, [name for name in figures if name])
        # A section of another chapter is called by its title as well, an equation by its number.
        self.sections: dict[str, str] = {}
        for other, text in (others or {}).items():
            self.elsewhere |= equations(other, text)
            self.sections |= titles(text)
        self.sections |= titles(written)
        self._md = _parser(self._role)

    def _role(self, name: str, content: str) -> str:
        """A role as HTML."""
        if name == "math":
            return mathml(content)
        titled = re.fullmatch(r"(.*?)\s*<(.+)>", content, re.S)
        said, target = (titled[1], titled[2]) if titled else ("", content)
        if name == "eq":
            return self.equations.get(target) or self.elsewhere.get(target, "the equation")
        if name == "numref":
            return f"Figure {self.figures[target].strip('()')}" if target in self.figures else "the figure"
        if name == "ref":
            title = said or self.sections.get(target, "")
            return f"“{self.html(title)}”" if title and not said else html.escape(said) or "another section"
        return f"<code>{html.escape(said or target.rpartition('.')[2] or target)}</code>"

    def blocks(self, source: str) -> Iterator[Block]:
        """The blocks of a text cell, in order."""
        lines = source.splitlines()
        for token in self._md.parse(source):
            if token.level == 0 and token.map and token.nesting >= 0:
                text = "\n".join(lines[token.map[0] : token.map[1]])
                kind = _KINDS.get(token.type, "box")
                if kind == "box" and ":class: sitting" in text:
                    kind = "sitting"
                elif kind == "box" and "In this chapter" in text.split("\n")[0]:
                    kind = "overview"
                yield Block(kind, text)

    def render(self, source: str) -> str:
        """A block as HTML."""
        return str(self._md.render(_CITED.sub("", source)))

    def html(self, source: str) -> str:
        """A sentence as HTML."""
        return str(self._md.renderInline(_CITED.sub("", source))).strip()

    def plain(self, text: str) -> str:
        """Strip a text or HTML of its mark-up."""
        text = re.sub(r"<annotation.*?</annotation>|<[^>]+>", "", text, flags=re.S)
        return html.unescape(re.sub(r"[*`{}$]", "", text)).strip()

    def sentences(self, source: str) -> list[str]:
        """The sentences of a paragraph; what stands in formulas and code ends none."""
        text = _CITED.sub("", " ".join(source.split()))
        kept: list[str] = []

        def away(found: re.Match[str]) -> str:
            kept.append(found[0])
            return f"\x00{len(kept) - 1}\x00"

        hidden = re.sub(r"\{[\w:-]+\}`[^`]*`|`[^`]*`|\$[^$]+\$|\]\([^)]*\)", away, text)
        # Opening brackets and emphasis may begin a sentence, and closing ones end it.
        pieces = re.split(rf"{_END}\s+(?=[“\"(*\[]*[A-Z\x00])", hidden)
        merged: list[str] = []
        for piece in pieces:
            # An emphasis that is not closed goes on in the next sentence; so does a bracket, and a "colon:".
            whole = not merged or not (
                merged[-1].count("**") % 2
                or _LABEL.fullmatch(merged[-1])
                or _INITIAL.search(merged[-1])
                or merged[-1].count("(") > merged[-1].count(")")
                or merged[-1].endswith((":", "vs.", "e.g.", "i.e."))
            )
            if whole:
                merged.append(piece)
            else:
                merged[-1] += f" {piece}"
        return [re.sub("\x00(\\d+)\x00", lambda found: kept[int(found[1])], piece) for piece in merged]

    def is_strong(self, sentence: str) -> bool:
        """Return whether a sentence begins with a label in bold, or has more than a term in bold."""
        return bool(_LABEL.match(sentence)) or any(
            len(words.split()) >= 3 for words in re.findall(r"\*\*(.+?)\*\*", sentence)
        )

    def items(self, source: str) -> list[str]:
        """The items of a list, each as one paragraph."""
        parts = re.split(r"^(?:[-*+]|\d+[.)])\s+", source, flags=re.M)
        return [" ".join(part.split()) for part in parts if part.strip()]

    def implements(self, source: str) -> bool:
        """Return whether a comment in some code names one of the chapter's equations."""
        named = {word for comment in re.findall(r"#(.*)$", source, re.M) for word in comment.split()}
        return bool(named & set(self.equations))


def _numbered(chapter: int, names: list[str]) -> dict[str, str]:
    return {name: f"({chapter}.{number})" for number, name in enumerate(names, 1)}


def _parser(role: Callable[[str, str], str]) -> MarkdownIt:
    md = MarkdownIt("commonmark", {"html": False}).enable("table")
    md.use(dollarmath_plugin, allow_labels=True).use(amsmath_plugin)
    md.use(colon_fence_plugin).use(myst_block_plugin).use(myst_role_plugin)

    def rule(render: Callable[[Any], str]) -> Callable[..., str]:
        # markdown-it calls a rule with itself, the tokens, the place among them, and more.
        return lambda self, tokens, at, *rest: render(tokens[at])

    def fence(token: Any) -> str:
        if token.info.strip().startswith("{math}"):
            return mathml(token.content, block=True)
        return f"<pre><code>{html.escape(token.content)}</code></pre>"

    def box(token: Any) -> str:
        title = re.sub(r"^\{[\w-]+\}\s*", "", token.info.strip())
        body = re.sub(r"^:[\w-]+:.*\n?", "", token.content, flags=re.M)
        return f"<div class='box'><strong>{md.renderInline(title)}</strong>{md.render(body)}</div>"

    rules: dict[str, Callable[[Any], str]] = {
        "math_inline": lambda token: mathml(token.content),
        "math_inline_double": lambda token: mathml(token.content, block=True),
        "math_block": lambda token: mathml(token.content, block=True),
        "math_block_label": lambda token: mathml(token.content, block=True),
        "amsmath": lambda token: mathml(token.content, block=True),
        "myst_role": lambda token: role(token.meta["name"], token.content),
        "fence": fence,
        "colon_fence": box,
        "myst_target": lambda token: "",
        "myst_block_break": lambda token: "",
        "myst_line_comment": lambda token: "",
        # A link leads to a page of the book, which a file of slides is not beside.
        "link_open": lambda token: "",
        "link_close": lambda token: "",
        "image": lambda token: f"<em>{html.escape(token.content)}</em>",
    }
    for name, render in rules.items():
        md.add_render_rule(name, rule(render))
    return md
