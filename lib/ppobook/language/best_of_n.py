"""Best of n: draw n completions, keep the one that the reward likes most. No training, and a strong rival.

    y_1 … y_n  ~  π_ref( · | x),     y = argmax_i R(x, y_i)

How far that is from π_ref can be said without knowing π_ref. Let completions be sorted by reward, and F(r) be
the share of π_ref with a reward of at most r. The best of n has a reward of at most r if all n have, so

    P(reward of the best = r) = F(r)ⁿ − F(r−)ⁿ

and within one reward the best is distributed as π_ref is. Hence KL(best of n, π_ref) is that of the two
distributions of rewards. Without ties it is log n − (n − 1) / n, whatever the reward; ties make it less.

Stiennon et al. 2020, "Learning to summarize from human feedback", have log n − (n − 1) / n. Beirami et al.
2024, "Theoretical guarantees on the best-of-n alignment policy", show that it is a bound, and where it is far
off.
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
from ppobook.language.model import LanguageModel, generate
from ppobook.language.rewards import Reward
from ppobook.language.tokens import Completions


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
    """The best of n completions of each prompt, and its reward.

    Parameters
    ----------
    model : LanguageModel
    reward : Reward
        Of two equals the first is kept.
    prompts : Prompts
        N of them.
    n : int
    max_new_tokens, temperature, generator
        As for `ppobook.language.model.generate`.

    Returns
    -------
    completions : Completions, N rows
    rewards : tensor, shape (N,)
    """
    n = validation.count("n", n)
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
    """KL(best of n, reference) in nats where no two completions have the same reward: log n − (n − 1) / n.

    An upper bound where some have.
    """
    n = validation.count("n", n)
    return math.log(n) - (n - 1) / n


def best_of_n_kl_exact(probs: Any, rewards: Any, n: int) -> float:
    """KL(best of n, reference) in nats, ties and all, of two equals either being kept.

    Parameters
    ----------
    probs : array, shape (Y,)
        Of each completion under the reference; they sum to 1.
    rewards : array, shape (Y,)
        Equal numbers are ties.
    n : int

    Returns
    -------
    float
        At most `best_of_n_kl(n)`, and at most −log of the reference's share of the best completions.

    Raises
    ------
    ValueError
        Shapes that differ, numbers that are not finite, probabilities that are none.
    """
    n = validation.count("n", n)
    p, r = np.asarray(probs, np.float64), np.asarray(rewards, np.float64)
    if p.ndim != 1 or len(p) == 0:
        raise ValueError(f"probs has shape {p.shape}; one axis is wanted, a number a completion")
    validation.shape("rewards", r, p.shape, "the shape of probs")
    validation.finite("probs", p)
    validation.finite("rewards", r)
    if (p < 0).any() or not math.isclose(p.sum(), 1, abs_tol=1e-6):
        raise ValueError(f"probs sums to {p.sum():g} with a least of {p.min():g}; probabilities are wanted")
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
    """What the best of n would be like, for several n, from one lot of N draws a prompt.

    For each n it is the mean over *all* ways to take n of the N draws, so nothing is drawn again and the
    curve is smooth. Of draws with equal scores each is kept equally often.

    Parameters
    ----------
    scores : array, shape (prompts, N)
        What the best is chosen by.
    ns : sequence of int from 1 to N
    measured : mapping of str to arrays of that shape, optional
        What else is known of each draw, such as its gold.

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
    score = np.asarray(scores, np.float64)
    if score.ndim != 2 or score.size == 0:
        raise ValueError(f"scores has shape {score.shape}; (prompts, draws) is wanted")
    known = {"score": score} | {name: np.asarray(x, np.float64) for name, x in (measured or {}).items()}
    for name, x in known.items():
        validation.shape(name, x, score.shape, "the shape of scores")
        validation.finite(name, x)
    draws = score.shape[1]
    order = score.argsort(axis=1, kind="stable")
    ranked = {name: _ties_shared(score, x, order) for name, x in known.items()}
    rows = []
    for n in ns:
        n = validation.count("ns", n, high=draws)
        weights = _chance_of_best(draws, n)
        kl = np.mean([best_of_n_kl_exact(np.full(draws, 1 / draws), row, n) for row in score])
        means = {name: float((x @ weights).mean()) for name, x in ranked.items()}
        rows.append({"n": n, "kl": float(kl), "kl_bound": best_of_n_kl(n), **means})
    return pd.DataFrame(rows)


def _chance_of_best(draws: int, n: int) -> np.ndarray:
    """How likely the i-th of N sorted draws is the best of n of them: C(i − 1, n − 1) / C(N, n)."""
    i = np.arange(1, draws + 1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        logs = gammaln(i) - gammaln(n) - gammaln(np.maximum(i - n + 1, 1))
    logs -= gammaln(draws + 1) - gammaln(n + 1) - gammaln(draws - n + 1)
    return np.where(i >= n, np.exp(logs), 0.0)


def _ties_shared(score: np.ndarray, x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """x in the order of the scores, and its mean over each run of equal scores."""
    shared = np.take_along_axis(x, order, axis=1)
    sorted_scores = np.take_along_axis(score, order, axis=1)
    for row, ranks in zip(shared, sorted_scores, strict=True):
        _, group, size = np.unique(ranks, return_inverse=True, return_counts=True)
        row[:] = (np.bincount(group, weights=row) / size)[group]
    return shared
