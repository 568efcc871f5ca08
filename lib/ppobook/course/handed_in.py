"""Owners and times of submissions: names as students, Moodle, Canvas and git hosts write them.

- a git host: a folder for each student, a clone: `ada`, `week-03-ada`; the time is that of the last commit
- Moodle: `Ada Lovelace_4711_assignsubmission_file_`, a folder, or the beginning of a file's name
- Canvas: `lovelaceada_LATE_101_5512_week-03-1.ipynb`, with the numbers of user and file
- else a zip, a notebook or a folder that is called by a student's id: `ada.zip`, `ada_week-03.ipynb`, `ada/…`
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from ppobook.course import archives, rebuild
from ppobook.course.archives import CLASS, STUDENT, File, RefusedError, Source, is_clone, moment
from ppobook.course.lateness import deadline
from ppobook.course.rebuild import whole
from ppobook.course.roster import Student
from ppobook.course.settings import Assignment, Course

_MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)")
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<user>\d+)_(?P<file>\d+)_(?P<rest>.+)")
# Canvas numbers a file that is handed in again under its name: week-03-1.ipynb.
_AGAIN = re.compile(r"(.+)-(\d{1,3})")


@dataclass
class HandedIn:
    """One submission of a source. ``student`` is None where nobody of the roster could be found.

    ``notebooks`` are names and bytes, ``saved`` their times where they are known, ``original`` is what came,
    where that was a zip or no notebook at all.
    """

    label: str
    kind: str
    name: str
    student: str | None
    time: datetime
    time_from: str
    notebooks: list[tuple[str, bytes]] = field(default_factory=list)
    saved: list[datetime | None] = field(default_factory=list)
    original: tuple[str, bytes] | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Group:
    """The files that belong to one submission: whose it is, and what its name says."""

    label: str
    kind: str
    files: tuple[File, ...]
    number: str = ""
    person: str = ""
    late: bool = False


@dataclass(frozen=True)
class Pending:
    """A submission that is found and not yet read; ``time`` is for where it has none."""

    group: Group
    source: Source
    time: datetime
    clone: Path | None = None
    bulk: bool = False  # whether all of the source is a download of one platform


def plain(text: str) -> str:
    """A name by its letters and digits alone, without accents: what platforms leave of it."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(one for one in decomposed if one.isalnum() and not unicodedata.combining(one))


def whose(group: Group, students: Sequence[Student], assignment: str) -> str | None:
    """The id of the student whom a submission's name means; None where nobody or several may be meant."""
    label = group.label.lower()
    ids = {one.student_id.lower(): one.student_id for one in students}
    named = _called(group.person or group.label, students)
    if group.kind == "moodle":
        # The number behind the name is that of the submission; "Participant 123" stands for a hidden name.
        hidden = re.fullmatch(r"\w+ (\d+)", group.person)
        return _only(named) or _only(
            {one.student_id for one in students if hidden and hidden[1] == one.lms_id}
        )
    if group.kind == "canvas":
        numbered = {one.student_id for one in students if group.number in (one.lms_id, one.student_id)}
        return _only(named & numbered) or _only(named | numbered)
    if label in ids:
        return ids[label]
    label = label.removeprefix(assignment).strip("-_. ")
    if label in ids:
        return ids[label]
    # The longest, so that "ada" is not taken for "ada-b".
    beside = [
        one for one in ids if re.fullmatch(rf"{re.escape(one)}[-_. (].*|.*[-_. ]{re.escape(one)}", label)
    ]
    longest = {ids[one] for one in beside if not any(one != other and one in other for other in beside)}
    return _only(longest) or _only(named)


def _called(person: str, students: Sequence[Student]) -> set[str]:
    """The ids of the students of this name, first or last name first."""
    name, found = plain(person), set()
    for one in students:
        first, last = plain(one.first_name), plain(one.last_name)
        if name and name in (first + last, last + first):
            found.add(one.student_id)
    return found


def _only(found: set[str]) -> str | None:
    return next(iter(found)) if len(found) == 1 else None


