"""The slides of a chapter: one HTML file that needs no network, or a PDF.

    page = build(find_deck(book, "4"))

A deck is slides/NN_name.md, in Markdown as reveal.js reads it: a line `---` between slides, and speaker notes
after a line `Note:`. Formulas stand between dollar signs. `![](fig-name)` is the figure of that name that the
chapter's notebook stores, or the diagram of that name in the chapter's text, with its alternative text unless
the deck gives another one.
"""

from __future__ import annotations

import base64
import html
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from ppobook.teaching import tags
from ppobook.teaching.contents import number_of

DIAGRAM = re.compile(r"!\[([^\]]+)\]\((\.\./_static/diagrams/(\w+)\.svg)\)")
FIGURE = "application/vnd.ppobook.figure+json"
PICTURES = ("image/svg+xml", "image/png")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_deck(book: Path, name: str) -> Path:
    """Return the source of a chapter's deck, by the chapter's number or name."""
    decks = sorted((book / "slides").glob("[0-9]*.md"))
    stem = Path(name).stem
    for path in decks:
        if stem == path.stem or (stem.isdecimal() and int(stem) == number_of(path.name)):
            return path
    numbers = ", ".join(str(number_of(path.name)) for path in decks)
    raise ValueError(f"CHAPTER must be one of {numbers}, or a name, got {name!r}")


def build(deck: Path) -> str:
    """Return a deck as one HTML page, with its figures, KaTeX and reveal.js in it."""
    folder, book = deck.parent, deck.parents[1]
    reveal, katex = folder / "vendored" / "reveal", book / "_static" / "vendored" / "katex"

    def font(found: re.Match[str]) -> str:
        return f"url(data:font/woff2;base64,{_base64((katex / found[1]).read_bytes())})"

    style = _text(reveal / "reveal.css", katex / "katex.min.css", folder / "deck.css")
    style = re.sub(r"url\((fonts/[^)]+)\)", font, style)
    scripts = (reveal / "reveal.js", reveal / "notes.js", katex / "katex.min.js", folder / "deck.js")
    chapter = book / "chapters" / f"{deck.stem}.ipynb"
    md = _parser(figures(chapter))
    title = html.escape(_text(deck).partition("\n")[0].lstrip("# "))
    slides = "".join(_slide(md, text) for text in split(_text(deck)))
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'><style>{style}</style></head>\n"
        f"<body><div class='reveal'><div class='slides'>{slides}</div></div>"
        f"{''.join(f'<script>{_text(path)}</script>' for path in scripts)}</body></html>\n"
    )


def split(source: str) -> list[str]:
    return re.split(r"^---\n\n", source, flags=re.M)


def figures(notebook: Path) -> dict[str, tuple[str, str]]:
    """Return the figures and diagrams of a chapter, by name: a data address and the alternative text."""
    found = {}
    for cell in tags.read(notebook)["cells"]:
        for alt, path, name in DIAGRAM.findall(cell["source"]):
            data = _base64((notebook.parent / path).read_bytes())
            found[name] = f"data:image/svg+xml;base64,{data}", alt
        options = cell["metadata"].get("mystnb", {})
        for data in (output.get("data", {}) for output in cell.get("outputs", [])):
            kind = next((kind for kind in PICTURES if kind in data), None)
            if kind and "figure" in options:
                alt = options.get("image", {}).get("alt") or data.get(FIGURE, {}).get("alt", "")
                text = "".join(data[kind])
                encoded = text.replace("\n", "") if kind == "image/png" else _base64(text.encode())
                found[options["figure"]["name"]] = (f"data:{kind};base64,{encoded}", alt)
    return found


def print_pdf(page: str, path: Path) -> None:
    """Print a page of slides with the system's Chromium, one slide a page."""
    from playwright.sync_api import sync_playwright

    browser = os.environ.get("PPOBOOK_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise OSError("a PDF needs Chromium (Debian: apt install chromium)")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        source = Path(name, "deck.html")
        source.write_text(page, encoding="utf-8")
        # The page is our own, so it may be printed where Chromium's sandbox is not available.
        tab = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        tab.set_default_timeout(300_000)
        tab.goto(f"{source.as_uri()}?print-pdf")
        # reveal.js puts all pages into the document at once, some time after it has loaded.
        tab.wait_for_selector(".pdf-page", state="attached")
        path.write_bytes(tab.pdf(prefer_css_page_size=True, print_background=True))


def _text(*paths: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _slide(md: MarkdownIt, text: str) -> str:
    shown, _, notes = text.partition("\nNote:\n")
    frame = f"<div class='frame'>{md.render(shown)}</div>"
    return f"\n<section>{frame}<aside class='notes'>{md.render(notes)}</aside></section>"


def _parser(stored: dict[str, tuple[str, str]]) -> MarkdownIt:
    """Return a parser that puts in the figures and leaves the formulas to KaTeX."""

    def image(self: Any, tokens: Any, at: int, *rest: Any) -> str:
        name = tokens[at].attrs["src"]
        if name not in stored:
            raise ValueError(f"a figure must be one of {', '.join(stored)}, got {name!r}")
        address, alt = stored[name]
        return f'<img src="{address}" alt="{html.escape(tokens[at].content or alt)}">'

    def formula(self: Any, tokens: Any, at: int, *rest: Any) -> str:
        tag = "span" if tokens[at].type == "math_inline" else "div"
        return f'<{tag} class="math">{html.escape(tokens[at].content)}</{tag}>'

    md = MarkdownIt("commonmark", {"html": False}).enable("table").use(dollarmath_plugin)
    for kind, rule in (("image", image), ("math_inline", formula), ("math_block", formula)):
        md.add_render_rule(kind, rule)
    return md
