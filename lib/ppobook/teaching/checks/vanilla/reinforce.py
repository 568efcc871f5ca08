"""The check of a whole REINFORCE, on a chain that the reader has not seen and on scripted episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ppobook.envs import Episodes, TabularMDP, chain

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from . import CHAPTER

UPDATES, BATCH, RATE = 60, 64, 2.0


class _Curtain:
    """A small MDP that shows what a learner may see, with arbitrary rewards in the padding."""

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


# As messages call them.
_Curtain.__name__ = _Script.__name__ = "world"


def _learned(answer: Answer, updates: int = 1, rate: float = 1.0, **script: Any) -> np.ndarray:
    """What one update, or a few, taught about the three states of the script."""
    logits = as_array(answer(_Script(**script), updates, 8, rate, 0), (4, 2), "the logits")
    return (logits - logits.mean(1, keepdims=True))[:3]


@CHAPTER.check("reinforce", section="sec-reinforce")
def reinforce(answer: Answer) -> Findings:
    world = chain(4, left_reward=0.4, slip=0.1, gamma=0.95)
    size = (world.n_states, world.n_actions)
    even = world.objective(np.full(size, 1 / world.n_actions))
    best = world.objective(world.optimal_policy())

    def learn(seed: int, padding: float = 50.0) -> tuple[float, np.ndarray, _Curtain]:
        curtain = _Curtain(world, padding)
        logits = as_array(answer(curtain, UPDATES, BATCH, RATE, seed), size, "the logits")
        raised = np.exp(logits - logits.max(1, keepdims=True))
        reached = world.objective(raised / raised.sum(1, keepdims=True))
        return (reached - even) / (best - even), logits, curtain

    reached, logits, curtain = learn(0)
    batches = len(curtain.policies)
    first = curtain.policies[0] if batches else np.zeros(size)
    still = all(close(table, first, 1e-6) for table in curtain.policies)
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
            "the same random numbers for every batch": batches > 1
            and curtain.seeds[0] is not None
            and len(set(curtain.seeds)) == 1,
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
    ways = either([0.25, 0.5, 1.0], [0.25, 0.25, 0.25])
    yield from recognise(
        halved / step,
        {
            "discounted by another gamma than the world's": not any(
                close(halved / step, way, 0.02) for way in ways.outputs
            )
        },
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
        "it asks for one batch an update",
        batches == UPDATES,
        f"it asked {batches} times in {UPDATES} updates",
    )
    yield Property(
        "each batch has as many episodes as it is given",
        set(curtain.sizes) == {BATCH},
        f"it asked for {numbers(sorted(set(curtain.sizes)))} episodes in place of {BATCH}",
    )
    way = f"it went {reached:.0%} of the way from the even policy to the best one"
    yield Property("it learns: 80% of the way to the best policy", reached > 0.8, way)
    second, _, _ = learn(1)
    yield Property("with another seed too", second > 0.8, f"with seed 1 {second:.0%} of the way")
    short = _Curtain(world, 50.0)
    one, two = (as_array(answer(short, 3, 16, RATE, 5), size, "the logits") for _ in range(2))
    yield Property(
        "the same seed gives the same logits",
        close(one, two, 1e-6),
        f"{numbers(one[1])} and {numbers(two[1])}",
    )
