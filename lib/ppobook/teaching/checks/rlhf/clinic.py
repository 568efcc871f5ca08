"""The diagnoses of chapter 7's clinic: what each name predicts, and which one is right.

Which name is right is kept as a digest. What a name predicts is kept in the open: each is a few limits on the
gauges, and a wrong name is answered with the first limit that the run breaks.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ppobook.experiments import results

from .. import Answer, Findings, Mistake, Property, Stop, numbers, words
from . import CHAPTER

CASES = "ABCDEFGH"
# A name, and its meaning in words.
FAULTS = {
    "temperature": "the sampler and the trainer use different temperatures",
    "top-p": "the sampler leaves out improbable words, but the log-probabilities ignore this",
    "shift": "the trainer reads each word's logits one column late",
    "old-logp": "the old log-probabilities are recomputed before each gradient step",
    "mask-short": "the mask of the loss ends one token too early",
    "mask-prompt": "the mask of the loss begins in the prompt",
    "mask-padding": "padding is in the mask of the loss",
    "kl-exchanged": "the two policies in the KL penalty are exchanged",
    "no-price": "the KL penalty has a β of 0",
    "reference-moves": "the reference is copied from the policy in each update",
    "no-end": "the sampler does not know the id that ends a text",
    "advantage-sign": "the advantages have the wrong sign",
    "lr-high": "the learning rate is far too high",
}

# What a gauge is called in a message; all of them can be worked out from the rows that the page shows.
GAUGES = {
    "first off": "off in the first row",
    "gap": "the mean of entropy minus surprise over the rows",
    "extra": "the mean of cells minus length over the rows",
    "first kl": "kl in the first row",
    "last kl": "kl in the last row",
    "first ended": "ended in the first row",
    "first length": "length in the first row",
    "gain": "the change of the reward from the first row to the last",
    "rise": "the rise of the reward above its first row",
    "fall": "the fall of the reward from its highest to the last row",
    "clip": "the mean of clip over the rows",
    "approx": "the mean of approx_kl over the rows",
}


@dataclass(frozen=True)
class Limit:
    """A gauge from `low` to `high`."""

    gauge: str
    low: float = -np.inf
    high: float = np.inf

    def broken(self, seen: Mapping[str, float]) -> bool:
        return not self.low <= seen[self.gauge] <= self.high


SAME = Limit("first off", high=0.01)  # before the first step every ratio is 1
KNOWN = Limit("gap", -0.05, 0.05)  # what was drawn is as surprising as the policy says
COUNTED = Limit("extra", -0.05, 0.05)  # one cell a token
EXPECTED = {
    "temperature": [Limit("first off", 0.05, 0.5), Limit("gap", low=0.05)],
    "top-p": [SAME, Limit("gap", low=0.05)],
    "shift": [Limit("first off", low=0.5)],
    "old-logp": [SAME, Limit("clip", high=0.0)],
    "mask-short": [Limit("extra", -1.05, -0.5)],
    "mask-prompt": [Limit("extra", 2.5, 3.5)],
    "mask-padding": [Limit("extra", low=0.5), Limit("first off", low=0.5)],
    "kl-exchanged": [SAME, KNOWN, COUNTED, Limit("last kl", low=20), Limit("fall", low=0.3)],
    "no-price": [SAME, KNOWN, COUNTED, Limit("last kl", low=10), Limit("fall", high=0.3)],
    "reference-moves": [Limit("last kl", -0.01, 0.01)],
    "no-end": [Limit("first ended", high=0.05), Limit("first length", low=23.9)],
    "advantage-sign": [Limit("gain", high=-0.3), Limit("rise", high=0.2)],
    "lr-high": [SAME, Limit("approx", low=0.1)],
}

RIGHT = {
    "A": "af52db16a62c72cd",
    "B": "8fba389e46bf4cc3",
    "C": "13af46f0655acf88",
    "D": "b5af311252a9fa06",
    "E": "8403a50392aa618e",
    "F": "5ca745916f3e00b9",
    "G": "4c70cb8b18103677",
    "H": "cf5250708dcb4e20",
}


def digest(case: str, name: str) -> str:
    return hashlib.sha256(f"clinic on tokens: case {case} is {name}".encode()).hexdigest()[:16]


SHOWN = (1, 2, 3, 5, 10, 15, 20, 25, 30)  # updates


@functools.cache
def sheets() -> dict[str, pd.DataFrame]:
    """Return the page's numbers for each case, "healthy" among them: medians over seeds, to two decimals."""
    columns = {"kl_reference": "kl", "clip_fraction": "clip"}
    found = results("language_clinic").rename(columns=columns).groupby(["case", "update"])
    medians = found.median(numeric_only=True).round(2) + 0.0
    return {str(case): rows.droplevel("case").loc[list(SHOWN)] for case, rows in medians.groupby("case")}


@functools.cache
def gauges() -> dict[str, dict[str, float]]:
    """The gauges of each case, from the rows that the page shows."""
    found = {}
    for case, sheet in sheets().items():
        first, last, reward = sheet.iloc[0], sheet.iloc[-1], sheet["reward"]
        found[case] = {
            "first off": first["off"],
            "gap": (sheet["entropy"] - sheet["surprise"]).mean(),
            "extra": (sheet["cells"] - sheet["length"]).mean(),
            "first kl": first["kl"],
            "last kl": last["kl"],
            "first ended": first["ended"],
            "first length": first["length"],
            "gain": last["reward"] - first["reward"],
            "rise": reward.max() - first["reward"],
            "fall": reward.max() - last["reward"],
            "clip": sheet["clip"].mean(),
            "approx": sheet["approx_kl"].mean(),
        }
    return {
        case: {gauge: round(float(x), 4) + 0.0 for gauge, x in row.items()} for case, row in found.items()
    }


def _mistake(case: str, name: str, tally: str) -> Mistake:
    """The first limit that speaks against a wrong name: every one has such a limit."""
    seen, healthy = gauges()[case], gauges()["healthy"]
    gauge = next(limit.gauge for limit in EXPECTED[name] if limit.broken(seen))
    said = f"{tally}. In case {case}, {GAUGES[gauge]} is {numbers(seen[gauge])}"
    said = f"{said}, and in the healthy runs it is {numbers(healthy[gauge])}"
    return Mistake(FAULTS[name], headline=f"case {case} is not “{FAULTS[name]}”", said=said)


@CHAPTER.check("token-clinic", section="sec-rlhf-masks")
def token_clinic(answer: Answer) -> Findings:
    given = answer()
    if not isinstance(given, Mapping):
        wanted = 'a dict with a name for each case, such as {"A": "lr-high"}'
        raise Stop("returned", "wrong type", f"wanted {wanted}, got {words(given)}.")
    names: dict[str, str] = {}
    for key, value in given.items():
        case, name = str(key).strip().upper(), str(value).strip().lower()
        if case not in CASES or len(case) != 1:
            raise Stop("returned", "no such case", f"the cases are {', '.join(CASES)}, got {words(key)}.")
        if name not in FAULTS:
            raise Stop(
                "returned", "not on the list", f"case {case}: {words(value)} is not a name from the list."
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
    yield Property("all eight cases have a name", True)
    for said in meant:
        yield Property(said, True)
