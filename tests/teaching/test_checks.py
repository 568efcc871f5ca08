"""The checks of the exercises: right answers are told so however they are spelt, wrong ones what is wrong.

Each row of the tables below is a way in which a reader might write an answer. Every check must accept the
master's solution and at least two that are written differently, and call each planted mistake by its name.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from ppobook.course import masters
from ppobook.envs import gridworld
from ppobook.teaching import check, checks

ROOT = Path(__file__).parents[2]
MASTER = ROOT / "exercises" / "masters" / "01_vanilla_policy_gradient.md"
CHAPTER = ROOT / "chapters" / "01_vanilla_policy_gradient.md"

RIGHT: dict[str, list[Callable[..., Any]]] = {}
WRONG: dict[str, list[tuple[str, Callable[..., Any]]]] = {}


def right(name: str) -> Callable[[Any], Any]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        RIGHT.setdefault(name, []).append(function)
        return function

    return keep


def wrong(name: str, mistake: str) -> Callable[[Any], Any]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        WRONG.setdefault(name, []).append((mistake, function))
        return function

    return keep


# --- softmax-score


@right("softmax-score")
def by_autograd(logits, action, temperature):
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad((leaf / temperature).log_softmax(-1)[action], leaf)[0]


@right("softmax-score")
def by_numpy(logits, action, temperature):
    z = (logits.numpy() - logits.numpy().max()) / temperature
    return (np.eye(len(z))[action] - np.exp(z) / np.exp(z).sum()) / temperature


wrong("softmax-score", "the sign is turned round")(
    lambda z, a, h: ((z / h).softmax(-1) - torch.eye(len(z))[a]) / h
)
wrong("softmax-score", "the gradient of π, not of log π")(
    lambda z, a, h: (z / h).softmax(-1)[a] * (torch.eye(len(z))[a] - (z / h).softmax(-1)) / h
)
wrong("softmax-score", "the probabilities, not the score")(lambda z, a, h: (z / h).softmax(-1))
wrong("softmax-score", "only the logit of the arm taken")(lambda z, a, h: torch.eye(len(z))[a] / h)
wrong("softmax-score", "logits used as if they were probabilities")(
    lambda z, a, h: torch.eye(len(z))[a] - z / h
)
wrong("softmax-score", "the policy does not come in")(lambda z, a, h: torch.eye(len(z))[a] - 1 / len(z))
wrong("softmax-score", "the temperature is missing from the derivative")(
    lambda z, a, h: torch.eye(len(z))[a] - (z / h).softmax(-1)
)
wrong("softmax-score", "the temperature is not where it belongs")(
    lambda z, a, h: (torch.eye(len(z))[a] - z.softmax(-1)) / h
)
wrong("softmax-score", "the temperature is not where it belongs")(
    lambda z, a, h: h * (torch.eye(len(z))[a] - (z / h).softmax(-1))
)
wrong("softmax-score", "it overflows for large logits")(
    lambda z, a, h: (torch.eye(len(z))[a] - (z / h).exp() / (z / h).exp().sum()) / h
)


# --- score-mean


@right("score-mean")
def outer_products(logits):
    p = logits.softmax(-1)
    scores = torch.eye(len(p)) - p
    return (p[:, None, None] * scores[:, :, None] * scores[:, None, :]).sum(0)


@right("score-mean")
def jacobian(logits):
    return torch.autograd.functional.jacobian(lambda z: z.softmax(-1), logits)


wrong("score-mean", "averaged first, multiplied afterwards")(lambda z: torch.zeros(len(z), len(z)))
wrong("score-mean", "no covariance between different logits")(lambda z: torch.diag(z.softmax(-1)))
wrong("score-mean", "no covariance between different logits")(
    lambda z: torch.diag(z.softmax(-1) * (1 - z.softmax(-1)))
)
wrong("score-mean", "the sign off the diagonal")(
    lambda z: torch.diag(z.softmax(-1)) + torch.outer(z.softmax(-1), z.softmax(-1))
)


wrong("score-mean", "the sign is turned round")(
    lambda z: torch.outer(z.softmax(-1), z.softmax(-1)) - torch.diag(z.softmax(-1))
)


@wrong("score-mean", "every arm counted alike")
def unweighted_sum(logits):
    return len(logits) * unweighted(logits)


@wrong("score-mean", "every arm counted alike")
def unweighted(logits):
    scores = torch.eye(len(logits)) - logits.softmax(-1)
    return scores.T @ scores / len(logits)


# --- pg-loss

right("pg-loss")(lambda logp, a, mask: (-logp * a.detach() * mask).sum(dim=1).mean())
right("pg-loss")(lambda logp, a, mask: -torch.dot(logp[mask], a[mask].detach()) / len(logp))
right("pg-loss")(lambda logp, a, mask: -torch.where(mask, logp * a.data, 0.0).sum() / logp.shape[0])


@right("pg-loss")
def episode_by_episode(logp, advantages, mask):
    total = 0.0
    for row, weights, real in zip(logp, advantages.detach().tolist(), mask.tolist(), strict=True):
        for t, inside in enumerate(real):
            if inside:
                total = total - weights[t] * row[t]
    return total / len(logp)


wrong("pg-loss", "a reward, not a loss")(lambda logp, a, m: (logp * a.detach() * m).sum() / len(logp))
wrong("pg-loss", "the advantages are not detached")(lambda logp, a, m: -(logp * a * m).sum() / len(logp))
wrong("pg-loss", "a sum over episodes, not a mean")(lambda logp, a, m: -(logp * a.detach() * m).sum())
wrong("pg-loss", "averaged over steps, not over episodes")(lambda logp, a, m: -(logp * a.detach())[m].mean())
wrong("pg-loss", "averaged over steps, not over episodes")(lambda logp, a, m: -(logp * a.detach() * m).mean())
wrong("pg-loss", "each episode is divided by its own length")(
    lambda logp, a, m: -((logp * a.detach() * m).sum(1) / m.sum(1)).mean()
)
wrong("pg-loss", "padding is pushed too")(lambda logp, a, m: -(logp * a.detach()).sum(1).mean())
wrong("pg-loss", "probabilities where log-probabilities belong")(
    lambda logp, a, m: -(logp.exp() * a.detach() * m).sum(1).mean()
)
wrong("pg-loss", "averaged before multiplying")(lambda logp, a, m: -logp[m].mean() * a.detach()[m].mean())
wrong("pg-loss", "cut off from autograd")(lambda logp, a, m: -(logp.detach() * a.detach() * m).sum(1).mean())
wrong("pg-loss", "no gradient reaches logp")(lambda logp, a, m: -(0 * logp * a.detach() * m).sum(1).mean())
wrong("pg-loss", "the advantages are centred inside the loss")(
    lambda logp, a, m: -(logp * (a - a[m].mean()).detach() * m).sum(1).mean()
)


wrong("pg-loss", "every step is credited with the whole episode")(
    lambda logp, a, m: -((logp * m).sum(1) * (a.detach() * m).sum(1)).mean()
)
wrong("pg-loss", "every step is credited with the whole episode")(
    lambda logp, a, m: -(logp.sum(1) * a.detach().sum(1)).mean()
)


# --- hunt-broadcast

right("hunt-broadcast")(
    lambda z, actions, a: -(z.log_softmax(-1)[torch.arange(len(actions)), actions] * a.detach()).mean()
)
right("hunt-broadcast")(
    lambda z, actions, a: -(torch.distributions.Categorical(logits=z).log_prob(actions) * a.detach()).mean()
)
right("hunt-broadcast")(
    lambda z, actions, a: (F.cross_entropy(z, actions, reduction="none") * a.detach()).mean()
)
right("hunt-broadcast")(
    lambda z, actions, a: -(z.log_softmax(-1).gather(-1, actions[:, None]) * a.detach()[:, None]).mean()
)


def gathered(logits, actions):
    return logits.log_softmax(-1).gather(-1, actions[:, None])


wrong("hunt-broadcast", "every action still meets every advantage")(
    lambda z, actions, a: -(gathered(z, actions) * a.detach()).mean()
)
wrong("hunt-broadcast", "samples are mixed")(
    lambda z, actions, a: -(z.log_softmax(0)[torch.arange(len(actions)), actions] * a.detach()).mean()
)
wrong("hunt-broadcast", "a reward, not a loss")(
    lambda z, actions, a: (gathered(z, actions)[:, 0] * a.detach()).mean()
)
wrong("hunt-broadcast", "a sum, not a mean")(
    lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach()).sum()
)
wrong("hunt-broadcast", "the advantages are not detached")(
    lambda z, actions, a: -(gathered(z, actions)[:, 0] * a).mean()
)


# --- step-bonus


def best_played(step_reward, episodes=500):
    grid = gridworld(step_reward=step_reward)
    return grid.sample_episodes(grid.optimal_policy(), episodes, 0, max_steps=100)


@right("step-bonus")
def expected_steps(step_reward):
    grid = gridworld(step_reward=step_reward)
    onward = np.einsum("sa,sat->st", grid.optimal_policy(), grid.P)[:, ~grid.terminal][~grid.terminal]
    powers = (np.linalg.matrix_power(onward, t) for t in range(100))
    return sum((grid.start[~grid.terminal] @ power).sum() for power in powers)


@right("step-bonus")
def where_they_were(step_reward):
    return torch.tensor(np.bincount(np.nonzero(best_played(step_reward, 2000).mask)[0]).mean())


wrong("step-bonus", "the step reward is not used")(lambda c: best_played(-0.02).mask.sum(1).mean())
wrong("step-bonus", "the longest episode, not the mean one")(lambda c: best_played(c).mask.shape[1])
wrong("step-bonus", "the even policy, not the best one")(
    lambda c: (
        gridworld(step_reward=c)
        .sample_episodes(np.full((16, 4), 0.25), 1000, 0, max_steps=100)
        .mask.sum(1)
        .mean()
    )
)
wrong("step-bonus", "what is earned, not how long it takes")(
    lambda c: gridworld(step_reward=c).objective(gridworld(step_reward=c).optimal_policy())
)


# --- reward-to-go


@right("reward-to-go")
def one_number_at_a_time(rewards, terminated, truncated, next_values, gamma):
    result = np.zeros(rewards.shape)
    n, steps = rewards.shape
    for i in range(n):
        for t in range(steps):
            factor = 1.0
            for k in range(t, steps):
                result[i, t] += factor * float(rewards[i, k])
                factor *= gamma
                if terminated[i, k]:
                    break
                if truncated[i, k] or k == steps - 1:
                    result[i, t] += factor * float(next_values[i, k])
                    break
    return result


@right("reward-to-go")
def by_masks(rewards, terminated, truncated, next_values, gamma):
    ends = terminated | truncated
    last = torch.zeros_like(ends)
    last[:, -1] = True
    bonus = torch.where((ends | last) & ~terminated, next_values, 0.0)
    income = rewards + gamma * bonus
    out, running = [], torch.zeros(len(rewards))
    for r, done in zip(income.T.flip(0), ends.T.flip(0), strict=True):
        running = r + gamma * running * (~done).float()
        out.append(running)
    return torch.stack(out[::-1], dim=1)


def flawed(
    *,
    mask_end: bool = True,
    mask_cut: bool = True,
    value_at_cut: bool = True,
    value_at_edge: bool = True,
    value_at_end: bool = False,
    value_everywhere: bool = False,
    discount_value: bool = True,
    by_product: bool = False,
    truncation_wins: bool = False,
) -> Callable[..., Any]:
    """Reward-to-go with one part left out, as `by_masks` would have it."""

    def function(rewards, terminated, truncated, next_values, gamma):
        if not truncation_wins:
            truncated = truncated & ~terminated
        edge = torch.zeros_like(terminated)
        edge[:, -1] = True
        edge &= ~terminated & ~truncated
        wanted = (truncated & value_at_cut) | (edge & value_at_edge) | (terminated & value_at_end)
        if truncation_wins:
            wanted |= truncated
        if value_everywhere:
            wanted |= ~terminated
        values = next_values * wanted if by_product else torch.where(wanted, next_values, 0.0)
        income = rewards + (gamma if discount_value else 1.0) * values
        stops = (terminated & mask_end) | (truncated & mask_cut)
        result, ahead = torch.zeros_like(rewards), torch.zeros(len(rewards))
        for t in reversed(range(rewards.shape[1])):
            ahead = income[:, t] + gamma * torch.where(stops[:, t], 0.0, ahead)
            result[:, t] = ahead
        return result

    return function


right("reward-to-go")(flawed())
wrong("reward-to-go", "the done mask is missing")(flawed(mask_end=False))
wrong("reward-to-go", "the done mask is missing")(flawed(mask_end=False, mask_cut=False))
wrong("reward-to-go", "a truncated episode runs on into the next")(flawed(mask_cut=False, value_at_cut=False))
wrong("reward-to-go", "a truncation is taken for an end")(flawed(value_at_cut=False))
wrong("reward-to-go", "the end of the rollout is taken for the end of the episode")(
    flawed(value_at_edge=False)
)
wrong("reward-to-go", "a terminal state is given a future")(flawed(value_at_end=True))
wrong("reward-to-go", "a value is added where nothing was cut")(flawed(value_everywhere=True))
wrong("reward-to-go", "the value behind the cut is not discounted")(flawed(discount_value=False))
wrong("reward-to-go", "next_values is read where it says nothing")(flawed(by_product=True))
wrong("reward-to-go", "where both flags are set, truncation wins")(flawed(truncation_wins=True))
wrong("reward-to-go", "gamma is not used")(lambda r, end, cut, v, gamma: flawed()(r, end, cut, v, 1.0))
wrong("reward-to-go", "an action is credited with the past")(lambda r, end, cut, v, gamma: r.cumsum(1))
wrong("reward-to-go", "one number for the whole rollout")(
    lambda r, end, cut, v, gamma: r.sum(1, keepdim=True).expand_as(r)
)
wrong("reward-to-go", "time runs along the wrong axis")(
    lambda r, end, cut, v, gamma: r.flip(0).cumsum(0).flip(0) + r.flip(0).cumsum(0)
)


def shifted(by: int, *, ends: bool = True, cuts: bool = True) -> Callable[..., Any]:
    """Reward-to-go whose running sum is cut one step too late or too early."""

    def function(rewards, terminated, truncated, next_values, gamma):
        end = terminated.roll(by, 1) if ends else terminated
        stops = end | (truncated.roll(by, 1) if cuts else truncated)
        result, ahead = torch.zeros_like(rewards), next_values[:, -1]
        for t in reversed(range(rewards.shape[1])):
            ahead = rewards[:, t] + gamma * torch.where(stops[:, t], next_values[:, t], ahead)
            result[:, t] = ahead
        return result

    return function


for by in (1, -1):
    wrong("reward-to-go", "the done mask is shifted by one step")(shifted(by))
    wrong("reward-to-go", "the done mask is shifted by one step")(shifted(by, cuts=False))
wrong("reward-to-go", "the done mask is shifted by one step")(shifted(-1, ends=False))


@wrong("reward-to-go", "next_values is read where it says nothing")
def masked_by_multiplying(rewards, terminated, truncated, next_values, gamma):
    result, ahead = torch.zeros_like(rewards), next_values[:, -1]
    for t in reversed(range(rewards.shape[1])):
        ahead = (~terminated[:, t]) * torch.where(truncated[:, t], next_values[:, t], ahead)
        ahead = rewards[:, t] + gamma * ahead
        result[:, t] = ahead
    return result


@wrong("reward-to-go", "next_values is read where it says nothing")
def multiplied_where_both_are_set(rewards, terminated, truncated, next_values, gamma):
    over = truncated & terminated
    values = torch.where(over, next_values * 0, torch.where(terminated, 0.0, next_values))
    return flawed()(rewards, terminated & ~over, truncated, values, gamma)


@wrong("reward-to-go", "discounted from the start, not from the action")
def from_the_start(rewards, terminated, truncated, next_values, gamma):
    powers = gamma ** torch.arange(rewards.shape[1])
    return flawed()(rewards * powers, terminated, truncated, next_values * powers, 1.0)


@wrong("reward-to-go", "an argument is overwritten")
def in_place(rewards, terminated, truncated, next_values, gamma):
    rewards += 1
    return flawed()(rewards - 1, terminated, truncated, next_values, gamma)


# --- leave-one-out

right("leave-one-out")(lambda g: (g - g.mean()) * len(g) / (len(g) - 1))


@right("leave-one-out")
def one_by_one(returns):
    rows = [returns[i] - torch.cat([returns[:i], returns[i + 1 :]]).mean() for i in range(len(returns))]
    return torch.stack(rows)


wrong("leave-one-out", "the baseline has seen the return that it judges")(lambda g: g - g.mean())
wrong("leave-one-out", "one too many in the divisor")(lambda g: g - (g.sum() - g) / len(g))
wrong("leave-one-out", "the baseline, not the advantage")(lambda g: (g.sum() - g) / (len(g) - 1))
wrong("leave-one-out", "the sign is turned round")(lambda g: (g.sum() - g) / (len(g) - 1) - g)
wrong("leave-one-out", "nothing is subtracted")(lambda g: g)
wrong("leave-one-out", "the own return is taken off the mean, not out of it")(lambda g: g - (g.mean() - g))
wrong("leave-one-out", "the sum of the others, not their mean")(lambda g: g - (g.sum() - g))
wrong("leave-one-out", "compared with one other, not with all the others")(lambda g: g - g.roll(1))
wrong("leave-one-out", "compared with one other, not with all the others")(
    lambda g: g - torch.cat([g[1:2], g[:1].expand(len(g) - 1)])
)
wrong("leave-one-out", "divided by the spread")(lambda g: (g - g.mean()) / g.std(correction=0))


# --- hunt-perfect-baseline


@right("hunt-perfect-baseline")
def loop_over_states(states, actions, returns):
    out = returns.clone()
    for s in states.unique():
        out[states == s] -= returns[states == s].mean()
    return out


@right("hunt-perfect-baseline")
def matrix_of_visits(states, actions, returns):
    same = (states[:, None] == states[None, :]).float()
    return returns - same @ returns / same.sum(1)


@right("hunt-perfect-baseline")
def the_others_of_the_state(states, actions, returns):
    same = (states[:, None] == states[None, :]).float() - torch.eye(len(states))
    return returns - same @ returns / same.sum(1)


def by_key(keys, returns):
    same = (keys[:, None] == keys[None, :]).float()
    return same @ returns / same.sum(1)


wrong("hunt-perfect-baseline", "the baseline still sees the action")(
    lambda s, a, g: g - by_key(10 * s + a, g)
)
wrong("hunt-perfect-baseline", "no baseline is left")(lambda s, a, g: g)
wrong("hunt-perfect-baseline", "the baseline has forgotten the state")(lambda s, a, g: g - g.mean())
wrong("hunt-perfect-baseline", "the sign is turned round")(lambda s, a, g: by_key(s, g) - g)


@wrong("hunt-perfect-baseline", "a division by zero visits")
def no_visits(states, actions, returns):
    visits, totals = torch.zeros(10), torch.zeros(10)
    visits.index_add_(0, states, torch.ones_like(returns))
    totals.index_add_(0, states, returns)
    return returns - F.one_hot(states, 10).float() @ (totals / visits)


# --- best-baseline


@right("best-baseline")
def closed_form(probs, rewards):
    own, other = (
        probs * (1 - probs) ** 2,
        probs**2,
    )  # what pulls of arm k, and of the others, weigh for logit k
    everyone = other * ((probs * rewards).sum() - probs * rewards)
    return (own * rewards + everyone) / (own + other * (1 - probs))


@right("best-baseline")
def minimised(probs, rewards):
    p, r = probs.double().numpy(), rewards.double().numpy()
    squares = (np.eye(len(p)) - p) ** 2
    low, high = np.full(len(p), r.min()), np.full(len(p), r.max())
    for _ in range(200):
        left, right_ = low + (high - low) / 3, high - (high - low) / 3
        at_left, at_right = (p @ ((r[:, None] - b) ** 2 * squares) for b in (left, right_))
        low, high = np.where(at_left < at_right, low, left), np.where(at_left < at_right, right_, high)
    return (low + high) / 2


def squared(probs):
    return (torch.eye(len(probs)) - probs) ** 2


wrong("best-baseline", "the expected reward")(lambda p, r: (p @ r).expand(len(p)))
wrong("best-baseline", "every arm counted alike")(lambda p, r: r.mean().expand(len(p)))
wrong("best-baseline", "one baseline for all logits")(
    lambda p, r: ((p * squared(p).sum(1)) @ r / (p @ squared(p).sum(1))).expand(len(p))
)
wrong("best-baseline", "weighed by the size of the score, not by its square")(
    lambda p, r: (p * r) @ squared(p).sqrt() / (p @ squared(p).sqrt())
)
wrong("best-baseline", "the policy's own weights are missing")(
    lambda p, r: r @ squared(p) / squared(p).sum(0)
)
wrong("best-baseline", "the weights do not add up to one")(lambda p, r: (p * r) @ squared(p))


# --- hunt-flattering-critic

right("hunt-flattering-critic")(
    lambda logp, v, g: 0.5 * F.mse_loss(v, g) - torch.mean(logp * (g - v).detach())
)
right("hunt-flattering-critic")(
    lambda logp, v, g: (0.5 * (v - g).square() - logp * (g - v.data)).sum() / len(g)
)
wrong("hunt-flattering-critic", "the policy term still pulls at the critic")(
    lambda logp, v, g: -(logp * (g - v)).mean() + 0.5 * ((v - g) ** 2).mean()
)
wrong("hunt-flattering-critic", "the critic no longer learns")(
    lambda logp, v, g: -(logp * (g - v.detach())).mean() + 0.5 * ((v.detach() - g) ** 2).mean()
)
wrong("hunt-flattering-critic", "a reward, not a loss")(
    lambda logp, v, g: (logp * (g - v.detach())).mean() + 0.5 * ((v - g) ** 2).mean()
)
wrong("hunt-flattering-critic", "no gradient reaches the policy")(
    lambda logp, v, g: -(logp.detach() * (g - v.detach())).mean() + 0.5 * ((v - g) ** 2).mean()
)
wrong("hunt-flattering-critic", "the critic runs away from the returns")(
    lambda logp, v, g: -(logp * (g - v.detach())).mean() - 0.5 * ((v - g) ** 2).mean()
)
wrong("hunt-flattering-critic", "the advantages are centred inside the loss")(
    lambda logp, v, g: (0.5 * (v - g) ** 2 - logp * ((g - v) - (g - v).mean()).detach()).mean()
)
wrong("hunt-flattering-critic", "the advantages are centred inside the loss")(
    lambda logp, v, g: (0.5 * (v - g) ** 2 - logp * F.layer_norm((g - v).detach(), g.shape)).mean()
)


# --- interval


@right("interval")
def students_t(returns):
    seeds = returns.mean(1)
    half = 2.262 * seeds.std(ddof=1) / np.sqrt(len(seeds))
    return seeds.mean() - half, seeds.mean() + half


@right("interval")
def two_standard_errors(returns):
    seeds = [row.mean() for row in returns]
    error = np.std(seeds, ddof=1) / len(seeds) ** 0.5
    return [np.mean(seeds) - 1.96 * error, np.mean(seeds) + 1.96 * error]


@right("interval")
def slow_bootstrap(returns):
    seeds = returns.mean(1).tolist()
    means = sorted(sum(random.choices(seeds, k=len(seeds))) / len(seeds) for _ in range(500))
    return means[12], means[487]


@right("interval")
def bootstrap_of_seeds_and_episodes(returns):
    means = []
    for _ in range(300):
        seeds = np.random.randint(len(returns), size=len(returns))  # noqa: NPY002
        episodes = np.random.randint(returns.shape[1], size=returns.shape)  # noqa: NPY002
        means.append(np.take_along_axis(returns[seeds], episodes, axis=1).mean())
    return np.quantile(means, [0.025, 0.975])


def errors_around(quantile):
    def function(returns):
        seeds = returns.mean(1)
        return around(seeds.mean(), quantile * seeds.std(ddof=1) / np.sqrt(len(seeds)))

    return function


right("interval")(errors_around(2.3))
wrong("interval", "5% are left out at each end")(errors_around(1.645))
wrong("interval", "5% are left out at each end")(lambda r: errors_around(1.645 + 1.6 / len(r))(r))  # t


@wrong("interval", "5% are left out at each end")
def bootstrap_of_ninety(returns):
    seeds = returns.mean(1)
    picks = np.random.default_rng(0).integers(len(seeds), size=(2000, len(seeds)))
    return np.quantile(seeds[picks].mean(1), [0.05, 0.95])


wrong("interval", "too narrow")(errors_around(1.5))
wrong("interval", "too wide")(errors_around(2.58))
wrong("interval", "too wide")(errors_around(3.0))
wrong("interval", "too wide to say anything")(lambda r: (-1e9, 1e9))
wrong("interval", "too wide to say anything")(lambda r: (r.min() - 1, r.max() + 1))


def around(mean, half):
    return mean - half, mean + half


wrong("interval", "episodes counted as if they were seeds")(
    lambda r: around(r.mean(), 1.96 * r.std() / np.sqrt(r.size))
)
wrong("interval", "how far seeds scatter, not how well their mean is known")(
    lambda r: around(r.mean(), 1.96 * r.mean(1).std(ddof=1))
)
wrong("interval", "how far seeds scatter, not how well their mean is known")(
    lambda r: np.quantile(r, [0.025, 0.975])
)
wrong("interval", "too narrow")(lambda r: around(r.mean(), r.mean(1).std(ddof=1) / np.sqrt(len(r))))
wrong("interval", "the ends are swapped")(lambda r: students_t(r)[::-1])
wrong("interval", "no width")(lambda r: (r.mean(), r.mean()))


# --- reinforce


def learner(
    *,
    sign: float = 1.0,
    masked: bool = True,
    masked_pushes: bool = True,
    whole_return: bool = False,
    fresh_policy: bool = True,
    fresh_dice: bool = True,
    baseline: bool = True,
    by_state: bool = False,
    peek: str = "",
    per: str = "episode",
    adam: bool = False,
    normalised: bool = False,
    start: float = 0.0,
    returns_probs: bool = False,
) -> Callable[..., Any]:
    """REINFORCE by hand, in NumPy, with one part left out."""

    def function(world, updates, episodes, learning_rate, seed):
        dice = np.random.default_rng(seed)
        logits = np.full((world.n_states, world.n_actions), start)
        if start < 0:
            logits[:, 0] = 0.0  # not the even policy
        size, speed = np.zeros_like(logits), np.zeros_like(logits)
        first = np.full_like(logits, 1 / world.n_actions)
        if peek:
            getattr(world, peek)
        for update in range(updates):
            probs = np.exp(logits - logits.max(1, keepdims=True))
            probs /= probs.sum(1, keepdims=True)
            batch = world.sample_episodes(
                probs if fresh_policy else first, episodes, dice if fresh_dice else seed
            )
            mask = batch.mask if masked else np.ones_like(batch.mask)
            to_go = np.zeros(batch.rewards.shape)
            ahead = np.zeros(episodes)
            for t in reversed(range(to_go.shape[1])):
                ahead = np.where(mask[:, t], batch.rewards[:, t] + world.gamma * ahead, 0.0)
                to_go[:, t] = ahead
            if whole_return:
                to_go[:] = to_go[:, :1]
            if not masked_pushes:
                mask = np.ones_like(batch.mask)
            s, a, g = batch.states[mask], batch.actions[mask], to_go[mask]
            if by_state:
                g = g - (np.bincount(s, g) / np.maximum(np.bincount(s), 1))[s]
            elif baseline:
                g = g - g.mean()
            if normalised:
                g = g / (g.std() + 1e-8)
            push = np.zeros_like(logits)
            np.add.at(push, s, g[:, None] * (np.eye(probs.shape[1])[a] - probs[s]))
            push *= sign / {"episode": episodes, "step": mask.sum(), "batch": 1}[per]
            if adam:
                speed, size = 0.9 * speed + 0.1 * push, 0.999 * size + 0.001 * push**2
                fair = 1 - 0.9 ** (update + 1), 1 - 0.999 ** (update + 1)
                push = speed / fair[0] / (np.sqrt(size / fair[1]) + 1e-8)
            logits += learning_rate * push
        raised = np.exp(logits - logits.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True) if returns_probs else logits

    return function


right("reinforce")(learner())
right("reinforce")(learner(by_state=True))
right("reinforce")(learner(baseline=False))
right("reinforce")(learner(start=1.0))  # the same policy as from zero


@right("reinforce")
def with_a_graph(world, updates, episodes, learning_rate, seed):
    return torch.tensor(learner()(world, updates, episodes, learning_rate, seed), requires_grad=True)


wrong("reinforce", "a sum over episodes, not a mean")(learner(per="batch"))
wrong("reinforce", "averaged over steps, not over episodes")(learner(per="step"))
wrong("reinforce", "something else sets the length of the step")(learner(adam=True))
wrong("reinforce", "something else sets the length of the step")(learner(normalised=True))
wrong("reinforce", "it does not begin with the even policy")(learner(start=-3.0))
wrong("reinforce", "probabilities, not logits")(learner(returns_probs=True))
wrong("reinforce", "it learns the wrong way")(learner(sign=-1.0))
wrong("reinforce", "padding is counted as steps")(learner(masked=False))
wrong("reinforce", "every batch comes from the first policy")(learner(fresh_policy=False))
wrong("reinforce", "padding is counted as steps")(learner(masked_pushes=False))
wrong("reinforce", "an action is credited with the past")(learner(whole_return=True))
wrong("reinforce", "the same dice for every batch")(learner(fresh_dice=False))
wrong("reinforce", "it looks behind the curtain")(learner(peek="optimal_policy"))
wrong("reinforce", "it looks behind the curtain")(learner(peek="R"))
wrong("reinforce", "it looks behind the curtain")(learner(peek="q_values"))


# --- tests

SOLUTIONS = {name: s for name, s in masters.solutions(MASTER).items() if s.kind == "code"}
NAMES = sorted(SOLUTIONS)


def reference(name: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"torch": torch, "np": np, "gridworld": gridworld}
    exec(SOLUTIONS[name].source, space)
    return next(value for key, value in reversed(space.items()) if inspect.isfunction(value))


def each(table: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(name, row, id=f"{name}-{i}")
        for name, rows in table.items()
        for i, row in enumerate(rows)
    ]


def test_every_check_has_an_exercise_and_every_exercise_a_check() -> None:
    here = {name for name, module in checks.names().items() if module == "ppobook.teaching.checks.vanilla"}
    assert here == set(SOLUTIONS) == set(RIGHT) == set(WRONG)


@pytest.mark.parametrize("name", NAMES)
def test_the_masters_solution_is_right_and_told_so_fast(name: str) -> None:
    answer = reference(name)
    checks.run(name, answer)
    began = time.process_time()
    verdict = checks.run(name, answer)
    assert verdict.right, verdict.message
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("name", NAMES)
def test_there_are_two_more_right_answers_and_two_mistakes(name: str) -> None:
    assert len(RIGHT[name]) >= 2
    assert len({mistake for mistake, _ in WRONG[name]}) >= 2


@pytest.mark.parametrize(("name", "answer"), each(RIGHT))
def test_a_right_answer_is_right_however_it_is_written(name: str, answer: Callable[..., Any]) -> None:
    verdict = checks.run(name, answer)
    assert verdict.right, verdict.message


@pytest.mark.parametrize(("name", "row"), each(WRONG))
def test_a_planted_mistake_is_called_by_its_name(name: str, row: tuple[str, Callable[..., Any]]) -> None:
    mistake, answer = row
    verdict = checks.run(name, answer)
    assert (verdict.kind, verdict.name) == ("mistake", mistake), verdict.message
    assert "Think:" in verdict.message or mistake == "an argument is overwritten"
    assert_no_answer_in(verdict.message, name)


def assert_no_answer_in(message: str, name: str) -> None:
    """No line of the solution, and nothing that a reader could paste, stands in a message."""
    body = SOLUTIONS[name].source.split("\n", 1)[1]
    flat = re.sub(r"\s+", "", message)
    for line in body.splitlines():
        code = re.sub(r"\s+", "", line).removeprefix("return")
        if len(code) > 10 and '"""' not in line:
            assert code not in flat, line


