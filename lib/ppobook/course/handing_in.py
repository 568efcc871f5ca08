"""Write what stands beside the exercises of a pack: its first cells, HOW_TO_HAND_IN.md, requirements.txt."""

from __future__ import annotations

from ppobook.course.settings import Assignment, Course, Late
from ppobook.teaching.tags import Cell, Exercise
from ppobook.validation import counted

CPU = "https://download.pytorch.org/whl/cpu"

_INSTALL = """\
# The exercises need the book's library. Where it is missing, as on Colab, this cell installs it.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("ppobook") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "LIBRARY"], check=True)"""
_NAMED = """\
# The exercises need the book's library, ppobook: HOW_TO_HAND_IN.md says where it is.
import ppobook"""


def late_in_words(late: Late) -> str:
    """The late policy, in one or two sentences."""
    minutes = int(late.grace.total_seconds()) // 60
    grace = f"Up to {counted(minutes, 'minute')} after the due time nothing is lost. " if minutes else ""
    if not late.days:
        return f"{grace}What comes later does not count."
    days = counted(late.days, "day")
    lost = f"{late.per_day:g} per cent of the points are lost" if late.per_day else "nothing is lost"
    return f"{grace}For each day begun, {lost}; after {days} nothing counts."


def front_cell(
    course: Course, assignment: Assignment, origin: str, rows: list[tuple[Exercise, float]]
) -> Cell:
    """The first cell of a pack: what it is worth and until when, what is in it, and the text on AI use."""
    total = sum(points for _, points in rows)
    due = f"{assignment.due:%Y-%m-%d %H:%M} ({assignment.due.tzinfo})"
    table = ["| exercise | kind | minutes | points |", "|---|---|---|---|"]
    table += [f"| {one.title} | {one.kind} | {one.minutes} | {points:g} |" for one, points in rows]
    lines = [
        f"# {assignment.name}",
        "",
        f"{course.title}. The exercises come from {origin}.",
        "",
        f"**{total:g} points** in total, due **{due}**. {late_in_words(course.late)}",
        "",
        *table,
        "",
        "Fill in what says “not yet”, and write your answers where “Your answer”, “Your proof” and the like "
        "stand. You may add cells. How to hand in is said in HOW_TO_HAND_IN.md, beside this notebook.",
    ]
    if course.ai_use:
        lines += ["", f"**On using AI.** {course.ai_use}"]
    return {"cell_type": "markdown", "metadata": {}, "source": "\n".join(lines)}


def how_to_hand_in(course: Course, assignment: Assignment) -> str:
    """The page on how to hand in, Markdown. Points and dates are said in the notebook alone."""
    file = f"{assignment.name}.ipynb"
    install = (
        "`pip install -r requirements.txt`; then `jupyter lab`."
        if course.book
        else "Use the environment that your course gives you, which has the book's library, `ppobook`; then "
        "`jupyter lab`."
    )
    return f"""\
# How to hand in {assignment.name}

1. Install the course's environment once. {install}
2. Open `{file}` in JupyterLab and work in it. Save often.
3. Before you hand in, choose *Kernel, Restart Kernel and Run All Cells*. A check that says “not yet” or “not
   right” does not stop the others.
4. Hand in that one file, `{file}`, under this name, where your course collects its work. A zip with this file
   in it will do. Nothing else is read: no other notebook, no module of your own.

You may hand in as often as you like. What counts is the last one in time; handing in once more when it is too
late loses nothing.

Your functions are graded by running your notebook from top to bottom in a fresh kernel, without a network and
within {course.grading.cell_seconds} seconds a cell. The given cells are put back as they were handed out, so
keep your changes in the cells that are yours. Cells that you add stay where they are.
"""


# --- the environment in which a pack opens ------------------------------------------------------------------


def install_cell(course: Course) -> Cell:
    """The first code cell of a pack: it installs the book's library where that is missing, or names it."""
    # Without the extra "lab", which would replace the Jupyter that runs this.
    library = f"ppobook[plot] @ git+{course.book}"
    source = _INSTALL.replace("LIBRARY", library) if course.book else _NAMED
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}


def requirements(course: Course) -> str:
    """The text of requirements.txt: the library with JupyterLab, in the versions of constraints.txt."""
    library = f"ppobook[lab] @ git+{course.book}"
    return f"--extra-index-url {CPU}\n--constraint constraints.txt\n{library}\n"
