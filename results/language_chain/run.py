"""The chain of the tiny language world, SFT to reward model to PPO: what each stage costs and achieves.

How many CPU seconds does each stage take on one thread? All three are at their defaults, settled on seeds 0
to 9 (PPO's rate by `results/language_settle`). The seeds here are fresh, and every one is reported. `gold`,
`proxy` (the reward model's reward), `kl` (to the policy after SFT), `length` and `ended` are of 1,024
completions of the final policy.

The other scripts of the tiny world continue from the same policy and reward model: `begun` keeps them in
`_build/language_chains/`. Delete that folder after a change of the library, the world or a default.
"""

import time

from ppobook.evaluation import aggregate
from ppobook.experiments import record, results, results_folder
from ppobook.language import World, evaluate, load, train
from ppobook.language.run import Run

FRESH = range(100, 110)
PPO = {"lr": 3e-4, "kl_coef": 0.3, "updates": 60}
KEPT = results_folder().parent / "_build" / "language_chains"


def begun(seed: int) -> tuple[Run, Run]:
    """The policy after SFT and the reward model of a seed: loaded, or trained and saved."""
    sft, reward_model = (KEPT / str(seed) / stage for stage in ("sft", "reward"))
    if not sft.exists():
        train("sft", data=World(), seed=seed, progress=False).save(sft)
    if not reward_model.exists():
        train("reward", sft, seed=seed, progress=False).save(reward_model)
    return load(sft), load(reward_model)


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


def summed_up(name: str, by: list[str], columns: list[str]) -> None:
    """Print a record's means over seeds, with their 95 % intervals."""
    print(f"{name}: mean over seeds (95 % interval)")
    for key, some in results(name).groupby(by, sort=False):
        shown = [
            f"{column} {_with_interval(some[column])}" for column in columns if some[column].notna().all()
        ]
        print("  ", *key, " ", ", ".join(shown))


def _with_interval(numbers: object) -> str:
    mean, low, high = aggregate(numbers)
    return f"{mean:.3g} ({low:.3g} to {high:.3g})"


def timed(stage: str, *given: object, **settings: object) -> tuple[Run, dict[str, float]]:
    """A run, and the CPU seconds that it took."""
    began = time.process_time()
    run = train(stage, *given, progress=False, **settings)
    return run, {"cpu": time.process_time() - began}


def one(seed: int, **ppo: float) -> list[dict]:
    base, cpu_base = timed("sft", data=World(), seed=seed)
    reward_model, cpu_reward = timed("reward", base, seed=seed)
    tuned, cpu_tuned = timed("ppo", base, reward=reward_model, seed=seed, **ppo)
    if not (KEPT / str(seed)).exists():
        base.save(KEPT / str(seed) / "sft")
        reward_model.save(KEPT / str(seed) / "reward")
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
