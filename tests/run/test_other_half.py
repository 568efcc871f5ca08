"""What belongs to language models, given to functions for policies, and the other way round."""

import pytest
from engines import CONTROL, LANGUAGE

from ppobook import evaluate, language, train
from ppobook.language.sft import SFT
from ppobook.language.world import World
from ppobook.ppo import PPO

WORLD = World(nouns=2, places=2)
FOR_LANGUAGE = r"It is for ppobook\.language\.train and ppobook\.language\.evaluate$"


@pytest.fixture(scope="module")
def policy():
    """A run of a policy."""
    return CONTROL.new()


@pytest.fixture(scope="module")
def text():
    """A run of a language model."""
    return LANGUAGE.new()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda policy, text: train("grpo"), r"'ppo', got 'grpo': it is for ppobook\.language\.train$"),
        (lambda policy, text: train("kto", text), r"'ppo', got 'kto': it is for ppobook\.language\.train$"),
        (lambda policy, text: train(PPO.__new__(PPO)), "must be a class, got an object of it: pass PPO itse"),
        (lambda policy, text: train(SFT), r"got the class SFT: it is for ppobook\.language\.train$"),
        (lambda policy, text: train("ppo", text), f"^env must be .* got Run. {FOR_LANGUAGE}"),
        (lambda policy, text: train("ppo", text.model), f"^env must be .* got Decoder. {FOR_LANGUAGE}"),
        (lambda policy, text: train("ppo", WORLD), f"^env must be .* got World. {FOR_LANGUAGE}"),
        (lambda policy, text: train("ppo", data=WORLD), r"'data'\. Only ppobook\.language\.train has it$"),
        (lambda policy, text: evaluate(text, "CartPole-v1"), f"^policy must .* got Run. {FOR_LANGUAGE}"),
        (lambda policy, text: evaluate(text.model, WORLD), f"^policy must .* got Decoder. {FOR_LANGUAGE}"),
        (lambda policy, text: language.train("trpo"), r"got 'trpo': it is for ppobook\.train$"),
        (lambda policy, text: language.train(PPO), r"got the class PPO: it is for ppobook\.train$"),
        (
            lambda policy, text: language.train("ppo", env="CartPole-v1"),
            r"ppo has no setting 'env'\. Only ppobook\.train has it$",
        ),
    ],
)
def test_the_function_of_the_other_half_is_named(call, message, policy, text):
    with pytest.raises((TypeError, ValueError), match=message):
        call(policy, text)
