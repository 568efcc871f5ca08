"""Hostile submissions, graded by an instructor's commands: what each earns, and that it harms nobody."""

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest
import watching
from filled_in import Answers, put
from hostile import ATTACKS, LOSS, WEIGHTS, WORTH, Attack, Knows
from small_course import write_course

from ppobook.cli import main
from ppobook.course import graders, settings
from ppobook.course.calls import Grader
from ppobook.course.records import Record, read_record
from ppobook.course.sandbox import Limits, Sandbox
from ppobook.teaching import checks

# Among them, and first and last.
HONEST = ("honest-1", "honest-2", "honest-3")
WEEK = """\
  - name: week-03
    set: 03_the_clipped_surrogate
    exercises: [clip-table-up, clipped-loss, ratio-one-proof]
    due: 2027-03-08 23:59
    points: {clipped-loss: 4, ratio-one-proof: 0}
grading: {seconds: 12, cell_seconds: 4, memory_mb: 900, disk_mb: 16, processes: 40}
"""


@dataclass
class Class:
    """The course when all has been graded: what a server near by was asked."""

    folder: Path
    answers: Answers
    knows: Knows
    asked: list[bytes]
    before: dict[str, tuple[int, int]]

    def record(self, student: str) -> Record | None:
        return read_record(self.folder, "week-03", student)


@contextmanager
def telling(right: str) -> Iterator[tuple[int, list[bytes]]]:
    """A server on this machine that gives the right answer to whoever asks; its port, and who asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(4096))
                    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + right.encode())

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], asked
        server.shutdown(socket.SHUT_RDWR)


def weights_that_were_seen(answers: Answers) -> str:
    """The weights as a table of what the public check asks for; it has nothing for any other question."""
    space: dict[str, Any] = {}
    exec("import numpy as np, torch\n" + answers.right(WEIGHTS)[WEIGHTS], space)
    seen: dict[str, Any] = {}

    def key(given: tuple[Any, ...]) -> str:
        return repr([np.asarray(one).round(4).tolist() for one in given])

    def gradient_weights(*given: Any) -> Any:
        seen[key(given)] = (found := space["gradient_weights"](*given)).tolist()
        return found

    assert checks.run(WEIGHTS, gradient_weights).right
    return (
        "def gradient_weights(*given):\n"
        "    key = repr([np.asarray(one).round(4).tolist() for one in given])\n"
        f"    return torch.tensor({seen!r}[key])"
    )


def notebook_of(attack: Attack, answers: Answers, knows: Knows) -> dict[str, Any]:
    """The files of a hostile student, before they are packed."""
    own = {LOSS: attack.loss} if attack.loss is not None else {}
    if attack.replays:
        own[WEIGHTS] = knows.replay
    notebook = answers.filled(answers.right(*WORTH) | own)
    places = {"course": str(knows.course), "home": str(Path.home()), "mark": knows.mark}
    sources = [hostile.FIRST.format(**vars(knows) | places), attack.before]
    cells = [
        {"cell_type": "code", "id": f"mine-{i}", "metadata": {}, "source": source, "outputs": []}
        for i, source in enumerate(filter(None, sources))
    ]
    notebook["cells"] = cells + notebook["cells"]
    return notebook


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    """All of them handed in, collected, and graded one after the other."""
    folder = tmp_path_factory.mktemp("hostile") / "course"
    write_course(folder, ("late:", f"{WEEK}late:"))
    names = [HONEST[0], *ATTACKS, HONEST[2]]
    names.insert(len(names) // 2, HONEST[1])
    rows = [f"{name},Doe-{i},Jo,{name}@uni.example,A,{500 + i}" for i, name in enumerate(names)]
    header = (folder / "roster.csv").read_text().partition("\n")[0]
    (folder / "roster.csv").write_text("\n".join([header, *rows, ""]))
    options = ("--course", str(folder))
    assert main(["course", "release", "week-03", *options]) == 0
    answers = Answers(settings.load(folder), "week-03")
    source = tmp_path_factory.mktemp("handed_in")
    for name in HONEST:
        put(source / f"{name}.ipynb", answers.filled(answers.right(*WORTH)))
    with telling(answers.right(LOSS)[LOSS]) as (port, asked), pytest.MonkeyPatch.context() as patch:
        assert main(["course", "collect", "week-03", str(source), *options]) == 0
        knows = Knows(folder, port, os.getpid(), weights_that_were_seen(answers))
        for name, attack in ATTACKS.items():
            put(source / f"{name}.ipynb", notebook_of(attack, answers, knows))
        outside = watching.files(folder.parent)
        assert main(["course", "collect", "week-03", str(source), *options]) == 0
        new = watching.files(folder.parent).keys() - outside.keys()
        assert {Path(name).parts[:3] for name in new} == {("course", "submitted", "week-03")}
        before = watching.files(folder)
        patch.setattr(graders, "open_grader", watching.watched)
        assert main(["course", "grade", "week-03", "--processes", "1", *options]) == 0
        yield Class(folder, answers, knows, asked, before)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_submission_earns_what_it_solved(graded, name):
    attack, record = ATTACKS[name], graded.record(name)
    assert record is not None
    wrong = attack.verdicts or {}
    assert {part: (found["points"], found["kind"]) for part, found in record.parts.items()} == {
        part: (points, wrong.get(part, "right")) for part, points in attack.points.items()
    }
    said = [*record.result["left"]]
    said += [f"{error['place']}: {error['type']}" for error in record.result["errors"]]
    assert [p for p, line in zip(attack.says, said, strict=True) if not re.match(p, line)] == [], said
    assert len(json.dumps(record.result)) < 20_000


def test_nobody_elses_grade_is_touched(graded):
    for name in HONEST:
        record = graded.record(name)
        assert {part: found["points"] for part, found in record.parts.items()} == WORTH
        assert (record.result["left"], record.result["errors"]) == ([], [])


def test_the_course_is_as_it_was_and_nobody_was_asked(graded):
    assert watching.files(graded.folder) == graded.before
    assert graded.asked == []
    records = graded.folder / "graded" / "week-03"
    assert {path.name for path in records.glob("*") if path.suffix != ".json"} == {".lock"}


FOOLING = {name: attack for name, attack in ATTACKS.items() if attack.fools}


def test_it_would_be_believed_in_the_process_of_the_student(graded):
    for name, attack in FOOLING.items():
        notebook = notebook_of(attack, graded.answers, graded.knows)
        with Sandbox(Limits()) as sandbox:
            grader = Grader(sandbox)
            assert grader.cell(hostile.with_checks(), 300.0) is None
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code" and not cell["id"].startswith("test-"):
                    assert grader.cell(cell["source"], 300.0) is None, cell["source"]
            assert grader.cell(attack.fools, 300.0) is None, name
