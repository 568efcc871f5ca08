"""`ppobook course export` and `erase`: what is kept about one student."""

from __future__ import annotations

from pathlib import Path

from ppobook.cli.assigning import Folder, StudentId
from ppobook.cli.parsing import MaybeFile, command
from ppobook.validation import counted


@command
def export(student: StudentId, /, *, out: MaybeFile = None, course: Folder = ".") -> None:
    """Write all that is kept about a student into one zip.

    Args:
        student: the student's id
        out: the zip; STUDENT.zip in this folder if left out
        course: the course's folder
    """
    from ppobook.course import privacy, settings

    file = Path(out or f"{student}.zip")
    names = privacy.export(settings.load(course), student, file)
    print(f"{file}: {counted(len(names), 'file')}")


@command
def erase(student: StudentId, /, *, dry_run: bool = False, course: Folder = ".") -> None:
    """Erase all that is kept about a student: hand-ins, results, feedback, and lines of tables and logs.

    Args:
        student: the student's id
        dry_run: show what would be erased, and write nothing
        course: the course's folder
    """
    from ppobook.course import privacy, settings

    names = privacy.erase(settings.load(course), student, dry_run=dry_run)
    for name in names:
        print(f"- {name}")
    done = "would be erased or changed" if dry_run else "erased or changed"
    own = "backups, downloads, pages of `similar --out` and what you sent elsewhere are yours to erase"
    print(f"{counted(len(names), 'file')} {done}; {own}")
