"""Pictures in answers: from a notebook's cell to a page, small and without metadata."""

import base64
import io
import json
import re
import struct

import pytest
from filled_in import pack_of
from PIL import Image

from ppobook.course import pictures
from ppobook.course.grading import ungraded
from ppobook.course.safe_text import rendered

SECRET = "Taken at 52.5N 13.4E"


def picture(kind="JPEG", size=(3000, 2000), mode="RGB", **options) -> bytes:
    made = io.BytesIO()
    Image.new(mode, size, "red").save(made, kind, **options)
    return made.getvalue()


def address(content: bytes, kind: str = "image/jpeg") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def opened(html: str) -> Image.Image:
    """The one picture of a page."""
    (found,) = re.findall(r'<img src="data:image/jpeg;base64,([^"]+)" alt="[^"]+">', html)
    return Image.open(io.BytesIO(base64.b64decode(found)))


def shown(text: str) -> str:
    return rendered(*pictures.renewed([text]))


def test_a_photo_is_scaled_turned_upright_and_loses_what_the_camera_wrote():
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = SECRET, 6  # a description, and that it lies on its side
    content = picture(exif=exif)
    assert SECRET.encode() in content
    found = opened(shown(f"See ![my proof]({address(content)})."))
    assert found.size == (1067, 1600)
    assert not found.getexif()
    assert 'alt="my proof"' in shown(f"![my proof]({address(content)})")


@pytest.mark.parametrize(("tag", "kind"), [(0x0100, 2), (0x0103, 7), (0x011A, 2)])
def test_a_tag_of_an_unusual_type_does_not_matter(tag, kind):
    tags = struct.pack("<HHI4s", tag, kind, 4, b"7.2") + struct.pack("<HHII", 0x0112, 3, 1, 6)
    exif = struct.pack("<6s2sHIH24sI", b"Exif", b"II", 42, 8, 2, tags, 0)
    assert opened(shown(f"![]({address(picture(exif=exif))})")).size == (1067, 1600)
    exif = exif[:8] + b"\xff" * 40
    assert "picture" in shown(f"![]({address(picture(exif=exif))})")


@pytest.mark.parametrize(
    "text", ["<img src=data:a" + "src=data:a" * 50_000, "![](data:image/png;base64," * 2 + "A" * 10**6]
)
def test_a_long_text_that_ends_in_no_picture_is_read_at_once(text):
    assert pictures.renewed([pictures.inlined(text, {})])[0].startswith(text)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_other_formats(kind):
    content = picture(kind, (30, 20))
    assert opened(shown(f"![]({address(content, f'image/{kind.lower()}')})")).size == (30, 20)


ATTACHED = ("![x](attachment:a b.png)", "![x](attachment:a%20b.png)", '<img src="attachment:a%20b.png" w=9>')


@pytest.mark.parametrize("source", [*ATTACHED, ""])
def test_an_attachment_of_a_notebook_is_part_of_the_answer(source):
    kinds = {"image/png": base64.b64encode(picture("PNG", (30, 20))).decode()}
    cell = {"cell_type": "markdown", "id": "a", "metadata": {"tags": ["manual:why:2"]}, "source": "Why?"}
    handed = {**cell, "source": f"So:\n\n{source}", "attachments": {"a b.png": kinds}}
    content = json.dumps({"cells": [handed]}).encode()
    found = ungraded(pack_of("week", {"cells": [cell]}), "ended", "It took too long.", content)
    assert opened(rendered(found.manual["why"])).size == (30, 20)


BOMB = picture("PNG", (10_000, 10_000), "1")  # a small file


@pytest.mark.parametrize("content", [b"", b"<svg onload=alert(1)>", picture()[:500], BOMB])
def test_what_is_no_picture_or_too_large_is_named(content):
    html = shown(f"![]({address(content)})")
    assert "<img" not in html
    assert "a picture that can" in html


def test_what_was_not_written_anew_is_not_shown():
    raw = f"![]({address(b'<svg onload=alert(1)>', 'image/svg+xml')})"
    assert "<img" not in rendered(raw)
    many = "".join(f"![]({address(picture(size=(2, 2)))})" for _ in range(pictures.MOST + 1))
    assert shown(many).count("<img") == pictures.MOST


def test_the_pictures_of_a_submission_have_a_total(monkeypatch):
    monkeypatch.setattr(pictures, "TOTAL", 2_500_000)
    texts = pictures.renewed([f"![]({address(picture(size=(2, 2)))})"] * 3)
    assert [text.count("data:") for text in texts] == [1, 1, 0]
