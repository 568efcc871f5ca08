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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ppobook.teaching import decks

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = Path("reference", "cards")
#: The deck of cards that stand at no chapter's end.
ACROSS: Final = "across"
HEAD: Final = """\
# What each card is called, in Anki and in a reader's browser, whatever becomes of its words: its name, and a
# fingerprint of its question. Made by `python tools/site_card_names.py`.
"""
#: Words that say nothing of what a card is about.
LITTLE: Final = re.compile(
    r"(an?|and|are|as|at|be|by|can|does|do|each|for|from|has|have|heart|how|if|in|is|its?|last|may|no|not|of|on|one"
    r"|or|over|so|that|the|then|there|they|this|to|two|under|was|what|when|where|which|while|who|why|with|your?)"
)


@dataclass(frozen=True)
class Named:
    """A card of a deck, and what it is called."""

    name: str
    deck: str
    card: decks.Card


def all_decks(root: Path) -> dict[str, tuple[decks.Card, ...]]:
    """Return the chapters' decks in the order of the book, then the cards across the chapters."""
    found = {name: decks.cards(name).cards for name in decks.names()}
    return {**found, ACROSS: decks.read(root / FOLDER / f"{ACROSS}.yml")}


def fingerprint(front: str) -> str:
    """Return eight letters that tell questions apart."""
    return hashlib.sha256(" ".join(front.split()).encode()).hexdigest()[:8]


def read_names(root: Path) -> dict[str, str]:
    """Return the fingerprint of each name."""
    # YAML's other loaders take some fingerprints for numbers.
    text = (root / FOLDER / "names.yml").read_text(encoding="utf-8")
    found: dict[str, str] = yaml.load(text, yaml.BaseLoader)
    return found


def named_cards(root: Path) -> list[Named]:
    """Return all cards with their names; ValueError for a card without a name, or a name without a card."""
    names = read_names(root)
    of_mark = {mark: name for name, mark in names.items()}
    cards = [(deck, card, fingerprint(card.front)) for deck, own in all_decks(root).items() for card in own]
    new = [card.front for _, card, mark in cards if mark not in of_mark]
    gone = names.keys() - {of_mark.get(mark) for *_, mark in cards}
    if new or gone:
        said = [f"the card {front!r} has no name" for front in new]
        said += [f"{name} has no card" for name in sorted(gone)]
        raise ValueError(
            f"names.yml must name each card once: {'; '.join(said)}. Run tools/site_card_names.py"
        )
    return [Named(of_mark[mark], deck, card) for deck, card, mark in cards]


def themes(root: Path, cards: list[Named]) -> dict[str, dict[str, Any]]:
    """Return what themes.yml says: of each theme its title, and for each of its lines the names of its cards.

    A theme that gives a tag in place of cards has one line, without words: all cards with this tag.
    """
    found: dict[str, dict[str, Any]] = yaml.safe_load(
        (root / FOLDER / "themes.yml").read_text(encoding="utf-8")
    )
    known = {named.name for named in cards}
    for theme in found.values():
        if "tag" in theme:
            theme["cards"] = {"": [named.name for named in cards if named.card.tag == theme["tag"]]}
        for line, names in theme["cards"].items():
            if unknown := [name for name in names if name not in known]:
                raise ValueError(f"themes.yml, {line!r}: must name cards, got {', '.join(unknown)}")
    return found


def tags(root: Path) -> dict[str, str]:
    """Return what each tag is called."""
    named: dict[str, str] = yaml.safe_load((root / FOLDER / "tags.yml").read_text(encoding="utf-8"))
    return named


def themes_of(named: Named, themes: dict[str, dict[str, Any]]) -> list[str]:
    """Return the themes that a card belongs to."""
    return [key for key, theme in themes.items() if any(named.name in own for own in theme["cards"].values())]


def first_words(deck: str, front: str, taken: set[str]) -> str:
    """Name a new card by its deck's number, and the first words of its question that say something."""
    text = re.sub(r"\\\(.*?\\\)|`[^`]*`", " ", front, flags=re.DOTALL).lower().replace("'", "")
    words = [word for word in re.findall(r"[a-z0-9]+", text) if not LITTLE.fullmatch(word)] or ["card"]
    number = deck.partition("_")[0]
    some = ["-".join([number, *words[:count]]) for count in range(min(3, len(words)), len(words) + 1)]
    some += [f"{some[-1]}-{count}" for count in range(2, 100)]
    return next(name for name in some if name not in taken)


def renewed(names: dict[str, str], cards: dict[str, tuple[decks.Card, ...]]) -> dict[str, str]:
    """Return the names of these decks' cards, in their order.

    Raises
    ------
    ValueError
        A deck in which questions are both new and gone, and more than one of either.
    """
    marks = {deck: {fingerprint(card.front): card for card in some} for deck, some in cards.items()}
    known = {mark: name for name, mark in names.items()}
    gone = [name for name, mark in names.items() if not any(mark in own for own in marks.values())]
    result: dict[str, str] = {}
    for deck, own in marks.items():
        lost = [name for name in gone if name.startswith(f"{deck.partition('_')[0]}-")]
        new = {mark: card.front for mark, card in own.items() if mark not in known}
        if lost and new and (len(lost), len(new)) != (1, 1):
            raise ValueError(
                f"{deck}: these questions are new: {new}; of these cards the question is gone: {lost}. "
                "Change names.yml by hand: a fingerprint of a new question beside the name of the card that "
                "it was, or no line for a card that is gone."
            )
        for mark, card in own.items():
            if mark in known:
                name = known[mark]
            else:
                name = lost[0] if lost else first_words(deck, card.front, {*names, *result})
            result[name] = mark
    return result


def main(root: Path = ROOT) -> None:
    """Write names.yml again."""
    before = read_names(root)
    names = renewed(before, all_decks(root))
    lines = "".join(f'{name}: "{mark}"\n' for name, mark in names.items())
    (root / FOLDER / "names.yml").write_text(HEAD + lines, encoding="utf-8")
    new, gone = len(names.keys() - before.keys()), len(before.keys() - names.keys())
    print(f"names.yml: {len(names)} cards, {new} new, {gone} gone.")


if __name__ == "__main__":
    main()
