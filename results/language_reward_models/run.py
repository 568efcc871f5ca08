"""Reward models of the tiny language world with other data or width, and what PPO makes of each.

The usual ones, of 3,000 pairs and width 64, are in `results/language_ladder` and, with PPO at the same β, in
`results/language_overoptimisation`, whose looks are at the same updates; `usual` takes them from there. Here
are reward models with fewer pairs, with more, and a narrow one. They sum over tokens, since policies on usual
ones that do part most at this β. All learn from pairs by the same policy, fewer pairs being the first
of more. Batches and updates are the same for all, so with 300 pairs each is seen 32 times and with 9,000
about once.

Rewards are on one scale (`language_chain/shared.py`), for else one β would hold each policy differently.
Some reward models still lead further away than others, so they are compared at the same KL as well. The
held-out judge is that of 3,000 pairs, of the usual width and the same pooling. PPO's critic begins with the
reward model's body, as it does by default, so it is as wide as the reward model.

PPO's learning rate was chosen on seeds 0 to 2; the seeds here are fresh, and all are reported. Each row is of
256 completions of the policy after so many updates. What is said of the reward model, `accuracy` to `kind_6`
(its reward for texts with so many kind words), is the same in all rows of a run.
"""

import sys
from functools import partial
from pathlib import Path

import pandas as pd

from ppobook.experiments import record, results

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import (
    FRESH,
    USUAL,
    at_kl,
    followed,
    judge,
    learner_of,
    looked_at,
    sft,
    summed_up,
)
from language_ladder.run import measured
from language_overoptimisation.run import LR

UPDATES, LOOKS = 40, 8
BETA = 0.1
SETTINGS = [
    {"pooling": "sum", **USUAL, **changed} for changed in ({"pairs": 300}, {"pairs": 9000}, {"width": 16})
]
OF_THE_MODEL = ["accuracy", "agreement", "calibration_error", "scale"]


def one(seed: int, pooling: str, pairs: int, width: int) -> list[dict]:
    base, proxy = sft(seed), judge(seed, pooling, pairs=pairs, width=width)
    held_out = judge(seed, pooling, held_out=True)
    look = partial(looked_at, base=base, proxy=proxy, held_out=held_out, seed=seed)
    learner = learner_of("ppo", base, seed, reward=proxy, kl_coef=BETA, lr=LR)
    rows = followed(learner, look, looks=LOOKS, updates=UPDATES)
    own = of_the_model(pd.DataFrame(measured(seed, proxy, held_out)))
    return [{"update": row.pop("update"), **row, **own} for row in rows]


def of_the_model(rungs: pd.DataFrame) -> dict[str, float]:
    """What the ladder's rows say of a reward model, in one row."""
    return {
        **rungs.iloc[0][OF_THE_MODEL].to_dict(),
        **{f"kind_{kind:.0f}": proxy for kind, proxy in zip(rungs["kind"], rungs["proxy"], strict=True)},
    }


def usual(runs: pd.DataFrame, ladders: pd.DataFrame) -> pd.DataFrame:
    """The same rows of the usual reward models, from the records of over-optimisation and of the ladder."""
    runs = runs.query("kl_coef == @BETA and update <= @UPDATES")
    ladders = ladders.query("not held_out")
    own = [
        {"pooling": pooling, "seed": seed, **of_the_model(rungs)}
        for (pooling, seed), rungs in ladders.groupby(["pooling", "seed"])
    ]
    return runs.drop(columns="kl_coef").merge(pd.DataFrame(own), on=["pooling", "seed"]).assign(**USUAL)


if __name__ == "__main__":
    name, settings = "language_reward_models", list(SETTINGS[0])
    record(
        name,
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="PPO's learning rate chosen on seeds 0 to 2; every seed reported.",
    )
    every = pd.concat(
        [usual(results("language_overoptimisation"), results("language_ladder")), results(name)]
    )
    peaks = every.groupby([*settings, "seed"], sort=False)["gold"].max().reset_index(name="peak")
    summed_up(f"{name}, peak", settings, ["peak"], peaks)
    last = every.groupby([*settings, "seed"], sort=False).tail(1)
    columns = ["gold", "proxy", "held_out", "kl", "length", "ended", *OF_THE_MODEL, "kind_3", "kind_6"]
    summed_up(name, settings, columns, last)
    matched = at_kl(every, [*settings, "seed"], (1, 2, 4, 8), ["gold", "proxy", "held_out"])
    summed_up(f"{name}, at the same KL", [*settings, "at_kl"], ["gold", "proxy", "held_out"], matched)
