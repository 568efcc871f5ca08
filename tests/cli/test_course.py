"""`ppobook course …`: from an empty folder to collected submissions, and what is refused on the way."""

import json
import re
from datetime import UTC, datetime

import pytest
from small_course import SECRET, write_course

from ppobook.cli import main
from ppobook.course import checking, packs, settings


def run(*words):
    return main(["course", *map(str, words)])


@pytest.fixture
def folder(tmp_path):
    return write_course(tmp_path / "course").folder


# --- new ----------------------------------------------------------------------------------------------------


def test_new_spreads_every_chapter_with_exercises(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Paris")
    folder = tmp_path / "term"
    assert run("new", folder, "--begin", "2027-02-01", "--weeks", "6") == 0
    assert "ppobook course check" in capsys.readouterr().out
    course = settings.load(folder)
    assert (str(course.term.begin), str(course.term.end)) == ("2027-02-01", "2027-03-14")
    assert course.timezone.key == "Europe/Paris"
    names = [one.name for one in course.assignments]
    assert len(set(names)) == len(names) >= 10
    assert names[-1].startswith("week-06")
    assert f"{course.assignments[-1].due:%m-%d %H:%M}" == "03-14 23:59"
    for one in (course.assignments[0], course.assignments[9]):
        assert len(one.exercises) > 1
        assert packs.make(course, one).points > 0
    assert (folder / "course.yml").stat().st_mode & 0o077 == 0
    assert (folder / "roster.csv").read_text().startswith("student_id,")
    assert run("new", tmp_path / "other") == 0
    assert course.secret not in (SECRET, settings.load(tmp_path / "other").secret)
    assert run("new", folder) == 2
    assert "which has one" in capsys.readouterr().err


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
    }
    looked = checking.check(write_course(tmp_path, *wrong), now=datetime(2027, 2, 1, tzinfo=UTC))
    found = [said for level, said in looked if level == "fails"]
    assert [said for said, one in zip(wrong.values(), found, strict=True) if said not in one] == []


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
