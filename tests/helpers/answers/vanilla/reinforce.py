"""Answers to a whole REINFORCE, as readers might write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- reinforce


def learner(
    *,
    sign: float = 1.0,
    masked: bool = True,
    masked_pushes: bool = True,
    whole_return: bool = False,
    policy: str = "fresh",
    dice: Callable[..., Any] = lambda rng, seed, update: rng,
    baseline: bool = True,
    by_state: bool = False,
    left_out: bool = False,
    by_action: bool = False,
    gamma: float | None = None,
    weighted: bool = False,
    alone: bool = False,
    kept: slice = slice(None),
    first_visits: bool = False,
    paid: Callable[..., Any] = lambda batch: batch.rewards,
    score: Callable[..., Any] = np.subtract,
    played: Callable[..., Any] = lambda probs: probs,
    rate: Callable[..., Any] = lambda given: given,
    limit: float = np.inf,
    box: float = np.inf,
    momentum: float = 0.0,
    entropy: float = 0.0,
    decay: float = 0.0,
    share: float = 1.0,
    slower: bool = False,
    shorter: float = 1.0,
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
        size, speed, drift = np.zeros_like(logits), np.zeros_like(logits), np.zeros_like(logits)
        first = stale = np.full_like(logits, 1 / world.n_actions)
        discount = world.gamma if gamma is None else gamma
        if peek:
            getattr(world, peek)
        for update in range(updates):
            probs = np.exp(logits - logits.max(1, keepdims=True))
            probs /= probs.sum(1, keepdims=True)
            own = {"fresh": played(probs), "first": first, "stale": stale}[policy]
            batch = world.sample_episodes(own, int(share * episodes), dice(rng, seed, update))
            stale, rewards = probs, paid(batch)
            mask = batch.mask if masked else np.ones_like(batch.mask)
            to_go = np.zeros(batch.rewards.shape)
            ahead = np.zeros(len(mask))
            for t in reversed(range(to_go.shape[1])):
                ahead = np.where(mask[:, t], rewards[:, t] + shorter * discount * ahead, 0.0)
                to_go[:, t] = ahead
            if alone:
                to_go = np.where(mask, rewards, 0.0)
            if whole_return:
                to_go[:] = to_go[:, :1]
            if left_out:  # the mean over the other episodes
                to_go = (to_go - to_go.mean(0)) * len(to_go) / (len(to_go) - 1)
            if not masked_pushes:
                mask = np.ones_like(batch.mask)
            steps = np.arange(mask.shape[1])
            mask = mask & np.isin(steps, steps[kept])
            if first_visits:
                same = batch.states[:, :, None] == batch.states[:, None, :]
                mask = mask & ~np.tril(same, -1).any(2)
            s, a, g = batch.states[mask], batch.actions[mask], to_go[mask]
            if by_action:
                pair = 2 * s + a
                g = g - (np.bincount(pair, g) / np.maximum(np.bincount(pair), 1))[pair]
            if by_state:
                g = g - (np.bincount(s, g) / np.maximum(np.bincount(s), 1))[s]
            elif baseline and not left_out:
                g = g - g.mean()
            if normalised:
                g = g / (g.std() + 1e-8)
            if weighted:
                g = g * world.gamma ** np.nonzero(mask)[1]
            push, g = np.zeros_like(logits), g.clip(-limit, limit)
            np.add.at(push, s, g[:, None] * score(np.eye(probs.shape[1])[a], probs[s]))
            push *= sign / {"episode": len(batch.mask), "step": mask.sum(), "batch": 1}[per]
            if adam:
                speed, size = 0.9 * speed + 0.1 * push, 0.999 * size + 0.001 * push**2
                fair = 1 - 0.9 ** (update + 1), 1 - 0.999 ** (update + 1)
                push = speed / fair[0] / (np.sqrt(size / fair[1]) + 1e-8)
            surprise = np.log(probs) - (probs * np.log(probs)).sum(1, keepdims=True)
            push = push - entropy * probs * surprise - decay * logits
            drift = momentum * drift + push
            pace = rate(learning_rate) * (1 - update / updates if slower else 1)
            logits = (logits + pace * drift).clip(-box, box)
        raised = np.exp(logits - logits.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True) if returns_probs else logits

    return function


def with_a_graph(world, updates, episodes, learning_rate, seed):
    return torch.tensor(learner()(world, updates, episodes, learning_rate, seed), requires_grad=True)


def constant(world, updates, episodes, learning_rate, seed):
    """Looks at every batch, and has known before."""
    learner()(world, updates, episodes, learning_rate, seed)
    table = np.zeros((world.n_states, 2))
    table[1:-1, 1] = 5.0
    return table


RIGHT["reinforce"] = [
    learner(),
    learner(by_state=True),
    learner(baseline=False),
    learner(start=1.0),  # the same policy as from zero
    learner(score=lambda taken, probs: taken, by_state=True),  # what it leaves out adds up to zero
    learner(dice=lambda rng, seed, update: int(rng.integers(1000))),
    learner(left_out=True),
    learner(weighted=True),  # with γ^t, the very gradient of the discounted return
    with_a_graph,
]
WRONG["reinforce"] = {
    "no batch is sampled": lambda world, *_: np.tile([-1.0, 1.0], (world.n_states, 1)),
    "nothing is learned": [learner(by_action=True), learner(sign=0.0)],
    "what the episodes held makes no difference": constant,
    "discounted by another gamma than the world's": [
        *(learner(gamma=g) for g in (1.0, 0.99, 0.9)),
        learner(shorter=0.9),
    ],
    "only the reward of the step itself": learner(alone=True),
    "the last step teaches nothing": learner(kept=slice(-1)),
    "the logits move where nothing is earned": [
        learner(momentum=0.9),
        learner(entropy=0.01),
        learner(decay=0.01),
    ],
    "the step grows or shrinks on the way": learner(slower=True),
    "a sum over episodes, not a mean": learner(per="batch"),
    "averaged over steps, not over episodes": learner(per="step"),
    "something else sets the length of the step": [learner(adam=True), learner(normalised=True)],
    "it does not begin with the even policy": learner(start=-3.0),
    "probabilities, not logits": learner(returns_probs=True),
    "it learns the wrong way": learner(sign=-1.0),
    "padding is counted as steps": [learner(masked=False), learner(masked_pushes=False)],
    "every batch comes from the first policy": learner(policy="first"),
    "an action is credited with the past": learner(whole_return=True),
    "the same random numbers for several batches": [
        learner(dice=lambda rng, seed, update: seed),
        learner(dice=lambda rng, seed, update: np.random.default_rng(seed + update // 2)),
    ],
    "it looks behind the curtain": [
        learner(peek="optimal_policy"),
        learner(peek="R"),
        learner(peek="q_values"),
    ],
}


# --- what only a property refuses


def two_batches(world, updates, episodes, learning_rate, seed):
    return learner()(world, 2 * updates, episodes, learning_rate / 2, seed)


def twice_as_far(world, updates, episodes, learning_rate, seed):
    return learner()(world, updates, episodes, 2 * learning_rate, seed)


def one_too_few(world, updates, episodes, learning_rate, seed):
    return learner()(world, updates - 1, episodes, learning_rate, seed)


def always_the_same(world, updates, episodes, learning_rate, seed):
    return learner()(world, updates, episodes, learning_rate, 0)


def its_own_dice(world, updates, episodes, learning_rate, seed):
    return learner()(world, updates, episodes, learning_rate, None)


UNNAMED["reinforce"] = [
    *(two_batches, twice_as_far, its_own_dice, one_too_few, always_the_same, learner(share=0.5)),
    *(learner(rate=rate) for rate in (lambda given: 1.0, np.square, np.sqrt)),
    *(learner(limit=5), learner(box=1), learner(box=3)),
    # The score at another policy, or without one. At the even policy there is no difference.
    *(learner(score=lambda taken, probs: taken, baseline=baseline) for baseline in (False, True)),
    learner(score=lambda taken, probs: taken - 1 / probs.shape[1]),
    learner(score=lambda taken, probs: 2 * (taken - probs) * (taken * probs).sum(1, keepdims=True)),
    # Played by another policy than the one that learns.
    learner(played=lambda probs: 0.9 * probs + 0.1 / probs.shape[1]),
    learner(played=lambda probs: probs**2 / (probs**2).sum(1, keepdims=True)),
    learner(policy="stale"),
    # Parts of an episode.
    *(learner(kept=kept) for kept in (slice(1, None), slice(20))),
    learner(first_visits=True),
    learner(paid=lambda batch: batch.rewards * np.pad(batch.mask[:, 1:], ((0, 0), (0, 1)))),
]
