"""The glossary; conf.py loads this file as an extension.

- `{words}` shows all words of reference/glossary.toml, each with its sentence and the section that explains
  it.
- In a chapter, the first use of each word is a link to the glossary, which says the sentence when a pointer
  or the keyboard is on it. No chapter is edited for it. The links are no tab stops; _static/terms.js makes
  one stop of all, as book.js does with the buttons that copy code.
"""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from ppobook.teaching.minutes import DEEPER
from site_numbers import chapter_of
from site_road import is_about
from site_way_in import Written

DATA: Final = "reference/glossary.toml"
#: Where a word is no use of it that a reader could want explained, or could not be a link.
ELSEWHERE: Final = (
    *(nodes.title, nodes.reference, nodes.literal, nodes.literal_block, nodes.math, nodes.math_block),
    *(nodes.raw, nodes.caption, nodes.rubric, nodes.target, nodes.problematic, nodes.comment),
)
#: A chapter's opening box names what is to come; its text begins after it.
OPENING: Final = "in-this-chapter"


@dataclass(frozen=True)
class Word:
    """A word of the glossary: its sentence, the section that explains it, and how it is written in a text.

    `chapter` is the first one in which it is looked for; a word with an everyday meaning may stand before.
    """

    name: str
    says: str
    section: str
    also: tuple[str, ...]
    forms: tuple[str, ...]
    chapter: int


def words_of(text: str) -> dict[str, Word]:
    """The glossary's words, by name, in the order of the alphabet."""
    words = {}
    for name, entry in sorted(tomllib.loads(text)["terms"].items(), key=lambda pair: pair[0].lower()):
        also = tuple(entry.get("also", []))
        forms = tuple(entry.get("find", [name, *also]))
        words[name] = Word(name, entry["says"], entry["section"], also, forms, entry.get("chapter", 0))
    return words


def everyday_of(text: str) -> list[str]:
    """Phrases in which a word is not the glossary's."""
    return list(tomllib.loads(text).get("everyday", []))


# --- the page -----------------------------------------------------------------------------------------------


class Words(Written):
    """`{words}`: the glossary."""

    def run(self) -> list[nodes.Node]:
        """A line of letters, and one entry a word."""
        first: dict[str, str] = {}
        lines = ["```{glossary}"]
        for word in words_of(self.read(DATA)).values():
            first.setdefault(word.name[0].upper(), word.name)
            also = f" Also: {', '.join(word.also)}." if word.also else ""
            lines += [word.name, f"  {word.says}{also} {{ref}}`{word.section}`", ""]
        letters = " ".join(f"{{term}}`{letter} <{name}>`" for letter, name in first.items())
        return self.block("words", [":::{div} letters", letters, ":::", "", *lines, "```"])


# --- first uses ---------------------------------------------------------------------------------------------


def pattern_of(words: Iterable[Word], everyday: Iterable[str]) -> tuple[re.Pattern[str], list[str]]:
    """An expression that finds any form of any word, the longest first, and the word of each of its groups.

    A form with capitals is found as it is written, another at the beginning of a sentence, too. Of a phrase
    that is everyday the word is "".
    """
    forms = [(form, word.name) for word in words for form in word.forms]
    forms = sorted(
        [*forms, *((phrase, "") for phrase in everyday)], key=lambda entry: (-len(entry[0]), entry[0])
    )

    def written(form: str) -> str:
        text = r"\s+".join(map(re.escape, form.split()))
        return text if form != form.lower() else f"(?i:{text[0]}){text[1:]}"

    found = "|".join(f"({written(form)})" for form, _ in forms)
    return re.compile(rf"(?<![\w-])(?:{found})s?(?![\w-])"), [name for _, name in forms]


def first_uses(
    texts: Iterable[str], words: Iterable[Word], everyday: Iterable[str] = ()
) -> list[list[tuple[int, int, str]]]:
    """For each passage in turn: where words stand that have not stood before, as (start, end, word)."""
    pattern, names = pattern_of(words, everyday)
    met = {""}
    found = []
    for text in texts:
        here = []
        for match in pattern.finditer(text):
            name = names[(match.lastindex or 0) - 1]
            if name not in met:
                met.add(name)
                here.append((match.start(), match.end(), name))
        found.append(here)
    return found


def is_running_text(text: nodes.Text) -> bool:
    """Return whether a word here is in a paragraph, and in nothing that says already what it is."""
    node, inside = text.parent, False
    while node is not None:
        if isinstance(node, ELSEWHERE) or {"cell", OPENING} & set(node["classes"]) or opens_a_box(node):
            return False
        inside = inside or isinstance(node, nodes.paragraph)
        node = node.parent
    return inside


def opens_a_box(node: nodes.Node) -> bool:
    """Return whether this is the line below the title of a Deeper box, which opens the box."""
    section = node.parent
    if not isinstance(section, nodes.section) or section.index(node) != 1:
        return False
    return is_about(node) and section[0].astext().startswith(DEEPER)


class MarkFirstUses(SphinxPostTransform):
    """Make a link of the first use of each word in a chapter, and put the sentences at the chapter's end."""

    default_priority = 850  # when all references are resolved, and before Deeper boxes are folded
    builders = ("html", "dirhtml")

    def run(self, **_: Any) -> None:
        """Go through the text."""
        chapter = chapter_of(self.env.docname)
        path = Path(self.env.srcdir, DATA)
        if chapter is None or not self.env.docname.startswith("chapters/") or not path.exists():
            return
        data = path.read_text(encoding="utf-8")
        words = {name: word for name, word in words_of(data).items() if word.chapter <= chapter}
        known = self.env.domains.standard_domain.objects
        passages = [text for text in self.document.findall(nodes.Text) if is_running_text(text)]
        used = []
        uses = first_uses(passages, words.values(), everyday_of(data))
        for passage, places in zip(passages, uses, strict=True):
            used += [words[name] for *_, name in places]
            if places:
                passage.parent.replace(passage, self.with_links(passage, places, known))
        if used:
            tips = "".join(f'<p id="{tip_of(word.name)}">{html.escape(word.says)}</p>' for word in used)
            self.document += nodes.raw("", f'<div class="term-tips" hidden>{tips}</div>', format="html")

    def with_links(self, passage: str, places: list[tuple[int, int, str]], known: Any) -> list[nodes.Node]:
        """A passage with links around some of its words."""
        parts: list[nodes.Node] = []
        done = 0
        for start, end, name in places:
            docname, anchor = known["term", name]
            address = f"{self.app.builder.get_relative_uri(self.env.docname, docname)}#{anchor}"
            link = f'<a aria-describedby="{tip_of(name)}" class="term" href="{address}" tabindex="-1">'
            link += f"{html.escape(passage[start:end])}</a>"
            parts += [nodes.Text(passage[done:start]), nodes.raw("", link, format="html")]
            done = end
        return [*parts, nodes.Text(passage[done:])]


def tip_of(name: str) -> str:
    """The anchor of a word's sentence in a chapter."""
    return f"says-{nodes.make_id(name)}"


# --- builds -------------------------------------------------------------------------------------------------


def depend(app: Sphinx, docname: str, _source: list[str]) -> None:
    """Make a chapter anew when the glossary has changed."""
    if docname.startswith("chapters/"):
        app.env.note_dependency(str(Path(app.srcdir, DATA)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("words", Words)
    app.add_post_transform(MarkFirstUses)
    app.connect("source-read", depend)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