@pytest.mark.parametrize("name", NAMES)
def test_the_blank_is_not_yet_and_not_wrong(name: str) -> None:
    cells = masters.read(MASTER)["cells"]
    source = next(c["source"] for c in cells if f"solution:{name}" in masters.tags(c))
    space: dict[str, Any] = {"torch": torch, "np": np}
    exec(masters.blank(source, name), space)
    blank = next(value for key, value in reversed(space.items()) if inspect.isfunction(value))
    with pytest.raises(checks.NotYet, match=f"Not yet: {name}"):
        check(name, blank)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [None, "seven", torch.zeros(7, 7, 7), float("nan"), {}], ids=str)
def test_something_else_altogether_is_refused_in_words(name: str, value: Any) -> None:
    verdict = checks.run(name, lambda *args, **kwargs: value)
    assert not verdict.right
    assert verdict.kind == "returned", verdict.message
    assert "Traceback" not in verdict.message
    assert_no_answer_in(verdict.message, name)


@pytest.mark.parametrize("name", NAMES)
def test_an_exception_is_shown_with_its_line(name: str) -> None:
    def stumbling(*args: Any) -> Any:
        return args[0] + undefined_name  # noqa: F821

    verdict = checks.run(name, stumbling)
    assert verdict.kind == "raised"
    assert "NameError: name 'undefined_name' is not defined" in verdict.message
    assert "args[0] + undefined_name" in verdict.message
    assert re.search(r"in line \d+ of your cell", verdict.message)


