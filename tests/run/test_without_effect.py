"""Settings that have no effect with the others are refused, however they are given; and no others."""

import dataclasses
import json
import re

import pytest

import ppobook.language.settings as language
import ppobook.settings as control
from ppobook import train
from ppobook.cli import main
from ppobook.language import train as train_language
from ppobook.language.world import World
from ppobook.ppo import PPO

CONTROL = [
    ("vanilla", {"baseline": "none", "value_lr": 1}, "value_lr has no effect with baseline='none'"),
    ("vanilla", {"baseline": "mean", "value_epochs": 1}, "with baseline='mean': it is for 'value'"),
    ("vanilla", {"env": "ppobook/Chain-v0", "hidden": 4}, "hidden has no effect with states (Discrete(7))"),
    ("trpo", {"line_search_steps": 1, "backtrack": 0.5}, "backtrack has no effect with line_search_steps=1"),
    ("trpo", {"initial_std": 0.5}, "initial_std has no effect with the actions Discrete(2)"),
    ("ppo", {"kl_coef": 7}, "with objective='clip': it is for 'kl' or 'adaptive_kl'"),
    ("ppo", {"kl_target": 7, "objective": "kl"}, "kl_target has no effect with objective='kl'"),
    ("ppo", {"clip_eps": 0.1, "objective": "kl"}, "clip_eps has no effect with objective='kl'"),
    ("ppo", {"clip_eps_high": 0.1, "objective": "adaptive_kl"}, "clip_eps_high has no effect with objective"),
    ("ppo", {"clip_eps_final": 0.1, "objective": "kl"}, "clip_eps_final has no effect with objective='kl'"),
    ("ppo", {"epochs": 1, "max_kl": 0.1}, "max_kl has no effect with epochs=1"),
    ("ppo", {"value_coef": 0, "value_clip_eps": 0.1}, "value_clip_eps has no effect with value_coef=0.0"),
    ("ppo", {"env": "ppobook/Chain-v0", "activation": "relu"}, "activation has no effect with states"),
]
# Of a stage, with a World of `SIZES` as data.
LANGUAGE = [
    ("sft", {"eval_examples": 0, "eval_every": 3}, "eval_every has no effect with eval_examples=0"),
    ("reward", {"eval_pairs": 0, "eval_every": 3}, "eval_every has no effect with eval_pairs=0"),
    ("dpo", {"loss": "kto", "label_smoothing": 0.1}, "label_smoothing has no effect with loss='kto'"),
    ("dpo", {"loss": "kto", "eval_pairs": 9}, "eval_pairs has no effect with loss='kto'"),
    ("dpo", {"gamma": 1}, "gamma has no effect with loss='dpo': it is for 'simpo'"),
    ("dpo", {"desirable_weight": 2}, "desirable_weight has no effect with loss='dpo': it is for 'kto'"),
    ("dpo", {"loss": "simpo", "reference": "base"}, "reference has no effect with loss='simpo'"),
    ("ppo", {"kl_coef": 0, "kl_estimator": "k2"}, "kl_estimator has no effect with kl_coef=0.0"),
    ("ppo", {"kl_coef": 0, "kl_in": "loss"}, "kl_in has no effect with kl_coef=0.0"),
    ("ppo", {"kl_weighted": False}, "kl_weighted has no effect with kl_in='reward': it is for 'loss'"),
    ("ppo", {"kl_horizon": 9}, "kl_horizon has no effect with kl_target=None"),
    ("ppo", {"missing_eos_penalty": 1}, "no effect with truncation='end': it is for 'penalty'"),
    ("grpo", {"variant": "dapo", "kl_estimator": "k2"}, "kl_estimator has no effect with kl_coef=0.0"),
    ("grpo", {"length": 9}, "length has no effect with reduction='sequence': it is for 'constant'"),
    ("grpo", {"max_rounds": 2}, "max_rounds has no effect with filter_groups=False"),
    ("grpo", {"group_size": 1, "filter_groups": True}, "filter_groups must be False with group_size=1"),
    ("online_dpo", {"loss": "ipo", "label_smoothing": 0.1}, "no effect with loss='ipo': it is for 'dpo'"),
    ("iterative_ppo", {"missing_eos_penalty": 1}, "no effect with truncation='end'"),
    ("lagged_grpo", {"lag": 0, "corrected": False}, "corrected has no effect with lag=0"),
    ("lagged_grpo", {"lag": 0, "max_weight": 2}, "max_weight has no effect with lag=0"),
]
SIZES = {"nouns": 2, "places": 2, "verbs": 1, "adjectives": 1, "max_new_tokens": 12}
NEW = {"layers": 1, "width": 8, "heads": 2}


