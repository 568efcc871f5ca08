"""Checks of the exercises on how much better a new policy is: measured, forecast, and guaranteed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ppobook.envs import Episodes, TabularMDP, chain

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER, divergence, softmax


class _Made:
    """A world whose tables are made up. It writes down what it was asked, and about which policy."""

    allowed = ""
    # What can be asked of it where the reader's function runs in another process.
    __lends__ = (
        *("n_states", "n_actions", "gamma", "terminal"),
        *("sample_episodes", "advantages", "state_occupancy", "objective"),
    )

    def __init_subclass__(cls) -> None:
        cls.__name__ = "world"  # as a message calls it: “It was called with (a world, …)”

    def __init__(self, gamma: float, old: np.ndarray, new: np.ndarray) -> None:
        self.gamma, self.old, self.new = gamma, old, new
        self.n_states, self.n_actions = old.shape
        self.asked: list[tuple[str, str]] = []

    def note(self, what: str, probs: Any) -> str:
        table = np.asarray(probs.detach() if isinstance(probs, Tensor) else probs, dtype=np.float64)
        for who, policy in (("old", self.old), ("new", self.new)):
            if close(table, policy):
                self.asked.append((what, who))
                return who
        raise Mistake("another policy is asked", what=what)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(TabularMDP, name) and name not in vars(chain(1)):
            raise AttributeError(f"a world of this exercise has no {name}; it has {self.allowed}")
        raise Mistake("it looks behind the curtain", what=name, allowed=self.allowed)


def _like(table: np.ndarray, probs: Any) -> Any:
    return torch.tensor(table) if isinstance(probs, Tensor) else table.copy()


# --- measured


class _Plays(_Made):
    """A world in which each policy plays the same few episodes over and over, in turn."""

    allowed = "sample_episodes, advantages, gamma"

    def __init__(
        self, gamma: float, old: Any, new: Any, worth: dict[str, Any], plays: dict[str, Any], mask: Any
    ) -> None:
        super().__init__(gamma, old, new)
        self.worth, self.plays, self.mask = worth, plays, mask
        self.played: list[str] = []

    def sample_episodes(self, probs: Any, episodes: int, seed: Any = None) -> Episodes:
        who = self.note("episodes", probs)
        rows = (self.played.count(who) + np.arange(int(episodes))) % len(self.mask)
        self.played.extend([who] * len(rows))
        steps = slice(int(self.mask[rows].sum(1).max()))
        states, actions = self.plays[who]
        rewards = 1.0 * states - actions
        return Episodes(*(x[rows, steps] for x in (states, actions, rewards, self.mask)))

    def advantages(self, probs: Any) -> Any:
        return _like(self.worth[self.note("advantages", probs)], probs)

    def judged(self) -> set[str]:
        return {who for what, who in self.asked if what == "advantages"}

    def sums(self, player: str, judge: str, *, weighed: str = "", mean: bool = False) -> float:
        """The mean over a player's episodes of Σ γᵗ A, each step weighed by its ratio, or by several."""
        total, table = 0.0, getattr(self, player)
        for states, actions, inside in zip(*self.plays[player], self.mask, strict=True):
            steps = list(zip(states[inside], actions[inside], strict=True))
            ratios = [self.new[pair] / self.old[pair] for pair in steps]
            for t, (s, a) in enumerate(steps):
                worth = self.worth[judge][s]
                value = sum(p * w for p, w in zip(table[s], worth, strict=True)) if mean else worth[a]
                kept = {"": [], "step": ratios[t : t + 1], "so far": ratios[: t + 1], "all": ratios}[weighed]
                total += float(np.prod(kept)) * self.gamma**t * value
        return total / len(self.mask)

    def estimates(self) -> list[float]:
        """Evaluate the lemma on these episodes, in each form in which it can be read."""
        exchanged = [-self.sums("old", "new", mean=mean) for mean in (False, True)]
        reweighed = [self.sums("old", "old", weighed=how) for how in ("so far", "all")]
        return [self.sums("new", "old"), self.sums("new", "old", mean=True), *exchanged, *reweighed]


