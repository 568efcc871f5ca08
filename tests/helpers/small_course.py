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
late: {{grace: 15 minutes, per_day: 10, days: 3}}
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


CHECKS = '''\
"""The checks of the small course's own exercises."""

from ppobook.teaching.checks import Chapter, Property, as_array, recognise
from ppobook.teaching.checks.probes import agrees, random_problems

CHAPTER = Chapter(90, "Doubling", {"sec-twice": "Twice as much"})


@CHAPTER.check("double", section="sec-twice")
def double(answer):
    got = as_array(answer(3.0), ())
    yield from recognise(got, {"squared": 9})
    yield Property("nothing doubled is nothing", float(answer(0.0)) == 0)
    problems = random_problems(lambda rng: {"x": float(rng.normal())})
    yield agrees(answer, lambda p: p.x * 2, problems)
'''
MESSAGES = """\
[double.squared]
seen = "of 3 your function makes {got}."
think = "what is added to 3, so that it is twice as much?"
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
    own = folder / "exercises"
    (own / "90_doubling.md").write_text(MASTER, encoding="utf-8")
    (own / "90_doubling_checks.py").write_text(CHECKS, encoding="utf-8")
    (own / "90_doubling_checks.toml").write_text(MESSAGES, encoding="utf-8")
    return settings.load(folder)
