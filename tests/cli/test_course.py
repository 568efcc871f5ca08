"""`ppobook course …`: from an empty folder to collected submissions, and what is refused on the way."""

import json
import re
from datetime import UTC, date, datetime

import pytest
from small_course import SECRET, write_course

from ppobook.cli import main
from ppobook.course import beginning, checking, packs, schedule, settings
from ppobook.teaching import contents, plans, workspace


def run(*words):
    return main(["course", *map(str, words)])


@pytest.fixture
def folder(tmp_path):
    return write_course(tmp_path / "course").folder


# --- new ----------------------------------------------------------------------------------------------------


def test_new_assigns_what_the_plan_of_the_term_has(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Paris")
    folder = tmp_path / "term"
    assert run("new", folder, "--begin", "2027-02-01", "--weeks", "6") == 0
    assert "ppobook course check" in capsys.readouterr().out
    course = settings.load(folder)
    assert (str(course.term.begin), str(course.term.end)) == ("2027-02-01", "2027-03-14")
    assert course.timezone.key == "Europe/Paris"
    names = [one.name for one in course.assignments]
    assert names == [f"week-{number:02}" for number in range(1, 7)]
    assert f"{course.assignments[-1].due:%m-%d %H:%M}" == "03-14 23:59"
    assert (folder / "course.yml").stat().st_mode & 0o077 == 0
    assert (folder / "roster.csv").read_text().startswith("student_id,")
    assert run("new", tmp_path / "other") == 0
    assert course.secret not in (SECRET, settings.load(tmp_path / "other").secret)
    assert run("new", folder) == 2
    assert "which has one" in capsys.readouterr().err


@pytest.mark.parametrize("weeks", plans.lengths())
def test_a_new_course_has_the_plan_that_is_printed_and_nothing_is_due_before_it_is_read(tmp_path, weeks):
    beginning.begin(tmp_path, date(2027, 2, 1), weeks)
    course, book = settings.load(tmp_path), contents.read_book(workspace.find_source())
    plan = plans.ready(book, schedule.length(course))
    made = schedule.of_course(plan, book, course)
    assert len(made.weeks) == weeks
    labels = [[sorted(one.exercise.label for one in w.tasks) for w in p.weeks] for p in (made, plan)]
    assert labels[0] == labels[1]
    assert [len(one.due) for one in made.weeks] == [1] * weeks
    assert list(schedule.early(course)) == []
    for one in course.assignments:  # none needs an exercise that is not assigned
        assert packs.make(course, one).points > 0


# --- check --------------------------------------------------------------------------------------------------


def test_a_course_in_which_nothing_fails(folder, capsys):
    assert run("check", "--course", folder) == 0
    said = capsys.readouterr().out
    assert "✓ 4 students in roster.csv" in said
    assert "✓ week-02: 03_the_clipped_surrogate, 3 parts, 13 points" in said
    assert "✓ week-01: 1 check tried; the solutions of 90_doubling.md are right" in said
    assert said.endswith("Nothing will fail.\n")


def test_all_that_will_fail_is_said_at_once(tmp_path):
    wrong = {
        ("due: 2027-03-08", "due: 2027-06-08"): "week-02: due must be in the term",
        ("[[eve, mel]]", "[[eve, zoe]]"): "groups.week-01: 'zoe' must be in roster.csv, and is not",
        ("set: 90_doubling", "set: 90_trebling"): "week-01: set must be one of",
        ("-loss: 4}", "-loss: 4}\n    partial: {clipped-loss: {old_logp: 1}}"): "'old_logp is not detached'",
    }
    looked = checking.check(write_course(tmp_path, *wrong), now=datetime(2027, 2, 1, tzinfo=UTC))
    found = [said for level, said in looked if level == "fails"]
    assert [said for said, one in zip(wrong.values(), found, strict=True) if said not in one] == []


def test_what_is_due_before_it_is_read_and_what_was_due_are_named(tmp_path):
    course = write_course(tmp_path, ("due: 2027-03-08", "due: 2027-02-22"))
    notes = [said for level, said in checking.check(course, now=course.assignments[0].due) if level == "note"]
    assert notes == [
        "week-02: it is due before the chapter of 03_the_clipped_surrogate is read, in week 5",
        "week-02: it is not released, and was due on 2027-02-22",
    ]


# --- release, collect, grade, extend ------------------------------------------------------------------------


def test_a_walk(folder, tmp_path, capsys):
    assert run("release", "week-01", "--course", folder) == 0
    assert run("release", "week-01", "--course", folder) == 0
    assert "as it was released" in capsys.readouterr().out
    source = tmp_path / "source"
    source.mkdir()
    (source / "mel.ipynb").write_text(json.dumps({"cells": []}))
    (source / "bob@uni.example.ipynb").write_text("{}")
    (source / "bob.zip").write_text("no zip")
    assert run("collect", "week-01", source, "--course", folder) == 0
    said = capsys.readouterr().out
    assert re.search(r"^\+ mel  20\d\d-", said, re.M)
    assert "! bob: no notebook of week-01 that can be read" in said
    assert "? bob@uni.example: nobody in the roster" in said
    assert "Nothing yet from: ada\n" in said
    assert "2 new submissions, 0 already kept" in said
    assert run("grades", "--course", folder) == 0
    assert "! week-01: handed in without a notebook that can be read: bob\n" in capsys.readouterr().out
