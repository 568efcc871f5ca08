"""Open the grader of an assignment's submissions, in each process that grades.

It imports what grades and nothing of the gradebook, whose packages take seconds to import.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ppobook.course import looks, masters, own_checks, packs, pictures
from ppobook.course.processes import Grade
from ppobook.course.sets import open_set
from ppobook.course.settings import load


@contextmanager
def open_grader(
    folder: Path, name: str, *, part: str | None = None, sandboxed: bool = True
) -> Iterator[Grade]:
    """Open the grader of an assignment's submissions here; the students' code runs in other processes.

    Parameters
    ----------
    folder : Path
        The course's.
    name : str
        The assignment.
    part : str, optional
        Run and judge this part only.
    sandboxed : bool
        False runs students' code without a sandbox, see `ppobook.course.unprotected`.
    """
    from ppobook.course.grading import grade_submission, part_seeds
    from ppobook.course.sandbox import Server
    from ppobook.course.unprotected import Unprotected

    # With sympy; the first gradient would import it, in the time of the first student's check.
    importlib.import_module("torch.fx.experimental.symbolic_shapes")

    course = load(folder)
    handout = packs.released(course, name)
    assert handout is not None
    forms = packs.forms(course, handout)
    pack = handout.pack({name: form.adapter for name, form in forms.items()})
    if part is not None:
        pack = replace(pack, tested=tuple(one for one in pack.tested if one.name == part))
    opened = Server() if sandboxed else Unprotected()
    found_set = open_set(handout.set, course.folder)
    # An instructor's own solutions are nowhere public.
    public = {} if found_set.own else masters.solutions(found_set.notebook)
    code = {part.name: public[part.name].source for part in pack.tested if part.name in public}
    with own_checks.known(found_set), opened as server:

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
            for answer in found["manual"].values():
                answer["text"] = pictures.renewed(answer["text"])
            if found.get("unclear"):
                found["unclear"] = [pictures.renewed(text) for text in found["unclear"]]
            found["looks"] = looks.looks(pack, content, code)
            return found

        yield grade
