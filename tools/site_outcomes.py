"""The map of outcomes: where each is taught, practiced and remembered; conf.py loads this file.

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


@dataclass(frozen=True)
class Outcome:
    """An outcome, and what there is for it in the book."""

    id: str
    text: str
    sections: tuple[str, ...]
    """Labels."""
    exercises: tuple[contents.Task, ...]
    cards: tuple[decks.Card, ...]


def read(root: Path) -> dict[str, list[Outcome]]:
    """Return the outcomes of each chapter, by its page's name."""
    chapters = yaml.safe_load((root / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]
    data = yaml.safe_load((root / DATA).read_text(encoding="utf-8"))
    tasks = contents.read_book(root).tasks
    files = {docname: deck_of(root, docname) for docname in chapters}
    cards = {docname: decks.read(file) if file.exists() else () for docname, file in files.items()}
    known = {outcome["id"] for chapter in chapters.values() for outcome in chapter["outcomes"]}
    every_card = [card for deck in cards.values() for card in deck]
    found: dict[str, list[Outcome]] = {docname: [] for docname in chapters}
    for docname, chapter in chapters.items():
        for name, text in ((entry["id"], entry["text"]) for entry in chapter["outcomes"]):
            more = data.get(name, {})
            sections = tuple(more.get("sections", ()))
            exercises = [task for task in tasks.values() if task.exercise.outcome == name]
            exercises += [tasks[label] for label in more.get("exercises", ())]
            # A tag that is no outcome, such as "pitfall", leaves it to the section.
            own = [
                c for c in cards[docname] if c.tag == name or (c.tag not in known and c.section in sections)
            ]
            for begin in more.get("cards", ()):
                own.append(next(card for card in every_card if card.front.startswith(begin)))
            found[docname].append(Outcome(name, text, sections, tuple(exercises), tuple(own)))
    return found


def deck_of(root: Path, docname: str) -> Path:
    """The file of a chapter's cards."""
    return root / "lib" / "ppobook" / "teaching" / "cards" / f"{Path(docname).name}.yml"


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
    practice = " · ".join(
        f"{named(task)} ({task.exercise.kind}, {task.exercise.minutes} min)" for task in outcome.exercises
    )
    lines = [f"(outcome-{outcome.id})=", "", outcome.text[0].upper() + outcome.text[1:]]
    lines.append(f": **Read** {read_at or 'no section yet'}  ")
    lines.append(f"  **Practice** {practice or 'no exercise yet'}")
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
