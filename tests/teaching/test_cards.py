"""Decks of cards: those of the book follow the schema, and the error of a broken one says what is wrong."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from ppobook import _reads
from ppobook.teaching import cards, decks

ROOT = Path(__file__).resolve().parents[2]


class Structure(HTMLParser):
    """Counts elements and refuses a tag that is closed out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parse(html: str) -> Structure:
    structure = Structure()
    structure.feed(html)
    structure.close()
    assert structure.open == []
    return structure


@pytest.mark.parametrize("name", decks.names())
def test_each_deck_of_the_book(name):
    deck = cards(name)
    assert len(deck) >= 8
    html = deck._repr_html_()
    count = parse(html).count
    assert count["details"] == count["summary"] == len(deck)
    assert str(deck).count("Q: ") == len(deck)
    assert not re.search(r"https?://", html)


@pytest.mark.parametrize("name", decks.names())
def test_each_card_points_to_a_section_that_is_there(name):
    chapter = ROOT / "chapters" / f"{name}.md"
    labels = set(re.findall(r"^\((sec-[a-z0-9-]+)\)=$", chapter.read_text(encoding="utf-8"), re.MULTILINE))
    missing = {card.section for card in cards(name).cards} - labels
    assert not missing, f"{chapter.name} has no section {', '.join(sorted(missing))}"


def test_each_chapter_has_a_deck():
    spine = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))
    chapters = {
        name.removeprefix("chapters/") for name in spine["meta"]["chapters"] if name.startswith("chapters/")
    }
    assert chapters == set(decks.names())


def test_reading_a_deck_is_noted():
    name = decks.names()[0]
    cards(name)
    assert any(path.endswith(f"cards/{name}.yml") for path in _reads.paths)


def write(folder: Path, content: object) -> Path:
    path = folder / "deck.yml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


CARD = {"name": "01-what", "front": "What?", "back": "That.", "tag": "baseline", "section": "sec-baseline"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("- front: [", "is not valid YAML"),
        ("", "must hold a list of cards, got NoneType"),
        ({"cards": [CARD]}, "must hold a list of cards, got dict"),
        (["What?"], "card 1 must be a mapping with name, front, back, tag, section, got str"),
        (
            [CARD, {"name": "a", "front": "Why?", "tag": "x", "section": "sec-x"}],
            "card 2 must have exactly .*, got back missing",
        ),
        ([{**CARD, "hint": "no"}], "card 1 .*, got hint unknown"),
        ([{**CARD, "back": ""}], "back must be a non-empty text, got ''"),
        ([{**CARD, "back": 3}], "back must be a non-empty text, got 3"),
        ([{**CARD, "section": "Baselines"}], "section must be lower case words .* got 'Baselines'"),
        ([{**CARD, "back": r"It is \( x."}], r"back must close each"),
        ([{**CARD, "back": "It is $x$."}], r"between .* not \$"),
        ([CARD, CARD], "card 2: front repeats that of card 1"),
    ],
)
def test_a_broken_deck_is_refused(tmp_path, content, sentence):
    with pytest.raises(decks.CardError, match=sentence):
        decks.read(write(tmp_path, content))


def show(tmp_path: Path, back: str) -> str:
    html = decks.Deck("deck", decks.read(write(tmp_path, [{**CARD, "back": back}])))._repr_html_()
    parse(html)
    return html


def test_mathematics_goes_through_whole(tmp_path):
    html = show(tmp_path, r"\( a_1 * b_2 < c * d \) and **\(\pi\)**")
    assert r"\( a_1 * b_2 &lt; c * d \)</span>" in html
    assert r'<strong><span class="math' in html
    assert "<em>" not in html


def test_a_card_cannot_bring_html(tmp_path):
    assert "<script" not in show(tmp_path, "<script>alert(1)</script>")
