"""Evaluation of a policy: true reward, proxy reward, KL, length, diversity, and its texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ppobook.divergences import kl_categorical
from ppobook.language.data import prompts_of
from ppobook.language.generation import generate
from ppobook.language.model import LanguageModel
from ppobook.language.on_policy import default_max_new_tokens
from ppobook.language.opening import (
    check_same_words,
    open_model,
    open_reference,
    open_reward_model,
    run_given,
)
from ppobook.language.rewards import FunctionReward, LearnedReward, Reward
from ppobook.language.run import Run
from ppobook.language.tokens import Completions, Tokenizer, completion_logits
from ppobook.language.world import World
from ppobook.run.machine import float32_on_cpu

# Completions generated at a time.
EVAL_BATCH_SIZE = 512


@dataclass(repr=False)
class Evaluation:
    """The result of `evaluate`. Printed, it shows its numbers.

    Attributes
    ----------
    numbers : dict of float
        gold, reward, kl_reference: if there are a world, a reward model, a reference. length, in tokens;
        ended, the share of completions with an end of sequence; distinct_1 and distinct_2, the shares of
        distinct unigrams and bigrams.
    completions : Completions
    prompts, texts : lists of str
    gold, reward : tensors of shape (B,), or None
    """

    numbers: dict[str, float]
    completions: Completions
    prompts: list[str]
    texts: list[str]
    gold: Tensor | None
    reward: Tensor | None

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{name}={x:.4g}' for name, x in self.numbers.items())})"

    def line(self, i: int) -> str:
        """A prompt and its completion in one line, with its rewards."""
        known = {"gold": self.gold, "reward": self.reward}
        rewards = ", ".join(f"{name} {float(x[i]):.2f}" for name, x in known.items() if x is not None)
        end = "" if self.completions.ended[i] else " …"
        return f"{self.prompts[i]} {self.texts[i]}{end}" + (f"   ({rewards})" if rewards else "")

    def samples(self, n: int = 5) -> str:
        """The first completion of each of n prompts, one per line, with its rewards."""
        first: dict[str, int] = {}
        for i, prompt in enumerate(self.prompts):
            first.setdefault(prompt, i)
        return "\n".join(self.line(i) for i in list(first.values())[:n])


@float32_on_cpu()
def evaluate(
    policy: Any,
    data: Any = None,
    *,
    reward_model: Any = None,
    reference: Any = None,
    n: int = 512,
    max_new_tokens: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    tokenizer: Tokenizer | None = None,
) -> Evaluation:
    """Sample completions from a policy, and evaluate them.

    Parameters
    ----------
    policy : Run, path, LanguageModel or transformers model
        A path is the folder of a run or of a transformers model, here and below. A transformers model in
        memory is copied.
    data : World or data with prompts, optional
        Default: the world of the run.
    reward_model : Run, path, RewardModel, transformers model or function, optional
        For the proxy reward: a reward model, or a reward function of texts (`ppobook.language.rewards`).
    reference : as policy, optional
        For kl_reference: the mean over completions of Σ_t KL(π, π_ref) of the next token, exact in each
        visited state. Its expectation is KL(π, π_ref), and its variance is less than that of log-ratios. Both
        models are read at `temperature`; top_k and top_p are ignored.
    n : int
        Number of completions. Prompts are used in turn.
    max_new_tokens : int, optional
        Default: the world's; else 64, or what the context leaves after the longest prompt.
    temperature, top_k, top_p
        As for `ppobook.language.generation.generate`.
    tokenizer : optional
        For a model that is not a run. Default: the one in a transformers model's folder.
    """
    run = run_given("policy", policy)
    if data is None and run is not None:
        data = run.world
    if data is None:
        raise ValueError("data must be a World, or data with prompts, got None")
    world = data if isinstance(data, World) else None
    if tokenizer is None and world is not None and isinstance(policy, torch.nn.Module):
        tokenizer = world.tokenizer
    model, tokenizer = open_model(run or policy, tokenizer)
    if world is not None:
        check_same_words("data", world.tokenizer, tokenizer)
    score = None if reward_model is None else _score(reward_model, tokenizer, _device(model))
    base = None if reference is None else open_reference(reference, tokenizer).to(_device(model))
    prompts = prompts_of(data, tokenizer)
    if max_new_tokens is None:
        models = model, getattr(score, "module", None), base
        max_new_tokens = default_max_new_tokens(prompts, models) if world is None else world.max_new_tokens
    rows, device = torch.arange(n) % len(prompts), _device(model)
    generator = torch.Generator(device).manual_seed(seed)
    settings: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "generator": generator,
    }
    batches = [prompts.select(batch) for batch in rows.split(EVAL_BATCH_SIZE)]
    inputs = [(batch.tokens.to(device), batch.mask.to(device)) for batch in batches]
    parts = [generate(model, *each, max_new_tokens, **settings) for each in inputs]
    completions = Completions.join(parts)

    numbers: dict[str, float] = {}
    gold = reward = None
    if world is not None:
        gold = world.gold(completions).cpu()
        numbers["gold"] = gold.mean().item()
    if score is not None:
        scored = [score(part, batch.columns).cpu() for part, batch in zip(parts, batches, strict=True)]
        reward = torch.cat(scored)
        numbers["reward"] = reward.mean().item()
    if base is not None:
        numbers["kl_reference"] = (
            torch.cat([sequence_kl(model, base, part, temperature or 1.0) for part in parts]).mean().item()
        )
    numbers["length"] = completions.lengths.float().mean().item()
    numbers["ended"] = completions.ended.float().mean().item()
    numbers |= {f"distinct_{k}": distinct(completions, k) for k in (1, 2)}
    prompt_texts, texts = completions.prompt_texts(tokenizer), completions.texts(tokenizer)
    return Evaluation(numbers, completions, prompt_texts, texts, gold, reward)


def compare(policies: Mapping[str, Any], data: Any = None, **options: Any) -> pd.DataFrame:
    """Evaluate several policies on the same prompts: one row each.

    Parameters
    ----------
    policies : mapping of names to what `evaluate` takes
    data, **options
        As for `evaluate`, the same for all policies.

    Raises
    ------
    ValueError
        Policies of different worlds without `data`.
    """
    policies = {name: run_given(f"policies[{name!r}]", p) or p for name, p in policies.items()}
    worlds = [p.world.config for p in policies.values() if isinstance(p, Run) and p.world is not None]
    if data is None and any(world != worlds[0] for world in worlds):
        raise ValueError("data must be given for policies that were trained on different worlds, got None")
    return pd.DataFrame({name: evaluate(p, data, **options).numbers for name, p in policies.items()}).T


@torch.no_grad()
def sequence_kl(
    model: LanguageModel, reference: LanguageModel, completions: Completions, temperature: float = 1.0
) -> Tensor:
    """KL(π, π_ref) of the next token, summed over the states of each completion, [B].

    Its mean over completions sampled from π is KL(π, π_ref) of whole completions, by the chain rule.
    """
    logits, ref_logits = (completion_logits(m, completions).float() / temperature for m in (model, reference))
    kl = kl_categorical(logits, ref_logits)
    return torch.where(completions.mask, kl, 0.0).sum(dim=1)


def distinct(completions: Completions, n: int) -> float:
    """The share of distinct n-grams among all n-grams of the completions; 1 if none is repeated.

    Li et al. 2016, "A diversity-promoting objective function for neural conversation models", who divide by
    the number of words. It decreases with the amount of text, so compare equal numbers of tokens.
    """
    seen: set[tuple[int, ...]] = set()
    number = 0
    for row, length in zip(completions.tokens.tolist(), completions.lengths.tolist(), strict=True):
        ngrams = [tuple(row[i : i + n]) for i in range(length - n + 1)]
        seen.update(ngrams)
        number += len(ngrams)
    return len(seen) / number if number else float("nan")


def _score(reward_model: Any, tokenizer: Any, device: torch.device) -> Reward:
    if callable(reward_model) and not isinstance(reward_model, torch.nn.Module):
        return FunctionReward(reward_model, tokenizer)
    return LearnedReward(open_reward_model("reward_model", reward_model, tokenizer).to(device))


def _device(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device
