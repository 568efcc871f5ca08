"""The basis on which a submission is judged: the notebook that was handed out, and each part's points."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ppobook.teaching.tags import Notebook, parts

__all__ = ["Adapter", "ManualPart", "Pack", "TestedPart", "answers_of"]

# Turns a student's function into the one that a check calls, where a variant asks for another form.
Adapter = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class TestedPart:
    """A part that a check judges.

    Attributes
    ----------
    name : of the part, and of its test cell's tag
    points : what it is worth
    expression : what its test cell hands to `check`, such as ``dpo_loss``
    check : the name of the check, the part's own if left empty
    adapter : turns the student's function into the form that the check calls
    """

    name: str
    points: float
    expression: str
    check: str = ""
    adapter: Adapter | None = None

    @property
    def judged_by(self) -> str:
        return self.check or self.name


@dataclass(frozen=True)
class ManualPart:
    """A part that a person reads, with the rubric or model answer that helps to."""

    name: str
    points: float
    rubric: str = ""


@dataclass(frozen=True)
class Pack:
    """An assignment as it was handed out.

    Attributes
    ----------
    assignment : its name
    notebook : the reader's notebook: cells with ids and tags, nothing hidden in it
    tested, manual : its parts, in the notebook's order
    """

    assignment: str
    notebook: Notebook
    tested: tuple[TestedPart, ...] = field(default=())
    manual: tuple[ManualPart, ...] = field(default=())

    @classmethod
    def of(
        cls,
        assignment: str,
        notebook: Notebook,
        *,
        points: Mapping[str, float] | None = None,
        rubrics: Mapping[str, str] | None = None,
        adapters: Mapping[str, Adapter] | None = None,
    ) -> Pack:
        """The pack of a reader's notebook, its parts read from the tags and the test cells.

        Parameters
        ----------
        points : mapping, optional
            By the name of a part, where another number counts than its tag says.
        rubrics, adapters : mappings, optional
            By the name of a part.
        """
        worth, tested, manual = points or {}, [], []
        for part in parts(notebook):
            value = float(worth.get(part.name, part.points or 0.0))
            if part.role == "test":
                expression = answers_of(notebook["cells"][part.index]["source"])[part.name]
                adapter = (adapters or {}).get(part.name)
                tested.append(TestedPart(part.name, value, expression, adapter=adapter))
            elif part.role == "manual":
                manual.append(ManualPart(part.name, value, (rubrics or {}).get(part.name, "")))
        return cls(assignment, notebook, tuple(tested), tuple(manual))


def answers_of(source: str) -> dict[str, str]:
    """Return the expressions handed to `check`, by exercise: ``check("dpo-loss", loss)`` -> ``loss``."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "check" and len(node.args) == 2:
            name, answer = node.args
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found[name.value] = ast.unparse(answer)
    return found
