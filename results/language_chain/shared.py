"""Shared parts of experiments in the tiny language world: policies after SFT, reward models, runs, measures.

**Reward models on one scale.** Comparisons determine neither the zero nor, by itself, the size of a reward,
and reward models that differ in data, size or pooling differ in it several times over. One β is then not one
penalty. Here every reward has mean 0 and standard deviation 1 over completions of the policy after SFT, as in
Ziegler et al. 2019, "Fine-tuning language models from human preferences": β is in these standard deviations
a nat. `scale` of a reward model is its standard deviation before that.

**The held-out judge** has the recipe of the reward model that a policy is trained on, and other pairs, in
another order. Nothing is trained on it. A practitioner, who has no gold, can have such a one.

SFT and reward models are kept in `_build/language_chains/`. Delete that folder after a change of the library,
the world or a default. `results/language_ladder` makes the usual ones: run it first.
"""

import contextlib
import copy
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from ppobook.evaluation import aggregate
from ppobook.experiments import results, results_folder
from ppobook.language import Completions, Pairs, World, evaluate, load, train
from ppobook.language.opening import open_task
from ppobook.language.pairs import sample_pairs
from ppobook.language.reward import RewardModelling, pooled_rewards
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run
from ppobook.language.stage import Stage, Task
from ppobook.language.tokens import completion_logits, token_entropy
from ppobook.language.training import STAGES
from ppobook.run.machine import stream

SETTLED_ON, FRESH = range(3), range(100, 110)
KEPT = results_folder().parent / "_build" / "language_chains"
USUAL = {"pairs": 3000, "width": 64}
# What gold has of each of its parts (`World.gold_parts`); with that of kind words, which has a bend.
POINTS = {"noun": 0.5, "place": 0.5, "grim": -1.0, "strangers": -0.25, "truncated": -0.5}


# ------------------------------------------------------------------------------------- what a run starts from


def sft(seed: int) -> Run:
    """The policy after SFT of a seed: loaded, or trained and saved."""
    folder = KEPT / str(seed) / "sft"
    if not folder.exists():
        part = folder.with_name(f"sft.{time.time_ns()}")
        train("sft", data=World(), seed=seed, progress=False).save(part)
        with contextlib.suppress(OSError):  # another process was first
            part.rename(folder)
    return load(folder)


def judge(
    seed: int, pooling: str, *, pairs: int = 3000, width: int = 64, held_out: bool = False
) -> RewardModel:
    """A reward model of a seed, on the common scale: loaded, or trained and saved.

    It learns from pairs by the usual policy, whatever its width. Of one seed all learn from the same pairs,
    or from the first of them; only the held-out judge has others.
    """
    path = KEPT / str(seed) / f"{'held_out_' * held_out}{pooling}_{pairs}_{width}.pt"
    if not path.exists():
        base = sft(seed)
        reward_model = standardized(_learned(seed, base, pooling, pairs, width, held_out), base, seed)
        part = path.with_suffix(f".{time.time_ns()}")
        torch.save(reward_model, part)
        part.replace(path)
    found: RewardModel = torch.load(path, weights_only=False)
    return found


def _learned(seed: int, base: Run, pooling: str, pairs: int, width: int, held_out: bool) -> RewardModel:
    """A reward model, trained as `train("reward")` does."""
    body = base.model
    if width != USUAL["width"]:
        body = train("sft", data=World(), width=width, seed=seed, progress=False).model
    purpose = "held-out judge's pairs" if held_out else "judge's pairs"
    learned = pairs_of(base, max(pairs, USUAL["pairs"]), seed, purpose).select(slice(pairs))
    task = Task(copy.deepcopy(body).requires_grad_(True), base.tokenizer, learned)
    settings = RewardModelling.settings_class(pooling=pooling, eval_pairs=0)
    learner = RewardModelling(task, settings, seed=stream(seed, purpose))
    for number in range(settings.updates):
        learner.set_lr(number)
        learner.step(number)
    return learner.model.eval().requires_grad_(False)


def pairs_of(base: Run, n: int, seed: int, purpose: str, **how: object) -> Pairs:
    """Pairs by a policy, as `train("reward")` samples them."""
    generator = torch.Generator().manual_seed(stream(seed, f"{purpose} tokens"))
    return sample_pairs(base.model, World(), n, seed=stream(seed, purpose), generator=generator, **how)


@torch.no_grad()
def standardized(reward_model: RewardModel, base: Run, seed: int) -> RewardModel:
    """The reward model, its rewards of mean 0 and standard deviation 1 over completions of the base."""
    completions = evaluate(base, World(), n=2048, seed=20_000 + seed).completions
    rewards = pooled_rewards(reward_model, completions)
    reward_model.scale = rewards.std().item()
    reward_model.output.weight /= reward_model.scale  # the head has no bias
    reward_model.zero.copy_(rewards.mean() / reward_model.scale)
    return reward_model


def learner_of(
    stage: str | type[Stage], base: Run, seed: int, data: object = None, **settings: object
) -> Stage:
    """A learner that starts from the base; `reward` among the settings is its reward model."""
    kind = stage if isinstance(stage, type) else STAGES.find(stage)
    given = Task(
        base, data=World() if data is None else data, tokenizer=None, reward=settings.pop("reward", None)
    )
    made = kind.settings_class.make(kind.algorithm, settings, {})
    return kind(open_task(kind, given, "cpu", seed), made, seed=seed)


