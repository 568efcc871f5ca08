"""The reach of λ: the weight of a fall in the estimate of a push fifty steps before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

# The push, the fall, and where the slider stops; its steps are closer together where the weights change fast.
_PUSH, _FALL, _GAMMA = 150, 200, 0.99
_LAMBDAS = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
_USUAL = 0.95


def lambda_reach() -> Figure:
    """Slide λ: the weights of the steps from a push to a fall, (γλ)^l for the step l ahead, with γ = 0.99.

    The reader first guesses how much the fall counts at λ = 0.95.
    """
    ahead = np.arange(_FALL - _PUSH + 1)
    shares = {lam: (_GAMMA * lam) ** ahead for lam in (1.0, _USUAL)}
    alt = f"""
        Bars: the weight of each step from {_PUSH} to {_FALL} in the estimated advantage of the push at step
        {_PUSH}, with γ = {_GAMMA:g}. With λ = 1 the weight falls from 100 % to {shares[1.0][-1]:.0%} at the
        fall, and with λ = {_USUAL:g} to {shares[_USUAL][-1]:.0%}.
    """
    state = {
        "steps": (_PUSH, _FALL),
        "gamma": _GAMMA,
        "lambdas": _LAMBDAS,
        "usual": _USUAL,
        "lam": 1.0,
    }
    return Figure("reach", state, alt=alt, height=2.75, still=lambda picture: _still(picture, shares))


def _still(picture: Picture, shares: dict[float, np.ndarray]) -> None:
    ax = picture.subplots()
    for (lam, share), hue in zip(shares.items(), ("muted", "ppo"), strict=True):
        ax.plot(_PUSH + np.arange(len(share)), share, color=style.colour(hue), label=f"λ = {lam:g}")
    ax.set(xlabel="step", ylabel="weight", ylim=(0, 1.05))
    style.label_curves(ax)
    style.finding(picture, "At λ = 0.95, a fall this late hardly counts")
