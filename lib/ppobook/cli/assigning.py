"""`ppobook course new`, `check`, `release`, `roster`, `collect` and `extend`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import tyro

from ppobook import validation
from ppobook.cli.parsing import MaybeFile, command

Folder = Annotated[str, tyro.conf.arg(metavar="FOLDER")]
Name = Annotated[str, tyro.conf.arg(metavar="ASSIGNMENT")]
StudentId = Annotated[str, tyro.conf.arg(metavar="STUDENT")]
MaybeStudent = Annotated[str | None, tyro.conf.arg(metavar="STUDENT")]
Source = Annotated[str, tyro.conf.arg(metavar="SOURCE")]
Day = Annotated[str | None, tyro.conf.arg(metavar="DATE")]
Time = Annotated[str, tyro.conf.arg(metavar="TIME")]

MARKS = {"fails": "✗", "note": "·", "ok": "✓"}


@command
def new(
    folder: Folder,
    /,
    *,
    title: str = "Policy optimization",
    begin: Day = None,
    weeks: int = 14,
    chapters: tuple[int, ...] | None = None,
    timezone: str | None = None,
    dry_run: bool = False,
) -> None:
    """Make the folder of a course, with a course.yml that explains itself and a secret of its own.

    Args:
        folder: the folder, outside of the book's
        title: the course's title
        begin: the first day of the term, 2027-02-01; the next Monday if left out
        weeks: the weeks of the term
        chapters: the chapters to assign, 1,2,3; all that have exercises if left out
        timezone: the time zone of its dates, Europe/Berlin; the machine's if left out
        dry_run: print the course.yml, and write nothing
    """
    from ppobook.course import beginning
    from ppobook.course.reading import Value

    validation.path("folder", folder, "a folder for the course")
    first = None if begin is None else Value(begin, "begin", 1, 1).day()
    text = beginning.begin(
        folder,
        title=title,
        first=first,
        weeks=weeks,
        chapters=chapters,
        timezone=timezone,
        dry_run=dry_run,
    )
    if dry_run:
        print(text, end="")
        return
    print(f"{folder}/course.yml is yours to edit: assignments, dates, exercises.")
    print(f"Then: ppobook course roster FILE --course {folder}; ppobook course check --course {folder}")


@command
def check(*, course: Folder = ".") -> None:
    """Say before the term what will fail: the machine, dates, students, exercises, points.

    Args:
        course: the course's folder
    """
    from ppobook.course import checking, settings

    opened = settings.load(course)
    failed = 0
    for finding in checking.check(opened):
        print(f"{MARKS[finding.level]} {finding.said}", flush=True)
        failed += finding.level == "fails"
    print("Nothing will fail." if not failed else f"{validation.counted(failed, 'thing')} to put right.")
    if failed:
        raise SystemExit(1)


@command
def release(name: Name, /, *, replace: bool = False, dry_run: bool = False, course: Folder = ".") -> None:
    """Make the zip that students get, release/ASSIGNMENT.zip.

    Args:
        name: the assignment
        replace: release it anew, though what was handed out differs
        dry_run: say what would be released, and write nothing
        course: the course's folder
    """
    from ppobook.course import packs, settings, work

    opened = settings.load(course)
    made = packs.release(opened, name, replace=replace, dry_run=dry_run)
    for part in made.pack.parts:
        how = "checked" if part.role == "test" else "read by a person"
        print(f"  {part.name}: {part.points:g} points, {how}")
    state = {"new": "", "unchanged": ", as it was released", "changed": ", released anew"}[made.state]
    would = "would be " if dry_run else ""
    print(f"{made.path}: {would}{made.pack.points:g} points in {len(made.pack.parts)} parts{state}")
    if dry_run or made.state != "changed":
        return
    for one in work.released_anew(opened, name):
        given = f"{one.before:g} of {one.before_max:g}"
        print(f"! {one.student}: {one.part}, {given} by a person, has {one.points:g} of {one.max:g} now")
    if any((opened.folder / "graded" / name).glob("*.json")):
        print(f"What was graded counts again after: ppobook course grade {name}")


@command
def solutions(name: Name, /, *, course: Folder = ".") -> None:
    """Write the notebook with all solutions, in the variants that were handed out, for after the deadline.

    It goes to release/ASSIGNMENT-solutions.ipynb, with the model answers and rubrics of what a person reads.

    Args:
        name: the assignment
        course: the course's folder
    """
    import json

    from ppobook.course import lateness, packs, settings
    from ppobook.run.files import atomic_write

    opened = settings.load(course)
    assignment, pack = opened.assignment(name), packs.released(opened, name)
    if pack is None:
        raise ValueError(f"assignment {name} must be released first: ppobook course release {name}")
    path = opened.folder / packs.RELEASE / f"{name}-solutions.ipynb"
    content = json.dumps(packs.solved(opened, pack), indent=1, ensure_ascii=False) + "\n"
    atomic_write(path, content)
    print(path)
    if not lateness.over(opened, assignment, datetime.now(UTC)):
        print(
            "! Submissions still count: keep it to yourself until the late days and all extensions are over."
        )


@command
def similar(name: Name, /, *, out: MaybeFile = None, course: Folder = ".") -> None:
    """List pairs of equal or nearly equal code answers, without a verdict; FILE.html shows them side by side.

    Short answers are not compared, since they are often equal because there is one way to write them.

    Args:
        name: the assignment
        out: an HTML file for the answers side by side
        course: the course's folder
    """
    from ppobook.course import collecting, packs, settings
    from ppobook.course import similar as similarity
    from ppobook.run.files import atomic_write

    opened = settings.load(course)
    opened.assignment(name)
    pack = packs.released(opened, name)
    if pack is None:
        raise ValueError(f"assignment {name} must be released first: ppobook course release {name}")
    counting = collecting.counting(opened, name)
    pairs = similarity.similar(pack, {", ".join(one.students): one.path.read_bytes() for one in counting})
    for pair in pairs:
        print(f"{pair.part}  {pair.share:.0%}  {pair.students[0]} and {pair.students[1]}")
    print(f"{validation.counted(len(pairs), 'pair')} of {validation.counted(len(counting), 'submission')}")
    if out is not None:
        atomic_write(Path(out), similarity.page(f"Similar answers to {name}", pairs))
        print(out)


@command
def students(
    file: MaybeFile = None,
    /,
    *,
    drop: bool = False,
    replace: bool = False,
    dry_run: bool = False,
    course: Folder = ".",
) -> None:
    """Show the students, or import a list: a CSV of Canvas or Moodle, or one with the column student_id.

    Args:
        file: the list; if left out, the roster is shown
        drop: drop from the roster who is missing in the list and has handed something in, too
        replace: take a list in which more than half of the roster is missing
        dry_run: show what would change, and write nothing
        course: the course's folder
    """
    from ppobook.course import roster, settings

    folder = settings.load(course).folder
    if file is None:
        for one in roster.load(folder):
            print(f"{one.student_id}  {one.name}{f'  {one.group}' if one.group else ''}")
        return
    known = [one.student_id for one in roster.load(folder)]
    listed = roster.read(validation.path("file", file, "a list of students"), known)
    found = roster.changes(folder, listed, drop=drop)
    for line in found.lines():
        print(line)
    if found.most_missing and not (replace or dry_run):
        raise ValueError(
            f"the list must have at least half of the {validation.counted(len(known), 'student')} of "
            f"{roster.FILE}, or nothing is written: its ids may be others, such as logins; --replace takes it"
        )
    if not dry_run:
        roster.write(folder, found.after)
    counts = f"{len(found.added)} new, {len(found.changed)} changed, {len(found.dropped)} dropped"
    print(f"{validation.counted(len(found.after), 'student')}: {counts}{'; nothing was written' * dry_run}")


@command
def collect(
    name: Name,
    source: Source,
    /,
    *,
    student: MaybeStudent = None,
    times: MaybeFile = None,
    dry_run: bool = False,
    course: Folder = ".",
) -> None:
    """Keep what was handed in, under submitted/. A source can be collected again at any time.

    Args:
        name: the assignment
        source: a folder of zips, notebooks or git clones, or the zip that Moodle or Canvas gives
        student: whose the source is, one file, whatever it is called: one in submitted/…/_unknown, or another
            of several that somebody handed in
        times: a CSV with student_id and time, for a source that does not know when something came
        dry_run: say what would be collected, and keep nothing
        course: the course's folder
    """
    from ppobook.course import collecting, settings
    from ppobook.course.safe_text import line

    if times is not None and not validation.path("times", times, "a CSV file").is_file():
        raise FileNotFoundError(f"times must be a CSV file, got {times!r}, which is not there")
    opened = settings.load(course)
    given = collecting.read_times(Path(times), opened) if times is not None else None
    found = collecting.collect(opened, name, source, student=student, times=given, dry_run=dry_run)
    now = datetime.now(UTC)
    for who, made, late in found.new:
        days = f", {validation.counted(late, 'day')} late" if late else ""
        print(f"+ {who}  {made.time.astimezone(opened.timezone):%Y-%m-%d %H:%M}{days}")
        if made.time > now + timedelta(minutes=5):  # clocks differ a little
            print("    its time is to come; --times gives another one")
        for note in made.notes:
            print(line(f"    {note}"))
    for made in found.empty:
        why = f"no notebook of {name} that can be read, so nothing to grade; what came is kept"
        print(line(f"! {made.label}: {why}"))
    for made in found.unknown:
        where = f"nobody in the roster, or not one alone; kept in submitted/{name}/_unknown"
        print(f"? {line(made.label)}: {where}")
    for note in found.notes:
        print(line(f"! {note}"))
    if found.missing:
        print(f"Nothing yet from: {', '.join(one.student_id for one in found.missing)}")
    total = validation.counted(len(found.new), "new submission")
    print(f"{total}, {found.again} already kept{'; nothing was written' * dry_run}")


@command
def extend(
    student: StudentId,
    name: Name,
    /,
    *,
    until: Time,
    reason: str,
    dry_run: bool = False,
    course: Folder = ".",
) -> None:
    """Give a student more time. It is written into course.yml, and into the trail, log.jsonl.

    Args:
        student: the student's id
        name: the assignment
        until: the new due time, "2027-03-05 23:59", in the course's time zone
        reason: why, which only the trail shows
        dry_run: show the line, and write nothing
        course: the course's folder
    """
    from ppobook.course import extending, settings
    from ppobook.course.reading import Value

    opened = settings.load(course)
    moment = settings.moment(Value(until, "until", 1, 1), opened.timezone)
    line = extending.extend(opened, student, name, moment, reason, dry_run=dry_run)
    print(f"course.yml{' would get' * dry_run}: - {line}")
