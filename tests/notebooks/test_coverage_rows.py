"""The formulas that the book teaches, each with the numbers that a reader is shown.

A class is a row of what the book covers: what is claimed there is computed here from the definition, and the
library is asked for the same.
"""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import optimize

from ppobook.diagnostics import ratios
from ppobook.divergences import k3, kl_categorical
from ppobook.objectives import (
    clipped_surrogate_loss,
    kl_penalized_loss,
    surrogate_loss,
    value_loss,
)
from ppobook.returns import gae, n_step_advantages

exactly = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
f64 = partial(torch.tensor, dtype=torch.float64)


def objective(ratio, advantage, loss=clipped_surrogate_loss, **kwargs):
    """One sample's objective at a ratio, and its slope in the ratio."""
    r = f64(ratio, requires_grad=True)
    value = -loss(r.log().reshape(1), torch.zeros(1, dtype=torch.float64), f64([advantage]), **kwargs)
    value.backward()
    return value.item(), r.grad.item()


class TestKLNearRatioOne:
    """A5: what a box of ε = 0.2 around ratio 1 says of the KL, if every action of a state is in it."""

    eps = 0.2

    def test_three_bounds(self):
        low, high = 1 - self.eps, 1 + self.eps
        assert round(-math.log(1 - self.eps**2) / 2, 4) == 0.0204
        assert round((high * math.log(high) + low * math.log(low)) / 2, 4) == 0.0201
        assert round(float(k3(np.zeros(1), np.log([low]))[0]), 4) == 0.0231
        assert self.eps**2 / 2 == pytest.approx(0.02)

    def test_no_policy_in_the_box_goes_beyond(self):
        rng = np.random.default_rng(0)
        low, high = 1 - self.eps, 1 + self.eps
        forwards = -0.5 * math.log(1 - self.eps**2)
        backwards = (high * math.log(high) + low * math.log(low)) / 2
        largest = 0.0
        for _ in range(2000):
            old = rng.dirichlet(np.ones(rng.integers(2, 7)) * rng.choice([0.3, 1.0, 5.0]))
            # A direction along which probabilities still sum to 1, taken as far as the box allows.
            step = rng.normal(size=len(old)) * old
            step -= old * step.sum()
            new = old + step * (self.eps / abs(step / old).max())
            assert new.sum() == pytest.approx(1)
            ratio = new / old
            assert ((ratio > low - 1e-9) & (ratio < high + 1e-9)).all()
            largest = max(largest, float(kl_categorical(np.log(old), np.log(new))))
            assert kl_categorical(np.log(old), np.log(new)) <= forwards + 1e-12
            assert kl_categorical(np.log(new), np.log(old)) <= backwards + 1e-12
            sampled = k3(np.log(old), np.log(new))
            assert (sampled <= k3(np.zeros(1), np.log([low])) + 1e-12).all()
        assert largest > 0.0195  # so the search comes near the bound

    def test_the_bounds_are_the_worst_over_all_ratios(self):
        """Σ p r = 1 with each r in the box: a function convex in r is worst at a mixture of the corners."""
        grid = np.linspace(1 - self.eps, 1 + self.eps, 401)
        for per_state, wanted in [(-np.log(grid), 0.0204), (grid * np.log(grid), 0.0201)]:
            found = optimize.linprog(-per_state, A_eq=[np.ones_like(grid), grid], b_eq=[1, 1])
            assert round(-found.fun, 4) == wanted

    def test_second_order(self):
        """KL ≈ ½ E_old[(r − 1)²] = ½ Σ (p − q)² / p, with an error of third order."""
        rng = np.random.default_rng(1)
        old = rng.dirichlet(np.ones(5))
        direction = rng.normal(size=5) * old
        direction -= old * direction.sum()
        direction /= abs(direction / old).max()
        for size in (0.1, 0.01, 0.001):
            new = old + size * direction
            half_square = 0.5 * (old * (new / old - 1) ** 2).sum()
            exactly(half_square, 0.5 * ((new - old) ** 2 / old).sum())
            for kl in (kl_categorical(np.log(old), np.log(new)), kl_categorical(np.log(new), np.log(old))):
                assert abs(kl - half_square) < size**3


