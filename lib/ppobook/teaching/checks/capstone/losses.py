"""The check of stage 3: PPO's loss in its three parts, on networks whose outputs are free numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import Answer, Findings, Mistake, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, random_problems
from . import WHOLE as CHAPTER


class Asked:
    """The reader's loss of networks whose weights are the outputs: sample i sees the i-th unit vector."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def __call__(self, *arguments: Any) -> Any:
        logits, values, actions, logp, advantages, returns, *coefficients = arguments
        samples = len(logits)
        policy, critic = nn.Linear(samples, logits.shape[1], bias=False), nn.Linear(samples, 1, bias=False)
        # The weights themselves are what the caller differentiates by.
        for net, weight in ((policy, logits.T), (critic, values[None])):
            del net.weight
            net.weight = weight
        batch = {
            "obs": torch.eye(samples),
            "actions": actions.long(),
            "logp": logp,
            "advantages": advantages,
            "returns": returns,
        }
        return self.answer(policy, critic, batch, *coefficients)


def probe(ratio: Any, advantages: Any, values: Any = None, returns: Any = None) -> list[Tensor]:
    """Samples of two actions, equally likely now; the first was taken, with the ratio that is asked for."""
    ratio = torch.tensor(ratio)
    zeros = torch.zeros(len(ratio))
    return [
        torch.zeros(len(ratio), 2),
        zeros if values is None else torch.tensor(values),
        zeros.long(),
        torch.log(0.5 / ratio),
        torch.tensor(advantages),
        zeros if returns is None else torch.tensor(returns),
    ]


