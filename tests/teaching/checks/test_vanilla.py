"""The checks of chapter 1\'s exercises: answers as readers might write them, and the messages."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from checks import CheckTests, Exercises, Right, Wrong

from ppobook.envs import gridworld
from ppobook.teaching import checks
from ppobook.teaching.checks import vanilla

RIGHT: Right = {}
WRONG: Wrong = {}


# --- softmax-score


def by_autograd(logits, action, temperature):
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad((leaf / temperature).log_softmax(-1)[action], leaf)[0]


def by_numpy(logits, action, temperature):
    z = (logits.numpy() - logits.numpy().max()) / temperature
    return (np.eye(len(z))[action] - np.exp(z) / np.exp(z).sum()) / temperature


RIGHT["softmax-score"] = [by_autograd, by_numpy]
WRONG["softmax-score"] = {
    "the sign is turned round": lambda z, a, h: ((z / h).softmax(-1) - torch.eye(len(z))[a]) / h,
    "the gradient of π, not of log π": lambda z, a, h: (
        (z / h).softmax(-1)[a] * (torch.eye(len(z))[a] - (z / h).softmax(-1)) / h
    ),
    "the probabilities, not the score": lambda z, a, h: (z / h).softmax(-1),
    "only the logit of the arm taken": lambda z, a, h: torch.eye(len(z))[a] / h,
    "logits used as if they were probabilities": lambda z, a, h: torch.eye(len(z))[a] - z / h,
    "the policy does not come in": lambda z, a, h: torch.eye(len(z))[a] - 1 / len(z),
    "the temperature is missing from the derivative": lambda z, a, h: (
        torch.eye(len(z))[a] - (z / h).softmax(-1)
    ),
    "the temperature is not where it belongs": [
        lambda z, a, h: (torch.eye(len(z))[a] - z.softmax(-1)) / h,
        lambda z, a, h: h * (torch.eye(len(z))[a] - (z / h).softmax(-1)),
    ],
    "it overflows for large logits": lambda z, a, h: (
        (torch.eye(len(z))[a] - (z / h).exp() / (z / h).exp().sum()) / h
    ),
}


# --- score-mean


def outer_products(logits):
    p = logits.softmax(-1)
    scores = torch.eye(len(p)) - p
    return (p[:, None, None] * scores[:, :, None] * scores[:, None, :]).sum(0)


def jacobian(logits):
    return torch.autograd.functional.jacobian(lambda z: z.softmax(-1), logits)


def unweighted_sum(logits):
    return len(logits) * unweighted(logits)


def unweighted(logits):
    scores = torch.eye(len(logits)) - logits.softmax(-1)
    return scores.T @ scores / len(logits)


RIGHT["score-mean"] = [outer_products, jacobian]
WRONG["score-mean"] = {
    "averaged first, multiplied afterwards": lambda z: torch.zeros(len(z), len(z)),
    "no covariance between different logits": [
        lambda z: torch.diag(z.softmax(-1)),
        lambda z: torch.diag(z.softmax(-1) * (1 - z.softmax(-1))),
    ],
    "the sign off the diagonal": lambda z: (
        torch.diag(z.softmax(-1)) + torch.outer(z.softmax(-1), z.softmax(-1))
    ),
    "the sign is turned round": lambda z: (
        torch.outer(z.softmax(-1), z.softmax(-1)) - torch.diag(z.softmax(-1))
    ),
    "every arm counted alike": [unweighted_sum, unweighted],
}


# --- pg-loss


def episode_by_episode(logp, advantages, mask):
    total = 0.0
    for row, weights, real in zip(logp, advantages.detach().tolist(), mask.tolist(), strict=True):
        for t, inside in enumerate(real):
            if inside:
                total = total - weights[t] * row[t]
    return total / len(logp)


RIGHT["pg-loss"] = [
    lambda logp, a, mask: (-logp * a.detach() * mask).sum(dim=1).mean(),
    lambda logp, a, mask: -torch.dot(logp[mask], a[mask].detach()) / len(logp),
    lambda logp, a, mask: -torch.where(mask, logp * a.data, 0.0).sum() / logp.shape[0],
    episode_by_episode,
]
WRONG["pg-loss"] = {
    "a reward, not a loss": lambda logp, a, m: (logp * a.detach() * m).sum() / len(logp),
    "the advantages are not detached": lambda logp, a, m: -(logp * a * m).sum() / len(logp),
    "a sum over episodes, not a mean": lambda logp, a, m: -(logp * a.detach() * m).sum(),
    "averaged over steps, not over episodes": [
        lambda logp, a, m: -(logp * a.detach())[m].mean(),
        lambda logp, a, m: -(logp * a.detach() * m).mean(),
    ],
    "each episode is divided by its own length": lambda logp, a, m: (
        -((logp * a.detach() * m).sum(1) / m.sum(1)).mean()
    ),
    "padding is pushed too": lambda logp, a, m: -(logp * a.detach()).sum(1).mean(),
    "probabilities where log-probabilities belong": lambda logp, a, m: (
        -(logp.exp() * a.detach() * m).sum(1).mean()
    ),
    "averaged before multiplying": lambda logp, a, m: -logp[m].mean() * a.detach()[m].mean(),
    "cut off from autograd": lambda logp, a, m: -(logp.detach() * a.detach() * m).sum(1).mean(),
    "no gradient reaches logp": lambda logp, a, m: -(0 * logp * a.detach() * m).sum(1).mean(),
    "the advantages are centred inside the loss": lambda logp, a, m: (
        -(logp * (a - a[m].mean()).detach() * m).sum(1).mean()
    ),
    "every step is credited with the whole episode": [
        lambda logp, a, m: -((logp * m).sum(1) * (a.detach() * m).sum(1)).mean(),
        lambda logp, a, m: -(logp.sum(1) * a.detach().sum(1)).mean(),
    ],
}


# --- hunt-broadcast


def gathered(logits, actions):
    return logits.log_softmax(-1).gather(-1, actions[:, None])


RIGHT["hunt-broadcast"] = [
    lambda z, actions, a: -(z.log_softmax(-1)[torch.arange(len(actions)), actions] * a.detach()).mean(),
    lambda z, actions, a: -(torch.distributions.Categorical(logits=z).log_prob(actions) * a.detach()).mean(),
    lambda z, actions, a: (F.cross_entropy(z, actions, reduction="none") * a.detach()).mean(),
    lambda z, actions, a: -(z.log_softmax(-1).gather(-1, actions[:, None]) * a.detach()[:, None]).mean(),
]
WRONG["hunt-broadcast"] = {
    "every action still meets every advantage": lambda z, actions, a: (
        -(gathered(z, actions) * a.detach()).mean()
    ),
    "samples are mixed": lambda z, actions, a: (
        -(z.log_softmax(0)[torch.arange(len(actions)), actions] * a.detach()).mean()
    ),
    "a reward, not a loss": lambda z, actions, a: (gathered(z, actions)[:, 0] * a.detach()).mean(),
    "a sum, not a mean": lambda z, actions, a: -(gathered(z, actions)[:, 0] * a.detach()).sum(),
    "the advantages are not detached": lambda z, actions, a: -(gathered(z, actions)[:, 0] * a).mean(),
}


# --- step-bonus


def best_played(step_reward, episodes=500):
    grid = gridworld(step_reward=step_reward)
    return grid.sample_episodes(grid.optimal_policy(), episodes, 0, max_steps=100)


def expected_steps(step_reward):
    grid = gridworld(step_reward=step_reward)
    onward = np.einsum("sa,sat->st", grid.optimal_policy(), grid.P)[:, ~grid.terminal][~grid.terminal]
    powers = (np.linalg.matrix_power(onward, t) for t in range(100))
    return sum((grid.start[~grid.terminal] @ power).sum() for power in powers)


def where_they_were(step_reward):
    return torch.tensor(np.bincount(np.nonzero(best_played(step_reward, 2000).mask)[0]).mean())


RIGHT["step-bonus"] = [expected_steps, where_they_were]
WRONG["step-bonus"] = {
    "the step reward is not used": lambda c: best_played(-0.02).mask.sum(1).mean(),
    "the longest episode, not the mean one": lambda c: best_played(c).mask.shape[1],
    "the even policy, not the best one": lambda c: (
        gridworld(step_reward=c)
        .sample_episodes(np.full((16, 4), 0.25), 1000, 0, max_steps=100)
        .mask.sum(1)
        .mean()
    ),
    "what is earned, not how long it takes": lambda c: gridworld(step_reward=c).objective(
        gridworld(step_reward=c).optimal_policy()
    ),
}


# --- reward-to-go


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


def masked_by_multiplying(rewards, terminated, truncated, next_values, gamma):
    result, ahead = torch.zeros_like(rewards), next_values[:, -1]
    for t in reversed(range(rewards.shape[1])):
        ahead = (~terminated[:, t]) * torch.where(truncated[:, t], next_values[:, t], ahead)
        ahead = rewards[:, t] + gamma * ahead
        result[:, t] = ahead
    return result


def multiplied_where_both_are_set(rewards, terminated, truncated, next_values, gamma):
    over = truncated & terminated
    values = torch.where(over, next_values * 0, torch.where(terminated, 0.0, next_values))
    return flawed()(rewards, terminated & ~over, truncated, values, gamma)


def from_the_start(rewards, terminated, truncated, next_values, gamma):
    powers = gamma ** torch.arange(rewards.shape[1])
    return flawed()(rewards * powers, terminated, truncated, next_values * powers, 1.0)


def in_place(rewards, terminated, truncated, next_values, gamma):
    rewards += 1
    return flawed()(rewards - 1, terminated, truncated, next_values, gamma)


RIGHT["reward-to-go"] = [one_number_at_a_time, by_masks, flawed()]
WRONG["reward-to-go"] = {
    "the done mask is missing": [flawed(mask_end=False), flawed(mask_end=False, mask_cut=False)],
    "a truncated episode runs on into the next": flawed(mask_cut=False, value_at_cut=False),
    "a truncation is taken for an end": flawed(value_at_cut=False),
    "the end of the rollout is taken for the end of the episode": flawed(value_at_edge=False),
    "a terminal state is given a future": flawed(value_at_end=True),
    "a value is added where nothing was truncated": flawed(value_everywhere=True),
    "the value after the truncation is not discounted": flawed(discount_value=False),
    "next_values is read where it says nothing": [
        flawed(by_product=True),
        masked_by_multiplying,
        multiplied_where_both_are_set,
    ],
    "where both flags are set, truncation wins": flawed(truncation_wins=True),
    "gamma is not used": lambda r, end, cut, v, gamma: flawed()(r, end, cut, v, 1.0),
    "an action is credited with the past": lambda r, end, cut, v, gamma: r.cumsum(1),
    "one number for the whole rollout": lambda r, end, cut, v, gamma: r.sum(1, keepdim=True).expand_as(r),
    "time runs along the wrong axis": lambda r, end, cut, v, gamma: (
        r.flip(0).cumsum(0).flip(0) + r.flip(0).cumsum(0)
    ),
    "the done mask is shifted by one step": [
        shifted(1),
        shifted(1, cuts=False),
        shifted(-1),
        shifted(-1, cuts=False),
        shifted(-1, ends=False),
    ],
    "discounted from the start, not from the action": from_the_start,
    "an argument is overwritten": in_place,
}


# --- leave-one-out


def one_by_one(returns):
    rows = [returns[i] - torch.cat([returns[:i], returns[i + 1 :]]).mean() for i in range(len(returns))]
    return torch.stack(rows)


RIGHT["leave-one-out"] = [lambda g: (g - g.mean()) * len(g) / (len(g) - 1), one_by_one]
WRONG["leave-one-out"] = {
    "the baseline has seen the return that it judges": lambda g: g - g.mean(),
    "one too many in the divisor": lambda g: g - (g.sum() - g) / len(g),
    "the baseline, not the advantage": lambda g: (g.sum() - g) / (len(g) - 1),
    "the sign is turned round": lambda g: (g.sum() - g) / (len(g) - 1) - g,
    "nothing is subtracted": lambda g: g,
    "the own return is taken off the mean, not out of it": lambda g: g - (g.mean() - g),
    "the sum of the others, not their mean": lambda g: g - (g.sum() - g),
    "compared with one other, not with all the others": [
        lambda g: g - g.roll(1),
        lambda g: g - torch.cat([g[1:2], g[:1].expand(len(g) - 1)]),
    ],
    "divided by the spread": lambda g: (g - g.mean()) / g.std(correction=0),
}


# --- hunt-perfect-baseline


def loop_over_states(states, actions, returns):
    out = returns.clone()
    for s in states.unique():
        out[states == s] -= returns[states == s].mean()
    return out


def matrix_of_visits(states, actions, returns):
    same = (states[:, None] == states[None, :]).float()
    return returns - same @ returns / same.sum(1)


def the_others_of_the_state(states, actions, returns):
    same = (states[:, None] == states[None, :]).float() - torch.eye(len(states))
    return returns - same @ returns / same.sum(1)


def by_key(keys, returns):
    same = (keys[:, None] == keys[None, :]).float()
    return same @ returns / same.sum(1)


def no_visits(states, actions, returns):
    visits, totals = torch.zeros(10), torch.zeros(10)
    visits.index_add_(0, states, torch.ones_like(returns))
    totals.index_add_(0, states, returns)
    return returns - F.one_hot(states, 10).float() @ (totals / visits)


RIGHT["hunt-perfect-baseline"] = [loop_over_states, matrix_of_visits, the_others_of_the_state]
WRONG["hunt-perfect-baseline"] = {
    "the baseline still sees the action": lambda s, a, g: g - by_key(10 * s + a, g),
    "no baseline is left": lambda s, a, g: g,
    "the baseline has forgotten the state": lambda s, a, g: g - g.mean(),
    "the sign is turned round": lambda s, a, g: by_key(s, g) - g,
    "a division by zero visits": no_visits,
}


# --- best-baseline


def closed_form(probs, rewards):
    own, other = (
        probs * (1 - probs) ** 2,
        probs**2,
    )  # what pulls of arm k, and of the others, weigh for logit k
    everyone = other * ((probs * rewards).sum() - probs * rewards)
    return (own * rewards + everyone) / (own + other * (1 - probs))


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


RIGHT["best-baseline"] = [closed_form, minimised]
WRONG["best-baseline"] = {
    "the expected reward": lambda p, r: (p @ r).expand(len(p)),
    "every arm counted alike": lambda p, r: r.mean().expand(len(p)),
    "one baseline for all logits": lambda p, r: (
        (p * squared(p).sum(1)) @ r / (p @ squared(p).sum(1))
    ).expand(len(p)),
    "weighed by the size of the score, not by its square": lambda p, r: (
        (p * r) @ squared(p).sqrt() / (p @ squared(p).sqrt())
    ),
    "the policy's own weights are missing": lambda p, r: r @ squared(p) / squared(p).sum(0),
    "the weights do not add up to one": lambda p, r: (p * r) @ squared(p),
}


# --- hunt-flattering-critic

RIGHT["hunt-flattering-critic"] = [
    lambda logp, v, g: 0.5 * F.mse_loss(v, g) - torch.mean(logp * (g - v).detach()),
    lambda logp, v, g: (0.5 * (v - g).square() - logp * (g - v.data)).sum() / len(g),
]
WRONG["hunt-flattering-critic"] = {
    "the policy term still pulls at the critic": lambda logp, v, g: (
        -(logp * (g - v)).mean() + 0.5 * ((v - g) ** 2).mean()
    ),
    "the critic no longer learns": lambda logp, v, g: (
        -(logp * (g - v.detach())).mean() + 0.5 * ((v.detach() - g) ** 2).mean()
    ),
    "a reward, not a loss": lambda logp, v, g: (logp * (g - v.detach())).mean() + 0.5 * ((v - g) ** 2).mean(),
    "no gradient reaches the policy": lambda logp, v, g: (
        -(logp.detach() * (g - v.detach())).mean() + 0.5 * ((v - g) ** 2).mean()
    ),
    "the critic runs away from the returns": lambda logp, v, g: (
        -(logp * (g - v.detach())).mean() - 0.5 * ((v - g) ** 2).mean()
    ),
    "the advantages are centred inside the loss": [
        lambda logp, v, g: (0.5 * (v - g) ** 2 - logp * ((g - v) - (g - v).mean()).detach()).mean(),
        lambda logp, v, g: (0.5 * (v - g) ** 2 - logp * F.layer_norm((g - v).detach(), g.shape)).mean(),
    ],
}


# --- interval


def students_t(returns):
    seeds = returns.mean(1)
    half = 2.262 * seeds.std(ddof=1) / np.sqrt(len(seeds))
    return seeds.mean() - half, seeds.mean() + half


def two_standard_errors(returns):
    seeds = [row.mean() for row in returns]
    error = np.std(seeds, ddof=1) / len(seeds) ** 0.5
    return [np.mean(seeds) - 1.96 * error, np.mean(seeds) + 1.96 * error]


def slow_bootstrap(returns):
    seeds = returns.mean(1).tolist()
    means = sorted(sum(random.choices(seeds, k=len(seeds))) / len(seeds) for _ in range(500))
    return means[12], means[487]


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


def bootstrap_of_ninety(returns):
    seeds = returns.mean(1)
    picks = np.random.default_rng(0).integers(len(seeds), size=(2000, len(seeds)))
    return np.quantile(seeds[picks].mean(1), [0.05, 0.95])


def around(mean, half):
    return mean - half, mean + half


RIGHT["interval"] = [
    students_t,
    two_standard_errors,
    slow_bootstrap,
    bootstrap_of_seeds_and_episodes,
    errors_around(2.3),
]
WRONG["interval"] = {
    "5% are left out at each end": [
        errors_around(1.645),
        lambda r: errors_around(1.645 + 1.6 / len(r))(r),  # t
        bootstrap_of_ninety,
    ],
    "too narrow": [errors_around(1.5), lambda r: around(r.mean(), r.mean(1).std(ddof=1) / np.sqrt(len(r)))],
    "too wide": [errors_around(2.58), errors_around(3.0)],
    "too wide to say anything": [lambda r: (-1e9, 1e9), lambda r: (r.min() - 1, r.max() + 1)],
    "episodes counted as if they were seeds": lambda r: around(r.mean(), 1.96 * r.std() / np.sqrt(r.size)),
    "how far seeds scatter, not how well their mean is known": [
        lambda r: around(r.mean(), 1.96 * r.mean(1).std(ddof=1)),
        lambda r: np.quantile(r, [0.025, 0.975]),
    ],
    "the ends are swapped": lambda r: students_t(r)[::-1],
    "no width": lambda r: (r.mean(), r.mean()),
}


# --- reinforce


def learner(
    *,
    sign: float = 1.0,
    masked: bool = True,
    masked_pushes: bool = True,
    whole_return: bool = False,
    fresh_policy: bool = True,
    fresh_rng: bool = True,
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
        rng = np.random.default_rng(seed)
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
                probs if fresh_policy else first, episodes, rng if fresh_rng else seed
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


def with_a_graph(world, updates, episodes, learning_rate, seed):
    return torch.tensor(learner()(world, updates, episodes, learning_rate, seed), requires_grad=True)


RIGHT["reinforce"] = [
    learner(),
    learner(by_state=True),
    learner(baseline=False),
    learner(start=1.0),  # the same policy as from zero
    with_a_graph,
]
WRONG["reinforce"] = {
    "a sum over episodes, not a mean": learner(per="batch"),
    "averaged over steps, not over episodes": learner(per="step"),
    "something else sets the length of the step": [learner(adam=True), learner(normalised=True)],
    "it does not begin with the even policy": learner(start=-3.0),
    "probabilities, not logits": learner(returns_probs=True),
    "it learns the wrong way": learner(sign=-1.0),
    "padding is counted as steps": [learner(masked=False), learner(masked_pushes=False)],
    "every batch comes from the first policy": learner(fresh_policy=False),
    "an action is credited with the past": learner(whole_return=True),
    "the same random numbers for every batch": learner(fresh_rng=False),
    "it looks behind the curtain": [
        learner(peek="optimal_policy"),
        learner(peek="R"),
        learner(peek="q_values"),
    ],
}


# --- tests


class TestChecks(CheckTests):
    module = vanilla
    exercises = Exercises("01_vanilla_policy_gradient")
    right, wrong = RIGHT, WRONG
    kinds = {"Prove": 2, "Build": 3, "Hunt": 2, "Reflect": 1}  # noqa: RUF012


def test_an_unforeseen_mistake_is_told_the_property_it_breaks() -> None:
    verdict = checks.run("leave-one-out", lambda g: g - g.median())
    assert verdict.kind == "property"
    assert verdict.message.startswith("✗ Not right; this fails: returns 1 and 5 become −4 and 4\n  Seen: ")
    assert "Read: chapter 1" in verdict.message


def test_the_covariance_is_not_told_to_who_has_not_found_it() -> None:
    verdict = checks.run("score-mean", lambda z: torch.eye(len(z)) - 1 / len(z))
    assert verdict.kind == "property"
    assert "0.109" not in verdict.message
