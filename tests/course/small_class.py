"""A made-up class for `kills.py`: its course, and what its students hand in.

Three fifths of the class are right, a quarter have a mistake or two that the checks know by name, and the
rest left some parts blank. The exercises are those of chapter 3 whose cells don't train, for ours leaves out
what only shows something.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ppobook.course import masters, packs, settings
from ppobook.course.sets import open_set
from ppobook.teaching import tags

ASSIGNMENT = "week-03"
SET = "03_the_clipped_surrogate"
EXERCISES = (
    *("clip-table-up", "clip-table-down", "clipped-loss"),
    *("ratio-one-proof", "lower-bound-proof", "eps-kl-proof"),
)
CELL_SECONDS = 60
_SETTINGS = """\
title: A class to be graded
term: {{begin: 2027-02-01, end: 2027-05-14}}
timezone: UTC
secret: {secret}
assignments:
  - {{name: {name}, set: {set}, exercises: [{exercises}], due: 2099-03-01 23:59}}
grading: {{cell_seconds: {seconds}}}
"""

# By part: what is replaced in a right answer, and by what.
MISTAKES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "clip-table-up": (
        ("(0.5, 0.8, 0.8, 0.5, False)", "(0.5, 0.8, 0.8, 0.8, False)"),
        ("(1.5, 1.2, 1.2, 1.2, True)", "(1.5, 1.2, 1.2, 1.2, False)"),
    ),
    "clip-table-down": (
        ("(-0.5, 0.8, -0.8, -0.8, True)", "(-0.5, 0.8, -0.8, -0.5, False)"),
        ("(-1.5, 1.2, -1.2, -1.5, False)", "(-1.5, 1.2, -1.2, -1.2, True)"),
    ),
    "clipped-loss": (
        ("torch.minimum(", "torch.maximum("),
        ("old_logp.detach()", "old_logp"),
        (".mean()", ".sum()"),
        ("(logp - old_logp.detach()).exp()", "logp / old_logp.detach()"),
    ),
    "ratio-one": (
        ("ratio * advantages)", "advantages)"),
        ("flat = too_far_up | too_far_down", "flat = too_far_up"),
    ),
    "lower-bound": (("[0.4, 0.6], [0.6, 0.4]", "[0.6, 0.4], [0.6, 0.4]"),),
    "eps-kl": (
        ("return forward, backward,", "return backward, forward,"),
        ("np.array([eps_high, eps])", "np.array([eps, eps_high])"),
    ),
}


def make(folder: Path, size: int, seed: int, *, cell: str = "") -> Path:
    """Write a course into an empty folder, and what its class hands in.

    Parameters
    ----------
    folder : Path
    size : int
        How many students there are.
    seed : int
        Draws the course's variants, and who makes which mistake.
    cell : str
        A cell at the end of each notebook.

    Returns
    -------
    Path
        A folder with a folder for each student, as `ppobook course collect` reads it.
    """
    draw = random.Random(seed)
    students = [f"s{number:03}" for number in range(size)]
    exercises, secret = ", ".join(EXERCISES), f"{draw.getrandbits(256):064x}"
    text = _SETTINGS.format(
        secret=secret, name=ASSIGNMENT, set=SET, exercises=exercises, seconds=CELL_SECONDS
    )
    (folder / settings.FILE).write_text(text, encoding="utf-8")
    rows = [f"{one},Student,{one},{one}@example.org," for one in students]
    lines = ["student_id,last_name,first_name,email,group", *rows]
    (folder / "roster.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    course = settings.load(folder)
    handout = packs.release(course, ASSIGNMENT).pack
    known = masters.solutions(open_set(SET, folder).notebook)
    forms = packs.drawn(course, handout)
    right = {
        one.name: forms[one.name].solution(known[one.name].source)
        if one.name in forms
        else known[one.name].source
        for one in handout.tested
    }
    for number, student in enumerate(students):
        answers = dict(right)
        if number >= 0.85 * size:
            for part in draw.sample(sorted(right), draw.randint(2, 4)):
                del answers[part]
        elif number >= 0.6 * size:
            for part in draw.sample(sorted(right), draw.randint(1, 2)):
                wrong = _replaced(known[part].source, *draw.choice(MISTAKES[part]))
                answers[part] = forms[part].solution(wrong) if part in forms else wrong
        path = folder / "handed_in" / student / handout.file
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(filled(handout.notebook, answers, cell)), encoding="utf-8")
    return folder / "handed_in"


def filled(notebook: dict[str, Any], answers: Mapping[str, str], cell: str = "") -> dict[str, Any]:
    """A pack's notebook with these answers, a sentence for each question, and perhaps a cell at its end."""
    made = copy.deepcopy(notebook)
    for one in made["cells"]:
        part = tags.part(one)
        if part is not None and part.role == "solution" and part.name in answers:
            one["source"] = answers[part.name]
        elif part is not None and part.role == "manual":
            one["source"] += "\n\nIt follows from the definition, for the two agree inside the box."
    if cell:
        own = {"cell_type": "code", "id": "mine", "metadata": {}, "source": cell, "outputs": []}
        made["cells"].append({**own, "execution_count": None})
    return made


def _replaced(source: str, old: str, new: str) -> str:
    if old not in source:
        raise ValueError(f"the answer must hold {old!r}, got {source!r}")
    return source.replace(old, new)
