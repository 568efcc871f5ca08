"""Sampling completions from a language model, with a cache of keys and values."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ppobook.language.model import LanguageModel
from ppobook.language.tokens import Completions, check_padding


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompts: Tensor,
    prompt_mask: Tensor | None,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    numbers: Tensor | None = None,
    at_once: int | None = None,
) -> Completions:
    """Sample a completion of each prompt, until all have ended or the limit is reached.

        p = softmax(logits / temperature)
        keep the top_k most probable tokens; of these, the fewest whose total probability reaches top_p
        sample one, in proportion to p

    The random numbers, one for each row and each of the `max_new_tokens` columns, are drawn before the first
    token, so that what one row samples, or when it ends, does not change the others.

    Parameters
    ----------
    model : LanguageModel
    prompts : int64, shape (B, P)
        Padded on the left, as by `left_pad`.
    prompt_mask : bool, shape (B, P), or None
        False at padding. None: there is none.
    max_new_tokens : int
        Prompt and completion together must fit in the model's context.
    temperature : float of at least 0
        0 is greedy: always the most probable token, without a generator.
    top_k : int of at least 1, optional
    top_p : float above 0 and at most 1, optional
    generator : torch.Generator, optional
        On the model's device. Default: torch's global one.
    numbers : float64, shape (B, max_new_tokens), optional
        The random numbers, in [0, 1), in place of a generator.
    at_once : int, optional
        How many rows are generated side by side. Default: all.

    Returns
    -------
    Completions
        `logp` is the log-probability at `temperature` *before* top_k and top_p, since that is the policy that
        ratios compare with. For a greedy completion it is that at temperature 1.

    Raises
    ------
    ValueError
        An empty prompt, padding that is not on the left, a prompt without room for the new tokens.
    FloatingPointError
        Logits that are NaN or infinite.

    References
    ----------
    Fan, Lewis and Dauphin 2018, "Hierarchical neural story generation", for top_k. Holtzman et al. 2020, "The
    curious case of neural text degeneration", section 3.1, for top_p.
    """
    if prompt_mask is None:
        prompt_mask = torch.ones_like(prompts, dtype=torch.bool)
    check_padding("prompt_mask", prompt_mask, left=True)
    prompts = prompts.masked_fill(~prompt_mask, model.pad)
    longest = int(prompt_mask.sum(dim=1).max())
    if longest + max_new_tokens > model.context:
        raise ValueError(
            f"prompts and max_new_tokens must have at most context = {model.context} tokens a row together, "
            f"got {longest} and max_new_tokens = {max_new_tokens}"
        )
    rows = len(prompts)
    at_once = rows if at_once is None else at_once
    if numbers is None and temperature == 0:
        numbers = torch.empty(rows, 0)
    elif numbers is None:
        shape, device = (rows, max_new_tokens), prompts.device
        numbers = torch.rand(shape, generator=generator, dtype=torch.float64, device=device)
    parts = zip(prompts.split(at_once), prompt_mask.split(at_once), numbers.split(at_once), strict=True)
    return Completions.join(
        [sample(model, *part, max_new_tokens, temperature, top_k, top_p) for part in parts]
    )


def sample(
    model: LanguageModel,
    prompts: Tensor,
    prompt_mask: Tensor,
    numbers: Tensor,
    max_new_tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
) -> Completions:
    """The loop of `generate`, without its checks, for rows that are generated side by side."""
    tokens, mask, logp = [], [], []
    alive = torch.ones(len(prompts), dtype=torch.bool, device=prompts.device)
    end_tokens = getattr(model, "end_tokens", [model.eos])  # some pretrained models have several
    logits, cache = model.start_cache(prompts, prompt_mask, max_new_tokens - 1)
    for t in range(max_new_tokens):
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_probs = (logits / (temperature or 1.0)).log_softmax(dim=-1)
        if temperature > 0:
            token = draw(restrict(log_probs, top_k, top_p), numbers[:, t])
        else:
            token = log_probs.argmax(dim=-1)
        tokens.append(token)
        mask.append(alive)
        logp.append(log_probs.gather(-1, token[:, None]))
        for end in end_tokens:
            alive = alive & (token != end)
        if t + 1 == max_new_tokens or not alive.any():
            break
        logits = model.step(token, cache)

    real = torch.stack(mask, dim=1)
    each_logp = torch.cat(logp, dim=1).masked_fill_(~real, 0.0)
    if not math.isfinite(each_logp.sum().item()):
        raise FloatingPointError("the model's logits must be finite, got NaN or infinity")
    completed = torch.stack(tokens, dim=1).masked_fill_(~real, model.pad)
    return Completions(prompts, prompt_mask, completed, real, each_logp, ended=~alive)


def restrict(logits: Tensor, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """Logits [..., V], with −∞ at all tokens outside top_k and top_p.

    The `top_k` largest are kept; of these, the most probable ones until their total probability, among those
    kept, reaches `top_p`. At least one is kept.
    """
    top_p = None if top_p == 1 else top_p
    top_k = None if top_k is None or top_k >= logits.shape[-1] else top_k
    if top_k is None and top_p is None:
        return logits
    ranked, order = logits.sort(descending=True) if top_k is None else logits.topk(top_k)
    if top_p is not None:
        p = ranked.softmax(dim=-1)
        ranked = ranked.masked_fill(p.cumsum(dim=-1) - p >= top_p, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, order, ranked)


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """Sample a token a row by inverting the cumulative distribution at a number in [0, 1).

    Logits [B, V] and numbers [B] to ids [B]. A token of probability 0 is never sampled.
    """
    edges = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    token = torch.searchsorted(edges, uniform[:, None] * edges[:, -1:], right=True)
    # Only NaN leads past the last edge.
    return token.squeeze(-1).clamp_(max=logits.shape[-1] - 1)
