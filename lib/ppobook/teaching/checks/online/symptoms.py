"""Checks of the checklist: six logs and what broke in them; and a reward that makes texts shorter.

Which name is right is kept as a digest. What a name predicts is kept in the open, as in chapter 7's clinic:
a wrong name is answered with the first limit that the run breaks.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from ppobook.experiments import results

from .. import Answer, Findings, Mistake, Property, Stop, as_array, close, either, numbers, recognise, words
from ..probes import Problem, agrees, random_problems
from ..rlhf import litter, masks
from ..rlhf.clinic import Limit
from . import CHAPTER

CASES = "ABCDEF"
FAULTS = {
    "stale-held": "a single ratio to a stale sampler: the clip holds the policy back",
    "stale-loose": "a stale sampler without a correction: nothing shows the age",
    "over-optimised": "over-optimization: the reward model is maximized far from its data",
    "length-paid": "the reward model rewards length",
    "price-high": "the KL penalty is so large that the policy cannot move",
    "model-renewed": "the reward model was replaced during the run",
    "collapse": "the policy has collapsed: all completions of a prompt are the same",
    "token-tax": "every additional token is penalized",
    "no-end": "the sampler does not know the id of the end-of-sequence token",
}
GAUGES = {
    "kl": "KL at the end",
    "gain": "the gain of the reward from the first row to the last",
    "drop": "the largest fall of the reward from one row to the next",
    "length": "length at the end",
    "change": "the change of the length from the first row to the last",
    "ended": "the share that ended, in the last row,",
    "entropy": "entropy at the end",
}
EXPECTED = {
    "stale-held": [Limit("kl", 1, 8), Limit("gain", low=0.5)],
    "stale-loose": [Limit("gain", high=0.5), Limit("kl", low=30)],
    "over-optimised": [Limit("gain", low=1), Limit("kl", low=20), Limit("length", high=21)],
    "length-paid": [Limit("length", low=22), Limit("change", low=4)],
    "price-high": [Limit("kl", high=1), Limit("gain", high=0.9)],
    "model-renewed": [Limit("drop", low=0.15), Limit("kl", high=20)],
    "collapse": [Limit("entropy", high=0.3)],
    "token-tax": [Limit("change", high=-4)],
    "no-end": [Limit("ended", high=0.05)],
}
RIGHT = {
    "A": "7d9225bfe33ca639",
    "B": "df6a82615a177a1e",
    "C": "1acbad17901219ee",
    "D": "1a32a465893f5abc",
    "E": "44962bfcabe7292c",
    "F": "b8fff736a4eb4340",
}


def digest(case: str, name: str) -> str:
    return hashlib.sha256(f"online loops: case {case} is {name}".encode()).hexdigest()[:16]


def runs() -> dict[str, pd.DataFrame]:
    """Return the readings of each case's log, means over ten seeds."""
    lag, over, judged = (results(f"language_{name}") for name in ("lag", "overoptimisation", "refresh"))
    stale = lag[lag["lag"] == 16].rename(columns={"gold": "reward", "clip_fraction": "clip"})
    some = {
        "A": over.query("pooling == 'last' and kl_coef == 1"),
        "B": stale[stale["loss"] == "not corrected"],
        "C": over.query("pooling == 'sum' and kl_coef == 0.03"),
        "D": judged[judged["judge"] == "refreshed"],
        "E": stale[stale["loss"] == "corrected"],
        "F": over.query("pooling == 'last' and kl_coef == 0"),
    }
    found = {}
    for case, table in some.items():
        table = table if "reward" in table else table.rename(columns={"proxy": "reward"})
        if table["update"].max() == 60:
            table = table[table["update"] % 15 == 0]
        shown = ["reward", "kl", "length", "ended", "entropy", *(["clip"] if "clip" in table else [])]
        found[case] = table.groupby("update")[shown].mean()
    return found


