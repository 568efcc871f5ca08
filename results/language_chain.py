"""The chain of the tiny language world, SFT to judge to PPO: what each stage costs, and what it comes to.

How many CPU seconds does each stage take on one thread? All three are at their defaults, settled on seeds 0
to 9 (PPO's rate by `language_settle.py`). The seeds here are fresh, and every one is reported. `gold`,
`proxy` (what the judge says), `kl` (to the policy after SFT), `length` and `ended` are of 1,024 completions
of the policy as it was in the end.

The other scripts of the tiny world go on from the same policy and judge: `begun` keeps them in
`_build/language_chains/`. Whoever changes the library, the world or a default removes that folder first.
"""

import time

from ppobook.evaluation import aggregate
from ppobook.experiments import record, results, results_folder
from ppobook.language import World, evaluate, load, train
from ppobook.language.run import Run

FRESH = range(100, 110)
PPO = {"lr": 3e-4, "kl_coef": 0.3, "steps": 60}
KEPT = results_folder().parent / "_build" / "language_chains"


def begun(seed: int) -> tuple[Run, Run]:
    """The policy after SFT and the judge of a seed: read, or trained and kept."""
    sft, judge = (KEPT / str(seed) / stage for stage in ("sft", "judge"))
    if not sft.exists():
        train("sft", data=World(), seed=seed, progress=False).save(sft)
    if not judge.exists():
        train("reward", sft, seed=seed, progress=False).save(judge)
    return load(sft), load(judge)


def looked_at(policy: object, base: Run, judge: object, seed: int) -> dict[str, float]:
    """Gold, proxy, KL to the policy after SFT, length, and share ended, of 1,024 completions."""
    found = evaluate(policy, World(), reward_model=judge, reference=base, n=1024, seed=10_000 + seed).numbers
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
        told = [
            f"{column} {_with_interval(some[column])}" for column in columns if some[column].notna().all()
        ]
        print("  ", *key, " ", ", ".join(told))


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
    judge, cpu_judge = timed("reward", base, seed=seed)
    tuned, cpu_tuned = timed("ppo", base, reward=judge, seed=seed, **ppo)
    if not (KEPT / str(seed)).exists():
        base.save(KEPT / str(seed) / "sft")
        judge.save(KEPT / str(seed) / "judge")
    return [
        {"stage": "sft", **cpu_base, **looked_at(base, base, judge, seed)},
        {"stage": "reward", **cpu_judge},
        {"stage": "ppo", **cpu_tuned, **looked_at(tuned, base, judge, seed)},
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
