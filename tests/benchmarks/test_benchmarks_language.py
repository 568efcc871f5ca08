"""The race against TRL: its jobs and equal settings, its report on numbers with a known answer, its page.

Nothing here needs TRL or transformers.
"""

import json
import math
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "workers")]

import harness  # noqa: E402
import language_common  # noqa: E402
import language_jobs  # noqa: E402
import language_page  # noqa: E402
import language_race  # noqa: E402
import language_where  # noqa: E402
from language_jobs import DECODER, GPT2, LARGE, SMALL  # noqa: E402
from race import as_csv  # noqa: E402

from ppobook.language.registry import stage_class  # noqa: E402

# -------------------------------------------------------------------------------------- the lists of jobs


def test_the_race_is_what_it_should_be():
    races = {one.name: one for one in language_jobs.bench()}
    small = ["grpo_2x64", "ppo_2x64", "dpo_2x64", "sft_2x64", "rloo_2x64", "generate_2x64"]
    assert list(races) == [*small, "grpo_4x256", "ppo_4x256", "dpo_4x256", "sft_4x256", "generate_4x256"]
    assert all(len(races[name].seeds) == 5 for name in small)
    for race in races.values():
        labels = [job["label"] for job in race.jobs(100)]
        other = "transformers" if race.algorithm == "generate" else "TRL"
        assert labels == [GPT2, DECODER, other]
        assert race.goal == language_jobs.GOALS.get(race.algorithm)
        assert min(race.seeds) >= 100
        assert json.loads(json.dumps(race.jobs(100))) == race.jobs(100)
    assert {one.name for one in language_jobs.quick()} < set(races)
    assert {one.size for one in races.values()} == {SMALL, LARGE}


def test_goals_are_those_that_were_set():
    assert language_jobs.GOALS["ppo"] == language_jobs.GOALS["grpo"] == (1 / 3, 0.45)
    assert language_jobs.GOALS["dpo"] == language_jobs.GOALS["sft"] == (1 / 3, 1.0)


@pytest.mark.parametrize("algorithm", language_jobs.EQUAL)
def test_ours_is_what_the_stage_makes_of_it(algorithm):
    """Settings that the library takes; and of a variant, none that it would have otherwise is forgotten."""
    asked = language_jobs.ours_settings(algorithm)
    stage = "grpo" if algorithm == "rloo" else algorithm
    made = stage_class(stage).settings_class.make(stage, asked, {})
    assert {name: getattr(made, name) for name in asked} == asked
    assert made.batch_size == language_common.ROWS
    if algorithm in ("grpo", "rloo", "ppo"):
        assert made.max_new_tokens == language_common.NEW_TOKENS
        assert made.kl_coef > 0
        assert made.num_minibatches == 1
    if algorithm == "rloo":
        assert (made.baseline, made.kl_in, made.epochs) == ("leave_one_out", "reward", 1)


@pytest.mark.parametrize("algorithm", language_jobs.EQUAL)
def test_equal_settings_have_one_value(algorithm):
    ours, theirs = language_jobs.ours_settings(algorithm), language_jobs.trl_settings(algorithm)
    for one in language_jobs.EQUAL[algorithm]:
        assert ours[one.ours] == theirs[one.trl] == one.value, one.what
    assert theirs["weight_decay"] == 0  # ours has none


def test_ppo_has_an_environment_of_its_own():
    peers = {one.algorithm: one.jobs(100)[2]["peer"] for one in language_jobs.bench()}
    assert peers == {
        "grpo": "trl",
        "ppo": "trl_ppo",
        "dpo": "trl",
        "sft": "trl",
        "rloo": "trl",
        "generate": "ours",
    }
    for peer, version in (("trl", "1.16.0"), ("trl_ppo", "1.12.0")):
        assert f"trl=={version}" in (BENCHMARKS / "peers" / f"{peer}.txt").read_text().split()


# ----------------------------------------------------------------------------------------- what is measured


def steps_of(ends, warm_up=2):
    steps = language_common.Steps({"warm_up": warm_up, "steps": len(ends) - warm_up})
    steps.ends = [(cpu, 10 * cpu) for cpu in ends]
    return steps


