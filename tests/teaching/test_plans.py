"""Ready plans of a term: they fit the book, and their hours are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ppobook.teaching import contents, minutes, plans, tags

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def book() -> contents.Book:
    return contents.read_book(ROOT)


def test_the_minutes_are_the_books_own(book: contents.Book) -> None:
    path = next((ROOT / "chapters").glob("03_*.ipynb"))
    assert book.chapters[3].minutes == pytest.approx(minutes.count(tags.read(path)["cells"]).minutes)
    assert book.tasks["clipped-loss"].exercise.minutes == 15
    week = plans.ready(book, 10).weeks[3]
    expected = [(times * week.printed + week.exercise_minutes) / 60 for times in (4 / 3, 1.5, 5 / 3)]
    assert week.hours == pytest.approx(expected)


@pytest.mark.parametrize("weeks", plans.lengths())
def test_a_ready_plan_fits_the_book(book: contents.Book, weeks: int) -> None:
    plan = plans.ready(book, weeks)
    assert len(plan.weeks) == weeks
    read = [section for week in plan.weeks for section in week.read]
    assert len(read) == len(set(read))
    # In the order of the book, and exercises not before their chapter was begun.
    assert [s.chapter for s in read] == sorted(s.chapter for s in read)
    begun: set[int] = set()
    labels: list[str] = []
    for week in plan.weeks:
        begun |= {section.chapter for section in week.read}
        labels += [task.exercise.label for task in week.tasks]
        for task in week.tasks:
            assert task.chapter in begun or task.set.endswith("final_assessment"), task.exercise.label
        assert week.in_class or week.read
        # No week is twice as long as another.
        assert 2.3 < week.hours[1] < 5
    assert len(labels) == len(set(labels))
    # All that it leaves out is named.
    said = "\n".join(plan.left_out)
    for chapter in book.chapters.values():
        whole = not set(read) & set(chapter.sections)
        assert whole == (f"chapter {chapter.number}, {chapter.title}" in said)
        of_it = "".join(one for one in plan.left_out if one.startswith(f"Of chapter {chapter.number}:"))
        for section in chapter.sections:
            if not whole and not section.title.startswith(plans.CLOSING):
                assert (section in read) == (f"“{section.title}”" not in of_it), section.title
