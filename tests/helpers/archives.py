"""Zips as a student could make them."""

from __future__ import annotations

import io
import stat
import zipfile


def zipped(*files: tuple[str | zipfile.ZipInfo, bytes | str]) -> tuple[str, bytes]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return ".zip", content.getvalue()


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, str]:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry, target
