"""Recording an experiment, and reading it back."""

import json
from pathlib import Path

import pandas as pd
import pytest
from toy_experiment import height

import ppobook
from ppobook import _reads, experiments
from ppobook.experiments import engines, tables

CALLS = []


def toy(seed, slope):
    CALLS.append((seed, slope))
    return [{"step": step, "height": slope * step + seed / 3} for step in range(3)]


SETTINGS = [{"slope": 0.9999999}, {"slope": 2.0}]  # settings are written in full


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def test_a_table_has_a_row_for_every_setting_seed_and_measurement(tmp_path):
    path = experiments.record("toy", toy, SETTINGS, range(2), workers=0, folder=tmp_path, note="a line")
    table = pd.read_csv(path)
    assert list(table.columns) == ["slope", "seed", "step", "height"]
    assert len(table) == 2 * 2 * 3
    assert table["slope"].unique().tolist() == [0.9999999, 2.0]
    row = table.query("slope == 2 and seed == 1 and step == 2").iloc[0]
    assert row["height"] == pytest.approx(4 + 1 / 3, rel=1e-5)
    facts = json.loads((tmp_path / "toy" / "facts.json").read_text())
    assert facts["seeds"] == [0, 1]
    assert facts["settings"] == SETTINGS
    assert facts["rows"] == 12
    assert facts["note"] == "a line"
    assert set(facts["versions"]) >= {"python", "torch", "ppobook", "gymnasium"}
    assert "core" in facts["machine"]
    assert str(tmp_path) not in json.dumps(facts)
    assert path == tmp_path / "toy" / "table.csv"
    assert sorted(p.name for p in path.parent.iterdir()) == ["facts.json", "table.csv"]


def test_workers_give_the_same_table(tmp_path):
    one = experiments.record("one", height, SETTINGS, range(3), workers=0, folder=tmp_path)
    two = experiments.record("two", height, SETTINGS, range(3), workers=2, folder=tmp_path)
    assert one.read_text() == two.read_text()


def test_a_killed_run_goes_on_where_it_was(tmp_path, monkeypatch):
    whole = experiments.record(
        "toy", toy, SETTINGS, range(3), workers=0, folder=tmp_path / "whole"
    ).read_text()
    CALLS.clear()
    seen = []

    real = engines.measure

    def breaks_at_the_fourth(fn, task):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(task)
        return real(fn, task)

    monkeypatch.setattr(engines, "measure", breaks_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        experiments.record("toy", toy, SETTINGS, range(3), workers=0, folder=tmp_path)
    monkeypatch.undo()
    partial = tmp_path / "toy" / "partial.jsonl"
    partial.write_text(partial.read_text() + '{"task": "incompl')  # as a kill may leave it
    assert not partial.with_name("table.csv").exists()
    path = experiments.record("toy", toy, SETTINGS, range(3), workers=0, folder=tmp_path)
    assert len(CALLS) == 6
    assert path.read_text() == whole
    assert not partial.exists()

    partial.write_text('{"task": "x", "code": "of another function", "rows": [], "wall": 0, "cpu": 0}\n')
    with pytest.raises(ValueError, match=r"fn must be the function that began .* got another version"):
        experiments.record("toy", toy, SETTINGS, range(3), workers=0, folder=tmp_path)
    assert path.read_text() == whole


def popping(seed, cfg):
    return {"x": cfg.pop("n", 0)}


def test_a_function_may_change_what_it_is_given(tmp_path):
    given = [{"cfg": {"n": 5}}]
    table = pd.read_csv(experiments.record("own", popping, given, [0, 1], workers=0, folder=tmp_path))
    assert [*table["x"]] == [5, 5]
    assert given == [{"cfg": {"n": 5}}]


def test_a_table_with_other_rows_is_kept(tmp_path):
    def again(settings, seeds):
        return experiments.record("toy", toy, settings, seeds, workers=0, folder=tmp_path)

    path = again(SETTINGS, [0, 1])
    grown = again([*SETTINGS, {"slope": 3.0}], [0, 1, 2]).read_text()
    for settings, seeds in (SETTINGS, [0, 1, 2]), ([*SETTINGS, {"slope": 3.0}], [0, 1]):
        with pytest.raises(FileExistsError, match=r"table\.csv must not have rows that the new table would"):
            again(settings, seeds)
    assert path.read_text() == grown
    path.unlink()
    assert len(pd.read_csv(again(SETTINGS, [7]))) == 6


def clashing(seed, slope):
    return {"slope": 3}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seeds": [1, 1]}, "same pair"),
        ({"settings": [{"slope": {3}}]}, r"settings\[0\] must consist of numbers, .* got \{'slope': \{3\}\}"),
        ({"fn": clashing}, "fn must return rows .* got 'slope'"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, change, sentence):
    given = {"name": "toy", "fn": toy, "settings": SETTINGS, "seeds": [0], "workers": 0, **change}
    with pytest.raises((ValueError, TypeError), match=sentence):
        experiments.record(**given, folder=tmp_path)


def test_results_reads_and_notes(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "results_folder", lambda: tmp_path)
    monkeypatch.setattr(_reads, "paths", [])
    experiments.record("chain_returns", toy, SETTINGS, [0], workers=0, folder=tmp_path)
    table = ppobook.results("chain_returns")
    assert len(table) == 6
    assert experiments.facts("chain_returns")["seeds"] == [0]
    ppobook.results("chain_returns")
    assert [Path(path).relative_to(tmp_path).as_posix() for path in _reads.paths] == [
        "chain_returns/table.csv",
        "chain_returns/facts.json",
    ]
    assert experiments.names() == ["chain_returns"]
    with pytest.raises(ValueError, match=r"name must be .* got 'chain_return'. Did you mean 'chain_returns'"):
        ppobook.results("chain_return")
    with pytest.raises(ValueError, match="name must be a recorded experiment"):
        ppobook.results("../pyproject")
