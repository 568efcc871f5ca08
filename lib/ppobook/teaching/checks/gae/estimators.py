"""Checks of GAE itself, in NumPy and in torch, and of what was mended in faulty versions of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, recognise, words
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, flags, in_numpy, weighted_average

STEPS = 7

# Rewards [7], values [8] and final values [7] of one environment; back come the advantages, a row for each,
# its own first. Where there are two environments, `row` says which one it is; the other has zeros.
Ask = Callable[..., np.ndarray]


def _with_zeros(row: int, *arrays: np.ndarray) -> list[np.ndarray]:
    return [np.array([x, 0 * x][:: -1 if row else 1]) for x in arrays]


def _recognised(ask: Ask, *, cut: bool) -> Findings:
    """Effects of single steps, gamma = 0.5 and lam = 0.8. Steps 0-2 are an episode that terminates, 3-4 one
    that does too (`cut`: that is truncated), and steps 5 and 6 open one that the rollout leaves unfinished.
    """
    nothing, none = np.zeros(STEPS), np.zeros(STEPS + 1)
    uneven = np.array([1.0, 0, 2, 0, 0, 1, 3]), np.array([0.0, 1, 0, 1, 0, 2, 0, 1])
    once, twice = (ask(size * uneven[0], size * uneven[1], nothing) for size in (1, 2))
    yield from recognise(
        once[0],
        {
            "the advantages are normalised already": once.any() and close(once, twice),
            "the mean is subtracted": once.any() and close(once.sum(), 0),
        },
        rows=once,
    )
    rewards = np.array([ask(one, none, nothing) for one in np.eye(STEPS)])
    values = np.array([ask(nothing, one, nothing) for one in np.eye(STEPS + 1)])
    # [k, t]: what a reward of 1 at step k, and a value of 1 of the state at step k, adds at step t.
    reward, value = rewards[:, 0], values[:, 0]
    final = np.array([ask(nothing, none, one)[0] for one in np.eye(STEPS)]) if cut else np.zeros((7, 7))
    elsewhere = np.delete(final, 4, axis=0).sum(0)
    # At step 4, with a value of 1 in the next column: of the final observation one of 0, and one of 1.
    without, together = value[5, 4], ask(nothing, np.eye(STEPS + 1)[5], np.eye(STEPS)[4])[0, 4]
    chosen = cut and without != 0 != final[4, 4]
    runs_on = reward[3, 2] != 0 or reward[5, 4] != 0
    own, reach, last = reward[0, 0], reward[1, 0], value[7, 6]
    # How much of the next state's value stands in the TD error of steps 0, 1, 3 and 5, which all go on.
    behind, before = np.array([1, 2, 4, 6]), np.array([0, 1, 3, 5])
    ahead, opening = (value + np.append(reward, [0 * reward[0]], 0))[behind, before], reward[[4, 6], [3, 5]]
    other = ask(nothing + 1, none + 1, nothing, row=1)[1:]
    # Nothing ends in the second row: what a reward, and the value beside it, adds to the steps before.
    beside = np.eye(STEPS)[[3, 5]]
    carried = np.array([ask(one, none, nothing, row=1)[0] for one in beside])[[0, 1], [2, 4]]
    looked = np.array([ask(one, np.append(one, 0), nothing, row=1)[0] for one in beside])[[0, 1], [2, 4]]
    yield from recognise(
        reward,
        {
            "environments are mixed": rewards[:, 1:].any() or values[:, 1:].any() or other.any(),
            "the steps are in the opposite order": own == 0 and reward[0, 6] != 0 and reward[6, 0] != 0,
            "the recursion runs forwards": reward[0, 1:].any(),
            "the sign is turned round": close(own, -1) and close(value[0, 0], 1),
            "V(s_t) and V(s_t+1) are exchanged": close(own, 1) and close(value[0, 0], 0.5),
            "the values are read one step off": close(own, 1) and value[0, 0] == 0 and value[1, 0] < 0,
            "the value of the state is not subtracted": close(own, 1) and close(value[0, 0], 0),
            "the rest of the weight is lost": close(reward[[0, 1, 2], [0, 1, 2]], [0.488, 0.36, 0.2]),
            "the TD error is scaled": any(close(own, factor) for factor in (0.2, 0.4, 0.5, 0.8)),
            "the flags of another environment are read": len(once) > 1
            and ((reach != 0 and not carried.all()) or (ahead[0] != 0 and not looked.all())),
            "the mask is shifted": runs_on and (reward[2, 1] == 0 or reward[4, 3] == 0),
            "the first step of an episode is cut off, not the last": not runs_on
            and ahead[1] != 0
            and not ahead[2:].any()
            and value[3, 2] != 0,
            "the first step of an episode is cut off too": not runs_on
            and ((reward[2, 1] != 0 and not opening.any()) or (ahead[1] != 0 and not ahead[2:].any())),
            "the recursion runs on into the next episode": reward[3, 2] != 0,
            "the recursion runs on after a truncation": reward[5, 4] != 0 and cut,
            "the last step is left out": reward[6, 6] == 0,
            "the last error of an episode is lost": reward[2, 2] == 0 or (reward[2, 1] == 0 and reach != 0),
        },
        own=own,
        carried=carried,
        looked=looked,
        beyond=value[3, 2],
        # Behind which end the sum runs on, and before which it stops too soon.
        behind=3 if reward[3, 2] != 0 else 5,
        runs=reward[3 if reward[3, 2] != 0 else 5],
        short=2 if reward[2, 1] == 0 else 4,
        stops=reward[2 if reward[2, 1] == 0 else 4],
        first=value[0, 0],
        second=value[1, 0],
        later=reward[0],
        third=reward[3],
        fifth=reward[5],
        lost=reward[2],
        end=reward[6],
        opening=opening,
        opened=ahead[2:],
        heads=reward[[0, 1, 2], [0, 1, 2]],
    )
    yield from recognise(
        value,
        {
            "a terminal state is given a future": value[3, 2] != 0 or (value[5, 4] != 0 and not cut),
            "a final value of zero is taken for no truncation": chosen and close(together, final[4, 4]),
            "the final value is added to the reset observation's": chosen
            and close(together, without + final[4, 4]),
            "the reset observation is taken for the final one": value[5, 4] != 0,
            "final_values is read one step off": final[4, 4] == 0 and final[[3, 5]].any(),
            "final_values is read where nothing was truncated": elsewhere.any(),
            "the last value follows every step": close(ahead, np.zeros(4)) and value[7, :5].any(),
            "only the last step looks ahead": close(ahead, np.zeros(4)) and last != 0,
            "no TD error looks ahead": close(ahead, np.zeros(4)) and last == 0,
            "a truncation is taken for an end": cut and not final.any(),
            "the last value is read one step off": last == 0 and close(value[6, 6], -0.5),
            "the end of the rollout is taken for the end of the episode": last == 0,
            "the last value is carried back as an advantage": close(last, 0.9)
            or (close(last, 0.4) and close(ahead[0], 0.5)),
            "gamma is not used": close(reach, 0.8) and close(last, 1),
            "gamma and lam are exchanged": close(last, 0.8) and close(reach, 0.4),
            "gamma is missing in delta": close(last, 1) or close(final[4, 4], 1),
            "lam stands in delta": any(close(x, y) for x in (last, final[4, 4]) for y in (0.4, 0.8)),
            "lam is not used": close(reach, 0.5),
            "gamma is missing in the recursion": close(reach, 0.8),
            "later errors count in full": close(reach, 1),
            "only the TD error": close(reach, 0),
        },
        end=2 if value[3, 2] != 0 else 4,
        future=value[3 if value[3, 2] != 0 else 5],
        fifth=value[5],
        without=without,
        together=together,
        final=final[4, 4],
        elsewhere=elsewhere,
        reach=reach,
        last=last if not close(last, 0.5) else final[4, 4],
        bootstrap=last,
        far=value[7, :3],
        mine=value[6, 6],
        second=value[1, 0],
    )


def _last_column(ask: Ask, **flags: np.ndarray) -> Findings:
    """An end in the last column, by each kind of flag: the value in the column behind it must not count."""
    for name, rows in flags.items():
        late = rows.copy()
        late[..., -1] = True
        back = ask(np.zeros(STEPS), np.eye(STEPS + 1)[-1], np.zeros(STEPS), **{name: late})[0]
        yield from recognise(back, {"an end in the last column is not seen": bool(back.any())})


def _draw(rng: np.random.Generator, *, rows: bool, cut: bool) -> dict[str, Any]:
    shape = (*([int(rng.integers(1, 5))] if rows else []), int(rng.choice([1, 2, 3, 5, 9, 80])))
    longer = (*shape[:-1], shape[-1] + 1)
    drawn = {
        "rewards": rng.choice([0.1, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=shape),
        "values": rng.choice([0.1, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=longer),
        "terminated": flags(rng, shape),
        "truncated": flags(rng, shape),
        "final_values": rng.choice([0.1, 1, 100]) * rng.normal(size=shape),
        "gamma": float(rng.choice([0, 0.5, 0.9, 0.99, 1] if shape[-1] < 20 else [0.99, 1])),
        "lam": float(rng.choice([0, 0.5, 0.95, 1] if shape[-1] < 20 else [0.95, 1])),
    }
    return drawn if cut else {k: v for k, v in drawn.items() if k not in ("final_values", "truncated")}


def _slow(p: Problem) -> np.ndarray:
    """Each entry by itself: the average of its n-step advantages up to where its segment ends."""
    result = np.zeros(p.rewards.shape)
    cut = getattr(p, "truncated", np.zeros(p.rewards.shape, dtype=bool))
    for where in np.ndindex(*result.shape):
        row, t = where[:-1], where[-1]
        following = []
        for k in range(t, result.shape[-1]):
            if p.terminated[(*row, k)]:
                following.append(0.0)
                break
            if cut[(*row, k)]:
                following.append(float(p.final_values[(*row, k)]))
                break
            following.append(float(p.values[(*row, k + 1)]))
        rewards = p.rewards[row][t : t + len(following)].tolist()
        result[where] = weighted_average(rewards, following, float(p.values[where]), p.gamma, p.lam)
    return result


ENDS = np.array([False, False, True, False, True, False, False])


@CHAPTER.check("gae-loop", section="sec-gae-lambda")
def gae_loop(answer: Answer) -> Findings:
    def ask(
        rewards: np.ndarray, values: np.ndarray, _: np.ndarray, row: int = 0, over: np.ndarray = ENDS
    ) -> np.ndarray:
        return as_array(answer(rewards, values, over, 0.5, 0.8), (STEPS,), "the advantages")[None]

    yield from _recognised(ask, cut=False)
    yield from _last_column(ask, over=ENDS)
    problems = random_problems(lambda rng: _draw(rng, rows=False, cut=False), 40)
    yield agrees(in_numpy(answer), _slow, problems, what="the advantages")


@CHAPTER.check("hunt-last-value", section="sec-gae-ends")
def hunt_last_value(answer: Answer) -> Findings:
    over = np.array([ENDS, np.zeros(STEPS, dtype=bool)])

    def ask(
        rewards: np.ndarray, values: np.ndarray, _: np.ndarray, row: int = 0, over: np.ndarray = over
    ) -> np.ndarray:
        back = answer(*_with_zeros(row, rewards, values), over, 0.5, 0.8)
        return as_array(back, (2, STEPS), "the advantages")[:: -1 if row else 1]

    yield from _recognised(ask, cut=False)
    yield from _last_column(ask, over=over)
    problems = random_problems(lambda rng: _draw(rng, rows=True, cut=False), 40)
    yield agrees(in_numpy(answer), _slow, problems, what="the advantages")


@CHAPTER.check("hunt-starts", section="sec-gae-ends")
def hunt_starts(answer: Answer) -> Findings:
    first = np.array([[True, *ENDS], [False] * (STEPS + 1)])

    def ask(
        rewards: np.ndarray, values: np.ndarray, _: np.ndarray, row: int = 0, first: np.ndarray = first
    ) -> np.ndarray:
        back = answer(*_with_zeros(row, rewards, values), first, 0.5, 0.8)
        return as_array(back, (2, STEPS), "the advantages")[:: -1 if row else 1]

    yield from _recognised(ask, cut=False)
    yield from _last_column(ask, first=first)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        drawn = _draw(rng, rows=True, cut=False)
        opening = rng.random((len(drawn["rewards"]), 1)) < 0.5
        starts = np.concatenate([opening, drawn.pop("terminated")], axis=1)
        return {"rewards": drawn["rewards"], "values": drawn["values"], "starts": starts} | {
            name: drawn[name] for name in ("gamma", "lam")
        }

    def slow(p: Problem) -> np.ndarray:
        return _slow(Problem(**vars(p), terminated=np.array([row[1:] for row in p.starts])))

    yield agrees(in_numpy(answer), slow, random_problems(draw, 40), what="the advantages")


TERMINATED = np.array([False, False, True, False, False, False, False])
TRUNCATED = ENDS & ~TERMINATED


@CHAPTER.check("hunt-two-ends", section="sec-gae-ends")
def hunt_two_ends(answer: Answer) -> Findings:
    never = np.zeros(STEPS, dtype=bool)
    over, cut = np.array([TERMINATED, never]), np.array([TRUNCATED, never])

    def ask(
        rewards: np.ndarray,
        values: np.ndarray,
        final: np.ndarray,
        row: int = 0,
        over: np.ndarray = over,
        cut: np.ndarray = cut,
    ) -> np.ndarray:
        r, v, f = _with_zeros(row, rewards, values, final)
        back = as_array(answer(r, v, over, cut, f, 0.5, 0.8), (2, STEPS), "the advantages")
        return back[:: -1 if row else 1]

    yield from _recognised(ask, cut=True)
    yield from _last_column(ask, over=over, cut=cut)
    yield from _both_flags(ask, over | cut)
    problems = random_problems(lambda rng: _draw(rng, rows=True, cut=True), 40)
    yield agrees(in_numpy(answer), _slow, problems, what="the advantages")


def _both_flags(ask: Callable[..., np.ndarray], both: np.ndarray) -> Findings:
    back = ask(np.zeros(STEPS), np.zeros(STEPS + 1), np.eye(STEPS)[4], over=both)
    yield from recognise(back, {"where both flags are set, truncation wins": bool(back.any())})


def _pair(back: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Advantages and targets, [2, …]."""
    if not isinstance(back, tuple | list | Tensor) or len(back) != 2:
        came = "nothing" if back is None else words(back)
        raise Stop("returned", "not two tensors", f"advantages and targets must come back; got {came}.")
    names = "the advantages", "the targets"
    found = [as_array(one, shape, name, finite=False) for one, name in zip(back, names, strict=True)]
    if any(isinstance(one, Tensor) and one.requires_grad for one in back):
        raise Mistake("what comes back is still on the graph")
    return np.array(found)


