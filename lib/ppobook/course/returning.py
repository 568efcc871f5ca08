"""Feedback as one zip that a learning platform takes back and gives to each student.

Moodle and Canvas find a student by the name of a file in their own download of the submissions. So the zip
has the names of that download, each with a feedback page in the place of what was handed in.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

# Moodle: the name and the number of a person, and the plugin. Canvas: the person, perhaps LATE, the person's
# number, and the number of the file, without which Canvas does not take a file back.
_MOODLE = re.compile(r"([^/]+_\d+)_assignsubmission_file_")
_CANVAS = re.compile(r"([^_/]+)_(LATE_)?([A-Za-z0-9]+)_(\d+)_[^/]+")


def places(names: Iterable[str], file: str) -> dict[str, str]:
    """Return where a page called `file` goes in the zip, by the labels of the submissions in a download."""
    found: dict[str, str] = {}
    for name in names:
        if moodle := _MOODLE.match(name):
            found[moodle[1]] = f"{moodle[0]}{file}"
        elif canvas := _CANVAS.fullmatch(name):
            person, late, number, attachment = canvas.groups(default="")
            found[f"{person}_{number}"] = f"{person}_{late}{number}_{attachment}_{file}"
    return found


def zipped(download: Path, pages: Mapping[str, Path], out: Path, file: str) -> list[str]:
    """Write the zip, and return the labels in the download for which there is no page.

    Parameters
    ----------
    download : Path
        The zip with the submissions, as the platform gave it.
    pages : mapping
        By the label of a submission, as its receipt has it, the page that belongs to it.
    out : Path
    file : str
        What a page is called in the zip.
    """
    try:
        with zipfile.ZipFile(download) as archive:
            found = places(archive.namelist(), file)
    except (zipfile.BadZipFile, OSError):
        raise ValueError(f"the download must be a zip of Moodle or Canvas, got {str(download)!r}") from None
    if not found:
        raise ValueError(
            f"the download must be a zip of Moodle or Canvas, got other names in {download.name}"
        )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for label, place in sorted(found.items()):
            if label in pages:
                archive.write(pages[label], place)
    return sorted(found.keys() - pages.keys())
