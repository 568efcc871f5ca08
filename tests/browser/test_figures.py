"""The interactive figures on a page, from a server and from a file; `test_lab` has them in JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.teaching import figures

from .conftest import DESKTOP, PHONE, violations
from .figure_site import PAGES, fits, held, live
from .test_pages import CONTRAST

# One worker builds the small site, once.
pytestmark = pytest.mark.xdist_group("figures")


def numbers(figure: Locator) -> tuple[float, float, list[float], int]:
    """Return what the figure shows: baseline, spread, mean and pulls."""

    def value(name: str) -> Any:
        return json.loads(figure.locator(f"[data-number={name}]").get_attribute("data-value") or "null")

    return (
        float(figure.locator("input[type=range]").input_value()),
        value("spread"),
        value("mean"),
        value("pulls"),
    )


def agrees(figure: Locator, bandit: dict[str, Any]) -> None:
    baseline, spread, mean, pulls = numbers(figure)
    _, exact_mean, exact_spread = figures.single_pull(bandit["probs"], bandit["rewards"], baseline)
    assert spread == pytest.approx(exact_spread, abs=1e-9)
    np.testing.assert_allclose(mean, exact_mean, atol=1e-9)
    assert pulls == int(np.ceil((exact_spread / 0.1) ** 2 - 1e-9))
    assert figure.locator("[data-number=spread]").text_content() == f"{exact_spread:.2f}"


def test_keyboard_moves_it_and_its_numbers_are_the_librarys(page: Page, address: str) -> None:
    figure = live(page, address)
    figure.get_by_text("Numbers, averages").click()
    bandits = figures.baseline().state["bandits"]
    slider = figure.get_by_role("slider", name="Baseline")
    slider.focus()
    assert numbers(figure)[0] == 0.0
    agrees(figure, bandits[0])
    for key, times, expected in [
        ("ArrowRight", 3, 0.3),
        ("End", 1, 20.0),
        ("ArrowLeft", 1, 19.9),
        ("Home", 1, 0.0),
    ]:
        for _ in range(times):
            page.keyboard.press(key)
        assert numbers(figure)[0] == pytest.approx(expected)
        agrees(figure, bandits[0])
    for i, bandit in enumerate(bandits):
        figure.get_by_label("Bandit").select_option(str(i))
        for baseline in ("0", "4", "9.7", str(bandit["range"][1])):
            slider.fill(baseline)
            agrees(figure, bandit)


# Each begins in one theme and is turned to the other and back, for paper too.
@pytest.mark.parametrize(("name", "dark"), [(name, bool(i % 2)) for i, name in enumerate(PAGES)])
def test_it_follows_the_theme(open_page: Any, http: str, dark: bool, name: str) -> None:
    page = open_page(dark=dark)
    figure = live(page, http, name)

    def ground() -> tuple[str | None, str]:
        return figure.get_attribute("data-ground"), figure.evaluate("node => getComputedStyle(node).color")

    assert ground()[0] == ("dark" if dark else "light")
    before = ground()
    page.evaluate(f"document.documentElement.dataset.theme = '{'light' if dark else 'dark'}'")
    expect(figure).to_have_attribute("data-ground", "light" if dark else "dark")
    assert ground()[1] != before[1]
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")  # paper is white
    expect(figure).to_have_attribute("data-ground", "light")
    page.emulate_media(media="screen")
    expect(figure).to_have_attribute("data-ground", "dark")


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_in_it(page: Page, http: str, name: str) -> None:
    figure = live(page, http, name)
    if name == "index":
        figure.get_by_text("Numbers, averages").click()
        figure.get_by_role("button", name="Average 20 samples").click()
    if name == "simplex":
        figure.get_by_text("Numbers and other settings").click()
    # (A width changes no colours.)
    looks = ((DESKTOP, "light", {}), (DESKTOP, "dark", {"runOnly": CONTRAST}), (PHONE, "dark", {}))
    for size, theme, rules in looks:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=theme)
        expect(figure).to_have_attribute("data-ground", theme)
        found = violations(page, ".ppobook-figure", rules)
        wrong = [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found]
        assert not wrong, (size, theme, wrong)


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_there_is_a_picture_with_words(open_page: Any, small_site: Path, name: str) -> None:
    page = open_page(javascript=False)
    page.goto((small_site / f"{name}.html").as_uri())
    still = page.locator(".ppobook-figure img")
    expect(still).to_be_visible()
    assert (still.get_attribute("alt") or "").startswith(PAGES[name][1])
    box = still.bounding_box()
    assert box
    assert box["width"] > 300


def test_a_broken_figure_stays_a_picture(page: Page, http: str) -> None:
    page.forgiven += ["An interactive figure stays a picture", "404"]  # type: ignore[attr-defined]
    page.route("**/baseline.js*", lambda route: route.fulfill(status=404))
    page.goto(http)
    expect(page.locator(".ppobook-figure img")).to_be_visible()
    expect(page.locator(".ppobook-figure[data-live]")).to_have_count(0)


# E1


SETTINGS = ("ratio", "advantage", "clip_eps")

# Where each setting of the sliders leads, in one go: one by one, each number takes a hundredth of a second.
VALUES_AT = """(figure, settings) => settings.map((setting) => {
  for (const [name, value] of Object.entries(setting)) {
    const slider = figure.querySelector(`#${name}`);
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    if (Number(slider.value) !== value) throw new Error(`${name} cannot be ${value}`);
  }
  const numbers = [...figure.querySelectorAll("[data-number]")];
  const shown = Object.fromEntries(numbers.map((n) => [n.dataset.number, JSON.parse(n.dataset.value)]));
  return { ...shown, says: figure.querySelector("p.counts").textContent };
})"""


def checked_sample(at: Sequence[float], shown: dict[str, Any]) -> figures.ClipSample:
    sample = figures.clip_sample(*at)
    for name, value in sample._asdict().items():
        assert shown[name] == value if value is None else shown[name] == pytest.approx(value, abs=1e-8), at
    counted = [
        "to neither",
        "to clip_fraction, not to flat_fraction",
        "to clip_fraction and to flat_fraction",
    ]
    if at[1]:
        assert f"It counts {counted[sample.clip_fraction + sample.flat_fraction]}" in shown["says"], at
    return sample


def test_clip_explorer_agrees_with_the_library_all_over(page: Page, http: str) -> None:
    figure = live(page, http, "clip")
    ratios = (0.05, 0.5, 0.8, 0.95, 1, 1.05, 1.2, 1.5, 2.5)
    everywhere = list(product(ratios, (-2, -0.1, 0, 1, 1.7), (0.05, 0.2, 0.5)))
    shown = figure.evaluate(VALUES_AT, [dict(zip(SETTINGS, at, strict=True)) for at in everywhere])
    slopes = {checked_sample(at, there).slope for at, there in zip(everywhere, shown, strict=True)}
    assert {None, 0.0} < slopes


# E8


# Thousands of small steps take a second: each is taken once for the settings that it reads.
library_step = cache(figures.simplex_step)
READS = {"trpo": ("max_kl",), "ppo_small": ("clip_eps",), "ppo_large": ("clip_eps", "length")}


def steps_agree(figure: Locator, old: Any, advantages: Any, tolerance: float = 1e-8) -> dict[str, Any]:
    found = {}
    for method in figures.METHODS:
        settings = {}
        for name in READS.get(method, ("length",)):
            settings[name] = float(figure.locator(f"#{name}").get_attribute("aria-valuetext") or "nan")
        found[method] = step = library_step(method, tuple(old), tuple(advantages), **settings)
        shown = [held(figure, f"{method}-{name}") for name in ("r1", "r2", "r3", "kl")]
        np.testing.assert_allclose(
            shown, [*step.ratios, step.kl], atol=tolerance, err_msg=f"{method} {settings}"
        )
    return found


def test_the_steps_from_every_start_are_the_librarys(page: Page, http: str) -> None:
    figure = live(page, http, "simplex")
    figure.get_by_text("Numbers and other settings").click()
    for i, preset in enumerate(figures.trust_region_step().state["presets"]):
        figure.get_by_label("Start").select_option(str(i))
        for length in ("3", "8"):
            figure.get_by_role("slider", name="Step length α").fill(length)
            steps_agree(figure, preset["old"], preset["advantages"])


def test_the_old_policy_can_be_dragged_and_moved_by_keys(page: Page, http: str) -> None:
    figure = live(page, http, "simplex")
    handle = figure.get_by_role("slider", name="Old policy")
    before = handle.get_attribute("aria-valuetext")
    handle.focus()
    page.keyboard.press("ArrowUp")
    moved = handle.get_attribute("aria-valuetext")
    assert moved != before
    box = figure.locator("svg.whole").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.6)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.8, steps=3)
    page.mouse.up()
    assert handle.get_attribute("aria-valuetext") != moved
    assert page.evaluate("String(getSelection())") == "", "dragging selects no text"


# A question that is answered once the reader has moved the figure


def test_a_guess_is_answered_when_the_figure_has_moved(page: Page, http: str) -> None:
    figure = live(page, http, "runs")
    right = figure.get_by_role("button", name="All fall")
    right.click()
    expect(figure).to_contain_text("Now try it.")
    figure.get_by_role("button", name="long steps").click()
    expect(figure).to_contain_text("Right. With long steps, all fall.")
    expect(right).to_have_attribute("data-mark", "right")


# The films


def test_the_film_stands_still_where_no_motion_is_wanted(page: Page, address: str) -> None:
    figure = live(page, address, "film")
    expect(figure).to_have_attribute("data-playing", "false")
    expect(figure).to_have_attribute("data-push", "500")
    expect(figure).to_contain_text("the pole falls at push 20")
    expect(figure).to_contain_text("the pole still stands at push 500")


def test_the_film_plays_and_can_be_stopped(page: Page, http: str) -> None:
    page.emulate_media(reduced_motion="no-preference")
    figure = live(page, http, "film")
    expect(figure).to_have_attribute("data-playing", "true")
    expect(figure).to_contain_text("the pole falls at push 20")
    expect(figure).not_to_contain_text("still stands")
    figure.get_by_role("button", name="Pause").press("Enter")
    expect(figure).to_have_attribute("data-playing", "false")
    push = int(figure.get_attribute("data-push") or "-1")
    assert 20 <= push < 500
    page.wait_for_timeout(200)
    expect(figure).to_have_attribute("data-push", str(push))
    figure.get_by_role("button", name="Play").press("Enter")
    expect(figure).not_to_have_attribute("data-push", str(push))
    assert int(figure.get_attribute("data-push") or "-1") > push, "it goes on where it was stopped"


@pytest.mark.parametrize("name", PAGES)
def test_a_figure_fits_a_phone(open_page: Any, http: str, name: str) -> None:
    page = open_page(phone=True)
    fits(page, live(page, http, name), 380)


@pytest.mark.parametrize(
    "name", ["index", "simplex", "gae", "entropy", "sweep", "maps", "tokens", "beta", "group", "lag"]
)
def test_a_figure_is_no_taller_than_a_phone(open_page: Any, http: str, name: str) -> None:
    page = open_page(phone=True)
    page.set_viewport_size({"width": 390, "height": 844})
    box = live(page, http, name).bounding_box()
    assert box
    assert box["height"] <= 760


@pytest.mark.parametrize("name", ["film", "runs", "reach", "answers", "clip", "maps", "group", "lag"])
def test_an_answer_has_its_room_from_the_beginning(open_page: Any, http: str, name: str) -> None:
    page = open_page(phone=True)
    page.set_viewport_size({"width": 390, "height": 844})
    figure = live(page, http, name)
    height = figure.evaluate("node => node.offsetHeight")
    for button in figure.get_by_role("button").all():
        button.dispatch_event("click")
        assert figure.evaluate("node => node.offsetHeight") == height
    for slider in figure.get_by_role("slider").all():
        slider.press("End")
        assert figure.evaluate("node => node.offsetHeight") == height
