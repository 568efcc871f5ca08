"""Rules that every chapter keeps: its minutes, its Deeper boxes, its names, its folded cells and its claims.

What these tests can't see: a name that means one thing and comes to hold another by being changed in place;
an assertion in the claims that holds the right name and says something else of it; prose that needs a box.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from cell_names import from_boxes, names_of, two_meanings
from verdicts import printed_names, prints_a_verdict, unclaimed

from ppobook.teaching import minutes
from ppobook.teaching.tags import Cell, read

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.md"))
LONGEST = {"00": 45, "01": 45}  # minutes; 60 for all others
CLAIMS = {"Claims", "What this chapter claimed"}

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
    assert round(chapter.minutes) <= LONGEST.get(path.stem[:2], 60)


def test_no_minutes_to_read_are_typed() -> None:
    chapters = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]
    assert {name for name, facts in chapters.items() if set(facts["minutes"]) != {"compute"}} == set()


# --- Deeper boxes -------------------------------------------------------------------------------------------


@each_chapter
def test_a_box_says_in_one_line_of_italics_what_is_inside(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    boxes = re.findall(r"^#+ Deeper:.*\n+(.*\n.*)", text, re.M)
    assert [below for below in boxes if not re.match(r"\*(?!\*)[^\n]*[^*\n]\*\n$", below + "\n")] == []
    # The line is part of what opens the box, where a link can't be reached by keyboard.
    assert [
        below
        for below in boxes
        if re.search(r"\{(ref|eq|numref|cite|cite:t)\}`|\]\(|https?:", below.split("\n")[0])
    ] == []
    # A title in lower case, or without the colon, would not be folded.
    assert re.findall(rf"^#+ (?!{minutes.DEEPER}\S)deeper\b.*", text, re.M | re.I) == []


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


@each_chapter
def test_a_cell_that_only_draws_is_folded(path: Path) -> None:
    cells = code_and_place(path)
    found = []
    for index, (cell, _, _) in enumerate(cells):
        later = set().union(*(names_of(other["source"]).reads for other, _, _ in cells[index + 1 :]))
        draws = "figure" in cell["metadata"].get("mystnb", {}) and not names_of(cell["source"]).binds & later
        # One call, such as that of an interactive figure, may be seen.
        more = len(ast.parse(cell["source"]).body) > 1
        if draws and more and not minutes.HIDDEN & set(tags(cell)):
            found.append(start_of(cell))
    assert not found, "\n".join(found)


def tags(cell: Cell) -> list[str]:
    return cell["metadata"].get("tags", [])


# --- claims -------------------------------------------------------------------------------------------------


@each_chapter
def test_every_verdict_that_is_printed_is_asserted(path: Path) -> None:
    cells = code_and_place(path.with_suffix(".ipynb"))
    claimed = set().union(*(names_of(cell["source"]).reads for cell, place, _ in cells if place == "claims"))
    found = [
        f"“{start_of(cell)}” … “{cell['source'].strip().splitlines()[-1]}”: the claims say nothing of "
        + ", ".join(sorted(missing))
        for cell, place, _ in cells
        if place != "claims" and prints_a_verdict(cell)
        if (missing := unclaimed(cell["source"], claimed))
    ]
    assert not found, "\n".join(found)


@each_chapter
def test_every_myth_is_asserted(path: Path) -> None:
    """The claims read a name that the myth's own cells print or bind."""
    cells = code_and_place(path)
    claimed = set().union(*(names_of(cell["source"]).reads for cell, place, _ in cells if place == "claims"))
    myths: dict[str, set[str]] = {}
    for cell, _, headings in cells:
        if any(re.search(r"\bmyths?\b", heading, re.I) for heading in headings):
            own = printed_names(cell["source"]) | names_of(cell["source"]).binds
            myths.setdefault(headings[-1], set()).update(own)
    assert [myth for myth, own in myths.items() if not own & claimed] == []


@each_chapter
def test_a_myth_is_a_sentence_its_source_a_measurement_and_a_verdict(path: Path) -> None:
    cells = "\n".join(cell["source"] for cell in read(path)["cells"] if cell["cell_type"] != "code")
    parts = r"\*\*The sentence\.\*\*.+?\*\*Who says it\.\*\*.+?\{cite\}`.+?\*\*Measured.+?\*\*Verdict\.\*\*"
    myths = re.findall(r"^#+ Myth: ([^\n]*)$(.*?)(?=^#+ |\Z)", cells, re.M | re.S)
    assert [title for title, text in myths if '"' not in title or not re.search(parts, text, re.S)] == []


# --- the tests themselves -----------------------------------------------------------------------------------
