"""Owners and times of submissions: names as students, Moodle, Canvas and git hosts write them.

- a git host: a folder for each student, a clone: `ada`, `week-03-ada`; the time is that of the last commit
- Moodle: `Ada Lovelace_4711_assignsubmission_file_`, a folder, or the beginning of a file's name; the name of
  a group and a hyphen may stand in front, and blind marking puts `Participant` in the name's place
- Canvas: `lovelaceada_LATE_101_5512_week-03-1.ipynb`, or `anon_x7Qd2_5512_…` where names are hidden; in a
  zip, most of whose files have such names
- else a zip, a notebook or a folder that is called by a student's id: `ada.zip`, `ada_week-03.ipynb`, `ada/…`
"""

from __future__ import annotations

import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from ppobook.course import archives, rebuild
from ppobook.course.archives import LARGEST, File, RefusedError, moment
from ppobook.course.rebuild import whole
from ppobook.course.records import Pack
from ppobook.course.roster import Student
from ppobook.course.settings import Course
from ppobook.teaching.tags import part

MOODLE = re.compile(r"(?P<name>[^/]+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)")
CANVAS = re.compile(
    r"(?P<name>[^_/]*)_(?P<late>LATE_)?(?P<number>[A-Za-z0-9]+)_(?P<file>\d+)_(?P<rest>[^/]+)"
)
_MOST = 100  # notebooks of a submission
_TOTAL = 4 * LARGEST  # bytes of all notebooks of a submission


@dataclass
class HandedIn:
    """One submission of a source, where it is called ``label``.

    ``student`` is None where nobody of the roster could be found, or several; ``time`` where the source does
    not know it. ``late`` is what the platform says. ``notebooks`` have a name, their content and a time;
    ``original`` is what came, where that was a zip or no notebook at all.
    """

    label: str
    student: str | None
    files: list[File]
    time: datetime | None = None
    late: bool = False
    notebooks: list[tuple[str, bytes, datetime | None]] = field(default_factory=list)
    original: tuple[str, bytes] | None = None
    notes: list[str] = field(default_factory=list)


# --- whose it is --------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """A name by its letters and digits alone, without accents: what platforms leave of it."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(one for one in decomposed if one.isalnum() and not unicodedata.combining(one))


def _called(person: str, students: Sequence[Student]) -> set[str]:
    """The ids of the students of this name, first or last name first."""
    name = plain(person)
    pairs = ((one, plain(one.first_name), plain(one.last_name)) for one in students)
    return {one.student_id for one, first, last in pairs if name and name in (first + last, last + first)}


def _only(found: set[str]) -> str | None:
    return next(iter(found)) if len(found) == 1 else None


def of_platform(person: str, number: str, students: Sequence[Student], lasting: bool) -> str | None:
    """The student of a name on a platform; or of a number, where names are hidden or numbers are `lasting`.

    A group's name and a hyphen may stand in front of the name.
    """
    words = person.split("-")
    numbered = {one.student_id for one in students if number in (one.lms_id, one.student_id)}
    if plain(words[-1]) in ("anon", "participant"):
        return _only(numbered)
    found = (_called("-".join(words[begin:]), students) for begin in range(len(words)))
    named = next(filter(None, found), set())
    # A name that is another's than the number is nobody's.
    return _only(named & numbered) or _only(named | numbered if lasting else named)


def _of_file(label: str, students: Sequence[Student], assignment: str) -> str | None:
    """The student whose id a file's name begins or ends with, or whose name it is."""
    ids = {one.student_id.lower(): one.student_id for one in students}
    for name in (label.lower(), label.lower().removeprefix(assignment).strip("-_. ")):
        if name in ids:
            return ids[name]
    # The longest, so that "ada" is not taken for "ada-b".
    beside = [
        one for one in ids if re.fullmatch(rf"{re.escape(one)}[-_. (].*|.*[-_. ]{re.escape(one)}", name)
    ]
    longest = {ids[one] for one in beside if not any(one != other and one in other for other in beside)}
    return _only(longest) or _only(_called(name, students))


# --- the submissions of a source ----------------------------------------------------------------------------


def read(
    path: Path, course: Course, assignment: str, students: Sequence[Student], student: str | None = None
) -> tuple[list[HandedIn], list[str]]:
    """The submissions of a source, not yet read, and what was left out of it.

    A source is a folder, a zip of a platform, or one student's file; with a student, it is their file.
    """
    if not path.exists() or (student is not None and path.is_dir()):
        expected = "a folder or a zip" if student is None else f"one file of {student}"
        raise ValueError(f"source must be {expected}, got {str(path)!r}")
    time = moment(path.stat().st_mtime)
    alone = File((whole(path.name),), time, lambda: archives.of_file(path))
    if student is not None:
        return [HandedIn(student, student, [alone])], []
    files, notes = [alone], list[str]()
    if path.is_dir():
        files, notes = archives.of_folder(path)
        commits = {whole(one.parent.name): archives.committed(one.parent) for one in path.glob("*/.git")}
        files = [replace(one, time=commits.get(one.parts[0]) or one.time) for one in files]
    elif path.suffix.lower() == ".zip" and not _of_file(path.stem, students, assignment):
        try:
            files = archives.of_zip(path, course.timezone)
        except RefusedError as error:
            raise ValueError(f"source {path.name!r}: {error}") from None
    return _grouped(files, time, students, assignment, path.suffix.lower() == ".zip"), notes


