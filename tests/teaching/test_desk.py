"""The reader's desk: worked out from the book and from what was recorded, and the same in a terminal."""

from pathlib import Path

import pytest

from ppobook.cli.main import main
from ppobook.teaching import contents, desk, paths, progress
from ppobook.teaching.contents import Book, Chapter, Section, Task
from ppobook.teaching.desk import Met, lay_out
from ppobook.teaching.paths import LearningPath, Step
from ppobook.teaching.progress import Finding, Kept, Time
from ppobook.teaching.tags import Exercise, Part
from ppobook.teaching.workspace import MEMORY

ROOT = Path(__file__).parents[2]


def task(label, chapter, minutes, *checks):
    parts = tuple(Part("test", name, 1.0, 0) for name in checks)
    return Task(f"{chapter}_x", Exercise(label, f"About {label}", "Build", 1, minutes, "x", 0, 1, parts))


def chapter(number, title, *minutes):
    sections = tuple(Section(number, f"Part {i}", None, one) for i, one in enumerate(minutes))
    return Chapter(number, title, f"chapters/{number}.ipynb", sections, 0.0)


CHAPTERS = (chapter(0, "Begin", 5.0), chapter(1, "First", 9.0, 21.0), chapter(2, "Second", 6.0, 6.0, 28.0))
TASKS = (*(task(name, 1, 10, name) for name in "abc"), task("both", 2, 20, "d", "e"))
BOOK = Book({one.number: one for one in CHAPTERS}, {one.exercise.label: one for one in TASKS})


def found(*said):
    """Findings from "a right", "b mistake its name", …"""
    words = (f"{text}  ".split(" ", 2) for text in said)
    return Kept(tuple(Finding(at, one, kind, what.strip()) for at, (one, kind, what) in enumerate(words)))


def of(*said):
    return lay_out(BOOK, found(*said), "work/file")


def test_an_exercise_is_right_when_all_of_its_checks_are_and_stays_so():
    some = of("a right", "a mistake later", "d right")
    assert [row.right for row in some.rows] == [0, 1, 0]
    assert [row.reading for row in some.rows] == [0, 0, 0]
    assert some.minutes == 40
    assert [row.right for row in of("d right", "e right").rows] == [0, 0, 1]


def test_a_mistake_is_counted_again_only_after_another_verdict():
    said = ("a mistake the sign", "a mistake the sign", "b mistake the sign", "a raised TypeError")
    said += ("a mistake the sign", "b property it is causal", "b slow still running", "a right", "b right")
    assert desk.mistakes(found(*said).findings) == [
        Met(3, "the sign", ("a", "b")),
        Met(1, "stopped with TypeError", ("a",)),
        Met(1, "this fails: it is causal", ("b",)),
        Met(1, "still running", ("b",)),
    ]


def test_next_is_what_was_begun_and_then_the_first_new_one_after_it():
    def names(*said):
        return [(task.exercise.label, why) for task, why in of(*said).next]

    assert names("b mistake x") == [("b", "begun"), ("c", "next on the path")]
    assert names("b right") == [("c", "next on the path")]
    assert names("d right") == [("both", "begun"), ("a", "next on the path")]
    assert names("a mistake x", "c mistake x", "b mistake x") == [
        ("b", "begun"),
        ("c", "begun"),
        ("both", "next on the path"),
    ]
    done = of(*(f"{name} right" for name in "abcde"))
    assert not done.next
    assert done.minutes == 0
    assert "nothing is left" in str(done)


def test_what_is_shown_is_escaped_and_linked():
    kept = Kept(found("a mistake 1 < 2 & <b>").findings, (Time(1, "gae", 83.9),), 1)
    page = lay_out(BOOK, kept, "work/file")._repr_html_()
    assert "1 &lt; 2 &amp; &lt;b&gt;" in page
    assert 'href="../exercises/1_x.ipynb"' in page
    assert "gae 1:23" in page
    assert "1 line of work/file can&#x27;t be read" in page
    assert "<code>ppobook progress --clear</code>" in page


