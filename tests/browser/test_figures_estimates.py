"""The interactive figures of the chapter on advantages, on a page: their numbers are the library's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.returns import gae, n_step_advantages
from ppobook.teaching import figures

from .figure_site import all_held, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")

# E5


READ = """figure => {
  const rows = [...figure.querySelectorAll("tbody tr")];
  const field = (row, label) => Number(row.querySelector(`input[aria-label^="${label}"]`).value);
  const steps = rows.slice(0, -1);
  return {
    rewards: steps.map((row) => field(row, "Reward")),
    values: rows.map((row) => field(row, "Value of the state")),
    ends: steps.map((row) => Number(row.querySelector("select").value)),
    final: steps.map((row) => field(row, "Value of the final")),
  };
}"""


def segment_agrees(figure: Locator) -> tuple[np.ndarray, np.ndarray]:
    """δ and advantages, which are those of the library for what stands in the fields."""
    read = figure.evaluate(READ)
    gamma, lam = (float(figure.locator(f"#{name}").input_value()) for name in ("gamma", "lam"))
    ends = np.array(read["ends"])
    final = np.where(ends == 2, read["final"], np.nan)  # so that nothing else is read
    arguments = [np.array(read["rewards"]), np.array(read["values"]), ends == 1, ends == 2, final]
    deltas = n_step_advantages(*arguments, n=1, gamma=gamma)
    advantages, _ = gae(*arguments, gamma=gamma, lam=lam)
    shown = all_held(figure)
    np.testing.assert_allclose([shown[f"delta-{t}"] for t in range(len(deltas))], deltas, atol=1e-9)
    np.testing.assert_allclose([shown[f"advantage-{t}"] for t in range(len(deltas))], advantages, atol=1e-9)
    return deltas, advantages


def test_every_segment_at_every_end_of_the_sliders(page: Page, http: str) -> None:
    figure = live(page, http, "gae")
    for i in range(len(figures.gae_explorer().state["segments"])):
        figure.get_by_label("Start from").select_option(str(i))
        for gamma, lam in (("0", "0.8"), ("1", "1"), ("0.99", "0.95"), ("0.9", "0")):
            figure.get_by_role("slider", name="γ").fill(gamma)
            figure.get_by_role("slider", name="λ").fill(lam)
            deltas, advantages = segment_agrees(figure)
            if lam == "0":
                np.testing.assert_allclose(advantages, deltas)


def test_editing_a_segment(page: Page, http: str) -> None:
    figure = live(page, http, "gae")
    _, before = segment_agrees(figure)
    figure.get_by_label("Reward of step 5").fill("-3")
    _, after = segment_agrees(figure)
    np.testing.assert_allclose(after[:4], before[:4], err_msg="the end at step 3 lets nothing through")
    assert (after[4:6] < before[4:6]).all()
    figure.get_by_label("After step 3 the episode").select_option("goes on")
    assert segment_agrees(figure)[1][0] < before[0]
    figure.get_by_label("After step 1 the episode").select_option("truncated")
    final = figure.get_by_label("Value of the final observation of step 1")
    expect(final).to_be_visible()
    final.fill("7.5")
    deltas, advantages = segment_agrees(figure)
    assert deltas[1] == advantages[1] == pytest.approx(0.9 * 7.5 - 0.9)
    figure.get_by_label("Value of the state after the last step").fill("")
    np.testing.assert_allclose(all_held(figure)["delta-6"], deltas[6], err_msg="an empty field is no number")


# The reach


def test_the_fall_counts_by_the_power_of_its_distance(page: Page, http: str) -> None:
    figure = live(page, http, "reach")
    figure.get_by_role("button", name="Less than a tenth").click()
    slider = figure.get_by_role("slider", name="λ")
    expect(figure.locator(".answer")).to_have_text("Now try it.")
    for at, lam in enumerate(figures.lambda_reach().state["lambdas"]):
        slider.fill(str(at))
        assert all_held(figure)["share"] == pytest.approx((0.99 * lam) ** 50)
    expect(figure.locator(".answer")).to_contain_text("Right.")


# E6


SWEEP = cache(lambda: figures.lambda_sweep().state)


def sweep_agrees(figure: Locator) -> dict[str, Any]:
    """The numbers on display, which are those of the library."""
    state = SWEEP()
    gamma, lam = (
        float(figure.locator(f"#{name}").get_attribute("aria-valuetext") or "nan")
        for name in ("gamma", "lam")
    )
    g, k = state["gammas"].index(gamma), state["lambdas"].index(lam)
    critic = state["critics"][int(figure.locator("#critic").input_value())]
    bias, variance = (np.array(critic[part][g].split(), dtype=float) for part in ("squared_bias", "variance"))
    shown = all_held(figure)
    assert [shown["squared_bias"], shown["variance"]] == [bias[k], variance[k]]
    assert shown["sum"] == pytest.approx(bias[k] + variance[k])
    assert shown["best"] == state["lambdas"][int(np.argmin(bias + variance))]
    reach = np.sum((gamma * lam) ** np.arange(20_000)) if gamma * lam < 1 else None
    assert shown["reach"] == (reach if reach is None else pytest.approx(reach))
    return shown


def test_every_critic_of_the_lambda_sweep(page: Page, http: str) -> None:
    figure = live(page, http, "sweep")
    figure.get_by_text("Numbers and γ").click()
    for i, critic in enumerate(SWEEP()["critics"]):
        figure.get_by_label("Critic").select_option(str(i))
        for gamma in ("0", "4", "6"):
            figure.get_by_role("slider", name="γ").fill(gamma)
            sweep_agrees(figure)
        figure.get_by_role("button", name="To the least sum").press("Enter")
        shown = sweep_agrees(figure)
        assert figure.locator("#lam").get_attribute("aria-valuetext") == f"{shown['best']:.2f}", critic[
            "name"
        ]
        expect(figure.locator(".says")).to_contain_text("This is the least sum")
