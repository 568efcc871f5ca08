"""Light pages, without building the site."""

from __future__ import annotations

from pathlib import Path

import pytest

site_light = pytest.importorskip("site_light", reason="Sphinx is not installed")


def test_pictures_are_fetched_when_near_and_keep_their_room(tmp_path: Path) -> None:
    drawn = tmp_path / "a.svg"
    drawn.write_text(
        '<?xml version="1.0"?>\n<svg width="300pt" height="75.4pt" viewBox="0 0 1 1">', encoding="utf-8"
    )
    assert site_light.size_of(drawn) == (400, 101)
    others = '<img src="data:image/png;base64,a"><img loading="eager" src="b.png">'
    page = f'<img alt="x" src="../_images/a.svg">{others}'
    changed = site_light.fetch_when_near(page, {"a.svg": (400, 101)})
    assert changed == f'<img loading="lazy" width="400" height="101" alt="x" src="../_images/a.svg">{others}'
