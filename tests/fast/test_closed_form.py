"""The gradients in closed form are those of autograd on the plain forms."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook.batches import Batch
from ppobook.fast import FastPPO
from ppobook.fast.adam import flatten
from ppobook.fast.closed_form import DIAGNOSTICS, ClosedForm, ClosedFormValue
from ppobook.objectives import ppo_loss, value_loss
from ppobook.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    RunningNorm,
    ValueFunction,
    actor_critic_for,
)
from ppobook.ppo import PPO
from ppobook.settings import PPOSettings

BOX = spaces.Box(np.array([-2, -1], np.float32), np.array([2, 3], np.float32))
UNBOUNDED = spaces.Box(-np.inf, np.inf, (3,))


@st.composite
def problems(draw):
    """Networks of any shape in any state, a batch that they have moved away from, and coefficients."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    obs_dim = draw(st.integers(1, 5))
    actions = draw(st.sampled_from([spaces.Discrete(2), spaces.Discrete(5), BOX, UNBOUNDED]))
    hidden = draw(st.sampled_from([(), (7,), (8, 5), (4, 6, 3)]))
    normalizer = None
    if draw(st.booleans()):
        normalizer = RunningNorm((obs_dim,))
        normalizer.update(torch.randn(20, obs_dim, generator=generator) * 3 + 1)
    policy, value = actor_critic_for(
        spaces.Box(-np.inf, np.inf, (obs_dim,)),
        actions,
        hidden,
        activation=draw(st.sampled_from(["tanh", "relu"])),
        normalizer=normalizer,
        initial_std=0.7,
        seed=generator,
    )
    weights = flatten([*policy.parameters(), *value.parameters()])
    with torch.no_grad():
        weights += 0.3 * torch.randn(weights.shape, generator=generator)
    size = draw(st.integers(1, 40))
    observations = torch.randn(size, obs_dim, generator=generator)
    taken, logp = policy.sample(observations, generator)
    draws = torch.randn(4, size, generator=generator)
    advantages = torch.where(draws[1].abs() < 0.1, 0.0, draws[1])  # some of them exactly 0
    with torch.no_grad():
        old_values = value(observations) + 0.3 * draws[2]
    batch = Batch(observations, taken, logp + 0.3 * draws[0], advantages, draws[3], old_values)
    coefficients = {
        "clip_eps": draw(st.floats(0.05, 0.4)),
        "clip_eps_high": draw(st.floats(0.05, 0.6)),
        "value_coef": draw(st.floats(0, 2)),
        "entropy_coef": draw(st.floats(0, 1)),
        "value_clip_eps": draw(st.sampled_from([None, 0.2])),
    }
    return policy, value, weights, batch, coefficients


@given(problems())
@settings(max_examples=300)
def test_gradient_and_diagnostics_are_those_of_the_plain_form(problem):
    policy, value, weights, batch, coefficients = problem
    assert ClosedForm.fits(policy, value)
    found = ClosedForm(policy, value).gradient(batch, **coefficients)
    gradient = weights.grad.clone()

    weights.grad.zero_()
    now = policy.distribution(batch.observations)
    loss, diagnostics = ppo_loss(
        now.logp(batch.actions),
        batch.old_logp,
        batch.advantages,
        value(batch.observations),
        batch.returns,
        now.entropy(),
        old_values=batch.old_values,
        **coefficients,
    )
    loss.backward()
    scale = float(weights.grad.abs().max())
    torch.testing.assert_close(gradient, weights.grad, rtol=1e-4, atol=2e-6 + 1e-5 * scale)
    assert found.keys() == diagnostics.keys() == set(DIAGNOSTICS)
    for name, number in diagnostics.items():
        # The standard deviation comes from a difference of two sums, which float32 rounds to seven digits.
        digits = 5e-4 if name == "ratio_std" else 3e-5
        assert found[name] == pytest.approx(float(number), rel=1e-4, abs=digits), name


