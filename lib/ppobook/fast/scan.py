"""GAE by a scan over chunks of time: the fast form of `ppobook.returns.gae`.

It differs in three things: arrays lie in memory with time first, as a rollout stores them; ends of episodes,
which are few, are written by their indices; long and narrow rollouts are split into chunks that are scanned
side by side. Arguments are not checked, except that numbers are finite.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ppobook import returns


def gae(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    final_values: Tensor | None = None,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
) -> tuple[Tensor, Tensor]:
    """As `ppobook.returns.gae`, for tensors of one dtype and flags of dtype bool."""
    steps, rollouts = rewards.shape[-1], math.prod(rewards.shape[:-1])
    # Rounding errors add up over the steps, so sums are taken in float64. In many short rollouts with a small
    # γλ they stay small, and arrays of half the size fit into the processor's cache.
    many_short = steps <= 128 and steps * rollouts > 2**15 and gamma * lam <= 0.98
    dtype = torch.float32 if many_short and rewards.dtype.itemsize <= 4 else torch.float64

    def time_first(x: Tensor, dtype: torch.dtype = dtype) -> np.ndarray:
        """x, of shape [..., T], as a contiguous array [T, M]."""
        x = x.detach().movedim(-1, 0).reshape(x.shape[-1], rollouts)
        return x.to("cpu", dtype).contiguous().numpy()

    r, v = time_first(rewards), time_first(values)
    over = terminated if truncated is None else terminated | truncated
    ends = time_first(over, torch.bool).reshape(-1).nonzero()[0]
    truncations = ends[~time_first(terminated, torch.bool).reshape(-1)[ends]]

    # What is missing or not finite gets its error from the plain form.
    plain = partial(returns.gae, rewards, values, terminated, truncated, final_values, gamma=gamma, lam=lam)
    if len(truncations) and final_values is None:
        return plain()
    with np.errstate(invalid="ignore", over="ignore"):
        deltas = gamma * v[1:]
        flat = deltas.reshape(-1)
        flat[ends] = 0.0
        if final_values is not None:
            flat[truncations] = time_first(gamma * final_values).reshape(-1)[truncations]
        deltas += r
        deltas -= v[:-1]
        # Each number that was read is in a δ or in the last row of values.
        if not math.isfinite(_squares(deltas) + _squares(v[-1])):
            return plain()
    carry = np.full_like(deltas, gamma * lam)
    carry.reshape(-1)[ends] = 0.0
    advantages = discounted_sum(deltas, carry)

    def back(x: np.ndarray) -> Tensor:
        y = torch.from_numpy(x).reshape(steps, *rewards.shape[:-1]).movedim(0, -1)
        y = y.to(device=rewards.device, dtype=rewards.dtype)
        return y.contiguous() if rewards.is_contiguous() else y

    return back(advantages), back(advantages + v[:-1])


def discounted_sum(income: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """x_t = income_t + carry_t x_{t+1}, from the back, with x_T = 0; arrays [T, M]. Overwrites both."""
    steps, rollouts = income.shape
    in_chunks = steps >= 64 and rollouts <= 256  # where the loop costs more than the sums
    return sum_in_chunks(income, carry) if in_chunks else sum_step_by_step(income, carry)


def sum_step_by_step(income: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """The recursion as it stands, written over income."""
    for t in reversed(range(len(income) - 1)):
        income[t] += carry[t] * income[t + 1]
    return income


def sum_in_chunks(income: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """The same sums with time in C chunks of L steps, scanned side by side: L + C steps instead of L C.

    Within a chunk, each x_t is linear in y, the x just behind the chunk:

        x_t = s_t + p_t y,    s_t = income_t + carry_t s_{t+1},    p_t = carry_t p_{t+1}

    with s = 0 and p = 1 there. First all s and p, for all chunks at once; then y, chunk by chunk from the
    back; then all x.
    """
    steps, rollouts = income.shape
    chunks = max(1, round(steps**0.5))
    length = -(-steps // chunks)

    def chunked(x: np.ndarray) -> np.ndarray:
        """[T, M] as [L, C, M], with zeros after the last step."""
        padded = np.zeros((chunks * length, rollouts), x.dtype)
        padded[:steps] = x
        return np.ascontiguousarray(padded.reshape(chunks, length, rollouts).swapaxes(0, 1))

    p = chunked(carry)
    s = sum_step_by_step(chunked(income), p)
    for t in reversed(range(length - 1)):
        p[t] *= p[t + 1]
    y = np.zeros_like(s[0])
    for c in reversed(range(chunks - 1)):
        y[c] = s[0, c + 1] + p[0, c + 1] * y[c + 1]
    s += p * y
    return s.swapaxes(0, 1).reshape(chunks * length, rollouts)[:steps]


def _squares(x: np.ndarray) -> float:
    flat = x.reshape(-1)
    return float(flat @ flat)
