"""Why a notebook may not be stored: size, paths of this machine, widgets, missing alt text."""

from __future__ import annotations

import difflib
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from notebook_builder.targets import ROOT
from ppobook.course import masters
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
        weights = [len(json.dumps(cell.get("outputs", []))) for cell in notebook["cells"]]
        heaviest = max(range(len(weights)), key=weights.__getitem__)
        said.append(
            f"it has {size / 1e6:.2f} MB, and 1 MB is the limit; cell {heaviest + 1} weighs the most "
            f"({weights[heaviest] / 1e6:.2f} MB)."
        )
    if "jupytext" in notebook["metadata"]:
        said.append("it is paired by jupytext, so running and saving it would rewrite its source.")
    if "widgets" in notebook["metadata"]:
        said.append("it holds widget state.")
    for index, cell in enumerate(notebook["cells"]):
        said += [f"cell {index + 1}: {sentence}" for sentence in _cell_refusals(cell, root)]
    return said


def _cell_refusals(cell: Cell, root: Path) -> list[str]:
    said = []
    for tag in masters.tags(cell):
        spelt = re.sub(r"[^a-z]", "", tag.lower())
        meant = difflib.get_close_matches(spelt, ["nbvalcheckoutput", "checkoutput"], cutoff=0.8)
        if tag not in masters.NBVAL and ("nbval" in spelt or meant):
            said.append(f"its tag {tag!r} says nothing to nbval; it is spelt 'nbval-check-output'.")
    if cell["cell_type"] == "markdown":
        return said + _picture_refusals(cell["source"])
    if re.search(r"^\s*#\s*(NBVAL_|PYTEST_VALIDATE)", cell["source"], re.M):
        said.append("it speaks to nbval in a comment; use the tag 'nbval-check-output'.")
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
        place = (
            next((p for p in _places(root) if p in text), None)
            or getattr(_PATHS.search(text), "group", str)()
        )
        if place:
            said.append(f"its output shows a path of this machine, {place!r}.")
        address = _ADDRESS.search(text)
        if address:
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
    return (
        value
        if isinstance(value, str)
        else "".join(map(str, value))
        if isinstance(value, list)
        else json.dumps(value)
    )


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