def _two_plays() -> _Plays:
    """γ is 1/4, so that a factor of γ, of 1 − γ or of their inverses looks like no other. What stands behind
    the end of the second episode is a state and an action like any other."""
    states, mask = np.array([[0, 1, 1], [0, 0, 0]]), np.array([[True, True, True], [True, False, False]])
    return _Plays(
        0.25,
        np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]),
        np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]]),
        # Both average to zero under their own policy, as advantages do.
        {"old": np.array([[2.0, -2], [7, -7], [0, 0]]), "new": np.array([[4.0, -1], [2, -3], [0, 0]])},
        {
            "old": (states, np.array([[0, 1, 0], [0, 0, 0]])),
            "new": (states, np.array([[1, 0, 0], [1, 0, 0]])),
        },
        mask,
    )


@CHAPTER.check("performance-difference", section="sec-difference")
def performance_difference(answer: Answer) -> Findings:
    script = _two_plays()
    back = answer(script, script.old.copy(), script.new.copy(), 2, 0)
    got = float(as_array(back, (), "the estimate"))
    sides = set(script.played), script.judged()
    form = next((i for i, value in enumerate(script.estimates()) if close(got, value)), None)
    if form is None:
        yield from recognise(
            got,
            {
                "no advantage is asked for": not sides[1],
                "the roles are swapped": sides == ({"old"}, {"new"})
                and close(got, script.sums("old", "new")),
                "advantages of the new policy": sides == ({"new"}, {"new"}),
                "only the step's own ratio": script.sums("old", "old", weighed="step"),
                "episodes of the old policy": sides == ({"old"}, {"old"})
                and close(got, script.sums("old", "old")),
            },
        )
    if form is None and len(script.played) == 2:
        swapped, mask = sides == ({"old"}, {"new"}), script.mask
        player, judge, sign = ("old", "new", -1.0) if swapped else ("new", "old", 1.0)
        terms, powers = sign * script.worth[judge][script.plays[player]], 0.25 ** np.arange(3)
        kept, wanted = terms * mask, float((terms * mask * powers).sum())
        backwards = [(kept * powers[::-1]).sum(), kept[0] @ powers[::-1] + kept[1, 0]]
        yield from recognise(
            got,
            {
                "the first step is discounted already": wanted / 8,
                "normalised by 1 − γ": either(wanted / 2 * 0.75, wanted / 2 / 0.75),
                "discounted from the wrong end": either(*(total / 2 for total in backwards)),
                "gamma is not used": kept.sum() / 2,
                "padding is counted as steps": (terms * powers).sum() / 2,
                "a sum over episodes, not a mean": wanted,
                "averaged over steps, not over episodes": either(
                    wanted / 4, wanted / 6, (kept[0] @ powers / 3 + kept[1, 0]) / 2
                ),
                "the sign is turned round": -wanted / 2,
            },
        )
    if len(script.played) != 2:
        yield Mistake("the number of episodes is not obeyed", count=len(script.played), what="two")
    yield Property(
        "it is what the lemma makes of the two episodes that were played",
        form is not None,
        f"of two episodes, of three steps and of one, your estimate is {numbers(got)}",
    )
    again = _two_plays()
    answer(again, again.old.copy(), again.new.copy(), 6, 0)
    if len(again.played) != 6:
        yield Mistake("the number of episodes is not obeyed", count=len(again.played), what="six")

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        count, steps, states, actions = rng.integers((1, 1, 1, 2), (5, rng.choice([6, 6, 200]), 4, 5))
        shape = (states, actions)
        mask = np.arange(steps) < rng.integers(1, steps + 1, size=(count, 1))
        mask[rng.integers(count)] = True
        found: dict[str, Any] = {"gamma": float(rng.choice([0.0, 0.3, 0.9, 1.0]))}
        for who in ("old", "new"):
            found[f"{who}_states_actions"] = [
                rng.integers(size, size=mask.shape).tolist() for size in (states, actions)
            ]
            found[who] = (p := softmax(rng.normal(size=shape))).tolist()
            worth = rng.choice([0.1, 1, 50]) * rng.normal(size=shape)
            found[f"{who}_advantages"] = (worth - (p * worth).sum(1, keepdims=True)).tolist()
        return {**found, "mask": mask.tolist()}

    def world(p: Problem) -> _Plays:
        t = {name: np.array(value) for name, value in vars(p).items()}
        worth, plays = (
            {who: t[f"{who}_{what}"] for who in ("old", "new")} for what in ("advantages", "states_actions")
        )
        return _Plays(p.gamma, t["old"], t["new"], worth, plays, t["mask"])

    def play(*values: Any) -> Any:
        made = world(Problem(**dict(zip(vars(problems[0]), values, strict=True))))
        return answer(made, made.old.copy(), made.new.copy(), len(made.mask), 3)

    problems = random_problems(draw)
    yield agrees(play, lambda p: world(p).estimates()[form or 0], problems, what="your estimate")

    real = chain(3, left_reward=0.4, slip=0.1, gamma=0.9)
    even, firm = np.tile([0.5, 0.5], (5, 1)), np.tile([0.2, 0.8], (5, 1))
    truth = real.objective(firm) - real.objective(even)
    tries = [float(as_array(answer(real, even, firm, 200, seed), (), "the estimate")) for seed in range(12)]
    error = float(np.std(tries, ddof=1) / np.sqrt(len(tries)))
    yield Property(
        "in a chain it finds J(new) − J(old), to within its own standard error",
        abs(np.mean(tries) - truth) < 6 * error + 1e-9,
        f"it finds {np.mean(tries):.3f} ± {error:.3f}, and the truth is {truth:.3f}",
    )
    same = as_array(answer(real, even, firm, 200, 0), (), "the estimate")
    yield Property(
        "the same seed gives the same estimate",
        close(tries[0], same, 1e-9),
        f"it gives {tries[0]:.4f} and then {same:.4f}",
    )
    yield Property("another seed gives another estimate", error > 1e-9, f"twelve times {tries[0]:.3f}")


