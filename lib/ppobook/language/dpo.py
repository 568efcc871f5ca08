"""DPO and its family: from preferences straight to a policy, with no reward model and no sampling.

    log π_ref of every completion in the data, once
    repeat
        draw a batch of pairs: a prompt x, y_w that was chosen, y_l that was not
        h = log π_θ(y_w | x) / π_ref(y_w | x) − log π_θ(y_l | x) / π_ref(y_l | x)
        step down the mean of                    − log σ(β h)              DPO
                                                 (h − 1 / (2 β))²          IPO

The optimum of E_π[r] − β KL(π, π_ref) is π* ∝ π_ref exp(r / β). Turned round, β log π*/π_ref is a reward, up
to a number for each prompt that no preference sees. So a policy is a reward model, and is fitted as one:
put the log-ratio in the place of r in Bradley and Terry's loss. KTO has no pairs: each completion was liked,
or was not. SimPO has no reference: a completion's mean log-probability is its reward.

Nothing is sampled. What the policy would say now is never looked at, so pairs far from it are learned from as
if they were its own; `ppobook.language.online` samples them anew.

Rafailov et al. 2023, "Direct preference optimization: your language model is secretly a reward model",
equation 7. The losses of the others, with their papers: `ppobook.preferences`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ppobook.language.data import Batches, labelled_of, pairs_of, refuse_unless_apart
from ppobook.language.model import LanguageModel
from ppobook.language.reward import AT_ONCE, SampledPairs, sample_pairs
from ppobook.language.settings import BETA, DPOSettings
from ppobook.language.stage import Stage, Task
from ppobook.language.stored import take_rows, train_eval_split
from ppobook.language.tokens import Completions, Pairs, completion_logits, token_logp
from ppobook.preferences import dpo_loss, ipo_loss, kto_loss, simpo_loss
from ppobook.run.machine import stream


class DPO(Stage):
    """Direct preference optimization, or one of its family.

    **Sums and means.** DPO, IPO and KTO compare log-probabilities of whole completions, sums over their
    tokens, the end among them; SimPO compares means. The prompt's tokens are read, and count for nothing.

    **The reference** is read once, before the first update, and not kept: its log-probabilities are.

    **KTO's reference point** is the mean log-ratio of completions below prompts that are not theirs
    (`mismatched`), over the batch. TRL's are the completions one row before, as the batch lies; here those
    further on in the data.

    Attributes
    ----------
    pairs : Pairs
        What is learned. For kto: both sides are the completions, the chosen with their own prompts and the
        rejected with those of others.
    held_out : Pairs or None
        What is not; never with kto.
    desirable : [N] bool, or None
        For kto.
    ref_logp : [N, 2], or None for simpo
        log π_ref of both sides of each pair, held-out ones last.
    """

    algorithm = "dpo"
    settings_class = DPOSettings
    state_attributes = (*Stage.state_attributes, "ref_logp", "sampled")
    wants_reference = True

    settings: DPOSettings
    ref_logp: Tensor | None = None
    sampled: SampledPairs | None = None
    desirable: Tensor | None = None
    held_out: Pairs | None = None

    def __init__(self, task: Task, settings: DPOSettings, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(replace(task, reference=None), settings, seed=seed, device=device)
        self.beta = BETA[settings.loss] if settings.beta is None else settings.beta
        # A run that is resumed has no reference any more; what was read of it is in the checkpoint.
        resumed = task.reference is None
        if task.world is None:
            self._read(task.data)
        elif resumed:
            self.sampled = SampledPairs(None)
        else:
            held_out = 0 if settings.loss == "kto" else settings.eval_pairs
            sampled = sample_pairs(
                self.model,
                task.world,
                settings.pairs + held_out,
                temperatures=settings.temperatures,
                noise=settings.noise,
                seed=stream(seed, "preferences"),
                generator=self.generator,
                at_once=settings.micro_batch_size,
            )
            self.sampled = SampledPairs(sampled)
            self._take(sampled)
        if settings.loss != "simpo" and not resumed:
            every = [self.pairs] if self.held_out is None else [self.pairs, self.held_out]
            at_once = self.micro_batch(AT_ONCE)
            self.ref_logp = torch.cat([pair_logp(task.reference, pairs, at_once) for pairs in every])

    def _read(self, data: Any) -> None:
        """The user's own preferences."""
        if self.settings.loss == "kto" and not isinstance(data, Pairs):
            completions, self.desirable = labelled_of(data, self.tokenizer, max_length=self.model.context)
            self.pairs = mismatched(completions)
            if self.desirable.all() or not self.desirable.any():
                raise ValueError(
                    f"data has no label that is {not self.desirable[0]}; some of both are wanted"
                )
            return
        pairs = data
        if not isinstance(data, Pairs):
            pairs = pairs_of(data, self.tokenizer, max_length=self.model.context)
        refuse_unless_apart(pairs)
        if self.settings.loss == "kto":
            self._unpair(pairs)
        else:
            self.pairs, self.held_out = train_eval_split(pairs, self.settings.eval_pairs, self.seed)

    def _take(self, sampled: Pairs) -> None:
        """A World's preferences: some to learn, some held out."""
        number = self.settings.pairs
        if self.settings.loss == "kto":
            self._unpair(sampled)
            return
        self.pairs = sampled.select(slice(None, number))
        self.held_out = sampled.select(slice(number, None)) if len(sampled) > number else None

    def _unpair(self, pairs: Pairs) -> None:
        """Pairs as single completions: the chosen were liked, the rejected were not."""
        self.pairs = mismatched(Completions.join([pairs.chosen, pairs.rejected]))
        self.desirable = torch.arange(2 * len(pairs)) < len(pairs)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.sampled is not None and self.sampled.pairs is not None:
            self._take(self.sampled.pairs)

    def step(self, number: int) -> dict[str, Any]:
        """Learn from a batch.

        Returns
        -------
        dict
            loss; accuracy, margin, chosen_reward, rejected_reward, chosen_logp and rejected_logp, as
            `ppobook.preferences` has them; grad_norm; tokens; and every `eval_every` updates eval_loss,
            eval_accuracy and eval_margin, on what was held out, after the update.
        """
        rows = Batches(len(self.pairs), self.settings.batch_size, self.seed).rows(number)
        batch = take_rows(self.pairs, rows, self.device)
        kl = self.mismatched_ratios(batch, rows) if self.settings.loss == "kto" else None
        row: dict[str, Any] = self.learn(
            rows,
            part=lambda some: _Part(take_rows(self.pairs, some, self.device), some),
            read=lambda part: self.read(part.pairs),
            loss=lambda part, said: self.loss(part.pairs, part.rows, said, kl),
        )
        if self.held_out is not None and (number + 1) % self.settings.eval_every == 0:
            row |= self._on_held_out(self.held_out)
        learned = [batch.chosen] if self.settings.loss == "kto" else [batch.chosen, batch.rejected]
        return row | {"tokens": sum(int(side.mask.sum()) for side in learned)}

    def read(self, pairs: Pairs) -> dict[str, Tensor]:
        """log π(y | x) of the completions that are learned from, [B], with a gradient."""
        if self.settings.loss == "kto":
            return {"chosen": sequence_logp(self.model, pairs.chosen)}
        both = sequence_logp(self.model, Completions.join([pairs.chosen, pairs.rejected]))
        return dict(zip(("chosen", "rejected"), both.chunk(2), strict=True))

    def loss(
        self,
        pairs: Pairs,
        rows: Tensor,
        said: dict[str, Tensor] | None = None,
        kl: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What a step on these pairs should make small; `rows` says where `ref_logp` has theirs.

        `said` is what `read` says of them, if it is known; `kl`, for kto, `mismatched_ratios` of all the
        batch that they are a part of.
        """
        s = self.settings
        said = self.read(pairs) if said is None else said
        if s.loss == "kto":
            assert self.desirable is not None
            return kto_loss(
                said["chosen"],
                self._reference_of(rows)[0],
                self.desirable[rows].to(self.device),
                self.mismatched_ratios(pairs, rows) if kl is None else kl,
                self.beta,
                desirable_weight=s.desirable_weight,
                undesirable_weight=s.undesirable_weight,
            )
        chosen, rejected = said["chosen"], said["rejected"]
        if s.loss == "simpo":
            lengths = pairs.chosen.lengths, pairs.rejected.lengths
            return simpo_loss(chosen, rejected, *lengths, self.beta, s.gamma)
        ref_chosen, ref_rejected = self._reference_of(rows)
        if s.loss == "ipo":
            return ipo_loss(chosen, rejected, ref_chosen, ref_rejected, self.beta)
        return dpo_loss(
            chosen, rejected, ref_chosen, ref_rejected, self.beta, label_smoothing=s.label_smoothing
        )

    def mismatched_ratios(self, pairs: Pairs, rows: Tensor) -> Tensor:
        """For kto: the log-ratios, [B], of completions that are not their prompts'."""
        logp = self.map_batches(lambda some: sequence_logp(self.model, some), pairs.rejected)
        return logp - self._reference_of(rows)[1]

    def _reference_of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """log π_ref of both sides of some pairs, [B] each."""
        assert self.ref_logp is not None
        chosen, rejected = self.ref_logp[rows.to(self.ref_logp.device)].to(self.device).unbind(1)
        return chosen, rejected

    @torch.no_grad()
    def _on_held_out(self, held_out: Pairs) -> dict[str, float]:
        """Means over all pairs that were held out."""
        total = {"loss": 0.0, "accuracy": 0.0, "margin": 0.0}
        for rows in torch.arange(len(held_out)).split(self.micro_batch(AT_ONCE)):
            loss, told = self.loss(take_rows(held_out, rows, self.device), rows + len(self.pairs))
            for name in total:
                total[name] += len(rows) * float(loss if name == "loss" else told[name])
        return {f"eval_{name}": x / len(held_out) for name, x in total.items()}


@dataclass
class _Part:
    """Some pairs, and where they stand."""

    pairs: Pairs
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)


