"""The interactive figures of the chapter on RLHF, on a page: their numbers against the library's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from token_texts import PATHS, STEPS, WORDS, a_token_text, token_figure

from ppobook.objectives import clipped_surrogate_loss
from ppobook.teaching import figures

from .figure_site import all_held, fits, live

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
    np.testing.assert_allclose([shown[f"old-{t}"] for t in tokens], old, atol=1e-9)
    np.testing.assert_allclose([shown[f"new-{t}"] for t in tokens], new.detach(), atol=1e-9)
    np.testing.assert_allclose([shown[f"slope-{t}"] for t in tokens], gradient, atol=1e-9)
    assert shown["product"] == pytest.approx(ratios.prod())
    assert shown["kl"] == pytest.approx(float((old - new.detach()).mean()))
    assert shown["clip_fraction"] == pytest.approx((np.abs(ratios - 1) > eps).mean())
    assert shown["flat_fraction"] == pytest.approx(float((gradient == 0).double().mean()))
    return shown


def test_token_ratios_by_keyboard(page: Page, address: str) -> None:
    figure = live(page, address, "tokens")
    before = tokens_agree(figure)
    for label, keys in (("Gradient steps", ("ArrowLeft", "Home", "End")), ("Clip ε", ("ArrowRight", "End"))):
        figure.get_by_role("slider", name=label).focus()
        for key in keys:
            page.keyboard.press(key)
            shown = tokens_agree(figure)
    assert shown["clip_fraction"] == 0 < before["clip_fraction"], "at ε = 0.5 nothing is outside any more"
    figure.get_by_role("slider", name="Gradient steps").press("Home")
    assert all(value == 1 for name, value in tokens_agree(figure).items() if name.startswith("ratio"))
    expect(figure.locator(".sum")).to_contain_text("every ratio is 1")
    figure.locator("tbody button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(figure.locator("tbody button").nth(2)).to_have_attribute("aria-pressed", "true")
    expect(figure.locator("tbody button").nth(2)).to_be_focused()
    expect(figure.get_by_role("status")).to_contain_text("0 gradient steps. “fox”, token 3")


def test_every_text_path_and_step(page: Page, http: str) -> None:
    figure = live(page, http, "tokens")
    for text, words in enumerate(WORDS):
        figure.get_by_label("Text", exact=True).select_option(str(text))
        assert figure.locator("tbody button").all_text_contents() == words
        for path in range(len(PATHS)):
            figure.get_by_label("Update", exact=True).select_option(str(path))
            for step in range(len(STEPS)):
                figure.locator("#step").fill(str(step))
                tokens_agree(figure)


def test_what_it_says_of_each_case(page: Page, http: str) -> None:
    figure = live(page, http, "tokens")
    given = a_token_text(0)
    ratios = np.exp(given["new_logp"][0, -1] - given["old_logp"])
    for t, (ratio, advantage) in enumerate(zip(ratios, given["advantages"], strict=True)):
        figure.locator("tbody button").nth(t).click()
        away, wanted = abs(ratio - 1) > 0.2, (ratio > 1) == (advantage > 0)
        expect(figure.locator(".sum")).to_contain_text(
            "its gradient is 0"
            if away and wanted
            else "pulls it back"
            if away
            else "has moved that way, and is inside"
            if wanted
            else "has moved the other way, and is inside"
        )
        word = figure.locator(f"[data-number=slope-{t}]").text_content() or ""
        assert ("stopped" in word, "back" in word) == (away and wanted, away and not wanted)


def test_token_ratios_fit_a_phone(open_page: Any, http: str) -> None:
    page = open_page(phone=True)
    figure = live(page, http, "tokens")
    fits(page, figure, 380)
    figure.locator("tbody button").nth(4).tap()
    expect(figure.locator("tbody button").nth(4)).to_have_attribute("aria-pressed", "true")


def test_state_of_e2_is_where_the_page_begins(page: Page, http: str) -> None:
    shown = tokens_agree(live(page, http, "tokens"))
    ratios = [shown[f"ratio-{t}"] for t in range(len(WORDS[0]))]
    np.testing.assert_allclose(ratios, token_figure().state["ratios"], atol=1e-6)


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


def test_beta_explorer_by_keyboard(page: Page, address: str) -> None:
    figure = live(page, address, "beta")
    ends_agree(figure)
    figure.get_by_role("slider", name="β").focus()
    for key in ("ArrowRight", "End", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        ends_agree(figure)
    expect(figure.get_by_role("status")).to_contain_text("β 0: KL ")


def test_every_beta_and_reward_model(page: Page, http: str) -> None:
    figure, state = live(page, http, "beta"), STATE()
    for pooling in range(len(state["poolings"])):
        figure.get_by_label("The reward model reads").select_option(str(pooling))
        for beta in range(len(state["betas"]) + 1):
            figure.locator("#beta").fill(str(beta))
            shown = ends_agree(figure)
        assert shown["kl-mean"] == pytest.approx(0, abs=1e-6), "the policy after SFT is the reference"
        expect(figure.locator(".says")).to_contain_text("The policy after SFT")


def test_what_it_says_of_gold(page: Page, http: str) -> None:
    figure, state = live(page, http, "beta"), STATE()
    column = state["columns"].index("gold")
    for beta in range(len(state["betas"])):
        figure.locator("#beta").fill(str(beta))
        looks = [look.split("/")[column] for look in state["poolings"][0]["runs"][beta]]
        golds = [np.mean(np.array(part.split(), dtype=float)) for part in looks]
        top, fall = int(np.argmax(golds)), max(golds) - golds[-1]
        highest = f"highest after {state['updates'][top]} updates, {golds[top]:.2f} on average"
        says = figure.locator(".says")
        expect(says).to_contain_text(highest if fall >= 0.1 else "about as high as it has been")


def test_beta_explorer_fits_a_phone(open_page: Any, http: str) -> None:
    page = open_page(phone=True)
    figure = live(page, http, "beta")
    for beta in range(len(STATE()["betas"]) + 1):
        figure.locator("#beta").fill(str(beta))
        fits(page, figure, 380)


# Of each row, the pixels between the ends of its numbers and what comes before them.
GAPS = """figure => [...figure.querySelectorAll("tbody tr")].flatMap((row) => {
  const ends = [...row.querySelectorAll("td.number, td.does")].map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect();
  });
  const lane = row.querySelector(".lane").getBoundingClientRect(), [old, now, ratio, does] = ends;
  return [now.left - old.right, lane.left - now.right, ratio.left - lane.right, does.left - ratio.right];
})"""


def test_the_columns_of_tokens_stand_apart_on_a_phone(open_page: Any, http: str) -> None:
    figure = live(open_page(phone=True), http, "tokens")
    steps = figure.get_by_role("slider", name="Gradient steps")
    for key in ("Home", "End"):
        steps.press(key)
        assert min(figure.evaluate(GAPS)) >= 3