def test_the_section_a_hint_sends_to_exists() -> None:
    from ppobook.teaching.checks import vanilla

    source = Path(vanilla.__file__).read_text(encoding="utf-8")
    text = CHAPTER.read_text(encoding="utf-8")
    headings = dict(re.findall(r"^\((sec-[a-z-]+)\)=\n#+ (.+)$", text, re.MULTILINE))
    known = vanilla.CHAPTER.sections
    assert set(re.findall(r"[\"'](sec-[a-z-]+)[\"']", source)) == set(known)
    assert dict(known) == {label: headings.get(label, "no such label in the chapter") for label in known}
    assert f"# {vanilla.CHAPTER.title}\n" in text


def test_each_kind_and_difficulty_is_there_and_the_order_climbs() -> None:
    exercises = masters.exercises(masters.read(MASTER))
    kinds = [e.kind for e in exercises]
    assert kinds.count("Prove") >= 2
    assert kinds.count("Build") >= 3
    assert kinds.count("Hunt") >= 2
    assert kinds.count("Reflect") >= 1
    levels = [e.difficulty for e in exercises]
    assert levels == sorted(levels)
    assert set(levels) == {1, 2, 3, 4, 5}


def test_check_prints_or_raises(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("pg-loss", reference("pg-loss")) is None
    assert capsys.readouterr().out.startswith("✓ Right: pg-loss\n")
    with pytest.raises(checks.NotRight) as told:
        check("pg-loss", lambda logp, advantages, mask: (logp * advantages.detach() * mask).sum() / len(logp))
    shown = told.value._render_traceback_()
    assert shown[0] == "✗ Not right: a reward, not a loss"
    assert "Read: chapter 1" in "\n".join(shown)
    assert not any("Traceback" in line for line in shown)


def test_an_unforeseen_mistake_is_told_the_property_it_breaks() -> None:
    verdict = checks.run("leave-one-out", lambda g: g - g.median())
    assert verdict.kind == "property"
    assert "✗ returns 1 and 5 become −4 and 4" in verdict.message
    assert "Read: chapter 1" in verdict.message


def test_the_covariance_is_not_told_to_who_has_not_found_it() -> None:
    verdict = checks.run("score-mean", lambda z: torch.eye(len(z)) - 1 / len(z))
    assert verdict.kind == "property"
    assert "0.109" not in verdict.message


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(
        checks.UnknownCheck, match=r"no check named 'reward-togo'\. Did you mean 'reward-to-go'"
    ):
        check("reward-togo", lambda: 0)
    with pytest.raises(checks.UnknownCheck, match=r"There are .*, softmax-score, score-mean"):
        check("zzz", lambda: 0)


def test_a_result_in_place_of_the_function_is_refused() -> None:
    with pytest.raises(checks.UnknownCheck, match=r"your function itself, and got a tensor of shape"):
        check("pg-loss", torch.zeros(3))  # type: ignore[arg-type]


def test_a_wrong_number_of_arguments_is_told() -> None:
    verdict = checks.run("reward-to-go", lambda rewards, gamma: rewards)
    assert verdict.kind == "raised"
    assert "positional arguments" in " ".join(verdict.message.split())
    assert "It was called with (a tensor of shape [1, 6]" in verdict.message


def test_an_endless_loop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SECONDS", 0.3)

    def endless(*args: Any) -> Any:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    assert checks.run("softmax-score", endless).kind == "slow"


@pytest.mark.parametrize("name", NAMES)
def test_the_global_dice_are_left_alone(name: str) -> None:
    def rolling(*args: Any) -> Any:
        random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
        return None

    random.seed(3), np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index,union-attr]  # noqa: NPY002
    checks.run(name, reference(name))
    checks.run(name, rolling)
    assert random.getstate() == before[0]
    assert (np.random.get_state()[1] == before[1]).all()  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


def test_the_machinery_loads_no_torch() -> None:
    code = "import sys; from ppobook.teaching import check; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
