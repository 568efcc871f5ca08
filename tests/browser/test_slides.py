"""The slides in a browser: everything fits, can be read in both themes, asks for nothing, and prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pypdf
import pytest
from playwright.sync_api import Page, expect

from ppobook.course import slides

from .conftest import ROOT, OpenPage, violations

DECKS = sorted((ROOT / "slides").glob("[0-9]*.md"))
# What sticks out of its slide, by the slide's number.
STICKS_OUT = """() => Reveal.getSlides().flatMap((slide, number) => {
  Reveal.slide(number);
  const frame = slide.querySelector(".frame").getBoundingClientRect();
  return [...slide.querySelectorAll("h1, h2, p, li, td, th, pre code, img, .base")].filter((part) => {
    const own = part.getBoundingClientRect();
    return own.width && (own.right > frame.right - 20 || own.bottom > frame.bottom - 20 ||
      own.left < frame.left + 20 || own.top < frame.top + 20);
  }).map((part) => [number + 1, part.textContent]);
})"""


def written(folder: Path, deck: Path) -> str:
    """The address of a deck's page, in a file."""
    file = folder / f"{deck.stem}.html"
    file.write_text(slides.build(deck), encoding="utf-8")
    return file.as_uri()


def opened(page: Page, address: str) -> Page:
    page.set_default_timeout(120_000)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address)
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    return page


@pytest.mark.parametrize("deck", DECKS, ids=lambda path: path.stem[:2])
def test_a_deck_fits_and_asks_for_nothing(page: Page, tmp_path: Path, deck: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    own = written(tmp_path, deck)
    opened(page, own)
    assert [url for url in asked if not url.startswith("data:")] == [own]
    assert page.evaluate(STICKS_OUT) == []
    assert page.locator(".katex-error").count() == 0
    formulas = page.locator(".math").count()
    assert page.locator(".math > .katex, .math > .katex-display").count() == formulas
    assert (formulas > 0) == ("$" in deck.read_text(encoding="utf-8"))
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read_in_both_themes(open_page: OpenPage, tmp_path: Path, dark: bool) -> None:
    page = opened(open_page(dark=dark), written(tmp_path, DECKS[4]))
    for number in (0, 2, 9, 12):
        page.evaluate(f"Reveal.slide({number})")
        assert violations(page, "section.present", {"runOnly": ["color-contrast", "image-alt"]}) == []


def test_the_notes_stand_in_a_window_of_their_own(page: Page, tmp_path: Path) -> None:
    opened(page, written(tmp_path, DECKS[4]))
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    expect(popup.value.get_by_text("The lecture answers one question")).to_be_visible(timeout=120_000)
    page.keyboard.press("ArrowRight")
    expect(popup.value.get_by_text("Ten seeds per setting; only λ differs.")).to_be_visible(timeout=120_000)


@pytest.mark.parametrize("deck", DECKS, ids=lambda path: path.stem[:2])
def test_it_prints_a_slide_a_page(tmp_path: Path, deck: Path) -> None:
    command = [sys.executable, "-m", "ppobook", "course", "slides", deck.stem, "--out", "slides.pdf"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "lib")}, check=True)
    pages = pypdf.PdfReader(tmp_path / "slides.pdf").pages
    sources = slides.split(deck.read_text(encoding="utf-8"))
    assert len(pages) == len(sources)
    # The longest word of each title; formulas come out otherwise.
    for page, source in zip(pages, sources, strict=True):
        word = max(re.findall(r"(?<!\\)\b[A-Za-z]+", source.partition("\n")[0]), key=len)
        assert word in unicodedata.normalize("NFKC", page.extract_text())  # without ligatures
    assert all(page.mediabox.width / page.mediabox.height == pytest.approx(16 / 9) for page in pages)
