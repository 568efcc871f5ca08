"""Errors about a reward, a tokenizer, data, and what a user's own methods return."""

import pytest
from small_language import same_run
from small_stages import WORLD, decoder

from ppobook.language.grpo import GRPO
from ppobook.language.training import train

PROMPTS = [{"prompt": "tell fox barn :"}, {"prompt": "tell owl hill :"}]
SAMPLED = {"tokenizer": WORLD.tokenizer, "max_new_tokens": 5, "batch_size": 8, "progress": False}


def long(prompts, completions):
    return [float(len(text)) for text in completions]


class Fails:
    """A reward that is not a number, once."""

    __name__ = "long"

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, prompts, completions):
        self.calls += 1
        rewards = long(prompts, completions)
        return rewards if self.calls != self.at else [float("nan"), *rewards[1:]]


@pytest.mark.parametrize("stage", ["ppo", "grpo", "online_dpo"])
def test_a_run_whose_reward_failed_goes_on_to_the_same_end(tmp_path, stage):
    given = SAMPLED | ({"group_size": 4} if stage == "grpo" else {})
    whole = train(stage, decoder(), PROMPTS, reward=long, updates=5, **given)
    with pytest.raises(ValueError, match="got nan for completion 0") as failed:
        train(stage, decoder(), PROMPTS, reward=Fails(4), updates=5, out=tmp_path / "run", **given)
    assert "go on with resume=" in failed.value.__notes__[0]
    same_run(train(resume=tmp_path / "run", data=PROMPTS, reward=long, progress=False), whole)


@pytest.mark.parametrize(
    ("stage", "theirs", "mine"),
    [("grpo", "beta", "kl_coef"), ("grpo", "loss_type", "reduction"), ("dpo", "loss_type", "loss")],
)
def test_settings_by_their_names_in_trl(stage, theirs, mine):
    with pytest.raises(ValueError, match=rf"{stage} has no setting '{theirs}'\. Did you mean '{mine}'"):
        train(stage, decoder(), PROMPTS, tokenizer=WORLD.tokenizer, reward=long, **{theirs: 1})


ALIKE = [{"prompt": "tell fox barn :", "chosen": "fox", "rejected": "fox"}] * 3


@pytest.mark.parametrize(
    ("stage", "data", "given", "message"),
    [
        ("dpo", ALIKE, {}, "data must have a pair whose 'chosen' and 'rejected' differ"),
        ("reward", ALIKE, {}, "data must have a pair whose 'chosen' and 'rejected' differ"),
    ],
)
def test_data_that_teach_nothing_are_refused(stage, data, given, message):
    with pytest.raises(ValueError, match=message):
        train(stage, decoder(), data, tokenizer=WORLD.tokenizer, progress=False, updates=1, **given)


TWELVE = [{"prompt": "tell fox barn :", "chosen": "fox", "rejected": "barn"}] * 12


def test_no_batch_repeats_examples():
    given = {"tokenizer": WORLD.tokenizer, "progress": False, "updates": 2}
    run = train("dpo", decoder(), TWELVE, **given)
    assert run.config["batch_size"] == 11  # one of 12 is held out
    same_run(run, train("dpo", decoder(), TWELVE, batch_size=11, **given))


# ----------------------------------------------------------------------------- what one's own methods return

SMALL = {"model": decoder(), "data": WORLD, "reward": "gold", "batch_size": 8, "progress": False}


def loss(make):
    return type("Mine", (GRPO,), {"loss": lambda self, *given: make(*GRPO.loss(self, *given))})


def test_a_loss_that_is_not_finite():
    with pytest.raises(FloatingPointError, match="loss must be finite, got nan"):
        train(loss(lambda x, row: (x * float("nan"), row)), updates=1, epochs=1, group_size=2, **SMALL)
