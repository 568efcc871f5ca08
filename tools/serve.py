"""Serve the built site on this machine, on a free port, and print its address.

python tools/serve.py [FOLDER]
"""

from __future__ import annotations

import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Quiet(SimpleHTTPRequestHandler):
    """Log no requests, let browsers cache nothing, and show the site's own page for lost readers."""

    def end_headers(self) -> None:
        """Disable caching."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send `404.html` where there is no such file, as servers of static pages do."""
        page = Path(self.directory, "404.html")
        if code != HTTPStatus.NOT_FOUND or self.command != "GET" or not page.is_file():
            super().send_error(code, message, explain)
            return
        text = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """Ignore browsers that close a connection early."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report anything but a connection that was dropped."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main() -> int:
    """Serve until Ctrl-C."""
    built = Path(__file__).resolve().parents[1] / "_build" / "html"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else built
    if not (folder / "index.html").is_file():
        print(f"There is no site in {folder}: build it first, with `make book SERVE=0`.", file=sys.stderr)
        return 2
    # Port 0: the system chooses one that is free. Only this machine can see it.
    with Server(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        print(f"The book is at http://127.0.0.1:{server.server_address[1]}/   (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