def test_a_step_is_from_one_end_to_the_next_after_the_warm_up():
    result = steps_of([5.0, 9.0, 9.5, 9.6, 9.9]).result()
    assert result["milliseconds"] == pytest.approx(300)  # of 500, 100, 300
    assert result["wall_milliseconds"] == pytest.approx(3000)
    assert result["peak_mb"] > result["above_imports_mb"] >= 0


def test_steps_that_are_missing_are_noticed():
    steps = steps_of([1.0, 2.0, 3.0, 4.0])
    steps.wanted += 1
    with pytest.raises(RuntimeError, match=r"4 steps, and not 2 \+ 3"):
        steps.result()


def test_shorter_completions_are_noticed():
    language_common.refuse_unless_equal(64, {24})
    for rows, lengths in ((63, {24}), (64, {24, 23}), (64, {1})):
        with pytest.raises(RuntimeError, match="not 64 of 24"):
            language_common.refuse_unless_equal(rows, lengths)


def test_memory_that_is_taken_is_counted():
    before = language_common.peak_memory()
    taken = bytearray(b"x" * (300 << 20))
    after = language_common.peak_memory()
    del taken
    assert before < after
    assert after >= 300
    assert language_common.peak_memory() == pytest.approx(after, rel=0.05)  # a peak does not fall


def test_the_reward_counts_different_words():
    assert language_common.different_words(["x", "x"], ["a b a", "c c"]) == [2.0, 1.0]


# ---------------------------------------------------------------------------------------------- the report

RACE = language_jobs.Race("grpo", SMALL, [100, 101, 102], 2, 5, (1 / 3, 0.45))
VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0", "trl": "1.16.0"}


def results_of(took):
    """Results of three seeds, by contestant."""
    found = []
    for number, seed in enumerate(RACE.seeds):
        for job in RACE.jobs(seed):
            ms = took[job["label"]][number]
            result = {"milliseconds": ms, "wall_milliseconds": 2 * ms, "peak_mb": 400.0 + ms, "load": 3.0}
            found.append((job, {**result, "above_imports_mb": 50.0, "versions": VERSIONS}))
    return {RACE.name: found}


@pytest.fixture
def facts():
    results = results_of({GPT2: [40.0, 80.0, 20.0], DECODER: [30.0, 60.0, 15.0], "TRL": [100.0, 200.0, 50.0]})
    lines = language_race.table(results)
    return language_race.facts([RACE], results, lines, [])


def test_each_of_ours_is_compared_block_by_block(facts):
    gpt2, decoder = facts["comparisons"]
    assert (gpt2["contestant"], gpt2["beside"]) == (GPT2, "TRL")
    assert (gpt2["ratio"], gpt2["low"], gpt2["high"]) == (
        0.4,
        0.4,
        0.4,
    )  # whatever the machine did to a block
    assert decoder["ratio"] == 0.3
    assert gpt2["medians"]["milliseconds"] == [40.0, 100.0]
    assert gpt2["medians"]["peak_mb"] == [440.0, 500.0]
    assert "load" not in gpt2["medians"]
    assert facts["load"] == {"median": 3.0, "least": 3.0, "most": 3.0}
    assert facts["races"][0]["settings"]["TRL"]["beta"] == 0.04
    said = language_race.report(facts)
    assert "0.4 to 0.4" in said
    assert "0.33, at worst 0.45" in said


def test_the_page_tells_what_was_measured(facts):
    table = language_page.small(facts)
    assert "| GRPO | the same GPT-2 | 40 | 100 | 0.4 (0.4 to 0.4) | 0.4 | 3 | 0.33, at worst 0.45 |" in table
    assert "|  | our decoder | 30 | 100 | 0.3 (0.3 to 0.3) | 0.3 | 3 | 0.33, at worst 0.45 |" in table
    assert language_page.large(facts) == language_page.ABSENT
    assert "the same GPT-2: 0.4 (0.4 to 0.4) of TRL's time, more than" in language_page.worse(facts)
    assert "our decoder" not in language_page.worse(facts)
    assert "trl 1.16.0" in language_page.machine(facts)
    assert "not whole" in language_page.machine(facts)
    facts["races"] = [{"name": one.name, "seeds": list(one.seeds)} for one in language_jobs.bench()]
    assert "not whole" not in language_page.machine(facts)
    assert "50" in language_page.memory(facts)