def read(
    path: Path,
    course: Course,
    assignment: Assignment,
    students: Sequence[Student],
    student: str | None = None,
) -> tuple[list[Pending], list[str]]:
    """The submissions of a source, not yet read, and what was left out of it.

    A source is a folder, a zip of a platform, or one student's file; with a student, it is their file.

    Raises
    ------
    ValueError
        It is neither, or damaged.
    """
    if student is not None and path.is_dir():
        raise ValueError(f"source must be one file of {student}, got the folder {str(path)!r}")
    if not path.exists():
        raise FileNotFoundError(f"source must be a folder or a zip, got {str(path)!r}, which is not there")
    pending: list[Pending] = []
    bulk = False
    time = moment(path.stat().st_mtime)
    if student is not None:
        file = File((whole(path.name),), time, path.read_bytes)
        return [Pending(Group(student, "file", (file,)), Source([file]), time)], []
    if path.is_dir():
        clones = [one for one in (path, *sorted(path.iterdir())) if one.is_dir() and is_clone(one)]
        pending += [Pending(Group(whole(one.name), "git", ()), Source(), time, one) for one in clones]
        source = archives.of_folder(path)
        inside = [tuple(map(whole, one.relative_to(path).parts)) for one in clones]
        source.files = [one for one in source.files if not any(one.parts[: len(c)] == c for c in inside)]
    elif path.suffix.lower() == ".zip" and not _is_one(path, students, assignment):
        try:
            source = archives.of_zip(path, course.timezone, CLASS)
            bulk = all(len(one.parts) == 1 and _CANVAS.fullmatch(one.parts[0]) for one in source.files)
        except RefusedError as error:
            raise ValueError(f"source {path.name!r}: {error}") from None
    else:
        source = Source([File((whole(path.name),), time, path.read_bytes)])
    tops = {one.parts[0] for one in source.files}
    while len(tops) == 1 and all(len(one.parts) > 1 for one in source.files):
        top = tops.pop()
        if _MOODLE.fullmatch(top) or whose(Group(top, "file", ()), students, assignment.name):
            break
        # Everything lies in one folder that is nobody's.
        source.files = [File(one.parts[1:], one.time, one.read) for one in source.files]
        source.notes = [(parts[1:], said) for parts, said in source.notes]
        tops = {one.parts[0] for one in source.files}
    pending += [Pending(group, source, time, bulk=bulk) for group in _groups(source.files)]
    return pending, [said for _, said in source.notes]


def _is_one(path: Path, students: Sequence[Student], assignment: Assignment) -> bool:
    """Return whether a zip is one student's, by its name."""
    return whose(Group(path.stem, "file", ()), students, assignment.name) is not None


def _groups(files: Sequence[File]) -> Iterator[Group]:
    """The files by submission."""
    found: dict[tuple[str, str], list[File]] = {}
    facts: dict[tuple[str, str], dict[str, str]] = {}
    for file in files:
        top = file.parts[0]
        alone = len(file.parts) == 1
        if moodle := _MOODLE.fullmatch(top):
            key, known = ("moodle", moodle["name"] + "_" + moodle["number"]), moodle.groupdict()
            if alone:
                file = File((moodle["rest"] or top,), file.time, file.read)
        elif alone and (canvas := _CANVAS.fullmatch(top)):
            key, known = ("canvas", f"{canvas['name']}_{canvas['user']}"), canvas.groupdict()
            file = File((canvas["rest"],), file.time, file.read)
        else:
            key, known = ("file", PurePosixPath(top).stem if alone else top), {}
        found.setdefault(key, []).append(file)
        facts[key] = known
    for (kind, label), group in found.items():
        known = facts[kind, label]
        yield Group(
            label,
            kind,
            tuple(group),
            number=(known.get("user") or known.get("number") or ""),
            person=known.get("name") or "",
            late=bool(known.get("late")),
        )


