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
        local = datetime.strptime(text.replace("T", " "), "%Y-%m-%d %H:%M").replace(tzinfo=zone, fold=1)
    except ValueError:
        expected = "a date and time such as 2027-03-01 23:59"
        raise ValueError(f"{name} must be {expected}, got {text!r}".strip()) from None
    # In spring the clock leaves an hour out: a time in it comes back from UTC as another one.
    if local.astimezone(ZoneInfo("UTC")).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise ValueError(f"{name} must be a time that the clocks of {zone.key} show, got {text!r}".strip())
    return local


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
        if key not in known:
            raise ValueError(f"must have no key {key!r}{did_you_mean(key, known)}")
        if not re.fullmatch(r"[1-9]\d{0,9}", str(number)):
            raise ValueError(f"must have integers of at least 1: {key}")
    return Limits(**{key: int(number) for key, number in value.items()})


Day = Annotated[date, BeforeValidator(lambda value: day(value) if isinstance(value, str) else value)]
Share = Annotated[float, Field(ge=0, le=1)]
Verdict = Annotated[str, _form("so far|property|mistake", "so far, property or mistake")]
Student = Annotated[str, AfterValidator(_student)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Label = Annotated[str, AfterValidator(lambda label: label.removeprefix("ex-"))]
Address = Annotated[
    str,
    _form(
        r"(https://[\w.-]+(:\d+)?/[\w./~-]+(@[\w./-]+)?)?",
        "the address of the book's repository, https://HOST/OWNER/NAME, perhaps with @TAG",
    ),
]
Site = Annotated[str, _form(r"(https?://[\w.-]+(:\d+)?(/[\w./~-]*)?)?", "such as https://HOST/NAME/")]


@dataclass(frozen=True, config=_STRICT)
class Term:
    """The first and the last day of a course."""

    begin: Day
    end: Day

    def __post_init__(self) -> None:
        if self.end < self.begin:
            raise ValueError(f"must end after it begins, {self.begin}")


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

    def __post_init__(self) -> None:
        _once("exercises", self.exercises)


@dataclass(frozen=True, config=_STRICT)
class Late:
    """The late policy: so long nothing is lost; then per cent of the points a day begun, for so many days."""

    grace: Annotated[timedelta, BeforeValidator(_span)] = timedelta()
    per_day: Annotated[float, Field(ge=0, le=100)] = 0.0
    days: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, config=_STRICT)
class Extension:
    """More time for one student and one assignment."""

    student: Student
    assignment: str
    until: Moment
    reason: str = ""


@dataclass(frozen=True, config=_STRICT)
class Course:
    """A course: its folder, and what its course.yml says.

    ``book`` is where students install it from, ``site`` where they read it, for links in feedback.
    """

    folder: Path
    title: str
    term: Term
    timezone: ZoneInfo
    secret: Annotated[str, _form(r"[0-9a-f]{64}", "64 hexadecimal digits")] = field(repr=False)
    assignments: tuple[Assignment, ...] = ()
    late: Late = field(default_factory=Late)
    extensions: tuple[Extension, ...] = ()
    groups: Mapping[str, tuple[tuple[Student, ...], ...]] = field(default_factory=dict)
    ai_use: str = ""
    grading: Annotated[Limits, BeforeValidator(_limits)] = field(default_factory=Limits)
    partial: Mapping[Verdict, Share] = field(default_factory=dict)
    book: Address = ""
    site: Site = ""

    def __post_init__(self) -> None:
        names = [one.name for one in self.assignments]
        _once("assignments", names)
        for one in [extension.assignment for extension in self.extensions] + list(self.groups):
            if one not in names:
                hint = did_you_mean(one, names)
                raise ValueError(
                    f"extensions and groups must be for one of the assignments, got {one!r}{hint}"
                )
        _once("extensions", [f"{one.student} for {one.assignment}" for one in self.extensions])
        for name, groups in self.groups.items():
            _once(f"groups.{name}", [student for group in groups for student in group])

    @property
    def begin(self) -> date:
        """The first day of the term."""
        return self.term.begin

    @property
    def end(self) -> date:
        """The last day of the term."""
        return self.term.end

    def assignment(self, name: str) -> Assignment:
        """The assignment of this name."""
        for one in self.assignments:
            if one.name == name:
                return one
        names = [one.name for one in self.assignments]
        if not names:
            raise ValueError(f"the assignment must be one of {FILE}, which has none yet, got {name!r}")
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
    """Read a course's course.yml; an error names the line and the key."""
    folder = validation.path("course", folder, "a course's folder").resolve()
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"course must be a course's folder, the one with {FILE}, got {str(folder)!r}; "
            "`ppobook course new FOLDER` makes one"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be UTF-8 text") from None
    return read(text, folder)


