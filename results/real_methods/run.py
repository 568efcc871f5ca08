"""One-digit sums by GRPO, by PPO with a critic, by best of n with SFT and by online DPO.

All sample 32 answers an update and begin with the same adapters; looks, seeds and held-out sums are those of
`results/real_sums`. PPO samples one answer of each prompt, the others eight. Best of n trains on the best of
eight answers if it is right; online DPO on the best and the worst of eight. No method but online DPO is held
near the original model: GRPO and PPO have a β of 0.

Best of n and online DPO take less time an update and run for more of them, so methods can be compared at
equal tokens and at equal CPU seconds. On seed 0, GRPO with the example's settings was slower than with these;
of the other methods one setting was tried.
"""

import sys
from pathlib import Path
from typing import Any

import torch

from ppobook.experiments import record
from ppobook.language import completion_logits, token_logp
from ppobook.language.data import take_rows
from ppobook.language.on_policy import Sampling
from ppobook.language.online import best_and_worst
from ppobook.language.settings import GRPOSettings
from ppobook.run.metrics import means

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from real_sums.run import curve


class BestOfN(Sampling):
    """SFT on the best of n completions of each prompt, if its reward is above 0."""

    algorithm = "best_of_n"
    settings_class = GRPOSettings

    def step(self, number: int) -> dict[str, Any]:
        s = self.settings
        prompts = self.draw_prompts(number, s.batch_size // s.group_size).repeat(s.group_size)
        completions = self.sample(prompts)
        rewards = self.score(completions, prompts.columns)
        best, _ = best_and_worst(rewards, s.group_size, generator=self.generator)
        kept = completions.select(best[rewards[best] > 0])
        metrics = {"tokens": int(completions.mask.sum()), "reward": rewards.mean().item(), "kept": len(kept)}
        steps = [self.minibatch_step(kept) for _ in range(s.epochs)] if len(kept) else []
        return metrics | (means(steps) if steps else {})

    def minibatch_step(self, minibatch: Any) -> dict[str, Any]:
        return self.learn(torch.arange(len(minibatch)), select=lambda rows: take_rows(minibatch, rows))

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        logits = completion_logits(self.model, batch)
        return {"logp": token_logp(logits, batch.tokens, self.settings.temperature, mask=batch.mask)}

    def loss(self, batch: Any, outputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, Any]]:
        return -outputs["logp"].sum() / batch.mask.sum(), {}

    def loss_weight(self, batch: Any) -> int:
        return int(batch.mask.sum())


BATCH = {"batch_size": 32}
METHODS: dict[str, tuple[Any, int, dict[str, Any]]] = {  # stage, updates, settings
    "best of n": (BestOfN, 40, {**BATCH, "group_size": 8, "epochs": 4, "lr": 2e-4}),
    "online DPO": ("online_dpo", 40, {**BATCH, "group_size": 8, "beta": 0.1, "lr": 5e-4}),
    "GRPO": ("grpo", 20, {**BATCH, "group_size": 8, "kl_coef": 0.0, "lr": 5e-4}),
    "PPO": ("ppo", 20, {**BATCH, "kl_coef": 0.0, "lr": 5e-4}),
}


def one(seed: int, method: str) -> list[dict]:
    stage, updates, settings = METHODS[method]
    return curve(seed, "one digit", stage, 16, updates, 5, **settings)


if __name__ == "__main__":
    record(
        "real_methods",
        one,
        [{"method": method} for method in METHODS],
        seeds=range(100, 105),
        workers=1,
        digits=4,
        note="Settings were tried on seed 0; every seed reported.",
    )
