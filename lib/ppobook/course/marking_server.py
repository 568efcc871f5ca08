"""The page for marking, served to this machine only.

Who may speak with it: a browser that was given the address with its token. A page of another site can't: the
token is unknown to it, the Host header must be this server's (so no name of another's leads here), and a
change has to come from this page's own origin, as JSON.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ppobook.course.marking import Conflict, Marking

PAGE = Path(__file__).with_name("marking_page")
FILES = {"": "index.html", "page.js": "page.js", "page.css": "page.css"}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
}
LARGEST = 200_000  # bytes of a request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class MarkingServer(ThreadingHTTPServer):
    """Serves the page on 127.0.0.1; `address` is where, with its token.

    Parameters
    ----------
    marking : Marking
    port : int
        0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, marking: Marking, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.marking = marking
        self.token = secrets.token_urlsafe(24)
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: MarkingServer
    timeout = 60

    def do_GET(self) -> None:
        path = self._path()
        if path is None:
            return
        marking = self.server.marking
        if path in FILES:
            self._send_file(PAGE / FILES[path])
        elif path == "api/questions":
            with self._errors():
                self._send({"questions": marking.questions()})
        elif path == "api/question":
            query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
            with self._errors():
                grouped = query.get("grouped") != "0"
                self._send(
                    marking.question(query.get("assignment", ""), query.get("part", ""), grouped=grouped)
                )
        else:
            self._refuse(404, "there is no such page")

    def do_POST(self) -> None:
        path = self._path()
        if path is None:
            return
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            self._refuse(403, "the origin must be this page")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(415, "the content must be JSON")
        elif path != "api/mark":
            self._refuse(404, "there is no such page")
        else:
            with self._errors():
                self._mark()

    def _mark(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > LARGEST:
            self._refuse(413, f"the content must be at most {LARGEST} bytes")
            return
        try:
            said = json.loads(self.rfile.read(int(size)))
            given = {key: said[key] for key in ("assignment", "part", "seen", "points", "comment")}
            seen = {str(key): str(value) for key, value in given.pop("seen").items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            self._refuse(400, "the content must name assignment, part, seen, points and comment")
            return
        try:
            self._send(self.server.marking.mark(**given, seen=seen))
        except Conflict as conflict:
            self._send({"error": "changed elsewhere", "entry": conflict.entry}, 409)

    # --- inside -----------------------------------------------------------------------------------------

    def _path(self) -> str | None:
        """Return the request below the token; None, after an answer, for a client without the token."""
        token, _, path = urlsplit(self.path).path.lstrip("/").partition("/")
        if self.headers.get("Host") not in self.server.hosts:
            self._refuse(403, "the host must be this machine")
        elif not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(404, "there is no such page")
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self._refuse(403, "the page must be opened by its address")
        else:
            return path
        return None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Answer with a sentence where something can't be done."""
        try:
            yield
        except ValueError as error:
            self._refuse(400, str(error))
        except ConnectionError:
            pass
        except Exception as error:
            print(f"marking: {type(error).__name__}: {error}", file=sys.stderr)
            self._refuse(500, f"{type(error).__name__}: {error}")

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True  # what was sent is not read
        self._send({"error": why}, status)

    def _send_file(self, path: Path) -> None:
        self._answer(200, TYPES[path.suffix], path.read_bytes())

    def _send(self, value: Any, status: int = 200) -> None:
        self._answer(status, TYPES[".json"], json.dumps(value, ensure_ascii=False).encode())

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "ppobook"

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: their addresses hold the token."""
