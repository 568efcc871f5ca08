"""course.yml: everything that is decided about a course, read once and refused in one sentence.

`load` reads what can be judged by the file alone. Whether its exercises, students and points fit the book and
the roster is what `ppobook.course.checking` says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from ppobook import validation
from ppobook.course.limits import Limits
from ppobook.course.reading import Value, listed, optional, parse
from ppobook.run.spellings import did_you_mean

FILE = "course.yml"
LANGUAGES = ("en", "de", "fr", "es")
# What a check may find that is neither right nor nothing, see `ppobook.teaching.checks.Verdict`.
PARTIAL = ("so far", "property", "mistake")

# A student's id is a folder's name on every system, and never begins like a hidden file or an option.
STUDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}[A-Za-z0-9]|[A-Za-z0-9]")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)
_ADDRESS = r"https://[\w.-]+(:\d+)?/[\w./~-]+(@[\w./-]+)?"
_ADDRESS_FORM = "the address of the book's repository, https://HOST/OWNER/NAME, perhaps with @TAG"
_SITE = r"https?://[\w.-]+(:\d+)?(/[\w./~-]*)?"
_SITE_FORM = "the address of the book's site, such as https://HOST/NAME/"
_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


@dataclass(frozen=True)
class Assignment:
    """One assignment. No exercises mean all of its set; ``points`` has those that differ from the set's.

    ``title`` is what the learning platform calls it, the name if empty.
    """

    name: str
    set: str
    due: datetime
    exercises: tuple[str, ...] = ()
    points: Mapping[str, float] = field(default_factory=dict)
    total: float | None = None
    title: str = ""


@dataclass(frozen=True)
class Late:
    """The late policy: so long nothing is lost; then per cent of the points a day begun, for so many days."""

    grace: timedelta = timedelta()
    per_day: float = 0.0
    days: int = 0


@dataclass(frozen=True)
class Extension:
    """More time for one student and one assignment."""

    student: str
    assignment: str
    until: datetime
    reason: str = ""


@dataclass(frozen=True)
class Course:
    """A course: its folder, and what its course.yml says.

    ``book`` is where students install it from, ``site`` where they read it, for links in feedback.
    """

    folder: Path
    title: str
    begin: date
    end: date
    timezone: ZoneInfo
    secret: str = field(repr=False)
    assignments: tuple[Assignment, ...] = ()
    late: Late = Late()
    extensions: tuple[Extension, ...] = ()
    groups: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    ai_use: str = ""
    language: str = "en"
    grading: Limits = field(default_factory=Limits)
    partial: Mapping[str, float] = field(default_factory=dict)
    book: str = ""
    site: str = ""

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


def student_id(text: str) -> str | None:
    """Why a text is no student's id; None where it is one."""
    if not STUDENT.fullmatch(text) or ".." in text or _RESERVED.fullmatch(text):
        return "letters, digits, '.', '-', '_', '@' and '+', at most 64, for it names a folder"
    return None


# --- reading ------------------------------------------------------------------------------------------------


def load(folder: str | Path = ".") -> Course:
    """Read a course's course.yml.

    Raises
    ------
    FileNotFoundError
        The folder has none.
    ValueError
        Something in it is wrong; the message names the line and the key.
    """
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
    known = ("title", "term", "timezone", "secret", "assignments", "late", "extensions", "groups", "ai_use")
    values = parse(text, FILE).mapping(
        (*known, "feedback", "grading", "partial", "book", "site"), ("title", "term", "timezone", "secret")
    )
    zone = _zone(values["timezone"])
    term = values["term"].mapping(("begin", "end"), ("begin", "end"))
    begin, end = term["begin"].day(), term["end"].day()
    if end < begin:
        raise term["end"].wrong(f"after term.begin, {begin}")
    secret = values["secret"].matching(r"[0-9a-f]{64}", "64 hexadecimal digits (0-9, a-f)", secret=True)
    assignments: list[Assignment] = []
    for value in listed(values, "assignments"):
        assignment = _assignment(value, zone)
        if assignment.name in {one.name for one in assignments}:
            raise value.error(f"must have a name of its own, got {assignment.name!r} a second time")
        assignments.append(assignment)
    names = [one.name for one in assignments]
    extensions: list[Extension] = []
    for value in listed(values, "extensions"):
        extension = _extension(value, names, zone)
        if any((e.student, e.assignment) == (extension.student, extension.assignment) for e in extensions):
            raise value.error(f"must be the only one of {extension.student} for {extension.assignment}")
        extensions.append(extension)
    feedback = values["feedback"].mapping(("language",)) if "feedback" in values else {}
    return Course(
        folder=folder,
        title=values["title"].text(),
        begin=begin,
        end=end,
        timezone=zone,
        secret=secret,
        assignments=tuple(assignments),
        late=_late(values["late"]) if "late" in values else Late(),
        extensions=tuple(extensions),
        groups=_groups(values["groups"], names) if "groups" in values else {},
        ai_use=optional(values, "ai_use", Value.text, ""),
        language=optional(feedback, "language", lambda value: value.choice(LANGUAGES), "en"),
        grading=_grading(values["grading"]) if "grading" in values else Limits(),
        partial=_partial(values["partial"]) if "partial" in values else {},
        book=optional(values, "book", lambda value: value.matching(_ADDRESS, _ADDRESS_FORM), ""),
        site=optional(values, "site", lambda value: value.matching(_SITE, _SITE_FORM), ""),
    )


