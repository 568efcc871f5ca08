"""Citations and references in the notebooks, which JupyterLab shows as they stand there."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from notebook_builder import references
from notebook_builder.targets import ROOT, targets
from ppobook.course import masters
from ppobook.teaching.tags import Cell

SOURCE = ROOT / "chapters" / "02_trust_regions.md"


def text(source: str, path: Path = SOURCE) -> str:
    cells: list[Cell] = [{"cell_type": "markdown", "metadata": {}, "source": source}]
    references.as_text(cells, path, ROOT)
    changed = cells[0]["source"]
    references.as_roles({"cells": cells})
    assert cells == [{"cell_type": "markdown", "metadata": {}, "source": source}]
    return changed


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("as in {cite}`kakade2002`", "as in (Kakade and Langford, 2002)"),
        ("as {cite:t}`williams1992` does", "as [Williams (1992)]("),
        (
            "DQN {cite}`mnih2015,haarnoja2018`",
            "DQN ([Mnih et al., 2015](https://doi.org/10.1038/nature14236); [",
        ),
        ("{cite:t}`hsu2020`", "[Hsu et al. (2020)]("),
        ("see {ref}`here <sec-surrogate>`", "see [here](#sec-surrogate)"),  # in the same notebook
        ("see {eq}`surrogate`", "see {eq}`surrogate`"),
        ("see {ref}`here <sec-clip-learns>`", "see [here](../chapters/03_the_clipped_surrogate.ipynb)"),
        (
            "see {ref}`sec-clip-learns`",
            "see [“Clip, penalty, constraint”](../chapters/03_the_clipped_surrogate.ipynb)",
        ),
        ("{eq}`score-mean`", "[the equation in “"),
        ("{ref}`ex-trust`", "](../exercises/01_vanilla_policy_gradient.ipynb)"),
    ],
)
def test_the_text_of_a_reference(source: str, expected: str) -> None:
    assert expected in text(source)


def test_a_figure_has_the_number_that_the_site_gives_it() -> None:
    first, second = (
        {"cell_type": "code", "metadata": {"mystnb": {"figure": {"name": name}}}, "source": ""}
        for name in ("fig-a", "fig-b")
    )
    see = {"cell_type": "markdown", "metadata": {}, "source": "See {numref}`fig-b`."}
    references.as_text([first, see, second], SOURCE, ROOT)
    assert see["source"] == f"See Figure {int(SOURCE.stem[:2])}.2."


@pytest.mark.parametrize("target", targets(), ids=lambda target: f"{target.kind}-{target.source.stem}")
def test_no_notebook_leaves_a_reference_to_the_site(target) -> None:
    notebook = json.loads(target.notebook.read_text(encoding="utf-8"))
    before = copy.deepcopy(notebook)
    references.as_roles(notebook)
    own = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    for cell in before["cells"]:
        if cell["cell_type"] == "markdown":
            shown = "".join(cell["source"])
            assert not re.search(r"\{(cite|cite:t|ref|numref)\}`", shown)
            for label in re.findall(r"\{eq\}`([^`]+)`", shown):
                assert re.search(rf"(\({label}\)|label: *{label}\b)", own), label
        if target.kind == "reader" and masters.part(cell):
            # What is kept for the site must not hold what the reader is not to see.
            assert "<!-- solution -->" not in str(cell["metadata"])
