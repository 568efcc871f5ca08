"""Two learning rates: ten recorded runs of each, and the question what comes after the first updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppobook.experiments import results
from ppobook.teaching.figures._reveal import reveal

if TYPE_CHECKING:
    from ppobook.teaching.figures._figure import Figure

# The return of a good policy, and the update at which the reader guesses.
_GOOD, _FIRST = 475, 8


def two_rates() -> Figure:
    """Guess how ten runs go on that lead after eight updates, and play the rest.

    The runs are recorded ones of PPO on CartPole: learning rates 0.003 and 0.03, with all else equal. An
    update in which no episode ended shows the return of the update before.
    """
    runs = results("practice_gauges")
    mine = {
        lr: runs[runs["case"] == case]
        for lr, case in (("0.003", "healthy"), ("0.03", "learning rate ten times"))
    }
    curves = {
        lr: some.pivot(index="seed", columns="update", values="return_mean").ffill(axis=1).round()
        for lr, some in mine.items()
    }
    small, large = (int((some.groupby("seed")["final"].first() >= _GOOD).sum()) for some in mine.values())
    updates = curves["0.003"].columns
    early, late = (
        {lr: x[at].mean() for lr, x in curves.items()} for at in (updates[_FIRST - 1], updates[-1])
    )
    return reveal(
        {"Return": {"0.003": ("ppo", curves["0.003"]), "0.03": ("bad", curves["0.03"])}},
        x=range(1, len(updates) + 1),
        xlabel="Update",
        first_is_open=False,
        start=_FIRST,
        ask={
            "asks": f"After {_FIRST} updates, the ten runs with the larger learning rate are ahead on "
            "average. What comes next?",
            "options": ["They stay ahead", "Both end at the top", "They level off"],
            "right": 2,
            "answer": f"Only {large} of the ten trained policies earn {_GOOD} or more, against {small} of "
            "ten with the smaller learning rate.",
        },
        finding="The larger learning rate leads, then trails",
        alt=f"""
            Return against updates for learning rates 0.003 and 0.03, ten runs of each. After {_FIRST} updates
            the means are {early["0.003"]:.0f} and {early["0.03"]:.0f}; after {len(updates)} they are
            {late["0.003"]:.0f} and {late["0.03"]:.0f}. {small} and {large} of ten trained policies earn
            {_GOOD} or more.
        """,
    )
