"""The instructors' pages: an outline for each chapter, with what an outline has; the entry quiz's page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import yaml

import ppobook

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "reference" / "instructors" / "outlines.md").read_text(encoding="utf-8")
OUTLINES = re.split(r"^## ", PAGE, flags=re.M)[1:]
BOOK = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]["chapters"]


def test_each_chapter_has_an_outline_of_its_name() -> None:
    titles = [f"{int(Path(name).name[:2])} · {facts['title']}" for name, facts in BOOK.items()]
    assert [outline.splitlines()[0] for outline in OUTLINES] == titles


def test_what_grading_costs_is_what_was_recorded() -> None:
    page = (ROOT / "reference" / "instructors.md").read_text(encoding="utf-8")
    beside, whole = ppobook.results("course_grading"), ppobook.results("course_grading_whole")
    graded = beside[beside.step == "grade"].assign(log=lambda table: np.log(table.cpu_seconds))
    middle = graded.pivot_table(index="submissions", columns="contestant", values="log")
    ratios = np.exp(middle["ppobook course"] - middle["nbgrader"])
    said = re.search(
        r"a class of 30 takes ([\d.]+) times the CPU seconds .*? a class of 20 ([\d.]+) times", page
    )
    assert said
    assert [float(said[1]), float(said[2])] == [round(ratios[30], 2), round(ratios[20], 2)]
    row = whole[whole.step == "grade"].iloc[0]
    said = re.search(r"A class of (\d+) .*? took (\d+) CPU seconds .*? at most ([\d.]+) GB", page)
    assert said
    assert [int(said[1]), int(said[2])] == [row.submissions, round(row.cpu_seconds)]
    assert float(said[3]) == round(row.peak_mb / 1024, 1)
    each = np.exp(middle["nbgrader"][30]) / 30
    said = re.search(r"([\d.]+) a submission, where nbgrader takes ([\d.]+)", page)
    assert said
    assert [float(said[1]), float(said[2])] == [round(row.cpu_seconds / row.submissions, 1), round(each, 1)]
    assert row.cpu_seconds / row.submissions <= each / 2
