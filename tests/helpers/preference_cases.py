"""Losses on preferences as sums written out in fifty digits, which neither overflow nor round."""

from decimal import Decimal, localcontext
from functools import partial

import numpy as np
import torch
from hypothesis import strategies as st

f64 = partial(torch.tensor, dtype=torch.float64)


def exactly(slow):
    """Called with floats, computed in fifty digits, returned as floats."""

    def called(*args, **kwargs):
        with localcontext() as context:
            context.prec = 50
            found = slow(*args, **kwargs)
            return {k: float(x) for k, x in found.items()} if isinstance(found, dict) else float(found)

    return called


def sigma(x):
    return 1 / (1 + (-x).exp())


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers) if numbers else Decimal("nan")


def sides(chosen_rewards, rejected_rewards, chosen, rejected):
    margins = [w - v for w, v in zip(chosen_rewards, rejected_rewards, strict=True)]
    return {
        "chosen_reward": mean(chosen_rewards),
        "rejected_reward": mean(rejected_rewards),
        "margin": mean(margins),
        "accuracy": Decimal(sum(2 if m > 0 else 1 if m == 0 else 0 for m in margins)) / (2 * len(margins)),
        "chosen_logp": mean(chosen),
        "rejected_logp": mean(rejected),
    }


@exactly
def slow_bradley_terry(chosen, rejected, margins):
    """The choice as it is drawn: e^r of the one against e^r of both."""
    losses = []
    for w, v, m in zip(*(map(Decimal, x) for x in (chosen, rejected, margins)), strict=True):
        one, other = (w - m).exp(), v.exp()
        losses.append(-(one / (one + other)).ln())
    return mean(losses)


@exactly
def slow_dpo(chosen, rejected, ref_chosen, ref_rejected, beta, smoothing):
    beta, smoothing = Decimal(beta), Decimal(smoothing)
    rewards = [], []
    losses = []
    for w, v, rw, rv in zip(
        *(map(Decimal, x) for x in (chosen, rejected, ref_chosen, ref_rejected)), strict=True
    ):
        one, other = ((w - rw) * beta).exp(), ((v - rv) * beta).exp()  # (π / π_ref)^β
        right, wrong = one / (one + other), other / (one + other)
        losses.append(-(1 - smoothing) * right.ln() - smoothing * wrong.ln())
        rewards[0].append(beta * (w - rw))
        rewards[1].append(beta * (v - rv))
    found = sides(*rewards, [Decimal(x) for x in chosen], [Decimal(x) for x in rejected])
    return found | {"loss": mean(losses)}


@exactly
def slow_ipo(chosen, rejected, ref_chosen, ref_rejected, beta):
    beta = Decimal(beta)
    w, v, rw, rv = ([Decimal(x) for x in xs] for xs in (chosen, rejected, ref_chosen, ref_rejected))
    # The square of equation 17, multiplied out: h² − h / β + 1 / (4 β²).
    h = [a - c - (b - d) for a, b, c, d in zip(w, v, rw, rv, strict=True)]
    found = sides(
        [beta * (a - c) for a, c in zip(w, rw, strict=True)],
        [beta * (b - d) for b, d in zip(v, rv, strict=True)],
        w,
        v,
    )
    return found | {"loss": mean(x * x - x / beta + 1 / (4 * beta * beta) for x in h)}


@exactly
def slow_simpo(chosen, rejected, chosen_lengths, rejected_lengths, beta, gamma):
    beta, gamma = Decimal(beta), Decimal(gamma)
    w = [beta * Decimal(x) / int(n) for x, n in zip(chosen, chosen_lengths, strict=True)]
    v = [beta * Decimal(x) / int(n) for x, n in zip(rejected, rejected_lengths, strict=True)]
    losses = [-sigma(a - b - gamma).ln() for a, b in zip(w, v, strict=True)]
    found = sides(w, v, [Decimal(x) for x in chosen], [Decimal(x) for x in rejected])
    return found | {"loss": mean(losses)}


@exactly
def slow_kto(logp, ref_logp, desirable, kl, beta, weights):
    beta, (good_weight, bad_weight) = Decimal(beta), map(Decimal, weights)
    z = max(Decimal(0), mean(map(Decimal, kl)))
    losses, right = [], 0
    rewards, logps = {True: [], False: []}, {True: [], False: []}
    for p, q, liked in zip(logp, ref_logp, desirable, strict=True):
        ratio = Decimal(p) - Decimal(q)
        if liked:
            losses.append(good_weight * (1 - sigma(beta * (ratio - z))))
        else:
            losses.append(bad_weight * (1 - sigma(beta * (z - ratio))))
        right += 1 if ratio == z else 2 * ((ratio > z) == liked)
        rewards[liked].append(beta * ratio)
        logps[liked].append(Decimal(p))
    return {
        "loss": mean(losses),
        "chosen_reward": mean(rewards[True]),
        "rejected_reward": mean(rewards[False]),
        "margin": mean(rewards[True]) - mean(rewards[False]),
        "accuracy": Decimal(right) / (2 * len(losses)),
        "chosen_logp": mean(logps[True]),
        "rejected_logp": mean(logps[False]),
        "kl": z,
    }


def agree(found, expected, rtol=1e-9, atol=1e-9):
    """A loss, or a loss with its diagnostics, against numbers of the same names."""
    if isinstance(found, tuple):
        loss, diagnostics = found
        assert "loss" not in diagnostics
        found = diagnostics | {"loss": loss}
        assert set(found) == set(expected)
        for name in found:
            agree(found[name], expected[name], rtol, atol)
        return
    assert found.shape == ()
    np.testing.assert_allclose(found.item(), expected, rtol=rtol, atol=atol)


seeds = st.integers(0, 2**32 - 1)
numbers = st.integers(1, 7)
scales = st.sampled_from([0.0, 0.1, 3.0, 300.0])
betas = st.floats(0.01, 5)


def pairs(seed, n, scale):
    """Log-probabilities of n pairs under a policy, and under a reference that is `scale` away."""
    rng = np.random.default_rng(seed)
    reference = -rng.exponential(30.0, size=(2, n))
    policy = reference + scale * rng.normal(size=(2, n))
    return [*policy.tolist(), *reference.tolist()]