# ------------------------------------------------------------------------------------------------- measures


@torch.no_grad()
def looked_at(
    policy: torch.nn.Module, base: Run, proxy: RewardModel, held_out: RewardModel, seed: int, n: int = 256
) -> dict[str, float]:
    """Measure n fresh completions of a policy, the same number for each prompt.

    Returns
    -------
    dict of float
        kl, to the base, exact in each state; proxy, held_out and gold; what each part of gold adds to it, in
        points, noun … truncated, whose sum gold is; kind_words, their number; length, in tokens; ended, the
        share with an end of sequence; entropy, of a token, in nats; distinct_2, the share of distinct
        bigrams. All but the last are means over completions, or over tokens.
    """
    world = World()
    found = evaluate(policy, world, reference=base, n=n, seed=10_000 + seed)
    completions, numbers = found.completions, found.numbers
    entropy = token_entropy(completion_logits(policy, completions))
    return {
        "kl": numbers["kl_reference"],
        "proxy": rewards_of(proxy, completions).mean().item(),
        "held_out": rewards_of(held_out, completions).mean().item(),
        "gold": numbers["gold"],
        **{name: x.mean().item() for name, x in points_of(world, completions).items()},
        "kind_words": world.gold_parts(completions)["kind"].mean().item(),
        "length": numbers["length"],
        "ended": numbers["ended"],
        "entropy": entropy[completions.mask].mean().item(),
        "distinct_2": numbers["distinct_2"],
    }


def rewards_of(reward_model: RewardModel, completions: Completions) -> torch.Tensor:
    """The reward of each completion, [B], on the common scale."""
    return pooled_rewards(reward_model, completions) - reward_model.zero


def points_of(world: World, completions: Completions) -> dict[str, torch.Tensor]:
    """Return what each part of gold adds to it, [B] each; their sum is gold."""
    parts = world.gold_parts(completions)
    return {
        **{name: points * parts[name] for name, points in POINTS.items()},
        "kind": parts["kind"].clamp(max=3) - 0.5 * (parts["kind"] - 3).clamp(min=0),
        "errors": -0.5 * parts["errors"].clamp(max=3),
    }


def followed(
    learner: Stage,
    look: Callable[[torch.nn.Module], dict[str, float]],
    *,
    looks: int,
    updates: float = float("inf"),
    tokens: float = float("inf"),
    averaged: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Train until so many updates or tokens are spent; look before the first update, and `looks` times more.

    `cpu` in a row are the CPU seconds of training so far, without the looks; `averaged` are names of metrics
    of an update, of which a row has the mean since the last look.
    """
    number, spent, cpu, progress = 0, 0, 0.0, 0.0
    rows = [{"update": 0, "tokens": 0, "cpu": 0.0, **dict.fromkeys(averaged), **look(learner.model)}]
    seen: list[dict[str, Any]] = []
    while progress < 1:
        began = time.process_time()
        learner.set_lr(number)
        seen.append(learner.step(number))
        spent += seen[-1]["tokens"]
        number += 1
        cpu += time.process_time() - began
        progress = max(number / updates, spent / tokens)
        if progress >= len(rows) / looks:
            mean = {name: sum(x.get(name, math.nan) for x in seen) / len(seen) for name in averaged}
            rows.append({"update": number, "tokens": spent, "cpu": cpu, **mean, **look(learner.model)})
            seen = []
    return rows


# ------------------------------------------------------------------------------------------------- summaries


def at_kl(runs: pd.DataFrame, by: list[str], levels: Iterable[float], columns: list[str]) -> pd.DataFrame:
    """Columns of each run where its KL first reaches a level, interpolated between two looks.

    A run that never reaches a level has no row there; `by` tells runs apart, the seed among it.
    """
    rows = []
    for key, run in runs.groupby(by, sort=False, dropna=False):
        kl = run["kl"].to_numpy()
        for level in levels:
            reached = np.flatnonzero(kl >= level)
            if len(reached) and (i := reached[0]):
                part = (level - kl[i - 1]) / (kl[i] - kl[i - 1])
                between = (1 - part) * run[columns].iloc[i - 1] + part * run[columns].iloc[i]
                rows.append({**dict(zip(by, key, strict=True)), "at_kl": level, **between})
    return pd.DataFrame(rows, columns=[*by, "at_kl", *columns])


def summed_up(name: str, by: list[str], columns: list[str], table: pd.DataFrame | None = None) -> None:
    """Print means over seeds, with their 95 % intervals: of a record, or of what was made from one."""
    print(f"{name}: mean over seeds (95 % interval)")
    for key, some in (results(name) if table is None else table).groupby(by, sort=False):
        shown = [
            f"{column} {_with_interval(some[column])}" for column in columns if some[column].notna().all()
        ]
        print("  ", *key, f" {some['seed'].nunique()} seeds", ", ".join(shown))


def ends(name: str, by: list[str]) -> pd.DataFrame:
    """The last row of each run of a record."""
    return results(name).groupby([*by, "seed"], sort=False).tail(1)


def _with_interval(numbers: Iterable[float]) -> str:
    if len(numbers := list(numbers)) < 2:
        return f"{numbers[0]:.3g}"
    mean, low, high = aggregate(numbers)
    return f"{mean:.3g} ({low:.3g} to {high:.3g})"
