"""Chromium, which sets the formulas and prints."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
# It asks nobody for anything: every file is on this machine.
FLAGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND"]


def find() -> str | None:
    """The path of the system's Chromium; PPOBOOK_CHROMIUM=/path/to/it takes another one."""
    return os.environ.get("PPOBOOK_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium, as long as it is needed; FileNotFoundError where there is none."""
    from playwright.sync_api import sync_playwright

    path = find()
    if path is None:
        raise FileNotFoundError("no Chromium found: install it (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def mathml(browser: Browser, site: Path, formulas: Iterable[tuple[str, bool]]) -> dict[tuple[str, bool], str]:
    """Each formula, of TeX and whether it is set apart, as the MathML that the site's KaTeX makes of it.

    An error names the formula that KaTeX refuses.
    """
    page = browser.new_page()
    page.add_script_tag(path=site / "_static" / "vendored" / "katex" / "katex.min.js")
    asked = sorted(set(formulas))
    made = page.evaluate(
        """asked => asked.map(([tex, displayMode]) =>
            katex.renderToString(tex, { displayMode, output: "mathml", throwOnError: true })
                .replace(/^<span class="katex">/, "").replace(/<\\/span>$/, ""))""",
        [list(formula) for formula in asked],
    )
    page.close()
    return dict(zip(asked, map(mended, made), strict=True))


def mended(mathml: str) -> str:
    """KaTeX's MathML less what the schema refuses.

    These are an empty attribute; an operator made of letters, as `\\bmod`; and a function's name as an index,
    as in `R_{\\max}`, which is followed by a sign that it is applied.
    """
    mathml = mathml.replace(' columnspacing=""', "")
    mathml = re.sub(r"<mo>\u2061</mo>(?=</m(?:sub|sup|subsup|under|over|underover)>)", "", mathml)

    def letters(found: re.Match[str]) -> str:
        return found[1] + re.sub(r"<[^>]*>", "", found[2]) + "</mo>"

    return re.sub(r"(<mo\b[^>]*>)<mrow>((?:<mi\b[^>]*>\w</mi>)+)</mrow></mo>", letters, mathml)
