"""Diagnostics of an update, and the normalisation of advantages.

NumPy in, NumPy out; torch in, torch out, on the same device and detached. All but `normalize` return scalars.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ppobook import validation
from ppobook.divergences import at_least_float32
from ppobook.validation import ArrayT


def normalize(
    advantages: ArrayT, mask: ArrayT | None = None, *, ddof: int = 0, shift_mean: bool = True
) -> ArrayT:
    """Advantages divided by their standard deviation and shifted to mean 0.

        Â ← (Â − mean) / std                 shift_mean=True
        Â ← (Â − mean) / std + mean          shift_mean=False: the mean stays as it was

    Mean and standard deviation are those of all entries passed in: over a whole batch all samples are scaled
    alike, minibatch by minibatch the same sample differently each time.

    Advantages that are all equal become 0, or with shift_mean=False stay as they are. So do those that
    differ by no more than rounding: by 2 ε max |Â|, with the dtype's ε, two to four units in the last place.

    Parameters
    ----------
    advantages : array or tensor, any shape
    mask : same shape, bool or 0/1, optional
        Entries that count. The others are not read (they may be NaN) and become 0.
    ddof : 0 or 1
        1 divides the sum of squares by one less than the number of entries, as torch does by default.
    shift_mean : bool

    Returns
    -------
    the shape of advantages

    References
    ----------
    Ziegler et al. 2019, "Fine-tuning language models from human preferences", whose code whitens rewards
    without shifting their mean.
    """
    library, x, dtype = _float64(advantages)
    counted = x
    if mask is not None:
        validation.shape("mask", mask, x.shape, "the shape of advantages")
        counted = x[mask != 0]
    number = math.prod(counted.shape)
    mean = counted.sum() / number
    std = (((counted - mean) ** 2).sum() / (number - ddof)) ** 0.5
    rounding = 2 * library.finfo(dtype).eps * abs(counted).max()
    equal = counted.max() - counted.min() <= rounding
    scaled = (x - mean) / (math.inf if equal else std)
    if not shift_mean:
        scaled = x if equal else scaled + mean
    return _as(dtype, scaled if mask is None else library.where(mask != 0, scaled, 0.0))


def explained_variance(values: ArrayT, returns: ArrayT) -> ArrayT:
    """The share of the returns' variance that the values predicted.

        1 − Var(returns − values) / Var(returns)

    1 is a perfect critic, 0 one as good as a constant, below 0 one that is worse than a constant. A constant
    error is not counted. Pass the values that were recorded in the rollout, before training on it.

    Parameters
    ----------
    values, returns : array or tensor, one shape

    Returns
    -------
    scalar; NaN if all returns are equal
    """
    library, v, dtype = _float64(values)
    y = _float64(returns)[1]
    validation.shape("returns", y, v.shape, "the shape of values")
    total, left = _variance(y), _variance(y - v)
    equal = total <= (2 * library.finfo(dtype).eps * abs(y).max()) ** 2
    return _as(dtype, library.where(equal, math.nan, 1 - left / library.where(equal, 1.0, total)))


def effective_sample_size(log_ratio: ArrayT) -> ArrayT:
    """Number of samples of the new policy that the weighted samples of the old one are worth.

        (Σ w)² / Σ w²,   w = exp(log_ratio)

    n where all weights are equal, near 1 where one of them outweighs the rest.

    Parameters
    ----------
    log_ratio : array or tensor, any shape
        log π_new − log π_old of each sample, drawn from the old policy.

    Returns
    -------
    scalar between 1 and n

    References
    ----------
    Kong 1992, "A note on importance sampling using standardized weights".
    """
    library, log_w, dtype = _float64(log_ratio)
    # A common factor of all weights cancels, so the largest may be 1: exp never overflows.
    w = library.exp(log_w - log_w.max())
    return _as(dtype, w.sum() ** 2 / (w**2).sum())


def ratios(
    log_ratio: ArrayT,
    advantages: ArrayT,
    clip_eps: float = 0.2,
    *,
    clip_eps_high: float | None = None,
    mask: ArrayT | None = None,
) -> dict[str, Any]:
    """Statistics of PPO's ratios r = π_new / π_old over a minibatch, or over a whole update.

        clip_fraction = mean of [ r < 1 − ε or r > 1 + ε ]
        flat_fraction = mean of [ Â > 0 and r > 1 + ε, or Â < 0 and r < 1 − ε ]
        approx_kl     = mean of r − 1 − log r                         (k3, an estimate of KL(π_old, π_new))
        ratio_mean, ratio_std                                         (ddof = 0)

    clip_fraction also counts samples that have moved the wrong way, which no clip stops; flat_fraction counts
    those without a gradient. A ratio exactly at a bound is inside, and has its full gradient.

    Parameters
    ----------
    log_ratio : array or tensor, any shape
        log π_new − log π_old of each sample, drawn from the old policy.
    advantages : the same shape
    clip_eps, clip_eps_high : float above 0
        As for `ppobook.objectives.clipped_surrogate_loss`.
    mask : the same shape, bool or 0/1, optional
        Entries that count. The others are not read.

    Returns
    -------
    dict of scalars in at least float32: clip_fraction, flat_fraction, approx_kl, ratio_mean, ratio_std

    Raises
    ------
    ValueError, TypeError
        Shapes that differ.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7. Schulman 2020, "Approximating
    KL divergence".
    """
    low, high = 1 - clip_eps, 1 + (clip_eps if clip_eps_high is None else clip_eps_high)
    keep, (log_r, a) = _counted(mask, log_ratio=log_ratio, advantages=advantages)
    library = validation.one_library(log_ratio=log_ratio)
    if library is np or log_r.device.type != "cpu":
        return _ratios(library, log_r, a, low, high, keep)
    # On a minibatch of the usual size, operations this small take NumPy less than half of torch's time.
    log_r, a, keep = log_r.numpy(), a.numpy(), None if keep is None else keep.numpy()
    found = _ratios(np, log_r, a, low, high, keep)
    return dict(zip(found, library.from_numpy(np.array(list(found.values()), log_r.dtype)), strict=True))


@np.errstate(over="ignore", invalid="ignore")  # a ratio too large for a float is infinite
def _ratios(
    library: Any, log_ratio: Any, advantages: Any, low: float, high: float, keep: Any
) -> dict[str, Any]:
    """The statistics of `ratios`; where `keep` is False both arrays must be 0 already."""
    ratio, shift = library.exp(log_ratio), library.expm1(log_ratio)  # near 1, r − 1 would lose its digits
    beyond = ratio - library.clip(ratio, low, high)
    number = math.prod(log_ratio.shape) if keep is None else keep.sum()
    mean_shift = shift.sum() / number
    centred = shift - mean_shift if keep is None else (shift - mean_shift) * keep
    return {
        "clip_fraction": (beyond != 0).sum() / number,
        "flat_fraction": (beyond * advantages > 0).sum() / number,
        "approx_kl": (shift - log_ratio).sum() / number,
        "ratio_mean": 1 + mean_shift,
        "ratio_std": ((centred * centred).sum() / number) ** 0.5,
    }


def _counted(mask: Any, **arrays: Any) -> tuple[Any, list[Any]]:
    """The mask as booleans, or None, and the arrays: detached, in at least float32, 0 where masked out."""
    library = validation.one_library(**arrays)
    first, x = next(iter(arrays.items()))
    found = []
    for name, y in arrays.items():
        validation.shape(name, y, x.shape, "the shape of " + first)
        found.append(at_least_float32(library, y.detach() if validation.is_tensor(y) else y))
    if mask is None:
        return None, found
    validation.shape("mask", mask, x.shape, "the shape of " + first)
    keep = mask != 0
    return keep, [library.where(keep, y, 0.0) for y in found]


def _float64(x: Any) -> tuple[Any, Any, Any]:
    """The library of x, x in float64, since sums of squares lose digits in less, and the dtype of results."""
    if validation.is_tensor(x):
        library = validation.one_library(x=x)
        return library, x.detach().double(), x.dtype if x.is_floating_point() else library.float64
    array = np.asarray(x)
    return np, array.astype(np.float64), array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)


def _as(dtype: Any, x: Any) -> Any:
    """x in this dtype."""
    return x.to(dtype) if validation.is_tensor(x) else x.astype(dtype)[()]


def _variance(x: Any) -> Any:
    return ((x - x.mean()) ** 2).mean()
