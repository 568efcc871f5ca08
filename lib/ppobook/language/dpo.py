"""DPO and its family: from preferences directly to a policy, without a reward model and without sampling.

    compute log π_ref of every completion in the data, once
    repeat
        draw a batch of pairs: a prompt x, the chosen completion y_w, the rejected one y_l
        h = log π_θ(y_w | x) / π_ref(y_w | x) − log π_θ(y_l | x) / π_ref(y_l | x)
        descend the mean of                      − log σ(β h)              DPO
                                                 (h − 1 / (2 β))²          IPO

The optimum of E_π[r] − β KL(π, π_ref) is π* ∝ π_ref exp(r / β). Solved for r, the reward of a policy is
β log π/π_ref, up to a constant per prompt that no preference depends on. So a policy is fitted like a reward
model. KTO has single completions, desirable or undesirable, in place of pairs. SimPO has no reference: a
completion's mean log-probability is its reward.

Rafailov et al. 2023, "Direct preference optimization: your language model is secretly a reward model",
equation 7. The other losses, with their papers: `ppobook.preferences`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ppobook.language.data import labelled_of, take_rows
from ppobook.language.model import LanguageModel
from ppobook.language.pairs import EVAL_BATCH_SIZE, PairStage
from ppobook.language.settings import BETA, DPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, Pairs, completion_logits, token_logp
from ppobook.language.world import World
from ppobook.preferences import dpo_loss, ipo_loss, kto_loss, simpo_loss


@dataclass
class Batch:
    """Some pairs, their row numbers in the data, [B], and log π_ref of both sides, [B, 2] (None for
    simpo)."""

    pairs: Pairs
    rows: Tensor
    ref_logp: Any

    def __len__(self) -> int:
        return len(self.rows)


class DPO(PairStage):
    """Direct preference optimization, or one of its family. Options: `DPOSettings`.

    **Sums and means.** DPO, IPO and KTO compare log-probabilities of whole completions, sums over their
    tokens including the end of sequence; SimPO compares means.

    **KTO's reference point** is the mean log-ratio over the batch of completions paired with prompts of other
    completions (`mismatched`). TRL pairs each prompt with the completion of the row before, within the batch;
    here it is that of a row further on in the data.

    Attributes
    ----------
    pairs : Pairs
        The training data. For kto both sides are the completions: the chosen ones with their own prompts, the
        rejected ones with those of others.
    held_out : Pairs or None
        The evaluation split; None for kto.
    desirable : [N] bool, or None
        For kto.
    ref_logp : [N, 2], or None for simpo
        log π_ref of both sides of each pair, the held-out ones last. The reference itself is not kept.
    """

    algorithm = "dpo"
    settings_class = DPOSettings
    state_attributes = (*PairStage.state_attributes, "ref_logp")
    wants_reference = True

    settings: DPOSettings
    ref_logp: Any = None
    desirable: Any = None

    def __init__(self, task: Task, settings: DPOSettings, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(replace(task, reference=None), settings, seed=seed, device=device)
        self.beta = BETA[settings.loss] if settings.beta is None else settings.beta
        # A resumed run has no reference; its log-probabilities are in the checkpoint.
        resumed, context, kto = task.reference is None, self.model.context, settings.loss == "kto"
        if kto and not isinstance(task.data, World | Pairs):
            completions, self.desirable = labelled_of(task.data, self.tokenizer, max_length=context)
            self.pairs = mismatched(completions)
        else:
            self.open_pairs(None if resumed else self.model, context, 0 if kto else settings.eval_pairs)
        if settings.loss != "simpo" and not resumed:
            splits = [self.pairs] if self.held_out is None else [self.pairs, self.held_out]
            rows = self.micro_batch(EVAL_BATCH_SIZE)
            self.ref_logp = torch.cat([pair_logp(task.reference, pairs, rows) for pairs in splits])

    def split(self, pairs: Pairs, held_out: Pairs | None) -> None:
        """Keep the pairs; for kto as single completions, of which the chosen ones are desirable."""
        if self.settings.loss == "kto":
            self.desirable = torch.arange(2 * len(pairs)) < len(pairs)
            pairs = mismatched(Completions.join([pairs.chosen, pairs.rejected]))
        super().split(pairs, held_out)

    def step(self, number: int) -> dict[str, Any]:
        """One gradient step on a batch.

        Returns
        -------
        dict
            loss; accuracy, margin, chosen_reward, rejected_reward, chosen_logp and rejected_logp as defined
            in `ppobook.preferences`; grad_norm; tokens; and every `eval_every` updates eval_loss,
            eval_accuracy and eval_margin on the held-out pairs, after the step.
        """
        rows = self.batch_rows(number)
        batch = self.batch(self.pairs, rows)
        kl = self.reference_point(batch) if self.settings.loss == "kto" else None
        metrics = self.learn(  # forward, loss, gradient step
            rows,
            select=lambda rows: self.batch(self.pairs, rows),
            loss=lambda batch, outputs: self.loss(batch, outputs, kl),
        )
        if self.held_out is not None and (number + 1) % self.settings.eval_every == 0:
            metrics |= self.evaluate(self.held_out)
        tokens = int(batch.pairs.chosen.mask.sum())
        if self.settings.loss != "kto":
            tokens += int(batch.pairs.rejected.mask.sum())
        return metrics | {"tokens": tokens}

    def batch(self, pairs: Pairs, rows: Tensor, offset: int = 0) -> Batch:
        """Some rows of the data; `ref_logp` has those of held-out pairs after an offset."""
        ref_logp = None
        if self.ref_logp is not None:
            ref_logp = self.ref_logp[(rows + offset).to(self.ref_logp.device)].to(self.device)
        return Batch(take_rows(pairs, rows, self.device), rows, ref_logp)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """log π_θ(y | x) of the completions, [B] each, with gradient; for kto of the chosen side only."""
        pairs = batch.pairs
        if self.settings.loss == "kto":
            return {"chosen": sequence_logp(self.model, pairs.chosen)}
        both = Completions.join([pairs.chosen, pairs.rejected])
        chosen, rejected = sequence_logp(self.model, both).chunk(2)
        return {"chosen": chosen, "rejected": rejected}

    def loss(
        self, batch: Batch, outputs: dict[str, Tensor] | None = None, kl: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the family, and metrics.

        `kl`, for kto, are the log-ratios of the whole batch that this one is a part of (`reference_point`).
        """
        s, beta = self.settings, self.beta
        outputs = self.forward(batch) if outputs is None else outputs
        if s.loss == "simpo":  # − log σ(β (log π_θ(y_w) / |y_w| − log π_θ(y_l) / |y_l|) − κ)
            lengths = batch.pairs.chosen.lengths, batch.pairs.rejected.lengths
            return simpo_loss(outputs["chosen"], outputs["rejected"], *lengths, beta, s.gamma)

        ref_chosen, ref_rejected = batch.ref_logp.unbind(1)
        if s.loss == "kto":  # each completion against the reference point
            return kto_loss(
                outputs["chosen"],
                ref_chosen,
                self.desirable[batch.rows].to(self.device),
                self.reference_point(batch) if kl is None else kl,
                beta,
                desirable_weight=s.desirable_weight,
                undesirable_weight=s.undesirable_weight,
            )
        logp = outputs["chosen"], outputs["rejected"], ref_chosen, ref_rejected
        if s.loss == "ipo":  # (h − 1 / (2 β))²
            return ipo_loss(*logp, beta)
        return dpo_loss(*logp, beta, label_smoothing=s.label_smoothing)  # − log σ(β h)

    def reference_point(self, batch: Batch) -> Tensor:
        """For kto: the log-ratios, [B], of completions with the prompts of others, without gradient."""
        logp = self.map_batches(lambda some: sequence_logp(self.model, some), batch.pairs.rejected)
        return logp - batch.ref_logp[:, 1]

    @torch.no_grad()
    def evaluate(self, held_out: Pairs) -> dict[str, float]:
        """Means over all held-out pairs."""
        total = {"eval_loss": 0.0, "eval_accuracy": 0.0, "eval_margin": 0.0}
        for rows in torch.arange(len(held_out)).split(self.micro_batch(EVAL_BATCH_SIZE)):
            loss, metrics = self.loss(self.batch(held_out, rows, offset=len(self.pairs)))
            total["eval_loss"] += len(rows) * float(loss)
            total["eval_accuracy"] += len(rows) * float(metrics["accuracy"])
            total["eval_margin"] += len(rows) * float(metrics["margin"])
        return {name: x / len(held_out) for name, x in total.items()}


