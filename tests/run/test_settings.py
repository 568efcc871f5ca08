"""Settings: names of other libraries, and a learner without any of its own."""

import re

import pytest

import ppobook.language.settings as language
import ppobook.settings as control
from ppobook import train, training
from ppobook.language import train as train_language
from ppobook.learner import Learner
from ppobook.run.spellings import OTHER_NAMES


def test_other_names_stand_for_names_that_there_are():
    kinds = [*control.SETTINGS.values(), *language.SETTINGS.values()]
    known = {name for kind in kinds for name in kind.__dataclass_fields__}
    known |= {name for kind in kinds for name in kind.arguments}
    known |= {"reward_model", "quiet", "episodes", "n"}  # of the command line, and of evaluate
    known |= set(training.COLUMNS)  # of a history, for --metric
    assert {name for names in OTHER_NAMES.values() for name in names} <= known


def test_a_learner_without_settings_of_its_own_has_those_of_all():
    kind = type("Mine", (Learner,), {"update": lambda self, rollout: {}})
    run = train(kind, env="CartPole-v1", num_envs=2, num_steps=8, total_steps=16, progress=False)
    assert run.config["hidden"] == (64, 64)
    assert len(run.history) == 1


def test_other_libraries_names_in_python():
    """Names of arguments too."""
    cases = {
        (train, "ppo", "total_timesteps"): "Did you mean 'total_steps'?",
        (train, "ppo", "batch_size"): "Did you mean 'num_minibatches'? num_minibatches is a count: num_envs",
        (train_language, "dpo", "ref_model"): "Did you mean 'reference'?",
        (train, "ppo", "zzz"): "ppobook.settings.PPOSettings has them all",
        (train, "ppo", "entropy_coeff"): "Did you mean 'entropy_coef'",
    }
    for (fit, name, given), sentence in cases.items():
        own = {"env": "CartPole-v1"} if fit is train else {}
        with pytest.raises(ValueError, match=re.escape(f"{name} has no setting {given!r}. {sentence}")):
            fit(name, **own, **{given: 1})
