"""The page of myths: each sentence has a source, a measurement that still says it, and a section."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import site_myths as myths  # noqa: E402
from site_sections import UnfoundedError  # noqa: E402

MYTHS = myths.read(ROOT)
CHAPTERS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "chapters").glob("*.md")}
KEYS = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.M))
# What no one source says in these words. Chapters judge it without a quotation.
UNQUOTED = {"lower-bound", "argmax-tokens"}


@pytest.mark.parametrize("name", MYTHS)
def test_the_measurement_bears_the_verdict_out_and_its_numbers_are_read(name: str) -> None:
    of = myths.Evidence(ROOT)
    read = myths.of_myth(name, MYTHS[name], of)
    assert of.experiments or of.chapters
    asked = set(re.findall(r"\{(\w+)\}(?!`)", MYTHS[name]["measured"]))
    assert asked
    assert asked <= set(read)
    text = myths.measured(MYTHS[name], name, of)
    assert all(read[key].replace("-", "−") in text for key in asked)


@pytest.mark.parametrize("name", MYTHS)
def test_the_section_is_a_chapters_and_the_sources_are_in_the_bibliography(name: str) -> None:
    myth = MYTHS[name]
    assert [text for text in CHAPTERS.values() if f"({myth['section']})=" in text]
    cited = re.findall(r"\{cite\}`(\w+)`", myth["who"] + myth["because"] + myth["measured"])
    assert set(cited) <= KEYS
    assert ("{cite}" in myth["who"]) == (name not in UNQUOTED)


def test_a_number_that_speaks_against_the_verdict_is_refused(tmp_path: Path) -> None:
    def recorded(fast: str) -> myths.Evidence:
        folder = tmp_path / fast / "results" / "clip_lr"
        folder.mkdir(parents=True)
        (folder / "table.csv").write_text(f"lr,approx_kl\n0.0001,0.007\n0.03,{fast}\n", encoding="utf-8")
        return myths.Evidence(tmp_path / fast)

    assert myths.clip_bounds_kl(recorded("6.8"))["most"] == "6.8"
    with pytest.raises(UnfoundedError, match="the clip alone bounds no KL"):
        myths.clip_bounds_kl(recorded("0.02"))
