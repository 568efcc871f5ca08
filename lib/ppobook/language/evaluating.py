"""What a policy says, and what that is worth: gold, proxy, KL, length, ends, variety, and the text itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ppobook import validation
from ppobook.divergences import kl_categorical
from ppobook.language.data import Prompts, prompts_of
from ppobook.language.model import LanguageModel, generate
from ppobook.language.rewards import FunctionReward, LearnedReward, Reward, RewardModel
from ppobook.language.run import Run, load
from ppobook.language.sampling import default_max_new_tokens
from ppobook.language.tokens import Completions, Tokenizer, completion_logits
from ppobook.language.world import World

# Completions that are written at a time.
AT_ONCE = 512


@dataclass
class Evaluation:
    """A policy, looked at.

    Attributes
    ----------
    numbers : dict of float
        gold, reward, kl_reference: where there are a world, a reward model, a reference. length, in tokens; ended,
        the share of completions that ended of themselves; distinct_1 and distinct_2, different words and
        pairs of words among all that were written.
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

    def samples(self, n: int = 5) -> str:
        """The first completion of each of n prompts, as lines to read."""
        n = validation.count("n", n)
        seen: dict[str, int] = {}
        for i, prompt in enumerate(self.prompts):
            seen.setdefault(prompt, i)
        lines = []
        for prompt, i in list(seen.items())[:n]:
            worth = [f"{name} {float(x[i]):.2f}" for name, x in self._known().items()]
            end = "" if self.completions.ended[i] else " …"
            lines.append(f"{prompt} {self.texts[i]}{end}" + (f"   ({', '.join(worth)})" if worth else ""))
        return "\n".join(lines)

    def _known(self) -> dict[str, Tensor]:
        pairs = {"gold": self.gold, "reward": self.reward}
        return {name: x for name, x in pairs.items() if x is not None}


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
    """Let a policy write, and look at it.

    Parameters
    ----------
    policy : Run, path, or LanguageModel
    data : World or data with prompts, optional
        Left out: the world of the run.
    reward_model : Run, path, RewardModel or function, optional
        A reward model, for the proxy; or a reward function of texts (`ppobook.language.rewards`).
    reference : Run, path or LanguageModel, optional
        What the KL is measured from. It is the mean over completions of Σ_t KL(π, π_ref) of the next token,
        exact in each state that was met: on average KL(π, π_ref), with less scatter than log-ratios have.
        Both are read at `temperature`; top_k and top_p are left out of account.
    n : int
        Completions. Prompts are taken in turn.
    max_new_tokens : int, optional
        Left out: the world's; else 64, or as many as have room after the longest prompt.
    temperature, top_k, top_p
        As for `ppobook.language.model.generate`.
    seed : int
        Of the tokens.
    tokenizer : optional
        For a model that is no run.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError, TypeError
        What cannot be used, with a sentence that says why.
    """
    run = _run("policy", policy)
    model: Any = policy if run is None else run.model
    if isinstance(model, RewardModel):
        raise ValueError("policy is a reward model; a language model is wanted")
    if data is None and run is not None:
        data = run.world
    if data is None:
        raise ValueError("data is None; a World, or data with prompts, is wanted")
    world = data if isinstance(data, World) else None
    tokenizer = tokenizer or (run.tokenizer if run is not None else world.tokenizer if world else None)
    if tokenizer is None:
        raise ValueError("tokenizer is None; with a model that is no run one is wanted")
    score = None if reward_model is None else _score(reward_model, tokenizer)
    reference_run = None if reference is None else _run("reference", reference)
    base: Any = reference if reference_run is None else reference_run.model
    prompts = prompts_of(data, tokenizer)
    if max_new_tokens is None:
        readers = {"policy": model, "reward_model": getattr(score, "module", None), "reference": base}
        max_new_tokens = default_max_new_tokens(prompts, readers) if world is None else world.max_new_tokens
    rows = torch.arange(validation.count("n", n)) % len(prompts)
    generator = torch.Generator(_device(model)).manual_seed(validation.count("seed", seed, low=0))
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
    asked = [prompts.select(some) for some in rows.split(AT_ONCE)]
    parts = [_written(model, some, max_new_tokens, settings) for some in asked]
    completions = Completions.join(parts)

    numbers: dict[str, float] = {}
    gold = reward = None
    if world is not None:
        gold = world.gold(completions).cpu()
        numbers["gold"] = gold.mean().item()
    if score is not None:
        scored = [score(part, some.columns).cpu() for part, some in zip(parts, asked, strict=True)]
        reward = torch.cat(scored)
        numbers["reward"] = reward.mean().item()
    if base is not None:
        numbers["kl_reference"] = (
            torch.cat([sequence_kl(model, base, part, temperature or 1.0) for part in parts]).mean().item()
        )
    numbers["length"] = completions.lengths.float().mean().item()
    numbers["ended"] = completions.ended.float().mean().item()
    texts = completions.texts(tokenizer)
    numbers |= {f"distinct_{k}": distinct(completions, k) for k in (1, 2)}
    return Evaluation(numbers, completions, completions.prompt_texts(tokenizer), texts, gold, reward)


