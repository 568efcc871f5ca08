"""The records of the tiny language world, and the page that is made from them."""

from importlib import import_module

import pytest

import language_results as page
from ppobook.language.training import STAGES

NAMES = ("chain", "overoptimisation", "overoptimisation_controls", "best_of_n", "ladder", "methods", "settle")
RECORDS = sorted(f"language_{name}" for name in NAMES)
ON_SUMS = [
    f"language_{name}" for name in ("verifiable", "hole", "critic", "critic_rates", "groups", "groups_rates")
]
SETTLING = ("language_settle", "language_critic_rates", "language_groups_rates")  # seeds that chose settings
FRESH = list(range(100, 110))


def script(name):
    pytest.importorskip("torch")
    return import_module(f"{name}.run")


def settings_of(name):
    """Return the settings that the script runs, as it stands."""
    made_by = script(name)
    if name == "language_chain":
        return [made_by.PPO]
    return made_by.chosen() if name == "language_methods" else made_by.SETTINGS


@pytest.mark.parametrize("name", RECORDS + ON_SUMS)
def test_every_seed_of_every_setting_is_reported(name):
    facts, table = page.facts_of(name), page.table_of(name)
    assert facts["settings"] == settings_of(name)
    seeds = list(range(3)) if name in SETTLING else FRESH
    assert facts["seeds"] == seeds
    rows = table.groupby([*facts["settings"][0], "seed"]).size()
    assert len(rows) == len(seeds) * len(facts["settings"])
    assert rows.nunique() == 1
    assert facts["note"]
    assert len(table) == facts["rows"]
    assert not (page.RESULTS / name / "partial.jsonl").exists()


def test_beta_and_rate_are_those_that_the_rule_picks():
    tried = page.table_of("language_settle").groupby(["method", "steps", "beta", "lr"])["gold"].mean()
    used = page.table_of("language_methods").groupby(["method", "steps", "beta", "lr"]).size()
    assert len(used) == 10
    for method, steps, beta, lr in used.index:
        assert tried[method, steps, beta, lr] == tried[method, steps].max()


def test_rates_on_the_sums_are_those_that_the_rule_picks():
    rates = page.table_of("language_critic_rates").groupby("lr")["right"].mean()
    assert set(page.table_of("language_critic")["lr"]) == {rates.idxmax()}
    by_size = page.table_of("language_groups_rates").groupby(["group_size", "lr"])["right"].mean().unstack()
    groups = page.table_of("language_groups")
    is_control = (groups["baseline"] == "batch") & (groups["group_size"] > 1)
    used = groups[~is_control].groupby("group_size")["lr"].unique().map(list)
    assert used.to_dict() == {size: [rate] for size, rate in by_size.idxmax(axis=1).items()}


def test_the_chain_is_that_of_the_defaults():
    chain = script("language_chain").PPO
    defaults = STAGES.find("ppo").settings_class()
    assert chain == {name: getattr(defaults, name) for name in chain}


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_shows_what_is_recorded():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.made(text) == text, "python tools/language_results.py makes it again"
    assert sorted(page.MADE.findall(text)) == sorted(page.PARTS)
    assert (page.RESULTS / page.FIGURE).is_file()
