"""The check of reward-to-go."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Property, as_array, close, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER

STEPS = 7


@CHAPTER.check("reward-to-go", section="sec-reward-to-go")
def reward_to_go(answer: Answer) -> Findings:
    # One environment, seven steps: steps 0-2 are an episode that terminates, 3-4 one that is truncated, and
    # step 5 opens one that the rollout leaves unfinished. Everything is linear, so it is enough to know
    # what a single reward of 1, or a single value of 1, does.
    terminated = torch.tensor([[False, False, True, False, False, False, False]])
    truncated = torch.tensor([[False, False, False, False, True, False, False]])
    nothing, one = torch.zeros(1, STEPS), torch.eye(STEPS)[:, None, :]

    def ask(rewards: Tensor, values: Tensor, over: Tensor = terminated) -> np.ndarray:
        rows = len(rewards)
        back = answer(rewards, over.expand(rows, -1), truncated.expand(rows, -1), values, 0.5)
        return as_array(back, tuple(rewards.shape), "your result", finite=False)

    # [k, t]: what a reward of 1 at step k, and a value of 1 behind it, adds to G_t.
    reward = np.array([ask(one[k], nothing)[0] for k in range(STEPS)])
    value = np.array([ask(nothing, one[k])[0] for k in range(STEPS)])
    two = torch.zeros(2, STEPS)
    two[0, 0] = 1.0
    other = ask(two, torch.zeros(2, STEPS))[1]
    lost = 1 if reward[2, 1] == 0 else 3  # a step that does not hear of the reward after it
    runs_on = reward[3, 2] != 0 or reward[5, 4] != 0
    yield from recognise(
        reward,
        {
            "environments are mixed": np.abs(other).max() > 1e-6,
            "one number for the whole rollout": np.abs(reward[2, 3:]).max() > 1e-6
            and np.abs(reward[3, :3]).max() > 1e-6,
            "an action is credited with the past": reward[0, 1] != 0 or reward[1, 2] != 0,
            "the done mask is shifted by one step": runs_on and (reward[2, 1] == 0 or reward[4, 3] == 0),
            "the done mask is missing": reward[3, 2] != 0,
            "a truncated episode runs on into the next": reward[5, 4] != 0,
            "gamma is not used": close(reward[1, 0], 1.0) and close(reward[2, 0], 1.0),
            "discounted from the start, not from the action": close([reward[0, 0], reward[1, 1]], [1, 0.5]),
            "the last step's own reward is left out": reward[6, 6] == 0,
        },
        lost=lost,
        after=lost + 1,
        own=reward[1, 1],
        first=reward[0],
        third=reward[3],
        fifth=reward[5],
        last=reward[6],
    )
    both = terminated | truncated
    yield from recognise(
        value,
        {
            "a terminal state is given a future": value[2].any(),
            "next_values is read one step off": not value[4, 4] and (value[3, 4] != 0 or value[5, 4] != 0),
            "a value is added where nothing was truncated": value[[0, 1, 3, 5]].any(),
            "a truncation is taken for an end": not value[:, 4].any(),
            "the end of the rollout is taken for the end of the episode": not value[6].any(),
            "a value is not discounted": close(value[4, 4], 1.0) or close(value[6, 6], 1.0),
            "where both flags are set, truncation wins": ask(nothing, one[4], over=both)[0].any(),
        },
        second=value[2],
        middle=value[[0, 1, 3, 5]].sum(0),
        step=4 if close(value[4, 4], 1.0) else 6,
    )
    # nan wherever next_values may hold anything: in mid-episode, and behind a step that terminated, be it the
    # last column or one that is flagged as truncated too.
    last = torch.tensor([[False, False, True, False, False, False, True]])
    for over, meant in ((terminated, [4, 6]), (last, [4]), (both, [6])):
        holes = torch.full((1, STEPS), float("nan"))
        holes[0, meant] = 0.0
        back = ask(torch.ones(1, STEPS), holes, over)
        yield from recognise(back, {"next_values is read where it says nothing": bool(np.isnan(back).any())})
    example = ask(torch.tensor([[1.0, 2.0, 4.0, 0.0, 0.0, 0.0, 0.0]]), nothing)[0, :3]
    yield Property(
        "three rewards 1, 2, 4 with gamma = 1/2 are worth 1 + 1 + 1 at the first, 2 + 2 at the second",
        close(example, [3.0, 4.0, 4.0]),
        f"they get {numbers(example)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = rng.integers(1, 6), rng.choice([1, 2, 3, 4, 5, 200])
        terminated, truncated = rng.random((2, *shape)) < rng.choice([0, 0.3, 0.3])
        read = truncated.copy()
        read[:, -1] = True
        values = rng.choice([0.1, 1, 1e6]) * rng.normal(size=shape)
        anything = rng.choice([[np.nan, 7], [np.inf, -np.inf], [1e6, 1e6]])[rng.integers(2, size=shape)]
        return {
            "rewards": rng.choice([0.1, 1, 100]) * rng.normal(size=shape),
            "terminated": terminated,
            "truncated": truncated,
            "next_values": np.where(read & ~terminated, values, anything),
            "gamma": float(rng.choice([0, 0.5, 0.9, 0.99, 1])),
        }

    def slow(p: Problem) -> np.ndarray:
        """Each entry by itself: forwards, reward by reward, until its episode stops."""
        worth = np.zeros(p.rewards.shape)
        for n, t in np.ndindex(worth.shape):
            for ahead, reward in enumerate(p.rewards[n, t:]):
                worth[n, t] += p.gamma**ahead * reward
                if p.terminated[n, t + ahead]:
                    break
                if p.truncated[n, t + ahead] or t + ahead == p.rewards.shape[1] - 1:
                    worth[n, t] += p.gamma ** (ahead + 1) * p.next_values[n, t + ahead]
                    break
        return worth

    yield agrees(answer, slow, random_problems(draw, 40))
