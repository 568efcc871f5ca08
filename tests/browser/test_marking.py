"""The page for marking, in a browser: by keyboard, saved as one goes, in two tabs, and on a phone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from made_up_class import COURSE, SHEET, graded_class, hand_in, scores_of
from playwright.sync_api import Page, expect

from ppobook.course import feedback
from ppobook.course.marking import Marking, MarkingServer
from ppobook.course.records import read_record

from .conftest import OpenPage

expect.set_options(timeout=30_000)  # a save waits for the disk, and the machine may be busy
PART = "hunt-minmax-why"
HOSTILE = "<img src=x onerror=alert(1)> ![x](http://evil.example/x.png) $\\href{javascript:alert(1)}{x}$"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MarkingServer]:
    handed = [
        hand_in(tmp_path, "ada", text="The **last** line: $-\\min(x, y) = \\max(-x, -y)$."),
        hand_in(tmp_path, "bob", text="It is max."),
        hand_in(tmp_path, "eve", text="It is max."),
        hand_in(tmp_path, "mel", text=HOSTILE),
    ]
    graded_class(tmp_path, *handed)
    marking = Marking(tmp_path, "secret", {"week-03": (SHEET, handed)})
    with MarkingServer(marking) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def points(server: MarkingServer) -> dict[str, float | None]:
    found = scores_of(server.marking.folder, server.marking.work["week-03"][1])
    return {student: score.parts[PART].manual for student, score in found.items()}


def find(page: Page, text: str) -> None:
    """Go to the answer with this text, by keyboard."""
    expect(page.locator("#place")).to_have_text("Answer 1 of 3")
    while text not in page.locator("#answer").inner_text():
        place = page.locator("#place").inner_text()
        page.keyboard.press("n")
        expect(page.locator("#place")).not_to_have_text(place)


def test_by_keyboard(server: MarkingServer, page: Page) -> None:
    page.goto(server.address)
    find(page, "It is max.")
    expect(page.locator("#facts")).to_contain_text("2 equal answers")
    page.keyboard.press("2")
    page.keyboard.press(".")
    page.keyboard.press("c")
    page.keyboard.type("Nearly: look at the sign. 3 n p")
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_have_text("✓ saved")
    assert points(server) == {"ada": None, "bob": 2.5, "eve": 2.5, "mel": None}
    page.reload()
    find(page, "It is max.")
    expect(page.locator("#comment")).to_have_value("Nearly: look at the sign. 3 n p")
    expect(page.get_by_role("button", name="2.5")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#questions")).to_contain_text("2 of 4 marked")


def test_behind_the_last_answer_no_key_marks_it_again(server: MarkingServer, page: Page) -> None:
    page.goto(server.address)
    for number in (1, 2, 3):
        expect(page.locator("#place")).to_have_text(f"Answer {number} of 3")
        page.keyboard.press("2")
        page.keyboard.press("Enter")
    expect(page.locator("#nothing")).to_contain_text("That was the last answer.")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.keyboard.press("p")
    expect(page.locator("#place")).to_have_text("Answer 3 of 3")
    expect(page.locator("#state")).to_have_text("✓ saved")
    expect(page.get_by_role("button", name="2", exact=True)).to_have_attribute("aria-pressed", "true")
    assert set(points(server).values()) == {2}
    # A button that was clicked has the focus: there, too, Enter goes on.
    page.get_by_role("button", name="1", exact=True).click()
    page.keyboard.press("Enter")
    expect(page.locator("#nothing")).to_be_visible()


def test_two_tabs(server: MarkingServer, open_page: OpenPage) -> None:
    one, two = open_page(), open_page()
    for page in (one, two):
        page.goto(server.address)
        find(page, "last")
    one.keyboard.press("3")
    expect(one.locator("#state")).to_have_text("✓ saved")
    two.keyboard.press("1")
    expect(two.locator("#conflict")).to_contain_text("Open this answer again to decide.")
    assert points(server)["ada"] is None
    two.keyboard.press("2")
    expect(two.locator("#state")).to_have_text("not marked yet")
    assert points(server)["ada"] is None
    two.reload()
    find(two, "last")
    expect(two.locator("#conflict")).to_contain_text("Your points will count.")
    two.keyboard.press("1")
    expect(two.locator("#state")).to_have_text("✓ saved")
    assert points(server)["ada"] == 1


def test_formulas_are_set_and_hostile_text_is_text(server: MarkingServer, page: Page) -> None:
    page.goto(server.address)
    find(page, "onerror")
    expect(page.locator("#answer")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("#answer img, #answer a").count() == 0
    page.goto(server.address)
    find(page, "last")
    expect(page.locator("#answer math mo").first).to_be_visible()


@pytest.mark.parametrize(("phone", "dark"), [(False, False), (False, True), (True, False)])
def test_it_fits_and_can_be_used_by_all(
    server: MarkingServer, open_page: OpenPage, phone: bool, dark: bool
) -> None:
    page = open_page(phone=phone, dark=dark)
    page.goto(server.address)
    expect(page.locator("#place")).to_have_text("Answer 1 of 3")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(page)
    assert not found.response["violations"], found.generate_report()


def test_a_feedback_page_can_be_used_by_all(tmp_path: Path, page: Page) -> None:
    handed = hand_in(tmp_path, "ada", late=1, text="It is $a < b$.", **{"clipped-loss": 0})
    graded_class(tmp_path, handed)
    record, score = read_record(tmp_path, "week-03", "ada"), scores_of(tmp_path, [handed])["ada"]
    assert record is not None
    made = feedback.Page(COURSE, feedback.words(tmp_path), SHEET, handed, record, score, "Ada Lovelace")
    file = tmp_path / "page.html"
    file.write_text(made.html())
    page.goto(file.as_uri())
    found = Axe().run(page)
    assert not found.response["violations"], found.generate_report()
