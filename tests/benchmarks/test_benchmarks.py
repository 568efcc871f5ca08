"""The race: statistics on numbers with a known answer, the lists of jobs, what is kept and what is named."""

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "workers")]

import figures  # noqa: E402
import harness  # noqa: E402
import jobs  # noqa: E402
import page  # noqa: E402
import race  # noqa: E402
import ratios  # noqa: E402
import settings  # noqa: E402

# ------------------------------------------------------------------------------------------- the statistics


def test_the_ratio_of_pairs_is_the_geometric_mean():
    found = ratios.of_pairs([3.0, 12.0], [1.0, 3.0])
    assert found.ratio == pytest.approx(math.sqrt(3 * 4))
    assert 3 <= found.low <= found.ratio <= found.high <= 4
    assert found.seeds == 2


def test_what_a_whole_machine_does_to_a_pair_does_not_count():
    """Both of a pair ran while the machine was slow: the ratio and its interval are as if it had not been."""
    slowed = np.array([1.0, 0.3, 2.0, 0.7, 1.1])
    found = ratios.of_pairs(3 * slowed, slowed)
    assert (found.low, found.ratio, found.high) == pytest.approx((3, 3, 3))


def test_swapping_the_two_turns_the_ratio_round():
    rng = np.random.default_rng(1)
    first, second = rng.uniform(1, 2, (2, 8))
    for of in (ratios.of_pairs, ratios.of_medians):
        there, back = of(first, second), of(second, first)
        assert back.ratio == pytest.approx(1 / there.ratio)
        assert there.low < there.ratio < there.high


@pytest.mark.parametrize(
    ("of", "spread"), [(ratios.of_pairs, 0.3), (ratios.of_medians, 0.3)], ids=["pairs", "medians"]
)
def test_the_interval_covers_the_truth_about_as_often_as_it_says(of, spread):
    rng = np.random.default_rng(2)
    truth = 2.5
    covered = 0
    for k in range(200):
        ours = truth * np.exp(spread * rng.standard_normal(20))
        theirs = np.exp(spread * rng.standard_normal(20))
        found = of(ours, theirs, seed=k)
        covered += found.low <= truth <= found.high
    # 95 % is what it says. With 20 seeds a percentile interval has a little less, one of medians more.
    assert 0.88 <= covered / 200 <= 1.0


def test_a_run_that_did_not_get_there_counts_as_the_longest():
    found = ratios.of_medians([1.0, 2.0, math.inf], [4.0, 4.0, 4.0])
    assert found.ratio == pytest.approx(0.5)
    assert found.high == math.inf


def test_where_half_of_the_runs_fail_there_is_no_ratio():
    assert ratios.of_medians([math.inf, math.inf, 1.0], [1.0, 1.0, 1.0]).ratio == math.inf
    assert ratios.of_medians([1.0, 1.0, 1.0], [math.inf, math.inf, 1.0]).ratio == 0.0


def test_one_seed_has_a_ratio_and_no_interval():
    found = ratios.of_pairs([2.0], [1.0])
    assert found.ratio == 2.0
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [math.nan]])
def test_numbers_that_have_no_ratio_are_refused(bad):
    with pytest.raises(ValueError, match="numbers above 0 are wanted"):
        ratios.of_pairs(bad, [1.0])


def test_pairs_need_partners():
    with pytest.raises(ValueError, match="pairs are wanted"):
        ratios.of_pairs([1.0, 2.0], [1.0])


