"""Reports of the command line on models: best of n, and how well a reward model ranks pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd
import torch

from ppobook import validation
from ppobook.language.best_of_n import best_of_n_curve
from ppobook.language.data import pairs_of, prompts_of
from ppobook.language.evaluating import Evaluation, evaluate
from ppobook.language.reward import calibration, calibration_error, held_out, ladder
from ppobook.language.run import Run
from ppobook.language.settings import MOST_STORED
from ppobook.language.tokens import Pairs
from ppobook.language.world import World


def select(found: Evaluation, rows: Sequence[int]) -> Evaluation:
    """Some of the completions of an evaluation."""
    return replace(
        found,
        completions=found.completions.select(torch.tensor(rows)),
        prompts=[found.prompts[row] for row in rows],
        texts=[found.texts[row] for row in rows],
        gold=None if found.gold is None else found.gold[rows],
        reward=None if found.reward is None else found.reward[rows],
    )


class BestOfN(NamedTuple):
    """The best of n completions, for several n.

    Attributes
    ----------
    curve : DataFrame
        One row per n.
    best : Evaluation
        The best of the largest n completions of each prompt.
    prompts : int
    """

    curve: pd.DataFrame
    best: Evaluation
    prompts: int


def best_of_draws(
    model: Any,
    data: Any,
    tokenizer: Any,
    n: Sequence[int],
    draws: int,
    reward_model: Any = None,
    **sampling: Any,
) -> BestOfN:
    """Sample `draws` completions of each prompt, and choose the best of n by a reward model, or by gold.

    Parameters
    ----------
    model : LanguageModel
    data : World or data with prompts
    tokenizer : Tokenizer
    n : sequence of int
    draws : int
        At least the largest n.
    reward_model : RewardModel or function, optional
        Left out: the gold reward of the World.
    **sampling
        Of `ppobook.language.evaluate`.
    """
    prompts = len(prompts_of(data, tokenizer))
    draws = validation.count("draws", draws, high=MOST_STORED // prompts)
    # Prompts are taken in turn, so the draws of one prompt are `prompts` rows apart.
    found = evaluate(
        model, data, reward_model=reward_model, n=prompts * draws, tokenizer=tokenizer, **sampling
    )
    by = {"gold": found.gold, "reward": found.reward}
    known = {name: x.view(draws, prompts).T for name, x in by.items() if x is not None}
    chosen = "gold" if reward_model is None else "reward"
    score = known.pop(chosen)
    curve = best_of_n_curve(score, n, known).rename(columns={"score": chosen})
    best = score[:, : max(n)].argmax(dim=1)
    return BestOfN(curve, select(found, [int(best[p]) * prompts + p for p in range(prompts)]), prompts)


class Ranking(NamedTuple):
    """A reward model's ranking of pairs: their number, its accuracy, calibration error and table."""

    pairs: int
    accuracy: float
    error: float
    table: pd.DataFrame


def ranking(run: Run, data: Any, *, all_pairs: bool = False) -> Ranking | None:
    """Rank held-out pairs, or all pairs of the data, by a run's reward model; None without pairs."""
    pairs: Pairs | None
    if all_pairs:
        pairs = pairs_of(data, run.tokenizer, max_length=run.model.body.context)
    else:
        pairs = held_out(run, data)
    if pairs is None:
        return None
    table = calibration(run.model, pairs)
    # The accuracy is the mean of the bins', weighted by their pairs.
    accuracy = (table["observed"] * table["pairs"]).sum() / table["pairs"].sum()
    return Ranking(len(pairs), accuracy, calibration_error(table), table)


def ladder_in(run: Run, world: World, top: int | None = None, texts: int = 4, seed: int = 0) -> pd.DataFrame:
    """`ladder` with as many kind words as the world has room for, at most 6; empty if it has none."""
    # Two clauses, "and" and the end are 15 tokens; each kind word is one more.
    room = min(6, world.max_new_tokens - 15)
    if top is None and room < 1:
        return pd.DataFrame()
    return ladder(run.model, world, top=room if top is None else top, texts=texts, seed=seed)