def test_where_a_step_goes_is_told_beside_trls_time(facts, tmp_path):
    assert language_page.where(facts, tmp_path) == language_page.ABSENT
    shares = {"products": 0.25, "attention": 0.15, "each_number": 0.2, "between": 0.4}
    found = {"milliseconds": 30.0, "gflop": 2.0, "gflops_of_one_product": 80.0, **shares}
    assert sorted(found) == sorted(language_where.MEASURES)
    lines = [
        {"race": RACE.name, "contestant": DECODER, "seed": seed, "measure": name, "value": value}
        for seed in (100, 101)
        for name, value in found.items()
    ]
    (tmp_path / "language_race_where").mkdir()
    (tmp_path / "language_race_where" / "table.csv").write_text(as_csv(lines), encoding="utf-8")
    # 2 GFLOP at 80 a second are 25 ms, a quarter of TRL's 100.
    assert language_page.where(facts, tmp_path).endswith(
        "| GRPO | 64 | 25 % | 15 % | 20 % | 40 % | 2 | 0.25 |"
    )


def test_what_is_behind_or_past_its_limit_is_named(facts):
    one = facts["comparisons"][0]
    for ratio, words in ((1.2, "behind, and past the limit of 0.45"), (0.5, "past the limit of 0.45")):
        one["ratio"] = ratio
        assert words in language_page.worse(facts)
    one["ratio"] = 0.33
    assert language_page.worse(facts) == "In no row above."
    one["medians"]["peak_mb"] = [521.0, 505.0]
    assert language_page.worse(facts).endswith("the same GPT-2: a peak of 521 MB, TRL's 505.")


def test_settings_that_were_not_equal_are_shown(facts):
    shown = language_page.settings(facts)
    assert "| `kl_weighted=False` | `use_bias_correction_kl=True` |" in shown
    ours = stage_class("grpo").settings_class.make("grpo", language_jobs.ours_settings("grpo"), {})
    assert ours.kl_weighted is False
    assert "use_bias_correction_kl" not in language_jobs.trl_settings("grpo")


def test_a_recording_is_drawn(facts, tmp_path):
    (tmp_path / "language_race").mkdir()
    (tmp_path / "language_race" / "facts.json").write_text(json.dumps(facts))
    language_page.draw(tmp_path, tmp_path)
    assert "<svg" in (tmp_path / "language_race" / "shares.svg").read_text(encoding="utf-8")
    assert "GRPO, the same GPT-2 0.40" in language_page.figure(facts)


def test_contestants_that_cannot_be_had_are_named():
    races = language_jobs.quick()
    kept, skipped = language_race.without(races, {"trl_ppo": "no network here"})
    assert [one["race"] for one in skipped] == ["ppo_2x64"]
    assert len(kept) == len(races) - 1
    said = language_race.report({"comparisons": [], "skipped": skipped})
    assert "skipped: PPO, 2 layers of width 64, TRL: no network here" in said


def test_a_block_runs_again_once_the_library_of_language_models_has_changed(tmp_path):
    def digest(name, source):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)
        return harness.library_digest(tmp_path, off=harness._NOT_TIMED_IN_LANGUAGE)

    first = digest("language/ppo.py", "x = 1\n")
    assert digest("language/online.py", "y = 1\n") == first  # not timed
    assert digest("rollouts.py", "y = 1\n") == first
    assert digest("language/ppo.py", "x = 2\n") != first


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_shows_what_is_recorded():
    text = language_page.PAGE.read_text(encoding="utf-8")
    again = language_page.made(text, language_page.recorded())
    assert again == text, "python benchmarks/language_page.py makes it again"
    assert sorted(language_page.MADE.findall(text)) == sorted(language_page.PARTS)


def test_what_is_recorded_is_of_this_race():
    facts = language_page.recorded()
    if facts is None:
        pytest.skip("nothing is recorded yet")
    bench = {one.name: one for one in language_jobs.bench()}
    assert {one["name"] for one in facts["races"]} <= set(bench)
    for one in facts["races"]:
        assert set(one["seeds"]) <= set(bench[one["name"]].seeds)
    for one in facts["comparisons"]:
        assert math.isfinite(one["ratio"])
    shared = ("torch", "numpy", "transformers")
    for name in shared:
        assert len({v[name] for v in facts["versions"].values()}) == 1, name
