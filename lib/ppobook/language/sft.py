"""Supervised fine-tuning: make what people wrote more likely, one token after the other.

    repeat
        draw a batch of examples: prompts x and completions y, each y with its end
        step down the mean over the completions' tokens of − log π_θ(y_t | x, y_<t)

**The prompt is masked out**: it is read, and not learned. A model that is asked has no need to ask, and a
prompt that stands above many examples would otherwise count once in each. Text without a prompt is learned
whole.

**Each token weighs the same**, so a long completion weighs more than a short one. The loss is in nats a
token; e to its power is the perplexity.

The objective is that of Radford et al. 2018, "Improving language understanding by generative pre-training",
equation 1, of completions only. As the first of three steps to a policy that people like: Ouyang et al. 2022,
"Training language models to follow instructions with human feedback", section 3.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from ppobook.language.data import Batches, examples_of
from ppobook.language.model import Decoder, DecoderConfig, LanguageModel
from ppobook.language.settings import SFTSettings
from ppobook.language.stage import Stage, Task
from ppobook.language.stored import take_rows, train_eval_split
from ppobook.language.tokens import Completions, completion_logits
from ppobook.language.world import World
from ppobook.objectives import masked_mean
from ppobook.run.machine import stream


class SFT(Stage):
    """Supervised fine-tuning.

    Attributes
    ----------
    examples : Completions
        What is learned.
    held_out : Completions or None
        What is not.
    """

    algorithm = "sft"
    settings_class = SFTSettings
    starts_from_scratch = True

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        if task.model is None:
            task = replace(task, model=fresh_decoder(task.world, settings, seed).to(device))
        super().__init__(task, settings, seed=seed, device=device)
        self.examples, self.held_out = self._examples()
        self.batches = Batches(len(self.examples), settings.batch_size, seed)

    def _examples(self) -> tuple[Completions, Completions | None]:
        world, wanted = self.task.world, self.settings.eval_examples
        if world is None:
            every = examples_of(self.task.data, self.tokenizer, max_length=self.model.context)
            return train_eval_split(every, wanted, self.seed)
        corpus = world.corpus(self.settings.examples, stream(self.seed, "corpus"))
        further = world.corpus(wanted, stream(self.seed, "held out")) if wanted else []
        return (
            examples_of(corpus, self.tokenizer),
            examples_of(further, self.tokenizer) if further else None,
        )

    def step(self, number: int) -> dict[str, Any]:
        """Learn from a batch.

        Returns
        -------
        dict
            loss, in nats a token; accuracy, the share of tokens that were thought the most probable;
            grad_norm; tokens; and every `eval_every` updates eval_loss and eval_accuracy, on what was held
            out, after the update.
        """
        rows = self.batches.rows(number)
        batch = take_rows(self.examples, rows, self.device)
        row: dict[str, Any] = self.learn(
            rows,
            part=lambda some: take_rows(self.examples, some, self.device),
            read=lambda part: next_token_losses(self.model, part),
            loss=lambda part, said: (
                masked_mean(said["loss"], mask=part.mask),
                {"accuracy": masked_mean(said["right"], mask=part.mask)},
            ),
            weight=lambda part: part.mask.sum(),
        )
        if self.held_out is not None and (number + 1) % self.settings.eval_every == 0:
            row |= self._on_held_out(self.held_out)
        return row | {"tokens": int(batch.mask.sum())}

    @torch.no_grad()
    def _on_held_out(self, held_out: Completions) -> dict[str, float]:
        """Means over all tokens that were held out, whichever batch they are in."""
        total = torch.zeros(3, dtype=torch.float64)
        for rows in torch.arange(len(held_out)).split(self.micro_batch(self.settings.batch_size)):
            batch = take_rows(held_out, rows, self.device)
            n = int(batch.mask.sum())
            loss, right = next_token_loss(self.model, batch)
            total += torch.tensor([n * loss.item(), n * right.item(), n], dtype=torch.float64)
        return {"eval_loss": float(total[0] / total[2]), "eval_accuracy": float(total[1] / total[2])}


def next_token_loss(model: LanguageModel, completions: Completions) -> tuple[Tensor, Tensor]:
    """How surprised a model is by each token of the completions, on average.

        L = − Σ_b Σ_t m_bt log π(y_bt | x_b, y_b,<t)  /  Σ_b Σ_t m_bt

    Parameters
    ----------
    model : LanguageModel
    completions : Completions
        `logp` and `ended` are not read. What stands at padding changes nothing.

    Returns
    -------
    loss : tensor, scalar
        In nats a token, float32 or wider, with a gradient.
    accuracy : tensor, scalar
        The share of tokens that are the model's most probable one there. Detached.
    """
    each = next_token_losses(model, completions)
    loss, right = (masked_mean(x, mask=completions.mask) for x in each.values())
    return loss, right


def next_token_losses(model: LanguageModel, completions: Completions) -> dict[str, Tensor]:
    """The same of each token, two tensors [B, T]: its loss, with a gradient, and right, 1 or 0.

    0 at padding.
    """
    logits = completion_logits(model, completions)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    targets = completions.tokens.masked_fill(~completions.mask, -100)  # which cross_entropy passes over
    # In one kernel. Of a table [B, T, V] of a large vocabulary, each copy more is felt.
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    right = logits.detach().argmax(dim=-1) == targets
    return {"loss": losses.view_as(targets), "right": right.to(logits.dtype)}


def fresh_decoder(world: World | None, settings: Any, seed: int) -> Decoder:
    """A decoder for the words of a world, with first weights of the seed."""
    assert world is not None  # open_task sees to it
    tokenizer = world.tokenizer
    longest = world.prompt_tokens()[0].shape[1] + world.max_new_tokens
    context = settings.context or longest
    if context < longest:
        raise ValueError(
            f"context is {context}, and a World's prompt and max_new_tokens are {longest} tokens together; "
            "at least that is wanted"
        )
    config = DecoderConfig(
        vocab_size=tokenizer.vocab_size,
        context=context,
        layers=settings.layers,
        width=settings.width,
        heads=settings.heads,
        eos=tokenizer.eos,
        pad=tokenizer.pad,
    )
    return Decoder(config, seed=stream(seed, "weights"))
