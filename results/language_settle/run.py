"""β and the learning rates of `results/language_methods`: at least five pairs a method, seeds 0 to 2.

A cross: three β at one rate, and at the middle β a smaller and a larger rate; then, where the best was on
its edge, one step further out. A rate is about three times the one before, and so is a β. With four gradient
steps on a batch the rates are lower than with one; the DPO family, whose β is another thing, has higher β.
What counts is the mean of gold when the budget of tokens is spent, over 512 completions. A cross does not
show every pair of the two. What is printed says on which of them the chosen one is still at the edge.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import SETTLED_ON, summed_up
from language_methods.run import STAGES, STEPS, chosen, curve

RATES = {1: (3e-4, 1e-3, 3e-3), 4: (1e-4, 3e-4, 1e-3)}
BETAS = {method: (0.1, 0.3, 1.0) if "DPO" in method else (0.03, 0.1, 0.3) for method in STAGES}
CROSS = [
    {"method": method, "steps": steps, "beta": beta, "lr": lr}
    for steps in STEPS
    for method in STAGES
    for beta in BETAS[method]
    for lr in RATES[steps]
    if beta == BETAS[method][1] or lr == RATES[steps][1]
]
BEYOND = [
    {"method": "GRPO", "steps": 1, "beta": 1.0, "lr": 1e-3},
    {"method": "RLOO", "steps": 1, "beta": 0.1, "lr": 1e-2},
    {"method": "DPO", "steps": 1, "beta": 3.0, "lr": 1e-3},
    {"method": "PPO", "steps": 4, "beta": 0.01, "lr": 3e-4},
    {"method": "RLOO", "steps": 4, "beta": 0.01, "lr": 3e-4},
    {"method": "DPO", "steps": 4, "beta": 3.0, "lr": 3e-4},
]
SETTINGS = CROSS + BEYOND


def one(seed: int, method: str, steps: int, beta: float, lr: float) -> dict:
    row = curve(seed, method, steps, beta, lr, looks=1, n=512)[-1]
    del row["held_out"]  # these seeds have none
    return row


def _ends_of(tried: Iterable[float]) -> tuple[float, float]:
    tried = list(tried)
    return min(tried), max(tried)


if __name__ == "__main__":
    record(
        "language_settle",
        one,
        SETTINGS,
        seeds=SETTLED_ON,
        digits=4,
        note="Seeds of their own, so that language_methods is measured on seeds that chose nothing.",
    )
    summed_up("language_settle", list(SETTINGS[0]), ["gold", "proxy", "kl", "length", "ended", "cpu"])
    for best in chosen():
        mine = [one for one in SETTINGS if all(one[what] == best[what] for what in ("method", "steps"))]
        on_the_edge = [
            what
            for what, other in (("beta", "lr"), ("lr", "beta"))
            if best[what] in _ends_of(one[what] for one in mine if one[other] == best[other])
        ]
        print("  chosen:", best, "on the edge:", on_the_edge or "no")
