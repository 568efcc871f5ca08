"""Common behavior of stages that sample: prompts, completions, rewards, reference, estimates of the KL."""

import collections
import traceback

import pytest
import torch
from language_stages import WORDS, WORLD, rows_of, token_log_probs
from language_stages import decoder as any_decoder

from ppobook.language.on_policy import Sampling, default_max_new_tokens, kl_estimate
from ppobook.language.rewards import GoldReward, LearnedReward, RewardModel
from ppobook.language.settings import SamplingSettings
from ppobook.language.stage import Task
from ppobook.language.training import train

RECORDS = [
    {"prompt": "tell fox barn :", "level": 3},
    {"prompt": "the owl", "level": 5},
    {"prompt": ".", "level": 8},
]


def decoder(seed=0, **sizes):
    return any_decoder(seed=seed, ends=True, **sizes)


def stage(data=WORLD, reward=None, seed=0, model=None, **settings):
    task = Task(
        model or decoder(), WORDS, data, reward or GoldReward(WORLD), decoder(5).requires_grad_(False)
    )
    return Sampling(task, SamplingSettings.make("sampling", settings, {}), seed=seed)


def some(made, n=12):
    return made.sample(made.draw_prompts(0, n))


# --- prompts -------------------------------------------------------------------------------------------


def test_each_prompt_is_drawn_once_before_any_is_drawn_again():
    made = stage()
    assert len(made.prompts) == 4
    drawn = [tuple(row) for k in range(6) for row in made.draw_prompts(k, 6).tokens.tolist()]
    for begin in range(0, 36, 4):
        assert len(set(drawn[begin : begin + 4])) == 4
    assert set(collections.Counter(drawn).values()) == {9}
    assert len({tuple(drawn[begin : begin + 4]) for begin in range(0, 36, 4)}) > 1


# --- completions ---------------------------------------------------------------------------------------


def by_hand(model, completions, temperature):
    """log-probabilities of the completions' tokens, each row read by itself and without padding."""
    return torch.cat([token_log_probs(model, *row, temperature) for row in rows_of(completions)])


def test_how_long_a_completion_may_be():
    assert stage().max_new_tokens == WORLD.max_new_tokens == 10
    assert some(stage(max_new_tokens=3)).tokens.shape[1] == 3
    # Nobody says: what has room after the longest prompt, of 4 tokens, for all who read it.
    assert stage(RECORDS).max_new_tokens == 20 - 4
    assert default_max_new_tokens(stage(RECORDS).prompts, (decoder(context=80), None)) == 64
    short = LearnedReward(RewardModel(decoder(context=13)))
    assert stage(RECORDS, model=decoder(context=80), reward=short).max_new_tokens == 13 - 4
    for asked in (None, 6):
        with pytest.raises(
            ValueError, match="prompts must be shorter than the context, 3 tokens, got one of 4"
        ):
            stage(RECORDS, model=decoder(context=3), max_new_tokens=asked)


# --- rewards and the row of the history ----------------------------------------------------------------


@pytest.mark.parametrize("gold", [True, False])
def test_the_row_of_the_history(gold):
    made = stage(reward=None if gold else LearnedReward(RewardModel(decoder(8))))
    completions = some(made, 9)
    rewards, ref_logp = torch.arange(9.0) ** 2, made.reference_logp(completions)
    row = made.metrics(completions, rewards, ref_logp)
    lengths = [sum(one) for one in completions.mask.tolist()]
    expected = by_hand(made.model, completions, 1.0) - by_hand(made.reference, completions, 1.0)
    assert row == pytest.approx(
        {
            "tokens": sum(lengths),
            "reward": sum(k**2 for k in range(9)) / 9,
            "reward_std": (sum((k**2 - 204 / 9) ** 2 for k in range(9)) / 9) ** 0.5,
            # What the reward said is not asked for again, if it is gold.
            "gold": 204 / 9 if gold else WORLD.gold(completions).mean().item(),
            "kl_reference": expected.sum().item() / 9,
            "length": sum(lengths) / 9,
            "ended": sum(
                said[n - 1] == 1 for said, n in zip(completions.tokens.tolist(), lengths, strict=True)
            )
            / 9,
        },
        rel=1e-5,
    )
    assert isinstance(row["tokens"], int)
    elsewhere = stage(RECORDS, max_new_tokens=5)
    completions = some(elsewhere)
    row = elsewhere.metrics(completions, torch.zeros(12), elsewhere.reference_logp(completions))
    assert "gold" not in row


# --- estimates of the KL -------------------------------------------------------------------------------


def three_policies(words=6):
    """Logits of π, log-probabilities of π_ref and of π_old, all over the same words."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(3, words, generator=generator, dtype=torch.float64)
    return rows[0].requires_grad_(), rows[1].log_softmax(-1), rows[2].log_softmax(-1)


def gradient(x, logits):
    return torch.autograd.grad(x, logits)[0]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_gradients_of_the_estimates_are_on_average_what_the_table_says(estimator, weighted):
    logits, ref, old = three_policies()
    log_p = logits.log_softmax(-1)
    if not weighted:  # then samples have to be those of π
        old = log_p.detach()
    estimate = kl_estimate(estimator, log_p, ref, old if weighted else None)
    found = gradient((old.exp() * estimate).sum(), logits)

    log_p = logits.log_softmax(-1)
    forwards = (log_p.exp() * (log_p - ref)).sum()
    backwards = (ref.exp() * (ref - log_p)).sum()
    second = (log_p.exp() * (log_p - ref) ** 2 / 2).sum()
    table = {
        ("k1", True): forwards,
        ("k2", True): second,
        ("k3", True): forwards,
        ("k1", False): 0 * forwards,
        ("k2", False): forwards,
        ("k3", False): backwards,
    }
    torch.testing.assert_close(found, gradient(table[estimator, weighted], logits), rtol=1e-9, atol=1e-9)


def test_a_reward_function_is_called_close_to_the_step():
    """At most four frames below `step`: whoever debugs a reward sees where it is called."""
    depths = []

    def reward(prompts, completions):
        names = [frame.name for frame in traceback.extract_stack()][::-1]
        depths.append(names.index("step"))
        return [float(len(text)) for text in completions]

    train("grpo", decoder(), WORLD, reward=reward, updates=1, batch_size=8, group_size=4, progress=False)
    assert depths
    assert max(depths) <= 4
