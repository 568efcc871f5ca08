"""Losses as sums written out, one entry after another, and random tensors to compare on."""

import math

import numpy as np
import torch
from hypothesis import strategies as st


def slow_reduce(entries, mask, reduction, denominator):
    """One entry after another, in Python numbers; entries is [..., T]."""
    rows = [
        [x for x, m in zip(row, row_mask, strict=True) if m]
        for row, row_mask in zip(
            entries.reshape(-1, entries.shape[-1]).tolist(),
            mask.reshape(-1, mask.shape[-1]).tolist(),
            strict=True,
        )
    ]
    everything = [x for row in rows for x in row]
    if reduction == "token":
        return math.fsum(everything) / len(everything)
    if reduction == "sequence":
        return math.fsum(math.fsum(row) / len(row) for row in rows) / len(rows)
    return math.fsum(everything) / denominator


def slow_clipped(log_ratio, advantage, low, high):
    """By cases, without a minimum: past the knee the objective is what it was at the knee."""
    r = math.exp(log_ratio)
    if advantage > 0:
        return advantage * (high if r > high else r)
    return advantage * (low if r < low else r)


def slow_value_error(value, target, old, eps):
    """Half the squared error, or that of the value held within eps of the old one if that is worse."""
    plain = (value - target) ** 2 / 2
    if eps is None:
        return plain
    held = old + eps if value > old + eps else old - eps if value < old - eps else value
    return max(plain, (held - target) ** 2 / 2)


def each(slow, *arrays):
    return np.array([slow(*xs) for xs in zip(*(x.ravel().tolist() for x in arrays), strict=True)]).reshape(
        arrays[0].shape
    )


class Case:
    """Random tensors for every loss, with NaN wherever the mask is 0."""

    names = ("logp", "old_logp", "advantages", "values", "returns", "entropy", "old_values", "kl")

    def __init__(self, seed, shape, reduction, masked):
        rng = np.random.default_rng(seed)
        self.x = {name: rng.normal(size=shape) for name in self.names}
        self.x["old_logp"] = self.x["logp"] + rng.normal(size=shape) * rng.choice([0.05, 0.3, 1.0])
        self.x["advantages"][rng.random(shape) < 0.1] = 0.0
        self.x["kl"] = abs(self.x["kl"])
        self.mask = np.ones(shape, dtype=bool)
        if masked:
            self.mask = rng.random(shape) < 0.6
            self.mask[..., 0] = True
        self.reduction = reduction
        self.denominator = float(rng.uniform(1, 9)) if reduction == "constant" else None
        self.how = {"reduction": reduction, "denominator": self.denominator}
        if masked:
            self.how["mask"] = torch.tensor(self.mask)

    def __call__(self, *names):
        return [torch.tensor(np.where(self.mask, self.x[name], np.nan)) for name in names]

    def mean(self, entries):
        return slow_reduce(entries, self.mask, self.reduction, self.denominator)

    def counted(self, entries):
        return entries[self.mask].tolist()


cases = st.builds(
    Case,
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1,), (4,), (3, 4), (2, 3, 5)]),
    reduction=st.sampled_from(["token", "sequence", "constant"]),
    masked=st.booleans(),
)
eps = st.floats(0.01, 1.5)
REDUCTIONS = ["token", "sequence", "constant"]


def agree(found, expected):
    assert found.shape == ()
    np.testing.assert_allclose(found.item(), expected, rtol=1e-9, atol=1e-9)
