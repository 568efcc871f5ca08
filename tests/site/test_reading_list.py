"""The reading list: six works to begin with, what each chapter recommends, and three works to end with."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import site_reading  # noqa: E402

LISTS = yaml.safe_load((ROOT / site_reading.DATA).read_text(encoding="utf-8"))
KEYS = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M))
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))


@pytest.mark.parametrize(
    ("which", "asked"),
    [
        ("first", {"schulman2015", "schulman2016", "schulman2017", "lambert2025", "shi2025", "graesser2019"}),
        ("after", {"sutton2018", "agarwal2021theory", "casper2023"}),
    ],
)
def test_the_works_that_one_begins_and_ends_with_are_in_the_bibliography_each_with_its_why(
    which: str, asked: set[str]
) -> None:
    keys = [entry["key"] for entry in LISTS[which]]
    assert set(keys) == asked <= KEYS
    assert len(keys) == len(asked)
    for entry in LISTS[which]:
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


def test_a_work_has_its_title() -> None:
    page = SimpleNamespace(root=ROOT, depend=lambda *_: None)
    lines = site_reading.write(page, "first")
    assert "`schulman2015`, *Trust Region Policy Optimization*: the paper on TRPO." in lines[0]
    assert all(re.match(r"- \{cite:t\}`\w+`, \*[^*{}]+\*: \S", line) for line in lines)
    assert len(site_reading.write(page, "after")) == 3
