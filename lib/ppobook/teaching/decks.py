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
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import yaml

from ppobook import _reads

_FOLDER: Final = Path(__file__).with_name("cards")
_FIELDS: Final = ("name", "front", "back", "tag", "section")
_LABEL: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class CardError(ValueError):
    """A deck that does not follow the schema."""


@dataclass(frozen=True)
class Card:
    """One question and its answer.

    Attributes
    ----------
    name : str
        By which it is known, with its deck's number first: "01-score-average".
    front, back : str
        The question and the answer.
    tag : str
        The outcome or theme it belongs to, as in `book.yml`: lower case, with hyphens.
    section : str
        The label of the section that explains it, such as "sec-baseline".
    """

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
            f"<details><summary>{_inline(card.front)}</summary><div>{_paragraphs(card.back)}"
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
    """The deck of a chapter.

    Parameters
    ----------
    name : str
        The chapter's file without its ending, as in "01_vanilla_policy_gradient".

    Raises
    ------
    ValueError
        No deck of that name.
    CardError
        The deck does not follow the schema; the message names the card and the field.
    """
    if name not in names():
        close = get_close_matches(str(name), names(), n=1, cutoff=0.4)
        hint = f". Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"name must be a chapter with cards ({', '.join(names())}), got {name!r}{hint}")
    return Deck(name, read(_reads.note(_FOLDER / f"{name}.yml")))


def names() -> list[str]:
    """The chapters that have a deck."""
    return sorted(path.stem for path in _FOLDER.glob("*.yml"))


def read(path: str | Path) -> tuple[Card, ...]:
    """Read a file of cards.

    Raises
    ------
    CardError
        Not YAML, not a list, empty; or a card with a missing, unknown or empty field, a malformed label,
        unpaired mathematics, or the front of another card.
    """
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise CardError(f"{path.name} is not valid YAML: {error}") from None
    if not isinstance(content, list) or not content:
        raise CardError(f"{path.name} must hold a list of cards, got {type(content).__name__}")
    found = tuple(_card(entry, f"{path.name}, card {i}") for i, entry in enumerate(content, start=1))
    fronts = [card.front for card in found]
    for i, front in enumerate(fronts, start=1):
        if front in fronts[: i - 1]:
            raise CardError(f"{path.name}, card {i}: front repeats that of card {fronts.index(front) + 1}")
    return found


def _card(entry: object, where: str) -> Card:
    if not isinstance(entry, dict):
        raise CardError(f"{where} must be a mapping with {', '.join(_FIELDS)}, got {type(entry).__name__}")
    missing = [field for field in _FIELDS if field not in entry]
    unknown = [str(field) for field in entry if field not in _FIELDS]
    if missing or unknown:
        problems = [f"{', '.join(missing)} missing"] if missing else []
        problems += [f"{', '.join(unknown)} unknown"] if unknown else []
        raise CardError(f"{where} must have exactly {', '.join(_FIELDS)}, got {' and '.join(problems)}")
    for field in _FIELDS:
        value = entry[field]
        if not isinstance(value, str) or not value.strip():
            raise CardError(f"{where}: {field} must be a non-empty text, got {value!r}")
    for field in ("tag", "section"):
        if not _LABEL.fullmatch(entry[field].strip()):
            raise CardError(
                f"{where}: {field} must be lower case words joined by hyphens, as in sec-baseline; "
                f"got {entry[field]!r}"
            )
    for field in ("front", "back"):
        text = entry[field]
        if len(_MATH.findall(text)) != text.count(r"\(") or text.count(r"\(") != text.count(r"\)"):
            raise CardError(rf"{where}: {field} must close each \( with a \), got {text!r}")
        if "$" in text:
            raise CardError(
                rf"{where}: {field} must have its mathematics between \( and \), not $, got {text!r}"
            )
    return Card(**{field: entry[field].strip() for field in _FIELDS})


_MATH: Final = re.compile(r"\\\(.+?\\\)", re.DOTALL)
_PIECES: Final = re.compile(
    r"(?P<math>\\\(.+?\\\))|`(?P<code>[^`]+)`|\*\*(?P<strong>.+?)\*\*|\*(?P<em>[^*\s][^*]*?)\*", re.DOTALL
)


def _inline(text: str) -> str:
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
            else f"<{kind}>{_inline(piece[kind]) if kind in ('strong', 'em') else inner}</{kind}>"
        )
        at = piece.end()
    out.append(html.escape(text[at:], quote=False))
    return "".join(out)


def _paragraphs(text: str) -> str:
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return "".join(f"<p>{_inline(part)}</p>" for part in parts if part)
