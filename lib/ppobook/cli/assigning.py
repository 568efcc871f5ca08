"""`ppobook course new`, `check`, `release`, `solutions`, `similar`, `roster`, `collect` and `extend`."""

from __future__ import annotations

from datetime import UTC, date, datetime
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
def new(folder: Folder, /, *, begin: Day = None, weeks: int = 14) -> None:
    """Make the folder of a course, with a course.yml that explains itself and a secret of its own.

    Args:
        folder: the folder, outside of the book's
        begin: the first day of the term, 2027-02-01; the next Monday if left out
        weeks: the weeks of the term; the assignments are those of the plan of 6, 10 or 14 weeks that fits
    """
    from ppobook.course import beginning

    beginning.begin(folder, None if begin is None else date.fromisoformat(begin), weeks)
    print(f"{folder}/course.yml is yours to edit: title, time zone, assignments, dates, exercises.")
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
    for level, said in checking.check(opened):
        print(f"{MARKS[level]} {said}", flush=True)
        failed += level == "fails"
    print("Nothing will fail." if not failed else f"{validation.counted(failed, 'thing')} to put right.")
    if failed:
        raise SystemExit(1)


@command
def release(name: Name, /, *, replace: bool = False, course: Folder = ".") -> None:
    """Make the zip that students get, release/ASSIGNMENT.zip.

    Args:
        name: the assignment
        replace: release it anew, though what was handed out differs
        course: the course's folder
    """
    from ppobook.course import packs, settings

    opened = settings.load(course)
    pack, made = packs.release(opened, name, replace=replace)
    for part in pack.parts:
        how = "checked" if part.role == "test" else "read by a person"
        print(f"  {part.name}: {part.points:g} points, {how}")
    state = {"new": "", "unchanged": ", as it was released", "changed": ", released again"}[made]
    print(f"{packs.RELEASE}/{name}.zip: {pack.points:g} points in {len(pack.parts)} parts{state}")
    if made == "changed" and any((opened.folder / "graded" / name).glob("*.json")):
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
    solved = packs.solved(opened, packs.handed_out(opened, name))
    path = opened.folder / packs.RELEASE / f"{name}-solutions.ipynb"
    atomic_write(path, json.dumps(solved, indent=1, ensure_ascii=False) + "\n")
    print(path)
    if not lateness.over(opened, opened.assignment(name), datetime.now(UTC)):
        print("! Submissions still count: keep it until the late days and all extensions are over.")


@command
def similar(name: Name, /, *, out: MaybeFile = None, course: Folder = ".") -> None:
    """List equal code answers and pairs of nearly equal ones; whether they were copied is for you to judge.

    Short answers are not compared, since they are often equal because there is one way to write them.

    Args:
        name: the assignment
        out: an HTML file for the answers side by side
        course: the course's folder
    """
    from ppobook.course import collecting, looks, packs, settings
    from ppobook.run.files import atomic_write

    opened = settings.load(course)
    pack, counting = packs.handed_out(opened, name), collecting.counting(opened, name)
    found = looks.similar(pack, {"+".join(one.students): one.path.read_bytes() for one in counting})
    for one in found:
        print(f"{one.part}  {one.share:.0%}  {', '.join(one.students)}")
    print(f"{len(found)} found in {validation.counted(len(counting), 'submission')}")
    if out is not None:
        atomic_write(Path(out), looks.page(f"Similar answers to {name}", found))
        print(out)


@command
def students(file: MaybeFile = None, /, *, dry_run: bool = False, course: Folder = ".") -> None:
    """Show the students, or import a list: a CSV of Canvas or Moodle, or one with the column student_id.

    Who is missing in the list leaves the roster, unless they have handed something in: `erase` is for them.

    Args:
        file: the list; if left out, the roster is shown
        dry_run: show what would change, and write nothing
        course: the course's folder
    """
    from ppobook.course import roster, settings

    folder = settings.load(course).folder
    if file is None:
        for one in roster.load(folder):
            print(f"{one.student_id}  {one.name}{f'  {one.group}' if one.group else ''}")
        return
    after, said = roster.merged(folder, roster.read(validation.path("file", file, "a list of students")))
    for line in said:
        print(line)
    if not dry_run:
        roster.write(folder, after)
    print(f"{validation.counted(len(after), 'student')}{'; nothing was written' * dry_run}")


@command
def collect(
    name: Name,
    source: Source,
    /,
    *,
    student: MaybeStudent = None,
    times: MaybeFile = None,
    course: Folder = ".",
) -> None:
    """Keep what was handed in, under submitted/. A source can be collected again at any time.

    Args:
        name: the assignment
        source: a folder of zips, notebooks or git clones, or the zip that Moodle or Canvas gives
        student: whose the source is, one file, whatever it is called: one in submitted/…/_unknown, or another
            of several that somebody handed in
        times: a CSV with student_id and time, for a source that does not know when something came; it also
            corrects what was collected before
        course: the course's folder
    """
    from ppobook.course import collecting, settings
    from ppobook.course.safe_text import line

    opened = settings.load(course)
    given = None if times is None else collecting.read_times(validation.path("times", times), opened)
    found = collecting.collect(opened, name, source, student=student, times=given)
    for said in found.said:
        print(line(said))
    if found.missing:
        print(f"Nothing yet from: {', '.join(found.missing)}")
    print(f"{validation.counted(found.new, 'new submission')}, {found.again} already kept")
    counting = collecting.counting(opened, name)
    for one in counting:
        if (several := sum(len(collecting.kept(opened, name, who)) for who in one.students)) > 1:
            where = one.path.parent.relative_to(opened.folder)
            print(f"{'+'.join(one.students)}: of {several} submissions, the one in {where} counts")
    if late := [one.by for one in counting if one.late_unknown]:
        print(f"Late, nobody knows how late, so all points count until --times says more: {', '.join(late)}")


@command
def extend(student: StudentId, name: Name, /, *, until: Time, reason: str, course: Folder = ".") -> None:
    """Give a student more time. It is a line in the trail, log.jsonl, and the last one counts.

    Args:
        student: the student's id
        name: the assignment
        until: the new due time, "2027-03-05 23:59", in the course's time zone
        reason: why, which only the trail shows
        course: the course's folder
    """
    from ppobook.course import lateness, settings

    opened = settings.load(course)
    moment = settings.moment(until, opened.timezone)
    lateness.extend(opened, student, name, moment, reason)
    print(f"{student}: {name} until {moment:%Y-%m-%d %H:%M}")
