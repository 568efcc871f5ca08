"""The diagnoses of the clinic: what each name predicts, and which one is right.

Which name is right is kept as a digest. What a name predicts is kept in the open: each is a few limits on the
gauges, relative to the healthy runs, and a wrong name is answered with the first limit that the run breaks.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ppobook.experiments import results

from .. import Answer, Findings, Mistake, Property, Stop, numbers, words
from . import CHAPTER

CASES = "ABCDEFGHIJ"
# A name, and its meaning in words.
FAULTS = {
    "lr-high": "the learning rate is far too high",
    "lr-low": "the learning rate is far too low",
    "one-step": "a batch is used for a single gradient step",
    "gamma-zero": "the discount is 0",
    "lambda-zero": "lambda of GAE is 0",
    "rewards-large": "the rewards are 100 times as large",
    "ends-missing": "advantages run on across the ends of episodes",
    "values-late": "each step gets the value of the step after it",
    "advantages-shuffled": "actions are paired with advantages of other steps",
    "advantage-sign": "the advantages have the wrong sign",
    "observations-shuffled": "actions and targets are paired with observations of other steps",
    "old-logp": "the old log-probabilities are recomputed in each step",
    "probability-stored": "probabilities are stored in place of log-probabilities",
    "min-max": "the larger of the two surrogates is taken",
    "entropy-sign": "the entropy bonus has the wrong sign",
    "entropy-large": "the entropy bonus is far too large",
    "no-value-loss": "the value loss has weight 0",
    "target-sign": "the targets of the critic have the wrong sign",
    "broadcast": "each value is compared with the targets of all steps",
    "evaluation": "training is right, and another policy than the trained one is evaluated",
}

# What a gauge is called in a message; "first" is the first update.
GAUGES = {
    "first kl": "approx_kl in the first update",
    "largest kl": "the largest approx_kl",
    "first clip": "clip_fraction in the first update",
    "largest clip": "the largest clip_fraction",
    "first loss": "value_loss in the first update",
    "loss": "the median of value_loss",
    "first norm": "grad_norm in the first update",
    "explained": "the median of explained_variance after the first quarter",
    "entropy": "the mean entropy of the last five updates",
    "best return": "the best return_mean",
    "last return": "the mean of return_mean over the last ten updates",
    "evaluated": "the return of the finished policy",
}


@dataclass(frozen=True)
class Limit:
    """A gauge from `low` to `high`; in units of the healthy runs' value with `relative`."""

    gauge: str
    low: float = -np.inf
    high: float = np.inf
    relative: bool = False

    def broken(self, seen: Mapping[str, float], healthy: Mapping[str, float]) -> bool:
        unit = healthy[self.gauge] if self.relative else 1.0
        return not self.low * unit <= seen[self.gauge] <= self.high * unit


SANE = Limit("first kl", high=0.05)  # the policy does not run away at once
WILD = Limit("first kl", low=0.1)
NO_RETURN = Limit("best return", high=50)
EXPECTED = {
    "lr-high": [WILD, Limit("first loss", high=0.8, relative=True)],
    "lr-low": [Limit("largest kl", high=0.002)],
    "one-step": [Limit("largest clip", high=0.001)],
    "gamma-zero": [Limit("loss", high=0.1)],
    "lambda-zero": [Limit("first loss", high=1), Limit("explained", low=0.3)],
    "rewards-large": [Limit("first loss", low=1000)],
    "ends-missing": [
        Limit("first norm", low=5),
        Limit("first loss", 1.5, 10, relative=True),
        Limit("explained", -0.1, 0.1),
    ],
    "values-late": [
        SANE,
        Limit("first loss", 0.8, 1.2, relative=True),
        Limit("explained", 0.1, 0.5),
        Limit("last return", 11, 150),
    ],
    "advantages-shuffled": [SANE, NO_RETURN, Limit("last return", low=12), Limit("explained", low=0.2)],
    "advantage-sign": [SANE, Limit("last return", high=11)],
    "observations-shuffled": [SANE, NO_RETURN, Limit("explained", high=0.1), Limit("loss", low=10)],
    "old-logp": [WILD, Limit("largest clip", high=0.001)],
    "probability-stored": [Limit("first clip", low=0.9), Limit("first loss", low=0.9, relative=True)],
    "min-max": [WILD, Limit("first clip", low=0.3), Limit("first loss", 0.8, 1.2, relative=True)],
    "entropy-sign": [SANE, Limit("entropy", high=0.5, relative=True), Limit("explained", low=-0.5)],
    "entropy-large": [
        SANE,
        Limit("entropy", low=0.6),
        Limit("explained", low=0.2),
        Limit("best return", low=40),
    ],
    "no-value-loss": [Limit("first norm", high=1), Limit("loss", low=20)],
    "target-sign": [Limit("explained", high=-0.3)],
    "broadcast": [
        Limit("explained", -0.1, 0.1),
        Limit("first norm", low=5),
        Limit("first loss", high=3, relative=True),
        Limit("best return", low=100),
    ],
    "evaluation": [
        Limit("last return", low=0.7, relative=True),
        Limit("evaluated", high=0.5, relative=True),
    ],
}

