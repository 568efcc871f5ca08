"""A browser on the built site: `make book SERVE=0`, then `pytest tests/browser`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from edition_builder.browser import find as find_chromium
from ppobook.teaching import progress

from . import figure_site

ROOT = Path(__file__).resolve().parents[2]
DESKTOP = {"width": 1400, "height": 900}
PHONE = {"width": 390, "height": 844}

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site."""
    folder = ROOT / "_build" / "html"
    if not (folder / "index.html").exists():
        pytest.fail("there is no site in _build/html: run `make book SERVE=0` first", pytrace=False)
    return folder


class Quiet(SimpleHTTPRequestHandler):
    """A host of static pages: a missing file is answered by the site's own page; nothing is logged."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        lost = Path(self.directory, "404.html")
        self.error_message_format = lost.read_text("utf-8").replace("%", "%%") if lost.is_file() else ""
        super().send_error(code, message, explain)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder on a port of this machine: its address, without a slash at its end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="session")
def small_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a page for each interactive figure, its caption and a reference to it."""
    return figure_site.build(tmp_path_factory.mktemp("figures"))


@pytest.fixture(scope="session")
def http(small_site: Path) -> Iterator[str]:
    """The first page of the small site, from a server."""
    with served(small_site) as address:
        yield f"{address}/index.html"


@pytest.fixture(params=["http", "file"])
def address(request: pytest.FixtureRequest, small_site: Path, http: str) -> str:
    """That page, once from a server and once from the disk."""
    return http if request.param == "http" else (small_site / "index.html").as_uri()


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """A JupyterLab on a folder, its settings beside it: its address, without a slash at its end."""
    home = folder.parent / f"{folder.name}-lab"
    home.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # As a person starts it, whose checks are recorded.
    environment = {name: value for name, value in os.environ.items() if name not in progress.OFF}
    environment |= {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_CONFIG_PATH": str(ROOT / "tools" / "jupyter"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "spaces"),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
    with open(home / "log.txt", "w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/api", timeout=1)
                    break
                except OSError:
                    assert server.poll() is None, (home / "log.txt").read_text()
                    time.sleep(0.5)
            yield address
        finally:
            server.terminate()
            server.wait(timeout=30)


def ready(page: Page, address: str) -> None:
    """Go there, and wait for the interactive figures. (The formulas are set before the page has loaded.)"""
    page.goto(address)
    live = "() => [...document.querySelectorAll('.ppobook-figure')].every(f => f.dataset.live)"
    page.wait_for_function(live)


def violations(page: Page, part: str | None = None, rules: dict[str, Any] | None = None) -> list[Any]:
    """Return what axe finds wrong on a page, or in what a selector chooses of it."""
    # Without preloading: axe would ask for style sheets by addresses of its own making.
    options = {"resultTypes": ["violations"], "preload": False, **(rules or {})}
    found: list[Any] = Axe().run(page, context=part, options=options).response["violations"]
    return found


def open_notebook(open_page: OpenPage, lab: str, notebook: str) -> Page:
    """The notebook in the browser, with its kernel ready."""
    page = open_page()
    # JupyterLab itself complains about what it does not find on a machine of its own.
    page.forgiven += ["Failed to load resource", "jupyter", "lsp"]  # type: ignore[attr-defined]
    page.goto(f"{lab}/lab/tree/{notebook}?reset", timeout=120_000)
    # A cell that is run before the kernel is there makes JupyterLab ask which kernel it should be.
    expect(page.get_by_text(re.compile(r"Python 3 .*\| Idle"))).to_be_visible(timeout=120_000)
    return page


@pytest.fixture(scope="session")
def site_url(site: Path) -> Iterator[str]:
    """The address of the site on this machine, without a slash at its end."""
    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The system's Chromium; PPOBOOK_CHROMIUM=/path/to/it takes another one."""
    path = find_chromium()
    if path is None:
        pytest.fail("no Chromium found: install it (Debian: apt install chromium)", pytrace=False)
    flags = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
    # No other machine has an address. (To ask Python about each request takes half of a page's time.)
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Make a page: `open_page(phone=True, dark=True, javascript=False)`.

    A request to another machine fails. At the end of the test there must have been none, and no error in the
    console of any page: they are in the list `page.complaints`, less those with one of the texts in the
    list `page.forgiven`.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []
    forgiven: list[str] = []

    def local(url: str) -> bool:
        parts = urlsplit(url)
        return parts.scheme in ("file", "data", "blob", "about") or parts.hostname in (
            "127.0.0.1",
            "localhost",
        )

    def watch(request: Any) -> None:
        if not local(request.url):
            complaints.append(f"{request.frame.url} asks for {request.url}")

    def make(phone: bool = False, dark: bool = False, javascript: bool = True, **options: Any) -> Page:
        context = chromium.new_context(
            viewport=PHONE if phone else DESKTOP,
            has_touch=phone,
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            java_script_enabled=javascript,
            **options,
        )
        contexts.append(context)
        context.on("request", watch)
        page = context.new_page()
        page.forgiven = forgiven  # type: ignore[attr-defined]
        page.complaints = complaints  # type: ignore[attr-defined]

        def hear(message: Any) -> None:
            if message.type == "error":
                complaints.append(f"{page.url}: {message.text} ({message.location.get('url', '')})")

        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
        return page

    yield make
    for context in contexts:
        context.close()
    heard = [c for c in complaints if not any(text in c for text in forgiven)]
    assert not heard, "\n".join(heard)


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """One page at desktop width, in the light theme."""
    return open_page()
