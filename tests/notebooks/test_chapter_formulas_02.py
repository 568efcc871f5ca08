"""The formulas of chapter 2, each against a slow definition: all trajectories of a small world, written down.

The chapter computes with visits, ratios and matrices; here every expectation is a sum over trajectories.
"""

import numpy as np
import pytest
import torch

from ppobook.divergences import kl_categorical
from ppobook.envs import TabularMDP
from ppobook.policies import TabularPolicy
from ppobook.trpo import conjugate_gradient, fisher_matrix


def world(seed, gamma=0.8):
    """Two states, then two states, then the end."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((5, 2, 5))
    transitions[:2, :, 2:4] = rng.dirichlet(np.ones(2), size=(2, 2))
    transitions[2:4, :, 4] = 1
    return TabularMDP(transitions, rng.normal(size=(5, 2, 5)), gamma, [0.3, 0.7, 0, 0, 0], np.arange(5) == 4)


def looping_world(seed, n_states=5, n_actions=3, gamma=0.9):
    """From everywhere to everywhere, for ever."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    rewards = rng.normal(size=(n_states, n_actions))
    return TabularMDP(transitions, rewards, gamma, rng.dirichlet(np.ones(n_states)))


def policy(mdp, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return torch.as_tensor(scale * rng.normal(size=(mdp.n_states, mdp.n_actions))).softmax(-1).numpy()


def nearby(probs, seed, length):
    """The policy after a step of the logits in a random direction."""
    direction = np.random.default_rng(seed).normal(size=probs.shape)
    return torch.as_tensor(np.log(probs) + length * direction).softmax(-1).numpy()


def trajectories(mdp, probs):
    """(probability, rewards, [(state, action), …]) of every trajectory."""

    def onward(state, probability, rewards, steps):
        if mdp.terminal[state]:
            yield probability, rewards, steps
            return
        for action in range(mdp.n_actions):
            for following in np.flatnonzero(mdp.P[state, action]):
                yield from onward(
                    following,
                    probability * probs[state, action] * mdp.P[state, action, following],
                    [*rewards, mdp.rewards[state, action, following]],
                    [*steps, (state, action)],
                )

    for state in np.flatnonzero(mdp.start):
        yield from onward(state, mdp.start[state], [], [])


def discounted(mdp, numbers):
    return sum(mdp.gamma**t * x for t, x in enumerate(numbers))


seeds = pytest.mark.parametrize("seed", range(4))


@seeds
def test_trajectory_ratios_turn_old_trajectories_into_new_ones(seed):
    """is-ratio, trajectory-ratio: unbiased, with a second moment that one matrix a step passes on."""
    mdp = world(seed)
    old, new = policy(mdp, seed), policy(mdp, seed + 100)
    estimate = mean = second = 0.0
    for probability, rewards, steps in trajectories(mdp, old):
        w = np.prod([new[s, a] / old[s, a] for s, a in steps])
        estimate += probability * w * discounted(mdp, rewards)
        mean += probability * w
        second += probability * w**2
    assert estimate == pytest.approx(mdp.objective(new), abs=1e-12)
    assert mean == pytest.approx(1, abs=1e-12)
    passed_on = ((new**2 / old)[:, :, None] * mdp.P).sum(1)
    assert (mdp.start @ np.linalg.matrix_power(passed_on, 2)).sum() == pytest.approx(second, abs=1e-12)


@seeds
def test_performance_difference(seed):
    """Over the new policy's trajectories; by visits; and with the old one's, ratios up to t."""
    mdp = world(seed)
    old, new = policy(mdp, seed), policy(mdp, seed + 100)
    advantages = mdp.advantages(old)
    truth = mdp.objective(new) - mdp.objective(old)
    watched = sum(
        probability * discounted(mdp, [advantages[step] for step in steps])
        for probability, _, steps in trajectories(mdp, new)
    )
    reweighed = 0.0
    for probability, _, steps in trajectories(mdp, old):
        w = np.cumprod([new[step] / old[step] for step in steps])
        reweighed += probability * discounted(
            mdp, [x * advantages[step] for x, step in zip(w, steps, strict=True)]
        )
    by_visits = mdp.state_occupancy(new) @ (new * advantages).sum(1)
    for found in (watched, reweighed, by_visits):
        assert found == pytest.approx(truth, abs=1e-12)


def surrogate(mdp, old, new):
    return mdp.objective(old) + mdp.state_occupancy(old) @ (new * mdp.advantages(old)).sum(1)


@seeds
def test_surrogate(seed):
    """By visits and by per-step ratios; right in value and slope at the old policy, wrong to second order."""
    mdp = world(seed)
    old, new = policy(mdp, seed), policy(mdp, seed + 100)
    advantages = mdp.advantages(old)
    by_ratios = mdp.objective(old) + sum(
        probability * discounted(mdp, [new[step] / old[step] * advantages[step] for step in steps])
        for probability, _, steps in trajectories(mdp, old)
    )
    assert surrogate(mdp, old, new) == pytest.approx(by_ratios, abs=1e-12)
    assert surrogate(mdp, old, old) == pytest.approx(mdp.objective(old), abs=1e-12)

    logits = torch.log(torch.as_tensor(old)).requires_grad_()
    kept = torch.as_tensor(mdp.state_occupancy(old)) @ (logits.softmax(-1) * torch.as_tensor(advantages)).sum(
        1
    )
    kept.backward()
    np.testing.assert_allclose(logits.grad, mdp.policy_gradient(np.log(old)), atol=1e-12)

    errors = [
        abs(mdp.objective(new) - surrogate(mdp, old, new))
        for new in (nearby(old, seed, length) for length in (1e-3, 1e-2))
    ]
    assert errors[1] / errors[0] == pytest.approx(100, rel=0.1)


@seeds
@pytest.mark.parametrize("length", [0.01, 0.1, 1.0, 5.0])
def test_the_bounds_hold(seed, length):
    """improvement-bound, its sharper form by Pinsker, and corollary 1 and proposition 1 of Achiam et al."""
    for gamma in (0.5, 0.9, 0.99):
        mdp = looping_world(seed, gamma=gamma)
        old = policy(mdp, seed)
        new = nearby(old, seed + 50, length)
        advantages = mdp.advantages(old)
        kl = kl_categorical(np.log(old), np.log(new))
        tv = np.abs(new - old).sum(1) / 2
        assert (tv**2 <= kl / 2 + 1e-12).all()
        visits = mdp.state_occupancy(old)
        gain = surrogate(mdp, old, new) - mdp.objective(old)
        truth = mdp.objective(new) - mdp.objective(old)

        c = 4 * np.abs(advantages).max() * gamma / (1 - gamma) ** 2
        expected = np.abs((new * advantages).sum(1)).max()
        mean_kl = (1 - gamma) * visits @ kl
        losses = [
            c * tv.max() ** 2,
            c * kl.max(),
            c / 2 * kl.max(),
            2 * gamma * expected / (1 - gamma) * (visits @ tv),
            np.sqrt(2 * mean_kl) * gamma * expected / (1 - gamma) ** 2,
        ]
        for loss in losses:
            assert abs(truth - gain) <= loss + 1e-9


@seeds
def test_natural_gradient_of_a_table(seed):
    """Matrix, products, closed form: weighted by visits it is the advantages, but for a constant a state."""
    mdp = looping_world(seed)
    old = policy(mdp, seed)
    advantages, visits = mdp.advantages(old), mdp.state_occupancy(old)
    share = visits / visits.sum()
    matrix = np.zeros((old.size, old.size))
    for s, a in np.ndindex(old.shape):
        score = np.zeros_like(old)
        score[s] = np.eye(mdp.n_actions)[a] - old[s]
        matrix += share[s] * old[s, a] * np.outer(score, score)
    assert np.linalg.matrix_rank(matrix, tol=1e-12) == mdp.n_states * (mdp.n_actions - 1)
    gradient = mdp.policy_gradient(np.log(old)).ravel()
    closed = visits.sum() * (advantages - advantages.mean(1, keepdims=True)).ravel()
    np.testing.assert_allclose(
        np.linalg.pinv(matrix, rcond=1e-11, hermitian=True) @ gradient, closed, atol=1e-7
    )

    table = TabularPolicy(*old.shape).double()
    table.table.data = torch.as_tensor(np.log(old))
    # Equal weights for all states: the visits then go into the right-hand side.
    times = fisher_matrix(table, torch.arange(mdp.n_states))
    even = torch.as_tensor((old * advantages / mdp.n_states).ravel())
    found = conjugate_gradient(times, even, iterations=100, tolerance=1e-14).reshape(old.shape).numpy()
    np.testing.assert_allclose(found, advantages - advantages.mean(1, keepdims=True), atol=1e-7)
    half = torch.as_tensor(np.random.default_rng(seed).normal(size=old.size))
    explicit = matrix @ half.numpy()
    logits = torch.as_tensor(np.log(old)).requires_grad_()
    kl = torch.as_tensor(share) @ kl_categorical(logits.detach(), logits)
    (slope,) = torch.autograd.grad(kl, logits, create_graph=True)
    (product,) = torch.autograd.grad(slope.ravel() @ half, logits)
    np.testing.assert_allclose(product.ravel(), explicit, atol=1e-12)
