"""Distributions: against torch's own, gradients by finite differences, noise in any portions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from some_policies import seeded

from ppobook.divergences import kl_categorical, kl_gaussian
from ppobook.policies import Categorical, Gaussian, MultiCategorical

LEADS = [(), (1,), (5,), (2, 3)]


def theirs(name, numbers):
    """torch's own distribution over the same actions, and a second way to the KL."""
    if name == "categorical":
        return torch.distributions.Categorical(logits=numbers)
    if name == "gaussian":
        return torch.distributions.Independent(torch.distributions.Normal(*numbers), 1)
    return [torch.distributions.Categorical(logits=part) for part in numbers.split((3, 1, 4), dim=-1)]


def numbers_for(name, lead, seed, scale):
    generator = seeded(seed)
    if name == "gaussian":
        mean, log_std = scale * torch.randn(2, *lead, 3, generator=generator, dtype=torch.float64)
        return mean, (log_std / 3).exp()
    return scale * torch.randn(*lead, 4 if name == "categorical" else 8, generator=generator).double()


def ours(name, numbers):
    if name == "categorical":
        return Categorical(numbers)
    return Gaussian(*numbers) if name == "gaussian" else MultiCategorical(numbers, (3, 1, 4))


@settings(max_examples=200)
@given(
    st.sampled_from(["categorical", "gaussian", "several"]),
    st.sampled_from(LEADS),
    st.integers(0, 10**6),
    st.sampled_from([0.01, 1.0, 5.0]),
)
def test_distributions_are_torchs(name, lead, seed, scale):
    here, there = numbers_for(name, lead, seed, scale), numbers_for(name, lead, seed + 1, scale)
    p, q, their_p, their_q = ours(name, here), ours(name, there), theirs(name, here), theirs(name, there)
    actions = p.sample(seeded(seed))
    if name == "several":
        each = list(zip(their_p, their_q, strict=True))
        logp = sum(part.log_prob(actions[..., k]) for k, part in enumerate(their_p))
        entropy = sum(part.entropy() for part in their_p)
        kl = sum(torch.distributions.kl_divergence(a, b) for a, b in each)
    else:
        logp, entropy = their_p.log_prob(actions), their_p.entropy()
        kl = torch.distributions.kl_divergence(their_p, their_q)
    for found, expected in ((p.logp(actions), logp), (p.entropy(), entropy), (p.kl(q), kl)):
        assert found.shape == lead
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(p.kl(p), torch.zeros(lead, dtype=torch.float64), rtol=0, atol=1e-12)
    if name == "categorical":
        torch.testing.assert_close(p.kl(q), kl_categorical(here, there), rtol=1e-9, atol=1e-9)
        assert torch.equal(p.mode(), here.argmax(-1))
    elif name == "gaussian":
        torch.testing.assert_close(p.kl(q), kl_gaussian(*here, *there), rtol=1e-9, atol=1e-9)
        assert torch.equal(p.mode(), here[0])
    else:
        assert p.mode().tolist() == torch.stack([part.probs.argmax(-1) for part in their_p], -1).tolist()


def slow_masked(logits, allowed):
    """The probabilities of the allowed actions; the others have no entry."""
    weights = {a: np.exp(logits[a] - max(logits[list(allowed)])) for a in allowed}
    return {a: weight / sum(weights.values()) for a, weight in weights.items()}


@pytest.mark.parametrize("several", [False, True])
def test_masked_actions_are_as_if_they_did_not_exist(several):
    here, there = (numbers_for("categorical", (), seed, 1.0) for seed in (1, 2))
    few, more = (0, 2), (0, 2, 3)

    def masked(logits, allowed):
        kept = torch.isin(torch.arange(4), torch.tensor(allowed))
        given = logits.where(kept, -torch.inf).requires_grad_()
        return given, MultiCategorical(given, (4,)) if several else Categorical(given)

    (x, p), (y, q) = masked(here, few), masked(there, more)
    slow_p, slow_q = slow_masked(here.numpy(), few), slow_masked(there.numpy(), more)
    entropy = -sum(w * np.log(w) for w in slow_p.values())
    kl = sum(w * np.log(w / slow_q[a]) for a, w in slow_p.items())
    assert p.entropy().item() == pytest.approx(entropy, rel=1e-12)
    assert p.kl(q).item() == pytest.approx(kl, rel=1e-12)
    assert p.kl(p).item() == 0
    assert q.kl(p).item() == np.inf  # an action that p does not have
    action = torch.tensor([2]) if several else torch.tensor(2)
    assert p.logp(action).item() == pytest.approx(np.log(slow_p[2]), rel=1e-12)
    assert {int(p.sample(seeded(seed))) for seed in range(50)} == set(few)
    assert int(p.mode()) in few
    (p.entropy() + p.kl(q) + p.logp(action)).sum().backward(retain_graph=True)

    # The same by central differences, over the allowed logits only.
    def total(z):
        w = slow_masked(z, few)
        of_q = sum(u * np.log(u / slow_q[a]) for a, u in w.items())
        return of_q - sum(u * np.log(u) for u in w.values()) + np.log(w[2])

    steps = 1e-6 * np.eye(4)
    slopes = [(total(here.numpy() + h) - total(here.numpy() - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(x.grad.numpy(), slopes, atol=1e-8)
    assert torch.isfinite(y.grad).all()
    curved = torch.autograd.grad(p.detach().kl(p), x, create_graph=True)[0]
    assert torch.isfinite(torch.autograd.grad(curved[0], x)[0]).all()  # as TRPO needs it


@pytest.mark.parametrize("name", ["categorical", "gaussian", "several"])
def test_gradients_of_logp_entropy_and_kl(name):
    here, there = (numbers_for(name, (3,), seed, 1.0) for seed in (1, 2))
    other = ours(name, there)
    actions = ours(name, here).sample(seeded())
    inputs = tuple(x.clone().requires_grad_() for x in (here if name == "gaussian" else (here,)))

    def of(*given):
        p = ours(name, given if name == "gaussian" else given[0])
        return p.logp(actions), p.entropy(), p.kl(other), other.kl(p)

    assert torch.autograd.gradcheck(of, inputs)
    p = ours(name, inputs if name == "gaussian" else inputs[0])
    assert p.kl(other).requires_grad
    assert not p.detach().kl(other).requires_grad
    assert not p.sample().requires_grad
    assert not p.mode().requires_grad
