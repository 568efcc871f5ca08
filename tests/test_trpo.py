"""TRPO: each piece against an independent definition, and what a step does."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector

from ppobook.batches import Batch
from ppobook.divergences import kl_categorical, kl_gaussian
from ppobook.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    TabularPolicy,
)
from ppobook.rollouts import Rollout
from ppobook.settings import TRPOSettings
from ppobook.trpo import TRPO, conjugate_gradient, fisher_matrix, fisher_vector_product, line_search

BOX = spaces.Box(-np.inf, np.inf, (3,))
ACTIONS = {
    "discrete": spaces.Discrete(4),
    "box": spaces.Box(-2.0, 2.0, (2,)),
    "unbounded": spaces.Box(-np.inf, np.inf, (1,)),
    "several": spaces.MultiDiscrete([2, 3]),
}


def played(made, seed=0, n=4, t=16):
    """A rollout of random observations and rewards, with actions of the learner's own policy."""
    generator = torch.Generator().manual_seed(seed)
    observations = torch.randn(n, t, 3, generator=generator)
    actions, logp = made.policy.sample(observations, generator)
    terminated, truncated = torch.rand(2, n, t, generator=generator) < 0.1
    return Rollout(
        observations=observations,
        actions=actions,
        rewards=torch.randn(n, t, generator=generator),
        terminated=terminated,
        truncated=truncated,
        logp=logp,
        final_observations=torch.randn(int((truncated & ~terminated).sum()), 3, generator=generator),
        last_observations=torch.randn(n, 3, generator=generator),
        episode_returns=np.zeros(0),
        episode_lengths=np.zeros(0),
    )


# ------------------------------------------------------------------------------------ conjugate gradient


def spd(rng, n, low=0.1, high=10.0):
    """A random symmetric matrix with eigenvalues between low and high."""
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return torch.as_tensor(q * np.exp(rng.uniform(np.log(low), np.log(high), n)) @ q.T)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 15))
def test_conjugate_gradient_solves(seed, n):
    """As elimination does. In n steps but for rounding; a few more take that away."""
    rng = np.random.default_rng(seed)
    a, b = spd(rng, n), torch.as_tensor(rng.normal(size=n))
    x = conjugate_gradient(lambda v: a @ v, b, iterations=3 * n, tolerance=1e-14)
    torch.testing.assert_close(x, torch.linalg.solve(a, b), rtol=1e-9, atol=1e-9)


# -------------------------------------------------------------------------------------------- the Fisher


def policies():
    """A small policy of each kind in float64, off its first weights, with observations for it."""
    rng = torch.Generator().manual_seed(3)
    made = {
        "categorical": CategoricalPolicy(3, 4, (5,)),
        "relu": CategoricalPolicy(3, 2, (4, 4), activation="relu"),
        "gaussian": GaussianPolicy(3, 2, (4,), low=[-2.0, -np.inf], high=[2.0, np.inf], initial_std=0.7),
        "multi": MultiCategoricalPolicy(3, (2, 3), (4,)),
        "table": TabularPolicy(5, 3),
    }
    for name, policy in made.items():
        policy.double()
        with torch.no_grad():
            for p in policy.parameters():
                p.add_(torch.randn(p.shape, generator=rng, dtype=p.dtype) * 0.5)
        if name == "table":
            observations = torch.tensor([0, 1, 1, 3, 4])
        else:
            observations = torch.randn(6, 3, generator=rng, dtype=torch.float64)
        yield pytest.param(policy, observations, id=name)


POLICIES = list(policies())


def all_actions(policy, observation):
    """Actions and weights whose weighted sum is the expectation over the policy at one observation.

    Exact: there are only so many choices; and for a Gaussian the products of scores are polynomials of
    degree 4 in each component, which 3 nodes of Gauss and Hermite integrate without error.
    """
    if isinstance(policy, GaussianPolicy):
        nodes, weights = np.polynomial.hermite_e.hermegauss(3)
        mean, std = (x.detach() for x in policy.mean_std(observation))
        for i, j in np.ndindex(3, 3):
            noise = torch.tensor([nodes[i], nodes[j]], dtype=torch.float64)
            yield mean + std * noise, weights[i] * weights[j] / (2 * math.pi)
    else:
        sizes = policy.nvec if isinstance(policy, MultiCategoricalPolicy) else (policy.n_actions,)
        for index in np.ndindex(*sizes):
            action = torch.tensor(index) if len(sizes) > 1 else torch.tensor(index[0])
            yield action, policy.logp(observation, action).exp().item()