def read(text: str, folder: Path) -> Course:
    """A course from the text of its course.yml."""
    lines: dict[tuple[Any, ...], int] = {}
    try:
        content = _plain(yaml.compose(text, Loader=yaml.BaseLoader), (), lines)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{FILE}: it must be YAML; {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{FILE}: it must have a title, a term, a timezone and a secret")
    zone = content.get("timezone")
    if zone not in available_timezones():
        line, hint = lines.get(("timezone",), 1), did_you_mean(str(zone), available_timezones())
        raise ValueError(
            f"{FILE}, line {line}: timezone must be a time zone such as Europe/Berlin, got {zone!r}{hint}"
        )
    try:
        return TypeAdapter(Course).validate_python(
            {**content, "folder": folder, "timezone": ZoneInfo(zone)}, context={"zone": ZoneInfo(zone)}
        )
    except ValidationError as error:
        raise ValueError(_said(error, lines)) from None


def _plain(node: Any, place: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> Any:
    """The content of a YAML node, every scalar as the text that was written, and the line of each value.

    So `no` can be a student, and `007` an id. A key without a value is left out.
    """
    if node is None:
        return None
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [_plain(one, (*place, i), lines) for i, one in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return node.value.strip()
    content: dict[str, Any] = {}
    for key, value in node.value:
        name = str(key.value)
        if name in content:
            line = key.start_mark.line + 1
            raise ValueError(f"{FILE}, line {line}: the key {name!r} must stand once, and stands twice")
        found = _plain(value, (*place, name), lines)
        if found != "":
            content[name] = found
    return content


def _said(error: ValidationError, lines: Mapping[tuple[Any, ...], int]) -> str:
    """Say in one sentence what is wrong, with the line."""
    # An unknown key first: where one is misspelled, another seems to be missing.
    first = min(error.errors(), key=lambda one: one["type"] != "unexpected_keyword_argument")
    loc = tuple(one for one in first["loc"] if one != "[key]")
    place = re.sub(r"\.\[", "[", ".".join(f"[{one}]" if isinstance(one, int) else one for one in loc))
    line = next((lines[loc[:n]] for n in range(len(loc), 0, -1) if loc[:n] in lines), 0)
    where = f"{FILE}, line {line}:" if line else f"{FILE}:"
    if first["type"] == "unexpected_keyword_argument":
        models: dict[str, Any] = {"term": Term, "late": Late, "assignments": Assignment}
        model = Course if len(loc) == 1 else models.get(str(loc[0]), Extension)
        known = [name for name in model.__dataclass_fields__ if name != "folder"]
        hint = did_you_mean(str(loc[-1]), known) or f"; the keys are {', '.join(known)}"
        return f"{where} there is no key {place!r}{hint}"
    if first["type"] in ("missing", "missing_argument"):
        return f"{where} it must have the key {place!r}, which is missing"
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    said = said.replace("a valid tuple", "a list")
    said = re.sub(r"a (valid )?dictionary( or an instance of \w+)?", "a mapping", said)
    got = first["input"]
    shown = f", got {got!r}" if isinstance(got, str) and "got" not in said and loc != ("secret",) else ""
    return f"{where} {place} {said}{shown}" if said.startswith("must") else f"{where} {said}"
