"""The check of a whole REINFORCE, on a chain that the reader has not seen and on scripted episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ppobook.envs import Episodes, TabularMDP, chain

from .. import Answer, Findings, Mistake, Property, as_array, close, numbers, recognise
from . import CHAPTER

UPDATES, BATCH, RATE = 60, 64, 2.0
# What can be asked of a world where the reader's function runs in another process.
SHOWN = ("n_states", "n_actions", "gamma", "sample_episodes")


class _Curtain:
    """A small MDP that shows what a learner may see, with arbitrary rewards in the padding."""

    __lends__ = SHOWN

    def __init__(self, world: TabularMDP, padding: float) -> None:
        self.n_states, self.n_actions, self.gamma = world.n_states, world.n_actions, world.gamma
        self.policies: list[np.ndarray] = []
        self.sizes: list[int] = []
        self.seeds: list[Any] = []
        self._world, self._padding = world, padding

    def sample_episodes(
        self, probs: Any, episodes: int, seed: Any = None, *, max_steps: int | None = None
    ) -> Episodes:
        plain = probs.detach().numpy() if isinstance(probs, Tensor) else probs
        self.policies.append(np.array(plain, dtype=np.float64))
        self.sizes.append(episodes)
        self.seeds.append(str(seed.bit_generator.state) if isinstance(seed, np.random.Generator) else seed)
        batch = self._world.sample_episodes(probs, episodes, seed, max_steps=max_steps)
        return batch._replace(rewards=np.where(batch.mask, batch.rewards, self._padding))

    def __getattr__(self, name: str) -> Any:
        if not hasattr(TabularMDP, name) and name not in vars(self._world):
            raise AttributeError(f"a world has no {name}; it has n_states, n_actions, gamma, sample_episodes")
        raise Mistake("it looks behind the curtain", asked=name)


class _Script:
    """A world that plays the same eight episodes to everybody, each through the states 0, 1 and 2."""

    __lends__ = SHOWN

    n_states, n_actions = 4, 2

    def __init__(
        self,
        early: float = 0.0,
        late: float = 0.0,
        *,
        units: Sequence[float] = (1.0,),
        middle: tuple[float, float] = (1.0, 0.0),
        last: tuple[float, float] = (0.0, 2.0),
        gamma: float = 1.0,
    ) -> None:
        # One episode gains what the other loses, early or late, so that the means over episodes, steps and
        # states, whichever the reader's baseline is, stay what they were. There are four of each, so that
        # it hardly matters whether a sample is left out of its own baseline.
        rewards = np.array([[early, middle[0], last[0] - late], [-early, middle[1], last[1] + late]])
        states, actions = np.tile([0, 1, 2], (8, 1)), np.array([[0, 0, 0], [1, 1, 1]])
        mask = np.ones((8, 3), dtype=bool)
        self._batch = Episodes(states, np.tile(actions, (4, 1)), np.tile(rewards, (4, 1)), mask)
        self.gamma, self._units = gamma, iter(units)

    def sample_episodes(self, *_: Any, **__: Any) -> Episodes:
        batch = Episodes(*(part.copy() for part in self._batch))
        return batch._replace(rewards=batch.rewards * next(self._units, 0.0))


# What the first batch of the deck teaches about its four states.
SURE = np.array([[46, 1, 1], [12, 24, 12], [12, 12, 24], [1, 46, 1]]) / 48


def _deal() -> list[Episodes]:
    """Two batches of long episodes, half of them in the states 0 and 1, half in 2 and 3.

    In each state, at each time, an action is as frequent as the policy has it: the even one in the first
    batch, SURE in the second. So no baseline moves anything, and every right answer takes the same steps.
    """
    rng = np.random.default_rng(0)
    states = np.repeat([[0], [2]], 48, axis=0) + np.arange(40) % 2
    rewards, batches = np.zeros((96, 40)), []
    for counts in (np.full((4, 3), 16), np.rint(48 * SURE).astype(int)):
        halves = [
            rng.permuted([np.repeat([0, 1, 2], counts[s]) for s in row], axis=1) for row in states[[0, 48]]
        ]
        actions = np.concatenate(halves, axis=1).T
        batches.append(Episodes(states, actions, rewards, np.ones_like(states, dtype=bool)))
        rewards = rng.normal(0.1 * (states < 2))
    worth = np.log(SURE)[states, batches[0].actions]
    batches[0] = batches[0]._replace(rewards=-np.diff(worth, axis=1, append=0))
    return batches


class _Deck:
    """A world that plays the same two batches to everybody. Nobody gets to its fifth state."""

    __lends__ = SHOWN

    n_states, n_actions, gamma = 5, 3, 1.0

    def __init__(self) -> None:
        self._left = iter(_deal())

    def sample_episodes(self, *_: Any, **__: Any) -> Episodes:
        return Episodes(*(part.copy() for part in next(self._left)))


# As messages call them.
_Curtain.__name__ = _Script.__name__ = _Deck.__name__ = "world"


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def _learned(answer: Answer, updates: int = 1, rate: float = 1.0, **script: Any) -> np.ndarray:
    """Return the logits of the script's three states after one update or a few."""
    logits = as_array(answer(_Script(**script), updates, 8, rate, 0), (4, 2), "the logits")
    return (logits - logits.mean(1, keepdims=True))[:3]