def _zone(value: Value) -> ZoneInfo:
    name, known = value.text("a time zone such as Europe/Berlin"), available_timezones()
    if name not in known:
        raise value.wrong("a time zone such as Europe/Berlin", validation.did_you_mean(name, known))
    return ZoneInfo(name)


def moment(value: Value, zone: ZoneInfo) -> datetime:
    """A moment in the course's time zone. Of an hour that comes twice, in autumn, the second is meant."""
    local = value.moment().replace(tzinfo=zone, fold=1)
    # In spring the clock leaves an hour out: a time in it comes back from UTC as another one.
    if local.astimezone(ZoneInfo("UTC")).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise value.wrong(f"a time that the clocks of {zone.key} show")
    return local


def _assignment(value: Value, zone: ZoneInfo) -> Assignment:
    known = ("name", "set", "exercises", "due", "points", "total", "title")
    values = value.mapping(known, ("name", "set", "due"))
    exercises = [one.text("an exercise's label").removeprefix("ex-") for one in listed(values, "exercises")]
    for one, label in zip(listed(values, "exercises"), exercises, strict=True):
        if exercises.count(label) > 1:
            raise one.error(f"must be chosen once, got {label!r} twice")
    points = values["points"].mapping() if "points" in values else {}
    return Assignment(
        name=values["name"].matching(_NAME, "small letters, digits and single hyphens"),
        set=values["set"].matching(
            r"\w[\w-]*(, *\w[\w-]*)*", "the name of an exercise set, or several with commas"
        ),
        due=moment(values["due"], zone),
        exercises=tuple(exercises),
        points={name: number.number(high=1000) for name, number in points.items()},
        total=optional(values, "total", lambda one: one.number(high=100_000), None),
        title=optional(values, "title", Value.text, ""),
    )


def _late(value: Value) -> Late:
    values = value.mapping(("grace", "per_day", "days"))
    return Late(
        grace=optional(values, "grace", Value.duration, timedelta()),
        per_day=optional(values, "per_day", lambda one: one.number(high=100), 0.0),
        days=optional(values, "days", Value.count, 0),
    )


def _extension(value: Value, names: list[str], zone: ZoneInfo) -> Extension:
    values = value.mapping(("student", "assignment", "until", "reason"), ("student", "assignment", "until"))
    return Extension(
        student=_student(values["student"]),
        assignment=values["assignment"].choice(names),
        until=moment(values["until"], zone),
        reason=optional(values, "reason", Value.text, ""),
    )


def _groups(value: Value, names: list[str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    result = {}
    for name, groups in value.mapping(names).items():
        seen: set[str] = set()
        made = []
        for group in groups.items():
            students = tuple(_student(one) for one in group.items())
            for one, student in zip(group.items(), students, strict=True):
                if student in seen:
                    raise one.error(f"must be in one group, got {student!r} twice")
                seen.add(student)
            made.append(students)
        result[name] = tuple(made)
    return result


def _student(value: Value) -> str:
    text = value.text("a student's id")
    if why := student_id(text):
        raise value.wrong(f"a student's id ({why})")
    return text


def _grading(value: Value) -> Limits:
    known = tuple(Limits.__dataclass_fields__)
    return Limits(**{name: one.count(low=1) for name, one in value.mapping(known).items()})


def _partial(value: Value) -> dict[str, float]:
    return {kind: share.number(high=1) for kind, share in value.mapping(PARTIAL).items()}
