"""The interactive figure of the chapter on PPO in practice, on a page: numbers are those of the records."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from ppobook.teaching import figures

from .figure_site import all_held, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")

STATE = cache(lambda: figures.measured_maps().state)
GAUGES = ("kl", "clip", "ev", "entropy")


def cell_agrees(figure: Locator) -> dict[str, Any]:
    """The numbers on display, which are those of the cell where the sliders stand."""
    state = STATE()
    one = state["maps"][int(figure.locator("#map").input_value())]
    row, column = (int(figure.locator(f"#{name}").input_value()) for name in ("row", "column"))
    interval, worst, *runs = (
        [np.nan if entry == "-" else float(entry) for entry in part.split()]
        for part in one["cells"][row * len(state["rates"]) + column].split("/")
    )
    table = np.array(runs)
    expected = dict(zip(("mean", "low", "high"), interval, strict=True))
    expected["fell"] = int(np.isfinite(table[:, 1]).sum())
    for k, gauge in enumerate(GAUGES):
        expected[f"{gauge}-worst"] = worst[k]
        expected[f"{gauge}-rang"] = int(np.isfinite(table[:, 2 + k]).sum())
        expected[f"{gauge}-ahead"] = int((table[:, 2 + k] < table[:, 1]).sum())
    shown = all_held(figure)
    assert shown == pytest.approx(expected)
    dots = figure.locator("svg circle[r='5']")
    assert dots.count() == 10
    return shown


def test_every_map_and_what_its_cells_show(page: Page, http: str) -> None:
    figure = live(page, http, "maps")
    for i, one in enumerate(STATE()["maps"]):
        figure.get_by_label("Map of", exact=True).select_option(str(i))
        shared = cell_agrees(figure)
        assert shared["mean"] == pytest.approx(float(STATE()["maps"][0]["cells"][17].split()[0]))
        for row in range(len(one["values"])):
            figure.locator("#row").fill(str(row))
            cell_agrees(figure)
    for view in range(6):
        figure.get_by_label("Cells show", exact=True).select_option(str(view))
        cell_agrees(figure)
    texts = figure.locator("svg.map text.number").all_text_contents()
    chosen = figure.locator("#row").input_value(), figure.locator("#column").input_value()
    at = int(chosen[0]) * 6 + int(chosen[1])
    assert texts[at] == str(all_held(figure)["entropy-rang"])
