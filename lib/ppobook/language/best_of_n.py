"""Best-of-n sampling: sample n completions, keep the one with the largest reward; no training.

    y_1 … y_n  ~  π_ref( · | x),     y = argmax_i R(x, y_i)

Its KL divergence from π_ref depends on the distribution of rewards only. Let F(r) be the probability under
π_ref of a reward of at most r. The best of n has a reward of at most r if all n have, so

    P(reward of the best = r) = F(r)ⁿ − F(r−)ⁿ

and given its reward the best is distributed as under π_ref. Hence KL(best of n, π_ref) is that of the two
distributions of rewards. It tends to log n − (n − 1) / n, for any reward, as each single reward's probability
vanishes, and is less otherwise: of two equally probable completions and n = 2 it is 0.131, not 0.193.

Stiennon et al. 2020, "Learning to summarize from human feedback", have log n − (n − 1) / n. Beirami et al.
2024, "Theoretical guarantees on the best-of-n alignment policy", show that it is a bound, and when it is not
tight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln

from ppobook import validation


def best_of_n_kl(n: int) -> float:
    """An upper bound of KL(best of n, reference) in nats: log n − (n − 1) / n.

    The KL itself where no reward has a probability of its own, as with very many completions without ties.
    """
    return math.log(n) - (n - 1) / n


def best_of_n_kl_exact(probs: Any, rewards: Any, n: int) -> float:
    """KL(best of n, reference) in nats, ties included; one of equal completions is kept at random.

    Parameters
    ----------
    probs : array, shape (Y,)
        The probability of each completion under the reference; sums to 1.
    rewards : array, shape (Y,)
        Equal numbers are ties.
    n : int

    Returns
    -------
    float
        At most `best_of_n_kl(n)`, and at most −log of the reference's probability of the best completions.
    """
    _, level = np.unique(rewards, return_inverse=True)
    share = np.bincount(level, weights=np.asarray(probs, dtype=np.float64))
    share = share[share > 0]
    up_to = np.minimum(share.cumsum() / share.sum(), 1.0)
    below = np.concatenate([[0.0], up_to[:-1]])
    best = up_to**n - below**n
    some = best > 0
    return float((best[some] * np.log(best[some] / (share / share.sum())[some])).sum())


def best_of_n_curve(
    scores: Any, ns: Sequence[int], measured: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """Best-of-n results for several n, from one set of N samples per prompt.

    For each n it is the mean over *all* subsets of n of the N samples, so the curve is smooth. Samples with
    equal scores are kept equally often.

    Parameters
    ----------
    scores : array, shape (prompts, N)
        The reward that the best is selected by.
    ns : sequence of int from 1 to N
    measured : mapping of str to arrays of that shape, optional
        Other measurements of each sample, such as its true reward.

    Returns
    -------
    DataFrame
        A row for each n: n; kl, the exact one of each prompt's draws, averaged over prompts (a slight
        underestimate where n is near N, since two draws of the same completion are ties here too only if they
        are in the draws); kl_bound, `best_of_n_kl`; score; and each of `measured`.

    Raises
    ------
    ValueError
        An n that is not from 1 to N.
    """
    known = {
        name: np.asarray(x, dtype=np.float64) for name, x in {"score": scores, **(measured or {})}.items()
    }
    score = known["score"]
    draws = score.shape[1]
    order = score.argsort(axis=1, kind="stable")
    ranked = {name: _average_ties(score, x, order) for name, x in known.items()}
    rows = []
    for n in ns:
        validation.count("each of ns", n, high=draws)
        weights = _probability_of_best(draws, n)
        kl = np.mean([best_of_n_kl_exact(np.full(draws, 1 / draws), row, n) for row in score])
        means = {name: float((x @ weights).mean()) for name, x in ranked.items()}
        rows.append({"n": n, "kl": float(kl), "kl_bound": best_of_n_kl(n), **means})
    return pd.DataFrame(rows)


def _probability_of_best(draws: int, n: int) -> np.ndarray:
    """Probability that the i-th of N sorted samples is the best of n of them: C(i − 1, n − 1) / C(N, n)."""
    i = np.arange(1, draws + 1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        logs = gammaln(i) - gammaln(n) - gammaln(np.maximum(i - n + 1, 1))
    logs -= gammaln(draws + 1) - gammaln(n + 1) - gammaln(draws - n + 1)
    return np.where(i >= n, np.exp(logs), 0.0)


def _average_ties(score: np.ndarray, x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """x in the order of the scores, averaged over equal scores."""
    shared = np.take_along_axis(x, order, axis=1)
    sorted_scores = np.take_along_axis(score, order, axis=1)
    for row, ranks in zip(shared, sorted_scores, strict=True):
        _, group, size = np.unique(ranks, return_inverse=True, return_counts=True)
        row[:] = (np.bincount(group, weights=row) / size)[group]
    return shared
