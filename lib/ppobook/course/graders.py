"""Open the grader of an assignment's submissions, in each process that grades.

It imports what grades and nothing of the gradebook, whose packages take seconds to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ppobook.course import looks, masters, own_checks, packs, sets
from ppobook.course.processes import Grade
from ppobook.course.settings import load


@contextmanager
def open_grader(folder: Path, name: str, *, only: str | None = None) -> Iterator[Grade]:
    """Open the grader of an assignment's submissions here; `only` is the one part that is judged."""
    from ppobook.course.grading import grade_submission, part_seeds, ungraded

    course = load(folder)
    pack = packs.released(course, name)
    assert pack is not None
    forms = packs.drawn(course, pack)
    exercise_sets = sets.open_all(pack.set, course.folder)
    # An instructor's own solutions are nowhere public.
    public = [masters.solutions(one.notebook) for one in exercise_sets if not one.own]
    model = [one[part.name].source for part in pack.tested for one in public if part.name in one]
    earlier = packs.earlier(course, name)
    notes = looks.Looks(pack, model, [pack.notebook, *earlier])
    options: dict[str, Any] = {"limits": course.grading, "only": only, "earlier": earlier}
    with ExitStack() as stack:
        for one in exercise_sets:
            stack.enter_context(own_checks.known(one))

        def grade(content: bytes, by: str, reason: str) -> Mapping[str, Any]:
            if reason:
                said = f"It could not be graded: {reason}."
                return asdict(ungraded(pack, "ended", said, content, earlier))
            seed = part_seeds(course.secret, by, content)
            found = asdict(grade_submission(pack, content, seed=seed, **options))
            for part, one in found["parts"].items():
                if part in forms and forms[part].note and one["kind"] != "right":
                    one["said"] = [*one["said"], f"({forms[part].note})"]
            found["looks"] = notes.of(content)
            return found

        yield grade
