"""What a step was worth: discounted returns, n-step advantages, generalised advantage estimation.

Time is the last axis and any axes may stand before it: ``[T]`` for one environment, ``[N, T]`` for N.
NumPy in, NumPy out; torch in, torch out, detached, on the same device. `terminated` and `truncated` come
in separately and stay separate, because they say different things about the future: none, or one unseen.

r_t is what the action at step t earned. (Sutton and Barto call that reward R_{t+1}.) Every recursion here is
G_t = income_t + carry_t G_{t+1}, swept backwards once; only income and carry differ.
"""

from __future__ import annotations

import math
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
    """The discounted sum of the rewards from each step to the end of its episode: the reward-to-go.

        G_t = r_t + γ G_{t+1}              within an episode
        G_t = r_t                          where it terminated
        G_t = r_t + γ V(s_final)           where it was truncated
        G_{T-1} = r_{T-1} + γ V(s_T)       where the rollout stops in mid-episode

    Without a value to put there, an episode that was cut short counts for what was seen of it. That is all
    one can say without a value function, and it is too little by what would have followed.

    Parameters
    ----------
    rewards : array or tensor, shape (..., T)
    terminated, truncated : shape (..., T), bool or 0/1, optional
        Where episodes ended, and how. Where both are set, terminated wins. Left out: nowhere.
    gamma : float in [0, 1]
    last_values : shape (...), optional
        V of the observation after the last step. Not read (it may be NaN) where an episode ends in that step.
    final_values : shape (..., T), optional
        V of the observation an episode was cut at; read where truncated only, elsewhere it may hold anything.

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
    given = {"rewards": rewards, "last_values": last_values, "final_values": final_values}
    validation.one_library(**given, terminated=terminated, truncated=truncated)
    validation.present(rewards=rewards)
    r, last, final = validation.floats(**given)
    validation.last_axis("rewards", r, "time")
    validation.finite("rewards", r)
    layout = _Layout(r, gamma)
    ends = _Ends(layout, terminated, truncated)

    follows = np.zeros((layout.steps, layout.rollouts), layout.dtype)
    if last is not None:
        wanted = layout.shape[:-1]
        validation.shape("last_values", last, wanted, "one value a rollout, for what follows its last step")
        if layout.steps > 0:
            open_ended = ~(ends.terminated | ends.truncated)[-1]
            follows[-1] = layout.rows(last[..., None])[0]
            if not np.isfinite(follows[-1][open_ended]).all():
                validation.finite(
                    "last_values",
                    layout.rows(last[..., None]).reshape(wanted),
                    where=open_ended.reshape(wanted),
                )
    ends.put(follows, ends.final_values(final, required=False))
    # The value of what follows an end or the last step is part of that step's own income.
    income = layout.time_first(r) + gamma * follows
    return layout.back(_discounted_sum(income, ends.carry(gamma)))


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
    """The advantage estimated from n rewards and then the critic.

        Â_t = r_t + γ r_{t+1} + … + γ^{n-1} r_{t+n-1} + γ^n V(s_{t+n}) − V(s_t)

    Near the end of an episode, or of the rollout, there are fewer than n steps left: those there are, are
    taken, and V there is as in `gae`: 0 after a termination, `final_values` at a truncation. n = 1 is the
    TD error. A large n trusts the rewards, a small one the critic.

    Parameters
    ----------
    rewards, values, terminated, truncated, final_values, gamma
        As for `gae`.
    n : int
        At least 1. Any n beyond T is as good as T.

    Returns
    -------
    array or tensor, shape (..., T)
        Detached. The n-step returns, targets for a critic, are these plus ``values[..., :-1]``.

    Raises
    ------
    ValueError, TypeError
        As `gae`; also an n that is no whole number above 0.

    References
    ----------
    Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning", section 4. Schulman et al. 2016,
    "High-dimensional continuous control using generalized advantage estimation", equation 14.
    """
    gamma = validation.number("gamma", gamma, low=0, high=1)
    n = validation.count("n", n)
    layout, ends, _, deltas = _td_errors(rewards, values, terminated, truncated, final_values, gamma, gamma)
    # Â^(n)_t = δ_t + γ Â^(n-1)_{t+1}, for all t at once, n - 1 times.
    advantages, carry = deltas.copy(), ends.carry(gamma)
    for _ in range(min(n, layout.steps) - 1):
        advantages[:-1] = deltas[:-1] + carry[:-1] * advantages[1:]
    return layout.back(advantages)


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
    """Generalised advantage estimation, and the value targets that go with it.

        δ_t = r_t + γ V(s_{t+1}) − V(s_t)
        Â_t = δ_t + γ λ Â_{t+1}            cut at the end of an episode

    An episode that *terminated* earns nothing afterwards, so V(s_{t+1}) is 0. One that was *truncated*
    would have gone on, so V(s_{t+1}) is the value of the observation it was cut at, which the next entry
    of `values` is not: that one already belongs to the next episode.

    Parameters
    ----------
    rewards : array or tensor, shape (..., T)
    values : shape (..., T + 1)
        The last entry bootstraps a rollout that stops in mid-episode.
    terminated, truncated : shape (..., T), bool or 0/1
        Where both are set, terminated wins.
    final_values : shape (..., T)
        Read where truncated only; elsewhere it may hold anything.
    gamma, lam : float in [0, 1]
        lam = 0 gives the TD error; lam = 1 the discounted return, bootstrapped where it was cut, less V(s_t).

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
    layout, ends, v, deltas = _td_errors(
        rewards, values, terminated, truncated, final_values, gamma, gamma * lam
    )
    advantages = _discounted_sum(deltas, ends.carry(gamma * lam))
    return layout.back(advantages), layout.back(advantages + v[:-1])


