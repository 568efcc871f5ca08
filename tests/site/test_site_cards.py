"""The cards of the page of all cards: their names, their themes and their places in the book."""

from __future__ import annotations

from pathlib import Path

import yaml

import site_cards
from ppobook.teaching import decks

ROOT = Path(__file__).resolve().parents[2]
CARDS = site_cards.all_cards(ROOT)


def test_each_card_has_a_name_of_its_own() -> None:
    files = [*(ROOT / "lib/ppobook/teaching/cards").glob("*.yml"), ROOT / site_cards.FOLDER / "across.yml"]
    assert len(CARDS) == sum(len(decks.read(file)) for file in files) > 200


def test_themes_name_cards_and_tags_have_words() -> None:
    themes = site_cards.read_themes(ROOT, CARDS)
    assert {name for theme in themes.values() for own in theme["cards"].values() for name in own} <= set(
        CARDS
    )
    assert sum("pitfalls" in site_cards.themes_of(name, themes) for name in CARDS) > 18
    words = yaml.safe_load((ROOT / site_cards.FOLDER / "tags.yml").read_text(encoding="utf-8"))
    assert set(words) == {card.tag for _, card in CARDS.values()}


def test_the_cards_across_the_chapters_point_to_sections_that_are_there() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "chapters").glob("*.md"))
    sections = {card.section for deck, card in CARDS.values() if deck == site_cards.ACROSS}
    assert not [section for section in sections if f"\n({section})=\n" not in text]


def test_the_page_says_the_days_that_the_script_counts() -> None:
    page = (ROOT / f"{site_cards.PAGE}.md").read_text(encoding="utf-8")
    *first, last = map(str, site_cards.INTERVALS)
    assert f"after {', '.join(first)} and finally {last} days" in page
