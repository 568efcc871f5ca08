"""Settings: names of other libraries, and the switch of the fast forms."""

import dataclasses
import functools
import re

import numpy as np
import pytest

import ppobook.language.settings as language
import ppobook.settings as control
from ppobook import evaluate, load, train, training
from ppobook.language import compare as compare_language
from ppobook.language import evaluate as evaluate_language
from ppobook.language import train as train_language
from ppobook.language.sft import SFT
from ppobook.language.world import World
from ppobook.learner import Learner
from ppobook.ppo import PPO
from ppobook.run.settings import Settings, setting
from ppobook.run.spellings import OTHER_NAMES


def test_other_names_stand_for_names_that_there_are():
    kinds = [*control.SETTINGS.values(), *language.SETTINGS.values()]
    known = {name for kind in kinds for name in kind.__dataclass_fields__}
    known |= {name for kind in kinds for name in kind.arguments}
    known |= {"reward_model", "quiet", "episodes", "n"}  # of the command line, and of evaluate
    known |= set(training.COLUMNS)  # of a history, for --metric
    assert {name for names in OTHER_NAMES.values() for name in names} <= known


@pytest.mark.parametrize(
    ("word", "fast"), [(None, True), ("1", True), ("0", False), ("False", False), ("", True), ("off", "")]
)
def test_the_environment_variable_fast(word, fast, monkeypatch):
    monkeypatch.delenv("PPOBOOK_FAST", raising=False)
    if word is not None:
        monkeypatch.setenv("PPOBOOK_FAST", word)
    if fast == "":
        with pytest.raises(ValueError, match="PPOBOOK_FAST must be 0, 1, false or true, got 'off'"):
            Settings()
    else:
        assert Settings().fast is fast
        assert Settings(fast=not fast).fast is not fast


def test_an_integer_without_limits_has_none():
    @dataclasses.dataclass(frozen=True)
    class Own(Settings):
        bare: int = 0
        counted: int = setting(0, "no limits")
        several: tuple[int, ...] = setting((0,), "no limits")

    made = Own.make("own", {"bare": -3, "counted": -1, "several": (0, -2)}, {})
    assert (made.bare, made.counted, made.several) == (-3, -1, (0, -2))
    with pytest.raises(TypeError, match=r"bare must be an integer, got 0\.5"):
        Own.make("own", {"bare": 0.5}, {})


@pytest.mark.parametrize(
    ("default", "limits", "message"),
    [
        (-1.0, {"low": 0}, "default must be a number of at least 0, got -1.0"),
        (0, {"above": 0}, "default must be a number above 0, got 0"),
        (np.inf, {"above": 0}, "default must be a finite number above 0, got inf"),
        ((1, 9), {"high": 4}, "default must be a number of at most 4, got 9"),
        ("c", {"choices": ("a", "b")}, "default must be one of 'a', 'b', got 'c'"),
        ("x", {"low": 0}, "default must be a number of at least 0, got 'x'"),
    ],
)
def test_a_default_is_within_its_limits(default, limits, message):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}$"):
        setting(default, "help", **limits)


@pytest.mark.parametrize(
    ("kind", "default", "message"),
    [
        (float, "a", "x must be a finite number, got 'a'"),
        (float, 1e300, "x must be a number that a float32 can hold, got 1e+300"),
        (int, 0.5, "x must be an integer, got 0.5"),
        (bool, 1, "x must be True or False, got 1"),
        (str, 3, "x must be a string, got 3"),
        (tuple[int, ...], (1, "a"), "each entry of x must be an integer, got 'a'"),
        (float | None, "a", "x must be a finite number, or None, got 'a'"),
        (object, len, "x must consist of numbers, strings, True, False, None, and lists and dicts of them"),
    ],
)
def test_a_default_is_of_its_kind(kind, default, message):
    Own = dataclasses.make_dataclass(  # noqa: N806
        "Own", [("x", kind, setting(default, "help"))], bases=(control.PPOSettings,), frozen=True
    )
    mine = type("Mine", (PPO,), {"settings_class": Own})
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(f'the default of {message}')}.*in Own$"):
        train(mine, env="CartPole-v1")


