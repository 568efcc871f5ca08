"""Answers to the exercises on how much better a new policy is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- performance-difference


def estimator(
    *,
    play: str = "new",
    judge: str = "old",
    discount: bool = True,
    masked: bool = True,
    per: str = "episode",
    sign: float = 1.0,
    peek: str = "",
) -> Callable[..., Any]:
    def function(world, old, new, episodes, seed):
        who = {"old": old, "new": new, "half": (old + new) / 2}
        if peek:
            getattr(world, peek)
        batch = world.sample_episodes(who[play], episodes, seed)
        mask = batch.mask if masked else np.ones_like(batch.mask)
        terms = world.advantages(who[judge])[batch.states, batch.actions] * mask
        if discount:
            terms = terms * world.gamma ** np.arange(mask.shape[1])
        total = sign * terms.sum()
        return total / {"episode": len(mask), "step": mask.sum(), "entry": mask.size, "batch": 1}[per]

    return function


def in_a_loop(world, old, new, episodes, seed):
    batch, worth = world.sample_episodes(new, episodes, seed), world.advantages(old)
    sums = []
    for s, a, inside in zip(batch.states, batch.actions, batch.mask, strict=True):
        steps = range(int(inside.sum()))
        sums.append(sum(world.gamma**t * worth[s[t], a[t]] for t in steps))
    return sum(sums) / len(sums)


def in_torch(world, old, new, episodes, seed):
    batch = world.sample_episodes(torch.tensor(new), episodes, np.random.default_rng(seed))
    worth = world.advantages(torch.tensor(old))[batch.states, batch.actions]
    powers = world.gamma ** torch.arange(batch.mask.shape[1])
    return torch.where(torch.tensor(batch.mask), worth * powers, 0.0).sum(1).mean()


def two_returns(world, old, new, episodes, seed):
    def mean(probs):
        batch = world.sample_episodes(probs, episodes, seed)
        return (batch.rewards * world.gamma ** np.arange(batch.mask.shape[1])).sum(1).mean()

    return mean(new) - mean(old)


def one_episode_at_a_time(world, old, new, episodes, seed):
    dice, worth, total = np.random.default_rng(seed), world.advantages(old), 0.0
    for _ in range(episodes):
        batch = world.sample_episodes(new, 1, dice)
        powers = world.gamma ** np.arange(batch.mask.shape[1])
        total += (worth[batch.states, batch.actions] * powers * batch.mask).sum()
    return total / episodes


def averaged_over_actions(world, old, new, episodes, seed):
    """In place of the action that was taken, the mean over those that might have been."""
    batch = world.sample_episodes(new, episodes, seed)
    powers = world.gamma ** np.arange(batch.mask.shape[1])
    return ((new * world.advantages(old)).sum(1)[batch.states] * powers * batch.mask).sum() / episodes


def weighed(*, whole: bool) -> Callable[..., Any]:
    """Episodes of the old policy, each step weighed by the ratios of its trajectory, so far or as a whole."""

    def function(world, old, new, episodes, seed):
        batch = world.sample_episodes(old, episodes, seed)
        pair = batch.states, batch.actions
        ratio = np.where(batch.mask, new[pair] / old[pair], 1.0)
        weight = ratio.prod(1, keepdims=True) if whole else ratio.cumprod(1)
        powers = world.gamma ** np.arange(batch.mask.shape[1])
        return (weight * powers * world.advantages(old)[pair] * batch.mask).sum() / episodes

    return function


def the_surrogates_gain(world, old, new, episodes, seed):
    batch = world.sample_episodes(old, episodes, seed)
    pair, powers = (batch.states, batch.actions), world.gamma ** np.arange(batch.mask.shape[1])
    return (new[pair] / old[pair] * powers * world.advantages(old)[pair] * batch.mask).sum() / episodes


def first_rows_mask(world, old, new, episodes, seed):
    """Right, but for rows that are longer than the shortest."""
    batch = world.sample_episodes(new, episodes, seed)
    powers = world.gamma ** np.arange(batch.mask.shape[1])
    terms = world.advantages(old)[batch.states, batch.actions] * powers
    return (terms * batch.mask[-1:]).sum() / episodes


def with_powers(powers: Callable[..., Any]) -> Callable[..., Any]:
    def function(world, old, new, episodes, seed):
        batch = world.sample_episodes(new, episodes, seed)
        terms = world.advantages(old)[batch.states, batch.actions] * batch.mask
        return (terms * powers(world.gamma, np.arange(terms.shape[1]))).sum(1).mean()

    return function


def a_mean_for_each_episode(world, old, new, episodes, seed):
    batch = world.sample_episodes(new, episodes, seed)
    powers = world.gamma ** np.arange(batch.mask.shape[1])
    terms = world.advantages(old)[batch.states, batch.actions] * powers * batch.mask
    return (terms.sum(1) / batch.mask.sum(1)).mean()


RIGHT["performance-difference"] = [
    estimator(),
    in_a_loop,
    in_torch,
    one_episode_at_a_time,
    averaged_over_actions,
    estimator(play="old", judge="new", sign=-1.0),  # J(old) − J(new), and its sign turned
    weighed(whole=True),
    weighed(whole=False),
]
WRONG["performance-difference"] = {
    "episodes of the old policy": estimator(play="old"),
    "advantages of the new policy": estimator(judge="new"),
    "the roles are swapped": estimator(play="old", judge="new"),
    "only the step's own ratio": the_surrogates_gain,
    "another policy is asked": estimator(play="half"),
    "gamma is not used": [
        estimator(discount=False),
        estimator(play="old", judge="new", sign=-1.0, discount=False),
    ],
    "padding is counted as steps": [
        estimator(masked=False),
        estimator(play="old", judge="new", sign=-1.0, masked=False),
    ],
    "a sum over episodes, not a mean": estimator(per="batch"),
    "averaged over steps, not over episodes": [
        estimator(per="step"),
        estimator(play="old", judge="new", sign=-1.0, per="step"),
        estimator(per="entry"),
        a_mean_for_each_episode,
    ],
    "the sign is turned round": estimator(sign=-1.0),
    "it looks behind the curtain": [estimator(peek="objective"), estimator(peek="P")],
    "no advantage is asked for": two_returns,
    "the first step is discounted already": with_powers(lambda gamma, t: gamma ** (t + 1)),
    "discounted from the wrong end": with_powers(lambda gamma, t: gamma ** t[::-1]),
    "normalised by 1 − γ": [
        with_powers(lambda gamma, t: gamma**t * (1 - gamma)),
        with_powers(lambda gamma, t: gamma**t / (1 - gamma)),
    ],
    "the number of episodes is not obeyed": [
        lambda world, old, new, episodes, seed: estimator()(world, old, new, 1, seed),
        lambda world, old, new, episodes, seed: estimator()(world, old, new, 2, seed),
    ],
}
UNNAMED["performance-difference"] = [
    with_powers(lambda gamma, t: 0.25**t),
    with_powers(lambda gamma, t: gamma**t * (t < 3)),
    with_powers(lambda gamma, t: max(gamma, 0.1) ** t),
    lambda world, old, new, episodes, seed: estimator()(world, old, new, episodes, 0),
    lambda world, old, new, episodes, seed: estimator()(world, old, new, episodes, None),
    lambda world, old, new, episodes, seed: estimator(sign=3.0)(world, old, new, episodes, seed),
    first_rows_mask,
    with_powers(lambda gamma, t: gamma**t * (t < 50)),
]


# --- surrogate-gradient


def forecast(
    *,
    visits: Callable[..., Any] = lambda world, old, new: world.state_occupancy(old),
    worth: Callable[..., Any] = lambda world, old, new: world.advantages(old),
    choice: Callable[..., Any] = lambda old, new: new,
    start: bool = True,
    sign: float = 1.0,
    frozen: bool = True,
) -> Callable[..., Any]:
    def function(world, old, new):
        old = old.detach() if frozen else old
        gain = visits(world, old, new) @ (choice(old, new) * worth(world, old, new)).sum(1)
        return sign * gain + (world.objective(old) if start else 0.0)

    return function


def state_by_state(world, old, new):
    old = old.detach().numpy()
    total = torch.tensor(world.objective(old), dtype=new.dtype)
    visits, q, v = world.state_occupancy(old), world.q_values(old), world.policy_value(old)
    for s in range(world.n_states):
        for a in range(world.n_actions):
            total = total + visits[s] * new[s, a] * (q[s, a] - v[s])
    return total


RIGHT["surrogate-gradient"] = [
    forecast(),
    forecast(choice=lambda old, new: new - old),
    forecast(choice=lambda old, new: old * (new / old)),
    state_by_state,
]
WRONG["surrogate-gradient"] = {
    "an argument is detached in place": lambda world, old, new: forecast()(
        world, old.requires_grad_(False), new
    ),
    "J of the old policy is missing": forecast(start=False),
    "J itself, not its forecast": [
        lambda world, old, new: world.objective(new),
        forecast(visits=lambda world, old, new: world.state_occupancy(new)),
    ],
    "it forecasts no change, ever": [
        forecast(worth=lambda world, old, new: world.advantages(new)),
        forecast(choice=lambda old, new: old + 0 * new),
    ],
    "what an action is worth, not how much better than usual": forecast(
        worth=lambda world, old, new: world.q_values(old)
    ),
    "the sign is turned round": forecast(sign=-1.0),
    "the visits are made a distribution": [
        forecast(visits=lambda world, old, new: world.state_occupancy(old) * (1 - world.gamma)),
        forecast(
            visits=lambda world, old, new: world.state_occupancy(old) / world.state_occupancy(old).sum()
        ),
    ],
    "every state counts alike": [
        forecast(visits=lambda world, old, new: torch.ones_like(old[:, 0])),
        forecast(visits=lambda world, old, new: torch.ones_like(old[:, 0]) / len(old)),
    ],
    "the ratio is upside down": forecast(choice=lambda old, new: old * old / new),
    "the logarithm of the ratio": [
        forecast(choice=lambda old, new: old * (new / old).log()),
        forecast(choice=lambda old, new: old * new.log()),
    ],
    "the old policy can move": forecast(frozen=False),
    "cut off from autograd": forecast(choice=lambda old, new: new.detach()),
    "a mean where a sum belongs": [
        forecast(visits=lambda world, old, new: world.state_occupancy(old) / len(old)),
        forecast(visits=lambda world, old, new: world.state_occupancy(old) / old.numel()),
    ],
    "a ratio, and no weight for how often": forecast(choice=lambda old, new: new / old - 1),
}
UNNAMED["surrogate-gradient"] = [
    forecast(visits=lambda world, old, new: world.state_occupancy(old) * (torch.arange(len(old)) == 0)),
    forecast(visits=lambda world, old, new: world.state_occupancy(old) * (torch.arange(len(old)) == 1)),
    forecast(choice=lambda old, new: new.clamp(min=0.1)),
    forecast(choice=lambda old, new: old * (new / old).clamp(0.8, 1.2)),
    lambda world, old, new: (
        world.objective(old).detach()
        + world.state_occupancy(old.detach())[:2] @ (new * world.advantages(old.detach()))[:2].sum(1)
    ),
    forecast(worth=lambda world, old, new: world.advantages(old).clamp(-1, 1)),
    forecast(worth=lambda world, old, new: world.advantages(old).abs()),
    lambda world, old, new: (
        world.objective(0.99 * old.detach() + 0.01 * new) * 100 - 99 * world.objective(old.detach())
    ),
    lambda world, old, new: (
        world.objective(old.detach()) + (world.objective(new) - world.objective(old.detach())).tanh()
    ),
    forecast(choice=lambda old, new: (new + old) / 2),
    lambda world, old, new: forecast()(world, old, new).bfloat16(),
]


# --- bound-size


def bound(
    *,
    distance: Callable[..., Any] = lambda old, new: (old * np.log(old / new)).sum(1),
    largest: Callable[..., Any] = np.max,
    epsilon: Callable[..., Any] = lambda worth: np.abs(worth).max(),
    constant: Callable[..., Any] = lambda gamma: 4 * gamma / (1 - gamma) ** 2,
    acting: bool = True,
    sign: float = -1.0,
    visits: Callable[..., Any] = lambda world, old, new: world.state_occupancy(old),
    forecast_sign: float = 1.0,
) -> Callable[..., Any]:
    def function(world, old, new):
        kept = ~world.terminal if acting else np.ones_like(world.terminal)
        worth = world.advantages(old)
        gain = visits(world, old, new) @ (new * worth).sum(1)
        price = constant(world.gamma) * epsilon(worth[~world.terminal])
        return forecast_sign * gain + sign * price * largest(distance(old, new)[kept])

    return function


def in_loops(world, old, new):
    worth, visits = world.advantages(old), world.state_occupancy(old)
    gain = far = size = 0.0
    for s in range(world.n_states):
        if world.terminal[s]:
            continue
        gain += visits[s] * sum(new[s, a] * worth[s, a] for a in range(world.n_actions))
        far = max(far, sum(p * (np.log(p) - np.log(q)) for p, q in zip(old[s], new[s], strict=True)))
        size = max(size, *(abs(x) for x in worth[s]))
    return gain - 4 * size * world.gamma * far / (1 - world.gamma) ** 2


def in_tensors(world, old, new):
    o, n = torch.tensor(old), torch.tensor(new)
    kl = torch.distributions.kl_divergence(
        torch.distributions.Categorical(probs=o), torch.distributions.Categorical(probs=n)
    )[torch.tensor(~world.terminal)]
    worth = world.advantages(o)
    price = 4 * worth.abs().max() * world.gamma / (1 - world.gamma) ** 2
    start = world.objective(o)  # L starts from J, and the gain leaves it out again
    return start + world.state_occupancy(o) @ ((n - o) * worth).sum(1) - start - price * kl.max()


def variation(old: Any, new: Any) -> Any:
    return np.abs(old - new).sum(1) / 2


def where_visited(share: float, *, worth: bool = False) -> Callable[..., Any]:
    """The largest KL, or the largest advantage, of those states alone that are visited more often."""

    def function(world, old, new):
        often = world.state_occupancy(old) > share
        kept = often if often.any() else ~world.terminal
        if worth:
            return bound(epsilon=lambda _: np.abs(world.advantages(old)[kept]).max())(world, old, new)
        return bound(acting=False, largest=lambda kl: kl[kept].max())(world, old, new)

    return function


def weighed_by_visits(world, old, new):
    worth, visits = world.advantages(old), world.state_occupancy(old)
    price = 4 * np.abs(worth).max() * world.gamma / (1 - world.gamma) ** 2
    return visits @ (new * worth).sum(1) - price * visits @ (old * np.log(old / new)).sum(1)


def of_the_new_choices(world, old, new):
    """The ε of a sharper bound."""
    worth = world.advantages(old)
    mean = (new * worth).sum(1)
    price = 4 * np.abs(mean).max() * world.gamma / (1 - world.gamma) ** 2
    return world.state_occupancy(old) @ mean - price * (old * np.log(old / new)).sum(1)[~world.terminal].max()


RIGHT["bound-size"] = [bound(), in_loops, in_tensors]
WRONG["bound-size"] = {
    "a mean KL, not the largest": [
        bound(largest=np.mean),
        bound(largest=np.mean, acting=False),
        bound(largest=np.sum),
        weighed_by_visits,
    ],
    "the KL the other way round": bound(distance=lambda old, new: (new * np.log(new / old)).sum(1)),
    "the states where nobody acts": bound(acting=False),
    "the total variation, not the KL": [
        bound(distance=variation),
        bound(distance=lambda o, n: variation(o, n) ** 2),
    ],
    "1 − γ is not squared": bound(constant=lambda gamma: 4 * gamma / (1 - gamma)),
    "γ is missing above": bound(constant=lambda gamma: 4 / (1 - gamma) ** 2),
    "the 4 is missing": bound(constant=lambda gamma: gamma / (1 - gamma) ** 2),
    "the 4 is a 2": bound(constant=lambda gamma: 2 * gamma / (1 - gamma) ** 2),
    "the largest advantage, not the largest in size": [
        bound(epsilon=np.max),
    ],
    "a mean advantage, not the largest": [
        bound(epsilon=lambda worth: np.abs(worth).mean()),
        of_the_new_choices,
    ],
    "the penalty is added, not taken off": bound(sign=1.0),
    "a forecast, not a promise": bound(sign=0.0),
    "the new policy is asked": [
        bound(visits=lambda world, old, new: world.state_occupancy(new)),
        lambda world, old, new: world.objective(new) - world.objective(old),
    ],
    "every state counts alike": [
        bound(visits=lambda world, old, new: np.ones(world.n_states)),
    ],
    "the sign of the forecast is turned round": bound(forecast_sign=-1.0),
    "it looks behind the curtain": lambda world, old, new: world.rewards,
    "the square stands in the wrong place": [
        bound(constant=lambda g: 4 * g**2 / (1 - g) ** 2),
        bound(constant=lambda g: 4 * g / (1 - g**2)),
    ],
    "the KL below zero": bound(distance=lambda o, n: (o * np.log(n / o)).sum(1)),
    "a forecast of nothing": bound(forecast_sign=0.0),
    "the visits are made a distribution": [
        bound(visits=lambda world, old, new: world.state_occupancy(old) * (1 - world.gamma)),
        bound(visits=lambda world, old, new: world.state_occupancy(old) / world.state_occupancy(old).sum()),
    ],
    "the new return, not the gain": lambda world, old, new: world.objective(old) + bound()(world, old, new),
}
UNNAMED["bound-size"] = [
    lambda world, old, new: max(0.0, bound()(world, old, new)),
    bound(constant=lambda gamma: 4 * 0.6 / 0.16),
    bound(constant=lambda gamma: 4 * gamma / (1 - min(gamma, 0.9)) ** 2),
    lambda world, old, new: in_loops(world, old, new) + 1e-3,
    bound(distance=lambda old, new: (old * np.log(old / new)).sum(1).clip(min=0.1)),
    bound(epsilon=lambda worth: np.abs(worth[0]).max()),
    bound(epsilon=lambda worth: -worth.min()),
    bound(largest=lambda kl: kl[0]),
    bound(epsilon=lambda worth: worth.max() - worth.min()),
    bound(distance=lambda old, new: ((new - old) ** 2 / old).sum(1) / 2),
    lambda world, old, new: bound()(world, old, new) * world.gamma**0.01,
    *(bound(largest=lambda kl, most=most: min(kl.max(), most)) for most in (1.0, 2.0)),
    bound(constant=lambda gamma: 4 * min(gamma, 0.99) / (1 - min(gamma, 0.99)) ** 2),
    *(where_visited(share) for share in (0.0, 1e-3, 0.1)),
    *(where_visited(share, worth=True) for share in (0.0, 1e-3, 0.1)),
]
