"""The decks in slides/: what each holds, and the page that is built of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ppobook.cli.main import main
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


def test_the_page_is_one_file_with_its_figures_and_their_alternative_texts(deck: Path) -> None:
    page = slides.build(deck)
    assert page == slides.build(deck)
    without_scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"<link|<script src|@import|https?:", without_scripts)
    assert set(re.findall(r"url\((\w+):", without_scripts)) == {"data"}
    images = re.findall(r"<img[^>]*>", without_scripts)
    assert len(images) == deck.read_text(encoding="utf-8").count("![](") > 0
    for image in images:
        assert re.fullmatch(r'<img src="data:image/[^"]+" alt="[^"]{20,}">', image), image[-200:]
    assert page.count("<section>") == page.count("<aside class='notes'>") == len(parts(deck))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["course", "slides", "3"]) == 0
    assert capsys.readouterr().out == "03_the_clipped_surrogate.html: 16 slides\n"
    assert main(["course", "slides", "10_online_loops", "--out", "loops.html"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"03_the_clipped_surrogate.html", "loops.html"}
    assert main(["course", "slides", "3", "--out", "slides.pptx"]) == 2
    assert main(["course", "slides", "33"]) == 2
    said = capsys.readouterr().err
    assert "ppobook: CHAPTER must be one of 0, 1, 2, " in said
