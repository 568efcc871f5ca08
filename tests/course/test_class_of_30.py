"""A class from what its students handed in to the tables for Canvas and Moodle."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from class_of_30 import CLASS, EXTENSION, GROUP, HUNT, MARKS, MISTAKES, PARTS, PROOF, WEEK, WHY, HandsIn
from class_of_30 import mistakes as mistakes_of
from filled_in import Answers, put
from small_course import write_course

from ppobook.cli import main
from ppobook.course import collecting, marking_server, settings
from ppobook.course.records import read_record

EXPECTED = Path(__file__).parent / "class_of_30"
HEADER = "student_id,last_name,first_name,email,group,lms_id"


def notebook_of(one: HandsIn, answers: Answers) -> dict[str, Any]:
    written = {}
    for part, source in one.answers.items():
        text = answers.turned(part, source) if part in MISTAKES and "def" in source else source
        if part in one.again:
            name = re.findall(r"^def (\w+)", text, re.M)[-1]
            text += f"\n\nfirst_{name} = {name}\n\ndef {name}():\n    first = first_{name}()\n"
            text += f"    return {one.again[part]}\n"
        written[part] = one.change(text)
    notebook = answers.filled(written)
    if one.own:
        cell = {"cell_type": "code", "id": "mine", "metadata": {}, "source": one.own, "outputs": []}
        notebook["cells"].insert(2, cell)
    return notebook


def mark(server: marking_server.MarkingServer) -> None:
    """Give each answer its points, as a person does on the page."""

    def ask(path: str, said: Any = None) -> Any:
        data = None if said is None else json.dumps(said).encode()
        headers = {"Content-Type": "application/json"}
        return json.load(
            urllib.request.urlopen(urllib.request.Request(f"{server.address}{path}", data, headers))
        )

    for part in (PROOF, WHY):
        for entry in ask(f"api/question?assignment=week-03&part={part}")["entries"]:
            (points,) = (MARKS[text] for text in MARKS if text.split('"')[0] in entry["html"])
            said = {"assignment": "week-03", "part": part, "seen": entry["seen"], "comment": ""}
            ask("api/mark", said | {"points": points})


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> settings.Course:
    """The class, collected twice, graded by one command, and marked."""
    folder = tmp_path_factory.mktemp("class") / "course"
    write_course(
        folder,
        ("late:", f"{WEEK}late:"),
        ("groups: {week-01: [[eve, mel]]}", f"groups: {{week-01: [[eve, mel]]{GROUP}}}"),
        ("groups:", f"{EXTENSION}groups:"),
    )
    rows = [
        f"{student},{one.last},{one.first},{student}@uni.example,{'A' if i < 15 else 'B'},{100 + i}"
        for i, (student, one) in enumerate(CLASS.items())
    ]
    (folder / "roster.csv").write_text("\n".join([HEADER, *rows, ""]), encoding="utf-8")
    options = ("--course", str(folder))
    assert main(["course", "release", "week-03", *options]) == 0
    course = settings.load(folder)
    answers = Answers(course, "week-03")
    for later in (False, True):
        source = folder.parent / f"handed_in_{later}"
        for student, person in CLASS.items():
            for one in person.hands_in:
                if one.later == later:
                    time = datetime.fromisoformat(one.when).replace(tzinfo=course.timezone).timestamp()
                    put(source / (one.file or f"{student}.ipynb"), notebook_of(one, answers), time)
        assert main(["course", "collect", "week-03", str(source), *options]) == 0
    assert main(["course", "grade", "week-03", "--processes", "2", *options]) == 0
    serve_forever = marking_server.MarkingServer.serve_forever

    def marked(server: marking_server.MarkingServer) -> None:
        thread = threading.Thread(target=serve_forever, args=(server,))
        thread.start()
        try:
            mark(server)
        finally:
            server.shutdown()
            thread.join()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marking_server.MarkingServer, "serve_forever", marked)
        assert main(["course", "mark", "week-03", "--no-browser", *options]) == 0
    return course


@pytest.mark.parametrize("form", ["canvas", "moodle"])
def test_the_exported_grades(graded, form):
    assert main(["course", "grades", "--form", form, "week-03", "--course", str(graded.folder)]) == 0
    written = (graded.folder / "grades" / f"{form}-week-03.csv").read_bytes().decode()
    assert written.split("\r\n") == (EXPECTED / f"{form}.csv").read_text(encoding="utf-8").split("\n")


def test_the_points_of_each_part(graded):
    for student, one in CLASS.items():
        record = read_record(graded.folder, "week-03", student)
        if one.points is None:
            assert record is None
            continue
        worth = dict(zip(PARTS, one.points, strict=True))
        found = {part: record.parts[part]["points"] for part in MISTAKES}
        assert found == {part: worth[part] for part in MISTAKES}, (student, record.parts)


@pytest.mark.parametrize("number", range(12))
def test_each_mistake_is_called_by_its_name(graded, number):
    student = list(CLASS)[4 + number]
    record = read_record(graded.folder, "week-03", student)
    found = {p: part["mistake"] for p, part in record.parts.items() if part["kind"] == "mistake"}
    assert found == mistakes_of(number)
    assert record.parts[HUNT]["kind"] == ("mistake" if number < 8 else "right")


def test_what_counts_of_several_and_what_is_kept(graded):
    counting = {one.by: one for one in collecting.counting(graded, "week-03")}
    for student, one in CLASS.items():
        if student in counting:
            found = counting[student]
            assert (found.late_days, found.share) == (one.late, pytest.approx(one.share))
    assert counting["pete"].students == ("olga", "pete")
    assert len(collecting.kept(graded, "week-03", "uma")) == 2
    assert len(collecting.kept(graded, "week-03", "tom")) == 2
    assert len(list((graded.folder / "submitted" / "week-03" / "_unknown").glob("vear/*/week-03.ipynb"))) == 1
