"""Why a notebook may not be stored: size, paths of this machine, widgets, missing alt text."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from notebook_builder.targets import ROOT
from ppobook.teaching.tags import Cell, Notebook

LARGEST = 1_000_000  # bytes
FIGURE = "application/vnd.ppobook.figure+json"
WIDGETS = ("application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json")


# No pattern begins with a repeat: a picture's source is a single word of hundreds of kilobytes.
_PATHS = re.compile(
    r"(?<![\w.:/~-])/(?:home|Users|root|tmp|var/folders)/[^\s'\"<>]*"
    r"|\b[A-Za-z]:\\+Users\\[^\s'\"<>]*|[/\\]site-packages[/\\]\S*|ipykernel_\d+\S*"
)
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_IMAGE = re.compile(r"<img\b[^>]*>", re.S)
_ALT = re.compile(r"\balt\s*=\s*(\"[^\"]*\S[^\"]*\"|'[^']*\S[^']*')")


def refusals(notebook: Notebook, root: Path = ROOT) -> list[str]:
    """Why a notebook may not be stored, a sentence each; an empty list where nothing is in the way."""
    said = []
    size = len(serialised(notebook))
    if size > LARGEST:
        said.append(f"it has {size / 1e6:.2f} MB, and 1 MB is the limit.")
    for index, cell in enumerate(notebook["cells"]):
        said += [f"cell {index + 1}: {sentence}" for sentence in _cell_refusals(cell, root)]
    return said


def _cell_refusals(cell: Cell, root: Path) -> list[str]:
    if cell["cell_type"] == "markdown":
        return _picture_refusals(cell["source"])
    said = []
    described = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt")
    for output in cell["outputs"]:
        data = output.get("data", {})
        if any(mime in data for mime in WIDGETS):
            said.append("its output holds a widget, which nothing can show once the kernel is gone.")
        if FIGURE in data:
            if not str(data[FIGURE].get("alt") or "").strip():
                said.append("its interactive figure has no alt text; give it one where it is made, alt=….")
        elif any(mime.startswith("image/") for mime in data) and not str(described or "").strip():
            said.append("its figure has no alt text; add the cell option mystnb: {image: {alt: …}}.")
        if any(not _ALT.search(tag) for tag in _IMAGE.findall(_plain_text(data.get("text/html", "")))):
            said.append("its HTML has an <img> without alt text.")
        text = _text_of(output)
        if any(place in text for place in _places(root)) or _PATHS.search(text):
            said.append("its output shows a path of this machine.")
        if address := _ADDRESS.search(text):
            said.append(
                f"its output shows an address in memory ({address[0]!r}), which differs in every run."
            )
    return said


def _picture_refusals(source: str) -> list[str]:
    said = []
    prose = re.sub(r"^(`{3,}|~{3,}).*?^\1", "", source, flags=re.S | re.M)
    if re.search(r"!\[\s*\]\(", prose):
        said.append("its picture has no alt text; write it between the brackets of ![…](…).")
    for fence in re.finditer(r"^(:{3,}|`{3,})\{(image|figure)\}.*?^\1", source, re.S | re.M):
        if not re.search(r"^:alt:[ \t]*\S", fence[0], re.M):
            said.append(f"its {fence[2]} has no alt text; add a line ':alt: …'.")
    if any(not _ALT.search(tag) for tag in _IMAGE.findall(prose)):
        said.append("its <img> has no alt text.")
    return said


def _places(root: Path) -> list[str]:
    places = {str(root), str(Path.home()), sys.prefix, tempfile.gettempdir()}
    return sorted(place for place in places if len(place) > 4)


def _plain_text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _text_of(output: dict[str, Any]) -> str:
    texts = [
        _plain_text(output.get("text", "")),
        _plain_text(output.get("traceback", "")),
        str(output.get("evalue", "")),
    ]
    for mime, value in output.get("data", {}).items():
        if mime == "image/svg+xml" or not mime.startswith("image/"):
            texts.append(_plain_text(value))
    return "\n".join(texts)


def serialised(notebook: Notebook) -> bytes:
    import nbformat

    return (nbformat.writes(nbformat.from_dict(notebook), version=4).rstrip("\n") + "\n").encode()
