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
    kinds = ("sections", "exercises", "cards")
    gaps = {
        (name, kind) for name, (_, found) in OUTCOMES.items() for kind in kinds if not getattr(found, kind)
    }
    assert gaps == KNOWN_GAPS


@pytest.mark.parametrize("name", OUTCOMES)
def test_its_sections_are_the_chapters_own(name: str) -> None:
    docname, outcome = OUTCOMES[name]
    assert set(outcome.sections) <= LABELS[Path(docname).name]
