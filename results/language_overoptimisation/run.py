"""Over-optimisation on the tiny language world: gold, proxy and a held-out judge against KL, in training.

Does the true reward fall while the reward model's goes on rising, at which KL, and which part of gold falls?
PPO at five weights β of the KL, on reward models that read the last token, as the field's do (Stiennon et
al. 2020, Ouyang et al. 2022), and on such as sum over tokens, the library's default. Rewards have standard
deviation 1 on the policy after SFT (`language_chain/shared.py`), so a β is the same in both.

Two controls at β 0. With a third of the learning rate, and twice the updates: is it the penalty that makes
gold higher at the same KL, or only the slower way there? And with 1 taken off the reward of a completion that
does not end, TRL's missing_eos_penalty: is missing ends what the reward model is wrong about?

The learning rate, the range of β and the number of updates were chosen on seeds 0 to 2, so that the curves
show where they lead to; the seeds here are fresh, and all are reported. The question, and gold and proxy
against KL, are those of Gao, Schulman and Hilton 2023, "Scaling laws for reward model overoptimization",
whose gold is a larger reward model, and here a formula. They find that a KL penalty acts like early stopping:
at the same KL gold is the same with and without.

Each row is of 256 completions of the policy after so many updates; row 0 is the policy after SFT.
"""

import sys
from functools import partial
from pathlib import Path

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, at_kl, ends, followed, judge, learner_of, looked_at, sft, summed_up

LOOKS = 12
LR, UPDATES = 3e-4, 60
SLOW = {"lr": 1e-4, "updates": 120}
POOLINGS = ("last", "sum")
USUAL = {"kl_coef": 0.0, "lr": LR, "updates": UPDATES, "missing_eos_penalty": 0.0}
SETTINGS = [
    {"pooling": pooling, **USUAL, **changed}
    for changed in (
        *({"kl_coef": beta} for beta in (0.0, 0.03, 0.1, 0.3, 1.0)),
        SLOW,
        {"missing_eos_penalty": 1.0},
    )
    for pooling in POOLINGS
]


def one(
    seed: int, pooling: str, kl_coef: float, lr: float, updates: int, missing_eos_penalty: float
) -> list[dict]:
    base, proxy, held_out = sft(seed), judge(seed, pooling), judge(seed, pooling, held_out=True)
    how: dict[str, object] = {"kl_coef": kl_coef, "lr": lr}
    if missing_eos_penalty:
        how |= {"truncation": "penalty", "missing_eos_penalty": missing_eos_penalty}
    learner = learner_of("ppo", base, seed, reward=proxy, **how)
    look = partial(looked_at, base=base, proxy=proxy, held_out=held_out, seed=seed)
    rows = followed(learner, look, looks=LOOKS, updates=updates)
    return [{"update": row.pop("update"), **row} for row in rows]


if __name__ == "__main__":
    name, settings = "language_overoptimisation", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="Learning rate, β and length of training chosen on seeds 0 to 2; every seed reported.",
    )
    columns = ["kl", "proxy", "held_out", "gold", "kind_words", "errors", "length", "ended", "entropy"]
    summed_up(name, settings, [*columns, "distinct_2"], ends(name, settings))
    matched = at_kl(results(name), [*settings, "seed"], (1, 2, 4, 8, 16), ["gold", "proxy", "update"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "update"], matched)