def _grouped(
    files: list[File], time: datetime, students: Sequence[Student], assignment: str, in_zip: bool
) -> list[HandedIn]:
    """The files by submission; one whose files have no time has that of the source."""
    found: dict[str, HandedIn] = {}
    # A student may have chosen such a name, but not those of most of a class in a platform's zip.
    like = sum(len(one.parts) == 1 and bool(CANVAS.fullmatch(one.name)) for one in files)
    canvas = in_zip and 2 * like > len(files)
    if canvas:  # in the order in which they came; their own times are that of the download
        numbered = [(one, CANVAS.fullmatch(one.name)) for one in files]
        numbered.sort(key=lambda pair: int(pair[1]["file"]) if pair[1] else 0)
        files = [replace(one, time=None) for one, _ in numbered]
    for file in files:
        top, alone, late = file.parts[0], len(file.parts) == 1, False
        # Canvas first: the rest of its names is the student's, who may write it as Moodle would.
        if named := canvas and CANVAS.fullmatch(top):
            label = f"{named['name']}_{named['number']}"
            student = of_platform(named["name"], named["number"], students, True)
            late = bool(named["late"])
        elif moodle := MOODLE.fullmatch(top):
            label = f"{moodle['name']}_{moodle['number']}"
            student = of_platform(moodle["name"], moodle["number"], students, False)
        else:
            label = PurePosixPath(top).stem if alone else top
            student = _of_file(label, students, assignment)
        made = found.setdefault(label, HandedIn(label, student, [], None if canvas else time))
        made.files.append(file)
        made.late |= late
    count = Counter(one.student for one in found.values())
    for one in found.values():
        if one.student and (names := count[one.student]) > 1:
            one.notes.append(f"{one.label!r} is one of {names} names in this source that match {one.student}")
    return list(found.values())


def open_files(made: HandedIn, course: Course) -> None:
    """Read the files of one submission: its notebooks, also those in a zip, and its time."""
    for file in made.files:
        suffix = PurePosixPath(file.name).suffix.lower()
        try:
            inside = [file]
            if suffix == ".zip" or (suffix != ".ipynb" and made.original is None):
                made.original = file.name, file.read()
            if suffix == ".zip" and made.original:
                inside = archives.of_zip(made.original[1], course.timezone)
            for one in inside:
                if one.name.lower().endswith(".ipynb"):
                    content = one.read()
                    total = sum(len(other) for _, other, _ in made.notebooks) + len(content)
                    if len(made.notebooks) >= _MOST or total > _TOTAL:
                        raise RefusedError(
                            f"a submission must hold at most {_MOST} notebooks of {_TOTAL >> 20} MB"
                        )
                    made.notebooks.append((one.name, content, one.time))
        except RefusedError as error:
            made.notes.append(f"{file.name}: {error}")
    times = [file.time for file in made.files if file.time is not None]
    if times:
        made.time = max(times)


# --- which notebook -----------------------------------------------------------------------------------------


def pick(made: HandedIn, name: str, handed_out: Mapping[str, Pack]) -> int | None:
    """Choose the notebook of a submission; None where there is none, or none of this assignment's.

    Of several it is one with cells of the pack; of several such, one that was written in; of these the one
    that was saved last. A note says so. `handed_out` has the packs by assignment.
    """
    blank = (
        {cell["source"].strip() for cell in handed_out[name].notebook["cells"]} if name in handed_out else ()
    )
    judged: dict[int, tuple[bool, bool, float, int]] = {}
    for i, (file, content, time) in enumerate(made.notebooks):
        try:
            found = {source.strip() for source in rebuild.sources(content)}
        except rebuild.Unreadable as error:
            made.notes.append(f"{file} can't be read: {error}")
            continue
        whose = [one for one, pack in handed_out.items() if _is_of(content, pack)]
        if whose and name not in whose:
            made.notes.append(f"{file} is the notebook of {whose[0]}")
            continue
        judged[i] = name in whose, not found <= set(blank), time.timestamp() if time else 0.0, i
    if not judged:
        return None
    taken = max(judged, key=lambda i: judged[i])
    if len(made.notebooks) > 1:
        made.notes.append(f"there are {len(made.notebooks)} notebooks; {made.notebooks[taken][0]} was taken")
    return taken


def _is_of(content: bytes, pack: Pack) -> bool:
    """Return whether a notebook has a cell of a pack that students fill in."""
    parts = ((cell["id"], part(cell)) for cell in pack.notebook["cells"])
    return any(f'"{one}"'.encode() in content for one, p in parts if p is not None and p.role != "test")


# --- feedback in return -------------------------------------------------------------------------------------


def places(names: Iterable[str], file: str) -> dict[str, str]:
    """Return where a page called `file` goes in a zip, by the labels of the submissions in a download.

    Moodle and Canvas find a student by the name of a file in their own download, Canvas by its number.
    """
    found: dict[str, str] = {}
    for name in names:
        if one := CANVAS.fullmatch(name) or MOODLE.match(name):
            facts = {"late": "", "file": "assignsubmission_file", **one.groupdict("")}
            place = "{name}_{late}{number}_{file}_".format(**facts) + file
            found[f"{one['name']}_{one['number']}"] = place
    return found


def zipped(download: Path, pages: Mapping[str, Path], out: Path, file: str) -> list[str]:
    """Write the zip, and return the labels in the platform's `download` for which there is no page.

    `pages` are by the label of a submission, as its receipt has it; in the zip each is called `file`.
    """
    with zipfile.ZipFile(download) as archive:
        found = places(archive.namelist(), file)
    if not found:
        raise ValueError(
            f"the download must be a zip of Moodle or Canvas, got other names in {download.name}"
        )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for label, place in sorted(found.items()):
            if label in pages:
                archive.write(pages[label], place)
    return sorted(found.keys() - pages.keys())