def test_a_default_is_converted_as_what_is_given():
    @dataclasses.dataclass(frozen=True)
    class Own(Settings):
        count: int = setting(1e3, "an integer")

    assert repr(Own.make("own", {}, {}).count) == "1000"


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("name", ["lr", "epochs", "entropy_coef", "num_threads", "total_steps", "hidden"])
def test_a_number_of_very_many_digits(name, digits, sign):
    value = int(f"{sign}1") * 10 ** (digits - 1)
    with pytest.raises(ValueError, match=rf"{name} must be .*, got an integer of about {digits - 1} digits"):
        train("ppo", env="CartPole-v1", **{name: value})


@pytest.mark.parametrize("value", [1e308, -1e39, 1e-300, np.float64(1e60)], ids=str)
@pytest.mark.parametrize("name", ["rate", "several"])
def test_a_float_must_be_one_of_float32(name, value):
    @dataclasses.dataclass(frozen=True)
    class Own(Settings):
        rate: float = setting(0.0, "no limits")
        several: tuple[float, ...] = setting((0.0,), "no limits")

    with pytest.raises(ValueError, match=rf"{name} must be a number that a float32 can hold, got "):
        Own.make("own", {name: value}, {})
    Own.make("own", {name: 1e38}, {})


@pytest.mark.parametrize(
    ("base", "fit", "wanted"),
    [
        (PPO, train, r"settings\.ControlSettings"),
        (Learner, train, r"settings\.ControlSettings"),
        (SFT, train_language, r"language\.settings\.StageSettings"),
    ],
    ids=["ppo", "control", "language"],
)
@pytest.mark.parametrize("given", [dict, {"lr": 1}, Settings], ids=str)
def test_a_settings_class_has_the_settings_of_all(base, fit, wanted, given):
    kind = type("Mine", (base,), {"settings_class": given})
    with pytest.raises(
        TypeError, match=rf"Mine\.settings_class must be a subclass of ppobook\.{wanted}, got "
    ):
        fit(kind)


def test_a_learner_without_settings_of_its_own_has_those_of_all():
    kind = type("Mine", (Learner,), {"update": lambda self, rollout: {}})
    run = train(kind, env="CartPole-v1", num_envs=2, num_steps=8, total_steps=16, progress=False)
    assert run.config["hidden"] == (64, 64)
    assert len(run.history) == 1


