"""Pictures in answers: from a notebook's cell to a page, small and without metadata."""

from __future__ import annotations

import base64
import io
import json
import re

import pytest
from PIL import Image

from ppobook.course import pictures, rebuild
from ppobook.course.safe_text import rendered

SECRET = "Taken at 52.5N 13.4E"


def picture(kind: str = "JPEG", size: tuple[int, int] = (3000, 2000), **options) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, "red").save(made, kind, **options)
    return made.getvalue()


def address(content: bytes, kind: str = "image/jpeg") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def opened(html: str) -> Image.Image:
    """The one picture of a page."""
    (found,) = re.findall(r'<img src="data:image/jpeg;base64,([^"]+)" alt="[^"]+">', html)
    return Image.open(io.BytesIO(base64.b64decode(found)))


def shown(text: str) -> str:
    return rendered(pictures.renewed(text))


def test_a_photo_is_scaled_turned_upright_and_loses_what_the_camera_wrote():
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = SECRET, 6  # a description, and that it lies on its side
    content = picture(exif=exif)
    assert SECRET.encode() in content
    found = opened(shown(f"See ![my proof]({address(content)})."))
    assert found.size == (1067, 1600)
    assert not found.getexif()
    assert 'alt="my proof"' in shown(f"![my proof]({address(content)})")


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_other_formats(kind):
    content = picture(kind, (30, 20))
    assert opened(shown(f"![]({address(content, f'image/{kind.lower()}')})")).size == (30, 20)


@pytest.mark.parametrize(
    "source",
    [
        "![x](attachment:a b.png)",
        "![x](attachment:a%20b.png)",
        '<img src="attachment:a%20b.png" width=9>',
        "",
    ],
)
def test_an_attachment_of_a_notebook_is_part_of_the_answer(source):
    kinds = {"image/png": base64.b64encode(picture("PNG", (30, 20))).decode()}
    cell = {"cell_type": "markdown", "id": "a", "metadata": {"tags": ["manual:why:2"]}, "source": "Why?"}
    pack = {"cells": [cell]}
    handed = {**cell, "source": f"So:\n\n{source}", "attachments": {"a b.png": kinds}}
    content = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [handed]}).encode()
    text = rebuild.rebuild(pack, content).texts["why"]
    assert opened(shown(text)).size == (30, 20)


def bomb() -> bytes:
    """A small file of 100 million pixels."""
    made = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(made, "PNG")
    return made.getvalue()


@pytest.mark.parametrize("content", [b"", b"<svg onload=alert(1)>", picture()[:500], bomb()])
def test_what_is_no_picture_or_too_large_is_named(content):
    html = shown(f"![]({address(content)})")
    assert "<img" not in html
    assert "a picture that can&#x27;t be shown" in html or "a picture that can't be shown" in html


def test_what_was_not_written_anew_is_not_shown():
    raw = f"![]({address(b'<svg onload=alert(1)>', 'image/svg+xml')})"
    assert "<img" not in rendered(raw)
    many = "".join(f"![]({address(picture(size=(2, 2)))})" for _ in range(pictures.MOST + 1))
    assert shown(many).count("<img") == pictures.MOST
