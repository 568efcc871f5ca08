"""From PPO to GRPO, one line at a time, on the tiny language world: what of it is the critic?

    PPO                  critic, λ = .95; advantages normalized over the batch; mean over tokens
    critic out           the group's mean in its place, one advantage for all tokens of a text
    its deviation        … divided by its group's standard deviation, in place of the batch's
    its length           … and a mean over texts of each one's mean over its tokens: GRPO without a KL

No KL penalty, which would have another unit in each: what is compared is gold at the same KL, on the way, and
at equal tokens. All take four gradient steps on a batch of 64, at one learning rate. Reward models, their
common scale, and measures are those of `results/language_chain/shared.py`; the reward model reads the last
token. PPO's critic begins with the reward model's body. Fresh seeds, all reported.
"""

import sys
from pathlib import Path

import torch

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, at_kl, followed, judge, learner_of, looked_at, sft, summed_up

BUDGET = 30_000
LOOKS = 8
NO_KL = {"kl_coef": 0.0}
BATCH = {"scale": "none", "normalize_advantages": True, "reduction": "token"}
ARMS = {
    "PPO": ("ppo", {}),
    "critic out": ("grpo", BATCH),
    "its deviation": ("grpo", {"reduction": "token"}),
    "its length": ("grpo", {}),
}


def one(seed: int, arm: str) -> list[dict]:
    base, proxy = sft(seed), judge(seed, "last")
    held_out = judge(seed, "last", held_out=True)

    def look(policy: torch.nn.Module) -> dict[str, float]:
        return looked_at(policy, base, proxy, held_out, seed)

    stage, own = ARMS[arm]
    learner = learner_of(stage, base, seed, reward=proxy, lr=3e-4, **NO_KL, **own)
    return followed(learner, look, looks=LOOKS, tokens=BUDGET)


if __name__ == "__main__":
    record(
        "language_critic",
        one,
        [{"arm": arm} for arm in ARMS],
        seeds=FRESH,
        workers=1,
        digits=4,
        note="One learning rate for all, PPO's and GRPO's default; every seed reported.",
    )
    matched = at_kl(results("language_critic"), ["arm", "seed"], (1, 2, 4), ["gold", "proxy", "tokens"])
    summed_up("language_critic, at the same KL", ["arm", "at_kl"], ["gold", "proxy", "tokens"], matched)
