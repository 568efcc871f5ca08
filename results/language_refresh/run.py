"""Does it help to refresh the reward model on the policy's own completions? Equal labels, equal steps.

PPO on the tiny language world, three times from the same policy and reward model (3,000 pairs, the last
token's value), with one β, too small to prevent over-optimisation:

    frozen       the reward model stays as it is
    at once      before the first update, PAIRS more labelled pairs, all by the policy after SFT
    refreshed    every `EVERY` updates, and before the first one, some more labelled pairs by the policy as it
                 is then; the reward model is trained on those of this run so far

The last two have equally many labelled pairs and gradient steps of the reward model. What differs is whose
completions the labels are about. After each training the rewards are put back on the common scale, of
standard deviation 1 on the policy after SFT (`language_chain/shared.py`), so that β is the same penalty all
along; before it, back to the scale of log-odds, which the loss assumes.

`order` is the reward model's accuracy among the policy's completions of that moment: of pairs of the same
prompt whose gold differs, the share that it ranks as gold does. `fresh_accuracy` is that on the new noisy
preferences, before it is trained on them; filled in where there are any since the row before.

β and EVERY were chosen on seeds 0 to 2; the seeds here are fresh, and all are reported.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ppobook.experiments import record, results
from ppobook.language import World, evaluate
from ppobook.language.online import IterativePPO
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import (
    FRESH,
    at_kl,
    ends,
    judge,
    learner_of,
    looked_at,
    rewards_of,
    sft,
    standardized,
    summed_up,
)

POOLING = "last"
UPDATES, LOOKS, LR = 60, 6, 3e-4
PAIRS, EVERY = 1500, 20
SETTINGS = [
    {"judge": how, "kl_coef": beta, "every": EVERY}
    for beta in (0.03, 0.1)
    for how in ("frozen", "at once", "refreshed")
]


class Refreshed(IterativePPO):
    """Iterative PPO whose rewards keep their scale, that on the policy after SFT."""

    base: Run

    def refresh(self, number: int) -> dict[str, Any]:
        with torch.no_grad():
            self.reward_model.output.weight *= self.reward_model.scale
        metrics = super().refresh(number)
        standardized(self.reward_model, self.base, self.seed)
        return metrics


def one(seed: int, judge: str, kl_coef: float, every: int) -> list[dict]:
    return curve(seed, judge, kl_coef, every, LOOKS)


def curve(seed: int, how: str, kl_coef: float, every: int, looks: int) -> list[dict]:
    base, proxy = sft(seed), judge(seed, POOLING)
    settings: dict[str, Any] = {"kl_coef": kl_coef, "lr": LR}
    if how == "frozen":
        learner = learner_of("ppo", base, seed, reward=proxy, **settings)
    else:
        times = len(range(0, UPDATES, every))
        if how == "refreshed":
            settings |= {"refresh_every": every, "pairs": PAIRS // times, "reward_model_epochs": 1}
        else:  # as many gradient steps: 1 + 2 + … parts of the pairs
            settings |= {"refresh_every": UPDATES, "pairs": PAIRS, "reward_model_epochs": (times + 1) // 2}
        learner = learner_of(Refreshed, base, seed, reward=proxy, **settings)
        learner.base = base
    proxy = learner.reward_model
    look = partial(looked_at, base=base, proxy=proxy, held_out=judge(seed, POOLING, held_out=True), seed=seed)
    rows = []
    met: dict[str, Any] = {}
    for number in range(UPDATES + 1):
        if number % (UPDATES // looks) == 0:
            row = {"update": number, **look(learner.model), "order": order(learner.model, proxy, seed)}
            rows.append(row | {name: met.get(name) for name in ("fresh_accuracy", "fresh_accuracy_after")})
            met = {}
        if number < UPDATES:
            learner.set_lr(number)
            met |= {name: x for name, x in learner.step(number).items() if "fresh" in name}
    return rows


@torch.no_grad()
def order(policy: torch.nn.Module, reward_model: RewardModel, seed: int, n: int = 256) -> float:
    """The reward model's accuracy on pairs of completions of a prompt by a policy; a tie counts half."""
    world = World()
    completions = evaluate(policy, world, n=n, seed=10_000 + seed).completions
    texts = completions.prompt_texts(world.tokenizer)
    same = torch.tensor([[a == b for b in texts] for a in texts]).triu(diagonal=1)
    gold, proxy = world.gold(completions), rewards_of(reward_model, completions)
    truth, said = ((x[:, None] - x[None, :])[same].sign() for x in (gold, proxy))
    return (0.5 + 0.5 * (truth * said))[truth != 0].mean().item()


if __name__ == "__main__":
    name, settings = "language_refresh", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        workers=1,
        digits=4,
        note="β and the times of refreshing chosen on seeds 0 to 2; every seed reported.",
    )
    columns = ["gold", "proxy", "held_out", "kl", "order", "kind_words", "length", "ended"]
    summed_up(name, settings, columns, ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (2, 4, 8), ["gold", "proxy", "order"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "order"], matched)
