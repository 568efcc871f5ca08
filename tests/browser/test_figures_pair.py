"""The interactive figure of the chapter on DPO: its arithmetic against the library, in a browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.teaching.figures import _pair

from .figure_site import all_held, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")


def numbers_agree(figure: Locator) -> dict[str, Any]:
    """The numbers on display, which are those of the library."""
    h, beta = (
        float(figure.locator(f"#{name}").get_attribute("aria-valuetext") or "nan") for name in ("h", "beta")
    )
    pair = int(figure.locator("#pair").input_value())
    shared = figure.locator("#policy").input_value() == "0"
    shown = all_held(figure)
    two = _pair._PAIRS[pair]
    found = _pair.pair_moved(_pair._REF, _pair._KIND, two, h, shared=shared, beta=beta)
    expected = {name: getattr(found, name) for name in ("chosen", "rejected", "choice", "weight")} | {
        "elsewhere": 1 - found.probs[list(two)].sum(),
        "gold": found.probs @ np.array(_pair._GOLD),
    }
    assert shown == pytest.approx(expected, rel=1e-9, abs=1e-9)
    return shown


def test_the_chosen_text_falls_if_kind_words_share_a_parameter(page: Page, http: str) -> None:
    figure = live(page, http, "pair")
    figure.get_by_role("slider", name="Distance h").fill("40")
    for pair in ("0", "1", "2", "3"):
        figure.get_by_label("People chose").select_option(pair)
        figure.get_by_label("Policy").select_option("1")
        assert numbers_agree(figure)["chosen"] > 0
        figure.get_by_label("Policy").select_option("0")
        numbers_agree(figure)
    figure.get_by_label("People chose").select_option("0")
    assert numbers_agree(figure)["chosen"] < 0
    expect(figure.locator(".says")).to_contain_text("the chosen text falls as well")


# Names in the panel of the bars that lie on a bar or on the frame of one.