def _td_errors(
    rewards: Any,
    values: Any,
    terminated: Any,
    truncated: Any,
    final_values: Any,
    gamma: float,
    memory: float,
) -> tuple[_Layout, _Ends, np.ndarray, np.ndarray]:
    """How the arguments lie in memory, where episodes end, values and δ; the last two [T, M], time first.

    `memory` is what a later δ counts in the sum a step earlier.
    """
    given = {"rewards": rewards, "values": values, "final_values": final_values}
    validation.one_library(**given, terminated=terminated, truncated=truncated)
    validation.present(rewards=rewards, values=values, terminated=terminated)
    r, v, final = validation.floats(**given)
    validation.last_axis("rewards", r, "time")
    layout = _Layout(r, memory)
    wanted = (*layout.shape[:-1], layout.steps + 1)
    validation.shape(
        "values", v, wanted, "one more than there are rewards: the last is for what follows them"
    )
    ends = _Ends(layout, terminated, truncated)
    final = ends.final_values(final, required=True)

    reward, value = layout.time_first(r), layout.time_first(v)
    with np.errstate(invalid="ignore", over="ignore"):
        deltas = gamma * value[1:]
        ends.put(deltas, gamma * final)
        deltas += reward
        deltas -= value[:-1]
        # Each number that was read is in a δ, or in the last row of values: if these are finite, all are.
        # A sum of squares looks at them in the least time; one that is not finite may have overflowed.
        if not math.isfinite(_squares(deltas) + _squares(value[-1])):
            validation.finite("rewards", r)
            validation.finite("values", v)
    return layout, ends, value, deltas


class _Layout:
    """From arguments of shape [..., T] to arrays [T, M], time first, M rollouts side by side; and back.

    Time first, each step of a recursion reads and writes one block of memory. A rollout is recorded in that
    order, so that its views of shape [N, T] come through without a copy. Tensors go through NumPy as well:
    the recursion takes many small steps, and NumPy takes each in a fraction of the time that a torch call
    does, on the CPU as on an accelerator.
    """

    def __init__(self, rewards: Any, memory: float) -> None:
        self.rewards = rewards
        self.shape = tuple(rewards.shape)
        self.steps = self.shape[-1]
        self.rollouts = math.prod(self.shape[:-1])
        # Rounding adds up from step to step, so sums are taken in float64. The exception are many short
        # rollouts whose sums forget: there it adds up to little, and arrays of half the size stay in the
        # processor's cache, which makes a factor of four.
        many_short = self.steps <= 128 and self.steps * self.rollouts > 2**15 and memory <= 0.98
        self.dtype: Any = np.float32 if many_short and rewards.dtype.itemsize <= 4 else np.float64

    def rows(self, x: Any) -> np.ndarray:
        """x, of shape [..., T'], as [T', M]; a view where that is possible."""
        if validation.is_tensor(x):
            x = x.detach().cpu()
            x = x.numpy() if x.dtype.itemsize != 2 else x.float().numpy()  # NumPy has no bfloat16
        x = x.T if x.ndim == 2 else np.moveaxis(x, -1, 0)
        return x.reshape(len(x), self.rollouts)

    def time_first(self, x: Any, dtype: Any = None) -> np.ndarray:
        """x, of shape [..., T'], as [T', M], contiguous, in the dtype computed in or the one told."""
        return np.ascontiguousarray(self.rows(x), dtype=dtype or self.dtype)

    def back(self, x: np.ndarray) -> Any:
        """x, [T, M], in the shape, kind, dtype and device of the rewards, and in their order in memory."""
        r = self.rewards
        x = x.T if r.ndim == 2 else np.moveaxis(x.reshape(self.steps, *self.shape[:-1]), 0, -1)
        if not validation.is_tensor(r):
            return np.array(x, dtype=r.dtype, order="C" if r.flags.c_contiguous else "K", copy=None)
        import torch

        tensor = torch.from_numpy(x).to(device=r.device, dtype=r.dtype)
        return tensor.contiguous() if r.is_contiguous() else tensor


