"""The interactive figure of the chapter on GRPO: its arithmetic against the library's, in a browser."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from small_figures import RIGHT

from ppobook.teaching import figures
from ppobook.teaching.figures import _group

from .figure_site import all_held, live

# On the worker that has built the small site.
pytestmark = pytest.mark.xdist_group("figures")

SEED = figures.group_explorer().state["seed"]


def numbers_agree(figure: Locator, drawn: int, *, guessed: bool = True) -> dict[str, Any]:
    """The numbers on display, which follow from the groups drawn so far."""
    p = float(figure.locator("#p").input_value())
    size = int(figure.locator("#size").input_value())
    divided = figure.locator("#divided").is_checked()
    groups = np.array(list(islice(_group.groups(SEED), drawn)))[:, :size] < p
    last, right = figures.group_drawn(groups[-1], divided=divided), groups.sum(axis=1)
    shown = all_held(figure)
    np.testing.assert_allclose(shown.pop("advantages"), last.advantages, atol=1e-9)
    assert shown == pytest.approx(
        {
            "mean": last.mean,
            "std": last.std,
            "share": p**size + (1 - p) ** size if guessed else None,
            "dead": int(((right == 0) | (right == size)).sum()),
        }
    )
    expect(figure).to_contain_text(f"Group {drawn}: {right[-1]} of {size}")
    assert figure.locator("circle.mark").count() == right[-1]
    assert figure.locator("path.mark").count() == size - right[-1]
    expect(figure.locator(".says")).to_contain_text("no gradient" if last.dead else "more likely")
    assert figure.locator("svg", has_text="dead group:").count() == last.dead
    return shown


def test_every_size_with_and_without_the_division(page: Page, http: str) -> None:
    figure = live(page, http, "group")
    numbers_agree(figure, 1, guessed=False)
    figure.get_by_role("button", name="1 in 3").click()
    figure.get_by_role("button", name="Draw 20").click()
    figure.get_by_text("Numbers, and divided advantages").click()
    for size in ("4", "8", "16", "64"):
        figure.get_by_label("Size G").select_option(size)
        for p in ("0", "0.02", "0.3", "0.5", "0.97", "1"):
            figure.get_by_role("slider").fill(p)
            figure.get_by_label("divide by").set_checked(checked=p == "0.3")
            numbers_agree(figure, 21)
            figure.get_by_label("divide by").set_checked(checked=p != "0.3")
            numbers_agree(figure, 21)


def test_the_question_its_answer_and_the_goal_by_keyboard(page: Page, http: str) -> None:
    figure = live(page, http, "group")
    curve = figure.locator("path[stroke='var(--grpo)']")
    expect(curve).to_have_count(0)
    goal, told = figure.locator(".goal"), figure.locator(".answer")
    figure.get_by_role("button", name="1 in 20").press("Enter")
    expect(told).to_have_text("Not quite. All eight are wrong with probability 0.95⁸ = 0.66.")
    assert numbers_agree(figure, 1)["share"] == pytest.approx(2 / 3, abs=0.01)
    expect(curve).to_have_count(1)
    figure.get_by_role("button", name="2 in 3").press("Enter")
    expect(told).to_contain_text("Right.")
    for times in range(3):
        figure.get_by_role("button", name="Draw 1").press("Enter")
        numbers_agree(figure, 2 + times)
    size = figure.get_by_label("Size G")
    size.press("ArrowDown")
    expect(size).to_have_value("16")
    expect(goal).to_contain_text("✓ Reached: 0.44. But each group now costs 16 completions")
    figure.get_by_role("slider").press("ArrowRight")
    expect(goal).not_to_contain_text("Reached")
    numbers_agree(figure, 4)
    expect(figure.get_by_role("status")).to_contain_text("p 0.06, group 4")


def test_the_curve_is_a_handle_of_p(page: Page, http: str) -> None:
    figure = live(page, http, "group")
    figure.get_by_role("button", name="2 in 3").click()
    box = figure.locator("svg.slides").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (34 + 0.8 * 298) / 340, box["y"] + 60)
    page.mouse.up()
    expect(figure.get_by_role("slider")).to_have_value("0.8")
    numbers_agree(figure, 1)


def test_groups_of_answers_and_the_guess(page: Page, http: str) -> None:
    figure = live(page, http, "answers")
    told, says = figure.locator(".answer"), figure.locator(".says")
    figure.get_by_role("button", name="On a hard one").press("Enter")
    for prompt, right in RIGHT.items():
        figure.get_by_role("button", name=prompt).click()
        for start in (0, 4, 0):
            group = right[start : start + 4]
            assert all_held(figure) == {"mean": np.mean(group)}
            gains = [
                f"{reward - np.mean(group):+.2f}".replace("-", "−").replace("+0.00", "0.00")
                for reward in group
            ]
            assert figure.locator("td.gain").all_text_contents() == gains
            expect(says).to_contain_text("Every advantage is 0" if sum(group) in (0, 4) else "more likely")
            figure.get_by_role("button", name="Draw 4 answers").press("Enter")
    expect(told).to_contain_text("Right. Where few answers are right")