@CHAPTER.check("gae-batch", section="sec-gae-code")
def gae_batch(answer: Answer) -> Findings:
    never = np.zeros(STEPS, dtype=bool)
    over, cut = np.array([TERMINATED, never]), np.array([TRUNCATED, never])

    def call(rewards: Any, values: Any, final: Any, over: Any = over, cut: Any = cut) -> np.ndarray:
        given = [torch.tensor(x, dtype=torch.float32) for x in (rewards, values)]
        given[1].requires_grad_()
        late = torch.tensor(final, dtype=torch.float32)
        ended = torch.as_tensor(over), torch.as_tensor(cut)
        return _pair(answer(*given, *ended, late, 0.5, 0.8), tuple(given[0].shape))

    def ask(
        rewards: np.ndarray, values: np.ndarray, final: np.ndarray, row: int = 0, **flags: np.ndarray
    ) -> np.ndarray:
        return call(*_with_zeros(row, rewards, values, final), **flags)[0][:: -1 if row else 1]

    zeros, none = np.zeros((2, STEPS)), np.zeros((2, STEPS + 1))
    v = np.arange(1.0, 17).reshape(2, STEPS + 1)
    advantages, targets = call(zeros + 1, v, zeros)
    swapped = close(advantages - targets, v[:, :-1], 1e-3)
    yield from recognise(targets, {"the targets come first": swapped})
    yield from _recognised(ask, cut=True)
    yield from _last_column(ask, over=over, cut=cut)
    yield from _both_flags(ask, over | cut)
    # nan wherever final_values may hold anything: where nothing was truncated, and where it terminated too.
    for flag, meant in ((over, [(0, 4)]), (over | cut, [])):
        holes = np.full((2, STEPS), np.nan)
        for where in meant:
            holes[where] = 0.0
        back = call(zeros + 1, none, holes, flag)
        yield from recognise(back, {"final_values is read where it says nothing": bool(np.isnan(back).any())})
    yield from recognise(
        targets - advantages,
        {
            "the targets are the advantages again": 0,
            "the values are added one step off": v[:, 1:],
            "the values are the targets": close(targets, v[:, :-1]),
        },
    )
    yield Property(
        "the targets are the advantages and the values, added up",
        close(targets, advantages + v[:, :-1], 1e-3),
        "at some step the target less the advantage is not the value that the critic had given it",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        drawn = _draw(rng, rows=True, cut=True)
        unread = ~drawn["truncated"] | drawn["terminated"]
        anything = rng.choice([[np.nan, 7], [np.inf, -np.inf], [1e6, 1e6]])
        holes = anything[rng.integers(2, size=unread.shape)]
        drawn["final_values"] = np.where(unread, holes, drawn["final_values"])
        return drawn

    def both(*arguments: Any) -> np.ndarray:
        return _pair(answer(*arguments), tuple(arguments[0].shape))

    def slow(p: Problem) -> np.ndarray:
        found = _slow(p)
        return np.array([found, found + np.array([row[:-1] for row in p.values])])

    yield agrees(both, slow, random_problems(draw, 40), what="(the advantages, the targets)")
