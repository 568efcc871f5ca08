"""What is wrong with a reward, a tokenizer, data, and what one's own methods return."""

import copy

import numpy as np
import pytest
import torch
from small_language import same_run
from small_stages import WORLD, decoder

from ppobook.language.evaluating import evaluate
from ppobook.language.grpo import GRPO
from ppobook.language.ppo import PPO
from ppobook.language.rewards import numbers_of
from ppobook.language.run import load
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
def test_a_reward_that_fails_costs_no_update(tmp_path, stage):
    given = SAMPLED | ({"group_size": 4} if stage == "grpo" else {})
    whole = train(stage, decoder(), PROMPTS, reward=long, updates=5, **given)
    with pytest.raises(ValueError, match="got nan for completion 0") as failed:
        train(stage, decoder(), PROMPTS, reward=Fails(4), updates=5, out=tmp_path / "run", **given)
    kept = f"update 3 is saved; go on with resume={str(tmp_path / 'run')!r}, and reward 'function long' again"
    assert failed.value.__notes__ == [kept]
    assert len(load(tmp_path / "run").history) == 3
    same_run(train(resume=tmp_path / "run", data=PROMPTS, reward=long, progress=False), whole)


@pytest.mark.parametrize(
    "one", ["1.5", b"1", np.ones(1), torch.ones(1), np.complex64(1)], ids=lambda x: repr(x)[:20]
)
def test_rewards_that_are_no_numbers(one):
    with pytest.raises(TypeError, match=r"reward f must return numbers, got .* for completion 0"):
        numbers_of("f", [one] * 3, 3)


@pytest.mark.parametrize("answer", ["12345678", dict.fromkeys(range(8), 0.0), set(range(8))])
def test_rewards_in_no_order(answer):
    with pytest.raises(TypeError, match="must return a list of 8 numbers, got"):
        numbers_of("f", answer, 8)


def test_a_tokenizer_that_no_checkpoint_can_hold(tmp_path):
    class Own:
        vocab_size, pad, eos = WORLD.tokenizer.vocab_size, WORLD.tokenizer.pad, WORLD.tokenizer.eos
        encode, decode = WORLD.tokenizer.encode, WORLD.tokenizer.decode

    given = SAMPLED | {"tokenizer": Own(), "group_size": 4}
    with pytest.raises(TypeError, match=r"tokenizer must be .* which a checkpoint can hold, got Own"):
        train("grpo", decoder(), PROMPTS, reward=long, updates=1, out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("stage", "theirs", "mine"),
    [("grpo", "beta", "kl_coef"), ("grpo", "loss_type", "reduction"), ("dpo", "loss_type", "loss")],
)
def test_settings_by_their_names_in_trl(stage, theirs, mine):
    with pytest.raises(ValueError, match=rf"{stage} has no setting '{theirs}'\. Did you mean '{mine}'"):
        train(stage, decoder(), PROMPTS, tokenizer=WORLD.tokenizer, reward=long, **{theirs: 1})


ALIKE = [{"prompt": "tell fox barn :", "chosen": "fox", "rejected": "fox"}] * 3
LIKED = [{"prompt": "tell fox barn :", "completion": "fox", "label": True}] * 3


@pytest.mark.parametrize(
    ("stage", "data", "given", "message"),
    [
        ("dpo", ALIKE, {}, "data must have a pair whose 'chosen' and 'rejected' differ"),
        ("reward", ALIKE, {}, "data must have a pair whose 'chosen' and 'rejected' differ"),
        ("dpo", LIKED, {"loss": "kto"}, "data must have labels of both kinds, .* got True only"),
        (
            "dpo",
            [one | {"label": False} for one in LIKED],
            {"loss": "kto"},
            "data must have labels of both kinds, .* got False only",
        ),
    ],
)
def test_data_that_teach_nothing_are_refused(stage, data, given, message):
    with pytest.raises(ValueError, match=message):
        train(stage, decoder(), data, tokenizer=WORLD.tokenizer, progress=False, updates=1, **given)


TWELVE = [{"prompt": "tell fox barn :", "chosen": "fox", "rejected": "barn"}] * 12


@pytest.mark.parametrize("batch_size", [12, 64, 100])
def test_a_batch_that_would_repeat_examples_is_refused_and_the_default_is_reduced(batch_size):
    given = {"tokenizer": WORLD.tokenizer, "progress": False, "updates": 2}
    said = rf"at most 11, the number of examples \(1 of 12 held out for evaluation\), got {batch_size}$"
    with pytest.raises(ValueError, match=f"batch_size must be {said}"):
        train("dpo", decoder(), TWELVE, batch_size=batch_size, **given)
    run = train("dpo", decoder(), TWELVE, **given)
    assert run.config["batch_size"] == 11
    same = train("dpo", decoder(), TWELVE, batch_size=11, **given)
    clocks = ["seconds", "seconds_update"]
    assert run.history.drop(columns=clocks).equals(same.history.drop(columns=clocks))


def test_one_pair_of_which_something_is_learned_is_enough():
    data = [*ALIKE, ALIKE[0] | {"rejected": "barn"}]
    run = train("dpo", decoder(), data, tokenizer=WORLD.tokenizer, progress=False, updates=1, batch_size=4)
    assert len(run.history) == 1