def test_other_libraries_names_in_python():
    """Those of arguments too; and the algorithm that has a setting is named."""
    cases = {
        (train, "ppo", "total_timesteps"): "Did you mean 'total_steps'?",
        (train, "ppo", "verbose"): "Did you mean 'progress'?",
        (train, "ppo", "save_path"): "Did you mean 'out'?",
        (train, "ppo", "log_std_init"): "Did you mean 'initial_std'? initial_std is exp(log_std_init)",
        (
            train,
            "ppo",
            "callback",
        ): "Override update, of a Learner, or step, of a Stage, in a class of your own",
        (train_language, "dpo", "ref_model"): "Did you mean 'reference'?",
        (train_language, "grpo", "max_length"): "Did you mean 'max_new_tokens'?",
        (train_language, "sft", "train_dataset"): "Did you mean 'data'?",
        (train_language, "sft", "peft_config"): "Did you mean 'lora'?",
        (train, "ppo", "policy"): "Did you mean 'hidden'?",
        (train, "ppo", "log_dir"): "Did you mean 'out' or 'tensorboard'?",
        (train, "ppo", "tot"): "Did you mean 'total_steps'?",
        (train, "ppo", "zzz"): "ppobook.settings.PPOSettings has them all",
        (train_language, "grpo", "use_vllm"): "ppobook.language.settings.GRPOSettings has them all",
        (train_language, "grpo", "report_to"): "Did you mean 'tensorboard'?",
        (train, "ppo", "Lr"): "Did you mean 'lr'?",
        (train_language, "sft", "LR"): "Did you mean 'lr'?",
        (train_language, "sft", "bf16"): "Did you mean 'dtype'?",
        (train, "vanilla", "gae_lambda"): "Only trpo, ppo have it, as 'lam'",
        (train_language, "sft", "output_dir"): "Did you mean 'out'?",
        (train_language, "dpo", "clip_eps"): "Only ppo, grpo, iterative_ppo, lagged_grpo have it",
        (
            train_language,
            "ppo",
            "num_generations",
        ): "Only grpo, online_dpo, lagged_grpo have it, as 'group_size'",
    }
    for (fit, name, given), sentence in cases.items():
        own = {"env": "CartPole-v1"} if fit is train else {}
        with pytest.raises(ValueError, match=re.escape(f"{name} has no setting {given!r}. {sentence}") + "$"):
            fit(name, **own, **{given: 1})
    with pytest.raises(ValueError, match=r"loss must be .*, got 'sigmoid'\. Did you mean 'dpo'\?$"):
        train_language("dpo", loss="sigmoid")


@pytest.mark.parametrize(
    ("function", "given", "sentence"),
    [
        (evaluate, "n_eval_episodes", "evaluate has no argument 'n_eval_episodes'. Did you mean 'episodes'?"),
        (
            evaluate_language,
            "n_eval_episodes",
            "evaluate has no argument 'n_eval_episodes'",
        ),
        (evaluate_language, "n_samples", "evaluate has no argument 'n_samples'. Did you mean 'n'?"),
        (
            functools.partial(compare_language, {"a": 1}),
            "n_samples",
            "compare has no argument 'n_samples'. Did you mean 'n'?",
        ),
        (World, "noun", "World has no argument 'noun'. Did you mean 'nouns'?"),
        (World, "elephants", "World has no argument 'elephants'"),
    ],
)
def test_unknown_arguments_of_functions(function, given, sentence):
    with pytest.raises(TypeError, match=re.escape(sentence) + "$"):
        function(**{given: 2})


@pytest.mark.parametrize("name", ["algorithm", "env", "total_steps", "seed", "out", "checkpoint_every"])
@pytest.mark.parametrize(("base", "fit"), [(PPO, train), (SFT, train_language)], ids=["control", "language"])
def test_a_setting_has_another_name_than_an_argument(base, fit, name):
    name = (
        {"algorithm": "stage", "env": "model", "total_steps": "data"}.get(name, name) if base is SFT else name
    )
    own = dataclasses.make_dataclass(
        "Own", [(name, int, setting(7, "help"))], bases=(base.settings_class,), frozen=True
    )
    kind = type("Mine", (base,), {"settings_class": own})
    with pytest.raises(ValueError, match=rf"^the settings of Own must have other names .*, got '{name}'$"):
        fit(kind)


@pytest.mark.parametrize("name", ["environment", "env_id", "envv"])
def test_a_misspelt_env_is_named(name):
    with pytest.raises(ValueError, match=rf"^ppo has no setting '{name}'\. Did you mean 'env'\?$"):
        train("ppo", total_steps=16, **{name: "CartPole-v1"})


def test_text_may_say_that_there_is_none():
    for word in ("none", "None", "null", None):
        assert control.PPOSettings.make("ppo", {"max_grad_norm": word}, {}).max_grad_norm is None


def test_a_folder_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    small = {"total_steps": 16, "num_envs": 1, "num_steps": 16, "num_minibatches": 1, "progress": False}
    train("ppo", env="CartPole-v1", out="~/run", **small)
    assert (tmp_path / "run" / "config.json").exists()
    assert load("~/run").config["env"] == "CartPole-v1"
