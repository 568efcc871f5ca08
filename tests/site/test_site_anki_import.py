"""The book's cards in Anki itself: imported, learned, and imported again after the book has changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from anki.collection import Collection, ImportAnkiPackageRequest

site_cards = pytest.importorskip("site_cards", reason="Sphinx is not installed")

import site_anki  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OTHERS = (
    "duplicate",
    "conflicting",
    "first_field_match",
    "missing_notetype",
    "missing_deck",
    "empty_first_field",
)


@pytest.fixture(scope="module")
def notes() -> list[site_anki.Note]:
    meta = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]
    config = SimpleNamespace(book_meta=meta, project=meta["title"], html_baseurl="")
    domains = {"std": SimpleNamespace(labels={})}
    app = SimpleNamespace(srcdir=ROOT, config=config, env=SimpleNamespace(domains=domains))
    return site_cards.notes_for_anki(app)


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    opened = Collection(str(tmp_path / "collection.anki2"))
    yield opened
    opened.close()


def take(collection: Collection, notes: list[site_anki.Note], when: int) -> dict[str, int]:
    """Import the notes as a package made at `when`; how many were what to Anki, where there were any."""
    path = Path(collection.path).with_name("cards.apkg")
    site_anki.write(notes, path, when)
    log = collection.import_anki_package(ImportAnkiPackageRequest(package_path=str(path))).log
    return {what: n for what in ("new", "updated", *OTHERS) if (n := len(getattr(log, what)))}


def test_anki_takes_every_card_with_its_formulas(collection: Collection, notes: list[site_anki.Note]) -> None:
    assert take(collection, notes, 1_800_000_000) == {"new": len(notes)}
    assert collection.card_count() == len(notes)
    assert collection.fix_integrity()[1]
    names = {deck.name for deck in collection.decks.all_names_and_ids(include_filtered=False)}
    assert {note.deck for note in notes} <= names
    by_front = {note.front: note for note in notes}
    for key in collection.find_cards(""):
        card = collection.get_card(key)
        note = by_front[card.note()["Front"]]
        formulas = re.findall(r"\\\(.*?\\\)", note.front + note.back, re.S)
        assert re.findall(r"\\\(.*?\\\)", card.answer(), re.S) == formulas
        assert card.note().tags == sorted(note.tags)


def test_importing_again_updates_and_doubles_nothing(
    collection: Collection, notes: list[site_anki.Note]
) -> None:
    take(collection, notes, 1_800_000_000)
    first = notes[0]
    collection.decks.select(collection.decks.id(first.deck))
    card = collection.sched.getCard()
    assert card is not None
    assert card.note()["Front"] == first.front
    card.start_timer()
    collection.sched.answerCard(card, 4)

    assert take(collection, notes, 1_800_000_000) == {"duplicate": len(notes)}
    changed = [replace(first, front="In other words", back="New"), *notes[1:]]
    assert take(collection, changed, 1_800_000_001) == {"updated": len(notes)}
    assert collection.note_count() == len(notes)
    learned = collection.get_card(card.id)
    assert learned.note()["Front"] == "In other words"
    assert learned.reps == 1
    assert learned.ivl > 0


def test_numbers_stay_as_readers_have_them() -> None:
    # Another number for a kind of note or a deck would be another one to Anki.
    assert site_anki.number("note 00-a") == 1575577659373
    assert site_anki.number(f"kind {site_anki.KIND}") == 1557286019285
