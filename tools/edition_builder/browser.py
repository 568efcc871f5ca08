"""Chromium, which sets the formulas and prints."""

from __future__ import annotations

import os
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
    return dict(zip(asked, made, strict=True))
