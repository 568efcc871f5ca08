"""Right and wrong answers to n-step advantages, their weights, and what a critic is judged by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


# --- n-step


def n_step(
    *,
    more: int = 0,
    fixed: int | None = None,
    discount: float | None = None,
    first_power: int = 0,
    mask: bool = True,
    value_at_end: bool = False,
    value_behind: Any = 0,
    edge: bool = True,
    power: Callable[[int, int], int] = lambda n, seen: seen,
    subtract: bool = True,
    drop_last: bool = False,
) -> Callable[..., Any]:
    """n-step advantages with one part changed."""

    def function(rewards, values, terminated, n, gamma):
        steps, out = len(rewards), []
        n = (n if fixed is None else fixed) + more
        g = gamma if discount is None else discount
        for t in range(steps):
            total, seen, ended = 0.0, 0, False
            for k in range(t, min(t + n, steps)):
                if not (drop_last and terminated[k]):
                    total += g ** (seen + first_power) * rewards[k]
                seen += 1
                if terminated[k] and mask:
                    ended = True
                    break
            at = t + seen
            whole = seen == n
            if value_behind is not None and (not ended or value_at_end) and (edge or at < steps):
                place = min(max(at + (value_behind if whole and not ended else 0), 0), steps)
                total += g ** power(n, seen) * values[place]
            out.append(total - (values[t] if subtract else 0))
        return np.array(out)

    return function


def by_errors(rewards, values, terminated, n, gamma):
    deltas = rewards + gamma * np.where(terminated, 0, values[1:]) - values[:-1]
    result = deltas.copy()
    for _ in range(min(n, len(rewards)) - 1):
        result[:-1] = deltas[:-1] + gamma * ~terminated[:-1] * result[1:]
    return result


def in_torch(rewards, values, terminated, n, gamma):
    r, v = torch.tensor(rewards), torch.tensor(values)
    out = torch.zeros(len(r), dtype=v.dtype)
    for t in range(len(r)):
        last = min(t + n, len(r))
        ends = [k for k in range(t, last) if terminated[k]]
        stop = ends[0] + 1 if ends else last
        powers = gamma ** torch.arange(stop - t)
        out[t] = (powers * r[t:stop]).sum() - v[t]
        if not ends:
            out[t] += gamma ** (last - t) * v[last]
    return out


def backwards_n(rewards, values, terminated, n, gamma):
    flipped = n_step()(rewards[::-1], values, terminated[::-1], n, gamma)
    return flipped[::-1] + 0.0


def only_whole(rewards, values, terminated, n, gamma):
    found = n_step()(rewards, values, terminated, n, gamma)
    found[len(found) - n + 1 :] = 0 if n > 1 else found[len(found) :]
    return found


def looking_too_far(rewards, values, terminated, n, gamma):
    found = n_step()(rewards, values, terminated, n, gamma)
    for t in range(len(rewards) - n):
        if terminated[t + n] and not terminated[t : t + n].any():
            found[t] -= gamma**n * values[t + n]
    return found


RIGHT["n-step"] = [n_step(), by_errors, in_torch, lambda *args: list(by_errors(*args))]
WRONG["n-step"] = {
    "an action is credited with the past": [
        backwards_n,
        lambda r, v, over, n, gamma: n_step()(r, v, over, n, gamma).cumsum(),
    ],
    "n is not used": [n_step(fixed=100), n_step(fixed=2)],
    "the sum runs on into the next episode": n_step(mask=False),
    "one reward too few": [
        n_step(fixed=1),
        lambda r, v, over, n, gamma: n_step()(r, v, over, max(n - 1, 1), gamma),
    ],
    "one reward too many": lambda r, v, over, n, gamma: n_step()(r, v, over, n if n == 1 else n + 1, gamma),
    "the steps near the end are left out": only_whole,
    "an episode's last reward is left out": n_step(drop_last=True),
    "gamma is not used": n_step(discount=1.0),
    "discounted once too often": n_step(first_power=1),
    "the value of the state is not subtracted": n_step(subtract=False),
    "a terminal state is given a future": n_step(value_at_end=True),
    "nothing follows the n rewards": n_step(value_behind=None),
    "a termination behind the n rewards takes their value away": looking_too_far,
    "the value behind the n rewards is read one step off": [
        n_step(value_behind=-1),
        n_step(value_behind=1),
    ],
    "the end of the rollout is taken for the end of the episode": n_step(edge=False),
    "the value has the wrong power of gamma": [
        n_step(power=lambda n, seen: 0),
        n_step(power=lambda n, seen: seen - 1),
        n_step(power=lambda n, seen: seen + 1),
    ],
    "near the end the power of gamma is still n": n_step(power=lambda n, seen: n),
}
UNNAMED["n-step"] = [
    n_step(discount=0.5),
    lambda r, v, over, n, gamma: n_step()(r, v, over, min(n, 2), gamma),
    lambda r, v, over, n, gamma: n_step()(r, v, over, min(n, 3), gamma),
    lambda r, v, over, n, gamma: n_step()(r, v, over, min(n, 20), gamma),
    lambda r, *rest: n_step()(r.clip(-9, 9), *rest),
    lambda r, v, *rest: n_step()(r, -v, *rest) - 2 * v[:-1],
]


# --- lambda-weights


def weights(
    *, front: bool = True, shift: int = 0, last: str = "rest", flip: bool = False, swap: bool = False
) -> Callable[..., Any]:
    def function(steps, lam):
        lam = 1 - lam if swap else lam
        found = (1 - lam if front else 1) * lam ** (np.arange(steps) + shift)
        if last == "rest":
            found[-1] = lam ** (steps - 1)
        elif last == "spread":
            found = found / found.sum()
        elif last == "one too far":
            found[-1] = lam**steps
        return found[::-1] + 0.0 if flip else found

    return function


def broken_stick(steps, lam):
    found, left = [], 1.0
    for _ in range(steps - 1):
        found.append((1 - lam) * left)
        left *= lam
    return [*found, left]


RIGHT["lambda-weights"] = [
    weights(),
    broken_stick,
    lambda steps, lam: torch.tensor(broken_stick(steps, lam)),
    lambda steps, lam: -np.diff([*(lam**n for n in range(steps)), 0.0]),
    lambda steps, lam: [(1 if n == steps else 1 - lam) * lam ** (n - 1) for n in range(1, steps + 1)],
]
WRONG["lambda-weights"] = {
    "the rest of the weight is lost": weights(last=""),
    "the rest of the weight is spread over all": [
        weights(last="spread"),
        lambda steps, lam: weights(front=False, last="spread")(steps, lam),
    ],
    "the weights of TD errors": weights(front=False, last=""),
    "lam and 1 - lam are exchanged": [weights(swap=True), weights(swap=True, last="")],
    "one power of lam too many": [weights(shift=1, last=""), weights(shift=1, last="one too far")],
    "the order is turned round": [weights(flip=True), weights(flip=True, last="")],
    "all weigh the same": lambda steps, lam: np.ones(steps) / steps,
    "the last one has the wrong rest": [
        weights(last="one too far"),
        lambda steps, lam: [*weights()(steps, lam)[:-1], 1.0],
    ],
}
UNNAMED["lambda-weights"] = [
    lambda steps, lam: weights()(steps, 0.8),
    lambda steps, lam: weights()(steps, min(max(lam, 0.01), 0.99)),
    lambda steps, lam: weights()(steps, lam) if steps > 1 else np.array([1 - lam]),
]


# --- critic-report


def report(
    targets: Callable[[Any, Any], Any] = lambda a, v: a + v[:, :-1],
    explained: Callable[[Any, Any], Any] = lambda t, v: 1 - (t - v).var() / t.var(),
) -> Callable[..., Any]:
    """The share is that of the right targets, whatever targets come back."""

    def function(advantages, values):
        right = advantages + values[:, :-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = explained(right, values[:, :-1]) if right.var() > 0 else float("nan")
        return targets(advantages, values), share

    return function


def report_in_torch(advantages, values):
    a, v = torch.tensor(advantages), torch.tensor(values)
    targets = a + v[:, :-1]
    if targets.max() == targets.min():
        return targets, torch.tensor(float("nan"))
    return targets, 1 - a.var() / targets.var()


def report_by_loops(advantages, values):
    targets = [
        [float(a) + float(v) for a, v in zip(x, y, strict=False)]
        for x, y in zip(advantages, values, strict=True)
    ]
    flat, errors = [t for row in targets for t in row], [float(a) for row in advantages for a in row]

    def spread(x):
        mean = sum(x) / len(x)
        return sum((y - mean) ** 2 for y in x)

    return [targets, 1 - spread(errors) / spread(flat) if spread(flat) else float("nan")]


RIGHT["critic-report"] = [report(), report_in_torch, report_by_loops]
WRONG["critic-report"] = {
    "the advantages themselves are the targets": report(targets=lambda a, v: a + 0.0),
    "the values themselves are the targets": report(targets=lambda a, v: v[:, :-1] + 0.0),
    "the advantages are subtracted": [
        report(targets=lambda a, v: v[:, :-1] - a),
        report(targets=lambda a, v: a - v[:, :-1]),
    ],
    "the values are read one step off": report(targets=lambda a, v: a + v[:, 1:]),
    "the share that is left, not the share that is explained": report(
        explained=lambda t, v: (t - v).var() / t.var()
    ),
    "a constant error is counted": [
        report(explained=lambda t, v: 1 - ((t - v) ** 2).mean() / t.var()),
        report(explained=lambda t, v: 1 - ((t - v) ** 2).mean() / (t**2).mean()),
    ],
    "compared with the variance of the values": report(explained=lambda t, v: 1 - (t - v).var() / v.var()),
    "the variance of the values, as a share": report(explained=lambda t, v: v.var() / t.var()),
    "a correlation": [
        report(explained=lambda t, v: np.corrcoef(t.ravel(), v.ravel())[0, 1]),
        report(explained=lambda t, v: np.corrcoef(t.ravel(), v.ravel())[0, 1] ** 2),
    ],
    "standard deviations, not variances": report(explained=lambda t, v: 1 - (t - v).std() / t.std()),
    "two variances that divide by different numbers": [
        report(explained=lambda t, v: 1 - (t - v).var(ddof=1) / t.var()),
        report(explained=lambda t, v: 1 - (t - v).var() / t.var(ddof=1)),
    ],
    "each environment is judged by itself": [
        report(explained=lambda t, v: (1 - (t - v).var(1) / t.var(1)).mean()),
        report(explained=lambda t, v: 1 - (t - v).var(1).mean() / t.var(1).mean()),
        report(explained=lambda t, v: 1 - (t[0] - v[0]).var() / t[0].var()),
    ],
    "a bad critic is shown as none": report(explained=lambda t, v: max(0.0, 1 - (t - v).var() / t.var())),
}
UNNAMED["critic-report"] = [
    report(explained=lambda t, v: 1 - (t - v).var() / t.var() if (t - v).any() else float("nan")),
    report(explained=lambda t, v: max(-1.0, 1 - (t - v).var() / t.var())),
    report(explained=lambda t, v: 1 - (t - v).var() / (t.var() + 0.01)),
    lambda a, v: (a + v[:, :-1], 1 - a.var() / max((a + v[:, :-1]).var(), 1e-8)),
]
