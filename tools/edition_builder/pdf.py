"""The book as a PDF: all pages in one text, which Chromium prints, with bookmarks, tags and page numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bs4 import Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    BooleanObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

from edition_builder import PRINTED
from edition_builder.pages import MAKER, Book, Page, address

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Of each heading its text, and the anchors that lead to it.
Headings = Sequence[tuple[str, list[str]]]

HERE = Path(__file__).parent
#: How often the book is printed at most. (Few headings move from the first print to the second.)
MOST_PRINTS = 4
#: Chromium lays out a print from the one before, and a heading at a page's end may move back and forth.
FRESH = """() => {
    const { style } = document.body;
    style.display = "none";
    document.body.offsetHeight; // so that the layout is dropped
    style.display = "";
}"""
# A4 less the margins of pdf.css, in CSS pixels: as wide as the text is laid out before it is measured.
VIEWPORT = {"width": 642, "height": 960}
PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light">
<head><meta charset="utf-8"/><title>{title}</title>{styles}<style>{heads}</style></head>
<body>{cover}{contents}<main class="bd-main"><article class="bd-article">{body}</article></main></body>
</html>
"""


def place(page: Page, anchor: str) -> str:
    """Return where a link leads."""
    return f"#{page.name}--{anchor}" if anchor else f"#{page.name}"


def write(book: Book, path: Path, browser: Browser, work: Path) -> int:
    """Print the book, whose links are those of `place`, to `path`; return how many pages it has.

    It is printed twice, or until no page number changes: the contents hold those that the print before tells.
    `work` is a folder for what is printed. ValueError where something is wider than the page, and where the
    contents name another page than that of the heading.
    """
    source = work / "book.html"
    source.write_text(merged(book), encoding="utf-8")
    page = browser.new_page(viewport=VIEWPORT)
    page.set_default_timeout(0)  # hundreds of pages
    page.emulate_media(media="print")
    page.goto(source.as_uri())
    for script in ("vendored/katex/katex.min.js", "formulas.js"):
        page.add_script_tag(path=book.site / "_static" / script)
    page.evaluate((HERE / "pdf.js").read_text(encoding="utf-8"))
    if wide := page.evaluate("window.tooWide()"):
        raise ValueError("wider than the page: " + "; ".join(wide[:20]))
    headings = page.evaluate("window.headings()")
    draft = work / "draft.pdf"
    said: dict[str, int] = {}
    for _ in range(MOST_PRINTS):
        if said:
            page.evaluate("window.numberContents", said)
        page.evaluate(FRESH)
        page.pdf(path=draft, prefer_css_page_size=True, print_background=True, tagged=True, outline=True)
        found = page_numbers(PdfReader(draft), headings)
        wrong = astray(said, found)
        if said and not wrong:
            break
        said = found
    else:
        raise ValueError("the contents must name the pages of headings: " + "; ".join(wrong[:20]))
    page.close()
    return finish(draft, path, book, headings)


def write_page(site: Path, docname: str, path: Path, browser: Browser) -> int:
    """Print one page of the site, as it prints itself, to `path`; return how many pages it has.

    Its links lead to the site's address; where it has none, they are words.
    """
    page = browser.new_page(viewport=VIEWPORT)
    page.emulate_media(media="print", color_scheme="light")
    page.goto((site / f"{docname}.html").as_uri())
    page.evaluate(
        """([local, published]) => {
            for (const link of document.querySelectorAll("a[href]:not([href^='#'])")) {
                if (!link.href.startsWith(local)) continue;
                if (published) link.href = published + link.href.slice(local.length);
                else link.removeAttribute("href");
            }
        }""",
        [f"{site.as_uri()}/", address(site)],
    )
    page.pdf(path=path, prefer_css_page_size=True, format="A4", print_background=True, tagged=True)
    page.close()
    return len(PdfReader(path).pages)


