"""Grading a class: once each, whatever fails and whenever the process is killed."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from made_up_class import SHEET, grade_nothing, grade_one, hand_in, open_grader, open_nothing, scores_of

from ppobook.course import processes, run, trail
from ppobook.course.records import Submission, graded_file, read_record


@pytest.fixture
def here(monkeypatch):
    """Grade in this process: most tests are not about processes."""

    def graded(submissions, opener, processes, seconds):
        with opener() as grade:
            for submission in submissions:
                yield submission, grade(submission.path.read_bytes(), submission.by, ""), ""

    monkeypatch.setattr(run, "graded", graded)


def scores(folder: Path, handed: list[Submission]) -> dict[str, float]:
    return {student: score.final for student, score in scores_of(folder, handed).items()}


def test_what_cannot_be_graded_gets_nothing_and_a_reason_and_stops_nobody(tmp_path, capfd):
    handed = [
        hand_in(tmp_path, "ada"),
        hand_in(tmp_path, "bob", dies=True, text="It is min."),
        hand_in(tmp_path, "eve", raises="<script>"),
        hand_in(tmp_path, "mel", seconds=6000, dies="always"),
        hand_in(tmp_path, "zoe", late=1, bytes=processes.MEMORY + 1),
    ]
    found = run.grade(tmp_path, SHEET, handed, open_grader, seconds=20, shown=False)
    assert (found.graded, found.kept, found.failed) == (5, 0, {})
    assert found.nothing == {
        "bob": "the process that graded it ended",
        "eve": "RuntimeError: <script>",
        "mel": "grading it took longer than 20 seconds",
        "zoe": "MemoryError",
    }
    assert scores(tmp_path, handed) == {"ada": 7, "bob": 0, "eve": 0, "mel": 0, "zoe": 0}
    assert read_record(tmp_path, "week-03", "bob").text("hunt-minmax-why") == "It is min."
    assert "RuntimeError: <script>" in capfd.readouterr().err
    assert run.due(tmp_path, SHEET, handed) == []


def test_one_that_the_machine_failed_is_tried_again(tmp_path, capfd):
    handed = [hand_in(tmp_path, "ada"), hand_in(tmp_path, "bob", full_disk=True)]
    found = run.grade(tmp_path, SHEET, handed, open_grader, shown=False)
    assert (found.graded, found.nothing, found.failed) == (1, {}, {"bob": "OSError: no space left"})
    assert [one.by for one in run.due(tmp_path, SHEET, handed)] == ["bob"]


def test_a_grader_that_does_not_start_is_said_once(tmp_path, capfd):
    handed = [hand_in(tmp_path, "ada"), hand_in(tmp_path, "bob")]
    with pytest.raises(ChildProcessError, match="could not be started"):
        run.grade(tmp_path, SHEET, handed, open_nothing, shown=False)
    assert "no sandbox" in capfd.readouterr().err


def test_what_is_graded_is_graded_again_only_if_something_changed(tmp_path, here):
    log = tmp_path / "log.txt"
    opener = partial(open_grader, log)
    handed = [hand_in(tmp_path, "ada"), hand_in(tmp_path, "bob")]

    def go(sheet=SHEET, **options):
        log.write_text("")
        found = run.grade(tmp_path, sheet, handed, opener, shown=False, **options)
        assert found.graded + found.kept == len(handed)
        return sorted(log.read_text().split())

    assert go() == ["ada", "bob"]
    assert go() == []
    assert go(again=True) == ["ada", "bob"]
    handed[0] = hand_in(tmp_path, "ada", text="more")
    assert go() == ["ada"]
    assert go(replace(SHEET, pack="pack-2")) == ["ada", "bob"]
    sheet = replace(SHEET, pack="pack-2", checks={**SHEET.checks, "hunt-minmax": "check-2"})
    assert go(sheet) == ["ada", "bob"]
    assert go(sheet) == []
    graded_file(tmp_path, "week-03", "bob").write_text('{"student": ')
    assert go(sheet) == ["bob"]


def test_one_part_for_all(tmp_path, here, monkeypatch):
    handed = [hand_in(tmp_path, "ada", **{"clipped-loss": 0, "hunt-minmax": 0})]
    run.grade(tmp_path, SHEET, handed, open_grader, shown=False)
    before = read_record(tmp_path, "week-03", "ada")
    # The check of one part was wrong, and so were all of these points.
    monkeypatch.setattr("made_up_class.grade_one", lambda content, by: grade_one(b"{}", by))
    sheet = replace(SHEET, checks=dict.fromkeys(SHEET.checks, "check-2"))
    both = [*handed, hand_in(tmp_path, "bob")]
    assert run.grade(tmp_path, sheet, both, open_grader, part="clipped-loss", shown=False).graded == 1
    after = read_record(tmp_path, "week-03", "ada")
    assert after.parts["clipped-loss"]["points"] == 4
    assert after.parts["hunt-minmax"] == before.parts["hunt-minmax"]
    assert after.checks == {"clipped-loss": "check-2", "hunt-minmax": "check-1"}
    assert scores(tmp_path, handed) == {"ada": 4}
    with pytest.raises(ValueError, match=r"the part must be one of .*, got 'clip'"):
        run.grade(tmp_path, sheet, handed, open_grader, part="clip", shown=False)


def test_a_failure_does_not_lose_what_was_found(tmp_path, here, monkeypatch):
    handed = [hand_in(tmp_path, "ada")]
    run.grade(tmp_path, SHEET, handed, open_grader, shown=False)
    monkeypatch.setattr(run, "graded", lambda todo, *_: [(todo[0], grade_nothing(), "MemoryError")])
    found = run.grade(tmp_path, SHEET, handed, open_grader, again=True, shown=False)
    assert found.nothing == {"ada": "MemoryError"}
    assert scores(tmp_path, handed) == {"ada": 7}


def test_one_process_at_a_time_grades_an_assignment(tmp_path):
    (tmp_path / "graded" / "week-03").mkdir(parents=True)
    with (
        trail.locked(tmp_path / "graded" / "week-03" / ".lock", "busy"),
        pytest.raises(ValueError, match="one process at a time"),
    ):
        run.grade(tmp_path, SHEET, [], open_grader, shown=False)


# --- kill -9 ------------------------------------------------------------------------------------------------


SCRIPT = """
import sys
from pathlib import Path
from made_up_class import hand_in, open_grader
from ppobook.course.processes import graded

if __name__ == "__main__":
    handed = [hand_in(Path(sys.argv[1]), student, seconds=600) for student in ("ada", "bob")]
    list(graded(handed, open_grader, 2))
"""


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def test_the_processes_end_with_their_parent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=environment)
    try:
        until = time.monotonic() + 300
        while len(workers := children(parent.pid)) < 3 and time.monotonic() < until:  # one tracks resources
            time.sleep(0.05)
        assert len(workers) == 3
    finally:
        parent.kill()
        parent.wait()
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
