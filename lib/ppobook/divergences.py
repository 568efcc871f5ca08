"""The KL divergence between two distributions, exact and estimated from samples.

Everywhere the first argument is q, the distribution that the average is over (and that samples come from),
and the second is p:

    KL(q, p) = E_{x ~ q} [ log q(x) − log p(x) ] ≥ 0

In PPO q is the old policy and p the new one; in RLHF q is the policy and p the reference. NumPy in, NumPy
out; torch in, torch out, with gradients, since a KL is often a penalty that is trained on. Shapes that
differ, standard deviations of 0, and arrays beside tensors raise ValueError or TypeError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ppobook import validation
from ppobook.validation import ArrayT


def kl_categorical(logits_q: ArrayT, logits_p: ArrayT) -> ArrayT:
    """KL(q, p) of two categorical distributions given by their logits.

        KL(q, p) = Σ_a q(a) [log q(a) − log p(a)]

    Log-probabilities are logits too, so those may be passed as well. A logit of −∞ is an action that
    cannot be taken: where q has none of it, it adds nothing; where q has some and p has none, KL is infinite.

    Parameters
    ----------
    logits_q, logits_p : array or tensor, shape (..., actions)

    Returns
    -------
    shape (...), in nats
        In the dtype of the logits, but at least float32.

    References
    ----------
    Kullback and Leibler 1951, "On information and sufficiency", section 2.
    """
    library, logits_q, logits_p = _pair(logits_q=logits_q, logits_p=logits_p)
    log_q, log_p = _log_softmax(library, logits_q), _log_softmax(library, logits_p)
    q = library.exp(log_q)
    # Where q is 0 the difference may be ∞ − ∞: choose before multiplying, for 0 · NaN is NaN.
    possible = q > 0
    difference = library.where(possible, log_q, 0.0) - library.where(possible, log_p, 0.0)
    return (q * difference).sum(-1)


def kl_gaussian(mean_q: ArrayT, std_q: ArrayT, mean_p: ArrayT, std_p: ArrayT) -> ArrayT:
    """KL(q, p) of two Gaussians with independent components, summed over the last axis.

        KL(q, p) = Σ_i log(σ_p / σ_q) + (σ_q² + (μ_q − μ_p)²) / (2 σ_p²) − 1/2

    Parameters
    ----------
    mean_q, mean_p : array or tensor, shape (..., components)
    std_q, std_p : shape (..., components), or any that broadcasts to it
        Standard deviations, above 0. Of shape (components,), they hold for all states.

    Returns
    -------
    shape (...), in nats

    References
    ----------
    Kullback 1959, "Information theory and statistics", chapter 9.
    """
    library, mean_q, mean_p = _pair(mean_q=mean_q, mean_p=mean_p)
    validation.positive("std_q", std_q)
    validation.positive("std_p", std_p)
    ratio, distance = std_q / std_p, (mean_q - mean_p) / std_p
    # log(σ_q/σ_p) is taken of the ratio whose square stands beside it: the two cancel exactly at σ_q = σ_p.
    return (0.5 * (ratio**2 - 1 + distance**2) - library.log(ratio)).sum(-1)


def k1(logp_q: ArrayT, logp_p: ArrayT) -> ArrayT:
    """log q − log p at samples of q: the plain estimate of KL(q, p), unbiased and often negative.

    Parameters
    ----------
    logp_q, logp_p : array or tensor, shape (...)
        Log-probabilities under q and under p of the same samples, which were drawn from q.

    Returns
    -------
    shape (...), one estimate a sample; their mean estimates KL(q, p)

    References
    ----------
    Schulman 2020, "Approximating KL divergence".
    """
    _, logp_q, logp_p = _pair(logp_q=logp_q, logp_p=logp_p)
    return logp_q - logp_p


def k2(logp_q: ArrayT, logp_p: ArrayT) -> ArrayT:
    """½ (log q − log p)² at samples of q: never negative, small in variance, biased unless q is near p.

    Arguments, result and source as for `k1`.
    """
    return k1(logp_q, logp_p) ** 2 / 2


def k3(logp_q: ArrayT, logp_p: ArrayT) -> ArrayT:
    """r − 1 − log r at samples of q, with r = p/q: unbiased, and never negative.

    E_q[r − 1] = 0, so it may be added to k1 without changing its mean; what it adds moves against k1, and
    cancels most of its variance while q and p are close. When they are far apart r has heavy tails, and so
    has k3. It is an estimate of the *value*: used as a loss for q, its gradient is not that of the KL.

    Arguments, result and source as for `k1`.
    """
    library, logp_q, logp_p = _pair(logp_q=logp_q, logp_p=logp_p)
    log_r = logp_p - logp_q
    return library.expm1(log_r) - log_r  # near r = 1, r − 1 would lose its digits


def _pair(**arrays: Any) -> Any:
    """The library of two arrays, and the arrays, in at least float32; they must have one shape."""
    library = validation.one_library(**arrays)
    (first, x), (second, y) = arrays.items()
    validation.shape(second, y, x.shape, f"the shape of {first}")
    return library, at_least_float32(library, x), at_least_float32(library, y)


def at_least_float32(library: Any, x: Any) -> Any:
    """x, in float32 if its dtype has half precision, in which a sum loses digits or leaves the range."""
    return x if x.dtype.itemsize >= 4 else x.astype(np.float32) if library is np else x.float()


def _log_softmax(library: Any, logits: Any) -> Any:
    if library is not np:
        return logits.log_softmax(-1)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
