"""Does it help to refresh the reward model on the policy's own completions? Equal labels, equal steps.

PPO on the tiny language world, four times from the same policy and reward model (3,000 pairs, the last
token's value), without a KL penalty, so that nothing but the reward model can prevent over-optimisation:

    frozen       the reward model stays as it is
    at once      before the first update, PAIRS more labelled pairs, all by the policy after SFT
    many         the same with four times as many more
    refreshed    every EVERY updates, and before the first one, a third of PAIRS by the policy as it is then;
                 the reward model is trained on those of this run so far

"at once" and "refreshed" have equally many labelled pairs and gradient steps of the reward model. What
differs is whose completions the labels are about. "many" has three times the labels that it began with, and
one pass over the new ones. (PPO with the frozen one and a small β instead, which needs no further labels, is
in `results/language_overoptimisation`, from the same policies and reward models, with the same rate.)

After each training the rewards are put back on the common scale, of standard deviation 1 on the policy after
SFT (`language_chain/shared.py`), so that the critic's targets keep their unit; before it, back to the scale
of log-odds, which the loss assumes.

`order` is the reward model's accuracy among the policy's completions of that moment: of pairs of the same
prompt whose gold differs, the share that it ranks as gold does. `fresh_accuracy` is that on the new noisy
preferences, before it is trained on them; filled in where there are any since the row before. `beyond` is
what three more kind words pay after the third, in units of what the first three pay; by gold it is -0.5.

β and the reward model's epochs and rate were chosen on seeds 0 to 2: with β 0.03 reward models that read the
last token are not over-optimised in so many updates, and in one epoch at 3e-4 (the defaults) a reward model
hardly learns from so few pairs. The seeds here are fresh, and all are reported.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ppobook.experiments import record, results
from ppobook.language import World, evaluate, ladder
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
UPDATES, LOOKS, LR = 45, 5, 3e-4
PAIRS, EVERY = 1500, 15
EPOCHS, JUDGE_LR = 3, 1e-3
SETTINGS = [{"judge": how} for how in ("frozen", "refreshed", "at once", "many")]


class Refreshed(IterativePPO):
    """Iterative PPO whose rewards keep their scale, that on the policy after SFT."""

    base: Run

    def refresh(self, number: int) -> dict[str, Any]:
        with torch.no_grad():
            self.reward_model.output.weight *= self.reward_model.scale
        metrics = super().refresh(number)
        standardized(self.reward_model, self.base, self.seed)
        return metrics


def one(seed: int, judge: str) -> list[dict]:
    return curve(seed, judge, 0.0, LOOKS)


def curve(seed: int, how: str, kl_coef: float, looks: int) -> list[dict]:
    base, proxy = sft(seed), judge(seed, POOLING)
    settings: dict[str, Any] = {"kl_coef": kl_coef, "lr": LR}
    if how == "frozen":
        learner = learner_of("ppo", base, seed, reward=proxy, **settings)
    else:
        settings |= {
            "at once": {"refresh_every": UPDATES, "pairs": PAIRS, "reward_model_epochs": 2 * EPOCHS},
            "many": {"refresh_every": UPDATES, "pairs": 4 * PAIRS, "reward_model_epochs": 1},
            "refreshed": {"refresh_every": EVERY, "pairs": PAIRS // 3, "reward_model_epochs": EPOCHS},
        }[how] | {"reward_model_lr": JUDGE_LR}
        learner = learner_of(Refreshed, base, seed, reward=proxy, **settings)
        learner.base = base
    proxy = learner.reward_model
    look = partial(looked_at, base=base, proxy=proxy, held_out=judge(seed, POOLING, held_out=True), seed=seed)
    rows = []
    met: dict[str, Any] = {}
    for number in range(UPDATES + 1):
        if number % (UPDATES // looks) == 0:
            row = {"update": number, **look(learner.model), "order": order(learner.model, proxy, seed)}
            row |= {name: met.get(name) for name in ("fresh_accuracy", "fresh_accuracy_after")}
            rows.append(row | {"beyond": beyond(proxy)})
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


def beyond(reward_model: RewardModel) -> float:
    """Return what the fourth to sixth kind words pay, in units of what the first three pay."""
    pay = ladder(reward_model, World()).set_index("kind")["proxy"]
    return (pay[6] - pay[3]) / (pay[3] - pay[0])


if __name__ == "__main__":
    name, settings = "language_refresh", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        workers=1,
        digits=4,
        note="β chosen on seeds 0 to 2; every seed reported.",
    )
    columns = ["gold", "proxy", "held_out", "kl", "order", "beyond", "kind_words", "length", "ended"]
    summed_up(name, settings, columns, ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (2, 4, 8), ["gold", "proxy", "order"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "order"], matched)
