"""`ppobook course …`: what an instructor runs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ppobook.cli.main import run_command

COMMANDS = {
    "new": ("ppobook.cli.assigning:new", "make the folder of a course"),
    "check": ("ppobook.cli.assigning:check", "say before the term what will fail"),
    "release": ("ppobook.cli.assigning:release", "make the zip that students get"),
    "solutions": (
        "ppobook.cli.assigning:solutions",
        "write the notebook with all solutions",
    ),
    "roster": ("ppobook.cli.assigning:students", "show the students, or import a list"),
    "collect": ("ppobook.cli.assigning:collect", "keep what was handed in"),
    "extend": ("ppobook.cli.assigning:extend", "give a student more time"),
    "grade": ("ppobook.cli.course_grading:grade", "grade what counts, in a sandbox"),
    "regrade": ("ppobook.cli.course_grading:regrade", "grade one part of all submissions again"),
    "mark": ("ppobook.cli.course_grading:mark", "open the page for the questions that a person marks"),
    "feedback": ("ppobook.cli.course_grading:feedback", "write a page for each student"),
    "grades": ("ppobook.cli.course_grading:grades", "write the grades as CSV"),
    "report": ("ppobook.cli.course_grading:report", "show which mistakes the class made"),
    "similar": ("ppobook.cli.assigning:similar", "list equal and nearly equal code answers"),
    "correct": ("ppobook.cli.course_grading:correct", "correct points of one student or of all"),
    "export": ("ppobook.cli.student_data:export", "write all that is kept about a student into a zip"),
    "erase": ("ppobook.cli.student_data:erase", "erase all that is kept about a student"),
    "slides": ("ppobook.cli.teach:slides", "slides of a chapter, as HTML or PDF"),
    "schedule": ("ppobook.cli.teach:schedule", "a plan of the term, with honest hours"),
}

# What these write is shown to a class.
PUBLIC = ("slides", "schedule")

EXAMPLES = """\
  ppobook course new ~/course --begin 2027-02-01 --weeks 14
  ppobook course roster students.csv --course ~/course
  ppobook course check --course ~/course
  ppobook course release week-03 --course ~/course
  ppobook course collect week-03 submissions.zip --course ~/course
  ppobook course extend ada week-03 --until "2027-03-05 23:59" --reason ill --course ~/course
  ppobook course grade week-03 --course ~/course
  ppobook course mark week-03 --course ~/course
  ppobook course grades week-03 --course ~/course
  ppobook course export ada --course ~/course
  ppobook course slides 3 --out clipped.html
  ppobook course schedule --weeks 10"""


def run(words: Sequence[str], prog: str) -> None:
    """Run the command that the first word names.

    All that it writes but slides and plans is for the instructor's account alone: names, grades, the secret.
    """
    private = not words or words[0] not in PUBLIC
    before = os.umask(0o077) if private else None
    try:
        run_command(words, prog, COMMANDS, EXAMPLES)
    finally:
        if before is not None:
            os.umask(before)
