"""Notebooks that students hand in: an assignment as it was released, with answers in its variants."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ppobook.course import masters, packs, settings
from ppobook.course.records import Pack, PackPart, answers_of
from ppobook.course.sets import open_set

IN_TIME = datetime(2027, 2, 27, 12, 0, tzinfo=UTC)  # for all assignments of the small course


class Answers:
    """Answers that students may write into an assignment that was released.

    Attributes
    ----------
    notebook : what was handed out
    expressions : what the check of each tested part is given
    book : the master's solution of each part, as the book has it
    """

    def __init__(self, course: settings.Course, name: str) -> None:
        handout = packs.released(course, name)
        assert handout is not None
        self.notebook = handout.notebook
        self.expressions = {one.name: one.expression for one in handout.tested}
        solutions = masters.solutions(dict(open_set(handout.set, course.folder).notebook))
        asked = {p.name for p in masters.parts(self.notebook) if p.role in ("solution", "manual")}
        self.book = {name: solutions[name].source for name in solutions if name in asked}

    def turned(self, part: str, source: str) -> str:
        """A function with the book's numbers, as the source of one with the course's."""
        found = re.match(r"in_book_numbers\((\w+), (\d+)", self.expressions.get(part, ""))
        if found is None:
            return source
        back = self.expressions[part].replace(f", {found[2]}", f", 1 / {found[2]}", 1)
        return f"{source}\nfrom ppobook.course.variants import in_book_numbers\n{found[1]} = {back}\n"

    def right(self, *parts: str) -> dict[str, str]:
        """Right answers to these parts; to all of them if none is named."""
        return {name: self.turned(name, self.book[name]) for name in parts or self.book}

    def filled(self, answers: Mapping[str, str]) -> dict[str, Any]:
        """The notebook with these answers in it; the other blanks stand."""
        return dict(masters.fill(self.notebook, answers))


def pack_of(name: str, notebook: Mapping[str, Any]) -> Pack:
    """Make a pack of a reader's notebook, its parts read from the tags and the test cells."""
    made = []
    for one in masters.parts(notebook):
        if one.points is not None:
            called = answers_of(notebook["cells"][one.index]["source"]) if one.role == "test" else {}
            made.append(PackPart(one.name, one.role, one.points, expression=called.get(one.name, "")))
    return Pack(name, dict(notebook), tuple(made))


def put(path: Path, content: bytes | Mapping[str, Any], time: datetime = IN_TIME) -> Path:
    """Write what somebody hands in, at that time."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (time.timestamp(), time.timestamp()))
    return path


def git(folder: Path, *words: str, time: datetime = IN_TIME, code: int = 0) -> None:
    """Run git with none of the settings of this machine's user; commits have that time."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    environ |= dict.fromkeys(("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"), time.isoformat())
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *words], cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