class _Ends:
    """Where the episodes of a rollout end, [T, M], and how."""

    def __init__(self, layout: _Layout, terminated: Any, truncated: Any) -> None:
        self.layout = layout
        self.terminated = self._flags("terminated", terminated)
        self.truncated = self._flags("truncated", truncated)
        # Ends are few, as a rule, so it is their places that are kept: indices into the flattened [T, M].
        self.at = (self.terminated | self.truncated).reshape(-1).nonzero()[0]
        # Where both are set, terminated wins.
        self.truncated_at = self.at[~self.terminated.reshape(-1)[self.at]]

    def _flags(self, name: str, x: Any) -> np.ndarray:
        if x is None:
            return np.zeros((self.layout.steps, self.layout.rollouts), dtype=bool)
        return self.layout.time_first(validation.flags(name, x, self.layout.shape, "one flag a reward"), bool)

    def final_values(self, final: Any, *, required: bool) -> Any:
        """The final values where episodes were truncated, one for each of `truncated_at`."""
        if final is not None:
            validation.shape(
                "final_values", final, self.layout.shape, "one value a reward, read where truncated"
            )
            if len(self.truncated_at) == 0:
                return 0.0
            found = self.layout.rows(final)[divmod(self.truncated_at, self.layout.rollouts)]
            if not np.isfinite(found).all():
                # where= keeps an unread NaN out: multiplying by a mask would not.
                validation.finite("final_values", final, where=self._where_truncated(final))
            return found
        if required and len(self.truncated_at):
            where = self._where_truncated(None)
            raise ValueError(
                f"final_values is missing, and truncated is set at index {validation.place(where)}; "
                f"the value of the observation that the episode was cut at is wanted there"
            )
        return 0.0

    def put(self, following: np.ndarray, final: Any) -> None:
        """Write what follows each end: nothing after a termination, `final` after a truncation."""
        flat = following.reshape(-1)
        flat[self.at] = 0.0
        flat[self.truncated_at] = final

    def carry(self, factor: float) -> np.ndarray:
        """factor, and 0 where an episode ends."""
        layout = self.layout
        carry = np.full((layout.steps, layout.rollouts), factor, dtype=layout.dtype)
        carry.reshape(-1)[self.at] = 0.0
        return carry

    def _where_truncated(self, like: Any) -> Any:
        """The truncated steps in the shape and kind of the arguments."""
        layout = self.layout
        where = (self.truncated & ~self.terminated).reshape(layout.steps, *layout.shape[:-1])
        where = np.moveaxis(where, 0, -1)
        if not validation.is_tensor(like):
            return where
        import torch

        return torch.from_numpy(where).to(like.device)


def _discounted_sum(income: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """x_t = income_t + carry_t x_{t+1}, from the back, for all columns at once; x_T = 0. Overwrites both.

    Arrays are [T, M]. The chunked form is for long and narrow ones, where the steps cost more than the sums.
    """
    steps, rollouts = income.shape
    in_chunks = steps >= 64 and rollouts <= 256
    return _sum_in_chunks(income, carry) if in_chunks else _sum_step_by_step(income, carry)


def _sum_step_by_step(income: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """The definition: x_t = income_t + carry_t x_{t+1}, written over income."""
    if len(income) == 0:
        return income
    following, part = income[-1], np.empty_like(income[0])
    for income_t, carry_t in zip(income[-2::-1], carry[-2::-1], strict=True):
        np.multiply(carry_t, following, out=part)
        np.add(income_t, part, out=income_t)
        following = income_t
    return income


def _sum_in_chunks(income: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """The same sums with time cut into C chunks of L steps, swept side by side: in L + C steps, not L C.

    Within a chunk, what comes from behind it enters each x_t linearly:

        x_t = s_t + p_t y,    s_t = income_t + carry_t s_{t+1},    p_t = carry_t p_{t+1}

    where y is the x just behind the chunk, and s = 0, p = 1 there. First all s and p, for all chunks at once;
    then y, from chunk to chunk, from the back; then x everywhere.
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
    s = _sum_step_by_step(chunked(income), p)
    for p_t, behind in zip(p[-2::-1], p[:0:-1], strict=True):
        np.multiply(p_t, behind, out=p_t)
    y = np.zeros_like(s[0])
    for before, after, s_0, p_0 in zip(y[-2::-1], y[::-1], s[0, ::-1], p[0, ::-1], strict=False):
        np.multiply(p_0, after, out=before)
        np.add(before, s_0, out=before)
    p *= y
    s += p
    return s.swapaxes(0, 1).reshape(chunks * length, rollouts)[:steps]


def _squares(x: np.ndarray) -> float:
    flat = x.reshape(-1)
    return float(flat @ flat)
