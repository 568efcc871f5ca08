"""Everything that a course keeps about one student: written into one zip, or erased.

A file is a student's if it, or a folder that it lies in, is called by their id. Of lists, logs and course.yml
the lines that name them are theirs. Tables of grades and zips of feedback have everybody's, and can be made
anew from the rest: they are left out of the zip, and erased.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from ppobook.course import collecting, roster, settings, trail
from ppobook.course.settings import Course
from ppobook.run.files import atomic_write

# Here are the solutions and the packs, which are about no student, and what is made anew.
_APART = ("exercises", "release", "grades", ".git")


def find(course: Course, student: str) -> tuple[list[Path], dict[Path, tuple[str, str]]]:
    """Find all about a student: whole files, and of others the text without and with the student's lines."""
    folder, files, divided = course.folder, [], {}
    receipts = folder.glob(f"{roster.SUBMITTED}/**/{collecting.RECEIPT}")
    kept = {path.parent: json.loads(path.read_text(encoding="utf-8")) for path in receipts}
    same = {one["sha256"] for one in kept.values() if one["student"] == student}
    # What was given to them by hand lies below `_unknown` as well.
    by_hand = [path for path, one in kept.items() if one["student"] is None and one["sha256"] in same]
    # As lists, logs and course.yml name a student.
    own_lines = {
        ".csv": re.compile(rf'"?{re.escape(student)}"?[,;\t\r\n]'),
        ".jsonl": re.compile(rf'.*"student": "{re.escape(student)}"'),
        ".yml": re.compile(rf"[^#]*(?<![\w.@+-]){re.escape(student)}(?![\w.@+-])"),
    }
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not path.is_file() or path.is_symlink() or parts[0] in _APART:
            continue
        if student in (*parts[:-1], path.stem) or path.parent in by_hand:
            files.append(path)
        elif pattern := own_lines.get(path.suffix):
            lines = re.findall(r"[^\n]*\n|[^\n]+", path.read_bytes().decode("utf-8", "surrogateescape"))
            own = [line for line in lines if pattern.match(line)]
            if own:
                divided[path] = "".join(line for line in lines if line not in own), "".join(own)
    if not files and not divided:
        raise ValueError(f"student must be one of whom something is kept, got {student!r}")
    return files, divided


def export(course: Course, student: str, file: Path) -> list[str]:
    files, divided = find(course, student)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(course.folder))
        for path, (_, own) in divided.items():
            archive.writestr(str(path.relative_to(course.folder)), own.encode(errors="surrogateescape"))
        return archive.namelist()


def erase(course: Course, student: str, *, dry_run: bool = False) -> list[str]:
    """Erase all that is kept about a student, and return the names of what was changed."""
    (files, divided), folder = find(course, student), course.folder
    if folder / settings.FILE in divided:
        raise ValueError(
            f"{settings.FILE} must not name {student}: take them out by hand first; what they handed in "
            "for a group can be given to another member by `ppobook course collect … --student`"
        )
    files += [*folder.glob("feedback/*.zip"), *folder.glob("grades/*.csv")]
    if not dry_run:
        for path, (without, _) in divided.items():
            atomic_write(path, without.encode(errors="surrogateescape"))
        for path in files:
            path.unlink()
        for parent in sorted({path.parent for path in files}, reverse=True):
            while parent != folder and not any(parent.iterdir()):
                parent.rmdir()
                parent = parent.parent
        trail.note(folder, "erasure", files=len(files) + len(divided))
    return [str(path.relative_to(folder)) for path in (*divided, *files)]
