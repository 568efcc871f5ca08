"""Over-optimisation on the tiny language world: gold and proxy against KL, while a policy is trained.

Does the true reward fall while the reward model's goes on rising, and at which KL? PPO at five weights β of
the KL, GRPO at two, from the policy and the reward model of `results/language_chain`. β is in units of the
reward for PPO, and of the group's standard deviation for GRPO. The learning rate, the range of β and the
number of updates were chosen on seeds 0 to 2, so that the curves show where they lead to; the seeds here are
fresh, and all are reported.

The question, and gold and proxy against KL, are those of Gao, Schulman and Hilton 2023, "Scaling laws for
reward model overoptimization", whose gold is a larger reward model, and here a formula.

Each row is the mean over five updates, of 64 completions each, of the policies during training: `update` is
the last of them.
"""

import sys
from pathlib import Path

from ppobook.experiments import record
from ppobook.language import train

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.run import FRESH, begun, summed_up

UPDATES, EVERY = 60, 5
LR = 3e-4
SETTINGS = [
    *({"method": "ppo", "kl_coef": beta} for beta in (0.0, 0.03, 0.1, 0.3, 1.0)),
    *({"method": "grpo", "kl_coef": beta} for beta in (0.1, 0.3)),
]
NAMES = {"kl_reference": "kl", "reward": "proxy", "gold": "gold", "length": "length", "ended": "ended"}


def one(seed: int, method: str, kl_coef: float) -> list[dict]:
    base, reward_model = begun(seed)
    run = train(
        method,
        base,
        reward=reward_model,
        kl_coef=kl_coef,
        lr=LR,
        updates=UPDATES,
        seed=seed,
        progress=False,
    )
    history = run.history.rename(columns=NAMES)
    means = history.groupby((history["update"] - 1) // EVERY)[list(NAMES.values())].mean()
    return means.assign(update=[(k + 1) * EVERY for k in means.index]).to_dict("records")


if __name__ == "__main__":
    record(
        "language_overoptimisation",
        one,
        SETTINGS,
        seeds=FRESH,
        workers=1,
        digits=4,
        note="Learning rate, β and length of training chosen on seeds 0 to 2; every seed reported.",
    )
    columns = ["kl", "proxy", "gold", "length", "ended"]
    summed_up("language_overoptimisation", ["method", "kl_coef", "update"], columns)
