"""A course in a folder, with one exercise set of its own and students, made within a test."""

from pathlib import Path

from tiny_book import MASTER

from ppobook.course import settings

SECRET = "5f" * 32
SETTINGS = f"""\
title: Policy optimization
term: {{begin: 2027-02-01, end: 2027-05-14}}
timezone: Europe/Berlin
secret: {SECRET}
assignments:
  - {{name: week-01, set: 90_doubling, due: 2027-03-01 23:59}}
  - name: week-02
    set: 03_the_clipped_surrogate
    exercises: [clipped-loss, hunt-stale, pessimism]
    due: 2027-03-08 23:59
    points: {{clipped-loss: 4}}
    total: 13
late: {{grace: 15 minutes, per_day: 10, days: 3}}
extensions:
  - {{student: ada, assignment: week-01, until: 2027-03-05 23:59, reason: ill}}
groups: {{week-01: [[eve, mel]]}}
ai_use: Say what you asked, and of whom.
"""
ROSTER = """\
student_id,last_name,first_name,email,group,lms_id
ada,Lovelace,Ada,ada@uni.example,A,101
bob,Müller,Bob,bob@uni.example,A,102
eve,Åström,Eve Maria,eve@uni.example,B,103
mel,O'Neill,Mel,mel@uni.example,B,104
"""


def write_course(folder: Path, *edits: tuple[str, str]) -> settings.Course:
    """Write a course's folder, with (old, new) edits in its course.yml; return the course."""
    (folder / "exercises").mkdir(parents=True, exist_ok=True)
    text = SETTINGS
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / settings.FILE).write_text(text, encoding="utf-8")
    (folder / "roster.csv").write_text(ROSTER, encoding="utf-8")
    (folder / "exercises" / "90_doubling.md").write_text(MASTER, encoding="utf-8")
    return settings.load(folder)
