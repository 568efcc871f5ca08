"""The environment in which a pack opens: the book's library with JupyterLab, in the book's exact versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from ppobook.course.settings import Course
from ppobook.teaching.tags import Cell

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


def install_cell(course: Course) -> Cell:
    """The first code cell of a pack: it installs the book's library where that is missing, or names it."""
    # Without the extra "lab", which would replace the Jupyter that runs this.
    library = f"ppobook[plot] @ git+{course.book}"
    source = _INSTALL.replace("LIBRARY", library) if course.book else _NAMED
    cell: Cell = {"cell_type": "code", "id": "install", "metadata": {}, "source": source}
    return {**cell, "outputs": [], "execution_count": None}


def requirements(course: Course, book: Path) -> str:
    """The text of requirements.txt: the direct requirements, in the versions of constraints.txt."""
    project = tomllib.loads((book / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["lab"]]
    pinned = (book / "constraints.txt").read_text(encoding="utf-8")
    versions = {_plain(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", pinned, re.M)}
    names = sorted(re.split(r"[^\w.-]", one)[0] for one in needed)
    pins = [f"{name}=={versions[_plain(name)]}" for name in names if _plain(name) in versions]
    by_hand = "# and the book's library, ppobook, which your course gives you"
    library = f"ppobook[lab] @ git+{course.book}" if course.book else by_hand
    return "\n".join([f"--extra-index-url {CPU}", *pins, library, ""])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
