"""From what was handed in to grades, by the commands that an instructor types, with the real grader."""

import importlib
import itertools
import json
import re
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import pytest
from filled_in import Answers, put
from small_course import write_course

from ppobook.cli import main
from ppobook.course import checking, sandbox, settings, trail, work
from ppobook.course import run as grading_run
from ppobook.course.grading import part_seeds
from ppobook.course.records import read_record
from ppobook.teaching import checks

LATE = datetime(2027, 3, 9, 12, 0, tzinfo=UTC)
WRONG = """\
def clipped_loss(logp, old_logp, advantages, eps=0.2):
    ratio = (logp - old_logp).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - eps, 1 + eps) * advantages).mean()
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course, two of whose students and a group handed in week-02; graded."""
    folder = tmp_path_factory.mktemp("course")
    course = write_course(
        folder,
        ("[clipped-loss,", "[clip-table-up, clipped-loss,"),
        ("[[eve, mel]]", "[[eve, mel]], week-02: [[eve, mel]]"),
    )
    assert main(["course", "release", "week-02", "--course", str(folder)]) == 0
    source = tmp_path_factory.mktemp("handed_in")
    answers = Answers(course, "week-02")
    put(source / "ada.ipynb", answers.filled(answers.right()))
    wrong = {"clipped-loss": WRONG, "pessimism": "<script>alert(1)</script> It depends."}
    put(source / "bob.ipynb", answers.filled(answers.right() | wrong), LATE)
    ended = {"clipped-loss": "def clipped_loss(*given):\n    import os\n    os._exit(0)\n"}
    put(source / "mel.ipynb", answers.filled(answers.right("clip-table-up", "pessimism") | ended))
    assert main(["course", "collect", "week-02", str(source), "--course", str(folder)]) == 0
    assert main(["course", "grade", "week-02", "--processes", "1", "--course", str(folder)]) == 0
    return folder


