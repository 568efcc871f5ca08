"""The gradients in closed form are those of autograd on the plain forms."""

import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from ppobook import train
from ppobook.batches import Batch
from ppobook.fast.adam import flatten
from ppobook.fast.closed_form import DIAGNOSTICS, ClosedForm, ClosedFormValue, clip_gradient
from ppobook.fast.declare import fast_form
from ppobook.objectives import ppo_loss, value_loss
from ppobook.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    RunningNorm,
    ValueFunction,
    actor_critic_for,
)
from ppobook.ppo import PPO

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
@settings(max_examples=300, deadline=None)
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


def test_a_second_batch_of_another_size_does_not_see_the_first():
    policy = CategoricalPolicy(3, 2, (5,))
    value = ValueFunction(3, (5,))
    weights = flatten([*policy.parameters(), *value.parameters()])
    form = ClosedForm(policy, value)
    coefficients = {
        "clip_eps": 0.2,
        "clip_eps_high": 0.2,
        "value_coef": 0.5,
        "entropy_coef": 0.01,
        "value_clip_eps": None,
    }
    generator = torch.Generator().manual_seed(0)

    def batch(size: int) -> Batch:
        x = torch.randn(size, 3, generator=generator)
        actions, logp = policy.sample(x, generator)
        return Batch(x, actions, logp, *torch.randn(3, size, generator=generator))

    first, second = batch(16), batch(7)
    form.gradient(first, **coefficients)
    before = weights.grad.clone()
    form.gradient(second, **coefficients)
    form.gradient(first, **coefficients)
    assert torch.equal(weights.grad, before)


def test_it_fits_the_librarys_own_networks_only():
    def networks(**kind):
        return kind.pop("policy", None) or CategoricalPolicy(3, 2, (4,), **kind), ValueFunction(3, (4,))

    assert ClosedForm.fits(*networks())
    assert ClosedForm.fits(*networks(activation="relu"))
    assert ClosedForm.fits(*networks(policy=GaussianPolicy(3, 2, (4,))))
    assert not ClosedForm.fits(*networks(activation="gelu"))
    assert not ClosedForm.fits(*(part.double() for part in networks()))
    frozen = networks()
    frozen[0].network.layers[0].weight.requires_grad_(False)
    assert not ClosedForm.fits(*frozen)

    class Other(CategoricalPolicy):
        """A subclass has to declare the form again."""

    assert not ClosedForm.fits(*networks(policy=Other(3, 2, (4,))))
    fast_form("categorical")(Other)
    assert ClosedForm.fits(*networks(policy=Other(3, 2, (4,))))
    own = CategoricalPolicy(3, 2, network=torch.nn.Linear(3, 2))
    assert not ClosedForm.fits(*networks(policy=own))
    box, three = spaces.Box(-1, 1, (3,)), spaces.Discrete(3)
    assert not ClosedForm.fits(*actor_critic_for(box, three, (4,), shared=True))
    assert not ClosedForm.fits(*actor_critic_for(box, spaces.MultiDiscrete([2, 3]), (4,)))


@given(problems())
@settings(max_examples=100, deadline=None)
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


@given(scale=st.floats(1e-3, 1e3), max_norm=st.floats(1e-2, 1e2) | st.none())
@settings(max_examples=200, deadline=None)
def test_gradient_clipping_is_what_torch_does(scale, max_norm):
    vector = torch.nn.Parameter(torch.zeros(20))
    vector.grad = torch.randn(20) * scale
    other = torch.nn.Parameter(torch.zeros(20))
    other.grad = vector.grad.clone()
    norm = torch.nn.utils.clip_grad_norm_([other], np.inf if max_norm is None else max_norm)
    assert clip_gradient(vector, max_norm) == pytest.approx(norm.item(), rel=1e-5)
    torch.testing.assert_close(vector.grad, other.grad, rtol=1e-3, atol=1e-6)  # torch adds 1e-6 to the norm


def test_networks_that_see_differently_are_left_to_autograd():
    """The policy's observations are normalised here and the critic's are not."""
    policy = CategoricalPolicy(3, 2, (4,), normalizer=RunningNorm((3,)))
    assert not ClosedForm.fits(policy, ValueFunction(3, (4,)))
    assert ClosedForm.fits(policy, ValueFunction(3, (4,), normalizer=policy.normalizer))
    without_bias = CategoricalPolicy(3, 2, (4,))
    without_bias.network.layers[0] = torch.nn.Linear(3, 4, bias=False)
    assert not ClosedForm.fits(without_bias, ValueFunction(3, (4,)))


def test_overridden_coefficients_reach_the_loss_in_its_plain_form():
    """They need not be those that the closed form takes."""

    class Wide(PPO):
        def coefficients(self):
            wide = super().coefficients() | {"clip_eps": 0.5}
            del wide["clip_eps_high"]
            return wide

    small = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 8, "num_minibatches": 2, "total_steps": 32}
    quick, plain = (train(Wide, **small, fast=fast, progress=False).history for fast in (True, False))
    assert quick["clip_eps"].eq(0.5).all()
    np.testing.assert_allclose(quick["policy_loss"], plain["policy_loss"], rtol=1e-4)


@pytest.mark.parametrize("algorithm", ["ppo", "trpo"])
def test_without_fast_it_is_not_imported(algorithm, monkeypatch):
    monkeypatch.setitem(sys.modules, "ppobook.fast.closed_form", None)
    monkeypatch.setitem(sys.modules, "ppobook.fast.adam", None)
    train(algorithm, env="CartPole-v1", num_steps=8, total_steps=1, fast=False, progress=False)
