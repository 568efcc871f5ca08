"""Editions of the book beside its site, and how they are called: `tools/editions.py` makes them."""

from __future__ import annotations

STEM = "steps-you-can-trust"
#: The whole book's files, by kind.
FILES = {"zip": f"{STEM}.zip", "pdf": f"{STEM}.pdf", "epub": f"{STEM}.epub"}
#: Pages that have a PDF of their own, where the book has them: its file.
PRINTED = {"reference/cheatsheet": "cheatsheet.pdf"}
CHECKSUMS = "SHA256SUMS"
#: The release that holds them. Each publication of the site puts its own in their place.
TAG = "editions"
