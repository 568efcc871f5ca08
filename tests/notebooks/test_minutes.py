"""The count of a chapter's minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook_builder import references
from notebook_builder.draft import draft
from notebook_builder.targets import targets
from ppobook.teaching import minutes
from ppobook.teaching.minutes import Counts
from ppobook.teaching.tags import Cell, read

ROOT = Path(__file__).parents[2]


def text(source: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source: str, **metadata: object) -> Cell:
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": []}


def road(*cells: Cell) -> Counts:
    """All that was counted on the road."""
    total = Counts()
    for section in minutes.count(cells).sections:
        total.add(section.road)
    return total


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        ("Two words, a *third*, and {math}`x` - $y$.", Counts(words=5, inline=2)),
        (
            "A [link of words](far/away.ipynb#sec) and {ref}`its text <sec-x>` {cite}`kong1992`",
            Counts(words=8),
        ),
        ("$$\na b c\n$$ (label)\n\nOne.\n\n```{math}\n:label: e\na + b\n```", Counts(words=1, formulas=2)),
        ("$$ E = mc^2 $$ (energy)", Counts(formulas=1)),
        ("```python\nx = 1\n\ny = 2\n```", Counts(lines=2)),
        ("| a | b |\n|---|---|\n| c d | {math}`e` |", Counts(words=4, inline=1, tables=1)),
        (":::{note} Title here\n:class: tip\nBody.\n:::\nAfter.", Counts(words=4)),
        ("```{image} a.svg\n:alt: some words\n```", Counts(figures=1)),
        ("One.\n\n![some words](a.svg)", Counts(words=1, figures=1)),
        ("(sec-x)=\n## A title\n\n<!-- a remark -->", Counts(words=2)),
        (":::{dropdown} In this chapter, 5 minutes\n**Afterwards**\n\n- much\n:::\n\nOne.", Counts(words=1)),
    ],
)
def test_what_a_text_cell_counts(source: str, counted: Counts) -> None:
    assert road(text(source)) == counted


@pytest.mark.parametrize(
    ("cell", "counted"),
    [
        (code("x = 1\n\n# why\ny = 2"), Counts(lines=3)),
        (code("x = 1", tags=["nbval-check-output"]), Counts(lines=1)),
        (code("x = 1\ny = 2", tags=["hide-input"]), Counts()),
        (code("draw()", tags=["hide-cell"], mystnb={"figure": {"caption": "My hill"}}), Counts(2, figures=1)),
        (code("figures.clip_explorer()"), Counts(lines=1, figures=1)),
        (code("table.round(2)", tags=["hide-input"]), Counts(tables=1)),
        (code("print(table)"), Counts(lines=1)),
        (code("ax.set(title=1);"), Counts(lines=1)),
    ],
)  # fmt: skip
def test_what_a_code_cell_counts(cell: Cell, counted: Counts) -> None:
    assert road(cell) == counted


def test_what_is_beside_the_road() -> None:
    cells = [
        text("# Title\n\nThree words here."),
        text("## One\n\nWord.\n\n### Deeper: why\n\n*For whom.*\n\n#### Within\n\nThe proof."),
        code("deep = 1"),
        text("### Two\n\nBack again."),
        text("## Deeper: more\n\nA lot."),
        text("## Summary\n\nShort.\n\n### Cards\n\nSay it aloud."),
        code("cards()"),
        text("## Claims\n\nAll of it."),
        code("assert True"),
    ]
    chapter = minutes.count(cells)
    assert [section.title for section in chapter.sections] == ["", "One", "Deeper: more", "Summary", "Claims"]
    assert [section.road.words for section in chapter.sections] == [4, 5, 0, 2, 0]
    assert [section.deeper.words for section in chapter.sections] == [0, 7, 4, 0, 0]
    assert sum(section.road.lines for section in chapter.sections) == 0
    assert chapter.sections[1].deeper.lines == 1
    assert chapter.deeper == pytest.approx(11 / 250 + 0.11)


def test_a_place_to_stop_knows_what_came_before_it() -> None:
    stop = ":::{admonition} A good place to stop\n:class: sitting\nEnough.\n:::"
    chapter = minutes.count([text(f"{'word ' * 250}\n\n{stop}\n\n{'word ' * 246}"), text(stop)])
    # The mark itself is read too, and the title of the second.
    assert chapter.sittings == pytest.approx([255 / 250, (250 + 6 + 246 + 5) / 250])


@pytest.mark.parametrize("number", [path.stem[:2] for path in sorted((ROOT / "chapters").glob("*.md"))])
def test_the_notebook_counts_as_its_text_does(number: str) -> None:
    target = next(t for t in targets() if t.kind == "chapter" and t.source.stem.startswith(number))
    notebook = draft(target)
    references.as_roles(notebook)
    assert minutes.count(notebook["cells"]) == minutes.count(read(target.source)["cells"])
