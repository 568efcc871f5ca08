"""The races: statistics on numbers with a known answer, equal settings, kept jobs, the workers, the page."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "workers")]

import harness  # noqa: E402
import page  # noqa: E402
import race  # noqa: E402
import races  # noqa: E402
import ratios  # noqa: E402
import settings  # noqa: E402
from races import FAST, PLAIN  # noqa: E402

# ------------------------------------------------------------------------------------ the statistics


def test_the_ratio_of_pairs_is_the_geometric_mean():
    found = ratios.of_pairs([3.0, 12.0], [1.0, 3.0])
    assert found.ratio == pytest.approx(math.sqrt(3 * 4))
    assert 3 <= found.low <= found.ratio <= found.high <= 4


def test_a_run_that_did_not_get_there_counts_as_the_longest():
    found = ratios.of_medians([1.0, 2.0, math.inf], [4.0, 4.0, 4.0])
    assert found.ratio == pytest.approx(0.5)
    assert found.high == math.inf
    assert ratios.of_medians([math.inf, math.inf, 1.0], [1.0, 1.0, 1.0]).ratio == math.inf
    assert ratios.of_medians([1.0, 1.0, 1.0], [math.inf, math.inf, 1.0]).ratio == 0.0


def rows(label, **measures):
    """Rows of a table: for each measure, one value per seed."""
    found = [
        ("x", label, 100 + i, name, v) for name, values in measures.items() for i, v in enumerate(values)
    ]
    return pd.DataFrame(found, columns=["race", "contestant", "seed", "measure", "value"])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"steps_per_second": [6.0, 9.0]}, {"steps_per_second": [3.0, 4.5, 7.0]}),
        ({"milliseconds": [50.0, 20.0]}, {"milliseconds": [100.0, 40.0]}),
        (
            {"cpu_seconds": [2.0, 2.0], "steps": [1, 1], "reached": [1, 1]},
            {"cpu_seconds": [4.0, 4.0], "steps": [1, 1], "reached": [1, 1]},
        ),
    ],
)
def test_every_measure_says_how_many_times_as_fast(ours, theirs):
    table = pd.concat([rows("ours", **ours), rows("SB3", **theirs)])
    found = ratios.times_as_fast(table, "x", "ours", "SB3")
    assert found.ratio == pytest.approx(2.0)


# --------------------------------------------------------------------------------- the lists of races


def test_quick_and_whole_bench_race_both_forms():
    for one in [*races.bench(), *races.quick()]:
        jobs = one.jobs(100)
        forms = [job["settings"].get("fast") for job in jobs if job["peer"] == "ours"]
        assert forms in ([False, True], [None], [None, None])  # a language stage has one form
        assert any(job["peer"] != "ours" for job in jobs)
        assert json.loads(json.dumps(jobs)) == jobs
        assert len({job["label"] for job in jobs}) == len(jobs)
        assert min(one.seeds) >= 100  # below, our presets were tuned
    names = {one.name: one for one in races.quick()}
    assert list(names) == ["rate_zoo", "rate_cleanrl", "rate_trpo", "grpo_2x64", "ppo_2x64"]
    assert names["rate_zoo"].goals == {(PLAIN, "SB3"): 1.5}
    assert names["rate_cleanrl"].goals == {(PLAIN, "CleanRL"): 2.5}


def in_our_words(given):
    """Translate settings of SB3 by its documentation."""
    d = {"n_envs": 1, "n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95}
    d |= {"learning_rate": 3e-4, "clip_range": 0.2, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5}
    d |= given
    lr, clip = (float(str(d[name]).removeprefix("lin_")) for name in ("learning_rate", "clip_range"))
    ours = {
        "num_envs": d["n_envs"],
        "num_steps": d["n_steps"],
        "num_minibatches": d["n_envs"] * d["n_steps"] // d["batch_size"],
        "epochs": d["n_epochs"],
        "gamma": d["gamma"],
        "lam": d["gae_lambda"],
        "lr": lr,
        "clip_eps": clip,
        "entropy_coef": d["ent_coef"],
        "value_coef": 2 * d["vf_coef"],  # SB3 weights the whole squared error, we half of it
        "max_grad_norm": d["max_grad_norm"],
    }
    return ours | ({"lr_final": 0.0} if str(d["learning_rate"]).startswith("lin_") else {})


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (settings.EQUAL_ZOO, settings.ZOO_PPO["CartPole-v1"]),
        (settings.EQUAL_SB3, {}),
        (settings.EQUAL_LUNAR_LANDER, settings.ZOO_PPO["LunarLander-v3"]),
        (settings.EQUAL_HOPPER, settings.ZOO_PPO["Hopper-v5"]),
    ],
)
def test_equal_settings_are_equal_in_control(ours, theirs):
    wanted = in_our_words(theirs)
    assert {name: ours[name] for name in wanted} == wanted
    more = {"clip_eps_final", "hidden", "activation", "normalize_observations", "normalize_rewards"}
    assert set(ours) - set(wanted) <= more
    assert ours.get("normalize_observations", False) == theirs.get("normalize", False)


def test_a_real_model_does_the_same_work_on_both_sides():
    for one in races.reals():
        ours, theirs = one.jobs(100)
        shared = set(ours) - {"label", "peer", "worker", "model", "settings"}
        assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
        mine, other, lora = ours["settings"], theirs["settings"], theirs["lora"]
        assert mine["lora"] == {"r": lora["r"], "alpha": lora["lora_alpha"]}
        if ours["algorithm"] != "generate":
            assert mine["lr"] == other["learning_rate"]
            assert mine["batch_size"] == other["per_device_train_batch_size"]
            assert mine["batch_size"] * (2 if ours["algorithm"] == "dpo" else 1) == ours["rows"]


# --------------------------------------------------------------------------------------- the harness


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """The labels of the jobs that ran, in a harness whose jobs only report numbers."""
    labels = []

    def run_job(job, **_):
        labels.append(job["label"])
        if job["seed"] == 666:
            raise harness.JobError("it fell over")
        speed = {PLAIN: 2.0, FAST: 4.0}.get(job["label"], 1.0)
        numbers = {"steps": 100 * speed, "cpu_seconds": 1.0, "reached": None}
        return {**numbers, "versions": {"python": "3"}}

    monkeypatch.setattr(harness, "DONE", tmp_path / "jobs.jsonl")
    monkeypatch.setattr(harness, "run_job", run_job)
    return labels


UNIT = [{"label": "ours", "peer": "ours", "seed": 100}, {"label": "SB3", "peer": "sb3", "seed": 100}]


def test_finished_jobs_run_again_only_after_a_change(ran, monkeypatch):
    assert harness.run_unit(UNIT) == harness.run_unit(UNIT)
    assert ran == ["ours", "SB3"]
    with pytest.raises(harness.JobError):
        harness.run_unit([UNIT[0], {**UNIT[1], "seed": 666}])
    assert len(harness.DONE.read_text().splitlines()) == 1  # half a pair is not kept
    monkeypatch.setattr(harness, "ROOT", harness.DONE.parent)
    harness.run_unit(UNIT)
    assert ran == ["ours", "SB3"] * 3


def test_a_race_from_its_jobs_to_its_report(ran, monkeypatch, capsys):
    monkeypatch.setattr(harness, "absent", lambda peers: {"cleanrl": "no network here"})
    monkeypatch.setattr(harness, "ROOT", harness.DONE.parent)
    assert race.main(["--quick", "--only", "rate_"]) == 0
    out = capsys.readouterr().out
    assert "skipped: cleanrl: no network here" in out
    assert "rate_cleanrl" not in out
    line = next(x for x in out.splitlines() if "RL-Zoo" in x and PLAIN in x)
    assert "beside SB3" in line
    assert "2.00x (2.00 to 2.00)  goal 1.5" in line
    table = pd.read_csv(harness.DONE.parent / "_build" / "bench" / "race" / "table.csv")
    assert set(table.contestant) == {PLAIN, FAST, "SB3", "sb3-contrib"}


# --------------------------------------------------------------------------------------- the workers


def test_an_evaluation_is_not_timed_and_changes_no_random_number():
    import common
    import torch

    watch = common.Watch({"env": "CartPole-v1", "seed": 100, "every": 1000, "episodes": 10, "threshold": 100})
    running = []

    def act(observations):
        running.append(watch.clock._since)
        torch.rand(3), np.random.rand(3)  # noqa: NPY002 - a library that draws from the global generators
        return (observations[:, 2] + observations[:, 3] > 0).astype(np.int64)  # it balances well

    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    watch.clock.start()
    watch.after_update(999, act)
    assert running == []
    with pytest.raises(common.Enough):
        watch.after_update(1024, act)
    assert set(running) == {None}
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    result = watch.result()
    assert result["reached"] is True
    assert result["checks"][0]["mean"] >= 100


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "trpo"])
def test_a_job_runs_in_a_process_of_its_own(algorithm, monkeypatch):
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr(harness, "python_of", lambda peer: Path(sys.executable))
    checks = {"every": 256, "episodes": 4, "threshold": 1e9, "algorithm": algorithm}
    small = {"n_envs": 2, "n_steps": 64, "batch_size": 64}
    run = ("CartPole-v1", 100, 512)
    for job in (
        *races.ours(*run, {"num_envs": 2, "num_steps": 64}, **checks),
        races.sb3(*run, small, **checks),
    ):
        result = harness.run_job(job)
        assert result["steps"] == 512
        assert result["reached"] is False
        assert [check["steps"] for check in result["checks"]] == [256, 512]
        assert result["cpu_seconds"] > 0
        assert result["versions"]["torch"]


# ------------------------------------------------------------------------------------------ the page


def test_the_page_shows_what_is_recorded():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.made(text) == text, "python benchmarks/page.py makes it again"
    assert sorted(page.MADE.findall(text)) == sorted(page.PARTS)


def test_the_figures_of_the_page_can_be_drawn(tmp_path):
    page.draw(tmp_path)
    for name in ("race/ratios.svg", "language_race/ratios.svg", "race_curves/curves.svg"):
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")
        assert (ROOT / "results" / name).is_file()
        assert f"../results/{name}" in page.PAGE.read_text(encoding="utf-8")
