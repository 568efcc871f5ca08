"""Answers to reward-to-go, as readers might write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


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


def last_is_the_value(rewards, terminated, truncated, next_values, gamma):
    result, ahead = torch.zeros_like(rewards), torch.where(terminated[:, -1], 0.0, next_values[:, -1])
    result[:, -1] = ahead
    for t in reversed(range(rewards.shape[1] - 1)):
        ahead = torch.where(truncated[:, t], next_values[:, t], ahead)
        ahead = rewards[:, t] + gamma * torch.where(terminated[:, t], 0.0, ahead)
        result[:, t] = ahead
    return result


def undiscounted_at_the_edge(rewards, terminated, truncated, next_values, gamma):
    edge = torch.zeros_like(truncated)
    edge[:, -1] = ~truncated[:, -1]
    return flawed()(
        rewards, terminated, truncated, torch.where(edge, next_values / gamma, next_values), gamma
    )


RIGHT["reward-to-go"] = [one_number_at_a_time, by_masks, flawed()]
WRONG["reward-to-go"] = {
    "the done mask is missing": [flawed(mask_end=False), flawed(mask_end=False, mask_cut=False)],
    "a truncated episode runs on into the next": flawed(mask_cut=False, value_at_cut=False),
    "a truncation is taken for an end": flawed(value_at_cut=False),
    "the end of the rollout is taken for the end of the episode": flawed(value_at_edge=False),
    "a terminal state is given a future": flawed(value_at_end=True),
    "a value is added where nothing was truncated": flawed(value_everywhere=True),
    "a value is not discounted": [flawed(discount_value=False), undiscounted_at_the_edge],
    "next_values is read where it says nothing": [
        lambda r, end, cut, v, gamma: flawed()(r, end, cut, v[:, -1:].expand_as(v), gamma),
        flawed(by_product=True),
        masked_by_multiplying,
        multiplied_where_both_are_set,
    ],
    "where both flags are set, truncation wins": flawed(truncation_wins=True),
    "gamma is not used": lambda r, end, cut, v, gamma: flawed()(r, end, cut, v, 1.0),
    "an action is credited with the past": lambda r, end, cut, v, gamma: r.cumsum(1),
    "one number for the whole rollout": lambda r, end, cut, v, gamma: r.sum(1, keepdim=True).expand_as(r),
    "environments are mixed": lambda r, end, cut, v, gamma: r.flip(0).cumsum(0).flip(0) + r.flip(0).cumsum(0),
    "the done mask is shifted by one step": [
        shifted(1),
        shifted(1, cuts=False),
        shifted(-1),
        shifted(-1, cuts=False),
        shifted(-1, ends=False),
    ],
    "discounted from the start, not from the action": from_the_start,
    "an argument is overwritten": in_place,
    "next_values is read one step off": [
        lambda r, end, cut, v, gamma: flawed()(r, end, cut, v.roll(-1, 1), gamma),
        lambda r, end, cut, v, gamma: flawed()(r, end, cut, v.roll(1, 1), gamma),
    ],
    "the last step's own reward is left out": last_is_the_value,
}


# --- what only the last property refuses: the flags of one row for all, and nan made a number


def for_all_rows(choose):
    def function(rewards, terminated, truncated, next_values, gamma):
        flags = [choose(flag).expand_as(flag) for flag in (terminated, truncated & ~terminated)]
        return flawed()(rewards, *flags, next_values.nan_to_num(), gamma)

    return function


def bootstrapped_at_the_edge(rewards, terminated, truncated, next_values, gamma):
    values, ahead = next_values.nan_to_num(), next_values.nan_to_num()[:, -1]
    result = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[1])):
        ahead = torch.where(truncated[:, t], values[:, t], ahead)
        if t < rewards.shape[1] - 1 or rewards.shape[1] == 7:
            ahead = torch.where(terminated[:, t], 0.0, ahead)
        ahead = rewards[:, t] + gamma * ahead
        result[:, t] = ahead
    return result


def by_powers(rewards, terminated, truncated, next_values, gamma):
    """Right in short rollouts: in long ones the powers vanish."""
    if (terminated | truncated).any():
        return flawed()(rewards, terminated, truncated, next_values, gamma)
    powers, income = gamma ** torch.arange(rewards.shape[1]), rewards.clone()
    income[:, -1] += gamma * next_values[:, -1]
    return (income * powers).flip(1).cumsum(1).flip(1) / powers


UNNAMED["reward-to-go"] = [
    by_powers,
    lambda r, end, cut, v, gamma: gamma * flawed()(r, end, cut, v, gamma),
    lambda r, end, cut, v, gamma: masked_by_multiplying(r, end, cut, v.nan_to_num(posinf=torch.inf), gamma),
    for_all_rows(lambda flag: flag.any(0, keepdim=True)),
    for_all_rows(lambda flag: flag.all(0, keepdim=True)),
    for_all_rows(lambda flag: flag[:1]),
    bootstrapped_at_the_edge,
    lambda r, end, cut, v, gamma: flawed()(r, end, cut, v.clamp(-50, 50), gamma),
]
