"""The hill and the road of the front page, on a small site of their own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import yaml
from playwright.sync_api import Locator, Page, expect
from sphinx_process import sphinx

import front_picture

from .conftest import DESKTOP, PHONE, served, violations
from .figure_site import fits

# One worker builds the small site, once.
pytestmark = pytest.mark.xdist_group("front")

ROOT = Path(__file__).resolve().parents[2]
STOPS = yaml.safe_load((ROOT / "tools" / "road.yml").read_text(encoding="utf-8"))
CONF = f"""
project = "front"
extensions = ["myst_nb", "site_light", "site_front"]
html_theme = "sphinx_book_theme"
html_context = {{"default_mode": "auto"}}
html_static_path = [{str(ROOT / "_static")!r}]
html_favicon = {str(ROOT / "_static" / "favicon.svg")!r}
html_css_files = ["book.css"]
html_math_renderer = "katex"
nb_execution_mode = "off"
exclude_patterns = ["_build", "tools", "_templates"]
"""
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
SIZES = range(10, 301, 10)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a front page with both figures, and of a small page for each chapter of the road."""
    folder = tmp_path_factory.mktemp("front")
    (folder / "conf.py").write_text(CONF)
    for name in ("tools/road.yml", "_templates/hill.html", "_templates/hill.svg"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    chapters = sorted({page.partition("#")[0] for _, page, *_ in STOPS})
    anchors = "".join(f"({page.partition('#')[2]})=\n## There\n" for _, page, *_ in STOPS if "#" in page)
    for chapter in chapters:
        (folder / chapter).parent.mkdir(exist_ok=True)
        text = "# A chapter\n\n" + (anchors if "/01_" in chapter else "")
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, folder / chapter)
    tree = "\n".join(chapter.removesuffix(".ipynb") for chapter in chapters)
    text = "# Front\n\n```{hill}\n```\n\n```{road}\n```\n\n```{toctree}\n:hidden:\n"
    (folder / "index.md").write_text(f"{text}{tree}\n```\n")
    built = sphinx(folder, "-q", "-b", "html", ".", "_build")
    assert built.returncode == 0, built.stderr
    (folder / "_build" / "searchindex.js").write_text("")  # the theme asks for it, and the book makes none
    with served(folder / "_build") as address:
        yield f"{address}/index.html"


def live(page: Page, address: str) -> Locator:
    """Go there, and wait for the script."""
    page.goto(address)
    hill = page.locator("#hill")
    expect(hill).to_have_attribute("data-live", "true")
    return hill


# Where each step size leads, in one go.
PATHS = """([hill, sizes]) => sizes.map((size) => {
  const slider = hill.querySelector("input[type=range]");
  slider.value = size;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  return [JSON.parse(hill.dataset.path), hill.querySelector(".says").textContent, hill.offsetHeight];
})"""


def walks(hill: Locator) -> list[tuple[list, str, int]]:
    return hill.evaluate(f"(hill) => ({PATHS})([hill, {list(SIZES)}])")


def test_every_path_is_the_tools(page: Page, front: str) -> None:
    hill = live(page, front)
    # (Where steps are long, each multiplies the last digits' rounding.)
    for size, (path, _, _) in zip(SIZES, walks(hill), strict=True):
        np.testing.assert_allclose(path, front_picture.plain_path(size), atol=1e-6, err_msg=f"{size}")
    hill.get_by_role("switch", name="Limit each step").check()
    for size, (path, _, _) in zip(SIZES, walks(hill), strict=True):
        np.testing.assert_allclose(path, front_picture.limited_path(size), atol=1e-6, err_msg=f"{size}")


def test_the_words_are_true(page: Page, front: str) -> None:
    hill = live(page, front)
    top = max(front_picture.height(np.array([x, x])) for x in np.linspace(0, 1, 101))
    found = walks(hill)
    for size, (path, says, _) in zip(SIZES, found, strict=True):
        shares = [front_picture.height(np.array(theta)) / top for theta in path]
        if told := re.search(r"(\d+)% of the top", says):
            assert float(told[1]) == pytest.approx(100 * shares[-1], abs=0.51), size
        if "lead to the top" in says:
            assert shares == sorted(shares), size
            assert shares[-1] >= 0.95, size
        if jump := re.match(r"Step (\d+) jumps", says):
            assert shares[int(jump[1])] < min(0.1, shares[int(jump[1]) - 1]), size
        if "stuck" in says:
            assert shares[-1] < 0.05, size
    kinds = [says for _, says, _ in found]
    assert all(any(text in says for says in kinds) for text in ("short", "lead to", "downhill", "stuck"))
    hill.get_by_role("switch").check()
    for size, (path, says, _) in zip(SIZES, walks(hill), strict=True):
        shares = [front_picture.height(np.array(theta)) / top for theta in path]
        assert shares == pytest.approx(sorted(shares), abs=1e-9), size
        if told := re.search(r"at the top after (\d+) steps", says):
            assert shares[int(told[1])] >= 0.95 > shares[int(told[1]) - 1], size


