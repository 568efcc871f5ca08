"""The reader's desk: worked out from the book and from what was recorded, and the same in a terminal."""

import re
from pathlib import Path

import pytest

from ppobook.cli.main import main
from ppobook.teaching import desk, minutes, progress, tags
from ppobook.teaching.desk import Met, Room, Task, lay_out
from ppobook.teaching.progress import Finding, Kept, Time
from ppobook.teaching.workspace import MEMORY

ROOT = Path(__file__).parents[2]
TASKS = [Task(name, f"About {name}", "exercises/x.ipynb", 10, (name,)) for name in "abc"]
TASKS.append(Task("both", "About both", "exercises/y.ipynb", 20, ("d", "e")))
ROOMS = (
    Room("0 Begin", "chapters/0.ipynb", 5.0, ()),
    Room("1 First", "chapters/1.ipynb", 30.0, tuple(TASKS[:3])),
    Room("2 Second", "chapters/2.ipynb", 40.0, tuple(TASKS[3:])),
)


def found(*said):
    """Findings from "a right", "b mistake its name", …"""
    words = (f"{text}  ".split(" ", 2) for text in said)
    return Kept(tuple(Finding(at, one, kind, what.strip()) for at, (one, kind, what) in enumerate(words)))


def of(*said):
    return lay_out(ROOMS, found(*said), "work/file")


def test_nothing_yet():
    empty = of()
    assert [(row.right, row.tasks, row.exercises, row.reading) for row in empty.rows] == [
        (0, 0, 0, 5.0),
        (0, 3, 30, 30.0),
        (0, 1, 20, 40.0),
    ]
    assert empty.minutes == 125
    assert [(task.label, why) for task, why in empty.next] == [("a", "next on the path")]
    assert "Mistakes" not in str(empty)


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
        return [(task.label, why) for task, why in of(*said).next]

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


def test_checks_of_no_exercise_do_no_harm():
    assert [row.right for row in of("gone right", "gone mistake x").rows] == [0, 0, 0]


def test_what_is_shown_is_escaped_and_linked():
    kept = Kept(found("a mistake 1 < 2 & <b>").findings, (Time(1, "gae", 83.9),), 1)
    page = lay_out(ROOMS, kept, "work/file")._repr_html_()
    assert "1 &lt; 2 &amp; &lt;b&gt;" in page
    assert 'href="../exercises/x.ipynb"' in page
    assert "gae 1:23" in page
    assert "1 line of work/file can&#x27;t be read" in page
    assert "<code>ppobook progress --clear</code>" in page


def test_the_command_prints_it_from_beside_and_from_within(tmp_path, capsys, monkeypatch):
    work = tmp_path / "work"
    (work / "exercises").mkdir(parents=True)
    (work / MEMORY).write_text("{}\n")
    progress.record(work, check="pg-loss", kind="mistake", what="the sign is turned round")
    progress.record(work, check="softmax-score", kind="right", what="softmax-score")
    said = []
    for folder in (tmp_path, work, work / "exercises"):
        monkeypatch.chdir(folder)
        assert main(["progress"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]
    assert re.search(r"Vanilla policy gradient +1 of \d+", said[0])
    assert "1 × the sign is turned round (pg-loss)" in said[0]
    assert "pg-loss: The loss whose gradient it is, 15 min" in said[0]
    assert "Kept in work/.progress.jsonl" in said[0]


def test_the_desk_says_what_keeps_it_from_recording(monkeypatch):
    monkeypatch.setattr(progress, "OFF", ())
    kept = Kept(found("a mistake").findings)
    assert "is set" not in str(lay_out(ROOMS, kept, "work/file"))
    monkeypatch.setenv("PPOBOOK_PROGRESS", "0")
    assert "because the environment variable PPOBOOK_PROGRESS is set" in str(
        lay_out(ROOMS, kept, "work/file")
    )


def test_a_folder_that_lost_its_memory_is_no_new_readers(tmp_path, monkeypatch):
    (tmp_path / "work" / "desk").mkdir(parents=True)
    progress.record(tmp_path / "work", check="pg-loss", kind="right", what="pg-loss")
    for folder in (tmp_path / "work", tmp_path / "work" / "desk"):
        monkeypatch.chdir(folder)
        with pytest.raises(FileNotFoundError, match="is gone; `ppobook work --folder` makes it again"):
            desk.desk()


def test_a_folder_within_the_copies_leads_to_them(tmp_path, monkeypatch):
    (tmp_path / "mine" / "exercises").mkdir(parents=True)
    (tmp_path / "mine" / MEMORY).write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    assert desk.find_folder("mine/exercises").resolve() == desk.find_folder("mine").resolve()


def test_the_book_has_every_chapter_and_every_check():
    rooms = desk.rooms(ROOT)
    assert [room.notebook for room in rooms] == [
        path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "chapters").glob("*.ipynb"))
    ]
    listed = {name for room in rooms for task in room.tasks for name in task.checks}
    files = (ROOT / "exercises").glob("*.ipynb")
    tested = {part.name for file in files for part in tags.parts(tags.read(file)) if part.role == "test"}
    assert listed == tested
    one = next(room for room in rooms if room.title.startswith("1 "))
    source = tags.read(ROOT / "chapters/01_vanilla_policy_gradient.md")
    assert one.minutes == pytest.approx(minutes.count(source["cells"]).minutes, rel=0.02)
