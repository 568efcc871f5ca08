"""A sampler that lags behind the policy: GRPO at staleness 0 to 16, with the ratio to the sampler or without.

The completions of an update are by the policy as it was `lag` updates ago. Three losses (`LaggedGRPO`):

    corrected        the clip's ratio is to the sampler
    not corrected    it is to the policy at the start of the update, as if that had sampled
    both             that too, and each token's advantage times the ratio to the sampler, up to MAX_WEIGHT

With lag 0 all three are GRPO. The reward is gold itself, a rule that can be checked, and β is 0: so nothing
but the lag is in play, neither a reward model's errors nor a penalty that would hold the policy back. With
lag k the first k updates are on completions of the policy after SFT, whatever the loss.

Rows: fresh completions of the policy after so many updates, and means over the updates since the row before:
`lag_kl`, KL(sampler, policy at the start of the update) a token; `ess`, the effective share of tokens, and
`ess_texts`, of completions, with the ratio of all their tokens; clip_fraction, flat_fraction, dead_groups.

The learning rate was chosen on seeds 0 to 2, at lag 0; the seeds here are fresh, and all are reported.
"""

import sys
from pathlib import Path

import torch

from ppobook.diagnostics import effective_sample_size
from ppobook.experiments import record
from ppobook.language import Completions, World, evaluate, token_entropy
from ppobook.language.online import LaggedGRPO
from ppobook.language.tokens import completion_logits

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, ends, learner_of, sft, summed_up

UPDATES, LOOKS = 40, 5
LR = 1e-3
MAX_WEIGHT = 2.0
HOW = {
    "corrected": {},
    "not corrected": {"corrected": False},
    "both": {"corrected": False, "max_weight": MAX_WEIGHT},
}
SETTINGS = [
    {"lag": 0, "loss": "corrected", "lr": LR},
    *({"lag": lag, "loss": loss, "lr": LR} for lag in (1, 2, 4, 8, 16) for loss in HOW),
]
LOGGED = ("lag_kl", "clip_fraction", "flat_fraction", "dead_groups", "ess", "ess_texts")


class Measured(LaggedGRPO):
    """A lagging sampler, with the effective share of its tokens and of its completions."""

    def compute_logp(self, model: torch.nn.Module, completions: Completions) -> torch.Tensor:
        logp = super().compute_logp(model, completions)
        if model is self.model:
            gap = torch.where(completions.mask, logp - completions.logp, 0.0)
            tokens = gap[completions.mask]
            self.ess = {
                "ess": effective_sample_size(tokens) / len(tokens),
                "ess_texts": effective_sample_size(gap.sum(dim=1)) / len(gap),
            }
        return logp

    def step(self, number: int) -> dict[str, float]:
        return super().step(number) | self.ess


def one(seed: int, lag: int, loss: str, lr: float) -> list[dict]:
    how = HOW[loss] if lag else {}
    learner = learner_of(Measured, sft(seed), seed, reward="gold", kl_coef=0.0, lr=lr, lag=lag, **how)
    rows, logged = [], []
    for number in range(UPDATES + 1):
        if number % (UPDATES // LOOKS) == 0:
            means = {name: sum(float(x[name]) for x in logged) / len(logged) for name in LOGGED if logged}
            rows.append({"update": number, **looked(learner.model, seed), **means})
            logged = []
        if number < UPDATES:
            learner.set_lr(number)
            logged.append(learner.step(number))
    return rows


@torch.no_grad()
def looked(policy: torch.nn.Module, seed: int, n: int = 256) -> dict[str, float]:
    """Measure n fresh completions of a policy, the same number for each prompt."""
    found = evaluate(policy, World(), reference=sft(seed), n=n, seed=10_000 + seed)
    entropy = token_entropy(completion_logits(policy, found.completions))
    return {
        "gold": found.numbers["gold"],
        "kl": found.numbers["kl_reference"],
        "length": found.numbers["length"],
        "ended": found.numbers["ended"],
        "entropy": entropy[found.completions.mask].mean().item(),
    }


if __name__ == "__main__":
    name, settings = "language_lag", ["lag", "loss"]
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        workers=1,
        digits=4,
        note="The learning rate chosen on seeds 0 to 2, at lag 0; every seed reported.",
    )
    summed_up(name, settings, ["gold", "kl", "ended", *LOGGED], ends(name, settings))
