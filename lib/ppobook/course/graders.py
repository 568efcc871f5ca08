"""Open the grader of an assignment's submissions, in each process that grades.

It imports what grades and nothing of the gradebook, whose packages take seconds to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ppobook.course import looks, masters, own_checks, packs
from ppobook.course.processes import Grade
from ppobook.course.sets import open_set
from ppobook.course.settings import load


@contextmanager
def open_grader(
    folder: Path, name: str, *, only: str | None = None, sandboxed: bool = True
) -> Iterator[Grade]:
    """Open the grader of an assignment's submissions here; the students' code runs in other processes.

    Parameters
    ----------
    folder : Path
        The course's.
    name : str
        The assignment.
    only : str, optional
        The one part that is judged.
    sandboxed : bool
        False runs students' code without a sandbox.
    """
    from ppobook.course.grading import grade_submission, part_seeds, ungraded

    course = load(folder)
    handout = packs.released(course, name)
    assert handout is not None
    forms, pack = packs.forms(course, handout), handout.pack()
    found_set = open_set(handout.set, course.folder)
    # An instructor's own solutions are nowhere public.
    public = {} if found_set.own else masters.solutions(found_set.notebook)
    code = {part.name: public[part.name].source for part in pack.tested if part.name in public}
    options: dict[str, Any] = {"limits": course.grading, "partial": course.partial, "only": only}
    with own_checks.known(found_set):

        def grade(content: bytes, by: str, reason: str) -> Mapping[str, Any]:
            if reason:
                return asdict(ungraded(pack, "ended", f"It could not be graded: {reason}.", content))
            seed = part_seeds(course.secret, by, content)
            found = asdict(grade_submission(pack, content, seed=seed, sandboxed=sandboxed, **options))
            for part, one in found["parts"].items():
                if part in forms and one["kind"] != "right":
                    one["message"] = forms[part].message(one["message"])
            found["looks"] = looks.looks(pack, content, code)
            return found

        yield grade
