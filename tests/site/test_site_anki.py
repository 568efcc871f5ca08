"""The package for Anki, read as what it is: a zip with a collection in SQLite."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from pathlib import Path

import site_anki
from site_anki import Note

NOTES = [
    Note("00-a", "Book::00 One", r"What is \( \hat A \) &lt; 0?", "<p>Bad.</p>", "here", ("ppobook::x",)),
    Note("01-b", "Book::01 Two", "Why?", "<p>So.</p>", "there", ("ppobook::x", "ppobook::y")),
]


def read(package: bytes, folder: Path) -> sqlite3.Connection:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        assert archive.testzip() is None
        assert json.loads(archive.read("media")) == {}
        (folder / "collection").write_bytes(archive.read("collection.anki2"))
    return sqlite3.connect(folder / "collection")


def test_notes_and_cards_are_there_with_their_mathematics(tmp_path: Path) -> None:
    database = read(site_anki.package(NOTES, 1_800_000_000), tmp_path)
    assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    rows = database.execute("select guid, mod, tags, flds from notes order by guid").fetchall()
    assert rows[0][:2] == ("ppobook 00-a", 1_800_000_000)
    assert rows[0][3].split("\x1f") == [r"What is \( \hat A \) &lt; 0?", "<p>Bad.</p>", "here"]
    assert rows[1][2].split() == ["ppobook::x", "ppobook::y"]
    decks = json.loads(database.execute("select decks from col").fetchone()[0])
    where = database.execute("select did from cards join notes on nid = notes.id order by due").fetchall()
    assert [decks[str(did)]["name"] for (did,) in where] == ["Book::00 One", "Book::01 Two"]
    assert {deck["name"] for deck in decks.values()} >= {"Book", "Default"}


def test_numbers_come_from_names_and_not_from_words(tmp_path: Path) -> None:
    found = []
    for when, word in (1, "Why?"), (2, "Why then?"):
        notes = [Note("01-b", "Book::01 Two", word, "<p>So.</p>", "", ())]
        database = read(site_anki.package(notes, when), tmp_path)
        query = "select notes.id, guid, mid, did from notes join cards on nid = notes.id"
        found.append(database.execute(query).fetchall())
        assert database.execute("select mod from notes").fetchone() == (when,)
    assert found[0] == found[1]


def test_one_time_gives_one_file() -> None:
    assert site_anki.package(NOTES, 5) == site_anki.package(NOTES, 5)


def test_numbers_of_decks_and_cards_do_not_meet() -> None:
    assert len({site_anki.number(f"note {i}") for i in range(2000)}) == 2000
    assert site_anki.number("note 00-a") == 1575577659373
