"""The front page's two figures; conf.py loads this file as an extension.

- `{hill}` is a map to play with: `_templates/hill.html` around the drawing of tools/front_picture.py. It is
  complete before `_static/hill.js` runs. Where scripts are off, `_static/front.svg` stands there instead.
- `{road}` is the list of methods in tools/road.yml, each with its formula and a link to its chapter.
"""

from __future__ import annotations

from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx

from ppobook.teaching import style
from site_way_in import Written

FRONT_ALT = (
    "Two maps of the same hill, seen from above, with a path on each. On the left the path takes two small "
    "steps uphill, then one huge one that jumps over the top and lands on flat ground, where it stays. On "
    "the right the path climbs in even steps, each inside a dashed ring, and reaches the top."
)


def variables(name: str, short: str = "") -> str:
    """A color of the palette as CSS variables: for shapes, for letters, and both on a dark ground."""
    color, short = style.palette[name], short or name
    return f"--{short}:{color['light']};--{short}-text:{color['text']};--{short}-dark:{color['dark']};"


def hill(drawing: str, template: str) -> str:
    """The hill as the page holds it."""
    colors = "".join(map(variables, ("vanilla", "trpo", "good", "bad", "paper", "muted", "ink")))
    # Without scripts the theme is always the light one.
    still = f'<img class="front" src="_static/front.svg" width="614" height="307" alt="{FRONT_ALT}">'
    page = template.replace("<!-- hill.svg -->", drawing).replace("<!-- front.svg -->", still)
    return page.replace('<div class="hill', f'<div style="{colors}" class="hill pst-js-only', 1)


class Hill(Written):
    """`{hill}`: the map to play with."""

    def run(self) -> list[nodes.Node]:
        """One block of HTML."""
        text = hill(self.read("_templates/hill.svg"), self.read("_templates/hill.html"))
        return [nodes.raw("", text, format="html")]


class Road(Written):
    """`{road}`: the methods in their order, each a link."""

    def run(self) -> list[nodes.Node]:
        """A list."""
        return self.block("road", [stop(*one) for one in yaml.safe_load(self.read("tools/road.yml"))])


def stop(chapter: int, page: str, name: str, color: str, formula: str, new: str) -> str:
    """A stop of the road, as an item of a list in MyST."""
    return (
        f'1. [<span class="stop" style="{variables(color, "hue")}"><span class="number">'
        f'<span class="visually-hidden">Chapter </span>{chapter}</span><span class="name">{name}</span>'
        f'<span class="formula">{formula}</span><span class="new">{new}</span></span>](/{page})'
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("hill", Hill)
    app.add_directive("road", Road)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
