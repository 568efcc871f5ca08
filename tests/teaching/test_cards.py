"""Decks of cards: the book's follow the schema and point to its sections, and a card brings no HTML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ppobook import _reads
from ppobook.teaching import cards, decks

ROOT = Path(__file__).resolve().parents[2]
LABEL = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
FILES = [*Path(decks.__file__).parent.glob("cards/*.yml"), ROOT / "reference/cards/across.yml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_deck_of_the_book(path):
    deck = decks.read(path)
    assert len({card.front for card in deck}) == len(deck) >= 5
    for card in deck:
        assert LABEL.fullmatch(card.tag)
        assert LABEL.fullmatch(card.section)
        for text in (card.front, card.back):
            assert text
            assert "$" not in text
            assert len(re.findall(r"\\\(.+?\\\)", text, re.DOTALL)) == text.count(r"\(") == text.count(r"\)")


@pytest.mark.parametrize("name", decks.names())
def test_each_card_points_to_a_section_that_is_there(name):
    chapter = (ROOT / "chapters" / f"{name}.md").read_text(encoding="utf-8")
    labels = set(re.findall(r"^\((sec-[a-z0-9-]+)\)=$", chapter, re.MULTILINE))
    assert {card.section for card in cards(name).cards} <= labels


def test_each_chapter_has_a_deck():
    spine = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]
    assert {name.removeprefix("chapters/") for name in spine if "chapters/" in name} == set(decks.names())


def test_reading_a_deck_is_noted():
    cards("03_the_clipped_surrogate")
    assert any(path.endswith("cards/03_the_clipped_surrogate.yml") for path in _reads.paths)
    with pytest.raises(ValueError, match="Did you mean '03_the_clipped_surrogate'"):
        cards("03_the_clipped_surogate")


def test_mathematics_goes_through_whole_and_a_card_brings_no_html():
    back = r"\( a_1 * b_2 < c * d \) and **\(\pi\)**, <script>alert(1)</script>"
    html = decks.Deck("deck", (decks.Card("01-what", "What?", back, "x", "sec-x"),))._repr_html_()
    assert r"\( a_1 * b_2 &lt; c * d \)</span>" in html
    assert r'<strong><span class="math' in html
    assert "<em>" not in html
    assert "<script" not in html
