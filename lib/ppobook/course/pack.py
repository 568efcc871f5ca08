"""A pack: the notebook that was handed out, and the data on its parts that grading needs."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

from ppobook.course.sources import check_call
from ppobook.teaching.tags import Notebook
from ppobook.validation import choice


@dataclass(frozen=True)
class PackPart:
    """A part that earns points: ``role`` is "test" or "manual".

    A tested part has the ``expression`` that its check is given and, in ``partial``, the share of the points
    that some named mistakes earn; a manual one has its ``question`` and ``rubric`` in Markdown. ``exercise``
    is the label and ``title`` the title of its exercise.
    """

    name: str
    role: str
    points: float
    exercise: str = ""
    title: str = ""
    expression: str = ""
    question: str = ""
    rubric: str = ""
    partial: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pack:
    """An assignment as it was handed out; ``set`` names its exercise sets."""

    assignment: str
    notebook: Notebook
    parts: tuple[PackPart, ...]
    set: str = ""

    @property
    def tested(self) -> tuple[PackPart, ...]:
        return tuple(one for one in self.parts if one.role == "test")

    @property
    def manual(self) -> tuple[PackPart, ...]:
        return tuple(one for one in self.parts if one.role == "manual")

    @property
    def points(self) -> float:
        return sum(one.points for one in self.parts)

    @cached_property
    def digest(self) -> str:
        """A digest of all of it: grades that were given for another pack are given again."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def part(self, name: str) -> PackPart:
        return named(self.parts, name)


def named(parts: Sequence[PackPart], name: str) -> PackPart:
    names = [one.name for one in parts]
    return parts[names.index(choice("the part", name, names))]


def answers_of(source: str) -> dict[str, str]:
    """Return the expressions handed to `check`, by exercise: ``check("dpo-loss", loss)`` -> ``loss``."""
    calls = filter(None, map(check_call, ast.parse(source).body))
    return {ast.literal_eval(call.args[0]): ast.unparse(call.args[1]) for call in calls}