def sequence_logp(model: LanguageModel, completions: Completions) -> Tensor:
    """log π(y | x) of each completion: the sum over its tokens, the end among them, [B], with a gradient."""
    logits = completion_logits(model, completions)
    return token_logp(logits, completions.tokens, mask=completions.mask).sum(dim=1)


@torch.no_grad()
def pair_logp(model: LanguageModel, pairs: Pairs, at_once: int = AT_ONCE) -> Tensor:
    """log π of both sides of any number of pairs, [N, 2], without a gradient, on the CPU."""
    device = str(next(model.parameters()).device)  # type: ignore[attr-defined]
    sides = []
    for side in (pairs.chosen, pairs.rejected):
        parts = torch.arange(len(side)).split(at_once)
        sides.append(torch.cat([sequence_logp(model, take_rows(side, rows, device)).cpu() for rows in parts]))
    return torch.stack(sides, dim=1)


def mismatched(completions: Completions) -> Pairs:
    """Each completion with its own prompt, and that prompt with a completion of another one.

    The other one stands n rows further on, where n is the most rows that one prompt has side by side: all
    that was said to a prompt often stands together. By chance, or where there is one prompt only, it may be
    a completion of the same prompt after all.

    Raises
    ------
    ValueError
        A single completion.
    """
    c = completions
    if len(c) == 1:
        raise ValueError("data has a single completion; at least two are wanted, for KTO to compare")
    same = (c.prompts.where(c.prompt_mask, -1).diff(dim=0) == 0).all(dim=1)
    ends = torch.cat([(~same).nonzero()[:, 0], torch.tensor([len(c) - 1])])
    shift = int(ends.diff(prepend=torch.tensor([-1])).max())
    order = (torch.arange(len(c)) + (shift if shift < len(c) else 1)) % len(c)
    other = Completions(
        c.prompts, c.prompt_mask, c.tokens[order], c.mask[order], torch.zeros_like(c.logp), c.ended[order]
    )
    return Pairs(c, other)
