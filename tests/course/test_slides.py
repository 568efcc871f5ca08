"""Slides of the chapters: formulas as MathML, one idea a slide, the whole text in the notes, one file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ppobook.cli.main import main
from ppobook.course import slides
from ppobook.course.formulas import mathml
from ppobook.course.slide_text import Text
from ppobook.teaching import tags

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))


def words(text: str) -> str:
    """The words of some HTML, without formulas."""
    text = re.sub(r"<math.*?</math>|<[^>]+>", " ", text, flags=re.S)
    return re.sub(r"\W+", " ", text)


@pytest.fixture(scope="module", params=CHAPTERS, ids=lambda path: path.stem[:2])
def deck(request: pytest.FixtureRequest) -> slides.Deck:
    return slides.read_deck(request.param)


def test_every_formula_became_mathml(deck: slides.Deck) -> None:
    text = "".join(slide.title + slide.body + "".join(slide.notes) for slide in deck.slides)
    formulas = re.findall(r"<math.*?</math>", text, re.S)
    assert formulas or deck.number == 6
    for formula in formulas:
        shown = re.sub(r'aria-label="[^"]*"', "", formula)
        # A command, an alignment or an environment that the converter did not know stands there as text.
        assert not re.search(r"\\[A-Za-z]|<m[ion]>(?:&amp;|&)</m[ion]>|<mi>begin|\[1ex", shown), shown
    rest = re.sub(r"<math.*?</math>|<(pre|code)>.*?</\1>", "", text, flags=re.S)
    rest = re.sub(r'aria-label="[^"]*"|data:image[^"]*', "", rest)
    assert not re.search(r"\$|\{math\}|\{eq\}|\\frac", rest)


def test_a_deck_has_each_section_with_what_it_shows(deck: slides.Deck) -> None:
    path = next(p for p in CHAPTERS if int(p.stem[:2]) == deck.number)
    written = (ROOT / "chapters" / f"{path.stem}.md").read_text(encoding="utf-8")
    titles = {words(slide.title) for slide in deck.slides}
    text = Text(deck.number, [])
    for title in re.findall(r"^## (.+)$", written, re.M):
        if title in slides.BESIDE:
            assert words(text.html(title)) not in titles
        elif title not in ("Two myths", "Which parts should you read?", "Six situations"):
            assert words(text.html(title)) in titles or "situations" in title, title
    assert not any(slide.title.startswith("Deeper") for slide in deck.slides)
    kinds = {slide.kind for slide in deck.slides}
    assert {"title", "outcomes", "section", "figure"} <= kinds
    assert "table" in kinds or deck.number == 0
    assert all(slide.body or slide.kind == "title" for slide in deck.slides)
    assert 40 <= len(deck.slides) <= 100


def test_a_slide_is_short(deck: slides.Deck) -> None:
    for slide in deck.slides:
        points = re.findall(r"<li>", slide.body)
        assert len(points) <= slides.POINTS
        if slide.kind in ("section", "points", "outcomes"):
            assert len(words(slide.body)) < slides.CHARACTERS + 300, slide.body


def test_the_notes_hold_the_road_word_by_word() -> None:
    """Each paragraph on the road of chapter 3 stands in some notes."""
    path = CHAPTERS[3]
    notes = words("".join(note for slide in slides.read_deck(path).slides for note in slide.notes))
    cells = [slides._as_written(cell) for cell in tags.read(path)["cells"]]
    text, off, seen = slides._Maker(path, cells).text, 0, 0
    for cell in cells:
        if cell["cell_type"] != "markdown":
            continue
        for block in text.blocks(cell["source"]):
            if block.kind == "heading":
                level, title = len(block.source) - len(block.source.lstrip("#")), block.source.strip("# ")
                off = 0 if off and level <= off else off
                off = off or level * (title.startswith("Deeper: ") or title in slides.BESIDE)
            elif block.kind == "paragraph" and not off:
                seen += 1
                assert words(text.render(block.source)).strip() in notes, block.source
    assert seen > 60


def test_the_page_is_one_file_that_asks_for_nothing(deck: slides.Deck) -> None:
    page = slides.as_html(deck)
    assert not re.search(r"<link|<script src|@import|url\(", page)
    assert set(re.findall(r'(?:src|href)="(\w+):', page)) == {"data"}
    assert 'href="' not in page
    assert page == slides.as_html(deck)
    assert all(re.search(r'alt="[^"]', image) for image in re.findall(r"<img[^>]*>", page))


# --- sentences ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("One. Two!", ["One.", "Two!"]),
        ("**It works.** Mostly.", ["**It works.** Mostly."]),
        ("It is so. **One thing, and another. And a third.** Then.", None),
        ("The value is $1.5 A. B$ here. Next.", ["The value is $1.5 A. B$ here.", "Next."]),
        ("See {ref}`sec. One <a>`. (In brackets. Both.) End.", None),
        ("It said {cite}`a1`. So it did.", ["It said.", "So it did."]),
        (
            "**Who says it.** A. Writer, in a post. It is so.",
            ["**Who says it.** A. Writer, in a post.", "It is so."],
        ),
    ],
)
def test_sentences(paragraph: str, sentences: list[str] | None) -> None:
    found = Text(3, []).sentences(paragraph)
    if sentences is not None:
        assert found == sentences
    for sentence in found:
        assert sentence.count("**") % 2 == 0
        assert sentence.count("(") == sentence.count(")")


def test_a_formula_keeps_its_source_as_its_label() -> None:
    made = mathml(r"\begin{aligned} a &= b \\[1ex] &= c < 1 \end{aligned}", block=True)
    assert 'aria-label="\\begin{aligned} a &amp;= b' in made
    assert made.count("<mtr>") == 2
    assert "(1)" not in made


def test_an_equation_of_another_chapter_is_called_by_its_number() -> None:
    text = Text(9, [], {7: "$$\nx\n$$ (one)\n\n$$\ny\n$$ (price)\n"})
    assert text.html("See {eq}`price`, and the paper {cite}`a1`, too.") == "See (7.2), and the paper, too."


# --- long things --------------------------------------------------------------------------------------------


def test_long_code_is_divided_between_functions_and_evenly() -> None:
    def function(name: str, lines: int) -> str:
        return "\n".join([f"def {name}():", *["    pass"] * (lines - 1)])

    two = [function("f", 8), function("g", 12)]
    assert list(slides._code_parts("\n\n".join(two))) == two
    short = "\n\n".join([function("f", 4), function("g", 5)])
    assert list(slides._code_parts(short)) == [short]
    assert [part.count("\n") + 1 for part in slides._code_parts(function("f", slides.LINES + 2))] == [9, 9]


def test_of_a_long_table_no_row_stands_alone() -> None:
    rows = "".join(f"<tr><td>{i}</td></tr>" for i in range(slides.ROWS + 1))
    table = f"<table><thead><tr><th>n</th></tr></thead><tbody>{rows}</tbody></table>"
    parts = list(slides._table_parts(table))
    assert [part.count("<td>") for part in parts] == [5, 5]
    assert all(part.count("<th>") == 1 for part in parts)
    assert "".join(re.findall(r"<td>(\d+)", "".join(parts))) == "0123456789"
    assert len(list(slides._table_parts(table.replace("<tr><td>9</td></tr>", "")))) == 1


def test_outcomes_follow_the_title(deck: slides.Deck) -> None:
    kinds = [slide.kind for slide in deck.slides]
    assert kinds[0] == "title"
    assert set(kinds[1 : kinds.index("outcomes")]) <= {"points"}


# --- the command --------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["course", "slides", "3"]) == 0
    assert re.fullmatch(r"03_the_clipped_surrogate\.html: \d\d slides\n", capsys.readouterr().out)
    assert main(["course", "slides", "10_online_loops", "--out", "loops.html"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"03_the_clipped_surrogate.html", "loops.html"}
    assert main(["course", "slides", "33"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ppobook: CHAPTER must be one of 0, 1, 2, ")
    assert said.count("\n") == 1
