"""Diagnostics of an update, and the normalisation of advantages.

NumPy in, NumPy out; torch in, torch out, on the same device and in the same dtype. All but `normalize` return
detached scalars: `ratios` several, each other function one.
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

    Mean and standard deviation are those of all entries passed in, so the result depends on the call: over a
    whole batch all samples are scaled alike; minibatch by minibatch the same sample is scaled differently
    each time. Say in your code which of the two you do.

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

    Raises
    ------
    ValueError, TypeError
        A mask of another shape, not 0/1, or 0 everywhere; a value that is not finite; no more than ddof
        entries; arrays and tensors mixed.

    References
    ----------
    Ziegler et al. 2019, "Fine-tuning language models from human preferences", whose code whitens rewards
    without shifting their mean.
    """
    library = validation.one_library(advantages=advantages, mask=mask)
    validation.present(advantages=advantages)
    x: Any = validation.floats(advantages=advantages)[0]
    validation.not_empty("advantages", x)
    validation.count("ddof", ddof, low=0, high=1)
    shift_mean = validation.flag("shift_mean", shift_mean)
    keep, number = None, math.prod(x.shape)
    if mask is not None:
        keep = validation.flags("mask", mask, x.shape, "the shape of advantages")
        if library is not np:
            keep = library.as_tensor(keep, device=x.device)
        number = int(keep.sum())
        if number == 0:
            raise ValueError("mask must have at least one entry that is not 0, got 0 everywhere")
    validation.finite("advantages", x, where=keep)
    if number <= ddof:
        raise ValueError(f"advantages must have more entries that count than ddof={ddof}, got {number}")

    dtype, x = x.dtype, x if keep is None else library.where(keep, x, 0.0)
    x, largest, unit = _with_squares_in_range(library, x)
    mean = x.sum() / number
    centred = x - mean if keep is None else library.where(keep, x - mean, 0.0)
    std = ((centred * centred).sum() / (number - ddof)) ** 0.5
    equal = False
    if float(_detached(std)) <= library.finfo(x.dtype).eps ** 0.5 * largest:
        # A mean this far from 0 has rounding errors that count. That of equal numbers has nothing else.
        counted = _detached(x if keep is None else x[keep])
        equal = bool(counted.max() - counted.min() <= 2 * library.finfo(x.dtype).eps * largest)
        centred = centred - centred.sum() / number
        centred = centred if keep is None else library.where(keep, centred, 0.0)
        std = ((centred * centred).sum() / (number - ddof)) ** 0.5
    if equal:
        scaled = library.zeros_like(x) if shift_mean else x * unit
    else:
        scaled = centred / std
        if not shift_mean:
            scaled = scaled + mean * unit
            scaled = scaled if keep is None else library.where(keep, scaled, 0.0)
    return _as(dtype, scaled)


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
    scalar, detached; NaN if all returns are equal

    Raises
    ------
    ValueError, TypeError
        Shapes that differ, no entry, a value that is not finite, arrays and tensors mixed.
    """
    library = validation.one_library(values=values, returns=returns)
    validation.present(values=values, returns=returns)
    v, y = (_detached(x) for x in validation.floats(values=values, returns=returns))
    validation.not_empty("values", v)
    validation.shape("returns", y, v.shape, "the shape of values")
    validation.finite("values", v)
    validation.finite("returns", y)
    # In units of the largest, so that no square is beyond the dtype.
    unit = max(float(abs(y).max()), float(abs(v).max())) or 1.0
    y, v = y / unit, v / unit
    total, left = _variance(y), _variance(y - v)
    rounding = (8 * library.finfo(y.dtype).eps * abs(y).max()) ** 2
    alike = total <= rounding
    return library.where(alike, np.nan, 1 - left / library.where(alike, 1.0, total))[()]


def effective_sample_size(log_ratio: ArrayT) -> ArrayT:
    """How many samples of the new policy the weighted samples of the old one are worth.

        (Σ w)² / Σ w²,   w = exp(log_ratio)

    n where all weights are equal, near 1 where one of them outweighs the rest.

    Parameters
    ----------
    log_ratio : array or tensor, any shape
        log π_new − log π_old of each sample, drawn from the old policy.

    Returns
    -------
    scalar between 1 and n, detached

    Raises
    ------
    ValueError, TypeError
        No entry; NaN or an infinity.

    References
    ----------
    Kong 1992, "A note on importance sampling using standardized weights".
    """
    library = validation.one_library(log_ratio=log_ratio)
    validation.present(log_ratio=log_ratio)
    log_w = _detached(validation.floats(log_ratio=log_ratio)[0])
    validation.not_empty("log_ratio", log_w)
    validation.finite("log_ratio", log_w)
    # A common factor of all weights cancels, so the largest may be 1: exp never overflows.
    w = library.exp(at_least_float32(library, log_w - log_w.max()))
    return _as(log_w.dtype, w.sum() ** 2 / (w**2).sum())


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
    dict of detached scalars: clip_fraction, flat_fraction, approx_kl, ratio_mean, ratio_std

    Raises
    ------
    ValueError, TypeError
        Shapes that differ, no entry that counts, a value that is not finite, a clip_eps that is not a
        number above 0, arrays and tensors mixed.

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7. Schulman 2020, "Approximating
    KL divergence".
    """
    low, high = clip_range(clip_eps, clip_eps_high)
    keep, (log_ratio, advantages) = _counted(mask, log_ratio=log_ratio, advantages=advantages)
    library: Any = validation.one_library(log_ratio=log_ratio)
    if library is np or log_ratio.device.type != "cpu":
        return _ratios(library, log_ratio, advantages, low, high, keep)
    # On a minibatch of the usual size, operations this small take NumPy less than half of torch's time.
    counts = None if keep is None else keep.numpy()
    found = _ratios(np, log_ratio.numpy(), advantages.numpy(), low, high, counts)
    values = np.array(list(found.values()), log_ratio.numpy().dtype)
    return dict(zip(found, library.from_numpy(values).unbind(), strict=True))


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


