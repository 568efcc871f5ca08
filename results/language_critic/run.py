"""PPO on tiny sums, beside the GRPO of `results/language_verifiable`: same policies, task, rate and looks.

Four gradient steps on each batch of 64 completions, as there. PPO's 64 are of 64 prompts, GRPO's of 8. There
is no reward model that PPO's critic could begin with: its body is the policy's. The learning rate is the one
that was chosen for GRPO; PPO's was not tuned. `cpu` is the CPU seconds of training.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_verifiable.run import curve


def one(seed: int, method: str) -> list[dict]:
    return curve(seed, method, "last")


if __name__ == "__main__":
    record(
        "language_critic",
        one,
        [{"method": "ppo"}],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Settings are those of language_verifiable; every seed reported.",
    )
