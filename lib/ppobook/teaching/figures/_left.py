"""A reward model that is left behind: how often it is right about the texts of a policy that moves on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppobook.experiments import results
from ppobook.teaching.figures._reveal import reveal

if TYPE_CHECKING:
    from ppobook.teaching.figures._figure import Figure


def left_behind() -> Figure:
    """Train a policy against a reward model that stays the same, and see whether it is still right.

    The runs are recorded ones of PPO in the tiny language world, without a KL penalty.
    """
    runs = results("language_refresh").query("judge == 'frozen'")
    order, gold = (runs.pivot(index="seed", columns="update", values=name) for name in ("order", "gold"))
    first, last = order.columns[0], order.columns[-1]
    right, score = order.mean(), gold.mean()
    return reveal(
        {"Pairs ranked right": ("ppo", order), "Gold, the true score": ("ppo", gold)},
        x=[int(update) for update in order.columns],
        xlabel="Update",
        first_is_open=False,
        levels={"Pairs ranked right": (0.5, "a coin")},
        ask={
            "asks": "The reward model learned once, before update 0. Then the policy learns to please it. "
            f"After {last} updates, how often does the reward model pick the better of two new texts?",
            "options": ["As often as before", "In 7 of 10 cases", "In half of them, like a coin"],
            "right": 2,
            "answer": "On average, the reward model does no better than a coin, and gold has fallen.",
        },
        finding="As the policy moves, its reward model loses its way",
        alt=f"""
            Two panels against updates, {first} to {last}, ten runs each. Left, the share of pairs that the
            reward model ranks as gold does: on average, it falls from {right[first]:.2f} to
            {right[last]:.2f}, the level of a coin. Right, gold: on average, it rises a little, from
            {score[first]:.1f} to {score.max():.1f} at update {score.idxmax()}, and falls to
            {score[last]:.1f}.
        """,
    )