def test_the_median_of_an_even_number_lies_between():
    assert race.median([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert race.median([math.inf, 1.0, 2.0]) == 2.0


# -------------------------------------------------------------------------------------- the lists of jobs


def test_plain_forms_are_raced_at_the_settings_of_the_bench():
    rates = {one.name: one for one in jobs.bench()}
    for one in jobs.forms():
        if one.name.startswith("gae_"):
            continue
        fast, *others = one.jobs(100)
        plain = others[-1]
        assert plain["label"] == jobs.PLAIN
        assert plain["settings"] == {**fast["settings"], "fast": False}
        if one.name in rates:
            assert fast["settings"] == rates[one.name].jobs(100)[0]["settings"]
    assert [one.name for one in jobs.forms() if "jax" in one.name] == ["rate_jax_4", "rate_jax_64"]


def test_the_quick_race_is_what_it_should_be():
    races = {one.name: one for one in jobs.quick()}
    assert list(races) == [
        "rate_zoo",
        "rate_sb3",
        "rate_cleanrl",
        "rate_hopper",
        "reach_cartpole",
        "rate_trpo",
        "gae_2048_8",
        "gae_128_1024",
        "start_import",
        "start_help",
        "cost_environments",
        "cost_width_1",
        "cost_width_2",
    ]
    assert all(list(one.seeds) in ([100, 101], [100]) for one in races.values())
    labels = [[job["label"] for job in one.jobs(100)] for one in races.values()]
    assert labels[:7] == [
        ["ours", "SB3"],
        ["ours", "SB3"],
        ["ours", "CleanRL"],
        ["ours", "SB3"],
        ["ours", "SB3"],
        ["ours", "sb3-contrib"],
        ["ours", "a plain torch loop"],
    ]


def test_the_bench_has_five_seeds_and_every_row_of_the_quick_one():
    bench = {one.name: one for one in jobs.bench()}
    assert set(bench) > {one.name for one in jobs.quick()}
    compared = [one for one in bench.values() if one.measure != "cost"]
    assert all(list(one.seeds) == [100, 101, 102, 103, 104] for one in compared)


def test_the_longer_recordings_are_as_long_as_promised():
    many = {one.name: one for one in jobs.many_seeds()}
    assert len(many["reach_cartpole"].seeds) == 20
    for one in jobs.curves():
        (job,) = one.jobs(100)
        assert job["total_steps"] == 500_000
        assert len(one.seeds) == 3


@pytest.mark.parametrize("make", [jobs.bench, jobs.quick, jobs.many_seeds, jobs.curves])
def test_every_row_has_a_name_of_its_own_and_jobs_that_json_can_hold(make):
    races = make()
    assert len({one.name for one in races}) == len(races)
    for one in races:
        for unit in one.units():
            assert json.loads(json.dumps(unit)) == unit
            assert len({job["label"] for job in unit}) == len(unit)
            assert all(job["seed"] >= 100 for job in unit)  # below, our settings were settled


def _in_our_words(given, total=None):
    """Settings of SB3 as ours, by what its documentation says of them; None where ours has no such thing."""
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
        "value_coef": 2 * d["vf_coef"],  # it weighs the whole squared error, we half of it
        "max_grad_norm": d["max_grad_norm"],
    }
    if str(d["learning_rate"]).startswith("lin_"):
        ours["lr_final"] = 0.0
    return ours


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (jobs.EQUAL_ZOO, settings.ZOO_PPO["CartPole-v1"]),
        (jobs.EQUAL_SB3, {}),
        (jobs.EQUAL_LUNAR_LANDER, settings.ZOO_PPO["LunarLander-v3"]),
        (jobs.EQUAL_HOPPER, settings.ZOO_PPO["Hopper-v5"]),
    ],
)
def test_equal_settings_are_equal(ours, theirs):
    wanted = _in_our_words(theirs)
    assert {name: ours[name] for name in wanted} == wanted
    more = {"clip_eps_final", "hidden", "activation", "normalize_observations", "normalize_rewards"}
    assert set(ours) - set(wanted) <= more
    assert ours.get("normalize_observations", False) == theirs.get("normalize", False)


def test_peers_have_the_versions_that_we_have():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    for file in sorted((BENCHMARKS / "peers").glob("*.txt")):
        for line in file.read_text().split():
            name, _, version = line.partition("==")
            name = name.partition("[")[0]
            assert version, f"{file.name}: {name} has no version"
            if name in ("torch", "numpy", "gymnasium"):
                assert version == pins[name], f"{file.name}: {name}"


# ------------------------------------------------------------------------------------------- what is named


