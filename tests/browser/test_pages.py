"""Every page, as a reader opens it: nothing fails, is too wide, or stands in a reader's way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from .conftest import OpenPage, ready

# The rules that depend on the theme: on colours, and on pictures that only one theme shows.
CONTRAST = ["color-contrast"]
OF_THE_THEME = ["link-in-text-block", "image-alt", "svg-img-alt", "role-img-alt"]

# A page has thousands of words in a few colours, and axe takes nine tenths of its time for their contrast.
# What has the same colour, size and weight on the same grounds has the same contrast: the first, the middle
# and the last of each kind are marked. Figures are marked as a whole, whatever they draw with.
MARK_ONE_OF_EACH = """() => {
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
    element.removeAttribute("data-one-of-each");
    if (![...element.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const s = getComputedStyle(element);
    const kind = [s.color, s.fontSize, s.fontWeight, s.fontStyle, s.textShadow, ground(element)].join("|");
    kinds.set(kind, [...(kinds.get(kind) ?? []), element]);
  }
  for (const same of kinds.values()) {
    [0, same.length >> 1, same.length - 1].forEach((i) => mark(same[i]));
  }
  document.querySelectorAll(".ppobook-figure").forEach(mark);
}"""


def every_page(site: Path) -> list[str]:
    """Addresses of the pages that a reader can come to."""
    made_by_sphinx = {"genindex.html", "py-modindex.html", "search.html"}
    pages = (p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    return sorted(f"/{p}" for p in pages if p not in made_by_sphinx and not p.startswith("_"))


def of_the_library(site: Path) -> list[str]:
    """The library's pages, of which one stands for all where the template matters: they have the same."""
    return [p for p in every_page(site) if p.startswith("/autoapi/")]


def opens_well(page: Page, address: str) -> Iterator[str]:
    """What is wrong with a page that has just been opened."""
    if (titles := page.locator(".bd-article h1").count()) != 1:
        yield f"{address}: {titles} titles"
    wide, screen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    if wide > screen:
        yield f"{address}: {wide} px on a screen of {screen}"


def in_the_way(page: Page, rules: dict[str, Any], part: str | None = None) -> Iterator[str]:
    """What axe finds serious or critical."""
    # Without preloading: axe would ask for style sheets by addresses of its own making.
    options = {"resultTypes": ["violations"], "preload": False, **rules}
    for violation in Axe().run(page, context=part, options=options).response["violations"]:
        if violation["impact"] in ("serious", "critical"):
            first = violation["nodes"][0]
            yield (
                f"{page.url}: {violation['id']} ({len(violation['nodes'])} times), "
                f"for instance {first['html'][:200]} {first.get('failureSummary', '')[:300]}"
            )


def low_contrast(page: Page) -> Iterator[str]:
    page.evaluate(MARK_ONE_OF_EACH)
    yield from in_the_way(page, {"runOnly": CONTRAST}, "[data-one-of-each]")


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_nothing_stands_in_the_way_of_a_reader(
    open_page: OpenPage, site: Path, site_url: str, phone: bool
) -> None:
    page = open_page(phone=phone)
    library = of_the_library(site)
    found: list[str] = []
    for address in [p for p in every_page(site) if p not in library] + library[:1] + ["/search.html"]:
        page.emulate_media(color_scheme="light")
        ready(page, site_url + address)
        if address != "/search.html":
            found += opens_well(page, address)
        # Folded text has to be readable too.
        page.evaluate("document.querySelectorAll('.bd-article details').forEach(d => { d.open = true })")
        found += in_the_way(page, {"rules": {rule: {"enabled": False} for rule in CONTRAST}})
        found += low_contrast(page)
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        found += in_the_way(page, {"runOnly": OF_THE_THEME})
        found += low_contrast(page)
    assert not found, "\n".join(found)


def test_every_page_of_the_library_opens(open_page: OpenPage, site: Path, site_url: str) -> None:
    page = open_page(phone=True)
    found: list[str] = []
    for address in of_the_library(site):
        ready(page, site_url + address)
        found += opens_well(page, address)
    assert not found, "\n".join(found)


def test_a_word_that_is_hard_to_read_is_found(page: Page, site_url: str) -> None:
    ready(page, site_url + "/index.html")
    assert not list(low_contrast(page))
    page.add_style_tag(
        content=".bd-article li:last-child, .bd-article p:last-of-type { color: #999 !important }"
    )
    assert len(list(low_contrast(page))) == 1
