"""The reading list: the six works to begin with, and what each chapter recommends."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import site_reading  # noqa: E402

FIRST = yaml.safe_load((ROOT / site_reading.DATA).read_text(encoding="utf-8"))
KEYS = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M))
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))


def test_the_works_that_one_begins_with_are_in_the_bibliography_each_with_its_why() -> None:
    keys = [entry["key"] for entry in FIRST]
    asked = {"schulman2015", "schulman2016", "schulman2017", "lambert2025", "shi2025", "graesser2019"}
    assert set(keys) == asked <= KEYS
    assert len(keys) == len(asked)
    for entry in FIRST:
        assert len(entry["why"].split()) >= 12, entry["key"]
        assert entry["why"].rstrip().endswith("."), entry["key"]


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda path: path.stem)
def test_each_chapter_recommends_and_says_why(notebook: Path) -> None:
    text = site_reading.recommended(notebook)
    cited = set(re.findall(r"\{cite(?::t)?\}`(\w+)`", text))
    assert cited
    assert cited <= KEYS
    assert "#" not in re.sub(r"`[^`]*`", "", text)
    for item in re.findall(r"^- (.+)$", text, re.M):
        words = re.sub(r"\{[\w:]+\}`[^`]*`", "", item).split()
        assert len(words) >= 6, item


def test_a_chapter_without_a_list_recommends_nothing(tmp_path: Path) -> None:
    notebook = tmp_path / "01_hills.ipynb"
    notebook.write_text('{"cells": [{"cell_type": "markdown", "metadata": {}, "source": "# Hills"}]}')
    assert site_reading.recommended(notebook) == ""
