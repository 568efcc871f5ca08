"""`ppobook course grade`, `regrade`, `mark`, `feedback`, `grades`, `report` and `correct`."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ppobook import validation
from ppobook.cli.assigning import Folder, MaybeStudent, Name
from ppobook.cli.parsing import MaybeFile, command

if TYPE_CHECKING:
    from ppobook.course.settings import Course
    from ppobook.course.work import State

Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="ASSIGNMENT …")]
Part = Annotated[str, tyro.conf.arg(metavar="PART")]
MaybePart = Annotated[str | None, tyro.conf.arg(metavar="PART")]
Form = Annotated[str, tyro.conf.arg(metavar="FORM")]

_TRUST = "--without-sandbox-i-trust-every-student"
_RISK = (
    "each student's code runs as a program of yours, and can read, change and send away whatever you can, "
    "the course's secret and grades too"
)


@command
def grade(
    name: Name,
    /,
    *,
    again: bool = False,
    processes: int = 2,
    without_sandbox_i_trust_every_student: bool = False,
    dry_run: bool = False,
    course: Folder = ".",
) -> None:
    """Grade every submission that counts, once, each in a sandbox. It goes on where it was stopped.

    Args:
        name: the assignment
        again: grade also what is graded already
        processes: how many submissions are graded at a time
        without_sandbox_i_trust_every_student: for a system without bubblewrap: students' code runs as a
            program of yours, and can read, change and send away whatever you can
        dry_run: say what would be graded and why, and grade nothing
        course: the course's folder
    """
    from ppobook.course import settings

    opened = settings.load(course)
    _grade(opened, name, None, again, processes, without_sandbox_i_trust_every_student, dry_run)


@command
def regrade(
    part: Part,
    /,
    *,
    processes: int = 2,
    without_sandbox_i_trust_every_student: bool = False,
    dry_run: bool = False,
    course: Folder = ".",
) -> None:
    """Grade one part of all submissions again, such as after its check was mended; the rest stays.

    Args:
        part: the part, in whichever assignment it is
        processes: how many submissions are graded at a time
        without_sandbox_i_trust_every_student: as for `grade`
        dry_run: say what would be graded, and grade nothing
        course: the course's folder
    """
    from ppobook.course import settings, work
    from ppobook.run.spellings import did_you_mean

    opened = settings.load(course)
    sheets = [work.sheet(opened, name) for name in work.released(opened, ())]
    tested = {sheet.assignment: [p.name for p in sheet.parts if p.role == "test"] for sheet in sheets}
    found = [name for name, parts in tested.items() if part in parts]
    if not found:
        every = [one for parts in tested.values() for one in parts]
        raise ValueError(f"part must be one that a check judges, got {part!r}{did_you_mean(part, every)}")
    for assignment in found:
        _grade(opened, assignment, part, False, processes, without_sandbox_i_trust_every_student, dry_run)


def _grade(
    opened: Course, name: str, part: str | None, again: bool, processes: int, trusted: bool, dry_run: bool
) -> None:
    """Grade an assignment, or one part of it."""
    from ppobook.course import collecting, graders, run, sandbox, trail, work
    from ppobook.course.safe_text import line

    validation.count("processes", processes)
    job, counting = work.job(opened, name), collecting.counting(opened, name)
    todo, kept = run.due(job, counting, part=part, again=again)
    if part is None:
        _say_other_points(opened, name)
    if dry_run:
        for why, count in Counter(why for _, why in todo).most_common():
            print(f"{validation.counted(count, 'submission')} to grade: {why}")
        print(f"{validation.counted(kept, 'submission')} graded already; nothing was written")
        return
    work.ready(opened, name)
    if todo and not trusted and (readable := sandbox.readable(opened.folder)):
        raise ValueError(f"{readable}; move it")
    missing = sandbox.available() if todo else None
    if missing is not None and not trusted:
        raise ValueError(
            f"grading must have a sandbox: {missing} Without one, {_RISK}; if you trust every student with "
            f"that, {_TRUST} grades all the same"
        )
    if trusted:
        better = "" if missing or not todo else "; there can be one here, so leave the option out"
        print(f"! no sandbox: {_RISK}{better}", file=sys.stderr)
    if todo:
        # Each process loads the library before the first line of progress.
        print(
            f"{validation.counted(len(todo), 'submission')} to grade; it takes a moment to begin", flush=True
        )
        if part is not None:
            trail.note(opened.folder, "regrade", assignment=name, part=part, submissions=len(todo))
        if trusted:
            facts: dict[str, Any] = {"submissions": len(todo), "sandbox": missing or "left out"}
            trail.note(opened.folder, "graded without a sandbox", assignment=name, **facts)
    opener = partial(graders.open_grader, opened.folder, name, only=part, sandboxed=not trusted)
    # The process that grades keeps the time itself; this is for one that an answer keeps busy.
    seconds = opened.grading.submission_seconds + 600
    found = run.grade(job, counting, opener, processes=processes, part=part, again=again, seconds=seconds)
    for by, why in found.nothing.items():
        print(line(f"! {by} has no points, because it could not be graded: {why}"))
    for by, why in found.failed.items():
        print(line(f"! {by}: {why}"))
    failed = f", {len(found.failed)} failed (grade again to retry)" if found.failed else ""
    print(f"{validation.counted(found.graded, 'submission')} graded, {found.kept} graded already{failed}")
    if todo:
        each = found.cpu / len(todo)
        print(f"{found.cpu:.0f} CPU seconds, start-up included, {each:.1f} a submission")
    if not counting:
        print(f"nothing was handed in yet: ppobook course collect {name} SOURCE")
    _say_waiting(work.state(opened, name))
    if found.failed:
        raise SystemExit(1)


@command
def mark(
    names: Names = (),
    /,
    *,
    with_names: bool = False,
    port: int = 0,
    no_browser: bool = False,
    course: Folder = ".",
) -> None:
    """Open the page for questions that a person marks, until Ctrl-C.

    Args:
        names: the assignments; all that were released if left out
        with_names: show whose an answer is
        port: the page's port on this machine; 0 takes a free one
        no_browser: only print its address
        course: the course's folder
    """
    import webbrowser

    from ppobook.course import report, roster, settings, work
    from ppobook.course.marking import Marking
    from ppobook.course.marking_server import MarkingServer

    validation.count("port", port, low=0, high=65535)
    opened = settings.load(course)
    states = {name: work.state(opened, name) for name in work.released(opened, names)}
    shown = {one.student_id: one.name for one in roster.load(opened.folder)} if with_names else {}
    sheets = {name: (state.sheet, state.submissions) for name, state in states.items()}
    for name, state in states.items():
        for said, students in report.displaced(state.records).items():
            who = ", ".join(shown.get(one, one) for one in students) if with_names else str(len(students))
            print(f"! {name}: {said}: {who}")
    marking = Marking(opened.folder, opened.secret, sheets, shown)
    try:
        opened_server = MarkingServer(marking, port)
    except OSError:
        raise ValueError(f"port must be one that this machine has free, got {port}") from None
    with opened_server as server:
        print(f"{server.address}\nCtrl-C ends it; everything is saved as you go.", flush=True)
        if not no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


@command
def feedback(
    names: Names = (),
    /,
    *,
    student: MaybeStudent = None,
    give_back: MaybeFile = None,
    dry_run: bool = False,
    course: Folder = ".",
) -> None:
    """Write a page for each student and assignment: feedback/STUDENT/ASSIGNMENT.html.

    Args:
        names: the assignments; all that were released if left out
        student: for this student only
        give_back: the zip with the submissions as Moodle or Canvas gave it; makes from it the zip that Moodle
            takes as feedback files, or Canvas as returned submissions, feedback/ASSIGNMENT.zip
        dry_run: say how many would be written, and write nothing
        course: the course's folder
    """
    from datetime import UTC, datetime

    from ppobook.course import lateness, returning, roster, settings, work
    from ppobook.course.feedback import Page
    from ppobook.run.files import atomic_write
    from ppobook.run.progress import Progress

    opened = settings.load(course)
    students = {one.student_id: one.name for one in roster.load(opened.folder)}
    if student is not None:
        roster.find(roster.load(opened.folder), student)
    setting = work.setting(opened)
    chosen = work.released(opened, names)
    if give_back is not None and len(chosen) != 1:
        raise ValueError("give_back must be the download of one assignment; name it")
    for name in chosen:
        state = work.state(opened, name)
        over = lateness.over(opened, opened.assignment(name), datetime.now(UTC))
        graded = [(who, one) for who, one in state.graded() if student in (None, who)]
        written, varied = 0, work.varied(opened, name)
        with Progress(len(graded), 0, name, "page", None) as progress:
            for count, (who, submission) in enumerate(graded, start=1):
                found = state.records[who], state.scores[who], students[who]
                page = Page(setting, state.sheet, submission, *found, over, varied).html()
                path = opened.folder / "feedback" / who / f"{name}.html"
                if not path.exists() or path.read_bytes() != page.encode():
                    written += 1
                    if not dry_run:
                        path.parent.mkdir(parents=True, exist_ok=True)
                        atomic_write(path, page, sync=False)
                progress.show(count, {})
        would = "would be " if dry_run else ""
        same = f", {len(graded) - written} as they were" if written < len(graded) else ""
        print(f"{name}: {validation.counted(written, 'page')} {would}written{same}")
        if give_back is not None and not dry_run:
            out = opened.folder / "feedback" / f"{name}.zip"
            out.parent.mkdir(exist_ok=True)
            left = returning.zipped(Path(give_back), work.pages(opened, name, graded), out, f"{name}.html")
            print(f"{out}")
            for label in left:
                print(f"! no page for {label}")
        _say_unfinished(state)


@command
def grades(
    names: Names = (),
    /,
    *,
    form: Form = "plain",
    template: MaybeFile = None,
    zeros: bool = False,
    unfinished: bool = False,
    dry_run: bool = False,
    course: Folder = ".",
) -> None:
    """Write grades as a table, grades/FORM.csv.

    Args:
        names: the assignments; all that were released if left out
        form: plain, canvas or moodle
        template: what Canvas or Moodle exported, with its own numbers of students and assignments
        zeros: write 0, and not nothing, where nothing was handed in
        unfinished: write points also where some answers are not marked yet
        dry_run: print the table, and write nothing
        course: the course's folder
    """
    from ppobook.course import grades, roster, run, settings, work
    from ppobook.run.files import atomic_write

    opened = settings.load(course)
    given = None
    if template is not None:
        given = grades.read(validation.path("template", template, "a CSV file"))
    chosen = work.released(opened, names)
    states = [work.state(opened, name) for name in chosen]
    columns = []
    for state in states:
        late = {
            who: "?" if one.late_unknown else str(one.late_days)
            for one in state.submissions
            for who in one.students
        }
        comments = {
            who: "\n".join(f"{part}: {said}" for part, p in score.parts.items() for said in p.comments)
            for who, score in state.scores.items()
        }
        todo, _ = run.due(state.job, state.submissions)
        to_grade = {who for one, _ in todo for who in one.students}
        facts = (state.sheet.assignment, state.sheet.called, state.sheet.max)
        columns.append(grades.Column(*facts, state.scores, late, comments, to_grade))
    made = grades.Grades(roster.load(opened.folder), columns, "0" if zeros else "", unfinished)
    table = grades.written(made.table(form, given))
    if dry_run:
        print(table, end="")
        return
    file = opened.folder / "grades" / f"{'-'.join([form, *(chosen if names else ())])}.csv"
    file.parent.mkdir(exist_ok=True)
    atomic_write(file, table)
    print(f"{file}: {validation.counted(len(columns), 'assignment')}")
    for state in states:
        _say_unfinished(state)
        _say_other_points(opened, state.sheet.assignment)


@command
def report(names: Names = (), /, *, with_names: bool = False, course: Folder = ".") -> None:
    """Say which mistakes the class made, in which exercise, with numbers.

    Args:
        names: the assignments; all that were released if left out
        with_names: say who made each mistake
        course: the course's folder
    """
    from ppobook.course import report, roster, settings, work

    opened = settings.load(course)
    count = len(roster.load(opened.folder))
    found = []
    for name in work.released(opened, names):
        state = work.state(opened, name)
        facts = (state.sheet, state.submissions, state.records, state.scores, count)
        found.append(report.report(*facts, work.varied(opened, name)))
    print("\n\n".join(report.text(one, names=with_names) for one in found))


@command
def correct(
    name: Name,
    part: MaybePart = None,
    /,
    *,
    reason: str,
    student: MaybeStudent = None,
    points: float | None = None,
    full: bool = False,
    excused: bool = False,
    undo: bool = False,
    course: Folder = ".",
) -> None:
    """Correct the points of a part by hand, for one student or for everyone. It survives every regrade.

    Args:
        name: the assignment
        part: the part; left out, a student is excused from the whole assignment
        reason: why, which the students can read
        student: the student's id; for a group, that of any of them; everyone who handed in if left out
        points: the points from now on
        full: give all points of the part
        excused: do not count the part; the others count as much more
        undo: take back the last correction
        course: the course's folder
    """
    from ppobook.course import settings, work

    kinds = {"points": points is not None, "full": full, "excused": excused, "undo": undo}
    chosen = [kind for kind, given in kinds.items() if given]
    if len(chosen) != 1:
        raise ValueError(f"one of --points, --full, --excused and --undo must be given, got {len(chosen)}")
    who = work.correct(settings.load(course), name, part or "", student or "", chosen[0], points, reason)
    now = {"points": f"{points:g} points" if points is not None else "", "full": "all points"}
    said = now.get(chosen[0], {"excused": "excused", "undo": "as it was before"}.get(chosen[0], ""))
    print(f"{', '.join(who) if student else 'everyone'}: {part or name}, {said}")


def _say_other_points(course: Course, name: str) -> None:
    """Say where course.yml gives other points than those that count."""
    from ppobook.course import work

    if said := work.other_points(course, name):
        print(
            f"! {name}: the points that were released count, and by course.yml they are others: "
            f"{'; '.join(said)}. They count after: ppobook course release {name} --replace, then grade {name}"
        )


def _say_waiting(state: State) -> None:
    """Say what a person has to mark or to decide."""
    name, mine = state.sheet.assignment, {one.by for _, one in state.graded()}
    scores = [state.scores[by] for by in mine]
    if waiting := sum(len(score.waiting) for score in scores):
        conflicts = sum(part.conflict for score in scores for part in score.parts.values())
        said = f", of which {conflicts} with marks that disagree" if conflicts else ""
        print(f"! {name}: {validation.counted(waiting, 'answer')} to mark{said}: ppobook course mark {name}")
    if late := [who for one in state.submissions if one.late_unknown for who in one.students]:
        print(f"! {name}: late, but not known how late, so all points count for now: {', '.join(late)}")


def _say_unfinished(state: State) -> None:
    """Say what keeps an assignment's grades from being final."""
    from ppobook.course import run

    name = state.sheet.assignment
    todo, _ = run.due(state.job, state.submissions)
    if todo:
        print(
            f"! {name}: {validation.counted(len(todo), 'submission')} to grade: ppobook course grade {name}"
        )
    _say_waiting(state)
