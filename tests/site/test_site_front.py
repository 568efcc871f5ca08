"""The front page's hill and road: what is stored for them, without building the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import front_picture
from ppobook.teaching import style

site_front = pytest.importorskip("site_front", reason="Sphinx is not installed")

ROOT = Path(__file__).resolve().parents[2]
STOPS = yaml.safe_load((ROOT / "tools" / "road.yml").read_text(encoding="utf-8"))


def test_the_stored_map_begins_as_the_tool_draws_it() -> None:
    # (Its contours may differ in a last digit by the release of the library that finds them.)
    stored = (ROOT / "_templates" / "hill.svg").read_text(encoding="utf-8")
    way = front_picture.trace(front_picture.plain_path(front_picture.FIRST_SIZE))
    assert stored.count(f'd="{way}"') == 2
    assert re.sub(r'd="[^"]*"', "", stored) == re.sub(r'd="[^"]*"', "", front_picture.hill())


def test_the_script_has_the_tools_settings() -> None:
    script = (ROOT / "_static" / "hill.js").read_text(encoding="utf-8")
    first, low = front_picture.START
    settings = f"LIMIT = {front_picture.LIMIT}, STEPS = {front_picture.STEPS}, START = [{first}, {low}]"
    place = f"WEST = {front_picture.WEST}, NORTH = {front_picture.NORTH}, PIXELS = {front_picture.PIXELS}"
    assert f"GAMMA = {front_picture.WORLD.gamma}, {settings}" in script
    assert place in script
    assert len(script.encode()) <= 12_000


def test_the_page_holds_the_map_and_a_picture_for_readers_without_scripts() -> None:
    page = site_front.hill("<svg/>", (ROOT / "_templates" / "hill.html").read_text(encoding="utf-8"))
    assert "<!--" not in page
    assert page.index("<svg/>") < page.index("<noscript>") < page.index("_static/front.svg")
    assert f'value="{front_picture.FIRST_SIZE:.0f}"' in page


@pytest.mark.parametrize("one", STOPS, ids=lambda one: one[2])
def test_a_stop_leads_to_its_chapter(one: list) -> None:
    number, page, name, color, formula, new = one
    path, _, anchor = page.partition("#")
    assert path.startswith(f"chapters/{number:02}_")
    text = (ROOT / path).with_suffix(".md").read_text(encoding="utf-8")
    assert (ROOT / path).is_file()
    assert not anchor or f"({anchor})=" in text
    assert color in style.palette
    line = site_front.stop(*one)
    assert line.endswith(f"](/{page})")
    assert "\n" not in line
    assert all(part in line for part in (name, formula, new))
    assert formula.count("<") == formula.count(">")
    assert "<b>" in formula
