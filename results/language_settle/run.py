"""β and the learning rates of `results/language_methods`: five pairs for each method, seeds 0 to 2.

A cross: three β at one rate, and at the middle β a smaller and a larger rate. A rate is about three times the
one before, and so is a β. With four gradient steps on a batch the rates are lower than with one; the DPO
family, whose β is another thing, has higher β. What counts is the mean of gold when the budget of tokens is
spent, over 512 completions. `on_the_edge` in what is printed says where the best is the first or the last
that was tried, so that a better one may lie beyond; and a cross does not show every pair of the two.
"""

import sys
from pathlib import Path

from ppobook.experiments import record

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import SETTLED_ON, summed_up
from language_methods.run import STAGES, STEPS, chosen, curve

RATES = {1: (3e-4, 1e-3, 3e-3), 4: (1e-4, 3e-4, 1e-3)}
BETAS = {method: (0.1, 0.3, 1.0) if "DPO" in method else (0.03, 0.1, 0.3) for method in STAGES}
SETTINGS = [
    {"method": method, "steps": steps, "beta": beta, "lr": lr}
    for steps in STEPS
    for method in STAGES
    for beta in BETAS[method]
    for lr in RATES[steps]
    if beta == BETAS[method][1] or lr == RATES[steps][1]
]


def one(seed: int, method: str, steps: int, beta: float, lr: float) -> dict:
    row = curve(seed, method, steps, beta, lr, looks=1, n=512)[-1]
    del row["held_out"]  # these seeds have none
    return row


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
        edges = {"beta": BETAS[best["method"]], "lr": RATES[best["steps"]]}
        on_the_edge = [what for what, tried in edges.items() if best[what] in (tried[0], tried[-1])]
        print("  chosen:", best, "on_the_edge:", on_the_edge or "no")
