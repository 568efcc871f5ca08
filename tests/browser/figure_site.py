"""A small site with every interactive figure on a page of its own, made from what a notebook would store.

So a figure is tested whether or not a chapter shows it already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from playwright.sync_api import Locator, Page, expect
from recorded_curves import runs_figure
from small_figures import a_group_of_answers, a_hidden_curve
from token_texts import token_figure

from ppobook.teaching import figures

ROOT = Path(__file__).resolve().parents[2]
CONF = f"""
project = "figures"
extensions = ["myst_nb", "ppobook.teaching.site"]
html_theme = "sphinx_book_theme"
html_context = {{"default_mode": "auto"}}
html_favicon = {str(ROOT / "_static" / "favicon.svg")!r}
nb_execution_mode = "off"
numfig = True
exclude_patterns = ["_build"]
"""


def film() -> figures.Figure:
    """A game that ends after 20 pushes, and one that goes on to the limit."""
    start = np.zeros(4)
    falls, stands = np.linspace(start, [0, 0, 0.25, 0], 21), np.linspace(start, [1, 0, 0, 0], 501)
    return figures.film({"falls": falls, "stands": stands})


def drawn() -> figures.Figure:
    """A line that turns in 30 pictures, and one that is over after two."""
    turns = [[[0.0, 0.0, np.cos(angle), np.sin(angle)]] for angle in np.linspace(0, np.pi, 30)]
    return figures.drawn_film(
        {"turns": turns, "stops": turns[:2]},
        ground=[[-1.5, 0.0, 1.5, 0.0]],
        alt="A film of a line that turns, and of one that stops.",
        ends={"turns": (True, "half a turn"), "stops": (False, "at rest")},
    )


CAPTION = "Slide the baseline, and watch the arrows."
# Page, figure, and the begin of its alt text; the first page leads to the others.
PAGES: dict[str, tuple[Callable[[], figures.Figure], str]] = {
    "index": (figures.baseline, "Three arrows, one for each arm"),
    "clip": (figures.clip_explorer, "The clipped surrogate of one sample"),
    "simplex": (figures.trust_region_step, "The simplex of policies over three actions"),
    "runs": (runs_figure, "Two panels of three runs each"),
    "film": (film, "A film of 2 games of CartPole"),
    "drawn": (drawn, "A film of a line that turns"),
    "gae": (figures.gae_explorer, "A table of 7 steps"),
    "entropy": (figures.entropy_collapse, "Twelve policies over four arms"),
    "parts": (figures.loss_parts, "Bars: what each part adds to PPO's loss"),
    "sweep": (figures.lambda_sweep, "Above, the weights (1 − λ) λ^(n−1)"),
    "maps": (figures.measured_maps, "A map of the mean return by clip range ε"),
    "pair": (figures.dpo_pair, "Bars: the probabilities of six texts"),
    "tokens": (token_figure, "The 9 tokens of the text"),
    "beta": (figures.beta_explorer, "Two panels against the KL to the reference"),
    "group": (figures.group_explorer, "Two panels. Left, a group of 8 completions"),
    "left": (figures.left_behind, "Two panels against updates, 0 to 45, ten runs each"),
    "rates": (figures.two_rates, "Return against updates for learning rates 0.003 and 0.03"),
    "reach": (figures.lambda_reach, "Bars: the weight of each step from 150 to 200"),
    "reveal": (a_hidden_curve, "Two panels: a reward that climbs"),
    "answers": (a_group_of_answers, "A group of 4 answers to the prompt “1 + 2 =”"),
    "lag": (figures.lag_explorer, "Two panels against updates, with a curve for each of three losses"),
}


def build(folder: Path) -> Path:
    """Write the notebooks there and make the site: its folder."""
    before = os.environ.get("PPOBOOK_BUILD")
    os.environ["PPOBOOK_BUILD"] = "1"
    try:
        bundles = {page: make()._repr_mimebundle_() for page, (make, _) in PAGES.items()}
    finally:
        os.environ.pop("PPOBOOK_BUILD")
        if before is not None:
            os.environ["PPOBOOK_BUILD"] = before
    v4 = nbformat.v4
    for page, (data, metadata) in bundles.items():
        name = f"{page}-figure"
        cell = v4.new_code_cell("figure", execution_count=1)
        cell.metadata["mystnb"] = {"figure": {"caption": CAPTION, "name": name}}
        cell.metadata["tags"] = ["hide-input"]
        cell.outputs = [v4.new_output("execute_result", data, metadata=metadata, execution_count=1)]
        text = f"# A page\n\nSee {{numref}}`{name}`."
        if page == "index":
            text += "\n\n```{toctree}\n:hidden:\n" + "\n".join(list(PAGES)[1:]) + "\n```"
        notebook = v4.new_notebook(cells=[v4.new_markdown_cell(text), cell])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, folder / f"{page}.ipynb")
    (folder / "conf.py").write_text(CONF)
    out = folder / "_build"
    subprocess.run([sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", folder, out], check=True)
    # The theme's icons, a megabyte and a half on every page; no figure has one.
    (out / "_static" / "scripts" / "fontawesome.js").write_text("")
    return out


def live(page: Page, address: str, name: str = "index") -> Locator:
    """Go to a figure's page, and wait until its script has drawn it."""
    page.goto(address.replace("index.html", f"{name}.html"))
    expect(page.locator(".ppobook-figure[data-live]")).to_have_count(1)
    return page.locator(".ppobook-figure .figure")


def held(figure: Locator, name: str) -> Any:
    """A number as the figure has it, with all its digits."""
    return json.loads(figure.locator(f"[data-number={name}]").get_attribute("data-value") or '"missing"')


# Every number of a figure, by its name, in one go.
NUMBERS = """(figure) => Object.fromEntries([...figure.querySelectorAll("[data-number]")].map(
  (node) => [node.dataset.number, JSON.parse(node.dataset.value)]))"""


def all_held(figure: Locator) -> dict[str, Any]:
    """Every number that the figure shows, with all its digits."""
    found: dict[str, Any] = figure.evaluate(NUMBERS)
    return found


def fits(page: Page, figure: Locator, width: int) -> None:
    """Neither the page nor the figure scrolls sideways at this width, and no letter is too small to read."""
    page.set_viewport_size({"width": width, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide, room = figure.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert wide <= room, "nothing may stick out of the figure"
    sizes = figure.evaluate(
        """node => [...node.querySelectorAll("svg text")]
             .filter((text) => text.textContent && text.getClientRects().length).map((text) =>
             parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a)"""
    )
    assert min(sizes, default=99) > 11