def test_a_lambda_that_is_given_again_is_not_known_to_be_the_same(tmp_path, capsys):
    given = {"group_size": 2, "out": tmp_path / "run", **SAMPLED}
    train("grpo", decoder(), PROMPTS, reward=lambda completions: [1.0] * 8, updates=1, **given)
    other = {"resume": tmp_path / "run", "data": PROMPTS, "progress": False}
    assert "lambda" not in capsys.readouterr().err
    train(reward=lambda completions: [-7.0] * 8, updates=2, **other)
    assert "reward is taken to be the lambda of resume=" in capsys.readouterr().err


def test_a_column_that_no_reward_is_passed():
    def exact(completion):
        return [1.0] * len(completion)

    data = [{**row, "completion": "the fox sits"} for row in PROMPTS]
    with pytest.raises(TypeError, match="got 'completion': the column is not passed, rename it"):
        train("grpo", decoder(), data, reward=exact, updates=1, group_size=2, **SAMPLED)


def test_what_is_passed_by_a_wrong_name(tmp_path):
    with pytest.raises(TypeError, match=r"model must be .*, got a World: pass it as data"):
        train("sft", WORLD)
    (tmp_path / "exported").mkdir()
    for name in ("policy", "reference", "reward_model"):
        given = {
            "policy": decoder(),
            "data": WORLD,
            "tokenizer": WORLD.tokenizer,
            name: tmp_path / "exported",
        }
        with pytest.raises(FileNotFoundError, match=f"^{name}=.* must be the folder of a run"):
            evaluate(**given | {name: tmp_path / "exported"})


# ----------------------------------------------------------------------------- what one's own methods return

SMALL = {"model": decoder(), "data": WORLD, "reward": "gold", "batch_size": 8, "progress": False}


def loss(make):
    return type("Mine", (GRPO,), {"loss": lambda self, *given: make(*GRPO.loss(self, *given))})


def advantages(make):
    return type("Mine", (GRPO,), {"advantages": lambda self, *given: make(GRPO.advantages(self, *given))})


class OneOfTwo(PPO):
    def estimate_advantages(self, *given):
        return super().estimate_advantages(*given)[0]


class AnotherModel(GRPO):
    def step(self, number):
        metrics = super().step(number)
        self.model = copy.deepcopy(self.model)
        return metrics


def test_a_metric_may_have_a_gradient(recwarn):
    kind = loss(lambda x, row: (x, {"mine": 2 * x}))
    torch.set_warn_always(True)  # else once in a process
    try:
        history = train(kind, **SMALL | {"batch_size": 16}, updates=2).history
    finally:
        torch.set_warn_always(False)
    assert history["mine"].tolist() == (2 * history["loss"]).tolist()
    assert not recwarn.list


BAD_RETURNS = [
    ("another model", AnotherModel, ValueError, "AnotherModel.step must change the model in place, got"),
    ("nothing", loss(lambda x, row: None), TypeError, "Mine.loss must return a pair .*, got NoneType"),
    *(
        (
            f"a column of the loop, {name}",
            loss(lambda x, row, name=name: (x, {name: 7.0})),
            ValueError,
            f"Mine.loss must not return a column that the loop fills, got '{name}'",
        )
        for name in ("tokens", "grad_norm", "lr")
    ),
    ("no pair", loss(lambda x, row: x), TypeError, r"Mine.loss must .* pair \(loss, dict\), got Tensor"),
    ("no tensor", loss(lambda x, row: (1.0, row)), TypeError, "loss returned by Mine.loss .* got 1.0"),
    (
        "not scalar",
        loss(lambda x, row: (x.repeat(2), row)),
        TypeError,
        r"must be a scalar tensor .*\(2,",
    ),
    ("nan", loss(lambda x, row: (x * np.nan, row)), FloatingPointError, "Mine.loss must be finite, got nan"),
    ("vector", loss(lambda x, row: (x, {"a": torch.ones(2)})), TypeError, "'a' returned by Mine.loss must"),
    ("more rows", advantages(lambda x: x.repeat(2, 1)), ValueError, "Mine.advantages must have shape"),
    ("fewer rows", advantages(lambda x: x[:-1]), ValueError, "Mine.advantages must have shape"),
    ("more tokens", advantages(lambda x: x.repeat(1, 2)), ValueError, "completions by tokens, got"),
    (
        "nan advantages",
        advantages(lambda x: x * np.nan),
        ValueError,
        "Mine.advantages must be finite",
    ),
    ("no advantages", advantages(lambda x: None), TypeError, "Mine.advantages must be a torch tensor"),
    (
        "one of two",
        OneOfTwo,
        TypeError,
        r"OneOfTwo.estimate_advantages must .*, returns\), got Tensor",
    ),
]


@pytest.mark.parametrize(
    ("stage", "error", "message"), [x[1:] for x in BAD_RETURNS], ids=[x[0] for x in BAD_RETURNS]
)
def test_what_ones_own_methods_return_is_validated(stage, error, message):
    sizes = {} if issubclass(stage, PPO) else {"group_size": 2}
    with pytest.raises(error, match=message):
        train(stage, updates=1, epochs=1, **sizes, **SMALL)


def test_metrics_of_some_minibatches():
    calls = []

    def sometimes(x, row):
        calls.append(0)
        return x, {**row, ("odd", "even")[len(calls) % 2 == 0]: float(len(calls))}

    history = train(loss(sometimes), updates=2, epochs=2, num_minibatches=2, group_size=2, **SMALL).history
    assert history["odd"].tolist() == [2.0, 6.0]
    assert history["even"].tolist() == [3.0, 7.0]
