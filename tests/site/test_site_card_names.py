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


def test_the_cards_across_the_chapters_point_to_sections_that_are_there() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "chapters").glob("*.md"))
    missing = [c.section for c in names.all_decks(ROOT)[names.ACROSS] if f"\n({c.section})=\n" not in text]
    assert not missing


def test_mnemonics_questions_and_pitfalls_have_their_cards() -> None:
    themes = names.themes(ROOT, names.named_cards(ROOT))
    count = {key: len(theme["cards"]) for key, theme in themes.items()}
    assert count["questions"] == 6
    assert count["pitfalls"] == 18
    assert len(themes["mnemonics"]["cards"][""]) >= 12


def test_a_theme_cannot_name_a_card_that_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / names.FOLDER
    folder.mkdir(parents=True)
    known = [names.Named("00-known", "00_deck", card("What?"))]
    for text, sentence in [
        ("a: {title: A, cards: {line: [00-known, 00-other]}}", "'line': must name cards, got 00-other"),
        ("a: {title: A, cards: {line: []}}", "'line': must name cards, got none"),
        ("a: {title: A, tag: other}", "'a': must name cards, got none"),
    ]:
        (folder / "themes.yml").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=sentence):
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
    with pytest.raises(ValueError, match=r"03_a: these questions are new: .*'Q1', 'Q2'.* by hand"):
        names.renewed(kept, {"03_a": (card("Q1"), card("Q2"))})


def test_a_card_without_a_name_stops_the_build_with_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = names.read_names(ROOT)
    first = next(iter(kept))
    monkeypatch.setattr(names, "read_names", lambda _root: {**kept, first: "00000000"})
    with pytest.raises(ValueError, match=rf"has no name; {first} has no card. Run tools/site_card_names.py"):
        names.named_cards(ROOT)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A folder with the book's cards across the chapters, and with its names."""
    folder = tmp_path / names.FOLDER
    folder.mkdir(parents=True)
    for name in ("across.yml", "names.yml"):
        (folder / name).write_bytes((ROOT / names.FOLDER / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("names.yml", b"a: [", "names.yml must be YAML, got "),
        ("names.yml", b"\xff\xfe", "names.yml must be YAML, got "),
        ("names.yml", b"- 03-a-card", "names.yml must be lines of a name and a fingerprint"),
        (
            "names.yml",
            b"03-card:",
            'line 1: must be a name and a fingerprint, as in 03-some-words: "0a1b2c3d"',
        ),
        ("names.yml", b"03-card: [1]", "line 1: must be a name and a fingerprint"),
        ("names.yml", b"[1]: 0a1b2c3d", "line 1: must be a name and a fingerprint"),
        ("names.yml", b"03-card: 0a1b2c3", "got 03-card: 0a1b2c3"),
        ("names.yml", b"03-a: 00000001\n03-a: 00000002", "each name once, got 03-a twice"),
        (
            "names.yml",
            b"03-a: 00000001\n03-b: 00000001",
            "each fingerprint once, got it twice in 03-a, 03-b. Keep the name",
        ),
        ("across.yml", b"a: [", "across.yml must be YAML, got "),
        ("across.yml", b"\xff\xfe", "across.yml must be YAML, got "),
        ("across.yml", b"3", "across.yml must hold a list of cards"),
    ],
)
def test_a_damaged_file_is_one_sentence_and_stays_as_it_is(
    book: Path, file: str, content: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = book / names.FOLDER / "names.yml"
    (book / names.FOLDER / file).write_bytes(content)
    before = kept.read_bytes()
    assert names.main([], book) == 1
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.startswith("site_card_names: ")
    assert kept.read_bytes() == before


def test_a_missing_deck_is_one_sentence(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (book / names.FOLDER / "across.yml").unlink()
    assert names.main([], book) == 1
    assert "across.yml" in capsys.readouterr().err


def test_a_fingerprint_that_looks_like_a_number_stays_as_it_is(book: Path) -> None:
    (book / names.FOLDER / "names.yml").write_text("03-a: 01234567\n03-b: 123456e1\n", encoding="utf-8")
    assert names.read_names(book) == {"03-a": "01234567", "03-b": "123456e1"}


def test_a_question_of_two_decks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cards must ask each question once, got \['Why\?'\] twice"):
        names.renewed({}, {"03_a": (card("Why?"),), "04_b": (card("Why?"),)})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "themes.yml must be YAML"),
        ("- a", "themes.yml must hold themes by name, got list"),
        ("a: 3", "'a': must have a title, got 3"),
        ("a: {cards: {line: [x]}}", "'a': must have a title"),
        ("a: {title: A}", "'a': must have a tag, or lines of cards, got"),
        ("a: {title: A, cards: [x]}", "'a': must have a tag, or lines of cards"),
        ("a: {title: A, cards: {line: x}}", "'a': must have a tag, or lines of cards"),
    ],
)
def test_a_damaged_theme_is_refused_in_one_sentence(book: Path, text: str, said: str) -> None:
    (book / names.FOLDER / "themes.yml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        names.themes(book, [])


def test_it_has_help_and_refuses_what_it_does_not_know(
    book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        names.main(["--help"], book)
    assert stopped.value.code == 0
    assert "names.yml" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        names.main(["all"], book)
    assert stopped.value.code == 2


def test_the_file_is_written_as_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / names.FOLDER
    folder.mkdir(parents=True)
    for name in ("across.yml", "names.yml"):
        (folder / name).write_bytes((ROOT / names.FOLDER / name).read_bytes())
    assert names.main([], tmp_path) == 0
    assert (folder / "names.yml").read_bytes() == (ROOT / names.FOLDER / "names.yml").read_bytes()


def test_each_tag_has_words_and_no_other(tmp_path: Path) -> None:
    cards = names.named_cards(ROOT)
    said = names.tags(ROOT, cards)
    assert len(set(said.values())) == len(said) > 60
    folder = tmp_path / names.FOLDER
    folder.mkdir(parents=True)
    for text in ("known: Known", "known: Known\nnew: New\nunused: No card has it"):
        (folder / "tags.yml").write_text(text, encoding="utf-8")
        known = [names.Named(f"00-{tag}", "00", Card("f", "b", tag, "s")) for tag in ("known", "new")]
        with pytest.raises(ValueError, match=r"tags\.yml must name each tag of a card and no other"):
            names.tags(tmp_path, known)