def test_it_fits_the_librarys_own_networks_only():
    def networks(**kind):
        return kind.pop("policy", None) or CategoricalPolicy(3, 2, (4,), **kind), ValueFunction(3, (4,))

    assert ClosedForm.fits(*networks())
    assert ClosedForm.fits(*networks(activation="relu"))
    assert ClosedForm.fits(*networks(policy=GaussianPolicy(3, 2, (4,))))
    assert not ClosedForm.fits(*(part.double() for part in networks()))
    frozen = networks()
    frozen[0].network.layers[0].weight.requires_grad_(False)
    assert not ClosedForm.fits(*frozen)

    class Other(CategoricalPolicy):
        """It may compute something else."""

    assert not ClosedForm.fits(*networks(policy=Other(3, 2, (4,))))
    own = CategoricalPolicy(3, 2, network=torch.nn.Linear(3, 2))
    assert not ClosedForm.fits(*networks(policy=own))
    box, three = spaces.Box(-1, 1, (3,)), spaces.Discrete(3)
    assert not ClosedForm.fits(*actor_critic_for(box, three, (4,), shared=True))
    assert not ClosedForm.fits(*actor_critic_for(box, spaces.MultiDiscrete([2, 3]), (4,)))


@given(problems())
@settings(max_examples=100)
def test_the_critics_gradient_and_loss_are_those_of_the_plain_form(problem):
    _, value, weights, batch, _ = problem
    assert ClosedFormValue.fits(value)
    weights.grad.fill_(123.0)  # what was there before must not matter
    found = ClosedFormValue(value).gradient(batch)
    gradient = [p.grad.clone() for p in value.parameters()]
    weights.grad.zero_()
    loss = value_loss(value(batch.observations), batch.returns)
    loss.backward()
    assert found == pytest.approx(loss.item(), rel=1e-4, abs=1e-6)
    for mine, p in zip(gradient, value.parameters(), strict=True):
        torch.testing.assert_close(
            mine, p.grad, rtol=1e-4, atol=2e-6 + 1e-5 * float(weights.grad.abs().max())
        )


def steps(kind, size, advantages, shift, **given):
    """The gradient and the metrics of one step on a batch whose log-ratios are about `shift`."""
    more = {"hidden": (6,), "max_grad_norm": None, **given}
    space = spaces.Box(-np.inf, np.inf, (3,))
    one = kind(space, spaces.Discrete(3), PPOSettings(**more), seed=1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, 3, generator=generator)
    actions, logp = one.policy.sample(x, generator)
    signs = torch.where(torch.rand(size, generator=generator) < 0.5, -1.0, 1.0)
    draws = torch.randn(2, size, generator=generator)
    psi = signs.abs() * advantages if shift > 0 else signs * advantages
    metrics = one.gradient_step(Batch(x, actions, logp - shift, psi, *draws))
    parameters = [*one.policy.parameters(), *one.value.parameters()]
    return torch.cat([p.grad.reshape(-1) for p in parameters]), metrics


@pytest.mark.parametrize("shift", [-100.0, 0.0, 100.0])
@pytest.mark.parametrize("advantages", [0.0, 1e-8, 1.0, 1e6])
@pytest.mark.parametrize("size", [1, 12])
def test_a_step_of_fast_ppo_is_that_of_ppo_at_extremes_too(size, advantages, shift):
    """A ratio that overflows has no gradient where the advantage is positive. (Else the loss is infinite.)"""
    fast, measured = steps(FastPPO, size, advantages, shift)
    plain, expected = steps(PPO, size, advantages, shift)
    assert plain.isfinite().all()
    scale = float(plain.abs().max())
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-6 * scale)
    assert measured.keys() == expected.keys()
    for name, number in expected.items():
        assert measured[name] == pytest.approx(float(number), rel=1e-4, abs=5e-4, nan_ok=True), name


def test_a_ratio_that_overflows_with_a_negative_advantage_is_infinite_in_both():
    for kind in (FastPPO, PPO):
        gradient, metrics = steps(kind, 12, -1.0, 100.0)
        assert not gradient.isfinite().all()
        assert float(metrics["policy_loss"]) == np.inf
