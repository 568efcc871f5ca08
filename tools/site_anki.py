"""The book's cards as a package for Anki, which genanki writes.

Anki recognizes a note by its `guid`, and a kind of note and a deck by their numbers. All of these come from
names that stay, so importing a newer package updates the cards and keeps what a reader has learned. Anki
takes over a note only if it was changed later than its own; each package says that its notes were changed
when it was made.

genanki had its last release in 2023. The format that it writes (schema 11) has not changed since, every Anki
reads it, and a test imports our package into the current Anki.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import genanki

KIND: Final = "Steps You Can Trust"
STYLE: Final = """\
.card { font: 20px/1.5 system-ui, sans-serif; max-width: 36em; margin: 1em auto; padding: 0 1em; }
.where { font-size: 0.75em; opacity: 0.75; }
"""


@dataclass(frozen=True)
class Note:
    """A card for Anki: its deck as in "Book::Chapter", its sides and its place as HTML."""

    name: str
    deck: str
    front: str
    back: str
    where: str
    tags: tuple[str, ...]


def number(name: str) -> int:
    """Return a name's number, in the range of Anki's own: milliseconds since 1970."""
    return 1_500_000_000_000 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:5], "big") // 8


def write(notes: Iterable[Note], path: Path, when: float) -> None:
    """Write an .apkg file, whose new cards are shown in the order of the notes.

    `when` is the time at which the notes were changed, in seconds since 1970.
    """
    kind = genanki.Model(
        number(f"kind {KIND}"),
        KIND,
        fields=[{"name": name} for name in ("Front", "Back", "Where")],
        templates=[
            {
                "name": "Card 1",
                "qfmt": "{{Front}}",
                "afmt": '{{FrontSide}}<hr id="answer">{{Back}}<p class="where">{{Where}}</p>',
            }
        ],
        css=STYLE,
    )
    decks: dict[str, genanki.Deck] = {}
    for place, note in enumerate(notes, 1):
        deck = decks.setdefault(note.deck, genanki.Deck(number(f"deck {note.deck}"), note.deck))
        fields = [note.front, note.back, note.where]
        guid = f"ppobook {note.name}"
        deck.add_note(genanki.Note(kind, fields, guid=guid, tags=list(note.tags), due=place))
    genanki.Package(list(decks.values())).write_to_file(path, timestamp=when)
