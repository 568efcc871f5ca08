"""Evaluation and best of n, against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from language_stages import completions_of
from torch import Tensor

from ppobook.language.best_of_n import best_of_n_curve, best_of_n_kl, best_of_n_kl_exact
from ppobook.language.evaluating import distinct, evaluate, sequence_kl
from ppobook.language.model import Decoder, DecoderConfig
from ppobook.language.rewards import RewardModel
from ppobook.language.tokens import Completions, completion_logits
from ppobook.language.world import World

WORLD = World(nouns=2, places=2)


def decoder(seed: int, vocab_size: int = 3, context: int = 8, scale: float = 20.0) -> Decoder:
    """A small model whose distributions are far from flat."""
    model = Decoder(
        DecoderConfig(vocab_size=vocab_size, context=context, layers=1, width=8, heads=2, eos=1, pad=0),
        seed=seed,
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(scale)
    return model


def logp(model: Decoder, completions: Completions) -> Tensor:
    logits = completion_logits(model, completions).log_softmax(-1)
    each = logits.gather(-1, completions.tokens[..., None]).squeeze(-1)
    return torch.where(completions.mask, each, 0.0).sum(1)


# ------------------------------------------------------------------------------------------------ the KL


def test_the_kl_of_steps_averages_to_the_kl_of_whole_completions() -> None:
    mine, other = decoder(0), decoder(1)
    # Every completion of at most four tokens out of 0, 1 (the end) and 2.
    heads = [list(head) for n in range(4) for head in itertools.product((0, 2), repeat=n)]
    every = completions_of(
        [[*head, last] for head in heads for last in ((1,) if len(head) < 3 else (0, 1, 2))]
    )
    p, q = logp(mine, every).exp(), logp(other, every).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-9)
    whole = (p * (p / q).log()).sum().item()
    assert whole > 0.05
    assert (p * sequence_kl(mine, other, every)).sum().item() == pytest.approx(whole, abs=1e-6)


def test_the_kl_to_itself_is_zero_and_padding_has_none() -> None:
    model, other = decoder(0), decoder(1)
    short, long = completions_of([[2, 1]]), completions_of([[2, 1], [2, 2, 2, 2]])
    assert sequence_kl(model, model, long).abs().max().item() < 1e-9
    torch.testing.assert_close(sequence_kl(model, other, short)[0], sequence_kl(model, other, long)[0])


# --------------------------------------------------------------------------------------------- best of n


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.floats(0.05, 1), min_size=4, max_size=4),
    st.integers(1, 4),
)
def test_the_exact_kl_is_that_of_all_ways_to_draw(rewards: list[int], raw: list[float], n: int) -> None:
    p = np.array(raw[: len(rewards)])
    p /= p.sum()
    best = np.zeros(len(p))
    for drawn in itertools.product(range(len(p)), repeat=n):
        top = [i for i in drawn if rewards[i] == max(rewards[j] for j in drawn)]
        for i in top:  # of equals, any is kept
            best[i] += p[list(drawn)].prod() / len(top)
    some = best > 0
    brute = (best[some] * np.log(best[some] / p[some])).sum()
    exact = best_of_n_kl_exact(p, rewards, n)
    assert exact == pytest.approx(brute, abs=1e-9)
    assert exact <= best_of_n_kl(n) + 1e-9


def test_without_ties_it_comes_to_the_formula() -> None:
    n, many = 8, 20_000
    exact = best_of_n_kl_exact(np.full(many, 1 / many), np.arange(many), n)
    assert exact == pytest.approx(math.log(8) - 7 / 8, abs=1e-3)
    assert best_of_n_kl(1) == 0


def test_a_curve_is_the_mean_over_all_ways_to_take_n() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (3, 6)).astype(float)  # with ties
    gold = rng.normal(size=(3, 6))
    curve = best_of_n_curve(scores, [1, 2, 3, 6], {"gold": gold}).set_index("n")
    for n in (1, 2, 3, 6):
        for name, x in (("score", scores), ("gold", gold)):
            means = []
            for row, value in zip(scores, x, strict=True):
                for some in itertools.combinations(range(6), n):
                    top = [i for i in some if row[i] == row[list(some)].max()]
                    means.append(value[top].mean())
            # Of equals among the drawn any is kept; on average over draws that is the mean of all equals.
            assert curve.loc[n, name] == pytest.approx(np.mean(means), abs=1e-9), (n, name)
    assert (curve["kl"] <= curve["kl_bound"] + 1e-9).all()


# -------------------------------------------------------------------------------------------- evaluation


def test_an_evaluation_measures_what_it_says() -> None:
    tokenizer = WORLD.tokenizer
    model = decoder(0, tokenizer.vocab_size, 32, scale=1.0).float()
    other = decoder(1, tokenizer.vocab_size, 32, scale=1.0).float()
    reward_model = RewardModel(other)
    with torch.no_grad():
        reward_model.output.weight.normal_(generator=torch.Generator().manual_seed(0))
    found = evaluate(model, WORLD, reward_model=reward_model, reference=other, n=30, seed=3)
    completions = found.completions
    assert len(found.texts) == len(found.prompts) == 30
    assert found.numbers["gold"] == pytest.approx(WORLD.gold(completions).mean().item())
    assert found.numbers["reward"] == pytest.approx(reward_model.rewards(completions).mean().item(), abs=1e-5)
    assert found.numbers["length"] == pytest.approx(completions.lengths.float().mean().item())
    assert found.numbers["kl_reference"] == pytest.approx(
        sequence_kl(model, other, completions).mean().item(), abs=1e-4
    )
    again = evaluate(model, WORLD, reward_model=reward_model, reference=other, n=30, seed=3)
    assert again.numbers == found.numbers
    assert again.texts == found.texts
    assert evaluate(model, WORLD, n=30, seed=4).texts != found.texts
    lines = found.samples(3).splitlines()
    assert len(lines) == 3
    assert len({line.split(" :")[0] for line in lines}) == 3  # three prompts
    assert f"gold {float(found.gold[0]):.2f}" in lines[0]


def test_a_reward_function_judges_with_the_columns_of_the_data() -> None:
    policy = decoder(0, WORLD.tokenizer.vocab_size, context=40)
    data = [{"prompt": "tell fox barn :", "level": 3}, {"prompt": "the owl", "level": 5}]

    def level(prompts: list[str], completions: list[str], level: list[int]) -> list[float]:
        return [10 * x + len(p.split()) for x, p in zip(level, prompts, strict=True)]

    found = evaluate(policy, data, reward_model=level, n=5, tokenizer=WORLD.tokenizer)
    assert found.reward is not None
    assert found.reward.tolist() == [34, 52, 34, 52, 34]
    assert found.numbers["reward"] == pytest.approx(206 / 5)


def test_distinct_counts_runs_of_tokens() -> None:
    both = completions_of([[2, 0, 2, 0, 1], [2, 1]])
    # Runs of two: 20 02 20 01 and 21; words: 2 0 2 0 1 2 1.
    assert distinct(both, 1) == pytest.approx(3 / 7)
    assert distinct(both, 2) == pytest.approx(4 / 5)
    assert math.isnan(distinct(completions_of([[1]]), 2))