RIGHT = {
    "A": "f97194c329979b98",
    "B": "a99e59228863e0ec",
    "C": "4cc6bec22e0f6f84",
    "D": "54978e34b33df0ab",
    "E": "039378914ecfb959",
    "F": "a5fd98b90271cdb5",
    "G": "86278d84ede02c81",
    "H": "750c0e04c144fb48",
    "I": "d7d6a2fb45c7abad",
    "J": "28aa330dd9ba2c83",
}


def digest(case: str, name: str) -> str:
    return hashlib.sha256(f"clinic: case {case} is {name}".encode()).hexdigest()[:16]


@functools.cache
def gauges() -> dict[str, dict[str, float]]:
    """The gauges of each case, "healthy" among them: medians over the seeds."""
    found = {}
    for case, runs in results("practice_clinic").groupby("case"):
        rows = []
        for _, run in runs.groupby("seed"):
            quarter = run["update"] > len(run) / 4
            rows.append(
                {
                    "first kl": run["approx_kl"].iloc[0],
                    "largest kl": run["approx_kl"].max(),
                    "first clip": run["clip_fraction"].iloc[0],
                    "largest clip": run["clip_fraction"].max(),
                    "first loss": run["value_loss"].iloc[0],
                    "loss": run["value_loss"].median(),
                    "first norm": run["grad_norm"].iloc[0],
                    "explained": run.loc[quarter, "explained_variance"].median(),
                    "entropy": run["entropy"].iloc[-5:].mean(),
                    "best return": run["return_mean"].max(),
                    "last return": run["return_mean"].iloc[-10:].mean(),
                    "evaluated": run["final"].iloc[0],
                }
            )
        found[str(case)] = {gauge: float(np.median([row[gauge] for row in rows])) for gauge in GAUGES}
    return found


def _value(x: float) -> str:
    return "missing" if np.isnan(x) else numbers(x)


def _mistake(case: str, name: str, tally: str) -> Mistake:
    """The first limit that speaks against a wrong name: every one has such a limit."""
    seen, healthy = gauges()[case], gauges()["healthy"]
    gauge = next(limit.gauge for limit in EXPECTED[name] if limit.broken(seen, healthy))
    said = f"{tally}. In case {case}, {GAUGES[gauge]} is {_value(seen[gauge])}"
    said = f"{said}; in the healthy runs it is {_value(healthy[gauge])}"
    return Mistake(FAULTS[name], headline=f"case {case} is not “{FAULTS[name]}”", said=said)


@CHAPTER.check("clinic", section="sec-practice-gauges")
def clinic(answer: Answer) -> Findings:
    given = answer()
    if not isinstance(given, Mapping):
        wanted = 'a dict with a name for each case, such as {"A": "lr-low"}'
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
            yield _mistake(case, names[case], tally)
    meant = [f"{case}: {FAULTS[names[case]]}" for case in sorted(names)]
    if not names:
        raise Stop("not yet", "no case has a name")
    if len(names) < len(CASES):
        raise Stop("so far", f"{len(names)} of {len(CASES)}", tally, *(f"✓ {said}" for said in meant))
    yield Property("all ten cases have a name", True)
    for said in meant:
        yield Property(said, True)