def _gradient(batch: Episodes, probs: np.ndarray) -> np.ndarray:
    """One number at a time: what each later reward says of each logit of the deck."""
    slopes = np.zeros((5, 3))
    for states, actions, rewards, _ in zip(*batch, strict=True):
        for s, a, to_go in zip(states, actions, rewards[::-1].cumsum()[::-1], strict=True):
            for k in range(3):
                slopes[s, k] += to_go * ((k == a) - probs[s, k]) / len(batch.states)
    return slopes


@CHAPTER.check("reinforce", section="sec-reinforce")
def reinforce(answer: Answer) -> Findings:
    world = chain(4, left_reward=0.4, slip=0.1, gamma=0.95)
    size = (world.n_states, world.n_actions)
    even = world.objective(np.full(size, 1 / world.n_actions))
    best = world.objective(world.optimal_policy())

    def learn(seed: int, padding: float = 50.0) -> tuple[float, np.ndarray, _Curtain]:
        curtain = _Curtain(world, padding)
        logits = as_array(answer(curtain, UPDATES, BATCH, RATE, seed), size, "the logits")
        reached = world.objective(_softmax(logits))
        return (reached - even) / (best - even), logits, curtain

    reached, logits, curtain = learn(0)
    batches = len(curtain.policies)
    yield Property(
        "it asks for one batch an update",
        batches == UPDATES,
        f"it asked {batches} times in {UPDATES} updates",
    )
    if batches not in (0, UPDATES):
        return
    first = curtain.policies[0] if batches else np.zeros(size)
    still = all(close(table, first, 1e-6) for table in curtain.policies) and not close(
        _softmax(logits), first
    )
    clean = learn(0, padding=0.0)[0] if reached < 0.8 else reached
    plain, paid_more = (_learned(answer, units=[unit]) for unit in (1.0, 10.0))
    # Two outcomes of the last step, moved apart by 1 in each direction: whatever the baseline, the average
    # over episodes moves the logits of each state by half a learning rate times the discount.
    apart = (_learned(answer, late=1.0) - plain)[:, 1] / 0.5
    stirred = _learned(answer, early=20.0)
    flat = np.abs(plain).max() < 1e-6 and np.abs(apart).max() < 1e-6
    halved = (_learned(answer, late=1.0, gamma=0.5) - _learned(answer, gamma=0.5))[:, 1] / 0.5
    step = apart[2]
    yield from recognise(
        logits,
        {
            "no batch is sampled": batches == 0,
            "probabilities, not logits": bool((logits >= 0).all())
            and close(logits.sum(1), np.ones(len(logits))),
            "it does not begin with the even policy": not close(first, np.full(size, 0.5)),
            "nothing is learned": flat,
            "what the episodes held makes no difference": close(plain, paid_more) and close(plain, stirred),
            "every batch comes from the first policy": batches > 1 and still,
            "the same random numbers for several batches": batches > 1
            and curtain.seeds[0] is not None
            and len(set(curtain.seeds)) <= batches / 2,
            "padding is counted as steps": clean > reached + 0.1
            or not (close(*logits[0]) and close(*logits[-1])),
            "something else sets the length of the step": np.abs(plain).max() > 1e-6
            and np.abs(paid_more).max() < 2 * np.abs(plain).max(),
            "it learns the wrong way": step < -1e-3,
            "an action is credited with the past": np.abs(stirred - plain)[1:].max()
            > 2 * np.abs(plain).max(),
        },
        reached=reached,
        clean=clean,
        start=logits[0],
        policy=first,
        batches=batches,
        different=len(set(curtain.seeds)),
    )
    yield from recognise(
        step,
        {
            "a sum over episodes, not a mean": close(step, 8.0, 0.1),
            "averaged over steps, not over episodes": close(step, 1 / 3, 0.04),
            "the last step teaches nothing": abs(step) < 0.02 < np.abs(apart).max(),
            "only the reward of the step itself": abs(step - 1) < 0.25 and np.abs(apart[:2]).max() < 0.1,
        },
        apart=apart,
    )
    yield Property(
        "its step is the learning rate times a gradient averaged over episodes",
        0.8 < step < 1.25,
        f"in a small example it is {step:.2f} times that",
    )
    # Each reward-to-go is discounted from its own step; whoever weighs step t with γ^t as well is right too.
    powers = halved / (step or 1.0)
    rightly = close(powers, [0.25, 0.5, 1.0], 0.02) or close(powers, [0.25, 0.25, 0.25], 0.02)
    another = powers[1] > 0 and close(powers, powers[1] ** np.array([2, 1, 0]), 5e-3)
    yield from recognise(powers, {"discounted by another gamma than the world's": another and not rightly})
    yield Property(
        "with gamma = 1/2 a reward counts a quarter two steps before it and half one step before",
        rightly,
        f"three steps learn from the last one's reward as {numbers(powers)}",
    )
    for unit, rate in ((1.0, 30.0), (1000.0, 0.03), (0.01, 100.0)):
        times = np.abs(_learned(answer, units=[unit], rate=rate)).max() / max(np.abs(plain).max(), 1e-9)
        yield Property(
            "its first step grows with the rewards and with the learning rate",
            0.99 < times / (unit * rate) < 1.01,
            f"with rewards {unit:g} times as large and a learning rate of {rate:g} in place of 1 the step is "
            f"{times:.3g} times as long",
        )
    taken = [as_array(answer(_Deck(), n, 96, 0.3, 0), (5, 3), "the logits") for n in (1, 2)]
    moved = np.diff([np.zeros((5, 3)), *(table - table.mean(1, keepdims=True) for table in taken)], axis=0)
    for batch, policy, way, when in zip(
        _deal(), (np.full((4, 3), 1 / 3), SURE), moved, ("even", "sure"), strict=True
    ):
        due = 0.3 * _gradient(batch, policy)
        off = np.abs(way - due).max(1).argmax()
        yield Property(
            "with three actions and long episodes it steps along the gradient, early and late",
            np.abs(way - due).max() < 0.1 * np.abs(due).max(),
            f"where the policy is {when}, the logits of state {off} move by {numbers(way[off])}, "
            f"and by the definition {numbers(due[off])}",
        )
    # One batch in which one action earns as much as the other loses, so that every mean is zero, and twenty
    # in which nothing is earned; the other way round; and the first alone.
    even_pay: dict[str, Any] = {"middle": (0.0, 0.0), "last": (-1.0, 1.0)}
    none = [0.0] * 20
    once = _learned(answer, rate=20.0, units=[0.05], **even_pay)[:, 1]
    then = _learned(answer, 21, 20.0, units=[0.05, *none], **even_pay)[:, 1]
    later = _learned(answer, 21, 20.0, units=[*none, 0.05], **even_pay)[:, 1]
    yield from recognise(
        then,
        {
            "the logits move where nothing is earned": not close(then, once, 0.01),
            "the step grows or shrinks on the way": not close(later, once, 0.01),
        },
        once=once[2],
        then=then[2],
        later=later[2],
    )
    yield Property(
        "each batch has as many episodes as it is given",
        set(curtain.sizes) == {BATCH},
        f"it asked for {numbers(sorted(set(curtain.sizes)))} episodes in place of {BATCH}",
    )
    way = f"it went {reached:.0%} of the way from the even policy to the best one"
    yield Property("it learns: 80% of the way to the best policy", reached > 0.8, way)
    second, others, _ = learn(1)
    yield Property("with another seed too", second > 0.8, f"with seed 1 {second:.0%} of the way")
    yield Property(
        "another seed gives other logits", not close(logits, others, 1e-6), "seeds 0 and 1 give the same"
    )
    short = _Curtain(world, 50.0)
    one, two, _ = (as_array(answer(short, n, 16, RATE, 5), size, "the logits") for n in (3, 3, 4))
    yield Property(
        "the same seed gives the same logits",
        close(one, two, 1e-6),
        f"{numbers(one[1])} and {numbers(two[1])}",
    )
    played, learned = short.policies[-1][1], _softmax(one)[1]
    yield Property(
        "each batch is played by the policy of the logits",
        close(short.policies[-1], _softmax(one)),
        f"after three updates the logits of state 1 give {numbers(learned)}, and the fourth batch is played "
        f"with {numbers(played)}",
    )
