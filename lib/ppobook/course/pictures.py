"""Pictures in answers, such as photos of proofs on paper: made small, without what a camera wrote into them.

A picture comes as a notebook's attachment or as a `data:` address in the text. When a submission is graded,
each is opened with Pillow, scaled and written anew, so nothing of the student's file reaches a page but what
is seen. What stands in the text from then on is Markdown, `![](data:image/jpeg;base64,…)`.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import unquote

from PIL import Image, ImageOps

MOST = 20  # pictures of an answer
TOTAL = 240_000_000  # pixels of all pictures of a submission, each of which is a million at least
SIDE = 1600  # pixels that are shown
LARGEST = 16_000_000  # pixels of a picture that is opened
FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
UNREADABLE = "[a picture that can't be shown: JPEG, PNG, WebP and GIF can]"

# Possessive and atomic, so that a long text takes no more than linear time.
_HTML = re.compile(r"""<img\s(?>[^<>]*?src=["']?((?:attachment|data):[^"'<>\s]+))[^<>]*+>""")
_ATTACHED = re.compile(r"attachment:([^)\s\"'<>]+)")
_DATA = re.compile(r"!\[([^\[\]]*)\]\(<?data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=%\s]*+)>?[^()]*+\)")


def inlined(source: str, attachments: Any) -> str:
    """Put a cell's attachments into its text, each where it is named first, or else at the end."""
    source = _HTML.sub(lambda found: f"![]({found[1]})", source)
    if not isinstance(attachments, Mapping):
        return source
    left = {str(name): data for name, kinds in attachments.items() if (data := _address(kinds))}
    source = _ATTACHED.sub(lambda found: left.pop(unquote(found[1]), found[0]), source)
    return "\n\n".join([source, *(f"![]({data})" for data in left.values())])


def _address(kinds: Any) -> str:
    """The `data:` address of an attachment, which has its content by type."""
    for kind, content in kinds.items() if isinstance(kinds, Mapping) else ():
        text = "".join(map(str, content)) if isinstance(content, list) else str(content)
        if re.fullmatch(r"image/[\w.+-]+", str(kind)):
            return f"data:{kind};base64,{''.join(text.split())}"
    return ""


def renewed(texts: Iterable[str]) -> list[str]:
    """Write each picture of a submission's texts anew; one that can't be opened is named in its place."""
    left = [TOTAL]

    def one(found: re.Match[str]) -> str:
        jpeg = _jpeg(found[3], left)
        return f"![{found[1]}](data:image/jpeg;base64,{jpeg})" if jpeg else UNREADABLE

    return [_DATA.sub(one, text) for text in texts]


def _jpeg(content: str, left: list[int]) -> str | None:
    try:
        opened = Image.open(io.BytesIO(base64.b64decode(unquote(content))), formats=FORMATS)
        pixels = max(opened.width * opened.height, 1_000_000)
        if pixels > min(LARGEST, left[0]):
            return None
        left[0] -= pixels
        opened.draft("RGB", (SIDE, SIDE))
        opened.thumbnail((2 * SIDE, 2 * SIDE))
        opened.getexif()  # kept for the next line but one, which would fail on tags of unusual types
        opened.info.pop("exif", None)
        turned = ImageOps.exif_transpose(opened).convert("RGBA")
        turned.thumbnail((SIDE, SIDE))
        paper = Image.new("RGB", turned.size, "white")
        paper.paste(turned, mask=turned.getchannel("A"))
        made = io.BytesIO()
        paper.save(made, "JPEG", quality=80)
    except Exception:  # Pillow raises nearly anything, also struct.error and TypeError
        return None
    return base64.b64encode(made.getvalue()).decode()


def divided(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of a text, each with the HTML of the picture behind it, which is empty behind the last."""
    end = 0
    for number, found in enumerate(_DATA.finditer(text), 1):
        shown = escape(UNREADABLE)
        if found[2] == "image/jpeg" and number <= MOST:
            label = escape(found[1].strip() or f"picture {number} of the answer")
            shown = f'<img src="data:image/jpeg;base64,{escape(found[3])}" alt="{label}">'
        yield text[end : found.start()], f"<p>{shown}</p>"
        end = found.end()
    yield text[end:], ""