def test_a_contestant_that_cannot_be_had_is_named_and_its_rows_go_on():
    kept, skipped = race.without(jobs.bench(), {"cleanrl": "no network here"})
    names = [one.name for one in kept]
    assert "rate_cleanrl" not in names  # no peer is left to compare with
    assert "reach_cartpole" in names  # SB3 is left
    assert [(one["race"], one["contestant"], one["why"]) for one in skipped] == [
        ("rate_cleanrl", "CleanRL", "no network here"),
        ("reach_cartpole", "CleanRL", "no network here"),
    ]
    said = race.report({"comparisons": [], "alone": [], "skipped": skipped})
    assert "skipped: PPO on CartPole at CleanRL's defaults, CleanRL: no network here" in said


def test_without_a_simulator_its_rows_are_named(monkeypatch):
    monkeypatch.setattr(race.importlib.util, "find_spec", lambda name: None)
    kept, skipped = race.without(jobs.quick(), {})
    assert "rate_hopper" not in [one.name for one in kept]
    (one,) = skipped
    assert one["race"] == "rate_hopper"
    assert "ppobook[mujoco]" in one["why"]


@pytest.mark.parametrize("peer", ["cleanrl", "purejaxrl"])
def test_another_file_is_not_taken_for_a_peers(monkeypatch, tmp_path, peer):
    monkeypatch.setenv(peer.upper(), str(tmp_path))
    with pytest.raises(harness.NoPeer, match=f"{peer.upper()} must be a checkout"):
        harness.peer_folder(peer)
    for name in settings.PEER_FILES[peer]["files"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("print('something else')\n")
    with pytest.raises(harness.NoPeer, match="sha256"):
        harness.peer_folder(peer)


@pytest.mark.parametrize("peer", ["cleanrl", "purejaxrl"])
def test_without_a_network_a_peer_is_absent_with_a_reason(monkeypatch, tmp_path, peer):
    def offline(*_, **__):
        raise OSError("no route to host")

    monkeypatch.delenv(peer.upper(), raising=False)
    monkeypatch.setattr(harness, "HERE", tmp_path)
    monkeypatch.setattr(harness.urllib.request, "urlopen", offline)
    why = harness.absent(["ours", peer])
    assert list(why) == [peer]
    assert "no route to host" in why[peer]
    assert f"{peer.upper()}=PATH" in why[peer]


def test_what_is_changed_of_purejaxrl_stands_in_it_once():
    import purejaxrl

    whole = "import jax\n" + "".join(purejaxrl.NOT_NEEDED)
    assert purejaxrl.patched(whole, dict.fromkeys(purejaxrl.NOT_NEEDED, "")) == "import jax\n"
    with pytest.raises(ValueError, match="must stand once"):
        purejaxrl.patched("import jax\n", dict.fromkeys(purejaxrl.NOT_NEEDED, ""))


# -------------------------------------------------------------------------------------------- what is kept


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """A harness whose jobs only count how often they run."""
    ran = []

    def run_job(job, **_):
        ran.append(job["label"])
        if job.get("fails"):
            raise harness.JobError("it fell over")
        return {"steps": 100, "cpu_seconds": 2.0, "wall_seconds": 2.5, "reached": None, "checks": []}

    monkeypatch.setattr(harness, "DONE", tmp_path)
    monkeypatch.setattr(harness, "run_job", run_job)
    return ran


UNIT = [{"label": "ours", "peer": "ours", "seed": 100}, {"label": "SB3", "peer": "sb3", "seed": 100}]


def test_what_is_done_is_not_run_again(counted):
    first = harness.run_unit("quick", UNIT)
    assert harness.run_unit("quick", UNIT) == first
    assert counted == ["ours", "SB3"]
    assert harness.is_done("quick", UNIT)
    assert not harness.is_done("bench", UNIT)


def test_half_a_pair_is_not_kept(counted):
    with pytest.raises(harness.JobError):
        harness.run_unit("quick", [UNIT[0], {**UNIT[1], "fails": True}])
    harness.run_unit("quick", UNIT)
    assert counted == ["ours", "SB3", "ours", "SB3"]


def test_a_pair_runs_again_once_the_library_has_changed(counted, monkeypatch):
    harness.run_unit("quick", UNIT)
    alone = [{"label": "SB3", "peer": "sb3", "seed": 100}]
    harness.run_unit("quick", alone)
    monkeypatch.setattr(harness, "library_digest", lambda: "another")
    assert not harness.is_done("quick", UNIT)
    assert harness.is_done("quick", alone)


def test_the_librarys_digest_sees_code_and_not_words(tmp_path):
    def digest(source, name="ppo.py"):
        (tmp_path / name).write_text(source)
        return harness.library_digest(tmp_path)

    first = digest('"""A docstring."""\nx = 1\n')
    assert digest('"""Another."""\n# and a comment\nx = 1\n') == first
    assert digest("x = 2\n") != first
    digest("x = 1\n")
    assert digest("y = 1\n", "cli.py") == first  # not timed


def test_what_is_not_timed_is_there():
    """A module that was renamed would be counted in, and every race be run again for nothing."""
    package = ROOT / "lib" / "ppobook"
    there = {path.relative_to(package).with_suffix("").as_posix() for path in package.rglob("*")}
    assert not (harness._NOT_TIMED | harness._NOT_TIMED_IN_LANGUAGE) - there


def test_a_race_is_told_by_its_table(counted):
    two = jobs.Race(
        "rate_x",
        "a race",
        lambda seed: [{**job, "seed": seed} for job in UNIT],
        "steps_per_second",
        [100, 101],
    )
    results = race.run([two], "quick", {})
    lines = race.table(results)
    assert {line["measure"] for line in lines} == {
        "cpu_seconds",
        "steps",
        "steps_per_second",
        "steps_per_wall_second",
    }
    (one,) = race.comparisons([two], lines)
    assert (one["ours"], one["theirs"], one["ratio"]) == (50.0, 50.0, 1.0)
    assert one["seeds"] == 2


def test_a_run_that_did_not_get_there_is_counted_and_no_number_is_made_up():
    learned = jobs.until_learned("CartPole-v1", [100, 101, 102], with_cleanrl=False)
    lines = []
    for label, took in (("ours", [1.0, 1.2, 1.1]), ("SB3", [5.0, None, None])):
        for seed, seconds in zip(learned.seeds, took, strict=True):
            numbers = {"cpu_seconds": seconds or 9.0, "steps": 4096.0, "reached": int(seconds is not None)}
            for measure, value in numbers.items():
                lines.append(
                    {
                        "race": learned.name,
                        "contestant": label,
                        "seed": seed,
                        "measure": measure,
                        "value": value,
                    }
                )
    seconds, _ = race.comparisons([learned], lines)
    assert seconds["not_reached"] == [0, 2]
    assert seconds["theirs"] is None
    assert seconds["ratio"] == 0.0


# ------------------------------------------------------------------------------------------- the workers


def test_a_check_is_off_the_clock_and_changes_no_random_number():
    import common
    import torch

    watch = common.Watch({"env": "CartPole-v1", "seed": 100, "every": 1000, "episodes": 10, "threshold": 100})
    asked = []

    def act(observations):
        if not asked:
            time.sleep(0.05)
            sum(range(10**6))
        asked.append(len(observations))
        torch.rand(3), np.random.rand(3)  # noqa: NPY002 - a library that draws from the global generators
        return (observations[:, 2] + observations[:, 3] > 0).astype(np.int64)  # it balances well

    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    watch.clock.start()
    watch.after_update(999, act)
    assert asked == []
    watch.clock.stop()
    spent = watch.clock.cpu
    watch.clock.start()
    with pytest.raises(common.Enough):
        watch.after_update(1024, act)
    watch.clock.stop()
    assert watch.clock.cpu - spent < 0.02
    assert set(asked) == {10}
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    result = watch.result()
    assert result["reached"] is True
    assert result["checks"][0]["mean"] >= 100


def test_each_environment_plays_one_episode():
    import common

    returns = common.play(lambda x: np.zeros(len(x), np.int64), "CartPole-v1", 50, seed=3)
    assert len(returns) == 50
    assert (returns >= 8).all()
    assert (returns <= 11).all()  # always to the left, it falls within a dozen steps
    again = common.play(lambda x: np.zeros(len(x), np.int64), "CartPole-v1", 50, seed=3)
    assert (returns == again).all()


CLEANRL_LIKE = """
envs = gym.vector.SyncVectorEnv(
    [make_env(i) for i in range(args.num_envs)],
)
for info in infos["final_info"]:
    if info and "episode" in info:
        seen.append(float(info["episode"]["r"]))
"""


def test_two_lines_of_cleanrl_are_changed_and_no_other():
    """Written like the places in its file: episodes are read from what Gymnasium 1.x hands out."""
    from types import SimpleNamespace

    import cleanrl
    import gymnasium as gym

    ended = {
        "episode": {"r": np.array([0.0, 21.0]), "l": np.array([0, 21])},
        "_episode": np.array([False, True]),
    }
    names = {"gym": gym, "np": np, "args": SimpleNamespace(num_envs=2), "infos": {"final_info": ended}}
    names |= {"make_env": lambda i: lambda: gym.make("CartPole-v1"), "seen": []}
    after = cleanrl.patched(CLEANRL_LIKE)
    exec(after, names)
    assert names["seen"] == [21.0]
    assert names["envs"].metadata["autoreset_mode"] == gym.vector.AutoresetMode.SAME_STEP
    changed = set(after.splitlines()) ^ set(CLEANRL_LIKE.splitlines())
    assert len(changed) == 3  # one line that is new, and one that was another
    with pytest.raises(ValueError, match="must stand once"):
        cleanrl.patched(after)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "trpo"])
