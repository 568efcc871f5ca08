"""The reward model of the tiny language world: its data, its size, its pooling, and what PPO makes of it.

Reward models that differ in one thing from that of `results/language_chain` (3,000 pairs, width 64, the sum
over tokens): the number of pairs, the width, or the last token's value in place of the sum. All learn from
pairs of the same kind, sampled from the policy of `results/language_chain`; a reward model of another width
begins with an SFT of that width. Batches and updates are the same for all, so with 300 pairs each is seen 32
times and with 9,000 about once.

`accuracy` is the share of 1,000 further pairs of which a reward model prefers the one with the larger gold,
where gold differs; 0.5 is chance. Then PPO, from the same policy whatever the reward model, with one β:
`peak` is the highest of eight means of gold over five updates each; `gold`, `proxy`, `kl` and `length` are
the last of these. Columns kind_0 … kind_6 are the reward model's ladder: its reward for texts with so many
kind words, less its reward for those with none. PPO's critic begins with the reward model's body, as it does
by default, so it is as wide as the reward model.

PPO's settings were chosen on seeds 0 to 2; the seeds here are fresh, and all are reported.
"""

import copy
import sys
from pathlib import Path

import torch

from ppobook.experiments import record
from ppobook.language import Pairs, World, ladder, train
from ppobook.language.reward import RewardModelling, pooled_rewards, sample_pairs
from ppobook.language.rewards import RewardModel
from ppobook.language.run import Run
from ppobook.language.stage import Task
from ppobook.run.machine import stream

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.run import FRESH, begun, summed_up

UPDATES, EVERY = 40, 5
BETA, LR = 0.1, 3e-4
USUAL = {"pairs": 3000, "width": 64, "pooling": "sum"}
SETTINGS = [
    USUAL,
    {**USUAL, "pairs": 300},
    {**USUAL, "width": 16},
    {**USUAL, "pooling": "last"},
    {**USUAL, "pairs": 9000},
    {**USUAL, "pairs": 1000},
]


def pairs_of(base: Run, n: int, seed: int, purpose: str, **how: object) -> Pairs:
    """Pairs as `train("reward")` samples them."""
    generator = torch.Generator().manual_seed(stream(seed, f"{purpose} tokens"))
    return sample_pairs(base.model, World(), n, seed=stream(seed, purpose), generator=generator, **how)


def reward_model_of(seed: int, base: Run, pairs: int, width: int, pooling: str) -> RewardModel:
    """A reward model, trained as `train("reward")` does, on pairs by the usual policy."""
    body = base.model
    if width != USUAL["width"]:
        body = train("sft", data=World(), width=width, seed=seed, progress=False).model
    learned = pairs_of(base, pairs, seed, "judge's pairs")
    settings = RewardModelling.settings_class(pooling=pooling, eval_pairs=0)
    task = Task(copy.deepcopy(body).requires_grad_(True), base.tokenizer, learned)
    learner = RewardModelling(task, settings, seed=seed)
    for number in range(settings.updates):
        learner.set_lr(number)
        learner.step(number)
    learner.before_save()  # its rewards are centred
    return learner.model.eval().requires_grad_(False)


def accuracy(reward_model: RewardModel, pairs: Pairs) -> float:
    """How often the reward model prefers the better one."""
    world = World()
    apart = world.gold(pairs.chosen) != world.gold(pairs.rejected)
    gap = (pooled_rewards(reward_model, pairs.chosen) - pooled_rewards(reward_model, pairs.rejected))[apart]
    return (0.5 + 0.5 * gap.sign()).mean().item()


def one(seed: int, pairs: int, width: int, pooling: str) -> dict:
    base, usual = begun(seed)
    asked = {"pairs": pairs, "width": width, "pooling": pooling}
    reward_model = usual.model if asked == USUAL else reward_model_of(seed, base, **asked)
    held_out = pairs_of(base, 1000, seed, "held out", noise=0.0)
    rungs = ladder(reward_model, World())["proxy"]
    run = train(
        "ppo", base, reward=reward_model, kl_coef=BETA, lr=LR, updates=UPDATES, seed=seed, progress=False
    )
    history = run.history.rename(columns={"reward": "proxy", "kl_reference": "kl"})
    means = history.groupby((history["update"] - 1) // EVERY)[["gold", "proxy", "kl", "length"]].mean()
    return {
        "accuracy": accuracy(reward_model, held_out),
        "peak": means["gold"].max(),
        **means.iloc[-1].to_dict(),
        **{f"kind_{k}": rung - rungs[0] for k, rung in enumerate(rungs)},
    }


if __name__ == "__main__":
    record(
        "language_reward_models",
        one,
        SETTINGS,
        seeds=FRESH,
        workers=2,
        digits=4,
        note="PPO's settings chosen on seeds 0 to 2; every seed reported.",
    )
    columns = ["accuracy", "peak", "gold", "proxy", "kl", "kind_3", "kind_6"]
    summed_up("language_reward_models", ["pairs", "width", "pooling"], columns)
