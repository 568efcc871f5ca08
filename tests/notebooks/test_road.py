"""Rules that every chapter keeps: its minutes, its Deeper boxes, its names, its folded cells and its claims.

What these tests can't see: a name that means one thing and comes to hold another by being changed in place;
an assertion in the claims that holds the right name and says something else of it; prose that needs a box.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from cell_names import from_boxes, two_meanings

from ppobook.teaching import minutes
from ppobook.teaching.tags import Cell, read

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.md"))
LONGEST = 45  # minutes
CLAIMS = {"Claims"}

each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem[:2])


def code_and_place(path: Path) -> list[tuple[Cell, str, list[str]]]:
    """Each code cell: itself, whether it is on the "road", "deeper" or in the "claims", and its headings."""
    found = []
    headings: list[tuple[int, str]] = []
    for cell in read(path)["cells"]:
        if cell["cell_type"] == "code":
            titles = [title for _, title in headings]
            place = "claims" if CLAIMS & set(titles) else "road"
            if any(title.startswith(minutes.DEEPER) for title in titles):
                place = "deeper"
            found.append((cell, place, titles))
        else:
            for marks, title in re.findall(r"^(#{1,6})[ \t]+(.+?)[ \t]*$", cell["source"], re.M):
                headings = [h for h in headings if h[0] < len(marks)] + [(len(marks), title)]
    return found


def start_of(cell: Cell) -> str:
    return cell["source"].strip().splitlines()[0][:70]


# --- minutes ------------------------------------------------------------------------------------------------


@each_chapter
def test_the_main_road_is_no_longer_than_a_reader_was_promised(path: Path) -> None:
    chapter = minutes.count(read(path)["cells"])
    assert round(chapter.minutes) <= LONGEST


def test_no_minutes_to_read_are_typed() -> None:
    chapters = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]
    assert {name for name, facts in chapters.items() if set(facts["minutes"]) != {"compute"}} == set()


# --- Deeper boxes -------------------------------------------------------------------------------------------


@each_chapter
def test_the_road_uses_nothing_that_only_a_box_defines(path: Path) -> None:
    cells = code_and_place(path)
    sources, where = [cell["source"] for cell, _, _ in cells], [place for _, place, _ in cells]
    found = [f"{name}, in “{start_of(cells[index][0])}”" for index, name in from_boxes(sources, where)]
    assert not found, "\n".join(found)


@each_chapter
def test_a_name_that_other_cells_read_is_bound_in_one_cell(path: Path) -> None:
    cells = [cell for cell, _, _ in code_and_place(path)]
    found = [
        f"{name}, read in “{start_of(cells[index])}”, is bound in "
        + " and in ".join(f"“{start_of(cells[i])}”" for i in binders)
        for index, name, binders in two_meanings([cell["source"] for cell in cells])
    ]
    assert not found, "\n".join(found)


# --- cells --------------------------------------------------------------------------------------------------
