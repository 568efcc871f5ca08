"""`ppobook course grade`, `regrade`, `mark`, `feedback`, `grades`, `report` and `correct`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


@command
def grade(
    name: Name,
    /,
    *,
    again: bool = False,
    processes: int = 2,
    course: Folder = ".",
) -> None:
    """Grade every submission that counts, once, each in a sandbox. It goes on where it was stopped.

    Args:
        name: the assignment
        again: grade also what is graded already
        processes: how many submissions are graded at a time
        course: the course's folder
    """
    from ppobook.course import settings

    _grade(settings.load(course), name, None, again, processes)


@command
def regrade(
    part: Part,
    /,
    *,
    processes: int = 2,
    course: Folder = ".",
) -> None:
    """Grade one part of all submissions again, such as after its check was mended; the rest stays.

    Args:
        part: the part, in whichever assignment it is
        processes: how many submissions are graded at a time
        course: the course's folder
    """
    from ppobook.course import settings, work

    opened = settings.load(course)
    tested = {name: work.sheet(opened, name).checks for name in work.released(opened)}
    validation.choice("part", part, [one for parts in tested.values() for one in parts])
    for assignment, parts in tested.items():
        if part in parts:
            _grade(opened, assignment, part, False, processes)


def _grade(opened: Course, name: str, part: str | None, again: bool, processes: int) -> None:
    """Grade an assignment, or one part of it."""
    import time

    from ppobook.course import collecting, graders, own_checks, packs, run, sandbox, sets, trail, work
    from ppobook.course.safe_text import line

    validation.count("processes", processes)
    sheet, counting = work.sheet(opened, name), collecting.counting(opened, name)
    todo = run.due(opened.folder, sheet, counting, part=part, again=again)
    if part is None:
        _say_changed(opened, name)
    for one in sets.open_all(packs.handed_out(opened, name).set, opened.folder):
        own_checks.refuse(one)
    if todo:
        if readable := sandbox.readable(opened.folder):
            raise ValueError(f"{readable}; move it")
        if missing := sandbox.available():
            raise ValueError(f"grading must have a sandbox: {missing}")
        # Each process loads the library before the first line of progress.
        said = validation.counted(len(todo), "submission")
        print(f"{said} to grade; it takes a moment to begin", flush=True)
        if part is not None:
            trail.note(opened.folder, "regrade", assignment=name, part=part, submissions=len(todo))
    began = time.monotonic()
    opener = partial(graders.open_grader, opened.folder, name, only=part)
    # The process that grades keeps the time itself; its limit is for one that an answer keeps busy.
    found = run.grade(
        opened.folder,
        sheet,
        counting,
        opener,
        processes=processes,
        part=part,
        again=again,
        seconds=opened.grading.submission_seconds + 600,
    )
    for by, why in found.nothing.items():
        print(line(f"! {by} has no points, because it could not be graded: {why}"))
    for by, why in found.failed.items():
        print(line(f"! {by}: {why}"))
    failed = f", {len(found.failed)} failed (grade again to retry)" if found.failed else ""
    print(f"{validation.counted(found.graded, 'submission')} graded, {found.kept} graded already{failed}")
    if todo:
        seconds = time.monotonic() - began
        print(f"{seconds:.0f} seconds, start-up included, {seconds / len(todo):.1f} a submission")
    if not counting:
        print(f"nothing was handed in yet: ppobook course collect {name} SOURCE")
    _say_waiting(work.state(opened, name))
    if found.failed:
        raise SystemExit(1)


@command
def mark(names: Names = (), /, *, no_browser: bool = False, course: Folder = ".") -> None:
    """Open the page for questions that a person marks, until Ctrl-C.

    Args:
        names: the assignments; all that were released if left out
        no_browser: only print its address
        course: the course's folder
    """
    import webbrowser

    from ppobook.course import report, settings, work
    from ppobook.course.marking import Marking, MarkingServer

    opened = settings.load(course)
    states = {name: work.state(opened, name) for name in work.released(opened, names)}
    for name, state in states.items():
        for said, students in report.displaced(state.records).items():
            print(f"! {name}: {said}: {len(students)}")
    sheets = {name: (state.sheet, state.submissions) for name, state in states.items()}
    with MarkingServer(Marking(opened.folder, opened.secret, sheets)) as server:
        print(f"{server.address}\nCtrl-C ends it; everything is saved as you go.", flush=True)
        if not no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


@command
def feedback(names: Names = (), /, *, give_back: MaybeFile = None, course: Folder = ".") -> None:
    """Write a page for each student and assignment: feedback/STUDENT/ASSIGNMENT.html.

    Args:
        names: the assignments; all that were released if left out
        give_back: the zip with the submissions as Moodle or Canvas gave it; makes from it the zip that Moodle
            takes as feedback files, or Canvas as returned submissions, feedback/ASSIGNMENT.zip
        course: the course's folder
    """
    from datetime import UTC, datetime

    from ppobook.course import handed_in, lateness, roster, settings, work
    from ppobook.course.feedback import Page, words
    from ppobook.course.safe_text import line
    from ppobook.run.files import atomic_write

    opened = settings.load(course)
    students = {one.student_id: one.name for one in roster.load(opened.folder)}
    sentences, chosen = words(opened.folder), work.released(opened, names)
    if give_back is not None and len(chosen) != 1:
        raise ValueError("give_back must be the download of one assignment; name it")
    for name in chosen:
        state = work.state(opened, name)
        over = lateness.over(opened, opened.assignment(name), datetime.now(UTC))
        graded = list(state.graded())
        for who, submission in graded:
            found = state.records[who], state.scores[who], students[who]
            path = opened.folder / "feedback" / who / f"{name}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            page = Page(opened, sentences, state.sheet, submission, *found, over)
            atomic_write(path, page.html(), sync=False)
        print(f"{name}: {validation.counted(len(graded), 'page')} written")
        if give_back is not None:
            out = opened.folder / "feedback" / f"{name}.zip"
            out.parent.mkdir(exist_ok=True)
            left = handed_in.zipped(Path(give_back), work.pages(opened, name, graded), out, f"{name}.html")
            print(f"{out}")
            for label in left:
                print(line(f"! {label}: no page in the zip"))
        _say_unfinished(opened, state)


@command
def grades(names: Names = (), /, *, form: Form = "plain", course: Folder = ".") -> None:
    """Write grades as a table below grades/. Where something is to be graded or marked, no points stand.

    Args:
        names: the assignments; all that were released if left out
        form: plain, canvas or moodle
        course: the course's folder
    """
    from ppobook.course import grades, roster, run, settings, work
    from ppobook.run.files import atomic_write

    opened = settings.load(course)
    chosen = work.released(opened, names)
    states = [work.state(opened, name) for name in chosen]
    columns = []
    for state in states:
        handed = [(who, one) for one in state.submissions for who in one.students]
        late = {who: "?" if one.late_unknown else str(one.late_days) for who, one in handed}
        todo = run.due(opened.folder, state.sheet, state.submissions)
        to_grade = {who for one in todo for who in one.students}
        columns.append(grades.Column(state.sheet, state.scores, late, to_grade))
    table = grades.written(grades.table(form, roster.load(opened.folder), columns))
    file = opened.folder / "grades" / f"{'-'.join([form, *(chosen if names else ())])}.csv"
    file.parent.mkdir(exist_ok=True)
    atomic_write(file, table)
    print(f"{file}: {validation.counted(len(columns), 'assignment')}")
    for state in states:
        _say_unfinished(opened, state)
        _say_changed(opened, state.sheet.assignment)


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
    states = [work.state(opened, name) for name in work.released(opened, names)]
    print("\n\n".join(report.report(state, count, names=with_names) for state in states))


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
    said = {"full": "all points", "excused": "excused", "undo": "as it was before"}
    now = said.get(chosen[0], f"{points or 0:g} points")
    print(f"{', '.join(who) if student else 'everyone'}: {part or name}, {now}")
    print(f"Written feedback pages are brought up to date by: ppobook course feedback {name}")


def _say_changed(course: Course, name: str) -> None:
    """Say where course.yml or the book has changed since the release."""
    from ppobook.course import work

    if work.changed(course, name):
        print(
            f"! {name}: course.yml or the book has changed since the release. A new due date, late policy "
            "or partial credit counts already; any other change counts after: "
            f"ppobook course release {name} --replace, then grade {name}"
        )


def _say_waiting(state: State) -> None:
    """Say what a person has to mark or to decide."""
    name, mine = state.sheet.assignment, {one.by for _, one in state.graded()}
    if state.unreadable:
        print(f"! {name}: handed in without a notebook that can be read: {', '.join(state.unreadable)}")
    scores = [state.scores[by] for by in mine]
    if waiting := sum(len(score.waiting) for score in scores):
        conflicts = sum(part.conflict for score in scores for part in score.parts.values())
        said = f", of which {conflicts} with marks that disagree" if conflicts else ""
        print(f"! {name}: {validation.counted(waiting, 'answer')} to mark{said}: ppobook course mark {name}")
    if late := [who for one in state.submissions if one.late_unknown for who in one.students]:
        print(f"! {name}: late, but not known how late, so all points count for now: {', '.join(late)}")


def _say_unfinished(course: Course, state: State) -> None:
    """Say what keeps an assignment's grades from being final."""
    from ppobook.course import run

    name = state.sheet.assignment
    if todo := run.due(course.folder, state.sheet, state.submissions):
        said = validation.counted(len(todo), "submission")
        print(f"! {name}: {said} to grade: ppobook course grade {name}")
    _say_waiting(state)
