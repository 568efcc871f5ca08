"""The code and the commands on the page about experiments run, and its figures are those recorded."""

import re
from pathlib import Path

import pandas as pd
from warm import python

import ppobook
from ppobook.cli import main

PAGE = (Path(__file__).parents[2] / "reference" / "experiments.md").read_text(encoding="utf-8")
QUIET = {"TQDM_DISABLE": "1"}


def test_the_code_on_the_page_runs(tmp_path, monkeypatch, capsys):
    script, reading = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (tmp_path / "my_rates.py").write_text(script, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    command = re.search(r"^ppobook (record my_rates\.py --workers) 8", PAGE, re.M)[1]
    assert main([*command.split(), "0"]) == 0
    assert "my_rates/table.csv" in capsys.readouterr().out
    table = pd.read_csv("my_results/my_rates/table.csv")
    assert list(table.columns) == ["lr", "seed", "final"]
    assert len(table) == 4
    (tmp_path / "reading.py").write_text(reading, encoding="utf-8")
    done = python("reading.py", cwd=tmp_path, **QUIET)
    assert done.returncode == 0, done.stderr
    assert "mean" in done.stdout


def test_the_costs_are_those_recorded():
    table = ppobook.results("engines")
    middle = table.groupby(["engine", "cpu_of_a_run"])[["start", "beside"]].median()
    rows = re.findall(r"^\| (.+?) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.M)
    assert [row[0] for row in rows] == list(table["engine"].unique())
    for engine, start, nothing, half in rows:
        assert float(start) == round(middle.loc[(engine, 0.0), "start"], 1)
        assert float(nothing) == round(middle.loc[(engine, 0.0), "beside"], 1)
        assert float(half) == round(middle.loc[(engine, 0.5), "beside"], 1)