def clip_fraction(
    log_ratio: ArrayT,
    clip_eps: float = 0.2,
    *,
    clip_eps_high: float | None = None,
    mask: ArrayT | None = None,
) -> ArrayT:
    """The share of samples whose ratio is outside the clip range: mean of [ r < 1 − ε or r > 1 + ε ].

    It is what libraries log under this name. It also counts samples that have moved the wrong way, which no
    clip stops; `flat_fraction` counts those that the clip does stop. A ratio exactly at a bound is inside.

    Arguments, errors and source as for `ratios`.

    Returns
    -------
    scalar, detached
    """
    return ratios(log_ratio, 0 * log_ratio, clip_eps, clip_eps_high=clip_eps_high, mask=mask)["clip_fraction"]


def flat_fraction(
    log_ratio: ArrayT,
    advantages: ArrayT,
    clip_eps: float = 0.2,
    *,
    clip_eps_high: float | None = None,
    mask: ArrayT | None = None,
) -> ArrayT:
    """The share of samples without a gradient: those on the flat side of the clipped surrogate.

        mean of [ Â > 0 and r > 1 + ε,  or  Â < 0 and r < 1 − ε ]

    A sample exactly at the bound is not flat: its gradient there is still the full one. One with Â = 0 is not
    counted either: it has no gradient, clipped or not.

    Arguments, errors and source as for `ratios`.

    Returns
    -------
    scalar, detached, at most `clip_fraction`
    """
    return ratios(log_ratio, advantages, clip_eps, clip_eps_high=clip_eps_high, mask=mask)["flat_fraction"]


def clip_range(clip_eps: float, clip_eps_high: float | None) -> tuple[float, float]:
    """The clip range of the ratio: 1 − clip_eps, and 1 + clip_eps_high (left out, 1 + clip_eps)."""
    clip_eps = validation.number("clip_eps", clip_eps, above=0)
    if clip_eps_high is None:
        return 1 - clip_eps, 1 + clip_eps
    return 1 - clip_eps, 1 + validation.number("clip_eps_high", clip_eps_high, above=0)


def gradient_variance(gradients: ArrayT) -> ArrayT:
    """The variance of gradient estimates: the expected squared distance of one from their mean.

        E |g − E g|²  =  the trace of the covariance of g

    Unbiased, from independent estimates. An average over B of them has 1/B of it, so the ratio of two
    variances is that of the numbers of samples needed for the same precision.

    Parameters
    ----------
    gradients : array or tensor, shape (samples, ...)
        One gradient estimate a row; all further axes are its components.

    Returns
    -------
    scalar, detached

    Raises
    ------
    ValueError, TypeError
        Fewer than 2 samples, a value that is not finite.
    """
    validation.present(gradients=gradients)
    library = validation.one_library(gradients=gradients)
    g = _detached(validation.floats(gradients=gradients)[0])
    validation.last_axis("gradients", g, "the components of a gradient")
    validation.not_empty("gradients", g)
    if len(g) < 2:
        shape = tuple(g.shape)
        raise ValueError(f"gradients must have at least 2 samples along the first axis, got shape {shape}")
    validation.finite("gradients", g)
    x = at_least_float32(library, g)
    return _as(g.dtype, ((x - x.mean(0)) ** 2).sum() / (len(g) - 1))


def _counted(mask: Any, **arrays: Any) -> tuple[Any, list[Any]]:
    """The mask as booleans, or None, and the arrays: detached, in at least float32, 0 where masked out."""
    library = validation.one_library(**arrays)
    first, x = next(iter(arrays.items()))
    found = []
    for name, y in arrays.items():
        validation.shape(name, y, x.shape, "the shape of " + first)
        found.append(at_least_float32(library, _detached(y)))
    if mask is None:
        return None, found
    validation.shape("mask", mask, x.shape, "the shape of " + first)
    keep = mask != 0
    return keep, [library.where(keep, y, 0.0) for y in found]


def _with_squares_in_range(library: Any, x: Any) -> tuple[Any, float, float]:
    """x in at least float32, divided by a unit; its largest absolute value; and the unit.

    The unit is 1 where the squares fit into the dtype, else a power of 2, which changes no digit.
    """
    x = at_least_float32(library, x)
    largest, info = float(abs(_detached(x)).max()), library.finfo(x.dtype)
    if largest == 0 or float(info.tiny) ** 0.25 < largest < float(info.max) ** 0.25:
        return x, largest, 1.0
    unit = 2.0 ** (math.frexp(largest)[1] - 1)
    return x / library.full_like(x, unit), largest / unit, unit


def _as(dtype: Any, x: Any) -> Any:
    """x in this dtype."""
    return x.to(dtype) if validation.is_tensor(x) else x.astype(dtype, copy=False)


def _variance(x: Any) -> Any:
    return ((x - x.mean()) ** 2).mean()


def _detached(x: Any) -> Any:
    return x.detach() if validation.is_tensor(x) else x
