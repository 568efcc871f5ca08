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
import torch
from scipy.special import gammaln
from torch import Tensor

from ppobook import validation
from ppobook.language.data import Prompts
from ppobook.language.generation import generate
from ppobook.language.model import LanguageModel
from ppobook.language.rewards import Reward
from ppobook.language.tokens import Completions
from ppobook.run.machine import float32_on_cpu


@float32_on_cpu()
def best_of_n(
    model: LanguageModel,
    reward: Reward,
    prompts: Prompts,
    n: int,
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    generator: torch.Generator,
) -> tuple[Completions, Tensor]:
    """The best of n sampled completions of each prompt, and its reward.

    Parameters
    ----------
    model : LanguageModel
    reward : Reward
        The first of equal ones is kept.
    prompts : Prompts
        N of them.
    n : int
    max_new_tokens, temperature, generator
        As for `ppobook.language.generation.generate`.

    Returns
    -------
    completions : Completions, N rows
    rewards : tensor, shape (N,)
    """
    n = validation.count("n", n)
    validation.instance("prompts", prompts, Prompts)
    validation.instance("generator", generator, torch.Generator)
    if not callable(reward):
        raise TypeError(f"reward must be a Reward, got {reward!r}")
    many = prompts.repeat(n)
    drawn = generate(
        model,
        many.tokens.to(generator.device),
        many.mask.to(generator.device),
        max_new_tokens,
        temperature=temperature,
        generator=generator,
    )
    rewards = reward(drawn, many.columns).view(len(prompts), n)
    best = rewards.argmax(dim=1)
    rows = torch.arange(len(prompts), device=best.device) * n + best
    return drawn.select(rows), rewards.gather(1, best[:, None]).squeeze(1)


def best_of_n_kl(n: int) -> float:
    """An upper bound of KL(best of n, reference) in nats: log n − (n − 1) / n.

    The KL itself where no reward has a probability of its own, as with very many completions without ties.
    """
    n = validation.count("n", n)
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

    Raises
    ------
    ValueError
        Shapes that differ, numbers that are not finite, probs that are not probabilities.
    """
    n = validation.count("n", n)
    p, r = validation.float64("probs", probs), validation.float64("rewards", rewards)
    if p.ndim != 1 or len(p) == 0:
        raise ValueError(f"probs must have one axis, one number per completion, got shape {p.shape}")
    validation.shape("rewards", r, p.shape, "the shape of probs")
    validation.finite("probs", p)
    validation.finite("rewards", r)
    if (p < 0).any() or not math.isclose(p.sum(), 1, abs_tol=1e-6):
        raise ValueError(
            f"probs must be probabilities that sum to 1, got sum {p.sum():g} and minimum {p.min():g}"
        )
    _, level = np.unique(r, return_inverse=True)
    share = np.bincount(level, weights=p)
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
        Shapes that differ, numbers that are not finite, an n above N.
    """
    score = validation.float64("scores", scores)
    if score.ndim != 2 or score.size == 0:
        raise ValueError(f"scores must have shape (prompts, samples), got {score.shape}")
    validation.finite("scores", score)
    known = {"score": score}
    if not isinstance(measured, Mapping | None):
        raise TypeError(f"measured must be a dict of arrays, got {type(measured).__name__}")
    for name, given in (measured or {}).items():
        known[name] = x = validation.float64(f"measured[{name!r}]", given)
        validation.shape(f"measured[{name!r}]", x, score.shape, "the shape of scores")
        validation.finite(f"measured[{name!r}]", x)
    draws = score.shape[1]
    ns = validation.counts("ns", ns)
    if not ns:
        raise ValueError("ns must have at least one number of completions, got none")
    order = score.argsort(axis=1, kind="stable")
    ranked = {name: _average_ties(score, x, order) for name, x in known.items()}
    rows = []
    for i, n in enumerate(ns):
        validation.count(f"ns[{i}]", n, high=draws)
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
