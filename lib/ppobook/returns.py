"""Discounted returns, n-step advantages and generalized advantage estimation.

Time is the last axis, and any axes may precede it: ``[T]`` for one environment, ``[N, T]`` for N. NumPy in,
NumPy out; torch in, torch out, detached, on the same device. `terminated` and `truncated` stay separate: the
value after a termination is 0, after a truncation that of the final observation.

r_t is the reward of the action at step t. (Sutton and Barto call it R_{t+1}.) Sums are taken in float64, as
rounding errors add up over the steps, by NumPy, which is quick at small steps on any device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ppobook import validation
from ppobook.validation import ArrayT


def discounted_returns(
    rewards: ArrayT,
    terminated: ArrayT | None = None,
    truncated: ArrayT | None = None,
    *,
    gamma: float,
    last_values: ArrayT | None = None,
    final_values: ArrayT | None = None,
) -> ArrayT:
    """The reward-to-go: the discounted sum of the rewards from each step to the end of its episode.

        G_t = r_t + γ G_{t+1}              within an episode
        G_t = r_t                          where it terminated
        G_t = r_t + γ V(s_final)           where it was truncated
        G_{T-1} = r_{T-1} + γ V(s_T)       where the rollout stops in mid-episode

    Left out, last_values and final_values are 0: a truncated episode then counts for the rewards that were
    seen, which is too little by what would have followed.

    Parameters
    ----------
    rewards : array or tensor, shape (..., T)
    terminated, truncated : shape (..., T), bool or 0/1, optional
        Where episodes ended, and how. Where both are set, terminated wins. Left out: False everywhere.
    gamma : float in [0, 1]
    last_values : shape (...), optional
        V of the observation after the last step. Not read (it may be NaN) where an episode ends in that step.
    final_values : shape (..., T), optional
        V of the final observation of a truncated episode; read where truncated only, elsewhere it may hold
        anything, NaN too.

    Returns
    -------
    array or tensor, shape (..., T)
        In the dtype of the arguments; a tensor comes back detached.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, a value that is not finite, flags that are not 0/1, gamma outside [0, 1],
        arrays and tensors mixed.

    References
    ----------
    Sutton and Barto 2018, "Reinforcement learning: an introduction", equations 3.8 and 3.9.
    """
    gamma = validation.number("gamma", gamma, low=0, high=1)
    like, r, last, final, terminated, truncated = _arguments(
        terminated, truncated, rewards=rewards, last_values=last_values, final_values=final_values
    )
    income = r + gamma * np.where(truncated, final, 0.0)
    discount = gamma * ~(terminated | truncated)  # 0 at the end of an episode
    returns = np.zeros_like(r)
    following = last
    for t in reversed(range(r.shape[-1])):
        following = income[..., t] + discount[..., t] * following
        returns[..., t] = following
    return _as(like, returns)


def n_step_advantages(
    rewards: ArrayT,
    values: ArrayT,
    terminated: ArrayT,
    truncated: ArrayT | None = None,
    final_values: ArrayT | None = None,
    *,
    n: int,
    gamma: float = 0.99,
) -> ArrayT:
    """The n-step advantage: n rewards, then the critic.

        Â_t = r_t + γ r_{t+1} + … + γ^{n-1} r_{t+n-1} + γ^n V(s_{t+n}) − V(s_t)

    Where fewer than n steps are left in the episode or the rollout, the sum stops there, with V as in `gae`:
    0 after a termination, `final_values` at a truncation. n = 1 gives the TD error. A large n relies on the
    rewards, a small one on the critic.

    Parameters
    ----------
    rewards, values, terminated, truncated, final_values, gamma
        As for `gae`.
    n : int
        At least 1. Any n above T gives the same as T.

    Returns
    -------
    array or tensor, shape (..., T)
        Detached. The n-step returns, targets for the critic, are these plus ``values[..., :-1]``.

    Raises
    ------
    ValueError, TypeError
        As `gae`; also an n that is not an integer above 0.

    References
    ----------
    Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning", section 4. Schulman et al. 2016,
    "High-dimensional continuous control using generalized advantage estimation", equation 14.
    """
    gamma = validation.number("gamma", gamma, low=0, high=1)
    n = validation.count("n", n)
    like, r, v, final, terminated, truncated = _arguments(
        terminated, truncated, rewards=rewards, values=values, final_values=final_values
    )
    next_values = np.where(truncated, final, v[..., 1:])
    deltas = r + gamma * np.where(terminated, 0.0, next_values) - v[..., :-1]
    discount = gamma * ~(terminated | truncated)
    # Â^(n)_t = δ_t + γ Â^(n-1)_{t+1}, for all t at once, n - 1 times.
    advantages = np.array(deltas)
    for _ in range(min(n, r.shape[-1]) - 1):
        advantages[..., :-1] = deltas[..., :-1] + discount[..., :-1] * advantages[..., 1:]
    return _as(like, advantages)


def gae(
    rewards: ArrayT,
    values: ArrayT,
    terminated: ArrayT,
    truncated: ArrayT | None = None,
    final_values: ArrayT | None = None,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
) -> tuple[ArrayT, ArrayT]:
    """Generalized advantage estimation (GAE), and the value targets that go with it.

        δ_t = r_t + γ V(s_{t+1}) − V(s_t)
        Â_t = δ_t + γ λ Â_{t+1}            with Â_{t+1} = 0 at the end of an episode

    An episode that *terminated* earns nothing afterwards, so V(s_{t+1}) is 0. One that was *truncated* would
    have gone on, so V(s_{t+1}) is the value of its final observation: that is final_values[t], not
    values[t + 1], which already belongs to the next episode.

    Parameters
    ----------
    rewards : array or tensor, shape (..., T)
    values : shape (..., T + 1)
        The last entry bootstraps a rollout that stops in mid-episode.
    terminated, truncated : shape (..., T), bool or 0/1
        Where both are set, terminated wins.
    final_values : shape (..., T)
        Required where truncated is set, and read there only; elsewhere it may hold anything, NaN too.
    gamma, lam : float in [0, 1]
        lam = 0 gives the TD error; lam = 1 the discounted return, bootstrapped where truncated, minus V(s_t).

    Returns
    -------
    advantages, returns : shape (..., T)
        returns = advantages + values[..., :-1], the TD(λ) targets for the critic. In the dtype of rewards and
        values; tensors come back detached.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, a value that is not finite, flags that are not 0/1, gamma or lam outside
        [0, 1], a truncated step without final_values, arrays and tensors mixed.

    References
    ----------
    Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation",
    equations 11 and 16.
    """
    gamma = validation.number("gamma", gamma, low=0, high=1)
    lam = validation.number("lam", lam, low=0, high=1)
    like, r, v, final, terminated, truncated = _arguments(
        terminated, truncated, rewards=rewards, values=values, final_values=final_values
    )
    next_values = np.where(truncated, final, v[..., 1:])
    deltas = r + gamma * np.where(terminated, 0.0, next_values) - v[..., :-1]
    discount = gamma * lam * ~(terminated | truncated)  # 0 at the end of an episode
    advantages = np.zeros_like(r)
    following = np.zeros(r.shape[:-1])
    for t in reversed(range(r.shape[-1])):
        following = deltas[..., t] + discount[..., t] * following
        advantages[..., t] = following
    return _as(like, advantages), _as(like, advantages + v[..., :-1])


def _arguments(terminated: Any, truncated: Any, **numbers: Any) -> tuple[Any, ...]:
    """Check the arguments: rewards as given, all numbers in float64 and both flags as NumPy arrays.

    Flags that are left out are False, numbers 0. Where both flags are set, terminated wins. Entries of
    final_values and last_values that are not read become 0: they may be NaN.
    """
    validation.one_library(**numbers, terminated=terminated, truncated=truncated)
    validation.present(rewards=numbers["rewards"])
    if "values" in numbers:
        validation.present(values=numbers["values"], terminated=terminated)
    given = dict(zip(numbers, validation.floats(**numbers), strict=True))
    rewards = given["rewards"]
    validation.last_axis("rewards", rewards, "time")
    shape, lead = tuple(rewards.shape), tuple(rewards.shape[:-1])

    ended = []
    for name, x in {"terminated": terminated, "truncated": truncated}.items():
        x = np.zeros(shape, bool) if x is None else validation.flags(name, x, shape, "one flag per step")
        ended.append(_numpy(x))
    terminated, truncated = ended[0], ended[1] & ~ended[0]
    if "values" in numbers and given["final_values"] is None and truncated.any():
        place = validation.place(truncated)
        raise ValueError(f"final_values must be given, as truncated is set at index {place}, got None")

    rows = {
        "rewards": (shape, True, "time last"),
        "values": ((*lead, shape[-1] + 1), True, "T + 1 values, the last for bootstrapping"),
        "final_values": (shape, truncated, "one value per step, read where truncated"),
        "last_values": (lead, ~(terminated | truncated)[..., -1:].any(-1), "one value per rollout"),
    }
    found = []
    for name, x in given.items():
        expected, read, why = rows[name]
        if x is None:
            found.append(np.zeros(expected))
            continue
        validation.shape(name, x, expected, why)
        x = _numpy(x).astype(np.float64, copy=False)
        validation.finite(name, x, where=read)
        found.append(x if read is True else np.where(read, x, 0.0))
    return rewards, *found, terminated, truncated


def _numpy(x: Any) -> np.ndarray:
    if not validation.is_tensor(x):
        return x
    x = x.detach().cpu()
    return (x.double() if x.is_floating_point() else x).numpy()  # NumPy has no bfloat16


def _as(like: Any, x: np.ndarray) -> Any:
    """x in the library, dtype and device of `like`."""
    if not validation.is_tensor(like):
        return x.astype(like.dtype, copy=False)
    import torch

    return torch.from_numpy(x).to(device=like.device, dtype=like.dtype)
