"""Diagnoses of the clinic on tokens."""

from __future__ import annotations

from checks import Right, Unnamed, Wrong

CURED = {
    "A": "no-end",
    "B": "mask-prompt",
    "C": "temperature",
    "D": "shift",
    "E": "kl-exchanged",
    "F": "mask-short",
    "G": "no-price",
    "H": "top-p",
}


def but(**names):
    """The right names, with some changed; None leaves a case out."""
    given = {case: name for case, name in {**CURED, **names}.items() if name is not None}
    return lambda: given


RIGHT: Right = {
    "token-clinic": [
        but(),
        lambda: dict(reversed(CURED.items())),
        lambda: {case.lower(): f" {name} " for case, name in CURED.items()},
        lambda: dict(zip("ABCDEFGH", map(str.upper, CURED.values()), strict=True)),
    ]
}
# One that a reader may well think of, for each name.
WRONG: Wrong = {
    "token-clinic": {
        "the sampler and the trainer use different temperatures": [
            but(H="temperature"),
            but(D="temperature"),
        ],
        "the sampler leaves out improbable words, but the log-probabilities ignore this": but(C="top-p"),
        "the trainer reads each word's logits one column late": but(C="shift"),
        "the old log-probabilities are recomputed before each gradient step": but(F="old-logp"),
        "the mask of the loss ends one token too early": but(B="mask-short"),
        "the mask of the loss begins in the prompt": but(F="mask-prompt"),
        "padding is in the mask of the loss": [but(B="mask-padding"), but(A="mask-padding")],
        "the two policies in the KL penalty are exchanged": but(G="kl-exchanged"),
        "the KL penalty has a β of 0": [but(E="no-price"), but(D="no-price")],
        "the reference is copied from the policy in each update": but(F="reference-moves"),
        "the sampler does not know the id that ends a text": [but(E="no-end"), but(G="no-end")],
        "the advantages have the wrong sign": but(C="advantage-sign"),
        "the learning rate is far too high": but(D="lr-high"),
    }
}
UNNAMED: Unnamed = {}
SO_FAR = {"7 of 8": but(H=None), "1 of 8": lambda: {"A": "no-end"}}