def compare(policies: Mapping[str, Any], data: Any = None, **options: Any) -> pd.DataFrame:
    """`evaluate` several policies on the same prompts; a row each.

    Parameters
    ----------
    policies : mapping of names to what `evaluate` takes
    data, **options
        As for `evaluate`, the same for all of them.
    """
    if not isinstance(policies, Mapping):
        raise TypeError(
            f"policies is of type {type(policies).__name__}; a dict of names and policies is wanted"
        )
    if not policies:
        raise ValueError("policies is empty; at least one is wanted")
    return pd.DataFrame({name: evaluate(p, data, **options).numbers for name, p in policies.items()}).T


@torch.no_grad()
def sequence_kl(
    model: LanguageModel, reference: LanguageModel, completions: Completions, temperature: float = 1.0
) -> Tensor:
    """KL(π, π_ref) of the next token, summed over the states that each completion passed through, [B].

    Averaged over completions of the model's own, it is KL(π, π_ref) of whole completions, by the chain rule.
    """
    mine, other = (completion_logits(m, completions).float() / temperature for m in (model, reference))
    if mine.shape != other.shape:
        raise ValueError(
            f"reference has a vocabulary of {other.shape[-1]} tokens and the model one of {mine.shape[-1]}; "
            "the same is wanted"
        )
    each = kl_categorical(mine, other)
    return torch.where(completions.mask, each, 0.0).sum(dim=1)


def distinct(completions: Completions, n: int) -> float:
    """Different runs of n tokens among all runs of n that were written; 1 if none came twice.

    Li et al. 2016, "A diversity-promoting objective function for neural conversation models", there
    divided by the number of words. It falls as more is written, so compare equal amounts.
    """
    n = validation.count("n", n)
    seen: set[tuple[int, ...]] = set()
    number = 0
    for row, length in zip(completions.tokens.tolist(), completions.lengths.tolist(), strict=True):
        runs_of_n = [tuple(row[i : i + n]) for i in range(length - n + 1)]
        seen.update(runs_of_n)
        number += len(runs_of_n)
    return len(seen) / number if number else float("nan")


def _written(model: Any, prompts: Prompts, max_new_tokens: int, settings: dict[str, Any]) -> Completions:
    device = settings["generator"].device
    tokens, mask = prompts.tokens.to(device), prompts.mask.to(device)
    return generate(model, tokens, mask, max_new_tokens, **settings)


def _run(name: str, given: Any) -> Run | None:
    if isinstance(given, Run):
        return given
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        return load(given)
    if not isinstance(given, torch.nn.Module):
        raise TypeError(f"{name} is of type {type(given).__name__}; a run, its folder or a model is wanted")
    return None


def _score(reward_model: Any, tokenizer: Tokenizer) -> Reward:
    if callable(reward_model) and not isinstance(reward_model, torch.nn.Module):
        return FunctionReward(reward_model, tokenizer)
    run = _run("reward_model", reward_model)
    model = reward_model if run is None else run.model
    if not isinstance(model, RewardModel):
        raise ValueError("reward_model is a language model; a run of 'reward' is wanted")
    return LearnedReward(model)


def _device(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device
