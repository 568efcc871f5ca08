"""Sections that are written when a page is read: where they stand, and what goes wrong aloud."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import site_sections  # noqa: E402
from site_sections import Page, UnfoundedError  # noqa: E402


class Application:
    """As much of Sphinx as writing a page needs."""

    def __init__(self, root: Path) -> None:
        self.srcdir = root
        self.noted: list[str] = []
        self.env = SimpleNamespace(note_dependency=self.noted.append)
        self.config = SimpleNamespace(book_meta={"chapters": {"chapters/01_hills": {"title": "Hills"}}})

    def connect(self, event: str, function: Any) -> None:
        assert event == "source-read"
        self.replace = function

    def read(self, docname: str, text: str) -> str:
        source = [text]
        self.replace(self, docname, source)
        return source[0]


@pytest.fixture
def app(tmp_path: Path) -> Application:
    return Application(tmp_path)


def test_a_fence_of_its_name_becomes_what_the_function_writes(app: Application) -> None:
    def write(page: Page, words: str) -> list[str]:
        page.depend("results/a.csv")
        return [f"## {page.chapters['chapters/01_hills']['title']}", "", f"{words} \\alpha"]

    site_sections.add(app, "hills", write)
    text = app.read("reference/all", "# All\n\n```{hills} high ones\n```\n\n## After\n\n```{other}\n```\n")
    assert text == "# All\n\n## Hills\n\nhigh ones \\alpha\n\n## After\n\n```{other}\n```\n"
    assert app.noted == [str(app.srcdir / "results/a.csv")]


def test_pages_elsewhere_are_left_alone(app: Application) -> None:
    site_sections.add(app, "hills", lambda page, words: ["no"])
    assert app.read("chapters/01_hills", "```{hills}\n```") == "```{hills}\n```"


def test_what_is_not_so_is_a_warning_of_the_build(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(
        site_sections.log, "warning", lambda *words, **place: said.append((*words, place["location"]))
    )
    Page(app, "reference/all").warn(UnfoundedError("it is not"))
    assert [(text % error, location) for text, error, location in said] == [("it is not", "reference/all")]


def test_what_a_set_of_exercises_is_called() -> None:
    assert site_sections.set_of("exercises/10_final_assessment") == "final assessment"
    assert site_sections.set_of("06_clinic") == "clinic"
    assert site_sections.set_of("exercises/03_the_clipped_surrogate") == ""
