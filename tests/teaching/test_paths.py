"""Learning paths: what they take, and that what they name is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ppobook.teaching import contents, paths, plans

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def book() -> contents.Book:
    return contents.read_book(ROOT)


@pytest.fixture(scope="module")
def found(book: contents.Book) -> dict[str, paths.LearningPath]:
    return {path.id: path for path in paths.read(book)}


def test_fifteen_hours_are_four_of_theory_eight_of_implementation_and_three_of_a_deep_dive(found) -> None:
    path = found["fifteen-hours"]
    assert [step.title for step in path.steps] == ["Theory", "Implementation", "Deep dive"]
    for step, hours in zip(path.steps, (4, 8, 3), strict=True):
        assert step.hours[1] == pytest.approx(hours, abs=0.25), step.title
    assert path.hours[1] == pytest.approx(15, abs=0.5)


def test_the_whole_book_is_the_whole_book(book, found) -> None:
    steps = found["whole-book"].steps
    assert [s for step in steps for s in step.read] == [s for c in book.chapters.values() for s in c.sections]
    assert [t for step in steps for t in step.tasks] == list(book.tasks.values())
    assert [n for step in steps for n in step.deeper] == list(book.chapters)
    printed = sum(chapter.minutes + chapter.deeper for chapter in book.chapters.values())
    assert sum(step.printed for step in steps) == pytest.approx(printed)


def test_a_term_is_a_path_with_a_step_for_each_week(book) -> None:
    path, plan = paths.find(book, "term-10"), plans.ready(book, 10)
    assert [step.title for step in path.steps] == [f"Week {number}" for number in range(1, 11)]
    assert path.hours == plan.hours
    assert path.title == plan.title


def test_a_path_is_found_by_its_name(book, found) -> None:
    assert {name: paths.find(book, name) for name in found} == found
    assert paths.names() == (*found, "term-6", "term-10", "term-14")
    with pytest.raises(
        ValueError, match=r"path must be one of .*term-14, got 'term-7'\. Did you mean 'term-"
    ):
        paths.find(book, "term-7")