class TestKLPenalty:
    """A8: the surrogate minus β KL."""

    def test_its_optimum_is_the_old_policy_tilted_by_the_advantage(self):
        """E_q[A] − β KL(p, q) is largest at q = p β / (μ − A), with μ such that it sums to 1."""
        old, advantages, beta = np.array([0.5, 0.3, 0.2]), np.array([1.0, 0.0, -1.0]), 2.0
        mu = optimize.brentq(lambda m: (old * beta / (m - advantages)).sum() - 1, 1.0 + 1e-9, 50)
        wanted = old * beta / (mu - advantages)
        logits = f64(np.log(old), requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [logits], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-12
        )

        def closure():
            optimizer.zero_grad()
            logp = logits.log_softmax(0)
            kl = kl_categorical(f64(np.log(old)), logits)
            # Each action once, with its probability: the expectation under the old policy.
            loss = kl_penalized_loss(
                logp,
                f64(np.log(old)),
                f64(old * advantages),
                kl / 3,
                beta,
                reduction="constant",
                denominator=1.0,
            )
            loss.backward()
            return loss

        optimizer.step(closure)
        np.testing.assert_allclose(logits.softmax(0).detach(), wanted, atol=1e-5)


class TestGAE:
    """A9: sums of TD errors, averages of n-step advantages."""

    def rollout(self, terminal):
        rng = np.random.default_rng(0)
        rewards, values = rng.normal(size=12), rng.normal(size=13)
        terminated = np.zeros(12, dtype=bool)
        terminated[-1] = terminal
        return rewards, values, terminated

    def test_its_reach(self):
        assert round(1 / (1 - 0.99 * 0.95), 1) == 16.8
        assert pytest.approx(20) == 1 / (1 - 0.95)
        # The advantage at step 0 of one TD error of 1, k steps later: (γλ)^k. Their sum is the reach.
        steps = 1000
        response = [
            gae(np.eye(steps)[k], np.zeros(steps + 1), np.zeros(steps), gamma=0.99, lam=0.95)[0][0]
            for k in range(40)
        ]
        exactly(response, (0.99 * 0.95) ** np.arange(40))
        total, _ = gae(np.ones(steps), np.zeros(steps + 1), np.zeros(steps), gamma=0.99, lam=0.95)
        assert round(total[0], 1) == 16.8

    @pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
    @pytest.mark.parametrize("terminal", [True, False])
    def test_weights_of_the_n_step_advantages(self, lam, terminal):
        """(1 − λ) λ^(n−1), and λ^(N−1) for the last of N: together 1."""
        rewards, values, terminated = self.rollout(terminal)
        found, _ = gae(rewards, values, terminated, lam=lam)
        for t in range(12):
            left = 12 - t
            weights = [(1 - lam) * lam ** (n - 1) for n in range(1, left)] + [lam ** (left - 1)]
            assert sum(weights) == pytest.approx(1)
            by_n = [n_step_advantages(rewards, values, terminated, n=n)[t] for n in range(1, left + 1)]
            exactly(found[t], np.dot(weights, by_n))

    def test_its_returns_are_td_lambda_targets(self):
        """G_t = r_t + γ [(1 − λ) V(s_{t+1}) + λ G_{t+1}], with V(s_T) behind the last step."""
        rewards, values, terminated = self.rollout(terminal=False)
        _, returns = gae(rewards, values, terminated, gamma=0.9, lam=0.7)
        target = values[-1]
        for t in reversed(range(12)):
            target = rewards[t] + 0.9 * (0.3 * values[t + 1] + 0.7 * target)
            exactly(returns[t], target)


class TestEnds:
    """A10: γ = λ = 1 and V = 10 everywhere, so that what was bootstrapped can be read off."""

    def advantages(self, terminated, truncated):
        return gae(
            np.ones(3),
            np.full(4, 10.0),
            np.array(terminated),
            np.array(truncated),
            np.full(3, 100.0),
            gamma=1,
            lam=1,
        )[0].tolist()

    def test_three_ways_for_a_segment_to_stop(self):
        assert self.advantages([0, 0, 1], [0, 0, 0]) == [-7, -8, -9]  # what is left, and then nothing
        assert self.advantages([0, 0, 0], [0, 0, 1]) == [93, 92, 91]  # and then the final observation's value
        assert self.advantages([0, 0, 0], [0, 0, 0]) == [3, 2, 1]  # unfinished: and then the next value