def sequence_logp(model: LanguageModel, completions: Completions) -> Tensor:
    """log π(y | x), [B], with gradient: the sum over a completion's tokens, end of sequence included."""
    logits = completion_logits(model, completions)
    return token_logp(logits, completions.tokens, mask=completions.mask).sum(dim=1)


@torch.no_grad()
def pair_logp(model: LanguageModel, pairs: Pairs, batch_size: int = EVAL_BATCH_SIZE) -> Tensor:
    """log π of both sides of pairs, [N, 2], without gradient, on the CPU."""
    device = str(next(model.parameters()).device)  # type: ignore[attr-defined]
    sides = []
    for side in (pairs.chosen, pairs.rejected):
        parts = torch.arange(len(side)).split(batch_size)
        sides.append(torch.cat([sequence_logp(model, take_rows(side, rows, device)).cpu() for rows in parts]))
    return torch.stack(sides, dim=1)


def mismatched(completions: Completions) -> Pairs:
    """Each completion with its own prompt (chosen), and that prompt with another completion (rejected).

    The other completion is the one n rows further on, where n is the largest number of consecutive rows that
    share a prompt. By chance, or if there is only one prompt, it may be a completion of the same prompt.
    """
    c = completions
    same = (c.prompts.where(c.prompt_mask, -1).diff(dim=0) == 0).all(dim=1)
    ends = torch.cat([(~same).nonzero()[:, 0], torch.tensor([len(c) - 1])])
    shift = int(ends.diff(prepend=torch.tensor([-1])).max())
    order = (torch.arange(len(c)) + (shift if shift < len(c) else 1)) % len(c)
    other = Completions(
        c.prompts, c.prompt_mask, c.tokens[order], c.mask[order], torch.zeros_like(c.logp), c.ended[order]
    )
    return Pairs(c, other)
