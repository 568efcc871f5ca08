"""The pages of the built site, made ready for an edition in which nothing can be clicked open.

Of each page the article is taken. Folded boxes are open, but code that only draws is left out; a solution
stands at the end of its page; an interactive figure is its still picture. Links between pages become links
within the edition, and what is not in it, as the library's pages, is linked where the site has an address.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from bs4 import BeautifulSoup, Comment, NavigableString, Tag

import ppobook

ARTICLE = '<article class="bd-article">'
MAKER = BeautifulSoup("", "html.parser")
# term-tips: what is shown of a word where one points at it. on-screen: boxes that would fill many sheets.
LEFT_OUT = {"headerlink", "toctree-wrapper", "only-dark", "sd-summary-state-marker", "term-tips", "on-screen"}
# Attributes that mean something to a browser with a script, or are old.
NEEDLESS = (
    *("aria-describedby", "loading", "border", "data-toggle", "tabindex", "role"),
    *("align", "halign", "valign"),
)


@dataclass
class Page:
    """A page: its name, the part of the book that it stands in, and its article, made ready."""

    docname: str
    part: str
    article: Tag

    @property
    def title(self) -> str:
        """The text of its heading."""
        return words(self.article.find("h1"))

    @property
    def name(self) -> str:
        """A name for files and anchors, of letters, digits and hyphens."""
        return re.sub(r"[/_]", "-", self.docname)

    def anchored(self) -> list[Tag]:
        """Each tag that a link may lead to."""
        own = [self.article] if self.article.get("id") else []
        return [*own, *self.article.find_all(id=True)]

    def sections(self) -> Iterator[tuple[str, str]]:
        """Anchor and title of each section right below the page's own."""
        for heading in self.article.find_all("h2"):
            section = heading.find_parent("section")
            if section is not None and section.get("id"):
                yield section["id"], words(heading)


@dataclass
class Book:
    """The title page of an edition, and its pages."""

    title: str
    subtitle: str
    author: str
    version: str
    made: int  #: seconds since 1970
    site: Path
    address: str  #: of the site, with a slash at its end, or ""
    pages: list[Page] = field(default_factory=list)

    @property
    def day(self) -> str:
        """The day that it was made of."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.made))

    def file(self, page: Page, source: str) -> Path:
        """The file of the site that an address on a page stands for."""
        return self.site / posixpath.normpath(posixpath.join(posixpath.dirname(page.docname), source))


def words(tag: Tag | None) -> str:
    """The text of a tag on one line, its formulas as they are written."""
    return " ".join(tag.get_text().split()) if tag is not None else ""


# --- reading ------------------------------------------------------------------------------------------------


def spine(book: dict) -> Iterator[tuple[str, str]]:
    """Each page of the spine with its part, in reading order, less the front page and the library's."""

    def below(entries: list[dict], part: str) -> Iterator[tuple[str, str]]:
        for entry in entries:
            if not entry["file"].startswith("autoapi/"):
                yield entry["file"], part
                yield from below(entry.get("sections", []), part)

    for part in book["parts"]:
        yield from below(part["chapters"], part["caption"])


def read(root: Path, site: Path) -> Book:
    """The book whose spine is in `root` and whose built pages are in `site`.

    FileNotFoundError where the site lacks a page.
    """
    spine_and_meta = yaml.safe_load((root / "book.yml").read_text(encoding="utf-8"))
    meta = spine_and_meta["meta"]
    book = Book(
        title=meta["title"],
        subtitle=meta["subtitle"],
        author=meta["author"],
        version=ppobook.__version__,
        made=moment(root),
        site=site,
        address=address(site),
    )
    for docname, part in spine(spine_and_meta):
        text = (site / f"{docname}.html").read_text(encoding="utf-8")
        article = text.partition(ARTICLE)[2].rpartition("</article>")[0]
        soup = BeautifulSoup(article, "html.parser")
        section = soup.find("section")
        if section is None:
            raise ValueError(f"{docname}.html has no section in its article: is it a page of this site?")
        book.pages.append(Page(docname, part, section))
    for page in book.pages:
        make_ready(page)
    return book


def address(site: Path) -> str:
    """Return where the site is published, with a slash at its end, as its front page says; else ""."""
    front = (site / "index.html").read_text(encoding="utf-8")
    known = re.search(r'<meta property="og:url" content="([^"]*)index\.html"', front)
    return unescape(known[1]) if known else ""


