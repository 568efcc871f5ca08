"""The map of outcomes: each has a section, an exercise and a card, or is named here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import site_outcomes  # noqa: E402

OUTCOMES = {o.id: (docname, o) for docname, found in site_outcomes.read(ROOT).items() for o in found}
LABELS = {
    path.stem: set(re.findall(r"^\(([\w-]+)\)=$", path.read_text(encoding="utf-8"), re.M))
    for path in (ROOT / "chapters").glob("*.md")
}
# Using the book is not a thing to be asked on a card.
KNOWN_GAPS = {("use-the-book", "cards")}


def test_every_outcome_has_a_section_an_exercise_and_a_card_or_is_named() -> None:
    gaps = {(name, kind) for name, (_, outcome) in OUTCOMES.items() for kind in outcome.missing}
    assert gaps == KNOWN_GAPS


@pytest.mark.parametrize("name", OUTCOMES)
def test_its_sections_are_the_chapters_own(name: str) -> None:
    docname, outcome = OUTCOMES[name]
    assert set(outcome.sections) <= LABELS[Path(docname).name]


def test_an_exercise_that_names_the_outcome_is_found() -> None:
    _, outcome = OUTCOMES["three-parts"]
    assert {"whole-loss", "global-norm"} <= {task.exercise.label for task in outcome.exercises}


def test_a_card_belongs_by_its_tag_and_one_of_another_theme_by_its_section() -> None:
    by_tag = OUTCOMES["clip-and-flat"][1].cards
    assert by_tag
    assert all(card.tag == "clip-and-flat" for card in by_tag)
    by_section = OUTCOMES["bound"][1].cards
    assert by_section
    assert all(card.section == "sec-bound" and card.tag != "bound" for card in by_section)


def test_what_is_on_the_page() -> None:
    _, outcome = OUTCOMES["four-cases"]
    text = "\n".join(site_outcomes.entry_of(outcome))
    assert text.startswith("(outcome-four-cases)=\n")
    assert "{ref}`sec-four-cases`" in text
    assert "{ref}`ex-clipped-loss` The clipped loss (Build, 15 min)" in text
    assert "- A bad action has become more likely, $r > 1 + \\varepsilon$." in text
