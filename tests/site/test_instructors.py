"""The instructors' pages: an outline for each chapter, with what an outline has; the entry quiz's page."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "reference" / "instructors" / "outlines.md").read_text(encoding="utf-8")
OUTLINES = re.split(r"^## ", PAGE, flags=re.M)[1:]
BOOK = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]


def test_each_chapter_has_an_outline_of_its_name() -> None:
    titles = [f"{int(Path(name).name[:2])} · {facts['title']}" for name, facts in BOOK.items()]
    assert [outline.splitlines()[0] for outline in OUTLINES] == titles
