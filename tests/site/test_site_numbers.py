"""Numbers of chapters, sections and exercises, without building the site."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

site_numbers = pytest.importorskip("site_numbers", reason="Sphinx is not installed")
nodes = pytest.importorskip("docutils.nodes")


def heading(anchor: str, *below: Any) -> Any:
    from sphinx import addnodes

    line = addnodes.compact_paragraph("", "", nodes.reference("", "", anchorname=anchor))
    return nodes.list_item("", line, *([nodes.bullet_list("", *below)] if below else []))


def test_numbers_are_counted_by_chapter() -> None:
    env = SimpleNamespace(
        toc_fignumbers={
            "index": {"figure": {"front": (1,)}},
            "chapters/00_setting_out": {"figure": {"a": (2,)}, "displaymath": {"x": (1,)}},
            "chapters/01_vanilla_policy_gradient": {"figure": {"b": (3,), "c": (4,)}},
            "exercises/01_vanilla_policy_gradient": {"figure": {"d": (5,)}, "exercise": {"e": (1,)}},
        }
    )
    site_numbers.count_by_chapter(None, env)
    numbers = env.toc_fignumbers
    assert numbers["index"]["figure"]["front"] == (1,)
    assert numbers["chapters/00_setting_out"] == {"figure": {"a": (0, 1)}, "displaymath": {"x": (0, 1)}}
    assert numbers["chapters/01_vanilla_policy_gradient"]["figure"] == {"b": (1, 1), "c": (1, 2)}
    # A set of exercises goes on counting where its chapter stopped.
    assert numbers["exercises/01_vanilla_policy_gradient"] == {
        "figure": {"d": (1, 3)},
        "exercise": {"e": (1, 1)},
    }


def test_sections_have_the_numbers_of_their_chapter_or_exercise() -> None:
    chapter = nodes.bullet_list("", heading("", heading("#a", heading("#a-1")), heading("#b")))
    exercises = nodes.bullet_list("", heading("", heading("#warm-up"), heading("#one")))
    env = SimpleNamespace(
        tocs={"chapters/03_clip": chapter, "exercises/03_clip": exercises, "index": nodes.bullet_list("")},
        toc_secnumbers={},
        toc_fignumbers={"exercises/03_clip": {"exercise": {"ex-one": (3, 1)}}},
        metadata={"chapters/03_clip": {}, "exercises/03_clip": {"exercises": {"#one": "ex-one"}}},
    )
    site_numbers.number_sections(None, env)
    assert env.toc_secnumbers == {
        "chapters/03_clip": {"": (), "#a": (3, 1), "#a-1": (), "#b": (3, 2)},
        "exercises/03_clip": {"": (), "#warm-up": (), "#one": (3, 1)},
    }
    links = [link.get("secnumber") for link in chapter.findall(nodes.reference)]
    assert links == [None, (3, 1), None, (3, 2)]
