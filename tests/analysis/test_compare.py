"""Runs side by side: who is grouped with whom, what is summed up, and how it is drawn."""

import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
import torch
from small_runs import SMALL

from ppobook import train
from ppobook.analysis import compare as compare_module
from ppobook.analysis.compare import Record, compare
from ppobook.cli import main


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Six small runs: three seeds of one thing, two of another, one elsewhere."""
    home = tmp_path_factory.mktemp("runs")
    small = {**SMALL, "total_steps": 300}
    for seed in range(3):
        train("vanilla", **small, seed=seed, out=home / f"a{seed}", checkpoint_every=3 + seed)
    for seed in range(2):
        train("vanilla", **small, seed=seed, lr=0.01, out=home / f"b{seed}")
    small.pop("hidden")
    train("vanilla", **{**small, "env": "ppobook/Chain-v0"}, out=home / "chain")
    return home


def test_groups_and_their_labels(runs):
    found = compare([runs / name for name in ("a0", "b0", "a1", "b1", "a2", "chain")])
    assert [(group.label, group.env, group.seeds) for group in found.groups] == [
        ("vanilla lr 0.003", "CartPole-v1", (0, 1, 2)),
        ("vanilla lr 0.01", "CartPole-v1", (0, 1)),
        ("vanilla", "ppobook/Chain-v0", (0,)),
    ]
    table = found.table
    assert table["runs"].tolist() == [3, 2, 1]
    assert table["steps"].tolist() == [320, 320, 320]
    assert (table["low"][:2] <= table["return_mean"][:2]).all()
    assert (table["return_mean"][:2] <= table["high"][:2]).all()
    assert table[["low", "high"]].iloc[2].isna().all()
    assert [group.label for group in compare([runs / "a0", runs / "a1"]).groups] == ["vanilla"]


def history(steps, values):
    return pd.DataFrame({"update": np.arange(len(steps)) + 1, "steps": steps, "return_mean": values})


def test_a_result_is_the_mean_over_the_last_tenth(monkeypatch):
    steps = np.arange(1, 101) * 10
    tables = {
        "one": history(steps, np.arange(100.0)),
        "two": history(
            np.append(steps, 1010), np.append(np.full(100, 7.0), 1e9)
        ),  # longer: only its first 1000 steps count
    }
    fake(monkeypatch, tables)
    with pytest.warns(UserWarning, match="ppo: runs are compared at 1,000 steps, where 'one' ends"):
        (group,) = compare(["one", "two"]).groups
    assert group.end == 1000
    assert group.results.tolist() == [94.5, 7.0]
    assert group.curves.shape == (2, 50)
    np.testing.assert_allclose(group.curves[0], np.arange(50) * 2 + 0.5)
    np.testing.assert_allclose(group.steps, np.arange(50) * 20 + 10)
    assert (group.curves[1] == 7).all()


def test_where_nothing_was_measured_the_curve_is_interpolated(monkeypatch):
    values = np.array([np.nan, 1.0, np.nan, np.nan, 4.0, np.nan])
    fake(monkeypatch, {"one": history(np.arange(1, 7) * 10, values)})
    (group,) = compare(["one"]).groups
    assert group.curves.tolist() == [[1, 1, 2, 3, 4, 4]]
    assert group.results.tolist() == [4.0]


def fake(monkeypatch, tables, **own):
    config = {"algorithm": "ppo", "env": "E", "lr": 1.0}

    def record(folder, name):
        seed = list(tables).index(str(folder))
        return Record(tables[str(folder)], {**config, **own.get(str(folder), {}), "seed": seed}, None, None)

    monkeypatch.setattr(compare_module, "read_record", record)


def steady(steps, value=0.0):
    return history(np.arange(1, steps // 10 + 1) * 10, np.full(steps // 10, value))


def until(total_steps, **settings):
    return {"total_steps": total_steps, **settings}


SHARED = "ppo: runs are compared at {} steps, where '{}' ends"


@pytest.mark.parametrize(
    ("tables", "configs", "groups", "notes"),
    [
        (
            {"a": steady(1000, 500.0), "b": steady(100, 20.0)},
            {"a": until(1000), "b": until(1000)},
            [((0,), 1000, 500.0)],
            ["left out 'b': it stopped after 100 of 1,000 steps"],
        ),
        # Nothing is whole: what all have is compared.
        (
            {"a": steady(300, 5.0), "b": steady(200, 7.0)},
            {"a": until(1000), "b": until(1000)},
            [((0, 1), 200, 6.0)],
            [SHARED.format(200, "b")],
        ),
        (
            {"a": steady(1000, 5.0), "b": steady(2000, 7.0)},
            {"a": until(1000, lr_final=0.0), "b": until(2000, lr_final=0.0)},
            [((0,), 1000, 5.0), ((1,), 2000, 7.0)],
            [],
        ),
        (
            {"a": steady(100, 5.0), "b": steady(100, np.nan), "c": steady(0)},
            {"c": {"lr": 2.0}},
            [((0,), 100, 5.0)],
            ["left out 'b': it has no value of return_mean", "left out 'c': it has no value of return_mean"],
        ),
        (
            {"a": steady(100, 5.0), "b": history([100, 200], [np.nan, 1.0])},
            {},
            [((0,), 100, 5.0)],
            ["left out 'b': it has no value of return_mean in the first 100 steps"],
        ),
    ],
)
def test_no_run_is_averaged_at_another_length_in_silence(monkeypatch, tables, configs, groups, notes):
    fake(monkeypatch, tables, **configs)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = compare(list(tables))
    assert [str(one.message) for one in warned] == notes
    assert list(found.notes) == notes
    assert [(g.seeds, g.end, g.results.mean()) for g in found.groups] == groups


def test_the_interval_is_a_bootstrap_over_seeds(monkeypatch):
    tables = {str(i): history([10, 20], [0.0, float(i)]) for i in range(5)}
    fake(monkeypatch, tables)
    row = compare(list(tables)).table.iloc[0]
    assert row["return_mean"] == 2
    draws = np.random.default_rng(0).integers(5, size=(50_000, 5)).mean(1)
    assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.1)


def test_what_cannot_be_compared_is_refused(runs):
    with pytest.raises(ValueError, match=r"folders must differ in their seeds .*, got seed 0 twice"):
        compare([runs / "a0", runs / "b0/../a0"])
    with pytest.raises(ValueError, match=r"metric in .* must be .* got 'return_men'.*return_mean"):
        compare([runs / "a0"], "return_men")


def test_a_class_of_a_users_own_is_not_needed(tmp_path):
    """Nor imported: only its name is read."""
    train("vanilla", **SMALL, total_steps=64, out=tmp_path / "run")
    path = max((tmp_path / "run").glob("checkpoint-*")) / "state.pt"
    state = torch.load(path, weights_only=True)
    state["config"]["algorithm"] = "not_there:Own"
    torch.save(state, path)
    assert compare([tmp_path / "run"]).groups[0].label == "Own"


# ---------------------------------------------------------------------------------------------- the picture


def test_the_picture(runs, tmp_path):
    found = compare([runs / name for name in ("a0", "a1", "a2", "b0", "b1", "chain")])
    path = found.plot(tmp_path / "out.svg")
    assert ET.parse(path).getroot().tag.endswith("svg")
    figure = found.figure()
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["CartPole-v1", "ppobook/Chain-v0"]
    first, second = figure.axes
    # Three seeds and their mean, two seeds and theirs; each group in a colour of its own.
    assert (len(first.lines), len(second.lines)) == (4 + 3, 2)
    assert len({line.get_color() for line in first.lines}) == 2
    found.plot(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == path.read_bytes()
    with pytest.raises(ValueError, match=r"out must end in .svg or .png or .pdf, got .*old.txt"):
        found.plot(tmp_path / "old.txt")


# ---------------------------------------------------------------------------------------- the command line


def test_on_the_command_line(runs, tmp_path, capsys):
    folders = [str(runs / name) for name in ("a0", "a1", "b0", "b1")]
    out = tmp_path / "picture.png"
    assert main(["compare", *folders, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "vanilla lr 0.003" in said
    assert "return_mean" in said
    assert f"drawn in {out}" in said
    assert out.stat().st_size > 1000


def test_the_table_alone_needs_no_matplotlib(runs):
    code = f"""
import sys
sys.modules["matplotlib"] = None
from ppobook.cli import main
sys.exit(main(["compare", {str(runs / "a0")!r}, {str(runs / "a1")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
