"""The interactive figures of the chapter on the whole of PPO, on a page: their numbers are the library's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.teaching import figures
from ppobook.teaching.figures import _parts

from .figure_site import all_held, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")

# E4

PARTS = cache(lambda: figures.loss_parts().state)


def parts_agree(figure: Locator) -> dict[str, Any]:
    """The numbers on display, which are those of the library."""
    names = ("clip_eps", "value_coef", "entropy_coef")
    clip_eps, value_coef, entropy_coef = (
        float(figure.locator(f"#{name}").get_attribute("aria-valuetext") or "nan") for name in names
    )
    batch = PARTS()["batches"][int(figure.locator("#batch").input_value())]
    expected = _parts._parts(batch, clip_eps, value_coef, entropy_coef)
    shown = all_held(figure)
    expected["value_part"] = value_coef * (expected["value_loss"] or 0)
    expected["entropy_part"] = -entropy_coef * (expected["entropy"] or 0)
    for name, value in shown.items():
        if name == "turn":  # an arc cosine near 1 has half the digits
            assert value == pytest.approx(expected[name], abs=1e-3)
        else:
            assert value == pytest.approx(expected[name], rel=1e-9, abs=1e-9), name
    return shown


def test_larger_rewards_turn_the_step_of_a_shared_trunk(page: Page, http: str) -> None:
    figure = live(page, http, "parts")
    before = parts_agree(figure)
    figure.get_by_label("A batch with").select_option("1")
    after = parts_agree(figure)
    assert after["turn"] > 60 > before["turn"]
    expect(figure.locator(".says")).to_contain_text("times as strongly as they do")
    figure.get_by_role("slider", name="Value coefficient").fill("0")
    assert parts_agree(figure)["turn"] == pytest.approx(0, abs=1e-3)
    expect(figure.locator(".says")).to_contain_text("as nothing else pulls")


# E7

COLLAPSE = cache(lambda: figures.entropy_collapse().state)


def policies_agree(figure: Locator) -> dict[str, Any]:
    """The numbers on display, which follow from the library's policies."""
    state = COLLAPSE()
    update = int(figure.locator("#update").input_value())
    pays = np.array(state["pays"] if update < state["change"] else state["later"])
    coef = int(figure.locator("#coef").input_value())
    shown = all_held(figure)
    for side, run in (("without", state["runs"][0]), ("with", state["runs"][coef + 1])):
        packed = np.array(run["probs"][update // state["every"]].split(), dtype=float).reshape(12, 3) / 1000
        probs = np.column_stack([packed, np.maximum(0, 1 - packed.sum(axis=1))])
        entropy = -(probs * np.log(np.maximum(probs, 1e-300))).sum(axis=1).mean()
        assert shown[f"{side}-entropy"] == pytest.approx(entropy)
        assert shown[f"{side}-pay"] == pytest.approx((probs @ pays).mean())
        assert shown[f"{side}-found"] == (probs.argmax(axis=1) == 3).sum()
    return shown


def test_entropy_collapse_by_keyboard(page: Page, address: str) -> None:
    figure = live(page, address, "entropy")
    expect(figure).to_have_attribute("data-playing", "false")
    figure.get_by_role("button", name="Over half").click()
    policies_agree(figure)
    figure.get_by_role("slider", name="Update").focus()
    for key, update in (("ArrowLeft", "35"), ("Home", "0"), ("ArrowRight", "5"), ("End", "120")):
        page.keyboard.press(key)
        expect(figure).to_have_attribute("data-update", update)
        policies_agree(figure)
    shown = policies_agree(figure)
    assert shown["without-found"] < shown["with-found"]
    expect(figure.locator(".answer")).to_contain_text(f"Right. Only {shown['without-found']} do.")
    figure.get_by_role("slider", name="Update").fill("40")
    figure.get_by_text("Numbers and other bonuses").click()
    for coef in ("0", "1", "2"):
        figure.get_by_label("Bonus with entropy coefficient").select_option(coef)
        assert policies_agree(figure)["with-entropy"] > policies_agree(figure)["without-entropy"]
    expect(figure.get_by_role("status")).to_contain_text("Update 40. Without a bonus: entropy 0.13")
