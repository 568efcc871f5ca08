r"""The book's cards as a package for Anki: a zip with a collection in SQLite.

The collection is of schema 11, which every Anki reads. Anki knows a note again by its `guid`, and the kind of
a note and a deck by their numbers. All of these come from names that stay, so that a package that is imported
again updates the cards and doubles none, and what a reader has learned is kept. Anki takes over a note only
if it was changed later than its own; each package says that its notes were changed when it was made.

Mathematics stands between \( and \), as Anki's MathJax reads it.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

_TABLES: Final = """
create table col (id integer primary key, crt integer not null, mod integer not null, scm integer not null,
    ver integer not null, dty integer not null, usn integer not null, ls integer not null, conf text not null,
    models text not null, decks text not null, dconf text not null, tags text not null);
create table notes (id integer primary key, guid text not null, mid integer not null, mod integer not null,
    usn integer not null, tags text not null, flds text not null, sfld integer not null,
    csum integer not null, flags integer not null, data text not null);
create table cards (id integer primary key, nid integer not null, did integer not null, ord integer not null,
    mod integer not null, usn integer not null, type integer not null, queue integer not null,
    due integer not null, ivl integer not null, factor integer not null, reps integer not null,
    lapses integer not null, left integer not null, odue integer not null, odid integer not null,
    flags integer not null, data text not null);
create table revlog (id integer primary key, cid integer not null, usn integer not null,
    ease integer not null, ivl integer not null, lastIvl integer not null, factor integer not null,
    time integer not null, type integer not null);
create table graves (usn integer not null, oid integer not null, type integer not null);
create index ix_notes_usn on notes (usn);
create index ix_cards_usn on cards (usn);
create index ix_revlog_usn on revlog (usn);
create index ix_cards_nid on cards (nid);
create index ix_cards_sched on cards (did, queue, due);
create index ix_revlog_cid on revlog (cid);
create index ix_notes_csum on notes (csum);
"""
_STYLE: Final = """\
.card { font: 20px/1.5 system-ui, sans-serif; max-width: 36em; margin: 1em auto; padding: 0 1em; }
.where { font-size: 0.75em; opacity: 0.75; }
"""
_FIELDS: Final = ("Front", "Back", "Where")
_KIND: Final = "Steps You Can Trust"


@dataclass(frozen=True)
class Note:
    """A card for Anki.

    Attributes
    ----------
    name : str
        What it is called for good.
    deck : str
        Its deck, below other decks as in "Book::Chapter".
    front, back, where : str
        HTML.
    tags : tuple of str
        Words without a space.
    """

    name: str
    deck: str
    front: str
    back: str
    where: str
    tags: tuple[str, ...]


def number(name: str) -> int:
    """A number for a name, the same for ever, in the range of Anki's own: milliseconds since 1970."""
    return 1_500_000_000_000 + int.from_bytes(hashlib.sha256(name.encode()).digest()[:5], "big") // 8


def checksum(front: str) -> int:
    """Anki's checksum of a first field, by which it looks for duplicates."""
    return int(hashlib.sha1(re.sub(r"<[^>]*>", "", front).encode()).hexdigest()[:8], 16)


def package(notes: Iterable[Note], when: int) -> bytes:
    """The bytes of an .apkg file.

    Parameters
    ----------
    notes : iterable of Note
        In the order in which new ones are to be shown.
    when : int
        Seconds since 1970: when the notes were changed. Anki updates those that it has from before.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "collection.anki2")
        database = sqlite3.connect(path)
        try:
            database.executescript(_TABLES)
            _fill(database, list(notes), when)
            database.commit()
        finally:
            database.close()
        collection = path.read_bytes()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"collection.anki2": collection, "media": b"{}"}.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _fill(database: sqlite3.Connection, notes: list[Note], when: int) -> None:
    kind = number(f"kind {_KIND}")
    parts = {part for note in notes for part in _with_parents(note.deck)}
    decks = {"1": _deck(1, "Default", when)}
    decks |= {str(number(f"deck {name}")): _deck(number(f"deck {name}"), name, when) for name in parts}
    conf = {"nextPos": len(notes) + 1, "activeDecks": [1], "curDeck": 1, "curModel": str(kind)}
    texts = [json.dumps(x) for x in (conf, {str(kind): _kind(kind, when)}, decks, {"1": _options(when)}, {})]
    start = 1_700_000_000
    database.execute(
        "insert into col values (1, ?, ?, ?, 11, 0, 0, 0, ?, ?, ?, ?, ?)",
        (start, when * 1000, when * 1000, *texts),
    )
    for due, note in enumerate(notes, start=1):
        key = number(f"note {note.name}")
        fields = "\x1f".join((note.front, note.back, note.where))
        tags = f" {' '.join(note.tags)} "
        database.execute(
            "insert into notes values (?, ?, ?, ?, -1, ?, ?, ?, ?, 0, '')",
            (key, f"ppobook {note.name}", kind, when, tags, fields, note.front, checksum(note.front)),
        )
        database.execute(
            "insert into cards values (?, ?, ?, 0, ?, -1, 0, 0, ?, 0, 0, 0, 0, 0, 0, 0, 0, '')",
            (key, key, number(f"deck {note.deck}"), when, due),
        )


def _with_parents(deck: str) -> list[str]:
    parts = deck.split("::")
    return ["::".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def _deck(key: int, name: str, when: int) -> dict[str, Any]:
    days = {f"{what}Today": [0, 0] for what in ("lrn", "rev", "new", "time")}
    made = {"id": key, "name": name, "desc": "", "mod": when, "usn": -1, "conf": 1, "dyn": 0}
    return {**made, **days, "collapsed": False, "extendNew": 0, "extendRev": 0}


def _kind(key: int, when: int) -> dict[str, Any]:
    look = {"font": "Arial", "size": 20, "rtl": False, "sticky": False, "media": []}
    fields = [{"name": name, "ord": at, **look} for at, name in enumerate(_FIELDS)]
    front = "{{Front}}"
    back = '{{FrontSide}}<hr id="answer">{{Back}}<p class="where">{{Where}}</p>'
    side = {"name": "Card 1", "ord": 0, "qfmt": front, "afmt": back, "did": None, "bqfmt": "", "bafmt": ""}
    made = {"id": key, "name": _KIND, "type": 0, "mod": when, "usn": -1, "sortf": 0, "did": 1, "vers": []}
    plain = {"latexPre": "", "latexPost": "", "tags": [], "req": [[0, "any", [0]]]}
    return {**made, **plain, "css": _STYLE, "flds": fields, "tmpls": [side]}


def _options(when: int) -> dict[str, Any]:
    """How decks are learned, as Anki begins; it asks for one, and keeps the reader's own."""
    made = {"id": 1, "name": "Default", "mod": when, "usn": 0, "maxTaken": 60, "autoplay": True, "timer": 0}
    new = {"delays": [1, 10], "ints": [1, 4, 7], "initialFactor": 2500, "order": 1, "perDay": 20}
    old = {"perDay": 200, "ease4": 1.3, "ivlFct": 1, "maxIvl": 36500}
    lapse = {"delays": [10], "mult": 0, "minInt": 1, "leechFails": 8, "leechAction": 1}
    return {**made, "replayq": True, "dyn": False, "new": new, "rev": old, "lapse": lapse}
