"""Checks of the loss: the policy's part, the KL in it, and a loss with three bugs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import Answer, Findings, Property, as_array, close, either, numbers, recognise
from ..probes import Problem, agrees, gradients, leaf, random_problems
from . import CHAPTER

# loss(logp, old_logp, advantages, mask, clip_eps)
Loss = Callable[..., Any]

LENGTHS, COLUMNS = (2, 4), 5
MASK = np.arange(COLUMNS) < np.array(LENGTHS)[:, None]
RATIOS = np.array([0.5, 0.9, 1.0, 1.1, 1.5] * 2)
SIGNS = np.array([1.0] * 5 + [-1.0] * 5)


def _one_token(ratio: float) -> tuple[Tensor, Tensor]:
    """log π and log π_old of one token, with this ratio."""
    return leaf([[-1.0 + np.log(ratio)]]), leaf([[-1.0]])


def _per_token(new: np.ndarray, old: np.ndarray, advantage: float, eps: float) -> list[float]:
    ratios = [float(np.exp(n - o)) for n, o in zip(new, old, strict=True)]
    return [min(r * advantage, sorted([1 - eps, r, 1 + eps])[1] * advantage) for r in ratios]


def _policy_findings(call: Loss, holes: bool = True) -> Findings:
    """Check the policy's part: which tokens get a gradient and how much, then its value at single ones.

    Parameters
    ----------
    call : loss(logp, old_logp, advantages, mask, clip_eps)
    holes : False where what stands in the padding is looked at later
    """
    square = [leaf(x) for x in (np.full((2, 2), -1.0), np.full((2, 2), -1.0), [1.0, -1.0])]
    along = gradients(call(*square, torch.ones(2, 2, dtype=torch.bool), 0.2), square[0])[0]
    yield from recognise(
        along,
        {
            "an advantage goes to the wrong tokens": either(
                -0.25 * np.array([[1, -1]] * 2), 0.25 * np.array([[1, -1]] * 2)
            )
        },
    )

    def objective(ratio: float, advantage: float, eps: float = 0.2) -> float:
        back = call(*_one_token(ratio), leaf([advantage]), torch.ones(1, 1, dtype=torch.bool), eps)
        return -float(as_array(back, (), "your loss", finite=False))

    both = leaf([[-1 + np.log(1.19), -1 - np.log(1.19)]]), leaf([[-1.0, -1]])
    two = -float(as_array(call(*both, leaf([1.0]), torch.ones(1, 2, dtype=torch.bool), 0.2), (), "your loss"))
    single = objective(1.1, 1.0)
    yield from recognise(two, {"one ratio for the whole completion": close(two, 1) and close(single, 1.1)})
    # Every ratio is 1, in the padding too.
    logp, old = np.full((2, COLUMNS), -1.0), np.full((2, COLUMNS), -1.0)
    given = leaf(logp), leaf(old), leaf([6.0, -2.0])
    felt, by_old, by_worth = gradients(call(*given, torch.tensor(MASK), 0.2), *given)
    kept = felt[MASK]
    more = gradients(call(given[0], given[1], leaf([7.0, -1.0]), torch.tensor(MASK), 0.2), given[0])[0]
    unmoved = close(more, felt)  # by 1 more on all advantages

    def spread(long: float, short: float) -> np.ndarray:
        return np.array([long] * 2 + [short] * 4)

    yield from recognise(
        felt,
        {
            "no gradient reaches logp": 0,
            "the mask is one column off": bool(felt[0, 2] != 0 and felt[0, 3] == 0),
            "padding is pushed too": bool(felt[~MASK].any()),
            "the first token is left out": bool(felt[1, 0] == 0 != felt[1, 1]),
            "the last token is left out": bool(felt[1, 3] == 0 != felt[1, 1]),
            "a mean over all tokens": close(kept, spread(-1, 1 / 3)),
            "the mean is over the padded length": close(kept, spread(-0.6, 0.2)),
            "the length is not divided by": close(kept, spread(-3, 1)),
            "the completions are added up": either_close(kept, spread(-3, 0.5), spread(-6, 2)),
        },
        felt=kept,
        long=kept[-1],
        short=kept[0],
        last=felt[1, 3],
    )

    got = np.array([objective(r, a) for r, a in zip(RATIOS, SIGNS, strict=True)])
    box = np.clip(RATIOS, 0.8, 1.2)
    divided = 1 - np.log(RATIOS)  # log π / log π_old, since log π_old = −1
    wide = [objective(1.5, 1.0, 0.4), objective(0.5, -1.0, 0.4)]
    narrow = [objective(1.1, 1.0, 0.05), objective(0.9, -1.0, 0.05)]
    logged = np.exp(np.clip(np.log(RATIOS), -0.2, 0.2))
    yield from recognise(
        got,
        {
            "the advantages are centered inside the loss": unmoved
            and bool(close(got, np.zeros(10)) or not np.isfinite(got).all() or np.abs(got).max() > 100),
            "a reward, not a loss": -np.minimum(RATIOS * SIGNS, box * SIGNS),
            "ratio by division": either(
                np.minimum(divided * SIGNS, np.clip(divided, 0.8, 1.2) * SIGNS), divided * SIGNS
            ),
            "the ratio is upside down": either(
                np.minimum(SIGNS / RATIOS, np.clip(1 / RATIOS, 0.8, 1.2) * SIGNS), SIGNS / RATIOS
            ),
            "the ratio is always 1": SIGNS,
            "nothing is clipped": RATIOS * SIGNS,
            "min and max swapped": np.maximum(RATIOS * SIGNS, box * SIGNS),
            "the clip without the minimum": box * SIGNS,
            "the minimum is taken of the ratios": np.minimum(RATIOS, box) * SIGNS,
            "eps is not used": close(wide, [1.2, -0.8]) and close(narrow, [1.1, -0.9]),
            "the logarithm of the ratio is clipped": np.minimum(RATIOS * SIGNS, logged * SIGNS),
            "old_logp is not detached": np.abs(by_old).max() > 1e-7,
            "the advantages are not detached": np.abs(by_worth).max() > 1e-7,
        },
        good=got[:5],
        bad=got[5:],
    )
    if holes:
        yield from _with_holes(lambda new, old, mask: call(new, old, leaf([6.0, -2.0]), mask, 0.2))
    yield Property(
        "a good token counts in full up to 1 + ε, a bad one at least as 1 − ε",
        close(got, np.minimum(RATIOS * SIGNS, box * SIGNS)),
        f"for ρ = 0.5, 0.9, 1, 1.1, 1.5 it is {numbers(got[:5])} at A = 1 and {numbers(got[5:])} at A = −1",
    )


def either_close(got: np.ndarray, *rows: np.ndarray) -> bool:
    return any(close(got, row) for row in rows)


def _with_holes(call: Callable[[Tensor, Tensor, Tensor], Any]) -> Findings:
    """Padding that holds nan or infinity, which no sum and no gradient may notice."""
    for hole, other in itertools.product((np.nan, np.inf, -np.inf, -1.0), repeat=2):
        new, old = (leaf(np.where(MASK, -1.0, x)) for x in (hole, other))
        back = call(new, old, torch.tensor(MASK))
        value = as_array(back, (), "your loss", finite=False)
        slope = gradients(torch.nan_to_num(back), new)[0] if np.isfinite(value) else np.full(1, np.nan)
        yield from recognise(slope, {"padding is read": not np.isfinite(slope).all()}, hole=hole, other=other)


def _draw(rng: np.random.Generator, kl: bool) -> dict[str, Any]:
    rows, columns = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    mask = np.arange(columns) < rng.integers(1, columns + 1, size=(rows, 1))
    old = -rng.choice([0.1, 1, 5]) * rng.exponential(size=(rows, columns))
    hole = rng.choice([0.0, np.nan, np.inf])
    drawn = {
        "logp": old + rng.choice([0.02, 0.3, 1]) * rng.normal(size=old.shape),
        "old_logp": old,
        "ref_logp": old + rng.choice([0.02, 0.5, 3]) * rng.normal(size=old.shape),
    }
    drawn = {name: np.where(mask, x, hole) for name, x in drawn.items()}
    if not kl:
        del drawn["ref_logp"]
    worth = rng.choice([0.01, 1, 30]) * rng.normal(size=rows)
    drawn |= {"advantages": worth, "mask": mask, "clip_eps": float(rng.choice([0.05, 0.2, 0.5]))}
    return drawn | ({"kl_coef": float(rng.choice([0, 0.04, 1, 10]))} if kl else {})


def _slow(p: Problem) -> float:
    """One token at a time; the KL as the mean gap between eˣ and its tangent."""
    rows = []
    for b, inside in enumerate(np.asarray(p.mask, dtype=bool)):
        new, old = (np.asarray(x)[b][inside] for x in (p.logp, p.old_logp))
        tokens = _per_token(new, old, float(p.advantages[b]), p.clip_eps)
        if "ref_logp" in vars(p):
            gaps = [float(x) for x in np.asarray(p.ref_logp)[b][inside] - new]
            tokens = [t - p.kl_coef * (np.exp(x) - (1 + x)) for t, x in zip(tokens, gaps, strict=True)]
        rows.append(sum(tokens) / len(tokens))
    return -sum(rows) / len(rows)


@CHAPTER.check("grpo-token-loss", section="sec-grpo-code")
def token_loss(answer: Answer) -> Findings:
    yield from _policy_findings(answer)
    problems = random_problems(lambda rng: _draw(rng, kl=False), 25)
    held = ("old_logp", "advantages")
    yield agrees(answer, _slow, problems, what="your loss", by=("logp",), held=held)


# ---------------------------------------------------------------------------------------------------
# With the KL

GAPS = np.array([-1.0, -0.5, 0.5, 1.0])  # log π − log π_ref
BEFORE = 0.3  # log π − log π_old


def _kl_findings(call: Loss) -> Findings:
    """Check the KL in a loss(logp, old_logp, ref_logp, advantages, mask, clip_eps, kl_coef)."""

    def price(gaps: Any, lengths: Any = None, kl_coef: float = 1.0) -> tuple[float, np.ndarray, np.ndarray]:
        """The loss where all advantages are 0, and its slopes by logp and by ref_logp."""
        gaps = np.atleast_2d(gaps)
        mask = np.ones(gaps.shape, dtype=bool) if lengths is None else np.arange(gaps.shape[1]) < lengths
        logp, ref = leaf(np.full(gaps.shape, -1.0)), leaf(-1 - gaps)
        old = torch.full(gaps.shape, -1 - BEFORE)
        back = call(logp, old, ref, torch.zeros(len(gaps)), torch.tensor(mask), 0.2, kl_coef)
        value = float(as_array(back, (), "your loss"))
        if not isinstance(back, Tensor) or not back.requires_grad:
            return value, np.zeros(gaps.shape), np.zeros(gaps.shape)
        by_logp, by_ref = gradients(back, logp, ref)
        return value, by_logp, by_ref

    got = np.array([price(gap)[0] for gap in GAPS])
    slopes = np.array([price(gap)[1].item() for gap in GAPS])
    by_ref = np.array([price(gap)[2].item() for gap in GAPS])
    half, double = (price(1.0, kl_coef=beta)[0] for beta in (0.5, 2.0))
    k3 = np.exp(-GAPS) - 1 + GAPS
    weight = np.exp(BEFORE)
    to_old = either(np.exp(-BEFORE) - 1 + BEFORE, np.exp(BEFORE) - 1 - BEFORE, BEFORE, BEFORE**2 / 2)
    yield from recognise(
        got,
        {
            "there is no KL in the loss": 0,
            "the KL is subtracted": -k3,
            "the KL is to the old policy": to_old,
            "the ratio in the KL is reversed": np.exp(GAPS) - 1 - GAPS,
            "k1, which has no gradient on average": either(GAPS, -GAPS),
            "k2, half the square": either(GAPS**2 / 2, GAPS**2),
            "the logarithm is missing": either(np.exp(-GAPS) - 1, np.exp(GAPS) - 1),
            "the KL is weighted by the ratio": either(weight * k3, min(weight, 1.2) * k3),
            "the KL carries no gradient": close(got, k3) and not slopes.any(),
            "ref_logp is not detached": bool(np.abs(by_ref).max() > 1e-7),
            "kl_coef is not used": close([half, double], [got[-1]] * 2) and abs(double) > 1e-6,
        },
        double=double,
        third=got[-1],
        by_ref=by_ref,
    )
    a, b = (np.exp(-x) - 1 + x for x in (1.0, -1.0))
    gaps = np.array([[1.0] * COLUMNS, [-1.0] * COLUMNS])
    mixed = price(gaps, np.array(LENGTHS)[:, None])[0]
    yield from recognise(
        mixed,
        {
            "the padding has a KL": either((a + b) / 2 * COLUMNS, (5 * a + 5 * b) / 6),
            "the KL has a mean of its own": either(
                (2 * a + 4 * b) / 6, (2 * a + 4 * b) / 10, (2 * a + 4 * b) / 2, 2 * a + 4 * b, a + b
            ),
        },
        right=(a + b) / 2,
    )
    far = price(np.array([[1.0, 1, -2, -2, -2], [-1.0] * 5]), np.array([[2], [5]]))[0]
    yield Property(
        "the padding's KL is not counted",
        close(far, mixed),
        f"if the reference changes in the padding alone, the loss goes from {mixed:.3g} to {far:.3g}",
    )

    def holes(new: Tensor, old: Tensor, mask: Tensor) -> Any:
        return call(new, old, old.detach() - 0.1, leaf([6.0, -2.0]), mask, 0.2, 1.0)

    yield from _with_holes(holes)
    yield Property(
        "the KL is 0 at the reference and positive on both sides",
        close(got, k3) and close(price(0.0)[0], 0),
        f"for log π − log π_ref = −1, −0.5, 0.5 and 1 the KL is {numbers(got)}",
    )


def _without_kl(call: Loss) -> Loss:
    def policy_part(logp: Tensor, old: Tensor, worth: Tensor, mask: Tensor, eps: float) -> Any:
        return call(logp, old, logp.detach(), worth, mask, eps, 0.0)

    return policy_part


HELD = ("old_logp", "ref_logp", "advantages")


@CHAPTER.check("kl-in-loss", section="sec-grpo-kl")
def kl_in_loss(answer: Answer) -> Findings:
    yield from _kl_findings(answer)
    yield from _policy_findings(_without_kl(answer))
    problems = random_problems(lambda rng: _draw(rng, kl=True), 25)
    yield agrees(answer, _slow, problems, what="your loss", by=("logp",), held=HELD)


# ---------------------------------------------------------------------------------------------------
# Three bugs


@CHAPTER.check("hunt-three", section="sec-grpo-code")
def hunt_three(answer: Answer) -> Findings:
    def call(
        logp: Tensor, old: Tensor, ref: Tensor, worth: Tensor, mask: Tensor, eps: float, kl_coef: float
    ) -> Any:
        """A vocabulary of two words, the first of which is always drawn: its logit is its logarithm.

        All but the logits are numbers: that they are is a matter of step 3, and none of the three bugs.
        """
        there = logp.isfinite() & (logp < 0)
        real = torch.where(there, logp, -1.0)
        logits = torch.stack([real, torch.log(-torch.expm1(real))], dim=-1)
        logits = torch.where(there[..., None], logits, logp.detach()[..., None])
        tokens, lengths = torch.zeros(logp.shape, dtype=torch.long), mask.sum(1)
        numbers_only = (x.detach() for x in (old, ref, worth))
        return answer(logits, tokens, lengths, *numbers_only, eps, kl_coef)

    # All three bugs come before the padding.
    yield from _policy_findings(_without_kl(call), holes=False)
    yield from _kl_findings(call)
    # The logits of the padding themselves: the way back goes through the softmax too.
    for hole in (np.nan, np.inf, -np.inf):
        logits = leaf(np.where(MASK[..., None], np.array([0.3, -0.2, 0.5]), hole))
        old, words = torch.full(MASK.shape, -1.0), torch.ones(MASK.shape, dtype=torch.long)
        given = logits, words, torch.tensor(LENGTHS), old, old + 0.1, torch.tensor([6.0, -2.0]), 0.2, 1.0
        felt = gradients(answer(*given), logits)[0]
        yield from recognise(felt, {"padding gets into the gradient": not np.isfinite(felt).all()}, hole=hole)
    # Other words too, in a vocabulary of four.
    table = np.random.default_rng(5).normal(size=(3, 4, 4))
    tokens = torch.tensor([[0, 3, 1, 2], [2, 2, 0, 3], [1, 0, 3, 3]])
    every = torch.log_softmax(torch.tensor(table, dtype=torch.float32), dim=-1)
    taken = every.gather(-1, tokens[..., None])[..., 0]
    back = answer(every, tokens, torch.tensor([4, 2, 3]), taken - 0.1, taken + 0.2, torch.ones(3), 0.2, 1.0)
    value = float(as_array(back, (), "your loss"))
    wanted = -float(np.exp(0.1)) + float(np.exp(0.2) - 1.2)
    yield Property(
        "it reads the log-probability of the token that was drawn",
        close(value, wanted),
        f"with a ratio of e^0.1 at each token, A = 1 and log π − log π_ref = −0.2 the loss is {value:.4g}",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {**_draw(rng, kl=True)}

    def flat(*given: Any) -> Any:
        return call(*given)

    problems = [p for p in random_problems(draw, 40) if p.logp[p.mask].max() < -1e-2][:20]
    yield agrees(flat, _slow, problems, what="your loss", by=("logp",))
