"""The interactive figure of a lagging sampler, on a page: its numbers against the record's."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.teaching import figures

from .figure_site import all_held, fits, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")

STATE = cache(lambda: figures.lag_explorer().state)


def ends_agree(figure: Locator) -> None:
    """The numbers on display are the means of the record where the slider stands."""
    state, shown = STATE(), all_held(figure)
    of = state["runs"][int(figure.locator("#lag").input_value())]
    for loss, looks in zip(state["losses"], of, strict=True):
        for column, part in zip(state["columns"], looks[-1].split("/"), strict=True):
            mean = np.mean(np.array(part.split(), dtype=float))
            assert shown[f"{column}-{loss}"] == pytest.approx(mean), (column, loss)
    assert figure.locator("svg[role=img]").first.locator("path.run").count() == 30


def test_lag_explorer_by_keyboard(page: Page, address: str) -> None:
    figure = live(page, address, "lag")
    ends_agree(figure)
    figure.get_by_role("slider", name="Lag").focus()
    for key in ("ArrowRight", "End", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        ends_agree(figure)
    expect(figure.get_by_role("status")).to_contain_text("Lag 0. Without a lag the three losses are one")


def test_what_it_says_of_a_lag(page: Page, http: str) -> None:
    figure, state = live(page, http, "lag"), STATE()
    gold = state["columns"].index("gold")

    def mean(lag: int, loss: int) -> Any:
        return np.mean(np.array(state["runs"][lag][loss][-1].split("/")[gold].split(), dtype=float))

    for lag in range(1, len(state["lags"])):
        figure.locator("#lag").fill(str(lag))
        ends_agree(figure)
        said = figure.locator(".says").text_content() or ""
        found = re.findall(r"([\d.]+) \(", said)
        assert f"A lag of {state['lags'][lag]} takes off" in said
        fallen = [mean(0, 0) - mean(lag, loss) for loss in range(len(state["losses"]))]
        assert [float(x) for x in found] == pytest.approx(fallen, abs=0.0051)


def test_lag_explorer_fits_a_phone(open_page: Any, http: str) -> None:
    page = open_page(phone=True)
    figure = live(page, http, "lag")
    for lag in range(len(STATE()["lags"])):
        figure.locator("#lag").fill(str(lag))
        fits(page, figure, 380)
