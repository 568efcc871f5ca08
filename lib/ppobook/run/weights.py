"""Whether the weights are still finite."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

# No weight that has been learned is as large as this.
LARGEST = 1e6


def weights_are_finite(modules: Iterable[nn.Module]) -> bool:
    """Whether all weights are finite."""
    modules = list(modules)
    # A finite norm has finite terms, and is computed in one go. An infinite one may have overflowed.
    if math.isfinite(norm_of(modules)):
        return True
    return all(torch.isfinite(p).all() for module in modules for p in module.parameters())


def norm_of(modules: Iterable[nn.Module]) -> float:
    """The norm of all weights."""
    weights = [p.detach() for module in modules for p in module.parameters()]
    return float(torch.nn.utils.get_total_norm(weights))


@torch.no_grad()
def weights_diverged(modules: Iterable[nn.Module]) -> bool:
    """Whether a weight is not finite, or so large that results soon are not."""
    return any(
        not torch.isfinite(p).all() or p.abs().max() > LARGEST
        for module in modules
        for p in module.parameters()
        if p.numel() > 0
    )
