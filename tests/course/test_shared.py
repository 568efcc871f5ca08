"""A course in a repository: what two people wrote into its logs at the same time is merged."""

import subprocess

from ppobook.course import beginning, trail


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_the_lines_of_two_people_are_merged(tmp_path):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    beginning.begin(mine, chapters=[1], timezone="UTC")
    trail.note(mine, "release", assignment="week-01")
    git(mine, "init", "-q")
    git(mine, "add", "-A")
    git(mine, "commit", "-q", "-m", "a course")
    git(tmp_path, "clone", "-q", str(mine), str(theirs))
    for folder, student in ((mine, "ada"), (theirs, "bob")):
        trail.note(folder, "extension", student=student)
        git(folder, "commit", "-q", "-a", "-m", student)
    git(mine, "pull", "-q", "--no-rebase", str(theirs), "main")
    assert {one.get("student") for one in trail.read(mine)} == {None, "ada", "bob"}