def cover_picture(book: Book, browser: Browser, work: Path) -> bytes:
    """The first page as a PNG."""
    source = work / "cover.html"
    blank = {"title": "", "heads": "", "contents": "", "body": ""}
    source.write_text(PAGE.format(styles=links(book), cover=cover(book), **blank), encoding="utf-8")
    page = browser.new_page(viewport={"width": 794, "height": 1123}, device_scale_factor=1.5)
    page.goto(source.as_uri())
    picture = page.screenshot()
    page.close()
    return picture


# --- one text -----------------------------------------------------------------------------------------------


def merged(book: Book) -> str:
    """The whole book as one page of HTML."""
    listed_first = contents(book)  # before `leaf` changes anchors and headings
    heads, body = [], []
    for part, pages in groupby(book.pages, key=lambda page: page.part):
        listed = list(pages)
        inside = "".join(f'<li><a href="#{p.name}">{escape(p.title)}</a></li>' for p in listed)
        body.append(f'<section class="part"><h1>{escape(part)}</h1><ul>{inside}</ul></section>')
        for page in listed:
            name = f"n{len(heads)}"
            said = page.title.replace("\\", "\\\\").replace('"', '\\"')
            heads.append(f'@page {name} {{ @top-right {{ content: "{said}" }} }}')
            body.append(f'<div class="leaf" id="{page.name}" style="page: {name}">{leaf(book, page)}</div>')
    return PAGE.format(
        title=escape(f"{book.title}: {book.subtitle}"),
        styles=links(book),
        heads="\n".join(heads),
        cover=cover(book),
        contents=listed_first,
        body="\n".join(body),
    )


def leaf(book: Book, page: Page) -> str:
    """A page's article, with headings one level lower, anchors of its own, and the site's pictures."""
    for heading in page.article.find_all(re.compile("^h[1-5]$")):
        heading.name = f"h{int(heading.name[1]) + 1}"
    anchor_headings(page)
    for tag in page.anchored():
        tag["id"] = f"{page.name}--{tag['id']}"
    for image in page.article.find_all("img"):
        image["src"] = book.file(page, image["src"]).as_uri()
    return page.article.decode(formatter="minimal")


def anchor_headings(page: Page) -> None:
    """Move the anchors of sections into their headings, by which the contents know the page.

    A section may begin on a sheet that has no room for its heading, which is then on the next.
    """
    for section in [page.article, *page.article.find_all("section")]:
        heading = section.find(re.compile("^h[1-6]$"))
        if heading is None or heading.find_parent("section") is not section:
            continue
        before = [tag for tag in section.find_all("span", id=True, recursive=False) if not tag.get_text()]
        for tag in reversed([section, *before]):
            if not tag.get("id"):
                continue
            anchor: Tag = MAKER.new_tag("span", attrs={"id": tag["id"]})
            del tag["id"]
            heading.insert(0, anchor)


def links(book: Book) -> str:
    """Links to the style sheets of the site's pages, in their order, and to ours.

    A page with a PDF of its own may have a sheet that is right for that only.
    """
    found: dict[Path, None] = {}
    for page in book.pages:
        if page.docname in PRINTED:
            continue
        text = (book.site / f"{page.docname}.html").read_text(encoding="utf-8").partition("<body")[0]
        for tag in re.findall(r'<link\b[^>]*rel="stylesheet"[^>]*>', text):
            source = re.search(r'href="([^"?]*)', tag)
            if source and "://" not in source[1]:
                found[book.file(page, source[1])] = None
    sheets = [*found, HERE / "pdf.css"]
    return "".join(f'<link rel="stylesheet" href="{sheet.as_uri()}"/>' for sheet in sheets)


def cover(book: Book) -> str:
    """The first page."""
    picture = (book.site / "_static" / "front.svg").as_uri()
    site = f"<p>{escape(book.address)}</p>" if book.address else ""
    version = f"Version {book.version}, of {book.day}"
    return (
        f'<header class="cover"><p class="cover-title">{escape(book.title)}</p>'
        f'<p class="cover-subtitle">{escape(book.subtitle)}</p><img src="{picture}" alt=""/>'
        f'<div class="cover-end"><p>{escape(book.author)}</p><p>{version}</p>{site}'
        "<p>Text: CC BY 4.0. Code: MIT.</p></div></header>"
    )