def test_a_job_runs_in_a_process_of_its_own(algorithm, monkeypatch):
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr(harness, "python_of", lambda peer: Path(sys.executable))
    checks = {"every": 256, "episodes": 4, "threshold": 1e9, "algorithm": algorithm}
    small = {"n_envs": 2, "n_steps": 64, "batch_size": 64}
    for job in (
        jobs.ours("CartPole-v1", 100, 512, {"num_envs": 2, "num_steps": 64}, **checks),
        jobs.sb3("CartPole-v1", 100, 512, small, **checks),
    ):
        result = harness.run_job(job)
        assert result["steps"] == 512
        assert result["reached"] is False
        assert [check["steps"] for check in result["checks"]] == [256, 512]
        assert 0 < result["cpu_seconds"] < 60
        assert result["versions"]["torch"]


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_shows_what_is_recorded():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.made(text, page.Recorded()) == text, "python benchmarks/page.py makes it again"
    names = page.MADE.findall(text)
    assert sorted(names) == sorted(page.PARTS)


def test_every_figure_of_the_page_is_there():
    import re

    text = page.PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"\{image\} (\S+)", text):
        assert (page.PAGE.parent / name).is_file(), name


def test_the_figure_bears_a_rival_that_did_not_get_there(tmp_path):
    one = {"race": "reach_x", "title": "x", "contestant": "SB3", "measure": "cpu_seconds", "seeds": 5}
    ends = [(0.0, 0.0, 0.0), (0.5, 0.0, 1.0), (None, None, None)]
    rows = [{**one, **dict(zip(("ratio", "low", "high"), x, strict=True))} for x in ends]
    (tmp_path / "race").mkdir()
    (tmp_path / "race" / "facts.json").write_text(json.dumps({"comparisons": rows}))
    assert figures.speedups(page.Recorded(tmp_path)) == [("x, SB3", 2.0, 1.0, None)]


def test_the_page_says_nothing_where_nothing_is_recorded(tmp_path):
    empty = page.Recorded(tmp_path)
    for name, part in page.PARTS.items():
        if name != "skipped":
            assert part(empty) == page.ABSENT
