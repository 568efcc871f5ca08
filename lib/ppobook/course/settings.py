"""course.yml: everything that is decided about a course.

`load` reads what can be judged by the file alone. Whether its exercises, students and points fit the book and
the roster is judged by `ppobook.course.checking`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic import ValidationInfo as Info
from pydantic.dataclasses import dataclass

from ppobook import validation
from ppobook.course.sandbox import Limits

FILE = "course.yml"
# A student's id names a folder, and must not look like a hidden file or an option.
STUDENT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@+-]{0,62}[A-Za-z0-9])?")
STUDENT_FORM = "letters, digits, '.', '-', '_', '@' and '+', at most 64, because it names a folder"
_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_STRICT = ConfigDict(extra="forbid")


def _once(what: str, values: Sequence[str]) -> None:
    for one in values:
        if values.count(one) > 1:
            raise ValueError(f"{what} must have {one!r} once, got it twice")


def is_student_id(text: str) -> bool:
    """Return whether a text can be a student's id: see ``STUDENT_FORM``."""
    return bool(STUDENT.fullmatch(text)) and ".." not in text


def moment(text: str, zone: ZoneInfo) -> datetime:
    """A moment in a time zone, such as 2027-03-01 23:59. Of an hour that comes twice, the second is meant."""
    try:
        return datetime.strptime(text.replace("T", " "), "%Y-%m-%d %H:%M").replace(tzinfo=zone, fold=1)
    except ValueError:
        raise ValueError(f"a time must be such as 2027-03-01 23:59, got {text!r}") from None


def _moment(value: Any, info: Info) -> Any:
    return moment(value, (info.context or {})["zone"]) if isinstance(value, str) else value


def _span(value: Any) -> Any:
    found = re.fullmatch(rf"(\d{{1,5}}) *({'|'.join(_UNITS)})s?", str(value))
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found else value


Share = Annotated[float, Field(ge=0, le=1)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Label = Annotated[str, AfterValidator(lambda label: label.removeprefix("ex-"))]


@dataclass(frozen=True, config=_STRICT)
class Term:
    """The first and the last day of a course."""

    begin: date
    end: date


@dataclass(frozen=True, config=_STRICT)
class Assignment:
    """One assignment. No exercises mean all of its set; ``points`` has those that differ from the set's.

    ``title`` is what the learning platform calls it, the name if empty. ``partial`` has for some parts the
    share of the points that a named mistake leaves.
    """

    # The name is a folder's, in many places.
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    set: str
    due: Moment
    exercises: tuple[Label, ...] = ()
    points: Mapping[str, Annotated[float, Field(ge=0)]] = field(default_factory=dict)
    title: str = ""
    partial: Mapping[str, Mapping[str, Share]] = field(default_factory=dict)


@dataclass(frozen=True, config=_STRICT)
class Late:
    """The late policy: so long nothing is lost; then per cent of the points a day begun, for so many days."""

    grace: Annotated[timedelta, BeforeValidator(_span)] = timedelta()
    per_day: Annotated[float, Field(ge=0, le=100)] = 0.0
    days: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, config=_STRICT)
class Course:
    """A course: its folder, and what its course.yml says.

    ``book`` is where students install it from.
    """

    folder: Path
    title: str
    term: Term
    timezone: ZoneInfo
    secret: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] = field(repr=False)
    assignments: tuple[Assignment, ...] = ()
    late: Late = field(default_factory=Late)
    groups: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    ai_use: str = ""
    grading: Limits = field(default_factory=Limits)
    book: str = ""

    def __post_init__(self) -> None:
        names = [one.name for one in self.assignments]
        _once("assignments", names)
        for name, groups in self.groups.items():
            validation.choice("groups", name, names)
            _once(f"groups.{name}", [student for group in groups for student in group])

    def assignment(self, name: str) -> Assignment:
        names = [one.name for one in self.assignments]
        return self.assignments[names.index(validation.choice("the assignment", name, names))]

    def group(self, assignment: str, student: str) -> tuple[str, ...]:
        """The students with whom one submission counts; the student alone where there is no group."""
        for group in self.groups.get(assignment, ()):
            if student in group:
                return group
        return (student,)


def load(folder: str | Path = ".") -> Course:
    """Read a course's course.yml; an error names the key."""
    folder = validation.path("course", folder, "a course's folder").resolve()
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"course must be a course's folder, the one with {FILE}, got {str(folder)!r}; "
            "`ppobook course new FOLDER` makes one"
        ) from None
    try:
        # Scalars stay as they were written: `no` can be a student, and `007` an id.
        content = dict(yaml.load(text, yaml.BaseLoader) or {})
        zone = ZoneInfo(str(content.get("timezone")))
        content |= {"folder": folder, "timezone": zone}
        return TypeAdapter(Course).validate_python(content, context={"zone": zone})
    except ValidationError as error:
        # An unknown key first: where one is misspelled, another seems to be missing.
        first = min(error.errors(), key=lambda one: one["type"] != "unexpected_keyword_argument")
        said = f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        said = " ".join(str(error).split())
    raise ValueError(f"{FILE}: {said.removeprefix(': ')}")