def contents(book: Book) -> str:
    """The contents, by part, page and, of chapters, section; with room for page numbers."""

    def entry(address: str, title: str, kind: str) -> str:
        number = f'<span class="at" data-of="{escape(address[1:])}">000</span>'
        return f'<li class="{kind}"><a href="{escape(address)}"><span>{escape(title)}</span>{number}</a></li>'

    lines = []
    for part, pages in groupby(book.pages, key=lambda page: page.part):
        lines.append(f'<li class="of-part">{escape(part)}</li>')
        for page in pages:
            lines.append(entry(place(page, ""), page.title, "of-page"))
            if page.docname.startswith("chapters/"):
                lines += [
                    entry(place(page, anchor), title, "of-section") for anchor, title in page.sections()
                ]
    return f'<nav class="book-contents"><h1>Contents</h1><ul>{"".join(lines)}</ul></nav>'


# --- the PDF ------------------------------------------------------------------------------------------------


def page_numbers(reader: PdfReader, headings: Headings = ()) -> dict[str, int]:
    """The number of the page that each anchor with a link to it is on, from 1.

    Anchors of `headings` are where the bookmarks are: Chromium takes one for a place on the page before,
    where its heading did not fit there.
    """
    at = {page.indirect_reference.idnum: number for number, page in enumerate(reader.pages, 1)}
    numbers = {name.lstrip("/"): at[goal.page.idnum] for name, goal in reader.named_destinations.items()}
    goals = goals_of(reader.root_object, headings) if headings else {}
    return numbers | {anchor: at[goal[0].idnum] for anchor, goal in goals.items()}


def goals_of(root: Mapping[str, Any], headings: Headings) -> dict[str, Any]:
    """Return where each anchor of a heading is: the page, and the place on it, of the heading's bookmark."""
    return {
        anchor: mark["/Dest"] if "/Dest" in mark else mark["/A"]["/D"]
        for (mark, _), (_, anchors) in zip(bookmarks(root["/Outlines"]), headings, strict=True)
        for anchor in anchors
    }


def astray(printed: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """The anchors of which the contents say another page than the one that they are on."""
    return [
        f"{anchor} is on page {found[anchor]}, and the contents say {number}"
        for anchor, number in printed.items()
        if anchor in found and found[anchor] != number
    ]


def finish(draft: Path, path: Path, book: Book, headings: Headings) -> int:
    """Add what Chromium leaves out: who wrote it, and how a viewer shows it; return the number of pages.

    The bookmarks are those of `headings`, text and anchors of each: Chromium writes some of them twice, and
    formulas in them too. Links to a heading lead where its bookmark does.
    """
    writer = PdfWriter(clone_from=draft)
    date = time.strftime("D:%Y%m%d%H%M%SZ", time.gmtime(book.made))
    about = {"/Title": f"{book.title}: {book.subtitle}", "/Author": book.author}
    writer.add_metadata({**about, "/CreationDate": date, "/ModDate": date})
    root = writer.root_object
    root[NameObject("/PageMode")] = NameObject("/UseOutlines")
    shown = DictionaryObject({NameObject("/DisplayDocTitle"): BooleanObject(True)})
    root[NameObject("/ViewerPreferences")] = shown
    marks = list(bookmarks(root["/Outlines"]))
    for (mark, depth), (heading, _) in zip(marks, headings, strict=True):
        mark[NameObject("/Title")] = TextStringObject(heading)
        # A viewer shows parts and their pages at first, and folds what is below.
        if "/Count" in mark and depth >= 1:
            mark[NameObject("/Count")] = NumberObject(-abs(int(mark["/Count"])))
    known = root["/Dests"]
    for anchor, goal in goals_of(root, headings).items():
        if f"/{anchor}" in known:
            known[NameObject(f"/{anchor}")] = ArrayObject(goal)
    writer.write(path)
    return len(writer.pages)


def bookmarks(entry: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Each bookmark below this one in the order of the text, with its depth."""
    child = entry.get("/First")
    while child is not None:
        mark = child.get_object()
        yield mark, depth
        yield from bookmarks(mark, depth + 1)
        child = mark.get("/Next")
