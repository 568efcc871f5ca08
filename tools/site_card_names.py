"""The book's cards, each with a name that stays, for the site's page of cards and for Anki.

A card's name is kept in reference/cards/names.yml, beside a fingerprint of its question. So a question can be
reworded and stays the same card, in a reader's browser and in Anki. After a change of a question, or with a
new card,

    python tools/site_card_names.py

writes that file again: a new card gets a name from its first words; where one question of a deck is new and
one is gone, it is taken for the same card in other words. Where it cannot tell, it says so.
"""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ppobook.teaching import decks

FOLDER: Final = Path("reference", "cards")
#: The deck of cards that stand at no chapter's end.
ACROSS: Final = "across"
HEAD: Final = """\
# What each card is called, in Anki and in a reader's browser, whatever becomes of its words: its name, and a
# fingerprint of its question. Made by `python tools/site_card_names.py`.
"""
#: Words that say nothing of what a card is about.
LITTLE: Final = re.compile(
    r"(an?|and|are|as|at|be|by|can|does|do|each|for|from|has|have|heart|how|if|in|is|its?|last|may|no|not|of|on|one|or"
    r"|over|so|that|the|then|there|they|this|to|two|under|was|what|when|where|which|while|who|why|with|your?)"
)


@dataclass(frozen=True)
class Named:
    """A card of a deck, and what it is called."""

    name: str
    deck: str
    card: decks.Card


def all_decks(root: Path) -> dict[str, tuple[decks.Card, ...]]:
    """The chapters' decks in the order of the book, then the cards across the chapters."""
    found = {name: decks.cards(name).cards for name in decks.names()}
    return {**found, ACROSS: decks.read(root / FOLDER / f"{ACROSS}.yml")}


def fingerprint(front: str) -> str:
    """Eight letters that tell questions apart."""
    return hashlib.sha256(" ".join(front.split()).encode()).hexdigest()[:8]


def read_names(root: Path) -> dict[str, str]:
    """The fingerprint of each name."""
    path = root / FOLDER / "names.yml"
    kept = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    return {name: str(mark) for name, mark in (kept or {}).items()}


def named_cards(root: Path) -> list[Named]:
    """All cards with their names.

    Raises
    ------
    ValueError
        A card without a name, or a name without a card; the message says which.
    """
    names = read_names(root)
    of_mark = {mark: name for name, mark in names.items()}
    cards = [(deck, card) for deck, cards in all_decks(root).items() for card in cards]
    marks = [fingerprint(card.front) for _, card in cards]
    new = [card.front for (_, card), mark in zip(cards, marks, strict=True) if mark not in of_mark]
    gone = [name for name, mark in names.items() if mark not in marks]
    if new or gone:
        said = [f"the card {front!r} has no name" for front in new] + [f"{name} has no card" for name in gone]
        raise ValueError(
            f"names.yml must name each card once: {'; '.join(said)}. Run tools/site_card_names.py"
        )
    if len(set(marks)) < len(marks) or len(of_mark) < len(names):
        raise ValueError("names.yml must name each card once: a question is asked twice, or has two names")
    return [Named(of_mark[mark], deck, card) for (deck, card), mark in zip(cards, marks, strict=True)]


def themes(root: Path, cards: list[Named]) -> dict[str, dict[str, Any]]:
    """What themes.yml says: of each theme its title, and for each of its lines the names of its cards.

    A theme that gives a tag in place of cards has one line, without words: all cards with this tag.

    Raises
    ------
    ValueError
        A line without a card, or with the name of none.
    """
    found: dict[str, dict[str, Any]] = yaml.safe_load(
        (root / FOLDER / "themes.yml").read_text(encoding="utf-8")
    )
    known = {named.name for named in cards}
    for key, theme in found.items():
        if "tag" in theme:
            theme["cards"] = {"": [named.name for named in cards if named.card.tag == theme["tag"]]}
        for line, names in theme["cards"].items():
            unknown = [str(name) for name in names or ["none"] if name not in known]
            if unknown:
                raise ValueError(f"themes.yml, {line or key!r}: must name cards, got {', '.join(unknown)}")
    return found


def tags(root: Path, cards: list[Named]) -> dict[str, str]:
    """What each tag is called.

    Raises
    ------
    ValueError
        A tag without a name in tags.yml, or a name for a tag that no card has.
    """
    named: dict[str, str] = yaml.safe_load((root / FOLDER / "tags.yml").read_text(encoding="utf-8"))
    used = {card.card.tag for card in cards}
    if used != set(named):
        wrong = ", ".join(sorted(used ^ set(named)))
        raise ValueError(f"tags.yml must name each tag of a card and no other, got a difference in {wrong}")
    return named


def themes_of(named: Named, themes: dict[str, dict[str, Any]]) -> list[str]:
    """The themes that a card belongs to."""
    return [key for key, theme in themes.items() if any(named.name in own for own in theme["cards"].values())]


def first_words(deck: str, front: str, taken: set[str]) -> str:
    """A name for a new card: its deck's number, and the first words of its question that say something."""
    text = re.sub(r"\\\(.*?\\\)|`[^`]*`", " ", front, flags=re.DOTALL).lower().replace("'", "")
    words = [word for word in re.findall(r"[a-z0-9]+", text) if not LITTLE.fullmatch(word)] or ["card"]
    number = deck.partition("_")[0]
    for count in range(min(3, len(words)), len(words) + 1):
        name = "-".join([number, *words[:count]])
        if name not in taken:
            return name
    return next(name for i in range(2, 1000) if (name := "-".join([number, *words, str(i)])) not in taken)


def renewed(names: dict[str, str], cards: dict[str, tuple[decks.Card, ...]]) -> dict[str, str]:
    """The names of these decks' cards, in their order.

    Raises
    ------
    ValueError
        A deck in which questions are both new and gone, and more than one of either.
    """
    marks = {deck: [fingerprint(card.front) for card in some] for deck, some in cards.items()}
    known = {mark: name for name, mark in names.items()}
    there = {mark for some in marks.values() for mark in some}
    gone = {name for name, mark in names.items() if mark not in there}
    result: dict[str, str] = {}
    for deck, some in cards.items():
        own = [name for name in gone if name.startswith(f"{deck.partition('_')[0]}-")]
        new = [mark for mark in marks[deck] if mark not in known]
        if own and new and (len(own), len(new)) != (1, 1):
            fronts = [card.front for card in some if fingerprint(card.front) in new]
            raise ValueError(
                f"{deck}: these questions are new: {fronts}; of these cards the question is gone: {own}. "
                "Change names.yml by hand: a fingerprint of a new question beside the name of the card that "
                f"it was, or no line for a card that is gone. The fingerprints are {new}"
            )
        for card, mark in zip(some, marks[deck], strict=True):
            if mark in known:
                name = known[mark]
            else:
                name = own[0] if own else first_words(deck, card.front, {*names, *result})
            result[name] = mark
    return result


def main(root: Path) -> str:
    """Write names.yml again; an error message, or nothing."""
    try:
        names = renewed(read_names(root), all_decks(root))
    except ValueError as error:
        return str(error)
    lines = "".join(f'{name}: "{mark}"\n' for name, mark in names.items())
    (root / FOLDER / "names.yml").write_text(HEAD + lines, encoding="utf-8")
    return ""


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]) or None)
