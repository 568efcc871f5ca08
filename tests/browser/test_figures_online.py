"""The interactive figures of the chapter on online loops, on a page: their numbers against the record's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.experiments import results
from ppobook.teaching import figures

from .figure_site import all_held, live

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
    expect(figure.get_by_role("status")).to_contain_text("Lag 0. Without a lag, the three losses")


def test_the_guess_is_answered_once_the_policy_has_moved(page: Page, address: str) -> None:
    figure = live(page, address, "left")
    guess = figure.get_by_role("button", name="As often as before")
    guess.click()
    expect(guess).not_to_have_attribute("data-mark", "wrong")
    figure.get_by_role("slider", name="Update").focus()
    page.keyboard.press("End")
    expect(guess).to_have_attribute("data-mark", "wrong")
    runs = results("language_refresh").query("judge == 'frozen' and update == 45")
    for column, mean in zip(("order", "gold"), all_held(figure).values(), strict=True):
        assert mean == pytest.approx(runs[column].mean(), abs=0.005)
