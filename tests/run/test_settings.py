"""Settings: names of other libraries, and the switch of the fast forms."""

import dataclasses
import re

import pytest

import ppobook.language.settings as language
import ppobook.settings as control
from ppobook import train, training
from ppobook.language import train as train_language
from ppobook.learner import Learner
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


def test_a_learner_without_settings_of_its_own_has_those_of_all():
    kind = type("Mine", (Learner,), {"update": lambda self, rollout: {}})
    run = train(kind, env="CartPole-v1", num_envs=2, num_steps=8, total_steps=16, progress=False)
    assert run.config["hidden"] == (64, 64)
    assert len(run.history) == 1


def test_other_libraries_names_in_python():
    """Names of arguments too."""
    cases = {
        (train, "ppo", "total_timesteps"): "Did you mean 'total_steps'?",
        (train, "ppo", "verbose"): "Did you mean 'progress'?",
        (train, "ppo", "batch_size"): "Did you mean 'num_minibatches'? num_minibatches is a count: num_envs",
        (train_language, "dpo", "ref_model"): "Did you mean 'reference'?",
        (train_language, "grpo", "max_length"): "Did you mean 'max_new_tokens'?",
        (train_language, "sft", "train_dataset"): "Did you mean 'data'?",
        (train, "ppo", "zzz"): "ppobook.settings.PPOSettings has them all",
        (train, "ppo", "Lr"): "Did you mean 'lr'?",
        (train, "ppo", "entropy_coeff"): "Did you mean 'entropy_coef'",
    }
    for (fit, name, given), sentence in cases.items():
        own = {"env": "CartPole-v1"} if fit is train else {}
        with pytest.raises(ValueError, match=re.escape(f"{name} has no setting {given!r}. {sentence}")):
            fit(name, **own, **{given: 1})
    with pytest.raises(ValueError, match=r"loss must be .*, got 'sigmoid'\. Did you mean 'dpo'\?$"):
        train_language("dpo", loss="sigmoid")


@pytest.mark.parametrize("name", ["env_id", "envv"])
def test_a_misspelt_env_is_named(name):
    with pytest.raises(ValueError, match=rf"^ppo has no setting '{name}'\. Did you mean 'env'\?$"):
        train("ppo", total_steps=16, **{name: "CartPole-v1"})


def test_text_may_say_that_there_is_none():
    for word in ("none", "None", "null", None):
        assert control.PPOSettings.make("ppo", {"max_grad_norm": word}, {}).max_grad_norm is None
