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
        In the dtype of rewards (integers: float64); a tensor comes back detached.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, a value that is not finite, flags that are not 0/1, gamma outside [0, 1].

    References
    ----------
    Sutton and Barto 2018, "Reinforcement learning: an introduction", equations 3.8 and 3.9.
    """
    gamma = validation.number("gamma", gamma, low=0, high=1)
    unseen: Any = np.zeros(np.shape(rewards)) if final_values is None else final_values
    r, done, cut, final = _steps(rewards, terminated, truncated, unseen)
    ended = done | cut
    last = np.zeros(r.shape[:-1])
    if last_values is not None:
        last = _numbers("last_values", last_values, last.shape, unread=ended[..., -1:].any(-1))

    income = r + gamma * final  # final is 0 except where truncated
    discount = gamma * ~ended
    returns = np.zeros_like(r)
    following = last
    for t in reversed(range(r.shape[-1])):
        following = income[..., t] + discount[..., t] * following
        returns[..., t] = following
    return _like(rewards, returns)


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
    r, done, cut, final = _steps(rewards, terminated, truncated, final_values)
    v = _values(values, r)
    deltas, _ = _gae(r, v, done, cut, final, gamma, lam=0.0)
    discount = gamma * ~(done | cut)
    # Â^(n)_t = δ_t + γ Â^(n-1)_{t+1}, for all t at once, n - 1 times.
    advantages = deltas.copy(order="K")
    for _ in range(min(n, r.shape[-1]) - 1):
        advantages[..., :-1] = deltas[..., :-1] + discount[..., :-1] * advantages[..., 1:]
    return _like(values, advantages)


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
        returns = advantages + values[..., :-1], the TD(λ) targets for the critic. In the dtype of values
        (integers: float64); tensors come back detached.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, a value that is not finite, flags that are not 0/1, gamma or lam outside
        [0, 1], a truncated step without final_values.

    References
    ----------
    Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation",
    equations 11 and 16.
    """
    gamma = validation.number("gamma", gamma, low=0, high=1)
    lam = validation.number("lam", lam, low=0, high=1)
    r, done, cut, final = _steps(rewards, terminated, truncated, final_values)
    v = _values(values, r)
    advantages, returns = _gae(r, v, done, cut, final, gamma, lam)
    return _like(values, advantages), _like(values, returns)


def _gae(
    rewards: np.ndarray,
    values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    final_values: np.ndarray,
    gamma: float,
    lam: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The recursion of `gae`, backwards in time (the last axis); no step is both terminated and truncated."""
    next_values = np.where(truncated, final_values, values[..., 1:])
    next_values = np.where(terminated, 0.0, next_values)
    deltas = rewards + gamma * next_values - values[..., :-1]
    discount = gamma * lam * ~(terminated | truncated)  # 0 at the end of an episode

    advantages = np.zeros_like(rewards)
    following = np.zeros(rewards.shape[:-1])
    for t in reversed(range(rewards.shape[-1])):
        following = deltas[..., t] + discount[..., t] * following
        advantages[..., t] = following
    return advantages, advantages + values[..., :-1]


def _steps(rewards: Any, terminated: Any, truncated: Any, final_values: Any) -> Any:
    """Rewards, flags and final values as NumPy arrays; final values are 0 except where truncated."""
    r = _numbers("rewards", rewards, np.shape(rewards))
    done = _flags("terminated", terminated, r.shape)
    cut = _flags("truncated", truncated, r.shape) & ~done
    if final_values is None:
        if cut.any():
            place = validation.place(cut)
            raise ValueError(f"final_values must be given, as truncated is set at index {place}, got None")
        return r, done, cut, np.zeros(r.shape)
    return r, done, cut, _numbers("final_values", final_values, r.shape, unread=~cut)


def _values(values: Any, rewards: np.ndarray) -> np.ndarray:
    """T + 1 values, the last for bootstrapping."""
    return _numbers("values", values, (*rewards.shape[:-1], rewards.shape[-1] + 1))


def _flags(name: str, x: Any, shape: tuple[int, ...]) -> np.ndarray:
    if x is None:
        return np.zeros(shape, bool)
    flags: np.ndarray = validation.flags(name, _numpy(x), shape, "one flag per step")
    return flags


def _numbers(name: str, x: Any, shape: tuple[int, ...], unread: np.ndarray | None = None) -> np.ndarray:
    """x in float64, of this shape and finite; entries that are not read become 0, since they may be NaN."""
    x = _numpy(x).astype(np.float64, copy=False)
    validation.shape(name, x, shape, "which fits the shape of rewards")
    if unread is not None:
        x = np.where(unread, 0.0, x)
    validation.finite(name, x)
    return x


def _numpy(x: Any) -> np.ndarray:
    if validation.is_tensor(x):
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()  # NumPy has no bfloat16
    return np.asarray(x)


def _like(given: Any, x: np.ndarray) -> Any:
    """x in the library, dtype and device of the argument `given`; for integers, in float64."""
    if not validation.is_tensor(given):
        kind = np.asarray(given).dtype
        return x.astype(kind, copy=False) if kind.kind == "f" else x
    import torch

    found = torch.from_numpy(x).to(given.device)
    return found.to(given.dtype) if given.is_floating_point() else found
