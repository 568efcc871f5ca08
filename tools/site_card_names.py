"""The book's cards, each with a name that stays, for the site's page of cards and for Anki.

A card's name is kept in reference/cards/names.yml, beside a fingerprint of its question. So a question can be
reworded and stays the same card, in a reader's browser and in Anki. After a change of a question, or with a
new card,

    python tools/site_card_names.py

writes that file again: a new card gets a name from its first words; where one question of a deck is new and
one is gone, it is taken for the same card in other words. Where it cannot tell, it says so.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ppobook.run.files import atomic_write
from ppobook.teaching import decks

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = Path("reference", "cards")
#: The deck of cards that stand at no chapter's end.
ACROSS: Final = "across"
HEAD: Final = """\
# What each card is called, in Anki and in a reader's browser, whatever becomes of its words: its name, and a
# fingerprint of its question. Made by `python tools/site_card_names.py`.
"""
#: A line of names.yml: the name, and the fingerprint.
NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
MARK: Final = re.compile(r"[0-9a-f]{8}")
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
    across = root / FOLDER / f"{ACROSS}.yml"
    yaml_of(across)
    return {**found, ACROSS: decks.read(across)}


def fingerprint(front: str) -> str:
    """Eight letters that tell questions apart."""
    return hashlib.sha256(" ".join(front.split()).encode()).hexdigest()[:8]


def yaml_of(path: Path) -> yaml.Node | None:
    """What a file holds, as it is written: YAML would take some fingerprints for numbers.

    Raises
    ------
    ValueError
        It is no YAML.
    """
    try:
        return yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} must be YAML, got {' '.join(str(error).split())}") from None


def read_names(root: Path) -> dict[str, str]:
    """The fingerprint of each name; empty where there is no file yet.

    Raises
    ------
    ValueError
        The file is damaged: no mapping, a line without a name or a fingerprint, or either of them twice.
    """
    path = root / FOLDER / "names.yml"
    node = yaml_of(path) if path.exists() else None
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("names.yml must be lines of a name and a fingerprint, got something else")
    for name, mark in node.value:
        if not (NAME.fullmatch(str(name.value)) and MARK.fullmatch(str(mark.value))):
            raise ValueError(
                f"names.yml, line {name.start_mark.line + 1}: must be a name and a fingerprint, as in "
                f'03-some-words: "0a1b2c3d", got {name.value}: {mark.value}'
            )
    if twice := repeated(name.value for name, _ in node.value):
        raise ValueError(f"names.yml must have each name once, got {', '.join(twice)} twice")
    if twice := repeated(mark.value for _, mark in node.value):
        those = ", ".join(name.value for name, mark in node.value if mark.value in twice)
        raise ValueError(
            f"names.yml must have each fingerprint once, got it twice in {those}. Keep the name that readers "
            "know the card by, in most cases the older one"
        )
    return {name.value: mark.value for name, mark in node.value}


def repeated(words: Iterable[str]) -> list[str]:
    """Those that come more than once."""
    return [word for word, times in Counter(words).items() if times > 1]


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
    refuse_repeats(card for _, card in cards)
    return [Named(of_mark[mark], deck, card) for (deck, card), mark in zip(cards, marks, strict=True)]


def refuse_repeats(cards: Iterable[decks.Card]) -> None:
    """Raise for a question that two decks ask: they could not be told apart."""
    if twice := repeated(" ".join(card.front.split()) for card in cards):
        raise ValueError(f"cards must ask each question once, got {twice} twice")


def themes(root: Path, cards: list[Named]) -> dict[str, dict[str, Any]]:
    """What themes.yml says: of each theme its title, and for each of its lines the names of its cards.

    A theme that gives a tag in place of cards has one line, without words: all cards with this tag.

    Raises
    ------
    ValueError
        The file is damaged, or has a line without a card, or with the name of none.
    """
    path = root / FOLDER / "themes.yml"
    yaml_of(path)
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"themes.yml must hold themes by name, got {type(found).__name__}")
    known = {named.name for named in cards}
    for key, theme in found.items():
        if not isinstance(theme, dict) or not isinstance(theme.get("title"), str):
            raise ValueError(f"themes.yml, {key!r}: must have a title, got {theme!r}")
        if "tag" not in theme and not _lines(theme.get("cards")):
            raise ValueError(f"themes.yml, {key!r}: must have a tag, or lines of cards, got {sorted(theme)}")
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


def _lines(cards: Any) -> bool:
    """Whether these are lines of cards: of each line the list of names, which may be empty."""
    return isinstance(cards, dict) and all(isinstance(names, list | None) for names in cards.values())


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
        A deck in which questions are both new and gone, and more than one of either; or a question that two
        decks ask.
    """
    refuse_repeats(card for some in cards.values() for card in some)
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


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write names.yml again; where it can't be told what to write, say so and leave it as it is."""
    parser = argparse.ArgumentParser(
        prog="site_card_names", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    path = root / FOLDER / "names.yml"
    try:
        before = read_names(root)
        names = renewed(before, all_decks(root))
        lines = "".join(f'{name}: "{mark}"\n' for name, mark in names.items())
        atomic_write(path, HEAD + lines)
    except (ValueError, OSError) as error:
        print(f"site_card_names: {error}", file=sys.stderr)
        return 1
    new, gone = ([*a.keys() - b.keys()] for a, b in ((names, before), (before, names)))
    reworded = sum(names[name] != before[name] for name in names.keys() & before.keys())
    print(f"{path.name}: {len(names)} cards, {len(new)} new, {reworded} reworded, {len(gone)} gone.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
