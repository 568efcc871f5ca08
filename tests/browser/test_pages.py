"""Pages, as a reader opens them: nothing fails, is too wide, or stands in a reader's way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from .conftest import OpenPage, ready, violations

# The rules that depend on the theme.
CONTRAST = ["color-contrast", "link-in-text-block"]
# One of each kind of page.
KINDS = [
    *("index", "chapters/03_the_clipped_surrogate", "exercises/03_the_clipped_surrogate", "desk/desk"),
    *(f"reference/{name}" for name in ("cards", "cheatsheet", "claims", "glossary", "notation", "paths")),
    *("autoapi/ppobook/returns/index", "search", "404"),
]

# The titles of a page, its width, and the width of the screen.
MEASURE = """() => {
  const page = document.documentElement;
  return [page.querySelectorAll(".bd-article h1").length, page.scrollWidth, window.innerWidth];
}"""
# Tables that scroll sideways, once all that is folded is open. On a phone, tables of numbers or of
# many columns may.
CUT = """(phone) => [...document.querySelectorAll(`.bd-article table${phone ? ":not(.dataframe)" : ""}`)]
  .filter((table) => !phone || table.rows[0].cells.length <= 8)
  .map((table) => table.closest(".pst-scrollable-table-container") ?? table.parentElement)
  .filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.innerText.replace(/\\s+/g, " ").slice(0, 60))"""

# Formulas that scroll sideways on a phone.
LONG = """() => [...document.querySelectorAll(".bd-article div.math > span:not(.eqno)")]
  .filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.querySelector("annotation").textContent.slice(0, 60))"""

# Four fifths of a chapter's elements are KaTeX's and Pygments' own, and axe would take minutes for them.
PLAIN = (
    "() => document.querySelectorAll('.katex, pre').forEach((one) => { one.textContent = one.textContent; })"
)


def misfits(page: Page, address: str, phone: bool) -> Iterator[str]:
    """Open a page and all that is folded on it, and return what does not fit."""
    ready(page, address)
    titles, wide, screen = page.evaluate(MEASURE)
    if titles != 1 or wide > screen:
        yield f"{address}: {titles} titles, {wide} px on a screen of {screen}"
    page.evaluate("document.querySelectorAll('.bd-article details').forEach(d => { d.open = true })")
    # (A box says that it is open a moment later.)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    yield from (f"{address}: a table is cut: {table}" for table in page.evaluate(CUT, phone))
    if phone:
        yield from (f"{address}: a formula is cut: {formula}" for formula in page.evaluate(LONG))


@pytest.mark.parametrize("phone", [False, True])
def test_every_page_fits(open_page: OpenPage, site: Path, site_url: str, phone: bool) -> None:
    page = open_page(phone=phone)
    pages = (path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")))
    addresses = [one for one in pages if one != "genindex.html" and not one.startswith(("_", "autoapi"))]
    found = [wrong for one in addresses for wrong in misfits(page, f"{site_url}/{one}", phone)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_stands_in_the_way_of_a_reader(open_page: OpenPage, site_url: str, name: str) -> None:
    found = []
    for phone in (False, True):
        page = open_page(phone=phone)
        found += misfits(page, f"{site_url}/{name}.html", phone)
        page.evaluate(PLAIN)
        # (A width changes no colours.)
        looks = {"light": {}} if phone else {"light": {}, "dark": {"runOnly": CONTRAST}}
        for theme, rules in looks.items():
            page.emulate_media(color_scheme=theme)
            page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
            found += [
                (theme, rule["id"], rule["nodes"][0]["html"][:200])
                for rule in violations(page, None, rules)
                if rule["impact"] in ("serious", "critical")
            ]
    assert not found, found


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
