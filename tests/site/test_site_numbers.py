"""Numbers of chapters, sections and exercises, without building the site."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

site_numbers = pytest.importorskip("site_numbers", reason="Sphinx is not installed")
nodes = pytest.importorskip("docutils.nodes")


def heading(anchor: str, *below: Any) -> Any:
    from sphinx import addnodes

    line = addnodes.compact_paragraph("", "", nodes.reference("", "", anchorname=anchor))
    return nodes.list_item("", line, *([nodes.bullet_list("", *below)] if below else []))


@pytest.mark.parametrize(
    ("docname", "title", "numbered"),
    [
        ("chapters/03_clip", "# The clip", "# 3 The clip"),
        ("exercises/03_clip", "# Exercises: the clip", "# Exercises 3: the clip"),
        ("exercises/06_clinic", "# The clinic", "# The clinic"),
        ("reference/notation", "# Notation", "# Notation"),
    ],
)
def test_a_title_says_its_chapter(docname: str, title: str, numbered: str) -> None:
    cells = [
        {"cell_type": "code", "source": "# no title"},
        {"cell_type": "markdown", "source": title + "\n\nText"},
    ]
    source = [json.dumps({"cells": cells})]
    site_numbers.number_title(None, docname, source)
    assert [cell["source"] for cell in json.loads(source[0])["cells"]] == [
        "# no title",
        numbered + "\n\nText",
    ]


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


def test_links_to_sections_say_their_numbers() -> None:
    from docutils.utils import new_document
    from sphinx import addnodes

    def link(target: str, words: str, *, explicit: bool = False, kind: str = "ref") -> Any:
        return addnodes.pending_xref(
            "", nodes.inline("", words), reftype=kind, reftarget=target, refexplicit=explicit
        )

    labels = {
        "sec-kl": ("chapters/01_pg", "sec-kl", "How far it has moved"),
        "sec-sub": ("chapters/01_pg", "sec-sub", "A part of it"),
        "sec-one": ("exercises/01_pg", "sec-one", "An exercise"),
    }
    env = SimpleNamespace(
        domaindata={"std": {"labels": labels}},
        toc_secnumbers={
            "chapters/01_pg": {"#sec-kl": (1, 4), "#sec-sub": ()},
            "exercises/01_pg": {"#sec-one": (1, 1)},
        },
    )
    document = new_document("a page")
    links = [
        link("sec-kl", "sec-kl"),
        link("sec-kl", "its own words", explicit=True),
        link("sec-kl", "sec-kl", kind="doc"),
        *(link(target, target) for target in ("sec-sub", "sec-one", "nowhere")),
    ]
    document.extend(links)
    transform = site_numbers.NumberLinks.__new__(site_numbers.NumberLinks)
    transform.document, document.settings.env = document, env
    transform.run()
    words = ["§1.4 How far it has moved", "its own words", "sec-kl", "sec-sub", "sec-one", "nowhere"]
    assert [one.astext() for one in links] == words
    assert [bool(one["refexplicit"]) for one in links] == [True, True, *[False] * 4]
