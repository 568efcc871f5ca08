"""Light pages, without building the site."""

from __future__ import annotations

import pytest

site_light = pytest.importorskip("site_light", reason="Sphinx is not installed")


def test_pictures_are_fetched_when_near_and_keep_their_room() -> None:
    others = '<img src="data:image/png;base64,a"><img loading="eager" src="b.png">'
    page = f'<img alt="x" src="../_images/a.svg">{others}'
    changed = site_light.fetch_when_near(page, {"a.svg": (400, 101)})
    assert changed == f'<img loading="lazy" width="400" height="101" alt="x" src="../_images/a.svg">{others}'