def scores(policy, observation):
    """Each action's score as a vector, with the action's probability."""
    for action, weight in all_actions(policy, observation):
        gradient = torch.autograd.grad(policy.logp(observation, action), list(policy.parameters()))
        yield parameters_to_vector(gradient), weight


def explicit_fisher(policy, observations):
    """The mean over the states of the expected outer product of scores."""
    return sum(w * torch.outer(g, g) for o in observations for g, w in scores(policy, o)) / len(observations)


@pytest.mark.parametrize(("policy", "observations"), POLICIES)
def test_fisher_vector_products_are_those_of_the_explicit_matrix(policy, observations):
    explicit = explicit_fisher(policy, observations)
    assert torch.linalg.eigvalsh(explicit)[-1] > 1e-3  # there is something to compare
    columns = [fisher_vector_product(policy, observations, e) for e in torch.eye(len(explicit)).double()]
    torch.testing.assert_close(torch.stack(columns, dim=1), explicit, rtol=1e-9, atol=1e-12)
    v = torch.randn(len(explicit), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    product = fisher_matrix(policy, observations, damping=0.3)
    for _ in range(2):  # the graph outlives a product
        torch.testing.assert_close(product(v), explicit @ v + 0.3 * v, rtol=1e-9, atol=1e-12)
    assert all(p.grad is None for p in policy.parameters())


# ------------------------------------------------------------------------------------------- line search


def quadratic(limit=math.inf):
    """Gains 2x − x² over x = 0, with a KL of x²; which lengths were asked for."""
    asked = []

    def gain(x):
        asked.append(x.item())
        return (2 * x - x**2).item() if x.abs() < limit else math.nan, (x**2).item()

    return gain, asked


def search(step, max_kl=100.0, **kwargs):
    gain, asked = quadratic(kwargs.pop("limit", math.inf))
    return line_search(gain, torch.zeros(1), torch.tensor([step]), max_kl=max_kl, **kwargs), asked


@pytest.mark.parametrize(
    ("kwargs", "tried", "gain", "kl"),
    [
        ({"step": 1.0}, [1.0], 1.0, 1.0),
        # The gain is 0 at x = 2, and below 0 beyond.
        ({"step": 4.0, "backtrack": 0.5}, [4.0, 2.0, 1.0], 1.0, 1.0),
        ({"step": 1.0, "backtrack": 0.5, "max_kl": 0.3}, [1.0, 0.5], 0.75, 0.25),
        ({"step": 1.0, "backtrack": 0.5, "max_kl": 1.0, "limit": 0.5}, [1.0, 0.5, 0.25], 0.4375, 0.0625),
    ],
    ids=["whole", "no gain", "too far", "NaN"],
)
def test_the_first_step_that_gains_and_stays_near_is_taken(kwargs, tried, gain, kl):
    found, asked = search(**kwargs)
    assert found.accepted
    assert asked == tried
    assert found.steps == len(tried)
    assert found.parameters.item() == tried[-1]
    assert (found.gain, found.kl) == (gain, kl)
    assert f"gains {gain:.3g} with a KL of {kl:.3g}" in found.report


@pytest.mark.parametrize("kwargs", [{"step": -1.0}, {"step": 1.0, "max_kl": 1e-9}, {"step": 1.0, "limit": 0}])
def test_a_search_that_fails_says_so_and_returns_where_it_began(kwargs):
    found, asked = search(**kwargs, steps=5, backtrack=0.5)
    assert not found.accepted
    assert found.steps == len(asked) == 5
    assert found.parameters.item() == 0.0
    assert (found.gain, found.kl) == (0.0, 0.0)
    assert "none of 5 lengths was good enough" in found.report
    assert "0.0625 of the step" in found.report


# ---------------------------------------------------------------------------------------------- one step


def exact_kl(before, after, observations):
    """The mean KL in float64, from the networks' numbers."""
    old, new = (copy.deepcopy(policy).double() for policy in (before, after))
    observations = observations.double()
    with torch.no_grad():
        if isinstance(old, GaussianPolicy):
            kl = kl_gaussian(*old.mean_std(observations), *new.mean_std(observations))
        elif isinstance(old, MultiCategoricalPolicy):
            pairs = zip(old.probs(observations), new.probs(observations), strict=True)
            kl = sum(kl_categorical(p.log(), q.log()) for p, q in pairs)
        else:
            kl = kl_categorical(old.logits(observations), new.logits(observations))
    return kl.mean().item()


def bits(module):
    return [p.detach().clone() for p in module.parameters()]


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("max_kl", [0.01, 0.3])
def test_a_step_never_leaves_the_trust_region_and_gains_what_it_says(actions, max_kl):
    made = TRPO(BOX, ACTIONS[actions], TRPOSettings(max_kl=max_kl, hidden=(8,), value_epochs=1))
    accepted = 0
    for seed in range(6):
        rollout = played(made, seed)
        before = copy.deepcopy(made.policy)
        weights = made.advantages(rollout)[0]
        weights = (weights - weights.mean()) / weights.std(correction=0)
        metrics = made.update(rollout)
        kl = exact_kl(before, made.policy, rollout.observations)
        assert kl <= max_kl * (1 + 1e-4) + 1e-8
        assert metrics["step_kl"] == pytest.approx(kl, rel=1e-3, abs=1e-7)
        assert metrics["step_kl"] <= max_kl
        with torch.no_grad():
            ratio = (made.policy.logp(rollout.observations, rollout.actions) - rollout.logp).exp()
        gained = ((ratio - 1) * weights).mean().item()
        assert metrics["improvement"] == pytest.approx(gained, rel=1e-3, abs=1e-6)
        if metrics["accepted"]:
            accepted += 1
            assert gained > 0
            assert metrics["expected_improvement"] > 0
    assert accepted >= 4


def in_float64(made, seed=0, n=64):
    """A batch for the learner, whose policy is made float64, with advantages drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    made.policy.double()
    observations = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    actions, logp = made.policy.sample(observations, generator)
    advantages = torch.randn(n, generator=generator, dtype=torch.float64)
    return Batch(observations, actions, logp, advantages, torch.zeros(n), torch.zeros(n))


def test_the_step_is_the_natural_gradient():
    """Against the explicit matrix: θ moves by √(2δ / gᵀF⁻¹g) F⁻¹g, with F damped."""
    delta, damping = 1e-3, 0.05
    made = TRPO(
        BOX,
        ACTIONS["discrete"],
        TRPOSettings(max_kl=delta, cg_damping=damping, cg_iterations=200, hidden=(5,)),
    )
    batch = in_float64(made)
    parameters = list(made.policy.parameters())
    logp = made.policy.logp(batch.observations, batch.actions)
    g = torch.autograd.grad((batch.advantages * logp).mean(), parameters)
    g = torch.cat([x.reshape(-1) for x in g])
    f = explicit_fisher(made.policy, batch.observations) + damping * torch.eye(len(g))
    x = torch.linalg.solve(f, g)
    step = (2 * delta / (x @ f @ x)).sqrt() * x

    before = parameters_to_vector(made.policy.parameters()).detach()
    metrics = made.improve(batch)
    assert metrics["line_search_steps"] == 1
    after = parameters_to_vector(made.policy.parameters()).detach()
    torch.testing.assert_close(after - before, step, rtol=1e-6, atol=1e-9)
    assert metrics["grad_norm"] == pytest.approx(g.norm().item(), rel=1e-9)
    assert metrics["policy_loss"] == pytest.approx(-batch.advantages.mean().item() - metrics["improvement"])
    assert metrics["expected_improvement"] == pytest.approx((g @ step).item(), rel=1e-6)


@pytest.mark.parametrize("why", ["no advantage", "too short a search"])
def test_a_failed_search_leaves_the_policy_untouched_and_is_in_the_history(why):
    """With α near 1 all tries are alike; a large δ makes the quadratic forecast of the KL too small."""
    cruel = {"max_kl": 3.0, "line_search_steps": 2, "backtrack": 0.999, "cg_damping": 0.0}
    made = TRPO(BOX, ACTIONS["box"], TRPOSettings(hidden=(8,), **(cruel if why != "no advantage" else {})))
    failed = 0
    for seed in range(8):
        rollout = played(made, seed)
        if why == "no advantage":
            with torch.no_grad():
                for p in made.value.parameters():
                    p.zero_()
            rollout = dataclasses.replace(rollout, rewards=torch.zeros_like(rollout.rewards))
        before = bits(made.policy)
        metrics = made.update(rollout)
        if metrics["accepted"]:
            continue
        failed += 1
        assert all(torch.equal(a, b) for a, b in zip(before, made.policy.parameters(), strict=True))
        assert metrics["step_kl"] == metrics["improvement"] == metrics["expected_improvement"] == 0
        assert metrics["line_search_steps"] == made.settings.line_search_steps
        assert metrics["approx_kl"] == pytest.approx(0, abs=1e-6)
    assert failed >= 1
