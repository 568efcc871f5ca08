"""Reward models of the tiny language world by themselves: scale, accuracy, calibration, and the ladder.

Gold likes up to three kind words in a text and dislikes further ones. Reward models have seen few texts with
more than three. What reward does each give to texts which follow grammar and prompt, and have 0 to 6
(`ppobook.language.ladder`)? In standard deviations of its reward on the policy after SFT; times `scale`, it
is the reward as it was learned.

`accuracy` is the share of 1,000 further pairs of which it prefers the one with the larger gold, where gold
differs; `agreement` the share of the same on which it sides with the held-out judge; 0.5 is chance.
`calibration_error` is of pairs with labels as noisy as those learned from. The held-out judges of
`language_chain/shared.py` are here as well. Nothing is tuned; every seed is reported.

This script makes the policies and reward models that the others begin with, of the fresh seeds.
"""

import copy
import sys
from pathlib import Path

import torch

from ppobook.experiments import record
from ppobook.language import World, calibration, ladder
from ppobook.language.reward import calibration_error
from ppobook.language.rewards import RewardModel

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from language_chain.shared import FRESH, judge, pairs_of, rewards_of, sft, summed_up

SETTINGS = [
    {"pooling": pooling, "held_out": held_out} for held_out in (False, True) for pooling in ("last", "sum")
]


def one(seed: int, pooling: str, held_out: bool) -> list[dict]:
    reward_model = judge(seed, pooling, held_out=held_out)
    return measured(seed, reward_model, judge(seed, pooling, held_out=not held_out))


def measured(seed: int, reward_model: RewardModel, other: RewardModel) -> list[dict]:
    """The ladder of a reward model, and beside each rung what the model is as a whole."""
    world = World()
    further = pairs_of(sft(seed), 1000, seed, "further pairs")
    gold, mine, theirs = (
        value(further.chosen) - value(further.rejected)
        for value in (
            world.gold,
            lambda completions: rewards_of(reward_model, completions),
            lambda completions: rewards_of(other, completions),
        )
    )
    rungs = ladder(reward_model, world)[["kind", "gold", "proxy", "proxy_std"]]
    learned = copy.deepcopy(reward_model)
    with torch.no_grad():  # as it was learned: probabilities are σ of differences of these rewards
        learned.output.weight *= reward_model.scale
    own = {
        "scale": reward_model.scale,
        "accuracy": _sides_with(mine, gold),
        "agreement": _sides_with(mine, theirs),
        "calibration_error": calibration_error(calibration(learned, further)),
    }
    return rungs.assign(**own).to_dict("records")


def _sides_with(mine: torch.Tensor, other: torch.Tensor) -> float:
    """Return how often one agrees with the other's preference where it has any; a tie counts half."""
    return (0.5 + 0.5 * (mine * other).sign())[other != 0].mean().item()


if __name__ == "__main__":
    record(
        "language_ladder",
        one,
        SETTINGS,
        seeds=FRESH,
        digits=4,
        note="Nothing tuned; every seed reported.",
    )
    columns = ["proxy", "gold", "scale", "accuracy", "agreement", "calibration_error"]
    summed_up("language_ladder", [*SETTINGS[0], "kind"], columns)
