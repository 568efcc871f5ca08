"""The site, as a reader's browser sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from os.path import dirname, join, normpath, relpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from playwright.sync_api import Page, expect

import repository

from .conftest import ROOT, ready

CHAPTER = "/chapters/01_vanilla_policy_gradient.html"
EXERCISES = "/exercises/01_vanilla_policy_gradient.html"


def test_the_theme_can_be_switched(page: Page, site_url: str) -> None:
    ready(page, site_url + "/index.html")
    for mode in ("Dark", "Light"):
        page.get_by_role("button", name="Color mode").click()
        page.get_by_role("button", name=mode, exact=True).click()
        expect(page.locator("html")).to_have_attribute("data-theme", mode.lower())


# A checkout that knows no address of the book's repository builds a site without links to it.
BOOK = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]
ADDRESS = repository.address(ROOT, BOOK.get("repository"))


def test_colabs_copy_installs_first_and_changes_nothing_else(site: Path) -> None:
    assert (site / "colab").exists() == bool(ADDRESS)
    for address in (CHAPTER, EXERCISES) if ADDRESS else ():
        name = address.strip("/").replace(".html", ".ipynb")
        copy = json.loads((site / "colab" / name).read_text(encoding="utf-8"))
        original = json.loads((ROOT / name).read_text(encoding="utf-8"))
        assert "%pip install" in "".join(copy["cells"][0]["source"])
        assert copy["cells"][1:] == original["cells"]
        assert not any("pip install" in "".join(cell["source"]) for cell in original["cells"])


# --- links, read from the files -----------------------------------------------------------------------------


class _Links(HTMLParser):
    """The targets and the links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.hrefs: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif (tag, name) in {("a", "href"), ("link", "href"), ("img", "src"), ("script", "src")}:
                self.hrefs.append(value)


def _broken(site: Path) -> Iterator[str]:
    files = {str(path) for path in [site, *site.rglob("*")]}
    pages = {
        str(path): _Links(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if path.parent.name != "_static"
    }
    for path, page in pages.items():
        for href in sorted(set(page.hrefs)):
            parts = urlsplit(href)
            if parts.scheme or parts.netloc:
                continue
            # As text: the links are many, and to ask the disk for each takes most of the time.
            target = normpath(join(dirname(path), unquote(parts.path))) if parts.path else path
            where = f"{relpath(path, site)}: {href}"
            if target not in files:
                yield f"{where} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{where}: the page has no such place"


def test_every_link_within_the_site_arrives(site: Path) -> None:
    broken = sorted(set(_broken(site.resolve())))
    assert not broken, "\n".join(broken)
