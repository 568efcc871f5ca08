"""The site as one zip that works from a local file."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

# What only a server has a use for: the page for lost readers, the list for search engines, the copies that
# Colab opens from a branch, and Sphinx's note to itself.
SERVED = ("404.html", "sitemap.xml", "colab/", ".buildinfo", ".doctrees/")


def write(site: Path, path: Path, made: int) -> None:
    """Pack the site into the zip at `path`, in a folder of its name; the same bytes for the same site."""
    date = time.gmtime(max(made, 315_532_800))[:6]  # a zip knows no date before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(file for file in site.rglob("*") if file.is_file()):
            name = file.relative_to(site).as_posix()
            if not name.startswith(SERVED):
                entry = zipfile.ZipInfo(f"{path.stem}/{name}", date)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