@pytest.fixture
def run(graded: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["course", *words, "--course", str(graded)]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return run


def test_what_was_graded(graded, run):
    scores = work.state(settings.load(graded), "week-02").scores
    assert set(scores) == {"ada", "bob", "eve", "mel"}
    parts = {who: one.parts.values() for who, one in scores.items()}
    points = {who: [one.points for one in mine if one.auto is not None] for who, mine in parts.items()}
    assert points == {"ada": [2, 4, 4], "bob": [2, 0, 4], "eve": [2, 0, 0], "mel": [2, 0, 0]}
    assert "pessimism" in scores["ada"].waiting
    assert scores["bob"].penalty == pytest.approx(scores["bob"].points / 10)
    said = run("grade", "week-02")
    assert "0 submissions graded, 3 graded already" in said
    assert "answers to mark: ppobook course mark week-02" in said


def test_without_a_sandbox_nothing_is_graded(run, monkeypatch):
    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap is missing.")
    said = run("grade", "week-02", "--again", code=2)
    assert "grading must have a sandbox" in said
    assert "bubblewrap is missing." in said


def test_a_course_that_every_submission_could_read_is_not_graded(run, graded, monkeypatch):
    monkeypatch.setattr(sandbox, "libraries", lambda: [graded.parent])
    said = run("grade", "week-02", "--again", code=2)
    assert f"must lie outside of {graded.parent}, where Python's packages are" in said
    assert said.strip().endswith("; move it")
    machine = itertools.islice(checking.check(settings.load(graded)), 6)
    assert [level for level, said in machine if "must lie outside" in said] == ["fails"]


def test_feedback(graded, run):
    assert "week-02: 4 pages written" in run("feedback")
    page = (graded / "feedback" / "bob" / "week-02.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    others = {"ada", "Lovelace", "eve", "Åström", "mel", "O&#x27;Neill", "O'Neill", "@uni.example"}
    assert not {one for one in others if re.search(rf"\b{re.escape(one)}\b", page)}
    # Nothing of a check, of its sealed probes, or of the secret that draws them.
    module = importlib.import_module(checks.names()["clipped-loss"])
    source = {line.strip() for line in Path(module.__file__).read_text(encoding="utf-8").splitlines()}
    assert not {line for line in source if len(line) > 30 and (line in page or escape(line) in page)}
    course = settings.load(graded)
    assert course.secret not in page
    content = next((graded / "submitted" / "week-02" / "bob").glob("*/*.ipynb")).read_bytes()
    assert str(part_seeds(course.secret, "bob", content)("clipped-loss")) not in page
    assert str(graded) not in page


def test_the_zip_that_a_platform_takes_back(graded, run, tmp_path):
    download = tmp_path / "submissions.zip"
    with zipfile.ZipFile(download, "w") as archive:
        archive.writestr("mullerbob_5_6_week-02.ipynb", "{}")
        archive.writestr("eve_7_8_week-02.ipynb", "{}")
        # Its number is the group's, which Moodle would take for a participant's.
        archive.writestr("Team Red_7007_assignsubmission_file_/week-02.ipynb", "{}")
    for who, label in (("bob", "mullerbob_5"), ("mel", "Team Red_7007")):
        receipt = next((graded / "submitted" / "week-02" / who).glob("*/receipt.json"))
        receipt.write_text(json.dumps({**json.loads(receipt.read_text()), "label": label}))
    said = run("feedback", "week-02", "--give-back", str(download))
    assert "! Team Red_7007: no page in the zip\n! eve_7: no page in the zip" in said
    with zipfile.ZipFile(graded / "feedback" / "week-02.zip") as archive:
        assert archive.namelist() == ["mullerbob_5_6_week-02.html"]
        assert b"Bob M" in archive.read("mullerbob_5_6_week-02.html")


def test_a_named_mistake_is_worth_a_share_by_course_yml(graded, run):
    path = graded / "course.yml"
    before = path.read_text()
    partial = "    partial: {clipped-loss: {old_logp is not detached: 0.5}}\n    points:"
    path.write_text(before.replace("    points:", partial))
    score = work.state(settings.load(graded), "week-02").scores["bob"]
    path.write_text(before.replace("    points:", partial.replace("clipped-loss", "cliped-loss")))
    assert "Did you mean 'clipped-loss'?" in run("report", code=2)
    path.write_text(before)
    assert score.parts["clipped-loss"].points == 2


def test_a_correction_has_a_reason_and_survives_a_regrade(graded, run, monkeypatch):
    words = ("correct", "week-02", "clipped-loss", "--student", "bob")
    reason = ("--reason", "the detach was asked for nowhere")
    assert run(*words, "--points", "3", *reason).startswith("bob: clipped-loss, 3 points\n")
    found = {one: read_record(graded, "week-02", one).result for one in ("ada", "bob", "mel")}
    asked = []

    def judged(handed, opener, *_):
        asked.append(opener.keywords["only"])
        return ((one, found[one.by], "") for one in handed)

    monkeypatch.setattr(grading_run, "graded", judged)
    assert "3 submissions graded, 0 graded already" in run("regrade", "clipped-loss")
    assert asked == ["clipped-loss"]
    course = settings.load(graded)
    part = work.state(course, "week-02").scores["bob"].parts["clipped-loss"]
    assert (part.points, part.auto, part.reason) == (3, 0, reason[1])
    assert [e["part"] for e in trail.read(graded) if e["what"] == "regrade"] == ["clipped-loss"]
    assert "eve: week-02, excused" in run("correct", "week-02", "--student", "eve", "--excused", *reason)
    run("correct", "week-02", "--student", "eve", "--undo", *reason)
    again = run("correct", "week-02", "--student", "eve", "--undo", *reason, code=2)
    assert "undo must follow a correction of week-02 for eve, got none" in again
    assert "points must be from 0 to 4, got 5" in run(*words, "--points", "5", *reason, code=2)
    assert "one of --points, --full, --excused and --undo" in run(*words, "--full", "--undo", *reason, code=2)
    assert "a part of week-02 must be given" in run("correct", "week-02", "--full", *reason, code=2)
    nobody = ("correct", "week-02", "clipped-loss", "--student", "bib", "--full", *reason)
    assert "got 'bib'. Did you mean 'bob'" in run(*nobody, code=2)
    monkeypatch.setattr(work.collecting, "counting", lambda *_: [])
    assert "a notebook of week-02, got 'bob', who has not" in run(*words, "--full", *reason, code=2)


def test_only_the_instructor_reads_what_a_course_holds(graded, run):
    run("extend", "eve", "week-02", "--until", "2027-03-20 23:59", "--reason", "ill")
    early = run("extend", "eve", "week-02", "--until", "2027-01-01 23:59", "--reason", "ill", code=2)
    assert "or later, got 2027-01-01 23:59" in early
    run("feedback")
    run("grades")
    run("roster")
    made = ("submitted/*/*/*", "graded/*/*", "feedback/*/*", "grades/*", "release/*.json", "marks/*/*")
    found = [path for one in made for path in graded.glob(one)]
    assert len(found) > 8
    assert not [path for path in found if path.stat().st_mode & 0o077]
