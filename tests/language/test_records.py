"""The records of the tiny language world, and the page that is made from them."""

import re
import shutil
from importlib import import_module

import numpy as np
import pytest

import language_results as page
from ppobook.language.registry import stage_class

RECORDS = sorted(path.name for path in page.RESULTS.glob("language_*") if "race" not in path.name)
FRESH = list(range(100, 110))


def script(name):
    pytest.importorskip("torch")
    return import_module(f"{name}.run")


def settings_of(name):
    """What the script runs, as it stands."""
    made_by = script(name)
    own = {
        "language_chain": lambda: [made_by.PPO],
        "language_ladder": lambda: [{"reward_model": "defaults"}],
        "language_best_of_n": lambda: [{"chosen_by": "proxy"}, {"chosen_by": "gold"}],
        "language_methods": lambda: [
            {"method": method, "lr": lr} for method, lr in made_by.chosen_rates().items()
        ],
        "language_settle": lambda: [
            {"method": method, "lr": lr} for method in made_by.STAGES for lr in made_by.RATES
        ],
    }
    return own[name]() if name in own else made_by.SETTINGS


def test_all_of_them_are_here():
    names = {"chain", "overoptimisation", "best_of_n", "ladder", "reward_models", "methods", "settle"}
    assert {f"language_{name}" for name in names} <= set(RECORDS)


@pytest.mark.parametrize("name", RECORDS)
def test_every_seed_of_every_setting_is_reported(name):
    facts, table = page.facts_of(name), page.table_of(name)
    assert facts["settings"] == settings_of(name)
    seeds = list(range(3)) if name == "language_settle" else FRESH
    assert facts["seeds"] == seeds
    rows = table.groupby([*facts["settings"][0], "seed"]).size()
    assert len(rows) == len(seeds) * len(facts["settings"])
    assert rows.nunique() == 1
    assert facts["note"]
    assert len(table) == facts["rows"]
    assert not (page.RESULTS / name / "partial.jsonl").exists()


def test_settings_were_not_chosen_on_the_seeds_that_are_reported():
    chosen = set(page.table_of("language_settle")["seed"])
    assert not chosen & set(page.table_of("language_methods")["seed"])


def test_methods_have_spent_what_they_may():
    methods = script("language_methods")
    spent = page.table_of("language_methods")["tokens"]
    # The last update, or the last pair, may go over it.
    assert spent.between(methods.BUDGET, methods.BUDGET + 64 * 24, inclusive="left").all()


def test_the_rates_are_those_that_the_rule_picks():
    tried = page.table_of("language_settle")
    for (method, lr), _ in page.table_of("language_methods").groupby(["method", "lr"]):
        means = {rate: one["gold"].mean() for rate, one in tried[tried["method"] == method].groupby("lr")}
        assert means[lr] == max(means.values())


def test_the_chain_is_that_of_the_defaults():
    chain = script("language_chain").PPO
    defaults = stage_class("ppo").settings_class()
    assert chain == {name: getattr(defaults, name) for name in chain}


def test_best_of_n_is_what_it_must_be():
    table = page.table_of("language_best_of_n")
    assert (table["kl"] <= table["kl_bound"] + 1e-3).all()
    by = table.set_index(["seed", "n", "chosen_by"])[["proxy", "gold"]].unstack()
    # Whoever chooses by a thing gets more of it; of one draw there is nothing to choose.
    assert (by["gold"]["gold"] >= by["gold"]["proxy"] - 1e-6).all()
    assert (by["proxy"]["proxy"] >= by["proxy"]["gold"] - 1e-6).all()
    single = by.xs(1, level="n")
    np.testing.assert_allclose(single["gold"]["gold"], single["gold"]["proxy"])
    for (_, chosen_by), some in table.groupby(["seed", "chosen_by"]):
        assert some.sort_values("n")[chosen_by].is_monotonic_increasing


def test_curves_begin_together_and_the_largest_beta_stays_nearest():
    ends = page.peaks()
    ppo = ends[ends["method"] == "PPO"].groupby("beta")["kl"].mean()
    assert ppo.is_monotonic_decreasing


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_shows_what_is_recorded():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.made(text) == text, "python tools/language_results.py makes it again"
    assert sorted(page.MADE.findall(text)) == sorted(page.PARTS)
    assert (page.RESULTS / page.FIGURE).is_file()


def test_a_number_in_the_prose_is_a_setting():
    """What was measured stands in parts that are made; what people wrote names what was set."""
    text = page.MADE.sub("", page.PAGE.read_text(encoding="utf-8"))
    methods, judges, curves = map(
        script, ("language_methods", "language_reward_models", "language_overoptimisation")
    )
    gold_counts_a_kind_word, per_cent_of_an_interval = 1, 95
    known = {
        *(FRESH[0], FRESH[-1], 0, 2, gold_counts_a_kind_word, per_cent_of_an_interval),
        *(curves.UPDATES, curves.EVERY * 64, 64),
        *(judges.UPDATES, judges.BETA),
        *(methods.BUDGET, methods.BETA),
    }
    found = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}
    assert found <= known, found - known


def test_a_changed_record_changes_the_page(tmp_path, monkeypatch):
    for name in RECORDS:
        shutil.copytree(page.RESULTS / name, tmp_path / name)
    record = page.table_of("language_methods")
    record.loc[0, "gold"] += 1
    record.to_csv(tmp_path / "language_methods" / "table.csv", index=False)
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.made(text) != text
    assert page.facts_of("language_methods")["name"] == "language_methods"
