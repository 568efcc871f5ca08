"""Running the script of an experiment: `ppobook record`."""

import re
import signal
import subprocess
import sys
import time

import pytest

from ppobook.cli import main
from ppobook.experiments import recording, scripts

MINE = """
import time
from ppobook.experiments import record
from beside import FACTOR

def one(seed, slope):
    time.sleep({seconds})
    return {{"height": FACTOR * slope + seed}}

if __name__ == "__main__":
    record("mine", one, [{{"slope": 1}}, {{"slope": 2}}], range(3), workers=0)
"""
TABLE = "slope,seed,height\n1,0,3\n1,1,4\n1,2,5\n2,0,6\n2,1,7\n2,2,8\n"


@pytest.fixture
def script(tmp_path):
    (tmp_path / "beside.py").write_text("FACTOR = 3\n")
    file = tmp_path / "run.py"
    file.write_text(MINE.format(seconds=0))
    yield file
    sys.modules.pop("beside", None)


@pytest.mark.parametrize("options", [[], ["--workers", "2"]])
def test_a_script_of_ones_own(script, capsys, options):
    folder = script.parent
    assert main(["record", str(script), "--folder", str(folder), *options]) == 0
    assert capsys.readouterr().out == f"written to {folder / 'mine' / 'table.csv'}\n"
    assert (folder / "mine" / "table.csv").read_text() == TABLE
    assert str(folder) not in sys.path


def test_a_folder_stands_for_its_script(script, tmp_path):
    assert scripts.run_script(tmp_path, folder=tmp_path / "out") == [tmp_path / "out" / "mine" / "table.csv"]


def test_an_experiment_of_the_book_by_its_name(script, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(scripts, "results_folder", lambda: tmp_path)
    monkeypatch.setattr(recording, "results_folder", lambda: tmp_path)
    (tmp_path / "mine").mkdir()
    script.rename(tmp_path / "mine" / "run.py")
    (tmp_path / "beside.py").rename(tmp_path / "mine" / "beside.py")
    assert main(["record", "mine"]) == 0
    assert (tmp_path / "mine" / "table.csv").read_text() == TABLE
    monkeypatch.setattr(scripts, "is_checkout", lambda: False)
    assert main(["record", "mine"]) == 2
    assert "folder must be given where the book is installed as a package" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["clip_lrr"], r"name must be an experiment, .* got 'clip_lrr'. Did you mean 'clip_lr'"),
        (["nothing.py"], r"or the path of a script, got 'nothing\.py'"),
        ([], "NAME"),
        (["clip_lr", "--worker", "1"], "--worker"),
        (["FOLDER/idle.py"], "idle.py must call ppobook.experiments.record"),
    ],
)
def test_what_is_refused(options, said, tmp_path, capsys):
    (tmp_path / "idle.py").write_text("x = 1\n")
    try:
        code = main(["record", *(word.replace("FOLDER", str(tmp_path)) for word in options)])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    err = capsys.readouterr().err
    assert re.search(said, err), err
    assert err.count("\n") == 1


def test_ctrl_c_says_what_is_kept_and_the_next_call_goes_on(script, tmp_path):
    script.write_text(MINE.format(seconds=0.3))
    command = [sys.executable, "-m", "ppobook", "record", str(script), "--folder", str(tmp_path)]
    partial = tmp_path / "mine" / "partial.jsonl"
    process = subprocess.Popen([*command, "--workers", "2"], stderr=subprocess.PIPE, text=True)
    while not (partial.exists() and partial.read_text().count("\n") >= 2):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 128 + signal.SIGINT
    assert "finished runs kept in" in said
    assert "Traceback" not in said
    kept = partial.read_text()
    script.write_text(MINE.format(seconds=0.3).replace("workers=0", "workers=1"))
    assert main(["record", str(script), "--folder", str(tmp_path)]) == 0
    assert kept.count("\n") >= 2
    assert (tmp_path / "mine" / "table.csv").read_text() == TABLE
