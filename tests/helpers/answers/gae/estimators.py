"""Right and wrong answers to GAE in its four dresses: one row, many rows, starts for ends, in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}


def flawed(
    *,
    own: float = 1.0,
    subtract: Callable[[Any], Any] = lambda v: v[..., :-1],
    following: Callable[[Any], Any] = lambda v: v[..., 1:],
    bootstrap: bool = True,
    ahead: Callable[[float, float], float] = lambda gamma, lam: gamma,
    back: Callable[[float, float], float] = lambda gamma, lam: gamma * lam,
    delta_mask: Callable[[Any, Any], Any] = lambda over, cut: over,
    carry_mask: Callable[[Any, Any], Any] = lambda over, cut: over | cut,
    cut_value: Callable[[Any, Any, Any], Any] = lambda cut, f, v: np.where(cut, f, v[..., 1:]),
    lose_last: bool = False,
) -> Callable[..., Any]:
    """GAE with one part changed, for arrays [..., T]."""

    def function(rewards, values, over, cut, final, gamma, lam):
        cut = cut & ~over
        after = following(values).copy()
        if cut.any():
            after = np.where(cut, cut_value(cut, final, values), after)
        if not bootstrap:
            after[..., -1] = np.where(cut[..., -1], after[..., -1], 0)
        mask = delta_mask(over, cut)
        deltas = rewards + ahead(gamma, lam) * np.where(mask, 0, after) - subtract(values)
        if lose_last:
            deltas = deltas * ~(over | cut)
        going = ~carry_mask(over, cut)
        out = np.zeros(deltas.shape)
        carried = np.zeros(deltas.shape[:-1])
        for t in reversed(range(deltas.shape[-1])):
            carried = own * deltas[..., t] + back(gamma, lam) * going[..., t] * carried
            out[..., t] = carried
        return out

    return function


def shift(by: int) -> Callable[[Any, Any], Any]:
    return lambda over, cut: np.roll(over | cut, by, -1)


def forwards(rewards, values, over, cut, final, gamma, lam):
    deltas = flawed(back=lambda g, lam: 0.0)(rewards, values, over, cut, final, gamma, lam)
    out, carried, stop = np.zeros(deltas.shape), np.zeros(deltas.shape[:-1]), over | cut
    for t in range(deltas.shape[-1]):
        carried = deltas[..., t] + gamma * lam * carried
        out[..., t] = carried
        carried = carried * ~stop[..., t]
    return out


def not_turned_back(*arguments):
    return flawed()(*arguments)[..., ::-1] + 0.0


def normalised(*arguments):
    found = flawed()(*arguments)
    return (found - found.mean()) / (found.std() + 1e-8)


def seen_before_the_last(over, cut):
    return (over | cut) & (np.arange(over.shape[-1]) < over.shape[-1] - 1)


def opening(over, cut):
    """Return the steps that ended an episode or opened one."""
    return over | cut | np.insert((over | cut)[..., :-1], 0, False, -1)


def last_for_all(rewards, values, over, cut, final, gamma, lam):
    same = np.broadcast_to(values[..., -1:], rewards.shape)
    return flawed(following=lambda v: same, cut_value=lambda cut, f, v: f)(
        rewards, values, over, cut, final, gamma, lam
    )


def carried_from(first: Callable[[Any], Any], bootstrap: bool = True) -> Callable[..., Any]:
    """Something is carried back into the last step."""

    def function(rewards, values, over, cut, final, gamma, lam):
        deltas = flawed(back=lambda g, lam: 0.0, bootstrap=bootstrap)(
            rewards, values, over, cut, final, gamma, lam
        )
        going, out, carried = ~(over | cut), np.zeros(deltas.shape), first(values)
        for t in reversed(range(deltas.shape[-1])):
            carried = deltas[..., t] + gamma * lam * going[..., t] * carried
            out[..., t] = carried
        return out

    return function


def rest_lost(rewards, values, over, cut, final, gamma, lam):
    """The weight of the longest n-step advantage of a segment is (1 − λ) λ^(N−1) too."""
    full = flawed()(rewards, values, over, cut, final, gamma, lam)
    longest = flawed()(rewards, values, over, cut, final, gamma, 1.0)
    ends, left = over | cut, np.zeros(rewards.shape)
    ends[..., -1] = True
    for t in reversed(range(rewards.shape[-1])):
        left[..., t] = np.where(ends[..., t], 1, lam * left[..., min(t + 1, rewards.shape[-1] - 1)])
    return full - lam * left * longest


def unfinished_only(rewards, values, over, cut, final, gamma, lam):
    """Right where the rollout stops in mid-episode."""
    found = flawed()(rewards, values, over, cut, final, gamma, lam)
    return found + over[..., -1:] * gamma * values[..., -1:]


# Wrong in the same way in all four, by the name of the mistake.
FLAWS: dict[str, list[Callable[..., Any]]] = {
    "the advantages are normalised already": [normalised],
    "the mean is subtracted": [lambda *args: flawed()(*args) - flawed()(*args).mean()],
    "the steps are in the opposite order": [not_turned_back],
    "the recursion runs forwards": [forwards],
    "the sign is turned round": [lambda *args: -flawed()(*args)],
    "V(s_t) and V(s_t+1) are exchanged": [
        flawed(
            subtract=lambda v: v[..., 1:],
            following=lambda v: v[..., :-1],
            cut_value=lambda cut, f, v: v[..., :-1],
        )
    ],
    "the values are read one step off": [flawed(subtract=lambda v: v[..., 1:])],
    "the value of the state is not subtracted": [
        flawed(subtract=lambda v: 0),
        lambda r, v, *rest: flawed()(r, v, *rest) + v[..., :-1],
    ],
    "the rest of the weight is lost": [rest_lost],
    "the TD error is scaled": [
        lambda *args: args[-1] * flawed()(*args),
        lambda *args: (1 - args[-1]) * flawed()(*args),
        lambda *args: args[-1] * args[-2] * flawed()(*args),
    ],
    "the mask is shifted": [flawed(carry_mask=shift(1)), flawed(carry_mask=shift(-1))],
    "the first step of an episode is cut off, not the last": [
        flawed(delta_mask=lambda over, cut: np.insert((over | cut)[..., :-1], 0, False, -1) & ~cut),
    ],
    "the first step of an episode is cut off too": [
        flawed(carry_mask=opening),
        flawed(carry_mask=opening, delta_mask=lambda over, cut: opening(over, cut) & ~cut),
        flawed(delta_mask=lambda over, cut: opening(over, cut) & ~cut),
    ],
    "the recursion runs on into the next episode": [
        flawed(carry_mask=lambda over, cut: over & False),
        flawed(carry_mask=lambda over, cut: over & False, delta_mask=lambda over, cut: over & False),
    ],
    "the last step is left out": [
        lambda *args: flawed()(*args) * (np.arange(args[0].shape[-1]) < args[0].shape[-1] - 1)
    ],
    "the last error of an episode is lost": [flawed(lose_last=True)],
    "a terminal state is given a future": [flawed(delta_mask=lambda over, cut: over & False)],
    "no TD error looks ahead": [
        flawed(ahead=lambda g, lam: 0.0),
        flawed(ahead=lambda g, lam: 0.0, back=lambda g, lam: lam),
    ],
    "the last value follows every step": [last_for_all],
    "only the last step looks ahead": [
        flawed(following=lambda v: v[..., 1:] * (np.arange(v.shape[-1] - 1) == v.shape[-1] - 2))
    ],
    "the last value is read one step off": [
        flawed(following=lambda v: np.concatenate([v[..., 1:-1], v[..., -2:-1]], -1)),
    ],
    "the last value is carried back as an advantage": [
        carried_from(lambda v: v[..., -1]),
        carried_from(lambda v: v[..., -1], bootstrap=False),
    ],
    "an end in the last column is not seen": [
        flawed(delta_mask=lambda over, cut: seen_before_the_last(over, cut) & ~cut),
        unfinished_only,
    ],
    "the end of the rollout is taken for the end of the episode": [flawed(bootstrap=False)],
    "gamma is not used": [flawed(ahead=lambda g, lam: 1.0, back=lambda g, lam: lam)],
    "gamma and lam are exchanged": [flawed(ahead=lambda g, lam: lam)],
    "gamma is missing in delta": [flawed(ahead=lambda g, lam: 1.0)],
    "lam stands in delta": [flawed(ahead=lambda g, lam: g * lam)],
    "lam is not used": [flawed(back=lambda g, lam: g)],
    "gamma is missing in the recursion": [flawed(back=lambda g, lam: lam)],
    "later errors count in full": [flawed(back=lambda g, lam: 1.0)],
    "only the TD error": [flawed(back=lambda g, lam: 0.0)],
}


def not_zero_for_a_flag(rewards, values, over, cut, final, gamma, lam):
    """A final value is read wherever it is not zero."""

    def after(*_):
        return np.where(final != 0, final, values[..., 1:])

    return flawed(following=after, cut_value=after)(rewards, values, over, cut, final, gamma, lam)


AT_A_TRUNCATION: dict[str, list[Callable[..., Any]]] = {
    "the recursion runs on after a truncation": [
        flawed(carry_mask=lambda over, cut: over),
        flawed(carry_mask=lambda over, cut: over, cut_value=lambda cut, f, v: v[..., 1:]),
    ],
    "the reset observation is taken for the final one": [flawed(cut_value=lambda cut, f, v: v[..., 1:])],
    "a final value of zero is taken for no truncation": [
        flawed(cut_value=lambda cut, f, v: np.where(f != 0, f, v[..., 1:])),
        not_zero_for_a_flag,
    ],
    "the final value is added to the reset observation's": [
        flawed(cut_value=lambda cut, f, v: v[..., 1:] + f),
    ],
    "a truncation is taken for an end": [flawed(delta_mask=lambda over, cut: over | cut)],
    "final_values is read one step off": [
        flawed(cut_value=lambda cut, f, v: np.roll(f, 1, -1)),
        flawed(cut_value=lambda cut, f, v: np.roll(f, -1, -1)),
    ],
    "final_values is read where nothing was truncated": [
        lambda r, v, over, cut, f, g, lam: flawed(following=lambda v: f)(r, v, over, cut, f, g, lam)
    ],
    "gamma is missing in delta": [flawed(cut_value=lambda cut, f, v: 2 * f)],
    "where both flags are set, truncation wins": [
        lambda r, v, over, cut, f, g, lam: flawed()(r, v, over & ~cut, cut, f, g, lam)
    ],
}


# --- what only the last property refuses, wrong in the same way in all four


def ignoring(**fixed: float) -> Callable[..., Any]:
    def function(rewards, values, over, cut, final, gamma, lam):
        found = {"gamma": gamma, "lam": lam} | fixed
        return flawed()(rewards, values, over, cut, final, found["gamma"], found["lam"])

    return function


def finite_weights_forgotten(rewards, values, over, cut, final, gamma, lam):
    """The weights of an endless segment: right for λ < 1 only where nothing ends."""
    found = flawed()(rewards, values, over, cut, final, gamma, lam)
    return found if lam < 1 else 0 * found


def reaching(steps: int) -> Callable[..., Any]:
    """No advantage looks further than so many steps."""

    def function(rewards, values, over, cut, final, gamma, lam):
        out = np.zeros(rewards.shape)
        for t in range(rewards.shape[-1]):
            near = (x[..., t : t + steps] for x in (rewards, over, cut, final))
            r, o, c, f = near
            out[..., t] = flawed()(r, values[..., t : t + steps + 1], o, c, f, gamma, lam)[..., 0]
        return out

    return function


LOST = [
    reaching(20),
    lambda *args: np.abs(flawed()(*args)),
    ignoring(gamma=0.5),
    ignoring(lam=0.8),
    finite_weights_forgotten,
    lambda *args: flawed()(*args).clip(-20, 20),
]


# --- the four dresses


def plain(one: Callable[..., Any]) -> Callable[..., Any]:
    """[T] or [N, T], and no truncation."""

    def function(rewards, values, over, gamma, lam):
        never = np.zeros_like(over)
        return one(rewards, values, over, never, np.zeros(over.shape), gamma, lam)

    return function


def from_starts(one: Callable[..., Any]) -> Callable[..., Any]:
    return lambda rewards, values, starts, gamma, lam: plain(one)(rewards, values, starts[:, 1:], gamma, lam)


def in_torch(one: Callable[..., Any]) -> Callable[..., Any]:
    """With finite numbers where final_values says nothing, and the right targets."""

    def function(rewards, values, over, cut, final, gamma, lam):
        r, v, f = (x.detach().double().numpy() for x in (rewards, values, final))
        f = np.nan_to_num(f, posinf=0, neginf=0)
        found = torch.tensor(one(r, v, over.numpy(), cut.numpy(), f, gamma, lam), dtype=rewards.dtype)
        return found, found + values[:, :-1].detach()

    return function


def rows(dress: Callable[..., Any], *tables: dict[str, list[Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for table in tables:
        for name, found in table.items():
            joined[name] = [*joined.get(name, []), *map(dress, found)]
    return joined


def one_sweep(rewards, values, over, cut, final, gamma, lam):
    """All rows behind one another, as if they were one."""
    deltas = flawed(back=lambda g, lam: 0.0)(rewards, values, over, cut, final, gamma, lam)
    flat = (x.reshape(1, -1) for x in (deltas, over | cut))
    return carried_flat(*flat, gamma * lam).reshape(rewards.shape)


def carried_flat(deltas, ends, near):
    zeros = np.zeros((1, deltas.shape[1] + 1))
    return flawed()(deltas, zeros, ends, ends & False, deltas, 1.0, near)


MIXED = {
    "environments are mixed": [
        lambda *args: flawed()(*args).cumsum(0) + flawed()(*args)[::-1].cumsum(0),
        one_sweep,
    ]
}


def first_row_for_all(one: Callable[..., Any]) -> Callable[..., Any]:
    def function(rewards, values, over, cut, *rest):
        first = (np.broadcast_to(x[:1], x.shape) for x in (over, cut))
        return one(rewards, values, *first, *rest)

    return function


def cut_by_any_row(rewards, values, over, cut, final, gamma, lam):
    deltas = flawed(back=lambda g, lam: 0.0)(rewards, values, over, cut, final, gamma, lam)
    zeros, some = np.zeros(values.shape), (over | cut).any(0) | (over & False)
    return flawed()(deltas, zeros, some, cut & False, final, gamma, lam)


OTHERS = {"the flags of another environment are read": [first_row_for_all(flawed()), cut_by_any_row]}

WRONG["gae-loop"] = rows(plain, FLAWS)
WRONG["hunt-last-value"] = rows(plain, FLAWS, MIXED, OTHERS)
WRONG["hunt-starts"] = rows(from_starts, FLAWS, MIXED, OTHERS)
WRONG["hunt-two-ends"] = rows(lambda one: one, FLAWS, MIXED, OTHERS, AT_A_TRUNCATION)
WRONG["gae-batch"] = rows(in_torch, FLAWS, MIXED, OTHERS, AT_A_TRUNCATION)
UNNAMED["gae-loop"] = [plain(one) for one in LOST]
UNNAMED["hunt-last-value"] = [plain(one) for one in LOST]
UNNAMED["hunt-starts"] = [from_starts(one) for one in LOST]
UNNAMED["hunt-two-ends"] = list(LOST)
UNNAMED["gae-batch"] = [in_torch(one) for one in LOST]


# --- right ones, written otherwise


def nested_sums(rewards, values, over, gamma, lam):
    out = []
    for t in range(len(rewards)):
        total, weight = 0.0, 1.0
        for k in range(t, len(rewards)):
            ahead = 0.0 if over[k] else gamma * values[k + 1]
            total += weight * (rewards[k] + ahead - values[k])
            weight *= gamma * lam
            if over[k]:
                break
        out.append(total)
    return out


def from_targets(rewards, values, over, gamma, lam):
    """The TD(λ) targets by their own recursion, less the values."""
    out, target = np.zeros(rewards.shape), values[..., -1]
    for t in reversed(range(rewards.shape[-1])):
        mixed = (1 - lam) * values[..., t + 1] + lam * target
        target = rewards[..., t] + gamma * np.where(over[..., t], 0.0, mixed)
        out[..., t] = target - values[..., t]
    return out


def by_matrix(rewards, values, over, gamma, lam):
    going = 1.0 - over
    deltas = rewards + gamma * going * values[1:] - values[:-1]
    steps = len(rewards)
    if steps == 1:
        return deltas
    return np.linalg.solve(np.eye(steps) - gamma * lam * np.diag(going[:-1], 1), deltas)


def row_by_row(one: Callable[..., Any]) -> Callable[..., Any]:
    return lambda r, v, over, gamma, lam: np.array(
        [one(*row, gamma, lam) for row in zip(r, v, over, strict=True)]
    )


def next_value_carried(rewards, values, over, gamma, lam):
    out, carried, following = np.zeros_like(rewards), np.zeros(len(rewards)), values[:, -1]
    for t in reversed(range(rewards.shape[1])):
        going = 1 - over[:, t]
        delta = rewards[:, t] + gamma * going * following - values[:, t]
        carried = delta + gamma * lam * going * carried
        out[:, t], following = carried, values[:, t]
    return out


def ended_by_both(rewards, values, over, cut, final, gamma, lam):
    out = []
    for n in range(len(rewards)):
        row, carried = [], 0.0
        for t in reversed(range(rewards.shape[1])):
            ahead = 0.0 if over[n, t] else float(final[n, t] if cut[n, t] else values[n, t + 1])
            delta = float(rewards[n, t]) + gamma * ahead - float(values[n, t])
            carried = delta + (0.0 if over[n, t] or cut[n, t] else gamma * lam * carried)
            row.append(carried)
        out.append(row[::-1])
    return out


def written_into_rewards(rewards, values, over, cut, final, gamma, lam):
    """A truncation as a termination with the future paid at once."""
    paid = rewards + gamma * np.where(cut & ~over, final, 0.0)
    return next_value_carried(paid, values, over | cut, gamma, lam)


def batch_by_targets(rewards, values, terminated, truncated, final_values, gamma, lam):
    with torch.no_grad():
        targets, target = [], values[:, -1]
        for t in range(rewards.shape[1] - 1, -1, -1):
            mixed = (1 - lam) * values[:, t + 1] + lam * target
            mixed = torch.where(truncated[:, t], final_values[:, t], mixed)
            target = rewards[:, t] + gamma * mixed.masked_fill(terminated[:, t], 0.0)
            targets.append(target)
        targets = torch.stack(targets[::-1], dim=1)
        return targets - values[:, :-1], targets


def batch_by_lists(rewards, values, terminated, truncated, final_values, gamma, lam):
    arguments = (x.detach() for x in (rewards, values, terminated, truncated, final_values))
    found = torch.tensor(ended_by_both(*arguments, gamma, lam))
    return [found, found + values[:, :-1].detach()]


def batch_in_double(rewards, values, terminated, truncated, final_values, gamma, lam):
    arguments = (x.detach().double().numpy() for x in (rewards, values, final_values))
    r, v, f = arguments
    over, cut = terminated.numpy(), truncated.numpy()
    found = flawed()(r, v, over, cut, f, gamma, lam)
    return torch.from_numpy(found), torch.from_numpy(found + v[:, :-1])


RIGHT["gae-loop"] = [nested_sums, from_targets, by_matrix, plain(flawed())]
RIGHT["hunt-last-value"] = [from_targets, next_value_carried, row_by_row(nested_sums), row_by_row(by_matrix)]
RIGHT["hunt-starts"] = [
    from_starts(flawed()),
    lambda r, v, starts, gamma, lam: from_targets(r, v, starts[:, 1:], gamma, lam),
    lambda r, v, starts, gamma, lam: row_by_row(nested_sums)(r, v, starts[:, 1:], gamma, lam),
]
RIGHT["hunt-two-ends"] = [
    ended_by_both,
    written_into_rewards,
    flawed(),
    lambda *args: torch.tensor(flawed()(*args)),
]
RIGHT["gae-batch"] = [
    batch_by_targets,
    batch_by_lists,
    batch_in_double,
    in_torch(flawed()),
    lambda r, v, over, cut, f, *rest: multiplied(r, v, over, cut, f.nan_to_num(7.0), *rest),
]


# --- what belongs to one of them


def as_it_was(rewards, values, over, gamma, lam):
    out, carried = np.zeros_like(rewards), np.zeros(len(rewards))
    following = np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * ~over[:, t] * following - values[:, t]
        carried = delta + gamma * lam * ~over[:, t] * carried
        out[:, t], following = carried, values[:, t]
    return out


def starts_as_they_were(rewards, values, starts, gamma, lam):
    return plain(flawed())(rewards, values, starts[:, :-1], gamma, lam)


def read_everywhere(rewards, values, over, cut, final, gamma, lam):
    out, carried = np.zeros_like(rewards), np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * ~over[:, t] * final[:, t] - values[:, t]
        carried = delta + gamma * lam * ~(over | cut)[:, t] * carried
        out[:, t] = carried
    return out


WRONG["hunt-last-value"]["the end of the rollout is taken for the end of the episode"].append(as_it_was)
WRONG["hunt-starts"]["the mask is shifted"] += [
    starts_as_they_were,
    lambda r, v, starts, *rest: starts_as_they_were(r, v, np.roll(starts, 1, -1), *rest),
]
WRONG["hunt-two-ends"]["final_values is read where nothing was truncated"].append(read_everywhere)
WRONG["hunt-two-ends"]["an end in the last column is not seen"].append(
    lambda r, v, over, cut, *rest: flawed()(r, v, over, seen_before_the_last(cut, cut), *rest)
)
WRONG["hunt-two-ends"]["a truncation is taken for an end"].append(
    # Only the value is mended, and then nothing at all.
    flawed(delta_mask=lambda over, cut: over | cut, cut_value=lambda cut, f, v: v[..., 1:])
)
WRONG["gae-loop"]["an argument is overwritten"] = lambda r, v, over, gamma, lam: (
    r.__iadd__(1),
    from_targets(r - 1, v, over, gamma, lam),
)[1]
UNNAMED["hunt-last-value"].append(lambda r, v, over, *rest: from_targets(r, v, over & over[:1], *rest))


def with_targets(targets: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(rewards, values, *rest):
        found, _ = batch_by_targets(rewards, values, *rest)
        return found, targets(found, values.detach())

    return function


def on_the_graph(rewards, values, terminated, truncated, final_values, gamma, lam):
    found, _ = batch_by_targets(rewards, values, terminated, truncated, final_values, gamma, lam)
    return found, found + values[:, :-1]


def multiplied(rewards, values, terminated, truncated, final_values, gamma, lam):
    with torch.no_grad():
        cut = (truncated & ~terminated).float()
        after = cut * final_values + (1 - cut) * values[:, 1:]
        deltas = rewards + gamma * ~terminated * after - values[:, :-1]
        out, carried = torch.zeros_like(deltas), torch.zeros(len(deltas))
        for t in reversed(range(deltas.shape[1])):
            carried = deltas[:, t] + gamma * lam * ~(terminated | truncated)[:, t] * carried
            out[:, t] = carried
        return out, out + values[:, :-1]


def multiplied_where_terminated(rewards, values, terminated, truncated, final_values, gamma, lam):
    both = terminated & truncated
    held = torch.where(both, final_values * 0, torch.where(truncated, final_values, 0.0))
    return batch_by_targets(rewards, values, terminated & ~both, truncated, held, gamma, lam)


WRONG["gae-batch"] |= {
    "the targets come first": lambda *args: batch_by_targets(*args)[::-1],
    "what comes back is still on the graph": on_the_graph,
    "final_values is read where it says nothing": [multiplied, multiplied_where_terminated],
    "the targets are the advantages again": with_targets(lambda a, v: a.clone()),
    "the values are added one step off": with_targets(lambda a, v: a + v[:, 1:]),
    "the values are the targets": with_targets(lambda a, v: v[:, :-1].clone()),
}
WRONG["gae-batch"]["the flags of another environment are read"].append(
    lambda r, v, over, cut, *rest: batch_by_targets(r, v, over.any(0).expand_as(over), cut, *rest)
)
WRONG["hunt-last-value"]["the mean is subtracted"].append(
    lambda *args: from_targets(*args) - from_targets(*args).mean(axis=0)
)
UNNAMED["gae-batch"] += [
    with_targets(lambda a, v: v[:, :-1] - a),
    with_targets(lambda a, v: a / a.abs().max() + v[:, :-1]),
    lambda r, v, *rest: with_targets(lambda a, w: batch_by_targets(r, w, *rest[:-1], 1.0)[1])(r, v, *rest),
    lambda r, v, over, cut, f, *rest: batch_by_targets(r, v, over, cut, f.clamp(-5, 5), *rest),
]