@CHAPTER.check("capstone-loss", section="sec-ppo-three-parts")
def capstone_loss(answer: Answer) -> Findings:
    ask = Asked(answer)

    def value(arguments: list[Tensor], *coefficients: float, finite: bool = True) -> float:
        came = ask(*arguments, *coefficients)
        if isinstance(came, Tensor) and tuple(came.shape) == (len(arguments[0]),):
            raise Mistake("not one number", shape=str(list(came.shape)))
        return float(as_array(came, (), "your loss", finite=finite))

    def gain(ratios: tuple[float, ...], worth: tuple[float, ...], eps: float = 0.2) -> float:
        """The policy's part alone: a loss is minus the objective."""
        return -value(probe(ratios, worth), eps, 0.0, 0.0, finite=False)

    # Single samples, the policy's part alone.
    ratios, worth = (0.5, 0.9, 1.5) * 2, (1.0,) * 3 + (-1.0,) * 3
    single = np.array([gain((r,), (a,)) for r, a in zip(ratios, worth, strict=True)])
    r, a = np.array(ratios), np.array(worth)
    box = r.clip(0.8, 1.2)
    wide, twice, pair = gain((1.5,), (1.0,), 0.4), gain((1.5,), (2.0,)), gain((1.0, 1.0), (1.0, 3.0))
    # The quotients of those who take the stored logarithm for a probability. At r = 0.5 it is 0.
    with np.errstate(divide="ignore"):
        quotients = [now / np.log(0.5 / r) for now in (0.5, np.log(0.5))]
    yield from recognise(
        single,
        {
            "it goes downhill": -np.sort([r * a, box * a], axis=0)[0],
            "the ratio is inverted": np.sort([a / r, (1 / r).clip(0.8, 1.2) * a], axis=0)[0],
            "the larger of the two is taken": np.sort([r * a, box * a], axis=0)[1],
            "nothing is clipped": r * a,
            "only the clipped product": box * a,
            "no exponential": np.sort([np.log(r) * a, np.log(r).clip(0.8, 1.2) * a], axis=0)[0],
            "the old log-probability is not read": either(
                a, np.log(0.5) * a, np.sort([0.5 * a, 0.8 * a], axis=0)[0]
            ),
            "the stored logarithm is taken for a probability": either(
                *(np.sort([q * a, q.clip(0.8, 1.2) * a], axis=0)[0] for q in quotients)
            ),
            "advantages are normalised here": close(single, 0 * a)
            or bool(np.isnan(single).all() and close(pair, 0)),
            "the smaller ratio, whatever the sign of A": np.minimum(r, box) * a,
            "one of the two products lacks its advantage": close(single[:3], np.minimum(r, box)[:3])
            and (close(twice, 1.2) or close(twice, 1.5)),
            "nothing is clipped where A is negative": np.where(a > 0, np.minimum(r, box), r) * a,
            "clipped samples count for nothing": either(
                r * a * (r == box), np.where(r * a <= box * a, r * a, 0.0)
            ),
            "clip_eps is not used": not close(wide, 1.4)
            and close(wide, single[2])
            and close(single[[0, 1, 4, 5]], (r * a)[[0, 1, 4, 5]]),
        },
        good=single[:3],
        bad=single[3:],
        wide=wide,
        twice=twice,
        wanted=np.sort([r * a, box * a], axis=0)[0][3:],
    )
    as_array(single, single.shape, "your loss of a single sample")  # is finite
    yield from recognise(pair, {"the policy's part is summed, not averaged": 4.0})

    # The value's part alone, then the entropy's. One sample, then two, where broadcasting shows.
    one = value(probe([1.0], [0.0], [3.0], [1.0]), 0.2, 1.0, 0.0)
    half = value(probe([1.0], [0.0], [3.0], [1.0]), 0.2, 0.5, 0.0)
    far = value(probe([1.0], [0.0], [5.0], [1.0]), 0.2, 1.0, 0.0)
    both = value(probe([1.0] * 2, [0.0] * 2, [3.0] * 2, [1.0] * 2), 0.2, 1.0, 0.0)
    two = value(probe([1.0, 1.0], [0.0, 0.0], [1.0, 5.0], [1.0, 5.0]), 0.2, 1.0, 0.0)
    spread = value(probe([1.0] * 2, [0.0] * 2), 0.2, 0.0, 1.0)
    more = value(probe([1.0] * 2, [0.0] * 2), 0.2, 0.0, 0.1)
    yield from recognise(
        one,
        {
            "values and returns meet crosswise": two > 0.5,
            "value_coef is not used": close(one, half) and not close(one, 0),
            "no value loss": close(one, 0),
            "the value loss has the wrong sign": one < 0,
            "no half in the value loss": 4.0,
            "the value loss is summed, not averaged": close(both, 2 * one),
            "the error is not squared": close(far, 2 * one),
            "the entropy has the wrong sign": spread > 0.1,
            "no entropy bonus": close(spread, 0),
            "the entropy is summed, not averaged": close(spread, -2 * np.log(2)),
            "entropy_coef is not used": close(spread, more),
            "large errors count less": far < 3.9 * one,
        },
        two=two,
        both=both,
        spread=spread,
        half=half,
        far=far,
    )
    uneven = probe([1.0], [0.0])
    uneven[0] = torch.tensor([[2.0, 0.0]])
    p = float(uneven[0].softmax(-1)[0, 0])
    real = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    yield from recognise(
        -value(uneven, 0.2, 0.0, 1.0),
        {"the entropy is minus the log-probability of what was done": -np.log(p)},
        real=real,
    )

    # Nothing but the networks is trained, and each of the three parts trains its own.
    def slopes(*coefficients: float, advantages: tuple[float, float] = (1.0, -2.0)) -> list[bool]:
        """Return whether a gradient reaches the logits, the values, and the batch's three numbers."""
        arguments = probe([1.1, 0.9], advantages, [1.0, 3.0], [0.5, 2.0])
        arguments[0] = torch.tensor([[0.05, -0.05], [0.05, -0.05]])
        leaves = [one.requires_grad_() for one in (*arguments[:2], *arguments[3:])]
        came = ask(*arguments, *coefficients)
        as_array(came, (), "your loss")
        return [bool(np.abs(slope).max() > 1e-7) for slope in gradients(came, *leaves)]

    whole, bonus = slopes(0.2, 0.5, 0.01), slopes(0.2, 0.5, 1.0, advantages=(0.0, 0.0))
    yield from recognise(
        0.0,
        {
            "the old log-probability is trained": whole[2],
            "the advantages are trained": whole[3],
            "the returns are trained": whole[4],
            "the policy gets no gradient": not slopes(0.2, 0.5, 0.0)[0],
            "the critic gets no gradient": not whole[1],
            "the entropy trains nothing": not bonus[0],
        },
    )
    right = np.sort([r * a, box * a], axis=0)[0]
    yield Property(
        "each part agrees with its formula, for single samples",
        close(single, right) and close(one, 2) and close(spread, -np.log(2)),
        f"for ρ = {numbers(ratios)} with A = {numbers(worth)} minus your loss is {numbers(single)}, and "
        f"should be {numbers(right)}; a value of 3 where the return is 1 costs {one:.3g} (2); "
        f"an entropy of 0.693 adds {spread:.3g} (-0.693)",
    )

    def slow(p: Problem) -> float:
        """One sample after the other."""
        total = 0.0
        for i in range(len(p.logits)):
            weights = np.exp(p.logits[i] - p.logits[i].max())
            chances = weights / weights.sum()
            r = chances[int(p.actions[i])] / np.exp(p.logp[i])
            gain = sorted([r * p.advantages[i], np.clip(r, 1 - p.eps, 1 + p.eps) * p.advantages[i]])[0]
            error = 0.5 * (p.values[i] - p.returns[i]) ** 2
            surprise = -sum(c * np.log(c) for c in chances)
            total += -gain + p.value_coef * error - p.entropy_coef * surprise
        return total / len(p.logits)

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        samples, actions = int(rng.integers(1, 7)), int(rng.integers(2, 5))
        logits = rng.normal(size=(samples, actions))
        taken = rng.integers(actions, size=samples)
        now = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        eps = float(rng.choice([0.05, 0.2, 0.5]))
        away = rng.choice([0.05, 0.3, 0.97, 1.03, 2.5, 12], size=samples)
        return {
            "logits": logits,
            "values": rng.choice([1, 30]) * rng.normal(size=samples),
            "actions": taken,
            "logp": now[np.arange(samples), taken] - np.log(away),
            "advantages": rng.choice([0.1, 1, 10]) * rng.normal(size=samples),
            "returns": rng.normal(size=samples),
            "eps": eps,
            "value_coef": float(rng.choice([0, 0.5, 2])),
            "entropy_coef": float(rng.choice([0, 0.01, 1])),
        }

    yield agrees(ask, slow, random_problems(draw), what="your loss", by=("logits", "values"))