def test_the_command_prints_it_from_beside_and_from_within(tmp_path, capsys, monkeypatch):
    work = tmp_path / "work"
    (work / "exercises").mkdir(parents=True)
    (work / MEMORY).write_text("{}\n")
    progress.record(work, check="pg-loss", kind="mistake", what="the sign is turned round")
    said = []
    for folder in (tmp_path, work / "exercises"):
        monkeypatch.chdir(folder)
        assert main(["progress"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "1 × the sign is turned round (pg-loss)" in said[0]
    assert "Kept in work/.progress.jsonl" in said[0]


# --- along a path -------------------------------------------------------------------------------------------

ESSAY = task("essay", 2, 15)
PATH = LearningPath(
    "short",
    "A short one",
    "for somebody",
    (
        Step((*CHAPTERS[0].sections, *CHAPTERS[2].sections[:2]), (TASKS[3], ESSAY), "Words"),
        Step(CHAPTERS[1].sections[:1], (TASKS[1], TASKS[0]), "Deeds"),
    ),
    "",
)


def along(*said):
    return lay_out(BOOK, found(*said), "work/file", path=PATH)


def test_a_path_says_what_is_left_of_it_alone():
    empty = along()
    assert [(row.tasks, row.exercises, row.reading) for row in empty.rows] == [
        (0, 0, 5),
        (2, 20, 9),
        (1, 20, 12),
    ]
    assert empty.minutes == 66
    assert empty.planned == pytest.approx(40 + 1.5 * 26)
    said = str(empty)
    assert said.startswith("Path: A short one (short)\n")
    assert "Left: 1 h 06 min as printed, which the path plans as 1 h 19 min" in said
    assert "besides, 15 min in exercises" in said


def test_what_is_next_follows_the_path():
    def names(*said):
        shown = along(*said)
        return [(task.exercise.label, why) for task, why in shown.next], shown.read and shown.read[0].title

    assert names() == ([("both", "next on the path: Words")], "Begin")
    # An exercise that is not on the path changes nothing, but its chapter has been read.
    assert names("c mistake x") == ([("both", "next on the path: Words")], "Second")
    assert names("d right") == ([("both", "begun"), ("b", "next on the path: Deeds")], "First")
    assert names("d right", "e right", "b right", "a right") == ([], None)


@pytest.mark.parametrize("name", paths.names())
def test_a_new_reader_of_a_path_has_all_of_its_hours_before_them(name):
    book = contents.read_book(ROOT)
    path = paths.find(book, name)
    empty = lay_out(book, Kept(), "", path=path)
    assert empty.planned + empty.others == pytest.approx(60 * path.hours[1])
    tasks = [task for step in path.steps for task in step.tasks]
    assert sum(row.tasks for row in empty.rows) == sum(bool(task.checks) for task in tasks)
    done = Kept(tuple(Finding(0, one, "right", one) for task in tasks for one in task.checks))
    last = lay_out(book, done, "", path=path)
    assert (last.minutes, last.next, last.read) == (0, (), None)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A reader's folder, and a terminal beside it."""
    monkeypatch.setattr(progress, "OFF", ())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / MEMORY).write_text("{}\n")
    return tmp_path / "work"


def test_the_folder_remembers_the_path_until_it_is_left_or_cleared(work, capsys):
    def said(*words):
        assert main(["progress", *words]) == 0
        return capsys.readouterr().out

    assert "Path:" not in said()
    chosen = said("--path", "fifteen-hours")
    assert chosen.startswith("Path: PPO in fifteen hours (fifteen-hours)\n")
    assert said() == chosen == f"{desk.desk(work)}\n"
    assert "Path:" not in said("--path", "off")
    assert "Path:" not in said()
    assert "drill and path" in said("--clear")
    assert "Path:" not in said()
