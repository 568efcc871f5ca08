"""The interactive figures of the chapter on RLHF, on a page: their numbers against the library's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from small_figures import GOLD, REWARD, UPDATES
from token_texts import PATHS, STEPS, WORDS, a_token_text

from ppobook.objectives import clipped_surrogate_loss
from ppobook.teaching import figures

from .figure_site import all_held, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")

# E2


def tokens_agree(figure: Locator) -> dict[str, Any]:
    """Every number on display: ratios, gradients and counts are the library's."""
    which, path, step = (int(figure.locator(f"#{name}").input_value()) for name in ("text", "path", "step"))
    eps = float(figure.locator("#clip_eps").input_value())
    given = a_token_text(which)
    old, advantages = (torch.as_tensor(given[name].round(4)) for name in ("old_logp", "advantages"))
    new = torch.as_tensor(given["new_logp"][path, step].round(4)).requires_grad_(True)
    loss = clipped_surrogate_loss(new, old, advantages, eps, reduction="constant", denominator=1.0, mask=None)
    (gradient,) = torch.autograd.grad(-loss, new)
    ratios = (new.detach() - old).exp().numpy()
    shown = all_held(figure)
    tokens = range(len(ratios))
    np.testing.assert_allclose([shown[f"ratio-{t}"] for t in tokens], ratios, atol=1e-9)
    np.testing.assert_allclose([shown[f"slope-{t}"] for t in tokens], gradient, atol=1e-9)
    assert shown["product"] == pytest.approx(ratios.prod())
    assert shown["kl"] == pytest.approx(float((old - new.detach()).mean()))
    assert shown["clip_fraction"] == pytest.approx((np.abs(ratios - 1) > eps).mean())
    assert shown["flat_fraction"] == pytest.approx(float((gradient == 0).double().mean()))
    return shown


def test_every_text_path_and_step(page: Page, http: str) -> None:
    figure = live(page, http, "tokens")
    figure.get_by_text("One token in numbers").click()
    for text, words in enumerate(WORDS):
        figure.get_by_label("Text", exact=True).select_option(str(text))
        assert figure.locator("tbody button").all_text_contents() == words
        for path in range(len(PATHS)):
            figure.get_by_label("Update", exact=True).select_option(str(path))
            for step in range(len(STEPS)):
                figure.locator("#step").fill(str(step))
                tokens_agree(figure)


# E9


STATE = cache(lambda: figures.beta_explorer().state)


def ends_agree(figure: Locator) -> dict[str, Any]:
    """The numbers and the texts on display, which are those of the record where the slider stands."""
    state = STATE()
    pooling, beta = (int(figure.locator(f"#{name}").input_value()) for name in ("pooling", "beta"))
    of = state["poolings"][pooling]
    sft = beta == len(state["betas"])
    look = of["runs"][0][0] if sft else of["runs"][beta][-1]
    shown = all_held(figure)
    for column, part in zip(state["columns"], look.split("/"), strict=True):
        values = np.array(part.split(), dtype=float)
        found = [shown[f"{column}-{what}"] for what in ("mean", "least", "most")]
        assert found == pytest.approx([values.mean(), values.min(), values.max()])
    written = [entry["text"] for entry in of["texts"][beta]]
    assert figure.locator(".written").all_text_contents() == written
    assert figure.locator("svg").first.locator("circle.run").count() == 10
    return shown


def test_every_beta_and_reward_model(page: Page, http: str) -> None:
    figure, state = live(page, http, "beta"), STATE()
    figure.get_by_role("button", name="One between").click()
    figure.get_by_text("another reward model").click()
    for pooling in range(len(state["poolings"])):
        figure.get_by_label("The reward model reads").select_option(str(pooling))
        for beta in range(len(state["betas"]) + 1):
            figure.locator("#beta").fill(str(beta))
            shown = ends_agree(figure)
        assert shown["kl-mean"] == pytest.approx(0, abs=1e-6), "the policy after SFT is the reference"
        expect(figure.locator(".says")).to_contain_text("The policy after SFT")


# The curve that is hidden until a guess


def test_the_second_curve_appears_after_a_guess_as_the_reader_moves(page: Page, http: str) -> None:
    figure = live(page, http, "reveal")
    slider, told, runs = figure.get_by_role("slider"), figure.locator(".answer"), figure.locator("path.run")
    slider.fill("3")
    assert all_held(figure) == {"mean-0": REWARD.mean(axis=0)[3], "mean-1": None}
    expect(runs).to_have_count(2)
    expect(told).to_be_empty()
    slider.press("Home")
    figure.get_by_role("button", name="It climbs, too").press("Enter")
    expect(told).to_have_text("Now try it.")
    for at in range(1, len(UPDATES)):
        slider.press("ArrowRight")
        held = all_held(figure)
        assert [held["mean-0"], held["mean-1"]] == pytest.approx(
            [REWARD.mean(axis=0)[at], GOLD.mean(axis=0)[at]]
        )
    expect(runs).to_have_count(4)
    expect(told).to_have_text("Not quite. It falls in both runs.")
    expect(figure).to_contain_text("a kind kind fox .")
    figure.get_by_role("button", name="It falls").click()
    expect(told).to_contain_text("Right.")


def test_a_panel_is_a_handle(page: Page, http: str) -> None:
    figure = live(page, http, "reveal")
    figure.get_by_role("button", name="It falls").click()
    box = figure.locator("svg").last.bounding_box()
    assert box
    page.mouse.move(box["x"] + 30, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.68, box["y"] + 60)
    page.mouse.up()
    expect(figure.get_by_role("slider")).to_have_value("2")


def test_beta_and_tokens_answer_the_guess_once_moved(page: Page, http: str) -> None:
    figure = live(page, http, "beta")
    told, says = figure.locator(".answer"), figure.locator(".says")
    figure.locator("#beta").fill("2")
    expect(says).to_be_empty()
    assert figure.locator("circle.run").count() == 10, "gold is hidden"
    figure.get_by_role("button", name="β = 0").click()
    expect(says).to_contain_text("on average")
    assert figure.locator("circle.run").count() == 20
    for beta in ("1", "3", "4"):
        expect(told).to_have_text("Now try it.")
        figure.locator("#beta").fill(beta)
    expect(told).to_contain_text("Not quite. β = 0.03 ends with 2.9 on average, β = 0 with −1.6")
    figure = live(page, http, "tokens")
    figure.locator("#step").fill("3")
    expect(figure.locator(".answer")).to_be_empty()
    figure.get_by_role("button", name="Further away").click()
    expect(figure.locator(".answer")).to_contain_text("It is the product of all the tokens' ratios")