_NOTEBOOKS = 100
_ARCHIVES = frozenset((".zip", ".rar", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz"))
_UNPACK = "unpack it into a folder with the student's id, and collect that, or ask for the notebook alone"


def opened(pending: Pending, course: Course, assignment: Assignment, students: Sequence[Student]) -> HandedIn:
    """Read one submission: its notebooks, also those in a zip, and its time."""
    group = pending.group
    student = whose(group, students, assignment.name)
    if pending.clone is not None:
        return _of_clone(group, pending, student)
    name = "/".join(group.files[0].parts)
    made = HandedIn(group.label, group.kind, name, student, pending.time, "the time of the source")
    made.notes += [said for parts, said in pending.source.notes if parts and parts[0].startswith(group.label)]
    times: list[datetime] = []
    for file in group.files:
        try:
            _take(file, made, course, times)
        except RefusedError as error:
            made.notes.append(f"{file.name}: {error}")
    if times:
        made.time, made.time_from = max(times), "the time of the file"
    if group.kind == "canvas":
        due = deadline(course, assignment, student or "")
        if not group.late and made.time > due:
            # Its zips have the time of the download; without LATE in its name a file came in time. But in a
            # folder, or among other files, such a name may be the student's own.
            if pending.bulk:
                made.time, made.time_from = due.astimezone(UTC), "Canvas: not late"
            else:
                made.notes.append(
                    "its name is as Canvas gives them, which says nothing of its time here; collect Canvas's "
                    "zip as it was downloaded, or give --times"
                )
        elif group.late:
            made.notes.append("Canvas says that it is late, not when it came; --times gives that")
    return made


def _add(made: HandedIn, file: File) -> None:
    """Read a notebook of a submission, within what all of them together may hold."""
    if len(made.notebooks) >= _NOTEBOOKS:
        raise RefusedError(f"a submission must hold at most {_NOTEBOOKS} notebooks, got more")
    content = file.read()
    if sum(len(other) for _, other in made.notebooks) + len(content) > STUDENT.total:
        raise RefusedError(f"a submission must hold at most {STUDENT.total >> 20} MB of notebooks, got more")
    made.notebooks.append((file.name, content))
    made.saved.append(file.time)


def _take(file: File, made: HandedIn, course: Course, times: list[datetime]) -> None:
    """Put a file of a submission where it belongs."""
    suffix = PurePosixPath(file.name).suffix.lower()
    if suffix == ".ipynb":
        _add(made, file)
    elif suffix == ".zip":
        content = file.read()
        made.original = file.name, content
        inner = archives.of_zip(content, course.timezone)
        made.notes += [said for _, said in inner.notes]
        for one in inner.files:
            inside = PurePosixPath(one.name).suffix.lower()
            if inside == ".ipynb":
                _add(made, one)
            elif inside in _ARCHIVES:
                made.notes.append(f"{file.name} has another archive in it, {one.name}: {_UNPACK}")
    elif made.original is None:
        made.original = file.name, file.read()
        if suffix in _ARCHIVES:
            made.notes.append(f"{file.name} is no zip: {_UNPACK}")
    if file.time is not None:
        times.append(file.time)


def _of_clone(group: Group, pending: Pending, student: str | None) -> HandedIn:
    clone = pending.clone
    assert clone is not None
    made = HandedIn(group.label, "git", whole(clone.name), student, pending.time, "the time of the source")
    try:
        source, made.time = archives.of_clone(clone)
        made.time_from = "the commit, which its author may have dated"
        made.notes += [said for _, said in source.notes]
        for file in source.files:
            if PurePosixPath(file.name).suffix.lower() == ".ipynb":
                _add(made, file)
    except RefusedError as error:
        made.notes.append(str(error))
    return made


@dataclass(frozen=True)
class Asked:
    """The features that tell an assignment's notebook from others.

    Attributes
    ----------
    file : str
        The name of the pack's notebook.
    ids : frozenset of str
        The ids of the cells that students fill in.
    blank : frozenset of str
        The sources of all cells as they were handed out.
    others : mapping from str to frozenset of str
        The ids of the other assignments, by name.
    """

    file: str
    ids: frozenset[str] = frozenset()
    blank: frozenset[str] = frozenset()
    others: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def held(self, content: bytes) -> int:
        """Count how many of the cells that students fill in are in a notebook."""
        return _held(content, self.ids)

    def other(self, content: bytes) -> str | None:
        """The assignment whose notebook it is; None where it may be this one's, or nobody's."""
        counts = {name: _held(content, ids) for name, ids in self.others.items()}
        best = max(counts, key=lambda name: counts[name], default="")
        return best if best and counts[best] and not self.held(content) else None


def _held(content: bytes, ids: frozenset[str]) -> int:
    return sum(f'"{one}"'.encode() in content for one in ids)


def pick(made: HandedIn, asked: Asked) -> int | None:
    """Choose the notebook of a submission; None where there is none, or none of this assignment's.

    Of several it is one with the pack's cells or name; of several such, one that was written in; of these the
    one that was saved last. A note says so.
    """
    read: dict[int, bool] = {}
    for i, (name, content) in enumerate(made.notebooks):
        try:
            found = {source.strip() for source in rebuild.sources(content)}
        except rebuild.Unreadable as error:
            made.notes.append(f"{name} can't be read: {error}")
            continue
        if other := asked.other(content):
            made.notes.append(f"{name} is the notebook of {other}")
            continue
        read[i] = not found <= asked.blank
    if not read:
        return None

    def judged(i: int) -> tuple[bool, bool, int, float, bool, int, int, int]:
        name, content = made.notebooks[i]
        stem, again = PurePosixPath(name).stem, 0
        pack = PurePosixPath(asked.file).stem
        if made.kind == "canvas" and stem != pack and (found := _AGAIN.fullmatch(stem)):
            stem, again = found[1], int(found[2])
        held, time = asked.held(content), made.saved[i]
        named = stem.lower() == pack.lower()
        saved = time.timestamp() if time else 0.0
        return held > 0 or named, read[i], again, saved, named, held, len(content), -i

    best = max(read, key=judged)
    name = made.notebooks[best][0]
    if len(made.notebooks) > 1:
        made.notes.append(f"there are {len(made.notebooks)} notebooks; {name} was taken")
    elif not judged(best)[4]:
        made.notes.append(f"the notebook is called {name} and not {asked.file}")
    return best