def moment(root: Path) -> int:
    """Return when the book was last changed: SOURCE_DATE_EPOCH, else the last commit, else now."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    asked = ["git", "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True).stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):  # no git, or no history
        return int(time.time())


# --- making ready -------------------------------------------------------------------------------------------


def make_ready(page: Page) -> None:
    """Do to the article all that does not depend on other pages."""
    article = page.article
    for text in article.find_all(string=lambda text: isinstance(text, Comment)):
        text.extract()
    for tag in article.find_all(left_out):
        if not tag.decomposed:
            tag.decompose()
    for wrapper in [*article.find_all("a", class_="image-reference"), *article.find_all("noscript")]:
        wrapper.unwrap()
    move_solutions(article)
    for box in article.find_all("details"):
        lay_open(box)
    for tag in article.find_all(True):
        for name in NEEDLESS:
            del tag[name]
    seen: set[str] = set()
    for tag in page.anchored():
        if tag["id"] in seen:
            del tag["id"]
        else:
            seen.add(tag["id"])


def left_out(tag: Tag) -> bool:
    """Return true for what has no use on paper: scripts, code that only draws, pictures for the dark."""
    classes = set(tag.get("class") or ())
    return (
        tag.name in ("script", "style", "button", "svg", "nav", "iframe", "form")
        or bool(classes & LEFT_OUT)
        or (tag.name == "details" and {"hide", "above-input"} <= classes)
    )


def lay_open(box: Tag) -> None:
    """Make a folded box an open one, with its summary as its head."""
    summary = box.find("summary", recursive=False)
    box.name = "div"
    box.attrs = {"class": [*(box.get("class") or ()), "opened"], **ids(box)}
    if summary is not None:
        summary.name = "div"
        summary.attrs = {"class": [*(summary.get("class") or ()), "opened-title"], **ids(summary)}


def ids(tag: Tag) -> dict[str, str]:
    """The tag's id, as an attribute."""
    return {"id": tag["id"]} if tag.get("id") else {}


def move_solutions(article: Tag) -> None:
    """Put solutions at the end of the page, below their exercises' titles, with links there and back."""
    end: Tag | None = None
    groups: dict[int, Tag] = {}
    for number, box in enumerate(article.find_all("details", class_="solution"), 1):
        section = box.find_parent("section")
        heading = section.find(["h1", "h2", "h3"])
        name = words(box.find("summary")) or "Solution"
        if end is None:
            end = new("section", id="solutions")
            end.append(new("h2", "Solutions"))
        if id(section) not in groups:
            group = new("section", id=f"solution-{number}")
            title = new("h3")
            back = new("a", href=f"#{section.get('id', '')}")
            back.extend(copy(part) for part in heading.contents)
            title.append(back)
            group.append(title)
            end.append(group)
            groups[id(section)] = group
        group = groups[id(section)]
        there = new("p", class_="to-solution")
        there.append(new("a", name, href=f"#{group['id']}"))
        box.insert_before(there)
        box.extract()
        body = new("div", class_="moved-solution")
        body.append(new("p", name, class_="solution-name"))
        for part in [part for part in box.contents if getattr(part, "name", None) != "summary"]:
            body.append(part.extract())
        group.append(body)
    if end is not None:
        article.append(end)


def new(tag: str, text: str = "", class_: str = "", **attributes: str) -> Tag:
    """A tag with a text."""
    made = MAKER.new_tag(tag, attrs=attributes)
    if class_:
        made["class"] = [class_]
    if text:
        made.string = text
    return made


# --- links --------------------------------------------------------------------------------------------------


def link(book: Book, place: Callable[[Page, str], str]) -> None:
    """Point every link to its place in the edition: `place(page, anchor)`, "" for the top of the page.

    A link to a page that the edition lacks leads to the site; where that has no address, the words stay.
    """
    known = {page.docname: (page, {tag["id"] for tag in page.anchored()}) for page in book.pages}
    for page in book.pages:
        for tag in page.article.find_all("a", href=True):
            target = urlsplit(tag["href"])
            if target.scheme or target.netloc:
                continue
            here = posixpath.dirname(page.docname)
            path = posixpath.normpath(posixpath.join(here, target.path)) if target.path else ""
            docname = path.removesuffix(".html") if path else page.docname
            if docname in known:
                other, there = known[docname]
                tag["href"] = place(other, target.fragment if target.fragment in there else "")
            elif book.address:
                tag["href"] = f"{book.address}{path}" + (f"#{target.fragment}" if target.fragment else "")
            else:
                tag.unwrap()


# --- formulas -----------------------------------------------------------------------------------------------


def formulas(article: Tag) -> Iterator[tuple[NavigableString, str, bool]]:
    r"""Each formula: the text that holds it, its TeX, and whether it is set apart; `\(…\)` or `\[…\]`."""
    for tag in article.find_all(class_="math"):
        for text in [child for child in tag.children if isinstance(child, NavigableString)]:
            found = re.fullmatch(r"\s*\\([(\[])(.*)\\[)\]]\s*", text, re.S)
            if found:
                yield text, found[2], found[1] == "["
