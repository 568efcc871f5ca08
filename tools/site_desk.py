"""The desk and the drill on the site, where their cells cannot run; conf.py loads this file as an extension.

A line says in their place what to do. Below that of the desk stands a sample: made-up records, laid out
and drawn by the functions that draw a reader's own desk, ppobook.teaching.desk, with the book as it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from sphinx.application import Sphinx

from ppobook.teaching import contents, desk, paths, progress
from ppobook.teaching.progress import Finding, Kept, Time
from site_sections import Page

PAGE = "desk/desk"
PATH = "fifteen-hours"
#: What each page says in the place of its cells.
INSTEAD = {
    PAGE: "Your own desk works in JupyterLab: run `make lab`, open `desk/desk.ipynb`, and run its cell.",
    "desk/drill": "The drill works in JupyterLab: run `make lab` and open `desk/drill.ipynb`. There, "
    "`drill.next()` names a formula and starts the clock, you write the formula in a cell, and "
    "`drill.check()` tests it.",
}
#: What was found by the checks of a reader who does not exist, in its order: check, kind, name.
RECORDS = (
    ("softmax-score", "mistake", "the sign is turned round"),
    ("softmax-score", "right", "softmax-score"),
    ("pg-loss", "mistake", "a reward, not a loss"),
    ("pg-loss", "mistake", "a sum over episodes, not a mean"),
    ("pg-loss", "right", "pg-loss"),
    ("hunt-broadcast", "right", "hunt-broadcast"),
    ("reward-to-go", "mistake", "the done mask is missing"),
    ("reward-to-go", "mistake", "the done mask is shifted by one step"),
    ("reward-to-go", "mistake", "the done mask is missing"),
    ("reward-to-go", "right", "reward-to-go"),
    ("per-step-ratio", "mistake", "the ratio is upside down"),
    ("per-step-ratio", "right", "per-step-ratio"),
    ("clip-table-up", "mistake", "the larger of the two"),
    ("clip-table-up", "right", "clip-table-up"),
    ("clip-table-down", "mistake", "the clip is put on the product"),
    ("clipped-loss", "mistake", "not averaged over all entries"),
)
TIMES = (("gae", 171.0), ("policy-loss", 94.0), ("gae", 143.0))
#: As the theme has its tables, which scroll where they are too wide.
TABLE = (
    ("<table>", '<div class="pst-scrollable-table-container"><table class="table">'),
    ("</table>", "</table></div>"),
)
SAID = (
    "What was done here is made up. The desk is drawn as yours is, from the book as it is now, on the path "
    f"`{PATH}`."
)


def sample(page: Page) -> desk.Desk:
    """The desk of the reader who does not exist."""
    page.depend("book.yml", *(page.root / "chapters").glob("*.ipynb"))
    page.depend(*(page.root / "exercises").glob("*.ipynb"))
    book = contents.read_book(page.root)
    kept = Kept(
        tuple(Finding(float(at), *one) for at, one in enumerate(RECORDS)),
        tuple(Time(float(at), *one) for at, one in enumerate(TIMES)),
        path=PATH,
    )
    # The site's builder records nothing; the sample is of a reader's machine.
    path = paths.find(book, PATH)
    return replace(desk.lay_out(book, kept, f"work/{progress.FILE}", path=path), off="")


def box(shown: desk.Desk) -> str:
    """The desk as MyST, in a box that says what it is; without links, which lead into a reader's folder."""
    drawn = re.sub(r"</?a\b[^>]*>", "", shown._repr_html_())
    for plain, as_here in TABLE:
        drawn = drawn.replace(plain, as_here)
    head = ":::{admonition} An example\n:class: desk-sample"
    return f"{head}\n\n{SAID}\n\n```{{raw}} html\n<div>\n{drawn}\n</div>\n```\n:::"


def stand_in(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the line, and the sample of a desk, in the place of the cells and of what is between them."""
    if docname not in INSTEAD:
        return
    notebook = json.loads(source[0])
    cells = notebook["cells"]
    code = [index for index, cell in enumerate(cells) if cell["cell_type"] == "code"]
    text = f":::{{note}}\n{INSTEAD[docname]}\n:::"
    if docname == PAGE:
        text += f"\n\n{box(sample(Page(app, docname)))}"
    note = {"cell_type": "markdown", "id": "instead", "metadata": {}, "source": text}
    cells[code[0] : code[-1] + 1] = [note]
    source[0] = json.dumps(notebook)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", stand_in)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
