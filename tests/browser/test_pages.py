"""Every page, as a reader opens it: nothing fails, is too wide, or stands in a reader's way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page

from .conftest import OpenPage, ready, violations

# The rules that depend on the theme: on colours, and on pictures that only one theme shows.
CONTRAST = ["color-contrast", "link-in-text-block"]
PICTURES = ["image-alt", "svg-img-alt", "role-img-alt"]
# The others, less the one that takes the longest of those that axe calls moderate, which are not reported.
OTHERS = {"rules": {rule: {"enabled": False} for rule in [*CONTRAST, "region"]}}

# A page has thousands of words in a few colours, and axe takes nine tenths of its time for their contrast.
# What has the same colour on the same grounds, and is large or is not, has the same contrast, and so has a
# link with the same around it: the first, the middle and the last of each kind are marked, on the first page
# that has it. A figure is marked as a whole, whatever it draws with. It returns the kinds of this page.
MARK_ONE_OF_EACH = """(known) => {
  const grounds = new Map([[null, ""]]);
  const ground = (element) => {
    if (!grounds.has(element)) {
      const s = getComputedStyle(element);
      const own = [s.backgroundColor, s.backgroundImage, s.opacity, s.filter, s.mixBlendMode].join();
      const plain = own === "rgba(0, 0, 0, 0),none,1,none,normal";
      grounds.set(element, ground(element.parentElement) + (plain ? "" : own));
    }
    return grounds.get(element);
  };
  const mark = (element) => element.setAttribute("data-one-of-each", "");
  const kinds = new Map();
  for (const element of document.body.querySelectorAll("*")) {
    if (![...element.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (element.closest(".katex-mathml")) continue;
    const s = getComputedStyle(element);
    // As axe has it: 18 points, or 14 that are bold.
    const large = parseFloat(s.fontSize) >= (s.fontWeight >= 700 ? 18.66 : 24);
    const kind = [s.color, large, s.textShadow, ground(element)];
    const link = element.closest("a");
    if (link) {
      const around = link.parentElement;
      kind.push(around.tagName, getComputedStyle(around).color, getComputedStyle(link).textDecoration);
      kind.push(s.fontWeight, s.fontStyle);
    }
    const same = kinds.get(kind.join("|")) ?? [];
    kinds.set(kind.join("|"), [...same, link ?? element]);
  }
  const seen = new Set(known);
  for (const [kind, same] of kinds) {
    if (!seen.has(kind)) [0, same.length >> 1, same.length - 1].forEach((i) => mark(same[i]));
  }
  document.querySelectorAll(".ppobook-figure").forEach((figure, i) => {
    const kind = `figure ${i} of ${location.pathname}`;
    if (!seen.has(kind)) mark(figure);
    kinds.set(kind, [figure]);
  });
  return [...kinds.keys()];
}"""

# Four fifths of a chapter's elements are KaTeX's and Pygments' own. What has no mark is left out: formulas
# become boxes of their size, and the words of a program its text.
LEAVE_OUT_THE_REST = """() => {
  const own = [...document.querySelectorAll(".katex")]
    .filter((formula) => !formula.querySelector("[data-one-of-each], a"))
    .map((formula) => [formula, formula.getBoundingClientRect()]);
  for (const [formula, { width, height }] of own) {
    const box = document.createElement("span");
    box.style = `display: inline-block; width: ${width}px; height: ${height}px`;
    formula.replaceChildren(box);
  }
  for (const word of document.querySelectorAll("pre span[class]:not([data-one-of-each])")) {
    if (word.attributes.length === 1) word.replaceWith(...word.childNodes);
  }
}"""


def every_page(site: Path) -> list[str]:
    """Addresses of the pages that a reader can come to."""
    made_by_sphinx = {"genindex.html", "py-modindex.html", "search.html", "404.html"}
    pages = (p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    return sorted(f"/{p}" for p in pages if p not in made_by_sphinx and not p.startswith("_"))


def of_the_library(site: Path) -> list[str]:
    """The library's pages, of which one stands for all where the template matters: they have the same."""
    return [p for p in every_page(site) if p.startswith("/autoapi/")]


# The titles of a page, its width, and the width of the screen.
MEASURE = """(window) => {
  const page = window.document.documentElement;
  return [page.querySelectorAll(".bd-article h1").length, page.scrollWidth, window.innerWidth];
}"""


# Tables that scroll sideways, once all that is folded is open. On a phone, tables of numbers may.
CUT = """(phone) => [...document.querySelectorAll(`.bd-article table${phone ? ":not(.dataframe)" : ""}`)]
  .map((table) => table.closest(".pst-scrollable-table-container") ?? table.parentElement)
  .filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.innerText.replace(/\\s+/g, " ").slice(0, 60))"""


def opens_well(address: str, titles: int, wide: int, screen: int) -> Iterator[str]:
    """Return what is wrong with a page that has been opened and measured."""
    if titles != 1:
        yield f"{address}: {titles} titles"
    if wide > screen:
        yield f"{address}: {wide} px on a screen of {screen}"


def in_the_way(page: Page, rules: dict[str, Any], part: str | None = None) -> Iterator[str]:
    """Return what axe finds serious or critical."""
    for violation in violations(page, part, rules):
        if violation["impact"] in ("serious", "critical"):
            first = violation["nodes"][0]
            yield (
                f"{page.url}: {violation['id']} ({len(violation['nodes'])} times), "
                f"for instance {first['html'][:200]} {first.get('failureSummary', '')[:300]}"
            )


def low_contrast(page: Page) -> Iterator[str]:
    """Return what is hard to read, of what has a mark."""
    if page.locator("[data-one-of-each]").count():
        yield from in_the_way(page, {"runOnly": CONTRAST}, "[data-one-of-each]")


def turn(page: Page, theme: Literal["light", "dark"]) -> None:
    """Change the theme, as a reader's system does at night."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)


def turned_over(page: Page, address: str, phone: bool, kinds: set[str]) -> Iterator[str]:
    """Return what is wrong with a page, less the contrast of the kinds that are known; new ones are added."""
    ready(page, address)
    yield from opens_well(address, *page.evaluate(f"({MEASURE})(window)"))
    # Folded text has to be readable too.
    page.evaluate("document.querySelectorAll('.bd-article details').forEach(d => { d.open = true })")
    # (A box says that it is open a moment later.)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    yield from (f"{address}: a table is cut: {table}" for table in page.evaluate(CUT, phone))
    light = page.evaluate(MARK_ONE_OF_EACH, list(kinds))
    turn(page, "dark")
    kinds.update(light, page.evaluate(MARK_ONE_OF_EACH, list(kinds)))
    page.evaluate(LEAVE_OUT_THE_REST)
    yield from in_the_way(page, OTHERS)
    yield from low_contrast(page)
    turn(page, "light")
    if phone:
        yield from in_the_way(page, {"runOnly": PICTURES})
    yield from low_contrast(page)


@pytest.mark.parametrize("half", [0, 1])
def test_nothing_stands_in_the_way_of_a_reader(
    open_page: OpenPage, site: Path, site_url: str, half: int
) -> None:
    desktop, phone = open_page(), open_page(phone=True)
    library = of_the_library(site)
    others = [p for p in every_page(site) if p not in library]
    found: list[str] = []
    kinds: set[str] = set()
    for address in [*others, library[0], "/search.html", "/404.html"][half::2]:
        found += turned_over(desktop, site_url + address, False, kinds)
        found += turned_over(phone, site_url + address, True, kinds)
    assert not found, "\n".join(found)


# What a page has while it is printed. The listener comes after the page's own.
ON_PAPER = """addEventListener("beforeprint", () => {
  const style = getComputedStyle(document.documentElement);
  window.printed = [document.documentElement.dataset.theme, style.getPropertyValue("--pst-color-text-base")];
})"""


@pytest.mark.parametrize("dark", [False, True])
def test_paper_is_white_at_night_too(open_page: OpenPage, site_url: str, dark: bool) -> None:
    page = open_page(dark=dark)
    ready(page, site_url + "/chapters/10_online_loops.html")
    page.wait_for_function(f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'")
    page.evaluate(ON_PAPER)
    page.pdf()
    assert page.evaluate("window.printed") == ["light", "#24292f"]
    assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
