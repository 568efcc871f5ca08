"""Extensions: a line in course.yml, whose comments stay as they are, and one in the trail."""

from __future__ import annotations

import json
from datetime import datetime

from ppobook.course import roster, trail
from ppobook.course.lateness import deadline
from ppobook.course.reading import parse
from ppobook.course.settings import FILE, Course, Extension, read
from ppobook.run.files import atomic_write


def extend(
    course: Course, student: str, assignment: str, until: datetime, reason: str, *, dry_run: bool = False
) -> str:
    """Give a student more time, and return the line that was written.

    Raises
    ------
    ValueError
        The student or the assignment is unknown, the time is not later, the reason is empty, or course.yml's
        list of extensions is written in a way that has to be edited by hand.
    """
    roster.find(roster.load(course.folder), student)
    found = course.assignment(assignment)
    due = deadline(course, found, student)
    if until <= due:
        raise ValueError(
            f"until must be after {due:%Y-%m-%d %H:%M}, when it is due for {student}, "
            f"got {until:%Y-%m-%d %H:%M}"
        )
    reason = trail.reason(reason)
    new = Extension(student, assignment, until, reason)
    line = f"{{student: {json.dumps(student)}, assignment: {assignment}, until: {until:%Y-%m-%d %H:%M}"
    line += f", reason: {json.dumps(reason, ensure_ascii=False)}}}"
    path = course.folder / FILE
    text = path.read_text(encoding="utf-8-sig")
    changed = _written(text, student, assignment, line)
    if changed is None or new not in _extensions(changed, course):
        raise ValueError(f"{FILE}: write it by hand, below `extensions:`, as  - {line}")
    if not dry_run:
        atomic_write(path, changed)
        trail.note(
            course.folder,
            "extension",
            student=student,
            assignment=assignment,
            until=until.isoformat(),
            before=due.isoformat(),
            reason=reason,
        )
    return line


def _extensions(text: str, course: Course) -> tuple[Extension, ...]:
    try:
        return read(text, course.folder).extensions
    except ValueError:
        return ()


def _written(text: str, student: str, assignment: str, line: str) -> str | None:
    """The text of course.yml with this extension; None where its list is not one with a line for each."""
    values = parse(text, FILE).content
    lines = text.splitlines()
    if "extensions" not in values:
        return "\n".join([*lines, "", "extensions:", f"  - {line}", ""])
    listed = values["extensions"]
    if not listed.content:  # nothing, or []
        at = listed.line - 1
        if lines[at].split("#")[0].replace(" ", "") not in ("extensions:[]", "extensions:"):
            return None
        lines[at : at + 1] = ["extensions:", f"  - {line}"]
        return "\n".join([*lines, ""])
    if not isinstance(listed.content, list) or not lines[listed.line - 1].lstrip().startswith("- "):
        return None
    indent = lines[listed.line - 1].partition("-")[0]
    for one in listed.content:
        facts = {key: value.content for key, value in one.content.items()}
        if (facts["student"], facts["assignment"]) == (student, assignment):
            lines[one.line - 1 : one.last] = [f"{indent}- {line}"]
            return "\n".join([*lines, ""])
    lines.insert(listed.content[-1].last, f"{indent}- {line}")
    return "\n".join([*lines, ""])
