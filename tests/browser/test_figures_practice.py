"""The interactive figure of the chapter on PPO in practice, on a page: numbers are those of the records."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.experiments import results
from ppobook.teaching import figures

from .figure_site import all_held, held, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")

STATE = cache(lambda: figures.measured_maps().state)
GAUGES = ("kl", "clip", "ev", "entropy")


def cell_agrees(figure: Locator) -> dict[str, Any]:
    """The numbers on display, which are those of the framed cell."""
    state = STATE()
    one = state["maps"][int(figure.locator("#map").input_value())]
    row, column = (int(figure.get_attribute(f"data-{name}") or -1) for name in ("row", "column"))
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
    figure.get_by_text("Other maps and numbers").click()
    for i, one in enumerate(STATE()["maps"]):
        figure.get_by_label("Map of", exact=True).select_option(str(i))
        shared = cell_agrees(figure)
        assert shared["mean"] == pytest.approx(float(STATE()["maps"][0]["cells"][17].split()[0]))
        for key in ("ArrowDown",) * len(one["values"]) + ("ArrowUp",) * len(one["values"]):
            figure.locator("svg.map").press(key)
            cell_agrees(figure)
        assert figure.get_attribute("data-row") == str(len(one["values"]) - 1)
    figure.locator("svg.map").press("ArrowLeft")
    for view in range(2 + len(GAUGES)):
        figure.get_by_label("Show", exact=True).select_option(str(view))
        cell_agrees(figure)
    texts = figure.locator("svg.map text.number").all_text_contents()
    at = 6 * int(figure.get_attribute("data-row") or -1) + int(figure.get_attribute("data-column") or -1)
    assert texts[at] == str(all_held(figure)["entropy-rang"])


def test_a_prediction_is_answered_by_the_gauge(page: Page, http: str) -> None:
    figure = live(page, http, "maps")
    figure.get_by_role("button", name="In good runs").click()
    answer = figure.locator(".answer")
    expect(answer).to_have_text("Now try it.")
    figure.get_by_label("Show", exact=True).select_option("explained variance < −0.1")
    expect(answer).to_contain_text("Right. It rings most often at ε = 0.4")


# The two learning rates


def test_what_comes_after_eight_updates(page: Page, http: str) -> None:
    figure = live(page, http, "rates")
    runs = results("practice_gauges")
    slow, fast = (runs[runs["case"] == case] for case in ("healthy", "learning rate ten times"))
    figure.get_by_role("button", name="They stay ahead").click()
    for update in (8, 30):
        figure.get_by_role("slider", name="Update").fill(str(update - 1))
        shown = held(figure, "mean-0")
        for i, side in enumerate((slow, fast)):
            curves = side.pivot(index="seed", columns="update", values="return_mean").ffill(axis=1)
            assert shown[i] == pytest.approx(curves[update].mean(), abs=0.5)
    arrived = (fast.groupby("seed")["final"].first() >= 475).sum()
    expect(figure.locator(".answer")).to_contain_text(f"Only {arrived} of the ten")
