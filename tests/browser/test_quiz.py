"""The entry quiz on its page: by keyboard, from a server and from a file, and where no script runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ppobook.teaching.questions import Question, load_quiz

QUIZ = load_quiz("00_setting_out")
PAGE = "chapters/00_setting_out.html"
NOT_SURE = -1


def right(question: Question) -> int:
    return [option.right for option in question.options].index(True)


def wrong(question: Question) -> int:
    return (right(question) + 1) % len(question.options)


def live(page: Page) -> Locator:
    quiz = page.get_by_role("group", name="Entry quiz")
    expect(quiz).to_be_visible()
    return quiz


def press(quiz: Locator, question: Question, choice: int) -> None:
    """Answer by keyboard."""
    number = len(question.options) if choice == NOT_SURE else choice
    quiz.locator(".options button").nth(number).focus()
    quiz.page.keyboard.press("Enter")


def take(quiz: Locator, choices: Sequence[int]) -> None:
    """Answer all questions, and end at the list of what to read."""
    for question, choice in zip(QUIZ.questions, choices, strict=True):
        press(quiz, question, choice)
        quiz.page.keyboard.press("Tab")
        while quiz.locator(":focus").get_attribute("class") != "main":
            quiz.page.keyboard.press("Tab")
        quiz.page.keyboard.press("Enter")


@pytest.mark.parametrize("where", ["server", "file"])
def test_by_keyboard_to_the_section_that_was_missed(
    page: Page, site: Path, site_url: str, where: str
) -> None:
    page.goto(f"{site_url}/{PAGE}" if where == "server" else f"file://{site}/{PAGE}")
    quiz = live(page)
    assert "Right" not in quiz.inner_text()

    missed = QUIZ.questions[6]
    take(quiz, [wrong(q) if q is missed else right(q) for q in QUIZ.questions])
    expect(quiz).to_contain_text("9 of 10 right at the first answer")
    link = quiz.locator("ul").first.get_by_role("link")
    expect(link).to_have_text([QUIZ.sections[missed.section]])
    link.focus()
    page.keyboard.press("Enter")
    assert page.url.endswith(f"#{missed.section}")
    expect(page.get_by_role("heading", name=QUIZ.sections[missed.section])).to_be_in_viewport()


def test_each_answer_says_why_and_the_first_one_counts(page: Page, site_url: str) -> None:
    page.goto(f"{site_url}/{PAGE}")
    quiz = live(page)
    first = QUIZ.questions[0]
    expect(quiz.get_by_role("button", name="Next")).to_be_disabled()
    for choice in (wrong(first), right(first)):
        press(quiz, first, choice)
        expect(quiz.get_by_role("status")).to_contain_text(first.options[choice].because)
    expect(quiz.get_by_role("status")).to_contain_text("Right.")
    quiz.get_by_role("button", name="Next").click()
    for question in QUIZ.questions[1:]:
        press(quiz, question, right(question))
        quiz.locator("button.main").click()
    expect(quiz).to_contain_text("9 of 10")
    quiz.get_by_role("button", name="Start again").click()
    take(quiz, [right(q) for q in QUIZ.questions])
    expect(quiz).to_contain_text("Nothing to read up")
