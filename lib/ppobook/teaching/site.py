"""Interactive figures on the site: live in the browser, with no kernel behind them.

As a MyST-NB renderer (`FigureRenderer`, found through the entry point `myst_nb.mime_renderers`) this turns
the figure that a notebook stores into a block of the page: its still picture, and its state as JSON. As a
Sphinx extension it writes the scripts into the site and asks for a small loader on each page that has a
figure.

A page opened from a local file may neither import a module nor fetch a file, but it may run a classic
script. So each figure's module is written as a classic script that puts the module's text into a table; the
loader makes a Blob of it and imports that, on a server and from a file alike.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from ppobook.teaching import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from myst_nb.core.render import MimeData, NbElementRenderer
    from sphinx.application import Sphinx

_CLASS = "ppobook-figure"
_FOLDER = "ppobook-figures"
_PAGE = Path(__file__).parent / "figures" / "page"


class FigureRenderer:
    """Render the output type of an interactive figure, for MyST-NB."""

    mime_priority_overrides: ClassVar[Sequence[tuple[str, str, int | None]]] = [
        (builder, figures.MIME, 1) for builder in ("html", "dirhtml", "singlehtml")
    ]

    @staticmethod
    def handle_mime(renderer: NbElementRenderer, data: MimeData, inline: bool) -> list[nodes.Element] | None:
        """A block with the figure's state, or None where the output is none of ours."""
        if data.mime_type != figures.MIME or inline:
            return None
        return [_block(data.content if isinstance(data.content, dict) else json.loads(data.content))]


def _block(content: dict[str, Any]) -> nodes.container:
    """The block of a page that holds a figure: its plain form, and its state for the script."""
    # Inside a script element only "</" could end the text too early.
    state = json.dumps({"module": content["module"], "state": content["state"]}).replace("</", "<\\/")
    block = nodes.container(classes=[_CLASS], ppobook_alt=content["alt"])
    if content.get("plain"):
        block += nodes.raw("", f'<div class="ppobook-still">{content["plain"]}</div>', format="html")
    block += nodes.raw("", f'<script type="application/json">{state}</script>', format="html")
    return block


class Quiz(SphinxDirective):
    """`{quiz} NAME`: an entry quiz on a page that is no notebook."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the block that a notebook's quiz would become."""
        from ppobook.teaching.questions import load_quiz

        loaded = load_quiz(self.arguments[0])
        self.env.note_dependency(str(Path(__file__).parent / "quizzes" / f"{self.arguments[0]}.yml"))
        alt = f"Entry quiz.\n{loaded.to_text()}"
        block = _block({"module": "quiz", "state": loaded.state(), "plain": loaded.to_html(), "alt": alt})
        block["ppobook_alone"] = True
        return [block]


class StillPicture(SphinxPostTransform):
    """Put the picture that the notebook stores beside a figure into the figure's block, with its alt text.

    MyST-NB keeps every form of an output until it knows what is being built, then keeps one and drops the
    others; this runs just before, when Sphinx already knows the pictures.
    """

    default_priority = 3

    def run(self, **kwargs: Any) -> None:
        """Give each figure's block a copy of the picture beside it."""
        for block in list(self.document.findall(_is_figure)):
            if block.get("ppobook_alone"):  # a quiz on a page of text
                continue
            bundle = block.parent.parent
            for picture in list(bundle.findall(nodes.image)):
                picture["alt"] = block["ppobook_alt"]
                still = picture.deepcopy()
                still["classes"].append("ppobook-still")
                block.insert(0, still)
                break


def _is_figure(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and _CLASS in node["classes"]


def assets() -> dict[str, str]:
    """The files that the site needs, by name: the loader, a style sheet, and a script for each figure."""
    files = {}
    for module in figures.modules():
        text = json.dumps(figures.source(module))
        files[f"{module}.js"] = f"(window.ppobookFigures ??= {{}})[{json.dumps(module)}] = {text};\n"
    # A browser keeps old scripts; a name that changes with the text makes it ask for the new one.
    versions = {name: hashlib.sha256(text.encode()).hexdigest()[:10] for name, text in files.items()}
    loader = (_PAGE / "loader.js").read_text(encoding="utf-8")
    files["loader.js"] = f"window.ppobookVersions = {json.dumps(versions)};\n{loader}"
    files["site.css"] = (_PAGE / "site.css").read_text(encoding="utf-8")
    return files


def _write_assets(app: Sphinx) -> None:
    if app.builder.format != "html" or app.builder.name == "epub":
        return
    folder = Path(app.outdir) / "_static" / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in assets().items():
        (folder / name).write_text(text, encoding="utf-8")
    app.add_js_file(f"{_FOLDER}/loader.js", loading_method="defer")
    app.add_css_file(f"{_FOLDER}/site.css")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("quiz", Quiz)
    app.add_post_transform(StillPicture)
    app.connect("builder-inited", _write_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