def test_keyboard_and_touch(open_page: Any, front: str) -> None:
    page = open_page(phone=True)
    hill = live(page, front)
    slider, says = hill.get_by_role("slider", name="Step size"), hill.locator(".says")
    expect(says).to_have_text("Ten steps of size 40 lead to the top of the hill.")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(hill.locator("output")).to_have_text("50")
    page.keyboard.press("End")
    expect(hill.locator("output")).to_have_text("300")
    # What is read aloud waits until the slider rests.
    assert says.get_attribute("aria-busy") == "true"
    expect(says).not_to_have_attribute("aria-busy", "true")
    expect(says).to_contain_text("jumps over the top")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(says).to_contain_text("inside its ring")
    expect(hill).to_have_attribute("data-limited", "true")
    assert hill.locator(".rings").get_attribute("d")
    hill.get_by_text("Limit each step").tap()
    expect(hill).to_have_attribute("data-limited", "false")
    slider.tap(position={"x": 5, "y": 15})
    expect(hill.locator("output")).to_have_text("10")


def test_the_guess_is_marked_once_its_step_size_was_tried(page: Page, front: str) -> None:
    hill = live(page, front)
    wrong, says = hill.get_by_role("button", name="At the top"), hill.locator(".says")
    wrong.click()
    expect(says).to_have_text("Ten steps of size 40 lead to the top of the hill. Now try 240.")
    hill.locator("input[type=range]").fill("240")
    expect(says).to_contain_text("Not quite. Step 3 jumps over the top")
    expect(wrong).to_have_attribute("data-mark", "wrong")
    hill.get_by_role("button", name="Far below").click()
    expect(says).to_contain_text("Right. Step 3 jumps over the top")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_moves_when_the_script_comes_or_the_reader_plays(page: Page, front: str, size: dict) -> None:
    page.forgiven += ["ERR_FAILED"]  # type: ignore[attr-defined]
    page.set_viewport_size(size)
    page.route("**/hill.js*", lambda route: route.abort())
    page.goto(front)
    hill = page.locator("#hill")
    # A picture without its script has no controls that do nothing.
    expect(hill.locator("svg")).to_be_visible()
    expect(hill.get_by_text("Limit each step")).not_to_be_visible()
    still = hill.evaluate("(hill) => [hill.offsetHeight, hill.querySelector('.way').getAttribute('d')]")
    page.unroute("**/hill.js*")
    hill = live(page, front)
    first = hill.evaluate("(hill) => [hill.offsetHeight, hill.querySelector('.way').getAttribute('d')]")
    assert first == still
    heights = {height for _, _, height in walks(hill)}
    hill.get_by_role("switch").check()
    assert heights | {height for _, _, height in walks(hill)} == {still[0]}


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(open_page: Any, front: str, dark: bool) -> None:
    page = open_page(dark=dark)
    hill = live(page, front)
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size)
        for part in ("#hill", ".road"):
            found = violations(page, part)
            assert not [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found]
    hill.locator("input[type=range]").fill("240")
    fits(page, hill, 390)
    fits(page, page.locator(".road"), 390)
    paper = hill.locator(".map").evaluate("(map) => getComputedStyle(map).backgroundColor")
    assert paper == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)")


def test_without_scripts_there_is_a_picture_with_words(open_page: Any, front: str) -> None:
    page = open_page(javascript=False)
    page.goto(front)
    expect(page.get_by_role("img", name="Two maps of the same hill")).to_be_visible()


def test_a_ball_runs_along_the_path(open_page: Any, front: str) -> None:
    page = open_page()
    page.emulate_media(reduced_motion="no-preference")
    hill = live(page, front)
    hill.locator("input[type=range]").fill("50")
    page.wait_for_function("document.querySelector('.ball').getAnimations().length === 1")
    page.emulate_media(reduced_motion="reduce")
    hill.locator("input[type=range]").fill("60")
    page.wait_for_timeout(500)
    assert hill.evaluate("() => document.querySelector('.ball').getAnimations().length") == 0


def test_each_stop_is_a_link(page: Page, front: str) -> None:
    page.goto(front)
    links = page.locator(".road a")
    expect(links).to_have_count(len(STOPS))
    for at, (number, target, name, *_) in enumerate(STOPS):
        address = target.replace(".ipynb", ".html")
        assert links.nth(at).get_attribute("href") == address
        assert json.dumps(links.nth(at).inner_text()).count(name)
        expect(links.nth(at).locator(".number")).to_have_text(f"Chapter {number}")
    page.set_viewport_size(PHONE)
    boxes = [links.nth(at).bounding_box() for at in range(len(STOPS))]
    assert all(box and box["height"] >= 44 and box["x"] >= 0 for box in boxes)
    links.nth(1).click()
    expect(page).to_have_url(re.compile(r"/01_vanilla_policy_gradient\.html#sec-baseline$"))