# --- forecast


@CHAPTER.check("surrogate-gradient", section="sec-surrogate")
def surrogate_gradient(answer: Answer) -> Findings:
    world = chain(2, left_reward=0.4, slip=0.1, gamma=0.9)
    logits = np.array([[0.0, 0.0], [0.0, 0.4], [0.3, -0.2], [0.0, 0.0]])
    old, new = softmax(logits), softmax(logits + np.array([[0, 0], [0.0, 1.0], [-1.5, 0.0], [0, 0]]))

    def ask(policy: Any, world: TabularMDP = world, old: Any = old) -> float:
        pair = (torch.tensor(table, dtype=torch.float64) for table in (old, policy))
        return float(as_array(answer(world, *pair), (), "the surrogate").round(12)) + 0.0

    def line(world: TabularMDP, old: np.ndarray, new: np.ndarray) -> float:
        """The line that touches J at the old policy: known from J alone, by finite differences."""
        bit = 1e-4  # a smaller one would leave rounding to whoever takes differences of this
        ends = [world.objective(old + sign * bit * (new - old)) for sign in (1, -1)]
        return world.objective(old) + (ends[0] - ends[1]) / (2 * bit)

    before, after = world.objective(old), world.objective(new)
    rise, here, there = line(world, old, new) - before, ask(old), ask(new)
    one_state = TabularMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], 0.5, [1.0])  # an even policy earns 1
    idle = close(there, here) and close(ask([[0.9, 0.1]], one_state, [[0.5, 0.5]]), 1.0)
    visits, worth, values = world.state_occupancy(old), world.advantages(old), world.policy_value(old)
    gains, acting = (new * worth).sum(1), ~world.terminal
    shares = {
        "the visits are made a distribution": (1 - world.gamma, 1 / visits.sum()),
        "a mean where a sum belongs": (1 / old.size, 1 / len(old)),
    }
    yield from recognise(
        [here, there],
        {
            "J of the old policy is missing": [0.0, rise],
            "J itself, not its forecast": [before, after],
            "it forecasts no change, ever": idle,
            "what an action is worth, not how much better than usual": close(here, before + visits @ values),
        },
        tolerance=1e-5,
        before=before,
        after=after,
    )
    yield from recognise(
        there - here,
        {
            "the sign is turned round": -rise,
            **{name: either(*(f * rise for f in factors)) for name, factors in shares.items()},
            "a ratio, and no weight for how often": visits @ ((new / old - 1) * worth).sum(1),
            "every state counts alike": either(gains.sum(), gains.mean(), gains[acting].mean()),
            "the ratio is upside down": visits @ (old * (old / new) * worth).sum(1),
            "the logarithm of the ratio": visits @ (old * np.log(new / old) * worth).sum(1),
        },
        tolerance=1e-5,
        before=before,
        after=after,
        here=here,
        there=there,
        share=(there - here) / rise,
    )
    # Far from the old policy, since near it the surrogate hardly depends on which policy is the old one.
    frozen, far = leaf(old, torch.float64), leaf(new, torch.float64)
    by_old, _ = gradients(answer(world, frozen, far), frozen, far, what="the surrogate")
    if not close(by_old, 0 * old):
        yield Mistake("the old policy can move")
    yield Property(
        "at the old policy it is J", close(here, before), f"J is {before:.4f}, and you say {here:.4f}"
    )
    middle = ask((old + new) / 2)
    yield Property(
        "half-way between two policies it is half-way between",
        close(middle, (here + there) / 2),
        f"it is {numbers(middle)} between {numbers(here)} and {numbers(there)}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        states, actions = rng.integers((1, 2), (5, 5))
        terminal = rng.random(states) < 0.3
        terminal[rng.integers(states)] = False
        start = rng.random(states) * ~terminal
        old = softmax(rng.normal(size=(states, actions)))
        return {
            "P": rng.dirichlet(np.ones(states), size=(states, actions)).tolist(),
            "R": (rng.choice([0.1, 1, 30]) * rng.normal(size=(states, actions))).tolist(),
            "gamma": float(rng.choice([0.0, 0.5, 0.9])),
            "start": (start / start.sum()).tolist(),
            "terminal": terminal.tolist(),
            "old": old,
            "logits": np.log(old) + rng.choice([0.0, 0.3, 2]) * rng.normal(size=old.shape),
        }

    def slow(p: Problem) -> float:
        return line(TabularMDP(p.P, p.R, p.gamma, p.start, p.terminal), p.old, softmax(p.logits))

    def of_logits(P: Any, R: Any, gamma: Any, start: Any, terminal: Any, old: Any, logits: Any) -> Any:  # noqa: N803
        return answer(TabularMDP(P, R, gamma, start, terminal), old.double(), logits.double().softmax(-1))

    yield agrees(of_logits, slow, random_problems(draw), what="your surrogate", by=("logits",), held=("old",))


# --- guaranteed


class _Tables(_Made):
    """A world whose visits and advantages are made up, so that each part of the bound has its own size."""

    allowed = "state_occupancy, advantages, gamma, terminal"

    def __init__(self, p: Problem) -> None:
        super().__init__(p.gamma, np.array(p.old), np.array(p.new))
        self.terminal = np.array(p.terminal)
        self._visits, self._worth = np.array(p.visits), np.array(p.advantages)

    def state_occupancy(self, probs: Any) -> Any:
        self.note("visits", probs)
        return _like(self._visits, probs)

    def advantages(self, probs: Any) -> Any:
        self.note("advantages", probs)
        return _like(self._worth, probs)

    def objective(self, probs: Any) -> Any:
        self.note("J", probs)
        return _like(np.array(7.0), probs)


@CHAPTER.check("bound-size", section="sec-bound")
def bound_size(answer: Answer) -> Findings:
    def ask(*values: Any) -> Any:
        made = _Tables(Problem(**dict(zip(vars(probe), values, strict=True))))
        back = answer(made, made.old.copy(), made.new.copy())
        if any(who == "new" for _, who in made.asked):
            raise Mistake("the new policy is asked")
        return as_array(back, (), "the promised gain")

    # Every part of the bound has another size, so that it shows which one is wrong.
    probe = Problem(
        gamma=0.7,
        terminal=[False, False, True],
        visits=[1.5, 0.5, 0.0],
        old=[[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]],
        new=[[0.5, 0.5], [0.4, 0.6], [0.999, 0.001]],
        advantages=[[1.0, -3.0], [1.2, -1.2], [0.0, 0.0]],
    )
    old, new, worth = (np.array(x) for x in (probe.old, probe.new, probe.advantages))
    visits = np.array(probe.visits)
    kls, wide = divergence(old, new), np.abs(new - old).sum(1)[0] / 2
    by_state = (new * worth).sum(1)
    forecast, kl = float(visits @ by_state), float(kls[0])
    price = 4 * 3 * 0.7 / 0.09  # of one nat
    bill, sharper = price * kl, float(np.abs(by_state).max()) / 3
    got = float(ask(*vars(probe).values()))

    def less(*bills: float) -> Any:
        """The forecast less another penalty."""
        return either(*(forecast - bill for bill in bills))

    yield from recognise(
        got,
        {
            "the penalty is added, not taken off": forecast + bill,
            "a forecast, not a promise": forecast,
            "a forecast of nothing": -bill,
            "the sign of the forecast is turned round": -forecast - bill,
            "the new return, not the gain": either(7.0 + forecast - bill, 7.0 - bill),
            "every state counts alike": either(
                *(f - bill for f in (by_state.sum(), by_state.mean(), by_state[:2].mean()))
            ),
            "the visits are made a distribution": either(forecast * 0.3 - bill, forecast / 2 - bill),
            "a mean KL, not the largest": less(
                *(price * k for k in (kls[:2].mean(), kls[:2].sum(), kls.mean(), kls.sum())),
                *(price * float(visits @ kls) / total for total in (1, 2, 1 / 0.3)),
            ),
            "the KL the other way round": less(price * divergence(new, old)[0]),
            "the KL below zero": less(-price * kls[1]),
            "the states where nobody acts": less(price * kls[2]),
            "the total variation, not the KL": less(
                *(price * w for w in (wide, wide**2, 2 * wide, 4 * wide**2))
            ),
            "1 − γ is not squared": less(bill * 0.3),
            "the square stands in the wrong place": less(bill * 0.7, bill * 0.09 / 0.51),
            "γ is missing above": less(bill / 0.7),
            "the 4 is missing": less(bill / 4),
            "the 4 is a 2": less(bill / 2),
            "the largest advantage, not the largest in size": less(bill * 1.2 / 3),
            "a mean advantage, not the largest": less(
                bill * 1.6 / 3, bill * 6.4 / 18, bill * sharper, bill * np.abs(visits @ by_state) / 3
            ),
        },
        forecast=forecast,
        kl=kl,
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        states, actions = rng.integers((1, 2), (5, 5))
        shape, terminal = (states, actions), rng.random(states) < 0.3
        terminal[rng.integers(states)] = False
        old = softmax(rng.normal(size=shape))
        worth = rng.choice([0.1, 1, 30], size=(states, 1)) * rng.normal(size=shape) * ~terminal[:, None]
        often, far = (
            rng.choice([0.0, 0, 1e-4, 0.1, 3], size=states),
            rng.choice([0.0, 0.05, 1, 5], size=(states, 1)),
        )
        return {
            "gamma": float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.999])),
            "terminal": terminal.tolist(),
            "visits": (often * rng.random(states) * ~terminal).tolist(),
            "old": old.tolist(),
            "new": softmax(np.log(old) + far * rng.normal(size=shape)).tolist(),
            "advantages": (worth - (old * worth).sum(1, keepdims=True)).tolist(),
        }

    def slow(p: Problem) -> float:
        """Return the forecast, number by number, then the share of each state and each action."""
        gain, taken = 0.0, [0.0]
        rows = zip(p.terminal, p.visits, p.old, p.new, p.advantages, strict=True)
        sizes = [abs(a) for row in p.advantages for a in row]
        for over, visits, old, new, worth in rows:
            gain += sum(visits * n * a for n, a in zip(new, worth, strict=True))
            kl = sum(o * (np.log(o) - np.log(n)) for o, n in zip(old, new, strict=True))
            taken += [0.0 if over else 4 * p.gamma * a * kl / (1 - p.gamma) ** 2 for a in sizes]
        return gain - max(taken)

    yield agrees(ask, slow, random_problems(draw), what="your promise")
