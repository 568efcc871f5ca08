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
from zoneinfo import ZoneInfo, available_timezones

import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic import ValidationInfo as Info
from pydantic.dataclasses import dataclass

from ppobook import validation
from ppobook.course.limits import Limits
from ppobook.run.spellings import did_you_mean

FILE = "course.yml"
# A student's id names a folder, on every system, and must not look like a hidden file or an option.
STUDENT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._@+-]{0,62}[A-Za-z0-9])?")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)
STUDENT_FORM = "letters, digits, '.', '-', '_', '@' and '+', at most 64, because it names a folder"
_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_STRICT = ConfigDict(extra="forbid")
_KEYS = {
    "unexpected_keyword_argument": "there is no such key",
    "missing": "this key must be there, and is not",
}


def _form(pattern: str, words: str) -> AfterValidator:
    """A validator of a text that must match a pattern."""

    def judged(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {words}")
        return text

    return AfterValidator(judged)


def _once(what: str, values: Sequence[str]) -> None:
    for one in values:
        if values.count(one) > 1:
            raise ValueError(f"{what} must have {one!r} once, got it twice")


def is_student_id(text: str) -> bool:
    """Return whether a text can be a student's id: see ``STUDENT_FORM``."""
    return bool(STUDENT.fullmatch(text)) and ".." not in text and not _RESERVED.fullmatch(text)


def _student(text: str) -> str:
    if not is_student_id(text):
        raise ValueError(f"must be a student's id ({STUDENT_FORM})")
    return text


def day(text: str, name: str = "") -> date:
    """A day such as 2027-03-01; a message calls it by `name`."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{name} must be a date such as 2027-03-01, got {text!r}".strip()) from None


def moment(text: str, zone: ZoneInfo, name: str = "") -> datetime:
    """A moment in a time zone; the end of the day where no time stands. A message calls it by `name`.

    Of an hour that comes twice, in autumn, the second is meant.
    """
    try:
        text = f"{text} 23:59" if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else text
        return datetime.strptime(text.replace("T", " "), "%Y-%m-%d %H:%M").replace(tzinfo=zone, fold=1)
    except ValueError:
        expected = "a date and time such as 2027-03-01 23:59"
        raise ValueError(f"{name} must be {expected}, got {text!r}".strip()) from None


def _moment(value: Any, info: Info) -> Any:
    return moment(value, (info.context or {})["zone"]) if isinstance(value, str) else value


def _span(value: str | timedelta) -> timedelta:
    if isinstance(value, timedelta):
        return value
    found = re.fullmatch(rf"(\d{{1,5}}) *({'|'.join(_UNITS)})s?", str(value))
    if found is None:
        raise ValueError("must be a time such as 15 minutes, 1 hour or 2 days")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def _limits(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    known = Limits.__dataclass_fields__
    for key, number in value.items():
        if key not in known or not re.fullmatch(r"[1-9]\d{0,9}", str(number)):
            raise ValueError(f"must have integers of at least 1 for {', '.join(known)}, got {key}: {number}")
    return Limits(**{key: int(number) for key, number in value.items()})


Day = Annotated[date, BeforeValidator(lambda value: day(value) if isinstance(value, str) else value)]
Share = Annotated[float, Field(ge=0, le=1)]
Student = Annotated[str, AfterValidator(_student)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Label = Annotated[str, AfterValidator(lambda label: label.removeprefix("ex-"))]


@dataclass(frozen=True, config=_STRICT)
class Term:
    """The first and the last day of a course."""

    begin: Day
    end: Day


@dataclass(frozen=True, config=_STRICT)
class Assignment:
    """One assignment. No exercises mean all of its set; ``points`` has those that differ from the set's.

    ``title`` is what the learning platform calls it, the name if empty. ``partial`` has for some parts the
    share of the points that a named mistake leaves.
    """

    name: Annotated[str, _form(r"[a-z0-9]+(-[a-z0-9]+)*", "small letters, digits and single hyphens")]
    set: Annotated[
        str, _form(r"\w[\w-]*(, *\w[\w-]*)*", "the name of an exercise set, or several with commas")
    ]
    due: Moment
    exercises: tuple[Label, ...] = ()
    points: Mapping[str, Annotated[float, Field(ge=0, le=1000)]] = field(default_factory=dict)
    total: Annotated[float, Field(ge=0, le=100_000)] | None = None
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
    secret: Annotated[str, _form(r"[0-9a-f]{64}", "64 hexadecimal digits")] = field(repr=False)
    assignments: tuple[Assignment, ...] = ()
    late: Late = field(default_factory=Late)
    groups: Mapping[str, tuple[tuple[Student, ...], ...]] = field(default_factory=dict)
    ai_use: str = ""
    grading: Annotated[Limits, BeforeValidator(_limits)] = field(default_factory=Limits)
    book: str = ""

    def __post_init__(self) -> None:
        names = [one.name for one in self.assignments]
        _once("assignments", names)
        for name, groups in self.groups.items():
            if name not in names:
                raise ValueError(f"groups must be for {validation.one_of(names)}, got {name!r}")
            _once(f"groups.{name}", [student for group in groups for student in group])

    def assignment(self, name: str) -> Assignment:
        """The assignment of this name."""
        for one in self.assignments:
            if one.name == name:
                return one
        names = [one.name for one in self.assignments]
        raise ValueError(
            f"the assignment must be {validation.one_of(names)}, got {name!r}{did_you_mean(name, names)}"
        )

    def group(self, assignment: str, student: str) -> tuple[str, ...]:
        """The students with whom one submission counts; the student alone where there is no group."""
        for group in self.groups.get(assignment, ()):
            if student in group:
                return group
        return (student,)


# --- reading ------------------------------------------------------------------------------------------------


def load(folder: str | Path = ".") -> Course:
    """Read a course's course.yml; an error names the key."""
    folder = validation.path("course", folder, "a course's folder").resolve()
    try:
        text = (folder / FILE).read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"course must be a course's folder, the one with {FILE}, got {str(folder)!r}; "
            "`ppobook course new FOLDER` makes one"
        ) from None
    return read(text, folder)


class _Loader(yaml.BaseLoader):
    """A loader that leaves scalars as they were written: `no` can be a student, and `007` an id."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping, without the keys that have no value."""
        keys = [str(key.value) for key, _ in node.value]
        _once(f"line {node.start_mark.line + 1}: a mapping", keys)
        return {key: value for key, value in super().construct_mapping(node, deep).items() if value != ""}


def read(text: str, folder: Path) -> Course:
    """A course from the text of its course.yml."""
    try:
        content = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{FILE}: it must be YAML; {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise ValueError(f"{FILE}, {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{FILE}: it must have a title, a term, a timezone and a secret")
    zone = content.get("timezone")
    if zone not in available_timezones():
        hint = did_you_mean(str(zone), available_timezones())
        raise ValueError(f"{FILE}: timezone must be a time zone such as Europe/Berlin, got {zone!r}{hint}")
    content |= {"folder": folder, "timezone": ZoneInfo(zone)}
    try:
        return TypeAdapter(Course).validate_python(content, context={"zone": ZoneInfo(zone)})
    except ValidationError as error:
        raise ValueError(_said(error)) from None


def _said(error: ValidationError) -> str:
    """Say in one sentence what is wrong."""
    # An unknown key first: where one is misspelled, another seems to be missing.
    first = min(error.errors(), key=lambda one: one["type"] != "unexpected_keyword_argument")
    place = ".".join(str(one) for one in first["loc"])
    said = _KEYS.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    return f"{FILE}: {place}: {said}" if place else f"{FILE}: {said}"
