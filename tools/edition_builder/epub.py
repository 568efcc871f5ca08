"""The book as an EPUB 3: one text a page of the site, formulas as MathML, and no script."""

from __future__ import annotations

import re
import time
import uuid
import zipfile
from collections.abc import Mapping
from html import escape
from itertools import groupby
from pathlib import Path

from bs4.element import PreformattedString
from pygments.formatters import HtmlFormatter

from edition_builder.pages import Book, Page, formulas

TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif"}
STYLE = "a11y-high-contrast-light"  # the site's for listings, in the light
XHTML = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">
<head><meta charset="utf-8"/><title>{title}</title><link rel="stylesheet" href="book.css"/></head>
<body>{body}</body>
</html>
"""
CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{identifier}</dc:identifier>
<dc:title>{title}: {subtitle}</dc:title>
<dc:creator>{author}</dc:creator>
<dc:language>en</dc:language>
<dc:date>{day}</dc:date>
<dc:rights>Text: CC BY 4.0. Code: MIT.</dc:rights>
<meta property="dcterms:modified">{modified}</meta>
<meta property="schema:accessMode">textual</meta>
<meta property="schema:accessMode">visual</meta>
<meta property="schema:accessModeSufficient">textual</meta>
<meta property="schema:accessibilityFeature">alternativeText</meta>
<meta property="schema:accessibilityFeature">MathML</meta>
<meta property="schema:accessibilityFeature">structuralNavigation</meta>
<meta property="schema:accessibilityFeature">tableOfContents</meta>
<meta property="schema:accessibilityHazard">none</meta>
<meta property="schema:accessibilitySummary">Figures have alternative texts; formulas are MathML.</meta>
</metadata>
<manifest>
{items}
</manifest>
<spine>
{spine}
</spine>
</package>
"""


class Markup(PreformattedString):
    """A text that is mark-up already."""

    PREFIX = SUFFIX = ""


def place(page: Page, anchor: str) -> str:
    """Return where a link leads."""
    return f"{page.name}.xhtml" + (f"#{anchor}" if anchor else "")


def write(book: Book, path: Path, mathml: Mapping[tuple[str, bool], str], cover: bytes) -> None:
    """Write the book, whose links are those of `place`, to `path`.

    `mathml` has a mark-up for each formula, of TeX and whether it is set apart; `cover` is a PNG.
    """
    pictures: dict[str, Path] = {}
    texts = {"title.xhtml": XHTML.format(title=escape(book.title), body=title_page(book))}
    texts["nav.xhtml"] = XHTML.format(title="Contents", body=contents(book))
    for page in book.pages:
        for text, tex, apart in list(formulas(page.article)):
            text.replace_with(Markup(mathml[tex, apart]))
        for image in page.article.find_all("img"):
            file = book.file(page, image["src"])
            pictures[file.name] = file
            image["src"] = f"images/{file.name}"
            image["alt"] = image.get("alt", "")
        texts[place(page, "")] = XHTML.format(title=escape(page.title), body=well_formed(page))
    date = time.gmtime(max(book.made, 315_532_800))[:6]
    with zipfile.ZipFile(path, "w") as archive:

        def add(name: str, data: str | bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type = method
            archive.writestr(entry, data)

        add("mimetype", "application/epub+zip", zipfile.ZIP_STORED)  # first, and not compressed
        add("META-INF/container.xml", CONTAINER)
        add("EPUB/package.opf", package(book, texts, sorted(pictures)))
        style = (Path(__file__).parent / "epub.css").read_text(encoding="utf-8")
        add("EPUB/book.css", style + HtmlFormatter(style=STYLE).get_style_defs(".highlight") + "\n")
        add("EPUB/cover.png", cover)
        for name, text in texts.items():
            add(f"EPUB/{name}", text)
        for name, file in sorted(pictures.items()):
            add(f"EPUB/images/{name}", anchors_once(file) if file.suffix == ".svg" else file.read_bytes())


def anchors_once(drawing: Path) -> str:
    """An SVG in which no two things have one id: Matplotlib gives several lines the name of one algorithm."""
    seen: set[str] = set()

    def first(found: re.Match[str]) -> str:
        new = found[1] not in seen
        seen.add(found[1])
        return found[0] if new else ""

    return re.sub(r'\sid="([^"]*)"', first, drawing.read_text(encoding="utf-8"))


def well_formed(page: Page) -> str:
    """The article as XML."""
    # Of what the site has for its own style sheets, only classes are left.
    for tag in page.article.find_all(style=True):
        del tag["style"]
    text = page.article.decode(formatter="minimal")
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text)


def title_page(book: Book) -> str:
    """Return what stands before the first chapter."""
    site = f'<p><a href="{escape(book.address)}">{escape(book.address)}</a></p>' if book.address else ""
    return (
        f'<section class="title-page"><h1>{escape(book.title)}</h1><p>{escape(book.subtitle)}</p>'
        f"<p>{escape(book.author)}</p><p>Version {book.version}, of {book.day}</p>{site}"
        "<p>Text: CC BY 4.0. Code: MIT.</p></section>"
    )


def contents(book: Book) -> str:
    """The contents, by part, page and section."""
    parts = ""
    for part, pages in groupby(book.pages, key=lambda page: page.part):
        listed = list(pages)
        inside = "".join(line(page) for page in listed)
        parts += f'<li><a href="{place(listed[0], "")}">{escape(part)}</a><ol>{inside}</ol></li>'
    return f'<nav epub:type="toc" role="doc-toc" id="toc"><h1>Contents</h1><ol>{parts}</ol></nav>'


def line(page: Page) -> str:
    """A page in the contents, with its sections."""
    sections = "".join(
        f'<li><a href="{place(page, escape(anchor))}">{escape(title)}</a></li>'
        for anchor, title in page.sections()
    )
    below = f"<ol>{sections}</ol>" if sections else ""
    return f'<li><a href="{place(page, "")}">{escape(page.title)}</a>{below}</li>'


def package(book: Book, texts: Mapping[str, str], pictures: list[str]) -> str:
    """The list of everything in the EPUB, and the order to read it in."""
    items = ['<item id="style" href="book.css" media-type="text/css"/>']
    items += ['<item id="cover" href="cover.png" media-type="image/png" properties="cover-image"/>']
    for name, text in texts.items():
        properties = ["nav"] * (name == "nav.xhtml") + ["mathml"] * ("<math" in text)
        said = f' properties="{" ".join(properties)}"' if properties else ""
        stem = name.removesuffix(".xhtml")
        items.append(f'<item id="{stem}" href="{name}" media-type="application/xhtml+xml"{said}/>')
    for number, name in enumerate(pictures):
        kind = TYPES[Path(name).suffix]
        items.append(f'<item id="picture-{number}" href="images/{name}" media-type="{kind}"/>')
    spine = [f'<itemref idref="{name.removesuffix(".xhtml")}"/>' for name in texts]
    return PACKAGE.format(
        identifier=uuid.uuid5(uuid.NAMESPACE_URL, book.address or book.title),
        title=escape(book.title),
        subtitle=escape(book.subtitle),
        author=escape(book.author),
        day=book.day,
        modified=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(book.made)),
        items="\n".join(items),
        spine="\n".join(spine),
    )
