"""Open the grader of an assignment's submissions, in each process that grades.

It imports what grades and nothing of the gradebook, whose packages take seconds to import.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ppobook.course import looks, masters, own_checks, packs, sets
from ppobook.course.processes import Grade
from ppobook.course.settings import load


@contextmanager
def open_grader(folder: Path, name: str, *, sandboxed: bool = True) -> Iterator[Grade]:
    """Open the grader of an assignment's submissions here; the students' code runs in other processes.

    Parameters
    ----------
    folder : Path
        The course's.
    name : str
        The assignment.
    sandboxed : bool
        False runs students' code without a sandbox, see `ppobook.course.unprotected`.
    """
    from ppobook.course.grading import grade_submission, part_seeds
    from ppobook.course.sandbox import Server
    from ppobook.course.unprotected import Unprotected

    # With sympy; the first gradient would import it, in the time of the first student's check.
    importlib.import_module("torch.fx.experimental.symbolic_shapes")

    course = load(folder)
    pack = packs.released(course, name)
    assert pack is not None
    forms = packs.drawn(course, pack)
    opened = Server() if sandboxed else Unprotected()
    exercise_sets = sets.open_all(pack.set, course.folder)
    # An instructor's own solutions are nowhere public.
    public = [masters.solutions(one.notebook) for one in exercise_sets if not one.own]
    model = {part.name: one[part.name].source for part in pack.tested for one in public if part.name in one}
    handed_out = [pack.notebook, *packs.earlier(course, name)]
    with ExitStack() as stack:
        for one in exercise_sets:
            stack.enter_context(own_checks.known(one))
        server = stack.enter_context(opened)

        def grade(content: bytes, by: str) -> Mapping[str, Any]:
            seed = part_seeds(course.secret, by, content)
            found = asdict(
                grade_submission(
                    pack, content, server=server, seed=seed, limits=course.grading, partial=course.partial
                )
            )
            for name, part in found["parts"].items():
                if name in forms and part["kind"] != "right":
                    part["message"] = forms[name].message(part["message"])
            found["looks"] = looks.looks(pack, content, model, handed_out)
            return found

        yield grade