@functools.cache
def gauges() -> dict[str, dict[str, float]]:
    found = {}
    for case, log in runs().items():
        first, last = log.iloc[0], log.iloc[-1]
        found[case] = {
            "kl": float(last["kl"]),
            "gain": float(last["reward"] - first["reward"]),
            "drop": float(max(0.0, -log["reward"].diff().min())),
            "length": float(last["length"]),
            "change": float(last["length"] - first["length"]),
            "ended": float(last["ended"]),
            "entropy": float(last["entropy"]),
        }
    return found


@CHAPTER.check("loop-clinic", section="sec-online-checklist")
def loop_clinic(answer: Answer) -> Findings:
    given = answer()
    if not isinstance(given, Mapping):
        wanted = 'a dict with a name for each case, such as {"A": "collapse"}'
        raise Stop("returned", "wrong type", f"wanted {wanted}, got {words(given)}.")
    names: dict[str, str] = {}
    for key, value in given.items():
        case, name = str(key).strip().upper(), str(value).strip().lower()
        if case not in CASES or len(case) != 1:
            raise Stop("returned", "no such case", f"the cases are {', '.join(CASES)}, got {words(key)}.")
        if name not in FAULTS:
            raise Stop(
                "returned", "not on the list", f"case {case}: {words(value)} is not a name of the list."
            )
        names[case] = name
    right = {case: digest(case, name) == RIGHT[case] for case, name in names.items()}
    marks = {case: "✓" if right.get(case) else "✗" if case in names else "–" for case in CASES}
    tally = " ".join(f"{case}{mark}" for case, mark in marks.items())
    for case in sorted(names):
        if not right[case]:
            seen = gauges()[case]
            gauge = next(limit.gauge for limit in EXPECTED[names[case]] if limit.broken(seen))
            said = f"{tally}. In case {case}, {GAUGES[gauge]} is {numbers(seen[gauge])}"
            meaning = FAULTS[names[case]]
            yield Mistake(meaning, headline=f"case {case} is not “{meaning}”", said=said)
    meant = [f"{case}: {FAULTS[names[case]]}" for case in sorted(names)]
    if not names:
        raise Stop("not yet", "no case has a name")
    if len(names) < len(CASES):
        raise Stop("so far", f"{len(names)} of {len(CASES)}", tally, *(f"✓ {said}" for said in meant))
    yield Property("all six cases have the right name", True)
    for said in meant:
        yield Property(said, True)


# ---------------------------------------------------------------------------------------------------
# A reward that makes texts shorter