class TestValueLoss:
    """A11: half the mean squared error; the clip takes the larger error."""

    @pytest.mark.parametrize(
        ("value", "wanted", "slope"),
        [
            (0.1, 0.5 * 0.9**2, -0.9),  # inside: plain
            (0.5, 0.5 * 0.8**2, 0.0),  # moved towards the return by more than 0.2: nothing more to gain
            (-0.5, 0.5 * 1.5**2, -1.5),  # moved away: the plain error is the larger, and pulls it back
            (3.0, 0.5 * 2.0**2, 2.0),  # moved far past the return: again the plain one
        ],
    )
    def test_old_value_0_return_1(self, value, wanted, slope):
        v = f64([value], requires_grad=True)
        loss = value_loss(v, f64([1.0]), f64([0.0]), 0.2)
        loss.backward()
        exactly(loss.item(), wanted)
        exactly(v.grad.item(), slope)


class TestTables:
    """C1 and C2: ratio, r A, clip(r), clip(r) A, their minimum, flat?; ε = 0.2."""

    good = (
        (0.5, 0.5, 0.8, 0.8, 0.5, False),
        (0.8, 0.8, 0.8, 0.8, 0.8, False),
        (1.0, 1.0, 1.0, 1.0, 1.0, False),
        (1.1, 1.1, 1.1, 1.1, 1.1, False),
        (1.2, 1.2, 1.2, 1.2, 1.2, False),  # the knee itself: its slope is still the full one
        (1.3, 1.3, 1.2, 1.2, 1.2, True),
        (1.5, 1.5, 1.2, 1.2, 1.2, True),
        (2.0, 2.0, 1.2, 1.2, 1.2, True),
    )
    bad = (
        (0.5, -0.5, 0.8, -0.8, -0.8, True),
        (0.7, -0.7, 0.8, -0.8, -0.8, True),
        (0.8, -0.8, 0.8, -0.8, -0.8, False),  # the knee
        (1.0, -1.0, 1.0, -1.0, -1.0, False),
        (1.2, -1.2, 1.2, -1.2, -1.2, False),  # a bound, and no knee
        (1.5, -1.5, 1.2, -1.2, -1.5, False),
        (2.0, -2.0, 1.2, -1.2, -2.0, False),
    )

    @pytest.mark.parametrize(
        ("advantage", "row"), [*((1.0, row) for row in good), *((-1.0, row) for row in bad)]
    )
    def test_row(self, advantage, row):
        ratio, plain, clipped, clipped_plain, minimum, flat = row
        exactly(objective(ratio, advantage, surrogate_loss)[0], plain)
        exactly(np.clip(ratio, 0.8, 1.2), clipped)
        exactly(clipped * advantage, clipped_plain)
        # The logarithm rounds, so the knee is looked at from just inside.
        inside = ratio - 1e-12 if advantage > 0 else ratio + 1e-12
        exactly(objective(inside, advantage)[0], minimum)
        assert (objective(inside, advantage)[1] == 0) == flat
        assert ratios(np.log([inside]), np.array([advantage]))["flat_fraction"] == flat


class TestThreeActions:
    """C3: old logits 0, A = (+1, 0, −1), ε = 0.2, expectations under the old policy."""

    advantages = f64([1.0, 0.0, -1.0])
    old_logp = f64([1 / 3] * 3).log()

    def loss(self, logits, loss=clipped_surrogate_loss):
        """Each action once; each has probability 1/3 under the old policy, so the mean is the expectation."""
        return loss(logits.log_softmax(0), self.old_logp, self.advantages)

    def test_the_target(self):
        target = self.advantages.softmax(0)
        assert [round(x, 3) for x in target.tolist()] == [0.665, 0.245, 0.090]
        assert [round(x, 3) for x in (3 * target).tolist()] == [1.996, 0.734, 0.270]
        assert target[1] < 1 / 3  # though its advantage is 0

    def test_one_exact_logit_step_reaches_it(self):
        """Adding A to the logits is the natural gradient: F⁻¹ g, with F the Fisher matrix of the softmax."""
        logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(-self.loss(logits, surrogate_loss), logits)
        probs = torch.full((3,), 1 / 3, dtype=torch.float64)
        fisher = torch.diag(probs) - torch.outer(probs, probs)
        step = torch.linalg.pinv(fisher) @ gradient
        exactly(step, self.advantages - self.advantages.mean())
        exactly(step.softmax(0), self.advantages.softmax(0))
