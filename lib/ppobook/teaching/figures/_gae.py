"""E5: the TD errors and the advantages of a short segment, each with its arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook import returns
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, annotate

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_RANGES = {"gamma": (0.0, 1.0, 0.01), "lam": (0.0, 1.0, 0.01)}
_REWARDS = (0.0, 0.0, 0.0, 1.0, 0.0, 0.2, 0.0)
_VALUES = (0.5, 0.9, 0.4, 0.7, 0.5, 0.3, 0.6, 0.8)
_END, _NO_END = (False, False, False, True, False, False, False), (False,) * 7
# Segments that the reader can switch to. Every step has both flags and some final value, read or not; one
# that the reader makes a truncated one starts with a value near those around it.
_SEGMENTS: tuple[dict[str, Any], ...] = tuple(
    {
        "name": name,
        "rewards": rewards,
        "values": values,
        "terminated": terminated,
        "truncated": truncated,
        "final_values": tuple(0.9 if cut else value for cut, value in zip(truncated, values, strict=False)),
    }
    for name, rewards, values, terminated, truncated in (
        ("Step 3 terminates", _REWARDS, _VALUES, _END, _NO_END),
        ("Step 3 is truncated", _REWARDS, _VALUES, _NO_END, _END),
        ("No episode ends", _REWARDS, _VALUES, _NO_END, _NO_END),
        (
            "A critic that knows nothing, one reward at the end",
            (0.0,) * 6 + (1.0,),
            (0.0,) * 8,
            (*_NO_END[:6], True),
            _NO_END,
        ),
    )
)


def gae_explorer(*, gamma: float = 0.9, lam: float = 0.8) -> Figure:
    """Edit rewards, values and episode ends: each δ and each advantage follows, with its arithmetic.

    The entry under the pointer, or the one that has the focus, is written out in numbers. In JupyterLab,
    `widget().advantages` and `widget().deltas` hold the numbers on display.

    Parameters
    ----------
    gamma, lam : float in [0, 1]
        Where the sliders start.
    """
    first = _SEGMENTS[0]
    columns = ("rewards", "values", "terminated", "truncated", "final_values")
    arguments = [np.array(first[column]) for column in columns]
    deltas = returns.n_step_advantages(*arguments, n=1, gamma=gamma)
    advantages, _ = returns.gae(*arguments, gamma=gamma, lam=lam)
    alt = f"""
        A table of {len(first["rewards"])} steps. Rewards: {_listed(first["rewards"])}. Values:
        {_listed(first["values"])}. Episode ends: step 3 terminated. With γ = {gamma:g} and
        λ = {lam:g} the TD errors δ are {_listed(deltas)}, and the advantages, each δ plus γλ times the
        next advantage within the episode, are {_listed(advantages)}.
    """
    state = {
        "segments": _SEGMENTS,
        "gamma": float(gamma),
        "lam": float(lam),
        "ranges": _RANGES,
        "deltas": deltas.round(9).tolist(),
        "advantages": advantages.round(9).tolist(),
    }
    return Figure(
        "gae",
        state,
        alt=alt,
        height=4.2,
        still=lambda picture: _still(picture, first, deltas, advantages, gamma, lam),
    )


def _listed(numbers: Any) -> str:
    listed = (f"{number:.2f}".rstrip("0").rstrip(".") for number in numbers)
    return ", ".join(listed).replace("-", "−")


def _still(
    picture: Picture, segment: dict[str, Any], deltas: Any, advantages: Any, gamma: float, lam: float
) -> None:
    ax = picture.subplots()
    steps = np.arange(len(deltas))
    kinds = [style.colour("good" if advantage > 0 else "bad") for advantage in advantages]
    ax.bar(steps - 0.2, deltas, 0.36, color=style.colour("muted"))
    ax.bar(steps + 0.2, advantages, 0.36, color=kinds)
    ax.axhline(0, color=style.colour("ink"), lw=1)
    high = 1.25 * max(0.1, *np.abs(deltas), *np.abs(advantages))
    for t in np.flatnonzero(segment["terminated"]):
        ax.axvline(t + 0.5, color=style.colour("ink"), lw=1.5, ls="--")
        annotate(ax, "terminated", (t + 0.5, high), (5, -3), va="top")
    ax.set_title(f"grey: δ;  coloured: the advantage   (γ = {gamma:g}, λ = {lam:g})", fontsize=13)
    labels = [f"t = {t}\nr {segment['rewards'][t]:g}\nV {segment['values'][t]:g}" for t in steps]
    ax.set_xticks([*steps, len(steps)], [*labels, f"next\n\nV {segment['values'][-1]:g}"])
    ax.set(ylim=(-high if min(*deltas, *advantages) < 0 else 0, high))
    ax.grid(visible=False, axis="x")
