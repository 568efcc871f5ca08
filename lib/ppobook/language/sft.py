"""Supervised fine-tuning: maximum likelihood of completions, token by token.

    repeat
        draw a batch of examples: prompts x and completions y with an end of sequence
        descend the mean over the completions' tokens of − log π_θ(y_t | x, y_<t)

The prompt is masked in the loss; in text without a prompt all tokens count. All tokens have the same weight.
The loss is in nats per token; its exponential is the perplexity.

Radford et al. 2018, "Improving language understanding by generative pre-training", equation 1, on completions
only. As the first of the three steps of RLHF: Ouyang et al. 2022, "Training language models to follow
instructions with human feedback", section 3.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from ppobook.language.data import examples_of, take_rows, train_eval_split
from ppobook.language.model import Decoder, DecoderConfig, LanguageModel
from ppobook.language.settings import SFTSettings
from ppobook.language.stage import Stage, Task
from ppobook.language.tokens import Completions, completion_logits
from ppobook.language.world import World
from ppobook.objectives import masked_mean
from ppobook.run.machine import stream


class SFT(Stage):
    """Supervised fine-tuning. Options: `SFTSettings`.

    Its data are `examples` to train on, and `held_out` ones or None.
    """

    algorithm = "sft"
    settings_class = SFTSettings
    starts_from_scratch = True

    def __init__(self, task: Task, settings: Any, *, seed: int = 0, device: str = "cpu") -> None:
        if task.model is None:
            task = replace(task, model=new_decoder(task.data, settings, seed).to(device))
        super().__init__(task, settings, seed=seed, device=device)
        self.examples, self.held_out = self._examples()

    def _examples(self) -> tuple[Completions, Completions | None]:
        world, number = self.task.world, self.settings.eval_examples
        if world is None:
            examples = examples_of(self.task.data, self.tokenizer, max_length=self.model.context)
            return train_eval_split(examples, number, self.seed)
        corpus = world.corpus(self.settings.examples, stream(self.seed, "corpus"))
        held_out = world.corpus(number, stream(self.seed, "held out")) if number else []
        return (
            examples_of(corpus, self.tokenizer),
            examples_of(held_out, self.tokenizer) if held_out else None,
        )

    def rows_of_data(self) -> int:
        return len(self.examples)

    def step(self, number: int) -> dict[str, Any]:
        """One gradient step on a batch.

        Returns
        -------
        dict
            loss, in nats per token; accuracy, the share of tokens that have the largest probability;
            grad_norm; tokens; and every `eval_every` updates eval_loss and eval_accuracy on the held-out
            examples, after the step.
        """
        rows = self.batch_rows(number)
        batch = take_rows(self.examples, rows, self.device)
        # forward, loss, gradient step
        metrics = self.learn(rows, select=lambda rows: take_rows(self.examples, rows, self.device))
        if self.held_out is not None and (number + 1) % self.settings.eval_every == 0:
            metrics |= self.evaluate(self.held_out)
        return metrics | {"tokens": int(batch.mask.sum())}

    def forward(self, batch: Completions) -> dict[str, Tensor]:
        """− log π_θ of each token, with gradient, and whether it is the most probable one, [B, T]."""
        return next_token_losses(self.model, batch)

    def loss(self, batch: Completions, outputs: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean over all tokens of the completions, and metrics."""
        loss, accuracy = (masked_mean(outputs[name], mask=batch.mask) for name in ("loss", "correct"))
        return loss, {"accuracy": accuracy}

    def loss_weight(self, batch: Completions) -> int:
        return int(batch.mask.sum())

    @torch.no_grad()
    def evaluate(self, held_out: Completions) -> dict[str, float]:
        """Means over all held-out tokens."""
        total = torch.zeros(3, dtype=torch.float64)
        for rows in torch.arange(len(held_out)).split(self.micro_batch(self.settings.batch_size)):
            batch = take_rows(held_out, rows, self.device)
            n = int(batch.mask.sum())
            loss, accuracy = next_token_loss(self.model, batch)
            total += torch.tensor([n * loss.item(), n * accuracy.item(), n], dtype=torch.float64)
        return {"eval_loss": float(total[0] / total[2]), "eval_accuracy": float(total[1] / total[2])}


def next_token_loss(model: LanguageModel, completions: Completions) -> tuple[Tensor, Tensor]:
    """The cross entropy of a model on the tokens of the completions, and its accuracy.

        L = − Σ_b Σ_t m_bt log π(y_bt | x_b, y_b,<t)  /  Σ_b Σ_t m_bt

    Returns
    -------
    loss : tensor, scalar
        In nats per token, at least float32, with gradient.
    accuracy : tensor, scalar
        The share of tokens that are the most probable ones. Detached.
    """
    outputs = next_token_losses(model, completions)
    loss, accuracy = (masked_mean(x, mask=completions.mask) for x in outputs.values())
    return loss, accuracy


def next_token_losses(model: LanguageModel, completions: Completions) -> dict[str, Tensor]:
    """Return each token's loss, with gradient, and whether it is correct, 1 or 0; [B, T], 0 at padding."""
    logits = completion_logits(model, completions)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    targets = completions.tokens.masked_fill(~completions.mask, -100)  # ignored by cross_entropy
    # cross_entropy makes fewer copies of [B, T, V] than log_softmax and gather.
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    correct = logits.detach().argmax(dim=-1) == targets
    return {"loss": losses.view_as(targets), "correct": correct.to(logits.dtype)}


def new_decoder(world: World, settings: Any, seed: int) -> Decoder:
    """A decoder for the vocabulary of a World, with random weights."""
    tokenizer = world.tokenizer
    longest = world.prompt_tokens()[0].shape[1] + world.max_new_tokens
    config = DecoderConfig(
        vocab_size=tokenizer.vocab_size,
        context=settings.context or longest,
        layers=settings.layers,
        width=settings.width,
        heads=settings.heads,
        eos=tokenizer.eos,
        pad=tokenizer.pad,
    )
    return Decoder(config, seed=stream(seed, "weights"))
