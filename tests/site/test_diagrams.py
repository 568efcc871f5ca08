"""The drawn diagrams: the stored files, their alphabet, and the alternative texts where they are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import pytest

import diagrams
from ppobook.teaching import style

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"!\[([^\]]*)\]\(\.\./_static/diagrams/(\w+)\.svg\)")
each = pytest.mark.parametrize("draw", diagrams.DIAGRAMS, ids=lambda draw: draw.__name__)
Draw = Callable[[], diagrams.Drawing]


def shown(folder: str) -> dict[str, str]:
    """The alternative text of each diagram in the texts of a folder."""
    texts = (path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).glob("*.md")))
    return {name: alt for text in texts for alt, name in SHOWN.findall(text)}


@each
def test_the_stored_file_is_what_the_generator_writes(draw: Draw) -> None:
    stored = diagrams.OUT / f"{draw.__name__}.svg"
    assert stored.read_text(encoding="utf-8") == diagrams.svg(draw)


def test_there_is_no_other_file_and_each_is_in_a_chapter() -> None:
    names = {draw.__name__ for draw in diagrams.DIAGRAMS}
    assert {path.stem for path in diagrams.OUT.iterdir()} == names
    assert set(shown("chapters")) == names


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"\$[^$]*\$", "", text).lower()))


@pytest.mark.parametrize("folder", ["chapters", "reference"])
def test_the_alternative_text_has_every_word_of_the_drawing(folder: str) -> None:
    drawn = {draw.__name__: draw for draw in diagrams.DIAGRAMS}
    for name, alt in shown(folder).items():
        missing = words(" ".join(drawn[name]().said)) - words(alt)
        assert not missing, f"{name}: {missing}"
        assert len(alt) > 100


@each
def test_nothing_is_cut_off_and_letters_are_large_enough_for_a_phone(draw: Draw) -> None:
    with mpl.rc_context(style.settings()):
        fig = draw().fig
        fig.draw_without_rendering()
    for letters in fig.axes[0].texts:
        box = letters.get_window_extent()
        assert letters.get_fontsize() >= diagrams.SMALLEST
        assert box.x0 >= 0, letters
        assert box.y0 >= 0, letters
        assert box.x1 <= fig.bbox.width, letters
        assert box.y1 <= fig.bbox.height, letters


def test_letters_do_not_overlap() -> None:
    for draw in diagrams.DIAGRAMS:
        with mpl.rc_context(style.settings()):
            fig = draw().fig
            fig.draw_without_rendering()
        placed = [letters for letters in fig.axes[0].texts if letters.get_text()]
        for one, other in combinations(placed, 2):
            assert not one.get_window_extent().overlaps(other.get_window_extent()), (draw, one, other)


def test_no_two_roles_look_alike() -> None:
    looks = [role[:3] for role in diagrams.ROLES.values()]
    assert len(set(looks)) == len(looks)
