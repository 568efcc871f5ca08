"""The environment in which a pack opens: the book's library with JupyterLab, in the book's exact versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from ppobook.course.settings import Course
from ppobook.teaching.tags import Cell

_NAME = re.compile(r"[A-Za-z0-9._-]+")
CPU = "https://download.pytorch.org/whl/cpu"
_BY_HAND = "The book's library comes from its folder: pip install --editable FOLDER-OF-THE-BOOK"

_INSTALL = """\
# The exercises need the book's library. Where it is missing, as on Colab, this cell installs it.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("ppobook") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "LIBRARY"], check=True)"""
_NAMED = """\
# The exercises need the book's library, in the environment that HOW_TO_HAND_IN.md describes.
import ppobook"""


def install_cell(course: Course) -> Cell:
    """The first code cell of a pack: it installs the book's library where that is missing, or names it."""
    source = _INSTALL.replace("LIBRARY", _library(course)) if course.book else _NAMED
    return {
        "cell_type": "code",
        "id": "install",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def requirements(course: Course, book: Path) -> str:
    """The text of requirements.txt."""
    library = _library(course) if course.book else f"# {_BY_HAND}"
    return "\n".join([f"--extra-index-url {CPU}", *_pins(book), library, ""])


def environment(course: Course, book: Path) -> str:
    """The text of environment.yml, for conda."""
    library = f"      - {_library(course)}" if course.book else f"      # {_BY_HAND}"
    pins = [f"      - {pin}" for pin in _pins(book)]
    head = ["name: course", "channels:", "  - conda-forge", "dependencies:", "  - python=3.12", "  - pip"]
    return "\n".join([*head, "  - pip:", f"      - --extra-index-url {CPU}", *pins, library, ""])


def _library(course: Course) -> str:
    return f"ppobook[lab] @ git+{course.book}"


def _pins(book: Path) -> list[str]:
    """List the direct requirements of the library and JupyterLab, in the versions of constraints.txt."""
    project = tomllib.loads((book / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["lab"]]
    versions = {}
    for line in (book / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, exact, version = line.partition("==")
        if exact and not name.startswith("#"):
            versions[_plain(name)] = version.split()[0]
    names = [found[0] for one in needed if (found := _NAME.match(one))]
    return [f"{name}=={versions[_plain(name)]}" for name in sorted(names) if _plain(name) in versions]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