@CHAPTER.check("hunt-shorter", section="sec-online-checklist")
def hunt_shorter(answer: Answer) -> Findings:
    # Texts of three tokens and of one, in four columns; scores 6 and −2; log-ratios 0.5, −0.2, 0.1 and 0.3.
    mask = np.arange(4) < np.array([3, 1])[:, None]
    x = np.zeros((2, 4))
    x[mask] = [0.5, -0.2, 0.1, 0.3]
    ref = np.where(mask, [[-1.0, -2.0, -0.5, 0.0], [-1.5, 0.0, 0.0, 0.0]], 0.0)
    scores, beta = np.array([6.0, -2.0]), 0.5
    last, length = np.zeros((2, 4)), np.array([[3.0], [1.0]])
    last[0, 2] = last[1, 0] = 1
    paid = last * scores[:, None]

    def ask(
        x: np.ndarray, beta: float, filler: float = 0.0, scores: np.ndarray = scores, mask: np.ndarray = mask
    ) -> np.ndarray:
        arrays = (scores, np.where(mask, ref + x, filler), np.where(mask, ref, filler))
        back = answer(*(torch.tensor(a, dtype=torch.float32) for a in arrays), torch.tensor(mask), beta)
        return as_array(back, (2, 4), "the rewards", finite=False)

    got = ask(x, beta)
    end = np.zeros((2, 4))
    end[:, 3] = scores
    yield from recognise(
        got,
        {
            "both bugs are still there": paid / length + beta * ref,
            "the penalty contains only the reference": either(paid + beta * ref, paid - beta * ref),
            "the penalty does not contain the reference": either(
                paid - beta * (ref + x) * mask, paid + beta * (ref + x) * mask
            ),
            "the score is divided by the length": paid / length - beta * x,
            "distance is rewarded": paid + beta * x,
            "there is no KL penalty": paid,
            "the penalty is an absolute value": paid - beta * np.abs(x),
            "only positive log-ratios are penalized": paid - beta * np.maximum(x, 0),
            "k3 in the reward": paid - beta * (np.exp(-x) - 1 + x) * mask,
            "the score replaces the penalty of the last token": paid - beta * x * (1 - last),
            "a square in the reward": either(paid - beta * x**2 / 2, paid - beta * x**2),
            "the penalty is a mean over the completion": either(
                paid - beta * x / length,
                paid - beta * (x.sum(1, keepdims=True) / length) * last,
                paid - beta * (x.sum(1, keepdims=True) / length) * mask,
            ),
            "the whole penalty is at the end": paid - beta * x.sum(1, keepdims=True) * last,
            "the score is in the last column": either(end - beta * x, end - beta * np.where(mask, x, 0)),
            "every token gets the score": mask * scores[:, None] - beta * x,
            "the score is spread over the tokens": mask * scores[:, None] / length - beta * x,
            "the scores are centered": either(
                last * (scores - scores.mean())[:, None] - beta * x,
                last * ((scores - scores.mean()) / scores.std())[:, None] - beta * x,
                last * ((scores - scores.mean()) / scores.std(ddof=1))[:, None] - beta * x,
            ),
        },
        first=got[0],
    )
    dirty = ask(x, beta, math.nan)
    filled = ask(x, beta, -3.0)
    yield from recognise(
        dirty,
        {
            "padding is read": not np.isfinite(dirty[mask]).all(),
            "padding has a reward": not np.isfinite(dirty).all() or bool(np.abs(filled[~mask]).max() > 1e-6),
        },
        row=np.nan_to_num(dirty[1]) if np.isfinite(dirty).all() else dirty[1],
    )
    home, free = ask(np.zeros((2, 4)), 5.0), ask(np.zeros((2, 4)), 0.0)
    yield Property(
        "at the reference the penalty is 0",
        close(home, free),
        f"with equal policies the rewards are {numbers(free)} for kl_coef = 0 and {numbers(home)} for 5",
    )
    more = ask(x, beta, scores=scores + 10).sum(1) - got.sum(1)
    yield Property(
        "a constant added to all scores adds the same to a long and a short completion",
        close(more[0], more[1], 1e-3),
        f"if both scores are 10 higher, the completions get {numbers(more)} more",
    )

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        shape = int(rng.integers(1, 6)), int(rng.integers(1, 7))
        mask = masks(rng, shape, empty=False)
        ref = -rng.exponential(1.5, size=shape)
        return {
            "scores": rng.choice([0.1, 1, 20]) * rng.normal(rng.choice([0, 3]), size=shape[0]),
            "logp": litter(rng, ref + rng.choice([0.1, 1, 30]) * rng.normal(size=shape), mask),
            "ref_logp": litter(rng, ref, mask),
            "mask": mask,
            "kl_coef": float(rng.choice([0, 0.05, 1])),
        }

    def slow(p: Problem) -> np.ndarray:
        """Cell by cell."""
        found = np.zeros(p.mask.shape)
        for b, t in np.ndindex(*p.mask.shape):
            if p.mask[b, t]:
                found[b, t] = -p.kl_coef * (p.logp[b, t] - p.ref_logp[b, t])
                if not p.mask[b, t + 1 :].any():
                    found[b, t] += p.scores[b]
        return found

    yield agrees(answer, slow, random_problems(draw, 40), what="the rewards")
