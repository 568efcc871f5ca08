"""The decks in slides/: what each holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ppobook.course import slides
from ppobook.teaching import tags
from ppobook.teaching.contents import read_book

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
DECKS = [ROOT / "slides" / f"{chapter.stem}.md" for chapter in CHAPTERS]
EXERCISE = re.compile(r"\*([^*\n]+)\* \(`([a-z\d-]+)`\)(?:, (\d+) minutes)?")


@pytest.fixture(params=DECKS, ids=lambda path: path.stem[:2])
def deck(request: pytest.FixtureRequest) -> Path:
    return request.param


def parts(deck: Path) -> list[tuple[str, str]]:
    """Return the text and the notes of each slide of a deck."""
    texts = [text.partition("\nNote:\n") for text in slides.split(deck.read_text(encoding="utf-8"))]
    return [(shown, notes) for shown, _, notes in texts]


def test_each_chapter_has_a_deck() -> None:
    assert sorted((ROOT / "slides").glob("*.md")) == DECKS


def test_a_deck_has_12_to_18_slides_each_with_a_title_and_notes(deck: Path) -> None:
    found = parts(deck)
    assert 12 <= len(found) <= 18
    assert found[0][0].startswith("# ")
    for shown, notes in found[1:]:
        assert re.findall(r"^#+ \S", shown, re.M) == [shown[:4]], shown
        assert shown.startswith("## ")
        assert len(notes.split()) >= 8, shown
    # KaTeX sets formulas on the slides; in the speaker's window they would stand there twice.
    assert not any("$" in notes for _, notes in found)


def test_a_slide_is_short(deck: Path) -> None:
    for shown, _ in parts(deck):
        text = re.sub(r"^```.*?^```|^\|.*?$|^#.*?$|\$\$.*?\$\$|!\[\]\(\S+\)", "", shown, flags=re.M | re.S)
        text = re.sub(r"^(?:-|\d\.) ", "", re.sub(r"\$[^$]+\$", "x", text), flags=re.M)
        assert len(text.split()) <= 38, shown


def test_the_exercises_that_it_names_exist_and_take_so_long(deck: Path) -> None:
    known = {task.exercise.label: task.exercise for task in read_book(ROOT).tasks.values()}
    named = EXERCISE.findall(deck.read_text(encoding="utf-8"))
    assert len(named) >= 1
    for title, label, minutes in named:
        assert known[label].title == title
        assert minutes in ("", str(known[label].minutes))


def numbers(text: str) -> set[str]:
    return {number.replace(",", "") for number in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?", text)}


def test_its_numbers_stand_in_the_chapter(deck: Path) -> None:
    """A number of a deck is in the chapter's text, its code, or what it printed."""
    said = EXERCISE.sub("", deck.read_text(encoding="utf-8"))
    said = re.sub(r"\bchapters? \d+", "", re.sub(r"^\d\. ", "", said, flags=re.M))
    stored = []
    for cell in tags.read(ROOT / "chapters" / f"{deck.stem}.ipynb")["cells"]:
        stored += [cell["source"], str(cell["metadata"].get("mystnb", ""))]
        for output in cell.get("outputs", []):
            data = {"": output.get("text", ""), **output.get("data", {})}
            stored += ["".join(data[kind]) for kind in ("", "text/plain", "text/html") if kind in data]
    assert numbers(said) - numbers("\n".join(stored)) == set()
