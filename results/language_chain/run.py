"""The chain of the tiny language world, SFT to reward model to PPO: what each stage costs and achieves.

How many CPU seconds does each stage take on one thread? All three are at their defaults, settled on seeds 0
to 9; so rewards are as they were learned, the sum over tokens, and not on the scale of the other records. The
seeds here are fresh, and every one is reported. `gold`, `proxy` (the reward model's reward), `kl` (to the
policy after SFT), `length` and `ended` are of 1,024 completions of the final policy.

The other scripts of the tiny world continue from the same policies after SFT: `shared.py`, beside this one.
"""

import sys
import time
from pathlib import Path

from ppobook.experiments import record
from ppobook.language import World, evaluate, train
from ppobook.language.run import Run

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, summed_up

PPO = {"lr": 3e-4, "kl_coef": 0.3, "updates": 60}


def looked_at(policy: object, base: Run, reward_model: object, seed: int) -> dict[str, float]:
    """Gold, proxy, KL to the policy after SFT, length, and share ended, of 1,024 completions."""
    found = evaluate(
        policy, World(), reward_model=reward_model, reference=base, n=1024, seed=10_000 + seed
    ).numbers
    return {
        "gold": found["gold"],
        "proxy": found["reward"],
        "kl": found["kl_reference"],
        "length": found["length"],
        "ended": found["ended"],
    }


def timed(stage: str, *given: object, **settings: object) -> tuple[Run, dict[str, float]]:
    """A run, and the CPU seconds that it took."""
    began = time.process_time()
    run = train(stage, *given, progress=False, **settings)
    return run, {"cpu": time.process_time() - began}


def one(seed: int, **ppo: float) -> list[dict]:
    base, cpu_base = timed("sft", data=World(), seed=seed)
    reward_model, cpu_reward = timed("reward", base, seed=seed)
    tuned, cpu_tuned = timed("ppo", base, reward=reward_model, seed=seed, **ppo)
    return [
        {"stage": "sft", **cpu_base, **looked_at(base, base, reward_model, seed)},
        {"stage": "reward", **cpu_reward},
        {"stage": "ppo", **cpu_tuned, **looked_at(tuned, base, reward_model, seed)},
    ]


if __name__ == "__main__":
    record(
        "language_chain",
        one,
        [PPO],
        seeds=FRESH,
        workers=1,
        digits=4,
        note="Settings settled on seeds 0 to 9; every seed reported.",
    )
    summed_up("language_chain", ["stage"], ["cpu", "gold", "proxy", "kl", "length", "ended"])
