"""Names of cards that stay, and cards that belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

import site_card_names as names
from ppobook.teaching.decks import Card

ROOT = Path(__file__).resolve().parents[2]


def card(front: str) -> Card:
    return Card(front, "That.", "tag", "sec-x")


def test_each_card_of_the_book_has_one_name_and_the_file_is_as_it_would_be_made() -> None:
    cards = names.named_cards(ROOT)
    assert len({named.name for named in cards}) == len(cards) > 200
    assert names.renewed(names.read_names(ROOT), names.all_decks(ROOT)) == names.read_names(ROOT)
    assert set(names.tags(ROOT)) == {named.card.tag for named in cards}


def test_the_cards_across_the_chapters_point_to_sections_that_are_there() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "chapters").glob("*.md"))
    missing = [c.section for c in names.all_decks(ROOT)[names.ACROSS] if f"\n({c.section})=\n" not in text]
    assert not missing


def test_themes_name_cards_or_take_those_of_a_tag(tmp_path: Path) -> None:
    folder = tmp_path / names.FOLDER
    folder.mkdir(parents=True)
    known = [names.Named("00-known", "00_deck", card("What?"))]
    (folder / "themes.yml").write_text("a: {title: A, cards: {line: [00-known, 00-other]}}", encoding="utf-8")
    with pytest.raises(ValueError, match="'line': must name cards, got 00-other"):
        names.themes(tmp_path, known)
    (folder / "themes.yml").write_text("a: {title: A, tag: tag}", encoding="utf-8")
    themes = names.themes(tmp_path, known)
    assert themes["a"]["cards"] == {"": ["00-known"]}
    assert names.themes_of(known[0], themes) == ["a"]


def test_a_new_card_is_named_by_its_first_words() -> None:
    decks = {
        "03_clip": (card("What is the clipped \\( r \\) surrogate, `so`?"), card("Clipped surrogate: why?"))
    }
    assert list(names.renewed({}, decks)) == ["03-clipped-surrogate", "03-clipped-surrogate-2"]
    fronts = "Bad action went far", "Bad action went near"
    assert list(names.renewed({}, {"03_clip": tuple(map(card, fronts))})) == [
        "03-bad-action-went",
        "03-bad-action-went-near",
    ]
    assert list(names.renewed({}, {"03_clip": (card("What is \\( r \\)?"),)})) == ["03-card"]


def test_a_card_in_other_words_keeps_its_name() -> None:
    kept = names.renewed(
        {}, {"03_a": (card("Old words here"), card("Another one")), "04_b": (card("Third"),)}
    )
    after = {"03_a": (card("Quite new"), card("Another  one")), "04_b": (card("Third"), card("Fourth"))}
    assert list(names.renewed(kept, after)) == ["03-old-words-here", "03-another", "04-third", "04-fourth"]
    assert list(names.renewed(kept, {"03_a": (card("Another one"),), "04_b": ()})) == ["03-another"]


def test_it_does_not_guess_which_of_two_cards_was_reworded() -> None:
    kept = names.renewed({}, {"03_a": (card("Old words here"), card("Another one"))})
    with pytest.raises(ValueError, match=r"03_a: these questions are new: .*'Q1'.*'Q2'.* by hand"):
        names.renewed(kept, {"03_a": (card("Q1"), card("Q2"))})


def test_a_card_without_a_name_stops_the_build_with_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = names.read_names(ROOT)
    first = next(iter(kept))
    monkeypatch.setattr(names, "read_names", lambda _root: {**kept, first: "00000000"})
    with pytest.raises(ValueError, match=rf"has no name; {first} has no card. Run tools/site_card_names.py"):
        names.named_cards(ROOT)
