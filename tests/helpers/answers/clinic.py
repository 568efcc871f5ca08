"""Diagnoses of the clinic."""

from __future__ import annotations

from checks import Right, Unnamed, Wrong

CURED = {
    "A": "lr-high",
    "B": "gamma-zero",
    "C": "no-value-loss",
    "D": "rewards-large",
    "E": "entropy-sign",
    "F": "advantages-shuffled",
    "G": "observations-shuffled",
    "H": "min-max",
    "I": "broadcast",
    "J": "evaluation",
}


def but(**names):
    """The right names, with some changed; None leaves a case out."""
    given = {case: name for case, name in {**CURED, **names}.items() if name is not None}
    return lambda: given


RIGHT: Right = {
    "clinic": [
        but(),
        lambda: dict(reversed(CURED.items())),
        lambda: {case.lower(): f" {name} " for case, name in CURED.items()},
        lambda: dict(zip("ABCDEFGHIJ", map(str.upper, CURED.values()), strict=True)),
    ]
}
# One that a reader may well think of, for each name.
WRONG: Wrong = {
    "clinic": {
        "the learning rate is far too high": [but(H="lr-high"), but(E="lr-high")],
        "the learning rate is far too low": [but(D="lr-low"), lambda: {"F": "lr-low"}],
        "a batch is used for a single gradient step": but(D="one-step"),
        "the discount is 0": but(C="gamma-zero"),
        "lambda of GAE is 0": but(B="lambda-zero"),
        "the rewards are 100 times as large": but(C="rewards-large"),
        "advantages run on across the ends of episodes": [
            but(G="ends-missing"),
            but(C="ends-missing"),
            but(I="ends-missing"),
        ],
        "each step gets the value of the step after it": [but(F="values-late"), but(I="values-late")],
        "actions are paired with advantages of other steps": but(G="advantages-shuffled"),
        "the advantages have the wrong sign": [but(F="advantage-sign"), but(H="advantage-sign")],
        "actions and targets are paired with observations of other steps": but(F="observations-shuffled"),
        "the old log-probabilities are recomputed in each step": [but(H="old-logp"), but(A="old-logp")],
        "probabilities are stored in place of log-probabilities": [
            but(A="probability-stored"),
            but(H="probability-stored"),
        ],
        "the larger of the two surrogates is taken": but(A="min-max"),
        "the entropy bonus has the wrong sign": [but(H="entropy-sign"), but(J="entropy-sign")],
        "the entropy bonus is far too large": [but(F="entropy-large"), but(G="entropy-large")],
        "the value loss has weight 0": [but(I="no-value-loss"), but(B="no-value-loss")],
        "the targets of the critic have the wrong sign": but(C="target-sign"),
        "each value is compared with the targets of all steps": [
            but(C="broadcast"),
            but(G="broadcast"),
            but(D="broadcast", B=None),
        ],
        "training is right, and another policy than the trained one is evaluated": but(E="evaluation"),
    }
}
UNNAMED: Unnamed = {}
SO_FAR = {"9 of 10": but(J=None), "1 of 10": lambda: {"A": "lr-high"}}