def ids(cases):
    return [f"{name}-{[*given][-1]}" for name, given, *_ in cases]


def words(given):
    return [word for name, x in given.items() for word in (f"--{name.replace('_', '-')}", f"{x}")]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language") / "base"
    small = {"examples": 20, "eval_examples": 0, "updates": 1, **NEW}
    return str(train_language("sft", data=World(**SIZES), progress=False, **small).save(folder))


@pytest.mark.parametrize(("algorithm", "given", "sentence"), CONTROL, ids=ids(CONTROL))
def test_control(algorithm, given, sentence, tmp_path, capsys):
    given = {"env": "CartPole-v1", **given}
    with pytest.raises(ValueError, match=re.escape(sentence)):
        train(algorithm, total_steps=1, progress=False, **given)
    assert main(["train", algorithm, *words(given), "--total-steps", "1"]) == 2
    assert sentence in capsys.readouterr().err
    (tmp_path / "file.yml").write_text(json.dumps(given))
    assert main(["train", algorithm, "--config", str(tmp_path / "file.yml"), "--total-steps", "1"]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(("stage", "given", "sentence"), LANGUAGE, ids=ids(LANGUAGE))
def test_language(stage, given, sentence, base, capsys):
    own = {"data": World(**SIZES)} if stage == "sft" else {"model": base}
    own |= (
        {"reward": "gold"} if stage in ("ppo", "grpo", "online_dpo", "iterative_ppo", "lagged_grpo") else {}
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        train_language(stage, **own, updates=1, progress=False, **given)
    own |= {"data": None, "world": "nouns=2,places=2"} if stage == "sft" else {}
    own = {name: x for name, x in own.items() if x is not None}
    assert main(["language", stage, *words(own | given), "--updates", "1"]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stage", "given", "sentence"),
    [
        ("sft", {"layers": 7}, "layers has no effect with a model that is given: it is for a new decoder"),
        (
            "sft",
            {"examples": 7, "data": "own"},
            "examples has no effect with data of your own: it is for a W",
        ),
        ("reward", {"noise": 0.1, "data": "own"}, "noise has no effect with data of your own: it is for a W"),
        ("dpo", {"pairs": 9, "data": "own"}, "pairs has no effect with data of your own: it is for a World"),
    ],
)
def test_what_depends_on_model_and_data(stage, given, sentence, base, capsys, tmp_path):
    record = (
        {"prompt": "a", "completion": "a"}
        if stage == "sft"
        else {"prompt": "a", "chosen": "a", "rejected": ""}
    )
    (tmp_path / "own.jsonl").write_text(f"{json.dumps(record)}\n" * 3)
    given = given | ({"data": str(tmp_path / "own.jsonl")} if "data" in given else {})
    with pytest.raises(ValueError, match=re.escape(sentence)):
        train_language(stage, base, progress=False, **given)
    assert main(["language", stage, base, *words(given)]) == 2
    assert sentence in capsys.readouterr().err


def test_needs_name_settings_and_values_that_there_are():
    facts = {"observations", "actions", "model", "data"}
    for kind in (*control.SETTINGS.values(), *language.SETTINGS.values()):
        fields = {f.name: f for f in dataclasses.fields(kind)}
        for needs in (*(f.metadata.get("needs", {}) for f in fields.values()), *kind.arguments.values()):
            assert needs.keys() <= fields.keys() | facts
            for other, wanted in needs.items():
                choices = fields[other].metadata["choices"] if other in fields else None
                assert not choices or {*wanted} <= {*choices}


SMALL = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 8, "num_minibatches": 2, "total_steps": 1}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("ppo", {"kl_coef": 7, "objective": "kl"}),
        ("ppo", {"clip_eps_final": None, "objective": "kl"}),  # None asks for nothing
        (type("Mine", (PPO,), {}), {"kl_coef": 7}),  # a user's own may use what it likes
    ],
    ids=["with", "None", "own"],
)
def test_what_is_not_refused(kind, given):
    train(kind, progress=False, **SMALL, **given)


def test_a_runs_config_holds_settings_without_effect(tmp_path, capsys):
    run = train("ppo", progress=False, **SMALL, objective="kl")
    run.save(tmp_path / "run")
    train(**run.config, progress=False)
    again = ["train", "--config", str(tmp_path / "run" / "config.json"), "--quiet"]
    assert main([*again, "--objective", "clip", "--clip-eps", "0.3"]) == 0
    capsys.readouterr()
    assert main([*again, "--clip-eps", "0.3"]) == 2
    assert "clip_eps has no effect with objective='kl'" in capsys.readouterr().err
