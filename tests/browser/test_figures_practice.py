"""The interactive figure of the chapter on PPO in practice, on a page: numbers are those of the records."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

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


def test_measured_maps_by_keyboard(page: Page, address: str) -> None:
    figure = live(page, address, "maps")
    assert cell_agrees(figure)["fell"] == 6
    for label, keys in (
        ("learning rate", ("ArrowLeft", "Home", "End")),
        ("clip range ε", ("ArrowRight", "End", "Home")),
    ):
        figure.get_by_role("slider", name=label).focus()
        for key in keys:
            page.keyboard.press(key)
            cell_agrees(figure)
    expect(figure.get_by_role("status")).to_contain_text("clip range ε 0.05, learning rate 0.03: mean return")


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


def test_a_cell_is_pointed_at_by_mouse_and_by_touch(open_page: Any, http: str) -> None:
    for phone in (False, True):
        page = open_page(phone=phone)
        figure = live(page, http, "maps")
        grid = figure.locator("svg.map")
        grid.scroll_into_view_if_needed()
        box = grid.bounding_box()
        assert box
        # The middle of the second row from below and the fourth column.
        across, down = (38 + 3.5 * 302 / 6) / 340, (252 - 1.5 * 244 / 5) / 308
        touch = grid.tap if phone else grid.click
        touch(position={"x": box["width"] * across, "y": box["height"] * down})
        assert [figure.locator(f"#{name}").input_value() for name in ("row", "column")] == ["1", "3"]
        cell_agrees(figure)
