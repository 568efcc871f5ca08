"""Six samples by hand."""

from __future__ import annotations

from checks import Right, Unnamed, Wrong

RIGHT: Right = {}
WRONG: Wrong = {}
UNNAMED: Unnamed = {}

TABLE = {
    "slopes": [2, 1, 0, 0, -2, -3],
    "clip_fraction": 4 / 6,
    "flat_fraction": 2 / 6,
    "plain": -0.5,
    "clipped": -0.55,
}


def but(**entries):
    given = TABLE | entries
    return lambda: tuple(given.values())


RIGHT["final-by-hand"] = [
    but(),
    but(clip_fraction=0.667, flat_fraction=0.333),
    lambda: list(but(slopes=(2, 1, 0, 0, -2, -3))()),
]
WRONG["final-by-hand"] = {
    "every sample outside is flat": but(slopes=[0, 1, 0, 0, -2, 0]),
    "no sample is flat": but(slopes=[2, 1, 1, -1, -2, -3]),
    "the flat samples are exchanged with those that push": but(slopes=[0, 0, 1, -1, 0, 0]),
    "the larger product is followed": but(slopes=[0, 1, 1, -1, -2, 0]),
    "whatever is above is flat": but(slopes=[2, 1, 0, -1, -2, 0]),
    "the slope is taken times the ratio": but(slopes=[1.2, 1.1, 0, 0, -1.8, -4.2]),
    "the two fractions are exchanged": but(clip_fraction=2 / 6, flat_fraction=4 / 6),
    "numbers of samples, not shares": but(clip_fraction=4, flat_fraction=2),
    "flat is every sample outside": but(flat_fraction=4 / 6),
    "sums, not means": but(plain=-3.0, clipped=-3.3),
    "the clipped one is above the plain one": [but(plain=-0.55, clipped=-0.5), but(clipped=-0.3333)],
    "without the minimum": but(clipped=-2.3 / 6),
    "the minimum is taken of the ratios": but(clipped=-2.5 / 6),
    "flat samples count for nothing": but(clipped=-3.7 / 6),
}
UNNAMED["final-by-hand"] = [but(slopes=[2, 1, 0, 0, -2, 3]), but(flat_fraction=0.5), but(plain=0.0)]
