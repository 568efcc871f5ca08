"""Checks of the exercises on settings, alarms and seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, random_problems
from . import CHAPTER


@CHAPTER.check("sb3-settings", section="sec-practice-peers")
def sb3_settings(answer: Answer) -> Findings:
    # 4 environments of 128 steps: rollouts of 512, in 8 minibatches of 64. 10,000 steps need 20 rollouts.
    def ask(*arguments: Any) -> np.ndarray:
        return as_array(answer(*arguments), (3,), "batch_size, gradient steps and vf_coef")

    batch, steps, weight = ask(4, 128, 8, 10, 1.0, 10_000)
    yield from recognise(
        batch,
        {
            "a count is given as a size": 8.0,
            "the steps of one environment": 16.0,
            "the whole rollout is one minibatch": either(512.0, 128.0),
        },
    )
    yield from recognise(
        weight,
        {
            "the value loss keeps its weight": 1.0,
            "the weight is doubled": 2.0,
        },
    )
    yield from recognise(
        steps,
        {
            "the epochs are not counted": 160.0,
            "the minibatches are not counted": 200.0,
            "only rollouts are counted": 20.0,
            "the last rollout is left out": 1520.0,
            "a part of a rollout is counted": 1562.5,
            "it stops after a minibatch, not a rollout": either(1570.0, 1560.0),
            "rollouts of one environment": either(79 * 80.0, 78 * 80.0, 78.125 * 80),
        },
    )
    exact = ask(4, 128, 8, 10, 0.6, 1024)
    yield from recognise(exact[2], {"the weight does not depend on value_coef": weight})
    yield Property(
        "two whole rollouts are two, and not three",
        close(exact[1], 160.0),
        f"gradient steps: {numbers(exact[1])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        envs, minibatches, size = (int(2**k) for k in rng.integers(0, 5, size=3))
        # What is divided is the rollout, and not what one environment plays of it.
        length = minibatches // math.gcd(envs, minibatches) * size
        rollout = envs * length
        total = [1, rollout, 3 * rollout, int(rng.integers(1, 20 * rollout + 1))][rng.integers(4)]
        return {
            "num_envs": envs,
            "num_steps": length,
            "num_minibatches": minibatches,
            "epochs": int(rng.integers(1, 11)),
            "value_coef": float(rng.choice([0.25, 0.5, 1.0, 0.0])),
            "total_steps": total,
        }

    def slow(p: Problem) -> list[float]:
        played = updates = gradient_steps = 0
        while played < p.total_steps:  # a rollout, then the epochs over it
            played += p.num_envs * p.num_steps
            updates += 1
            gradient_steps += sum(p.num_minibatches for _ in range(p.epochs))
        samples = [1] * (p.num_envs * p.num_steps)
        return [len(samples[:: p.num_minibatches]), gradient_steps, p.value_coef / 2]

    yield agrees(answer, slow, random_problems(draw), tolerance=1e-6)


@CHAPTER.check("first-alarm", section="sec-practice-first")
def first_alarm(answer: Answer) -> Findings:
    def ask(gauge: list[float], limit: float, patience: int) -> float:
        return float(as_array(answer(np.array(gauge), limit, patience), (), "the update"))

    gauge = [0.01, 0.2, 0.01, 0.05, 0.2, 0.2, 0.01, 0.2, 0.2, 0.2, 0.2]
    got = ask(gauge, 0.1, 3)
    calm = ask([0.01, 0.02, 0.03, 0.02], 0.1, 2)
    low = ask([0.2, 0.2, 0.2, 0.01, 0.01], 0.1, 2)
    yield from recognise(
        low,
        {
            "it watches the wrong side": 3.0,
            "an alarm at update 0 is taken for none": close(low, -1.0) and close(got, 7.0),
        },
    )
    yield from recognise(
        got,
        {
            "a single spike sets it off": 1.0,
            "two in a row are enough": 4.0,
            "counted, but not in a row": 5.0,
            "updates are counted from 1": 8.0,
            "the update after the alarm": 10.0,
            "the last of the updates": 9.0,
        },
        limit=0.1,
    )
    yield from recognise(calm, {"no alarm is an update": either(0.0, 1.0, 4.0)}, got=calm)
    nan = float("nan")
    for gauge, limit, patience in (
        ([0.01, nan, nan, 0.3, 0.01], 0.1, 3),
        ([0.1, nan, nan, nan, 0.2], 0.3, 3),
    ):
        high = np.nan_to_num(gauge, nan=limit + 1).tolist()
        if close(ask(gauge, limit, patience), -1.0) and not close(ask(high, limit, patience), -1.0):
            yield Mistake("nan is no alarm", gauge=np.array(gauge), limit=limit, patience=patience)
    at = ask([0.1, 0.1], 0.1, 1)
    yield Property("a gauge at its limit is not above it", close(at, -1.0), f"the first alarm: {numbers(at)}")
    end = ask([0.0, 0.2, 0.2], 0.1, 2)
    yield Property(
        "a streak that ends with the run counts", close(end, 1.0), f"the first alarm: {numbers(end)}, not 1"
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        scale = rng.choice([-1.0, 0.01, 1, 100])
        values = rng.random(rng.integers(1, 30)) * scale
        values[rng.random(len(values)) < rng.choice([0, 0.1, 0.5])] = np.nan
        limit = float(np.nanquantile(np.append(values, scale / 2), rng.choice([0.2, 0.5, 0.8, 1.0])))
        values[rng.random(len(values)) < 0.05] = np.inf
        return {"gauge": values, "limit": limit, "patience": int(rng.integers(1, 5))}

    def slow(p: Problem) -> float:
        for start in range(len(p.gauge) - p.patience + 1):
            if not any(p.gauge[start + i] <= p.limit for i in range(p.patience)):
                return start
        return -1

    yield agrees(answer, slow, random_problems(draw), arrays=True)


@CHAPTER.check("hunt-seeds", section="sec-practice-reporting")
def hunt_seeds(answer: Answer) -> Findings:
    found: list[Mistake] = []

    def ask(seed: int, num_envs: int) -> list[int]:
        came = answer(seed, num_envs)
        got = as_array(came, (num_envs,), "the seeds")
        plain = [x.item() if hasattr(x, "item") else x for x in came]
        if (got < 0).any() or not all(isinstance(x, int) for x in plain):
            found.append(Mistake("a seed is no integer from 0 on", got=[str(x) for x in plain[:8]]))
        return [int(x) for x in plain]

    first, again, second = ask(7, 8), ask(7, 8), ask(8, 8)
    yield from found
    if first != again:
        yield Mistake("every call is another run", got=first, again=again)
    if len(set(first)) == 1:
        yield Mistake("all environments are the same", got=first)
    if first == second:
        yield Mistake("the run's seed makes no difference", got=first)
    shared = len({*first} & {*second})
    if shared:
        yield Mistake("two runs share environments", got=first, second=second, shared=shared)
    large, small = ask(1, 16), ask(2, 8)
    if len({*large} & {*small}) > 1:
        yield Mistake("runs of different sizes share environments", shared=len({*large} & {*small}))
    far = ask(0, 1024), ask(1, 1024)
    yield Property(
        "the 1024 environments of a run have 1024 seeds",
        len(set(far[0])) > 1021,
        f"{len(set(far[0]))} different",
    )
    if len(set(far[0])) <= 1021:
        return
    if len({*far[0]} & {*far[1]}) > 2:
        yield Mistake("many environments run into the next seed", shared=len({*far[0]} & {*far[1]}))
    # A rule that steps from one environment to the next may step into another run: into that whose seed is
    # one of the seeds it made.
    steps = sorted({x for x in (*far[0][:4], *far[1][:4]) if 1 < x < 2**31} | {10**6, 2**20})
    for seed in steps:
        own = ask(seed, 1024)
        shared = len({*own} & {*far[0]})
        if shared > 2 and own != far[0]:
            yield Mistake("two runs far apart share environments", seed=seed, shared=shared)
    runs = [(seed, (32, 8, 50, 1, 17)[seed % 5]) for seed in (*range(40), 1000, 123_456)]
    every = [one for run in runs for one in ask(*run)]
    # Two numbers of 32 bits among so many are equal once in ten thousand such draws.
    yield Property(
        "the environments of 42 runs of different sizes have different seeds",
        len(set(every)) > len(every) - 3,
        f"{len(every)} environments have {len(set(every))} different seeds",
    )
