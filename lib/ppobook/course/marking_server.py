"""The page for marking, served to this machine only.

Who may speak with it: a browser that was given the address with its token, which no other page knows. A page
of another site that guesses the port learns nothing, as the token is a part of every path.
"""

from __future__ import annotations

import hmac
import json
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ppobook.course.marking import Marking

PAGE = Path(__file__).with_name("marking_page")
FILES = {"": "index.html", "page.js": "page.js", "page.css": "page.css"}
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
LARGEST = 200_000  # bytes of a request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class MarkingServer(ThreadingHTTPServer):
    """Serves the page on a free port of 127.0.0.1; `address` is where, with its token."""

    daemon_threads = True

    def __init__(self, marking: Marking) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.marking = marking
        self.token = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: MarkingServer
    timeout = 60

    def do_GET(self) -> None:
        self._answer_request("GET")

    def do_POST(self) -> None:
        self._answer_request("POST")

    def _answer_request(self, method: str) -> None:
        token, _, path = urlsplit(self.path).path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._send({"error": "there is no such page"}, 404)
        elif method == "GET" and path in FILES:
            file = PAGE / FILES[path]
            self._answer(200, f"{TYPES[file.suffix]}; charset=utf-8", file.read_bytes())
        else:
            try:
                self._send(self._value(method, path))
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                self._send({"error": str(error)}, 400)

    def _value(self, method: str, path: str) -> Any:
        marking = self.server.marking
        if (method, path) == ("GET", "api/questions"):
            return {"questions": marking.questions()}
        if (method, path) == ("GET", "api/question"):
            return marking.question(**dict(parse_qsl(urlsplit(self.path).query)))
        if (method, path) == ("POST", "api/mark"):
            self.close_connection = True  # what was sent beyond the limit is not read
            return marking.mark(
                **json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), LARGEST)))
            )
        raise ValueError("there is no such page")

    def _send(self, value: Any, status: int = 200) -> None:
        self._answer(status, "application/json", json.dumps(value, ensure_ascii=False).encode())

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log no request, for its address holds the token."""
