"""PPO on tiny sums, beside the GRPO of `results/language_verifiable`: same policies, task and looks.

Four gradient steps on each batch of 64 completions, as there. PPO's 64 are of 64 prompts, GRPO's of 8. There
is no reward model that PPO's critic could begin with: its body is the policy's. The learning rate is the one
of three with the largest share right at the end, on seeds 0 to 2 (`results/language_critic_rates`). `cpu` is
the CPU seconds of training.
"""

import sys
from pathlib import Path

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_verifiable.run import curve


def chosen() -> float:
    """The rate with the largest mean of right at the end, of those tried."""
    return float(results("language_critic_rates").groupby("lr")["right"].mean().idxmax())


SETTINGS = [{"method": "ppo", "lr": chosen()}]


def one(seed: int, method: str, lr: float) -> list[dict]:
    return curve(seed, method, "last", lr=lr)


if __name__ == "__main__":
    record(
        "language_critic",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="The learning rate was chosen by language_critic_rates, on seeds 0 to 2; every seed reported.",
    )
