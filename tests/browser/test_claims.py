"""The page of claims: folded by chapter, opened by a link and by paper, and filtered by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

PAGE = "reference/claims.html"
OPEN = "details.claims-of[open]"


def count(page: Page, which: str) -> int:
    return page.locator(which).count()


@pytest.mark.parametrize("where", ["server", "file"])
def test_a_field_leaves_what_has_its_words(page: Page, site: Path, site_url: str, where: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    root = site_url if where == "server" else f"file://{site}"
    page.goto(f"{root}/{PAGE}")
    chapters, sentences = count(page, "details.claims-of"), count(page, ".claims-of dt")
    assert chapters == 11
    assert count(page, OPEN) == 0
    field = page.get_by_role("search", name="Sentences").get_by_role("searchbox")
    field.focus()
    page.keyboard.type("KL seeds")
    status = page.locator(".claims-filter").get_by_role("status")
    # (Between two keys a slow machine may say how many are left so far.)
    n, of = count(page, ".claims-of dt:visible"), count(page, OPEN)
    assert 0 < n < sentences
    expect(status).to_have_text(f"{n} of {sentences} sentences, in {of} chapters.")
    # A minus is typed as it comes.
    field.fill("-153")
    expect(page.locator(".claims-of dt:visible").first).to_contain_text("−153")
    field.fill("no sentence has this")
    expect(status).to_have_text(f"None of {sentences} sentences.")
    page.keyboard.press("Escape")
    expect(field).to_have_value("")
    expect(status).to_have_text("")
    assert count(page, OPEN) == count(page, ".claims-of dt[hidden]") == 0
    assert all(url.startswith(root) for url in asked)


def test_a_link_opens_its_chapter_whatever_is_typed(page: Page, site_url: str) -> None:
    page.goto(f"{site_url}/{PAGE}#claims-3")
    opened = page.locator(OPEN)
    expect(opened).to_have_count(1)
    expect(opened.locator("summary").first).to_contain_text("3 · ")
    expect(opened.locator("summary").first).to_be_in_viewport()
    page.locator(".claims-filter input").fill("eight of ten runs still collapse")
    expect(opened.locator("summary").first).to_contain_text("1 · ")
    page.evaluate("() => { location.hash = '#claims-9'; }")
    expect(page.locator("#claims-9")).to_be_in_viewport()
    expect(page.locator(".claims-filter input")).to_have_value("")
