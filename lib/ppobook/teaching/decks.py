"""Flash cards: a YAML file for each chapter, shown as a deck that opens card by card.

    - name: 01-baseline-change
      front: What does a baseline change in a policy gradient?
      back: Its variance. The mean stays, because \\( \\mathbb{E}[\\nabla \\log \\pi] = 0 \\).
      tag: baseline
      section: sec-baseline

`name` stays, whatever becomes of the words: Anki and a reader's browser know the card by it. `front` and
`back` are plain text with `code` in backquotes, *emphasis*, **weight**, and mathematics between \\\\( and
\\\\); an empty line begins a new paragraph. `tag` is the outcome or theme the card belongs to,
`section` the label of the section that explains it.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from ppobook import _reads
from ppobook.run.spellings import did_you_mean

_FOLDER: Final = Path(__file__).with_name("cards")


@dataclass(frozen=True)
class Card:
    """One question and its answer."""

    name: str
    front: str
    back: str
    tag: str
    section: str


@dataclass(frozen=True)
class Deck:
    """The cards of a chapter. As the last line of a code cell it shows itself, one fold for each card."""

    name: str
    cards: tuple[Card, ...]

    def __len__(self) -> int:
        return len(self.cards)

    def __str__(self) -> str:
        return "\n\n".join(f"Q: {card.front}\nA: {card.back}" for card in self.cards)

    def __repr__(self) -> str:
        return f"{len(self)} cards of {self.name}\n\n{self}"

    def _repr_html_(self) -> str:
        folds = "\n".join(
            f"<details><summary>{inline(card.front)}</summary><div>{_paragraphs(card.back)}"
            f'<p class="where">{html.escape(card.tag)} · <a href="#{card.section}">read it again</a></p>'
            f"</div></details>"
            for card in self.cards
        )
        return f'<div class="ppobook-cards">\n<style>{_STYLE}</style>\n{folds}\n</div>'


# No colour of its own but shades of the text's, so that it suits a light page, a dark one and JupyterLab,
# which takes away the mark that says that a card can be opened.
_STYLE: Final = """
.ppobook-cards { max-width: 46em; text-align: start; }
.ppobook-cards details {
  margin: 8px 0; border: 1px solid color-mix(in srgb, currentColor 22%, transparent); border-radius: 8px;
  background: color-mix(in srgb, currentColor 4%, transparent);
}
.ppobook-cards details > summary {
  display: list-item; list-style: inside disclosure-closed; margin: 0; padding: 10px 14px;
  cursor: pointer; font-weight: 600;
}
.ppobook-cards details[open] > summary { list-style-type: disclosure-open; }
.ppobook-cards details > div {
  padding: 2px 14px 10px; border-top: 1px solid color-mix(in srgb, currentColor 22%, transparent);
}
.ppobook-cards p { margin: 8px 0 0; }
.ppobook-cards .where { font-size: 0.85em; }
"""


def cards(name: str) -> Deck:
    """The deck of a chapter, by the name of its file, as "01_vanilla_policy_gradient"."""
    if name not in names():
        hint = did_you_mean(name, names())
        raise ValueError(f"name must be a chapter with cards ({', '.join(names())}), got {name!r}{hint}")
    return Deck(name, read(_reads.note(_FOLDER / f"{name}.yml")))


def names() -> list[str]:
    """The chapters that have a deck."""
    return sorted(path.stem for path in _FOLDER.glob("*.yml"))


def read(path: Path) -> tuple[Card, ...]:
    """Read a file of cards."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(Card(**{field: text.strip() for field, text in entry.items()}) for entry in entries)


_PIECES: Final = re.compile(
    r"(?P<math>\\\(.+?\\\))|`(?P<code>[^`]+)`|\*\*(?P<strong>.+?)\*\*|\*(?P<em>[^*\s][^*]*?)\*"
    r"|(?<=\w)_(?P<sub>\w+)|(?<=\w)\^(?P<sup>\w|\([^)]*\))",
    re.DOTALL,
)


def inline(text: str) -> str:
    """The card's small markup as HTML; mathematics is left to MathJax."""
    out, at = [], 0
    for piece in _PIECES.finditer(text):
        out.append(html.escape(text[at : piece.start()], quote=False))
        kind = piece.lastgroup or ""
        inner = html.escape(piece[kind], quote=False)
        # Sphinx configures MathJax to look only inside these two classes; JupyterLab looks everywhere.
        out.append(
            f'<span class="math notranslate tex2jax_process mathjax_process">{inner}</span>'
            if kind == "math"
            else f"<{kind}>{inline(piece[kind]) if kind in ('strong', 'em') else inner}</{kind}>"
        )
        at = piece.end()
    out.append(html.escape(text[at:], quote=False))
    return "".join(out)


def _paragraphs(text: str) -> str:
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return "".join(f"<p>{inline(part)}</p>" for part in parts if part)
