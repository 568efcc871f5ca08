"""The map of outcomes: where each is taught, practised and remembered; conf.py loads this file.

`{outcomes}` shows it. Outcomes come from book.yml, exercises and cards say which outcome they are for, and
reference/outcomes.yml has the sections, and what else trains an outcome.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx

import site_sections
from ppobook.teaching import contents, decks
from ppobook.teaching.contents import number_of
from site_sections import Page, named

DATA = "reference/outcomes.yml"
KINDS = ("sections", "exercises", "cards")


@dataclass(frozen=True)
class Outcome:
    """An outcome, and what there is for it in the book."""

    id: str
    text: str
    sections: tuple[str, ...]
    """Labels."""
    exercises: tuple[contents.Task, ...]
    cards: tuple[decks.Card, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Return which of `KINDS` there is none of."""
        return tuple(kind for kind in KINDS if not getattr(self, kind))


def read(root: Path) -> dict[str, list[Outcome]]:
    """The outcomes of each chapter, by its page's name.

    Raises
    ------
    ValueError
        The data name an outcome, an exercise or a card that there is not.
    """
    chapters = yaml.safe_load((root / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]
    data = yaml.safe_load((root / DATA).read_text(encoding="utf-8"))
    tasks = contents.read_book(root).tasks
    files = {docname: deck_of(root, docname) for docname in chapters}
    cards = {docname: decks.read(file) if file.exists() else () for docname, file in files.items()}
    known = {outcome["id"] for chapter in chapters.values() for outcome in chapter["outcomes"]}
    every_card = [card for deck in cards.values() for card in deck]
    if strangers := sorted(set(data) - known):
        raise ValueError(f"{DATA}: an outcome must be one of book.yml's, got {', '.join(strangers)}")
    return {
        docname: [
            outcome_of(entry, data.get(entry["id"], {}), tasks, cards[docname], known, every_card)
            for entry in chapter["outcomes"]
        ]
        for docname, chapter in chapters.items()
    }


def deck_of(root: Path, docname: str) -> Path:
    """The file of a chapter's cards."""
    return root / "lib" / "ppobook" / "teaching" / "cards" / f"{Path(docname).name}.yml"


def outcome_of(
    entry: dict[str, str],
    more: dict[str, list[str]],
    tasks: dict[str, contents.Task],
    deck: tuple[decks.Card, ...],
    known: set[str],
    every_card: list[decks.Card],
) -> Outcome:
    """Put together what there is for one outcome."""
    name, sections = entry["id"], tuple(more.get("sections", ()))
    exercises = [task for task in tasks.values() if task.exercise.outcome == name]
    for label in more.get("exercises", ()):
        if label not in tasks:
            raise ValueError(f"{DATA}, {name}: an exercise must be one of the book's, got {label!r}")
        exercises.append(tasks[label])
    # A tag that is no outcome, such as "pitfall", leaves it to the section.
    found = [c for c in deck if c.tag == name or (c.tag not in known and c.section in sections)]
    for begin in more.get("cards", ()):
        named = [card for card in every_card if card.front.startswith(begin)]
        if len(named) != 1:
            raise ValueError(f"{DATA}, {name}: one card must begin with {begin!r}, got {len(named)}")
        found += named
    return Outcome(name, entry["text"], sections, tuple(exercises), tuple(found))


# --- the page -----------------------------------------------------------------------------------------------


def write(page: Page, _words: str) -> list[str]:
    """`{outcomes}`: a section a chapter."""
    page.depend("book.yml", DATA, *(page.root / "exercises").glob("*.ipynb"))
    lines: list[str] = []
    for docname, found in read(page.root).items():
        page.depend(deck_of(page.root, docname))
        lines += heading(docname, page.chapters[docname]["title"])
        for outcome in found:
            lines += entry_of(outcome)
    return lines


def heading(docname: str, title: str) -> list[str]:
    """A chapter's heading, and where its deck is."""
    page = f"/{docname}.ipynb"
    links = f"[The chapter]({page}) · [its cards]({page}#cards)"
    return [f"## {number_of(docname)} · {title}", "", links, ""]


def entry_of(outcome: Outcome) -> list[str]:
    """An outcome's lines."""
    read_at = " · ".join(f"{{ref}}`{label}`" for label in outcome.sections)
    practise = " · ".join(
        f"{named(task)} ({task.exercise.kind}, {task.exercise.minutes} min)" for task in outcome.exercises
    )
    lines = [f"(outcome-{outcome.id})=", "", outcome.text[0].upper() + outcome.text[1:]]
    lines.append(f": **Read** {read_at or 'no section yet'}  ")
    lines.append(f"  **Practise** {practise or 'no exercise yet'}")
    if not outcome.cards:
        return [*lines, "", "  **Remember** no card", ""]
    count = len(outcome.cards)
    lines += ["", f"  <details><summary>{count} card{'s' * (count > 1)}</summary>", ""]
    lines += [f"  - {as_myst(card.front)}" for card in outcome.cards]
    return [*lines, "", "  </details>", ""]


def as_myst(text: str) -> str:
    """A card's text on one line, with its formulas between dollars."""
    return re.sub(r"\\\(\s*|\s*\\\)", lambda _: "$", " ".join(text.split()))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    site_sections.add(app, "outcomes", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
