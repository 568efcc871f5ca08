"""Chapter 7, the clinic on tokens: runs of PPO in the tiny language, each a line or two away from healthy.

Whoever wants to diagnose them should not read on: the faults stand below, case by case.

Rewards are on the common scale of `language_chain/shared.py`. Each row is an update: of its 64 completions,
and of its first gradient step.
"""

import copy
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch.nn.functional import pad

from ppobook.experiments import record
from ppobook.language.generation import generate
from ppobook.language.ppo import PPO
from ppobook.language.tokens import (
    Completions,
    completion_logits,
    completion_values,
    token_entropy,
    token_logp,
)

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import judge, learner_of, sft

UPDATES = 30


class Healthy(PPO):
    """PPO as it is, with gauges."""

    sampled = {}  # noqa: RUF012 - how completions are sampled

    def generate(self, model, prompts, temperature):
        how = {"temperature": temperature, "generator": self.generator, **self.sampled}
        return generate(model, prompts.tokens, prompts.mask, self.max_new_tokens, **how)

    def make_experience(self, number):
        self.gauges, self.cells = {}, []
        experience, metrics = super().make_experience(number)
        completions = experience.completions
        with torch.no_grad():
            logits = completion_logits(self.model, completions)
        self.gauges["entropy"] = token_entropy(logits)[completions.mask].mean().item()
        self.gauges["surprise"] = -completions.logp[completions.mask].mean().item()
        return experience, metrics

    def loss(self, batch, outputs=None):
        outputs = self.forward(batch) if outputs is None else outputs
        completions, mask = batch.completions, batch.completions.mask
        if len(self.cells) < self.settings.num_minibatches:  # in the first epoch
            self.cells.append(mask.sum(1).float().mean().item())
        if "off" not in self.gauges:  # before the first gradient step
            off = ((outputs["logp"] - completions.logp).detach().exp() - 1).abs()
            self.gauges["off"] = off[mask].mean().item()
            self.gauges["off_first"] = off[:, 0].mean().item()
        return super().loss(batch, outputs)

    def step(self, number):
        metrics = super().step(number) | self.gauges
        return metrics | {"cells": sum(self.cells) / len(self.cells)}


class Colder(Healthy):
    """The sampler's temperature is 0.7, and so are its log-probabilities; the trainer has 1."""

    sampled = {"temperature": 0.7}  # noqa: RUF012


class Nucleus(Healthy):
    """The sampler keeps the most probable words only, up to 80 %; the log-probabilities are of all words."""

    sampled = {"top_p": 0.8}  # noqa: RUF012


class WithoutEnd(Healthy):
    """The mask of the loss ends one token too early."""

    def make_experience(self, number):
        experience, metrics = super().make_experience(number)
        completions = copy.copy(experience.completions)
        shorter = completions.mask & ~completions.terminated
        object.__setattr__(completions, "mask", shorter | (torch.arange(shorter.shape[1]) == 0))
        return replace(experience, completions=completions), metrics


class PromptToo(Healthy):
    """The mask of the loss begins with the prompt: its words get the advantage of the text's first one."""

    def make_experience(self, number):
        experience, metrics = super().make_experience(number)
        c = experience.completions
        start = 1  # the prompt's second word
        wider = Completions(
            c.prompts[:, :start],
            c.prompt_mask[:, :start],
            torch.cat([c.prompts[:, start:], c.tokens], dim=1),
            torch.cat([c.prompt_mask[:, start:], c.mask], dim=1),
            pad(c.logp, (3, 0)),
            c.ended,
        )
        with torch.no_grad():
            logp = token_logp(completion_logits(self.model, wider), wider.tokens, mask=wider.mask)
            values = completion_values(self.critic, wider)[:, :-1]

        def widened(x):
            return torch.cat([x[:, :1].expand(-1, 3), x], dim=1)

        return replace(
            experience,
            completions=replace(wider, logp=logp),
            ref_logp=pad(experience.ref_logp, (3, 0)),
            advantages=widened(experience.advantages),
            returns=widened(experience.returns),
            values=values,
        ), metrics


class Late(Healthy):
    """The trainer reads a word's logits in the column of the word itself."""

    def forward(self, batch):
        c = batch.completions
        logits = self.model(c.inputs, c.input_mask)[:, c.prompts.shape[1] :]
        logp = token_logp(logits, c.tokens, self.settings.temperature, mask=c.mask)
        return super().forward(batch) | {"logp": logp}


class Exchanged(Healthy):
    """The penalty of a token is β (log π_ref − log π_old)."""

    def token_rewards(self, completions, rewards, ref_logp):
        return super().token_rewards(replace(completions, logp=ref_logp), rewards, completions.logp)


class NoEnd(Healthy):
    """The sampler has another id for the end of sequence than the tokenizer."""

    def generate(self, model, prompts, temperature):
        right, model.eos = model.eos, model.pad
        try:
            return super().generate(model, prompts, temperature)
        finally:
            model.eos = right


class Unpriced(Healthy):
    """The healthy stage unchanged; with a β of 0 this is a case."""


CASES = {
    "healthy": (Healthy, {}),
    "A": (NoEnd, {}),
    "B": (PromptToo, {}),
    "C": (Colder, {}),
    "D": (Late, {}),
    "E": (Exchanged, {}),
    "F": (WithoutEnd, {}),
    "G": (Unpriced, {"kl_coef": 0.0}),
    "H": (Nucleus, {}),
}
SETTINGS = [{"case": case} for case in CASES]
KEPT = ["reward", "kl_reference", "length", "ended", "entropy", "surprise", "cells", "off", "off_first"]
KEPT += ["approx_kl", "clip_fraction"]


def one(seed: int, case: str) -> list[dict]:
    kind, own = CASES[case]
    base, proxy = sft(seed), judge(seed, "sum")
    learner = learner_of(kind, base, seed, reward=proxy, **{"kl_coef": 0.3, "updates": UPDATES, **own})
    rows = []
    for number in range(UPDATES):
        learner.set_lr(number)
        seen = learner.step(number)
        rows.append({"update": number + 1} | {name: seen[name] for name in KEPT})
    return rows


if __name__ == "__main__":
    record(
        "language_clinic",
        one,
        SETTINGS,
        seeds=range(100, 103),
        workers=1,
        digits=4,
        note="A fault a case. β and the number of updates were fixed on seed 0. Three seeds, because each "
        "run is shown, and nothing is compared by an interval.",
    )
