"""Checks of n-step advantages, of their weights in GAE, and of what a critic is judged by."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .. import Answer, Findings, Property, Stop, as_array, close, either, numbers, recognise, words
from ..probes import Problem, agrees, random_problems
from . import CHAPTER, flags, in_numpy

STEPS = 7


@CHAPTER.check("n-step", section="sec-gae-nstep")
def n_step(answer: Answer) -> Findings:
    # Steps 0-2 are an episode that terminates, 3-4 another; steps 5 and 6 open one that goes on.
    terminated = np.array([False, False, True, False, True, False, False])

    def ask(rewards: Any, values: Any, n: int = 2) -> np.ndarray:
        back = answer(np.array(rewards), np.array(values), terminated, n, 0.5)
        return as_array(back, (STEPS,), "the advantages")

    # [k, t]: what a reward of 1 at step k, and a value of 1 of the state at step k, adds at step t.
    reward = np.array([ask(one, np.zeros(STEPS + 1)) for one in np.eye(STEPS)])
    value = np.array([ask(np.zeros(STEPS), one) for one in np.eye(STEPS + 1)])
    alone = ask(np.eye(STEPS)[1], np.zeros(STEPS + 1), n=1)
    nearest = [ask(np.zeros(STEPS), np.eye(STEPS + 1)[k], n=1)[k - 1] for k in (1, 2)]
    yield from recognise(
        reward,
        {
            "an action is credited with the past": reward[0, 1:].any(),
            "n is not used": alone[0] != 0,
            "the sum runs on into the next episode": reward[3, 2] != 0 or reward[5, 4] != 0,
            "one reward too few": reward[1, 0] == 0,
            "one reward too many": reward[2, 0] != 0,
            "the steps near the end are left out": reward[6, 6] == 0 or reward[6, 5] == 0,
            "an episode's last reward is left out": reward[2, 2] == 0 or reward[2, 1] == 0,
            "gamma is not used": close(reward[1, 0], 1),
            "discounted once too often": close(reward[0, 0], 0.5),
        },
        own=reward[0, 0],
        second=reward[1, 0],
        third=reward[2, 0],
        after=reward[3, 2],
        late=reward[6, [5, 6]],
        ends=reward[2, [1, 2]],
    )
    yield from recognise(
        value,
        {
            "the value of the state is not subtracted": not value[[0, 1], [0, 1]].any(),
            "a terminal state is given a future": value[3, [1, 2]].any() or value[5, [3, 4]].any(),
            "nothing follows the n rewards": value[2, 0] == 0 and value[7, 6] == 0,
            "a termination behind the n rewards takes their value away": value[2, 0] == 0
            and not value[[1, 3], 0].any()
            and nearest[0] != 0 == nearest[1],
            "the value behind the n rewards is read one step off": value[2, 0] == 0
            and value[[1, 3], 0].any(),
            "the end of the rollout is taken for the end of the episode": value[7, 6] == 0
            or value[7, 5] == 0,
            "the value has the wrong power of gamma": any(
                x > 0 and not close(x, 0.25) for x in (value[2, 0], value[7, 5])
            ),
            "near the end the power of gamma is still n": close(value[7, 6], 0.25),
        },
        own=value[[0, 1], [0, 1]],
        power=value[2, 0] if not close(value[2, 0], 0.25) else value[7, 5],
        behind=value[[1, 3], 0],
        nearest=nearest[0],
        future=value[3, [1, 2]],
        last=value[7, [5, 6]],
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        steps = int(rng.choice([1, 2, 3, 5, 9, 40]))
        return {
            "rewards": rng.choice([0.1, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=steps),
            "values": rng.choice([0.1, 1, 100]) * rng.normal(rng.choice([-1, 0, 1]), size=steps + 1),
            "terminated": flags(rng, (steps,)),
            "n": int(rng.choice([1, 2, 3, 5, 100] if steps < 20 else [30, 100])),
            "gamma": float(rng.choice([0, 0.5, 0.9, 1] if steps < 20 else [0.99, 1])),
        }

    def slow(p: Problem) -> list[float]:
        """Each entry as a sum of TD errors, which telescopes."""
        result = []
        for t in range(len(p.rewards)):
            total = 0.0
            for k in range(t, min(t + p.n, len(p.rewards))):
                ahead = 0.0 if p.terminated[k] else p.gamma * p.values[k + 1]
                total += p.gamma ** (k - t) * (p.rewards[k] + ahead - p.values[k])
                if p.terminated[k]:
                    break
            result.append(total)
        return result

    yield agrees(in_numpy(answer), slow, random_problems(draw, 40), what="the advantages")


@CHAPTER.check("lambda-weights", section="sec-gae-lambda")
def lambda_weights(answer: Answer) -> Findings:
    got = as_array(answer(3, 0.8), (3,), "the weights", finite=False)
    ended = np.array([1, 0.8, 0.64])
    yield from recognise(
        got,
        {
            "the rest of the weight is lost": 0.2 * ended,
            "the rest of the weight is spread over all": 0.2 * ended / 0.488,
            "the weights of TD errors": ended,
            "lam and 1 - lam are exchanged": either([0.8, 0.16, 0.04], [0.8, 0.16, 0.032]),
            "one power of lam too many": either(
                [0.16, 0.128, 0.1024], [0.16, 0.128, 0.512], [0.16, 0.128, 0.712]
            ),
            "the order is turned round": either([0.64, 0.16, 0.2], [0.128, 0.16, 0.2]),
            "all weigh the same": [1 / 3] * 3,
            "the last one has the wrong rest": close(got[:2], [0.2, 0.16]) and not close(got[2], 0.64),
        },
        total=got.sum(),
    )
    long = as_array(answer(200, 0.95), (200,), "the weights", finite=False)
    yield Property(
        "they add up to 1", close(long.sum(), 1), f"200 weights add up to {numbers(long.sum(), 4)}"
    )
    ends = [as_array(answer(4, lam), (4,), f"the weights at lam = {lam}", finite=False) for lam in (0.0, 1.0)]
    yield Property(
        "at λ = 0 only the shortest counts, at λ = 1 only the longest",
        close(ends, [[1, 0, 0, 0], [0, 0, 0, 1]]),
        f"of four they get {numbers(ends[0])} and {numbers(ends[1])}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {"steps": int(rng.integers(1, 9)), "lam": float(rng.choice([0, 0.1, 0.5, 0.9, 0.99, 1]))}

    def slow(p: Problem) -> np.ndarray:
        """One goes on with probability λ and stops with 1 − λ: the sum over all ways coins can fall."""
        weights = np.zeros(p.steps)
        for coins in product((True, False), repeat=p.steps - 1):
            chance = float(np.prod([p.lam if on else 1 - p.lam for on in coins]))
            weights[[*coins, False].index(False)] += chance
        return weights

    yield agrees(answer, slow, random_problems(draw, 30), what="the weights")


@CHAPTER.check("critic-report", section="sec-gae-problem")
def critic_report(answer: Answer) -> Findings:
    def ask(advantages: Any, values: Any) -> tuple[np.ndarray, float]:
        advantages, values = np.array(advantages, dtype=np.float64), np.array(values, dtype=np.float64)
        back = answer(advantages, values)
        if not isinstance(back, tuple | list) or len(back) != 2:
            came = "nothing" if back is None else words(back)
            raise Stop(
                "returned",
                "not two things",
                f"the targets and the explained variance must come back, a pair; got {came}.",
            )
        targets = as_array(back[0], advantages.shape, "the targets")
        return targets, float(as_array(back[1], (), "the explained variance", finite=False))

    targets, explained = ask([[1, -1, 1, 3]], [[1, 2, 3, 4, 9]])
    yield from recognise(
        targets,
        {
            "the advantages themselves are the targets": [[1, -1, 1, 3]],
            "the values themselves are the targets": [[1, 2, 3, 4]],
            "the advantages are subtracted": either([[0, 3, 2, 1]], [[0, -3, -2, -1]]),
            "the values are read one step off": [[3, 2, 5, 12]],
        },
    )
    # The errors are the advantages, of variance 2; the targets 2, 1, 4, 7 have 5.25, the values 1.25.
    t, v = np.array([2, 1, 4, 7]), np.array([1, 2, 3, 4])
    yield from recognise(
        np.array(explained),
        {
            "the share that is left, not the share that is explained": 2 / 5.25,
            "a constant error is counted": either(1 - 3 / 5.25, 1 - 3 / 17.5),
            "compared with the variance of the values": either(1 - 2 / 1.25, 1 - 1.25 / 2),
            "the variance of the values, as a share": 1.25 / 5.25,
            "a correlation": either(np.corrcoef(t, v)[0, 1], np.corrcoef(t, v)[0, 1] ** 2),
            "standard deviations, not variances": 1 - (2 / 5.25) ** 0.5,
            "two variances that divide by different numbers": either(1 - 2 * 4 / 3 / 5.25, 1 - 2 / 7),
        },
    )
    # The targets are 2, −1 and 9, 1, with the variances 2.25 and 16 row by row; the errors have 1 and 4.
    shares = 1 - 1 / 2.25, 1 - 4 / 16
    rows = ask([[1, -1], [2, -2]], [[1, 0, 5], [7, 3, 5]])[1]
    yield from recognise(
        np.array(rows),
        {"each environment is judged by itself": either(sum(shares) / 2, 1 - 5 / 18.25, *shares)},
    )
    worse = ask([[3, -3]], [[1, 2, 0]])[1]  # the targets 4, −1 have variance 6.25, the errors 9
    yield from recognise(
        np.array(worse),
        {"a bad critic is shown as none": either(0, 1, 0.44)},
    )
    perfect = ask([[0, 0], [0, 0]], [[1, 2, 5], [3, 1, 5]])[1]
    yield Property(
        "1 for a critic that is right everywhere",
        close(perfect, 1),
        f"with advantages of zero it is {perfect:.3g}",
    )
    flat = ask([[1, 0]], [[1, 2, 5]])[1]
    yield Property(
        "nan where all targets are equal, since there is nothing to explain",
        bool(np.isnan(flat)),
        f"with the targets 2, 2 the explained variance is {flat:.3g}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = int(rng.integers(1, 5)), int(rng.integers(2, 7))
        scale = rng.choice([0.01, 1, 100])
        level = rng.normal(size=(shape[0], 1)) * rng.choice([0, 3])
        return {
            "advantages": scale * rng.normal(rng.choice([-1, 0, 1]), size=shape),
            "values": scale * (level + rng.choice([0.1, 1, 3]) * rng.normal(size=(shape[0], shape[1] + 1))),
        }

    def both(advantages: Any, values: Any) -> np.ndarray:
        targets, explained = ask(advantages, values)
        scale = np.abs(targets).max()  # so that the share weighs as much as the targets
        return np.append(targets / scale, explained)

    def slow(p: Problem) -> np.ndarray:
        """A variance is half the mean squared difference of all pairs."""
        targets = p.advantages + np.array([row[:-1] for row in p.values])

        def spread(x: np.ndarray) -> float:
            return float(np.mean([(a - b) ** 2 for a in x.ravel() for b in x.ravel()]) / 2)

        return np.append(targets / np.abs(targets).max(), 1 - spread(p.advantages) / spread(targets))

    yield agrees(
        in_numpy(both),
        slow,
        random_problems(draw, 30),
        what="the targets, divided by the largest, and the explained variance",
    )
