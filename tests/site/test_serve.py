"""The book's own server shows the site's page for lost readers."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

import serve


@pytest.mark.parametrize("own_page", [True, False])
def test_a_missing_file_is_answered_by_the_sites_own_page(tmp_path: Path, own_page: bool) -> None:
    (tmp_path / "index.html").write_text("front", encoding="utf-8")
    if own_page:
        (tmp_path / "404.html").write_text("lost é", encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(serve.Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with urllib.request.urlopen(f"{address}/index.html", timeout=60) as answer:
            assert answer.read() == b"front"
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"{address}/a/b/c.html", timeout=60)
        server.shutdown()
    assert missing.value.code == 404
    assert (missing.value.read().decode() == "lost é") == own_page
