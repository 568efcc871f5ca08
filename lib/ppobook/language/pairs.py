"""The base of the stages that learn from pairs: the reward model and DPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch

from ppobook.language.data import pairs_of, take_rows, train_eval_split
from ppobook.language.generation import generate
from ppobook.language.model import LanguageModel
from ppobook.language.stage import Stage
from ppobook.language.tokens import Completions, Pairs
from ppobook.language.world import World
from ppobook.run.machine import stream

# Completions per forward pass without gradient.
EVAL_BATCH_SIZE = 500


class PairStage(Stage):
    """The base of the stages that learn from pairs: your own, or sampled from the initial model in a World.

    Attributes
    ----------
    pairs : Pairs
        The training data.
    held_out : Pairs or None
        The evaluation split.
    sampled : SampledPairs or None
        Both together, if they were sampled in a World.
    """

    state_attributes = (*Stage.state_attributes, "sampled")
    sampled: SampledPairs | None = None
    pairs: Pairs
    held_out: Pairs | None = None

    def open_pairs(self, model: LanguageModel | None, context: int, eval_pairs: int) -> None:
        """Read the pairs of the data, or sample them in a World from a model.

        None in place of the model: a run is resumed, and the sampled pairs are in its checkpoint.
        """
        s, data = self.settings, self.task.data
        if self.task.world is None:
            if not isinstance(data, Pairs):
                data = pairs_of(data, self.tokenizer, max_length=context)
            self.split(*train_eval_split(data, eval_pairs, self.seed))
            return
        self.sampled = SampledPairs(None)
        if model is not None:
            self.sampled.pairs = sample_pairs(
                model,
                self.task.world,
                s.pairs + eval_pairs,
                temperatures=s.temperatures,
                noise=s.noise,
                seed=stream(self.seed, "preferences"),
                generator=self.generator,
                micro_batch_size=s.micro_batch_size,
            )
            self.split_sampled(self.sampled.pairs)

    def split_sampled(self, sampled: Pairs) -> None:
        number = self.settings.pairs
        held_out = sampled.select(slice(number, None)) if len(sampled) > number else None
        self.split(sampled.select(slice(None, number)), held_out)

    def split(self, pairs: Pairs, held_out: Pairs | None) -> None:
        """Keep the pairs to train on, and the held-out ones."""
        self.pairs, self.held_out = pairs, held_out

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.sampled is not None and self.sampled.pairs is not None:
            self.split_sampled(self.sampled.pairs)

    def rows_of_data(self) -> int:
        return len(self.pairs)


class SampledPairs:
    """Pairs as a part of checkpoints: the model that generated them changes."""

    def __init__(self, pairs: Pairs | None) -> None:
        self.pairs = pairs

    def state_dict(self) -> dict[str, Any]:
        if self.pairs is None:
            return {}
        sides = {"chosen": self.pairs.chosen, "rejected": self.pairs.rejected}
        return {name: {f.name: getattr(x, f.name) for f in fields(x)} for name, x in sides.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            self.pairs = Pairs(*(Completions(**state[name]) for name in ("chosen", "rejected")))


def sample_pairs(
    model: LanguageModel,
    world: World,
    n: int,
    *,
    temperatures: Sequence[float] = (1.0, 1.5),
    noise: float = 0.5,
    seed: int = 0,
    generator: torch.Generator,
    micro_batch_size: int | None = None,
) -> Pairs:
    """Two completions each of randomly drawn prompts, and the World's preference between them; on the CPU.

    Parameters
    ----------
    model : LanguageModel
    world : World
        Its prompts, and its preferences (`World.prefer`, with `noise` and `seed`).
    n : int
    temperatures : two floats above 0
        Of the first and the second completion. If they differ, so do the completions of a pair, more.
    generator : torch.Generator
        For prompts and tokens; on the model's device.
    micro_batch_size : int, optional
        Completions generated at a time; the result does not depend on it.
    """
    device = generator.device
    prompts, mask = (x.to(device) for x in world.prompt_tokens())
    first: list[Completions] = []
    second: list[Completions] = []
    for k in range(0, n, EVAL_BATCH_SIZE):
        rows = torch.randint(len(prompts), (min(EVAL_BATCH_SIZE, n - k),), generator=generator, device=device)
        for part, temperature in zip((first, second), temperatures, strict=True):
            part.append(
                generate(
                    model,
                    prompts[rows],
                    mask[rows],
                    world.max_new_tokens,
                    temperature=temperature,
                    generator=generator,
                    at_once=micro_batch_size,
                )
            )
    pairs = world.prefer(Completions.join(first), Completions.join(second), noise=noise, seed=seed)
    return take_rows(pairs, torch.arange(n))
