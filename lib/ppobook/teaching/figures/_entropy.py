"""E7: policies that lose their entropy, with and without the bonus, and what they then no longer find."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from ppobook.diagnostics import normalize
from ppobook.objectives import ppo_loss
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from numpy.typing import NDArray

# What the four arms pay at first and from the change on, and by how much a pull scatters.
_PAYS, _LATER, _NOISE = (1.0, 0.8, 0.6, 0.4), (1.0, 0.8, 0.6, 2.0), 0.5
_CHANGE, _UPDATES, _SEEDS = 40, 120, 12
# Pulls and epochs of an update, and the length of a gradient step.
_PULLS, _EPOCHS, _LR = 16, 4, 1.0
# The figure keeps the policies before every fifth update.
_EVERY = 5
_COEFS = (0.02, 0.1, 0.3)


def entropy_runs(
    entropy_coef: float, *, updates: int = _UPDATES, seeds: int = _SEEDS, seed: int = 0
) -> NDArray[np.float64]:
    """Train policies over the four arms of a bandit by PPO, each with pulls of its own.

    The arms pay 1, 0.8, 0.6 and 0.4 on average; from update 40 on, the last one pays 2. An update is 16
    pulls and four steps on `ppo_loss`, with advantages normalized and ε = 0.2.

    Parameters
    ----------
    entropy_coef : float of at least 0
    updates, seeds : int
    seed : int
        Policies with another seed see other pulls.

    Returns
    -------
    array, shape (updates + 1, seeds, 4)
        The probabilities of the arms before each update, and after the last.
    """
    generators = [np.random.default_rng([seed, row]) for row in range(seeds)]
    logits = torch.zeros(seeds, len(_PAYS), dtype=torch.float64, requires_grad=True)
    history = []
    for update in range(updates):
        old = logits.detach().log_softmax(-1)
        history.append(old.exp().numpy())
        pays = np.array(_PAYS if update < _CHANGE else _LATER)
        limits = history[-1].cumsum(axis=1)[:, None, :-1]
        draws = np.stack([generator.random((_PULLS, 1)) for generator in generators])
        arms = (draws >= limits).sum(axis=2)
        noise = np.stack([generator.standard_normal(_PULLS) for generator in generators])
        rewards = torch.as_tensor(pays[arms] + _NOISE * noise)
        advantages = torch.stack([normalize(row) for row in rewards])
        pulled, zeros = torch.as_tensor(arms), torch.zeros_like(rewards)
        for _ in range(_EPOCHS):
            new = logits.log_softmax(-1)
            entropy = -(new.exp() * new).sum(-1, keepdim=True).expand(-1, _PULLS)
            loss, _ = ppo_loss(
                new.gather(1, pulled),
                old.gather(1, pulled),
                advantages,
                zeros,
                zeros,
                entropy,
                clip_eps=0.2,
                value_coef=0.0,
                entropy_coef=entropy_coef,
            )
            # The loss is a mean over all rows; each row is a learner of its own.
            (slope,) = torch.autograd.grad(seeds * loss, logits)
            with torch.no_grad():
                logits -= _LR * slope
    return np.stack([*history, logits.detach().softmax(-1).numpy()])


def entropy_collapse() -> Figure:
    """Watch twelve policies lose their entropy, without the bonus and with it, and what each can still find.

    A bandit of four arms, learned by PPO (`entropy_runs`). From update 40 on the worst arm is the best by
    far. A policy that has all but stopped trying it notices late, or never. The reader plays the updates, or
    slides through them, and chooses among three coefficients.
    """
    entropy_coef = 0.1  # that is shown at first
    runs = {coef: entropy_runs(coef)[::_EVERY] for coef in (0.0, *_COEFS)}
    before, after = _CHANGE // _EVERY, -1
    without, chosen = runs[0.0], runs[entropy_coef]
    alt = f"""
        Twelve policies over four arms, as columns stacked from four probabilities, and curves of their
        entropy over {_UPDATES} updates. Without an entropy bonus the entropy falls from {math.log(4):.2f} to
        {_entropy(without[before]).mean():.2f} within {_CHANGE} updates. Then the arm that was worst begins to
        pay twice as much as the best, and {_found(without[after])} of 12 policies prefer it at the end. With
        a bonus of {entropy_coef:g} the entropy is {_entropy(chosen[before]).mean():.2f} when the arm changes,
        and {_found(chosen[after])} of 12 prefer it at the end.
    """
    state = {
        "update": _CHANGE,
        "coef": _COEFS.index(entropy_coef),
        "every": _EVERY,
        "change": _CHANGE,
        "pays": _PAYS,
        "later": _LATER,
        "runs": [{"coef": coef, "probs": [_packed(probs) for probs in run]} for coef, run in runs.items()],
    }
    return Figure(
        "entropy", state, alt=alt, height=4.0, still=lambda picture: _still(picture, runs, entropy_coef)
    )


def _packed(probs: NDArray[np.float64]) -> str:
    """In thousandths, row by row, without the last arm, which has the rest: a notebook would give each number
    of a list a line of its own."""
    return " ".join(map(str, np.rint(1000 * probs[:, :-1]).astype(int).ravel()))


def _entropy(probs: NDArray[np.float64]) -> NDArray[np.float64]:
    return -(probs * np.log(np.maximum(probs, 1e-12))).sum(axis=-1)


def _found(probs: NDArray[np.float64]) -> int:
    """Count the policies that prefer the last arm."""
    return int((probs.argmax(axis=-1) == len(_PAYS) - 1).sum())


# One shade for each arm: the best at first is dark, the best later in the colour of a good action.
_SHADES: Sequence[str] = ("ink", "muted", "faint", "good")


def _still(picture: Picture, runs: dict[float, NDArray[np.float64]], coef: float) -> None:
    (top_left, top_right), (left, right) = picture.subplots(2, 2, sharex="row", sharey="row")
    for ax, curve, name, probs in (
        (top_left, left, "no bonus", runs[0.0]),
        (top_right, right, f"bonus {coef:g}", runs[coef]),
    ):
        _draw_columns(ax, probs[-1])
        ax.set_title(f"{name}: {_found(probs[-1])} of 12 found it", fontsize=13)
        updates = _EVERY * np.arange(len(probs))
        entropy = _entropy(probs)
        curve.fill_between(updates, entropy.min(axis=1), entropy.max(axis=1), color=style.colour("faint"))
        curve.plot(updates, entropy.mean(axis=1), color=style.colour("truth"), lw=3)
        curve.axvline(_CHANGE, color=style.colour("ink"), lw=1, ls="--")
        curve.set(xlabel="update", ylim=(0, 1.45))
    top_left.set_ylabel("policies", fontsize=12)
    left.set_ylabel("entropy", fontsize=12)


def _draw_columns(ax: Axes, probs: NDArray[np.float64]) -> None:
    floor = np.zeros(len(probs))
    for arm, shade in enumerate(_SHADES):
        ax.bar(range(len(probs)), probs[:, arm], 0.8, bottom=floor, color=style.colour(shade))
        floor = floor + probs[:, arm]
    ax.set(xticks=[], yticks=[], ylim=(0, 1))
    ax.grid(visible=False)
