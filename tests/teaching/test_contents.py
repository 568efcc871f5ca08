"""Contents of the book: its numbers, files and checks, as the notebooks have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ppobook.teaching import contents

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def book() -> contents.Book:
    return contents.read_book(ROOT)


def test_each_file_is_there(book: contents.Book) -> None:
    chapters = list(book.chapters.values())
    assert [chapter.number for chapter in chapters] == list(range(11))
    assert all((ROOT / chapter.file).is_file() for chapter in chapters)
    assert all((ROOT / task.file).is_file() for task in book.tasks.values())


def test_an_exercise_by_its_label(book: contents.Book) -> None:
    task = book.task("clipped-loss")
    assert (task.chapter, task.checks) == (3, ("clipped-loss",))
    assert not book.task("which-details").checks
    with pytest.raises(ValueError, match=r"got 'cliped-loss'\. Did you mean 'clipped-loss'"):
        book.task("cliped-loss")
