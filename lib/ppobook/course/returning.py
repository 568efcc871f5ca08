"""Feedback as one zip that a learning platform takes back and gives to each student.

Moodle and Canvas find a student by the name of a file in their own download of the submissions. So the zip
has the names of that download, each with a feedback page in the place of what was handed in.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ppobook.course.handed_in import CANVAS, MOODLE


def places(names: Iterable[str], file: str) -> dict[str, str]:
    """Return where a page called `file` goes in the zip, by the labels of the submissions in a download.

    Canvas takes a file back by its number.
    """
    found: dict[str, str] = {}
    for name in names:
        if one := MOODLE.match(name):
            found[f"{one['name']}_{one['number']}"] = (
                f"{one['name']}_{one['number']}_assignsubmission_file_{file}"
            )
        elif one := CANVAS.fullmatch(name):
            place = f"{one['name']}_{one['late'] or ''}{one['number']}_{one['file']}_{file}"
            found[f"{one['name']}_{one['number']}"] = place
    return found


def zipped(download: Path, pages: Mapping[str, Path], out: Path, file: str) -> list[str]:
    """Write the zip, and return the labels in the platform's `download` for which there is no page.

    `pages` are by the label of a submission, as its receipt has it; in the zip each is called `file`.
    """
    with zipfile.ZipFile(download) as archive:
        found = places(archive.namelist(), file)
    if not found:
        raise ValueError(
            f"the download must be a zip of Moodle or Canvas, got other names in {download.name}"
        )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for label, place in sorted(found.items()):
            if label in pages:
                archive.write(pages[label], place)
    return sorted(found.keys() - pages.keys())
