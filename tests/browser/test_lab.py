"""A reader at work: JupyterLab on copies of the book's notebooks, driven as a person would."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.course import masters
from ppobook.teaching import figures, workspace

from .conftest import ROOT, OpenPage, jupyterlab, open_notebook
from .test_figures import agrees, numbers

# One worker starts JupyterLab, once.
pytestmark = pytest.mark.xdist_group("lab")

# The quickest; the cells of all are run by `make test`.
CHAPTER = "chapters/00_setting_out.ipynb"
EXERCISES = "exercises/01_vanilla_policy_gradient.ipynb"
MASTER = ROOT / "exercises" / "masters" / "01_vanilla_policy_gradient.ipynb"
PATIENCE = (
    600  # seconds for a chapter: it takes a quarter of a minute of one core, and the machine may be busy
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder, as `ppobook work` makes it, with no outputs in it."""
    folder = tmp_path_factory.mktemp("reader") / "work"
    workspace.sync(folder, ROOT)
    for path in (folder / CHAPTER, folder / EXERCISES):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
        path.write_text(json.dumps(notebook), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def lab(work: Path) -> Iterator[str]:
    """The address of a JupyterLab on that folder, with three more notebooks of figures, not run yet."""
    v4 = nbformat.v4
    show = "from ppobook.teaching import figures\nfigure = figures.baseline()\nfigure"
    cells = [v4.new_code_cell(show), v4.new_code_cell("print('baseline', figure.widget().baseline)")]
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, work / "figure.ipynb")
    show = "from ppobook.teaching import figures\n"
    show += "clip, steps = figures.clip_explorer(), figures.trust_region_step()"
    tell = "print('sample', clip.widget().sample['slope'], clip.widget().ratio)\n"
    tell += "print('steps', steps.widget().steps['ppo_small']['steps'], steps.widget().clip_eps)"
    notebook.cells = [v4.new_code_cell(source) for source in (f"{show}\nclip", "steps", tell)]
    nbformat.write(notebook, work / "steps.ipynb")
    names = ("gae_explorer", "lambda_sweep", "loss_parts", "entropy_collapse")
    show = "from ppobook.teaching import figures\n"
    show += f"a, b, c, d = (getattr(figures, name)() for name in {names})"
    tell = "print(a.widget().lam, a.widget().advantages[3], b.widget().lam, b.widget().errors['variance'])\n"
    tell += "print(c.widget().value_coef, c.widget().parts['value_pull'], d.widget().update)"
    notebook.cells = [v4.new_code_cell(source) for source in (f"{show}\na", "b", "c", "d", tell)]
    nbformat.write(notebook, work / "estimates.ipynb")
    with jupyterlab(work) as address:
        yield address


def saved_cells(path: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook on disk that have something to run."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [c for c in cells if c["cell_type"] == "code" and "".join(c["source"]).strip()]


def run_all(page: Page, path: Path) -> list[dict[str, Any]]:
    """Run every cell through the menu, save, and return the code cells as they were saved."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        page.wait_for_timeout(1000)
        page.keyboard.press("Control+s")
        page.wait_for_timeout(500)
        try:
            cells = saved_cells(path)
        except json.JSONDecodeError:  # half written
            continue
        if all(cell["execution_count"] for cell in cells):
            return cells
        if any(output["output_type"] == "error" for cell in cells for output in cell["outputs"]):
            return cells
    pytest.fail(f"{path.name} had not run to its end after {PATIENCE} seconds")


def test_a_chapter_runs_top_to_bottom(open_page: OpenPage, lab: str, work: Path) -> None:
    page = open_notebook(open_page, lab, CHAPTER)
    cells = run_all(page, work / CHAPTER)
    errors = [o for cell in cells for o in cell["outputs"] if o["output_type"] == "error"]
    assert not errors, errors[0]["evalue"]
    assert all(cell["execution_count"] for cell in cells)
    expect(page.get_by_text("Jupyter news")).to_have_count(0)  # nobody is asked whether to fetch them


def write(page: Page, cell: Locator, text: str) -> None:
    """Replace what stands in a cell."""
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    # As one piece: typed key by key, the editor would add brackets and indentation of its own.
    page.keyboard.insert_text(text)


def run(page: Page, cell: Locator) -> None:
    """Run a cell and wait until it has run."""
    prompt = cell.locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    done = re.compile(r"\[\d+\]:")
    expect(prompt).to_have_text(done, timeout=60_000)
    expect(prompt).not_to_have_text(before, timeout=60_000)


def test_a_check_answers_a_wrong_solution_and_a_right_one(open_page: OpenPage, lab: str) -> None:
    page = open_notebook(open_page, lab, EXERCISES)
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    answer = cells.filter(has_text="def softmax_score").first
    checked = cells.filter(has_text='check("softmax-score"').first
    run(page, cells.filter(has_text="from ppobook.teaching import check").first)

    run(page, answer)
    run(page, checked)
    said = checked.locator(".jp-OutputArea-output")
    expect(said).to_contain_text("Not yet")
    expect(said).not_to_contain_text("Traceback")

    right = masters.solutions(MASTER)["softmax-score"].source
    # The slip that most readers make: the temperature scales the logits, and then also the score.
    wrong = right.replace("return score / temperature", "return score")
    assert wrong != right
    write(page, answer, wrong)
    run(page, answer)
    run(page, checked)
    expect(said).to_contain_text("temperature")
    expect(said).not_to_contain_text("✓ Right")
    expect(checked.locator("[data-mime-type*=stderr]")).to_have_count(0)
    expect(said.get_by_role("link")).to_have_attribute("href", re.compile("01_vanilla_policy_gradient.ipynb"))

    write(page, answer, right)
    run(page, answer)
    run(page, checked)
    expect(said).to_contain_text("✓ Right")


# --- the interactive figures --------------------------------------------------------------------------------


def first_figure(
    open_page: Any, lab: str, notebook: str, cells: int, kind: str
) -> tuple[Page, Locator, Locator]:
    """A notebook of so many cells, its cells, and the figure of this kind that the first one shows."""
    page = open_notebook(open_page, lab, notebook)
    code = page.locator(".jp-Notebook .jp-CodeCell")
    expect(code).to_have_count(cells, timeout=60_000)
    code.first.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    figure = page.locator(f".jp-OutputArea .figure.{kind}")
    expect(figure).to_be_visible(timeout=60_000)
    return page, code, figure


def test_live_in_jupyterlab(open_page: Any, lab: str) -> None:
    page, cells, figure = first_figure(open_page, lab, "figure.ipynb", 2, "baseline")
    expect(figure).to_have_attribute("data-ground", "light")

    figure.scroll_into_view_if_needed()
    slider = figure.locator("input[type=range]")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert numbers(figure)[0] == pytest.approx(0.5)
    agrees(figure, figures.baseline().state["bandits"][0])
    # Keys that are commands of the notebook elsewhere: delete a cell, insert one.
    for key in ("d", "d", "b"):
        page.keyboard.press(key)
    expect(cells).to_have_count(2)
    assert slider.evaluate("node => node.getRootNode().activeElement === node")

    # What the reader did is known to Python.
    cells.nth(1).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    expect(cells.nth(1).locator(".jp-OutputArea-output")).to_contain_text("baseline 0.5", timeout=20_000)

    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    expect(figure).to_have_attribute("data-ground", "dark")
