"""The instructor's guide, run as it is written: each of its commands, in order, with a class of three."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from ppobook.course import masters

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "reference" / "instructors.md"
OWN = ROOT / "reference" / "instructors" / "own_exercises.md"
COMMANDS = {
    *("new", "check", "release", "roster", "collect", "grade", "regrade", "mark"),
    *("feedback", "grades", "report", "extend", "slides", "schedule", "correct", "export", "erase"),
    *("solutions", "similar"),
}
PROSE = "A sentence of my own. "


@dataclass(frozen=True)
class Step:
    """A command of the guide, or a file that it asks for."""

    command: str = ""
    file: str = ""
    text: str = ""


def steps(page: Path = GUIDE) -> list[Step]:
    """The steps that a page asks for, in its order."""
    found: list[Step] = []
    block = re.compile(r"^(```+)\{code-block\} (\w+)\n(?::caption: (\S+)\n)?(.*?)^\1$", re.M | re.S)
    for _, language, caption, body in block.findall(page.read_text(encoding="utf-8")):
        if language == "console":
            found += [Step(command=line[2:]) for line in body.splitlines() if line.startswith("$ ")]
        elif caption:
            found.append(Step(file=caption, text=body))
    return found


def test_the_guide_shows_every_command() -> None:
    used = {shlex.split(step.command)[2] for step in steps() if step.command.startswith("ppobook course ")}
    assert used == COMMANDS
    assert all(step.command.startswith(("ppobook course ", "cd ")) for step in steps() if step.command)


class Walk:
    """An instructor who does what the guide says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = os.pathsep.join(filter(None, [str(ROOT / "lib"), os.environ.get("PYTHONPATH")]))
        self.env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    def write(self, step: Step) -> None:
        """A file of the guide; what it says of course.yml replaces those keys."""
        path = self.folder / step.file
        text = self._dates_to_come(step.text)
        if step.file == "course.yml":
            had = yaml.safe_load(path.read_text(encoding="utf-8"))
            text = yaml.safe_dump(had | yaml.load(text, yaml.BaseLoader), sort_keys=False)
        path.write_text(text, encoding="utf-8")

    @staticmethod
    def _dates_to_come(text: str) -> str:
        """The guide's dates stay; a test of next year must not find them in the past."""
        late = datetime.now(UTC) + timedelta(days=14)
        return re.sub(r"2027-02-(\d\d)", lambda day: f"{late + timedelta(days=int(day[1])):%Y-%m-%d}", text)

    def follow(self, steps: list[Step]) -> dict[str, str]:
        """Do as the steps say; what each command printed."""
        said: dict[str, str] = {}
        for step in steps:
            if step.file:
                self.write(step)
            else:
                said[step.command] = self.run(step.command)
        return said

    def run(self, command: str) -> str:
        """One command; what it printed."""
        words = shlex.split(self._dates_to_come(command))
        if words[0] == "cd":
            self.folder = self.folder / words[1]
            assert self.folder.is_dir()
            return ""
        if words[2] == "collect":
            hand_in(self.folder / "release" / f"{words[3]}.zip", self.folder / words[4])
        line = [sys.executable, "-m", *words]
        if words[2] == "mark":
            return self.watched(line)
        done = subprocess.run(
            line, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def watched(self, line: list[str]) -> str:
        """A command that serves a page until Ctrl-C: open the page that it names, and stop it."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        server = subprocess.Popen(line, cwd=self.folder, env=self.env, **pipes)  # type: ignore[call-overload]
        said = ""
        try:
            while not (address := re.search(r"http://127\.0\.0\.1:\d+\S*\n", said)):
                more = server.stdout.readline()
                assert more, said
                said += more
            with urllib.request.urlopen(address[0].strip(), timeout=30) as page:
                assert page.status == 200
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
        return said


def hand_in(pack: Path, folder: Path) -> None:
    """Hand in for the class: Ada all that is right, Bob a wrong loss, Eve answers in words alone."""
    with zipfile.ZipFile(pack) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".ipynb"))
        notebook = json.loads(archive.read(name))
    known = masters.solutions(ROOT / "exercises" / "masters" / "01_vanilla_policy_gradient.md")
    asked = {part.name: part.role for part in masters.parts(notebook)}
    words = {part: PROSE for part, role in asked.items() if role == "manual"}
    right = {part: known[part].source for part in asked if part in known} | words
    wrong = {"pg-loss": "def pg_loss(*given):\n    return 0.0\n"} | words
    for student, answers in (("ada", right), ("bob", wrong), ("eve", words)):
        (folder / student).mkdir(parents=True, exist_ok=True)
        own = masters.fill(notebook, answers)
        (folder / student / Path(name).name).write_text(json.dumps(own), encoding="utf-8")


def test_every_command_of_the_guide_runs(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    said = walk.follow(steps())
    course = walk.folder
    assert (course / "release" / "week-01.zip").exists()
    assert {path.parent.name for path in course.glob("feedback/*/week-01.html")} == {"ada", "bob"}
    assert "\n· " not in said["ppobook course check"]  # nothing to know, such as what is due too early
    assert "grades/plain-week-01.csv" in said["ppobook course grades week-01 --form plain"]
    assert "pg-loss" in said["ppobook course report week-01"]
    trail = [json.loads(line) for line in (course / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {"release", "erasure"} <= {line["what"] for line in trail}
    # The last step erased one of the three, whom the course does not know any more.
    assert not [path for path in course.rglob("*") if "eve" in path.parts or path.stem == "eve"]


def test_exercises_of_your_own_are_written_checked_and_released_as_their_page_says(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    first = steps()
    made = next(i for i, step in enumerate(first) if step.command == "ppobook course check")
    walk.follow([step for step in first[:made] if "course schedule" not in step.command])
    said = walk.follow(steps(OWN))
    assert "✓ medians: 1 check tried;" in said["ppobook course check"]
    assert "median-advantages: 3 points, checked" in said["ppobook course release medians"]
    with zipfile.ZipFile(walk.folder / "release" / "medians.zip") as archive:
        text = archive.read("medians/medians.ipynb").decode()
    assert "median-advantages: this exercise is checked when you hand it in." in text
    # What the table lists is what was written.
    files = {path.name for path in (walk.folder / "exercises").iterdir()}
    assert files == set(re.findall(r"^\| `(\S+)` \|", OWN.read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize("page", sorted(OWN.parent.glob("*.md")), ids=lambda p: p.stem)
def test_the_other_pages_name_no_command_that_there_is_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"ppobook course (\w+)", text)) <= COMMANDS
