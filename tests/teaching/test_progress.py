"""The record of what checks found: complete, in the reader's folder alone, and at no check's cost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from ppobook.cli.main import main
from ppobook.course import masters
from ppobook.teaching import checks, lab, progress
from ppobook.teaching.workspace import MEMORY

ROOT = Path(__file__).parents[2]
RIGHT = masters.solutions(ROOT / "exercises/masters/01_vanilla_policy_gradient.md")["pg-loss"].source
WRONG = RIGHT.replace("return -", "return ")


@pytest.fixture
def work(tmp_path):
    """A reader's folder with nothing in it but what makes it one."""
    folder = tmp_path / "work"
    (folder / "exercises").mkdir(parents=True)
    (folder / MEMORY).write_text("{}\n")
    return folder


@pytest.fixture
def kernel(monkeypatch, work):
    """Set up a kernel as if it was started for a notebook of the reader's folder."""
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(progress, "OFF", ())
    monkeypatch.setattr(lab, "show", lambda *_: False)
    monkeypatch.delenv("PPOBOOK_BUILD", raising=False)
    monkeypatch.chdir(work / "exercises")
    return shell


def function(source):
    space = {}
    exec(f"import torch\n{source}", space)
    return space["pg_loss"]


def blank(*_):
    raise NotImplementedError("not yet: pg-loss")


def tried(answer):
    """Return what a reader sees of a check."""
    try:
        checks.check("pg-loss", answer)
    except checks.NotRight as error:
        return str(error)
    return "right"


# --- what is recorded ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernel")
def test_each_verdict_is_recorded_but_a_blank(work):
    tried(blank)
    tried(function(WRONG))
    tried(lambda *_: (_ for _ in ()).throw(ZeroDivisionError(f"the secret of {work}")))
    tried(function(RIGHT))
    mistake, raised, right = progress.read(work).findings
    assert (mistake.check, mistake.kind) == ("pg-loss", "mistake")
    assert mistake.what == checks.run("pg-loss", function(WRONG)).name
    assert (raised.kind, raised.what) == ("raised", "ZeroDivisionError")
    assert (right.kind, right.what) == ("right", "pg-loss")
    said = (work / progress.FILE).read_text()
    assert "secret" not in said, "neither code nor a path is recorded"
    assert str(work) not in said


# --- where it is off ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CI", "PPOBOOK_PROGRESS", "kernel", "folder", "grader"])
def test_off_where_no_reader_works(work, kernel, tmp_path, monkeypatch, name):
    monkeypatch.setattr(progress, "OFF", ("CI",))
    monkeypatch.setenv("CI", "1" if name == "CI" else "")
    if name == "PPOBOOK_PROGRESS":
        monkeypatch.setenv(name, "off")
    if name == "kernel":
        kernel.kernel = None
    if name == "folder":
        monkeypatch.chdir(tmp_path)
    if name == "grader":
        assert checks.run("pg-loss", function(RIGHT)).right
    else:
        tried(function(RIGHT))
    assert not [*tmp_path.rglob(progress.FILE)]


# --- what is read -------------------------------------------------------------------------------------------

GOOD = {"at": 5, "check": "pg-loss", "kind": "right", "what": "pg-loss"}


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[1]",
        '{"at": 5, "check": "pg-loss"}',
        json.dumps(GOOD | {"at": "now"}),
        json.dumps(GOOD)[:-9],
    ],
)
def test_a_broken_line_is_left_out_and_counted(work, line):
    (work / progress.FILE).write_text(line)
    progress.record(work, check="pg-loss", kind="right", what="pg-loss")
    kept = progress.read(work)
    assert [one.check for one in kept.findings] == ["pg-loss"]
    assert kept.broken == 1


def test_clear(work, capsys, monkeypatch):
    progress.record(work, check="pg-loss", kind="right", what="pg-loss")
    monkeypatch.chdir(work.parent)
    assert main(["progress", "--clear"]) == 0
    assert "is removed" in capsys.readouterr().out
    assert not (work / progress.FILE).exists()
    assert (work / MEMORY).exists()
    assert main(["progress", "--clear"]) == 0
    assert "nothing to forget in work" in capsys.readouterr().out


# --- several at once, and in earnest ------------------------------------------------------------------------


RECORD = """
import sys
from pathlib import Path
from ppobook.teaching import progress
for _ in range(300):
    progress.record(Path(sys.argv[1]), check=sys.argv[2], kind="property", what=sys.argv[2] * 30)
"""


def test_two_processes_at_once_lose_nothing(work):
    writers = [subprocess.Popen([sys.executable, "-c", RECORD, work, name]) for name in ("one", "two")]
    assert [writer.wait(timeout=100) for writer in writers] == [0, 0]
    kept = progress.read(work)
    assert kept.broken == 0
    assert sorted(one.check for one in kept.findings) == ["one"] * 300 + ["two"] * 300


@pytest.mark.slow
def test_nbval_records_nothing(work):
    source = f"import torch\nfrom ppobook.teaching import check\n{RIGHT}\ncheck('pg-loss', pg_loss)"
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(made, work / "exercises" / "one.ipynb")
    rest = {name: value for name, value in os.environ.items() if name not in progress.OFF}
    rest |= {"PYTHONPATH": str(ROOT / "lib"), "OMP_NUM_THREADS": "1"}
    options = ["-q", "-p", "no:cacheprovider", "--nbval-lax", "--nbval-current-env", "exercises"]
    command = [sys.executable, "-m", "pytest", *options]
    ran = subprocess.run(command, cwd=work, env=rest, capture_output=True, text=True, check=False)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert not (work / progress.FILE).exists()
