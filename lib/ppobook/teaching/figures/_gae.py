"""E5: the TD errors and the advantages of a short segment, each with its arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook import returns
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Picture
    from numpy.typing import NDArray

# More rows than these would not fit a phone.
_RANGES = {"gamma": (0.0, 1.0, 0.01), "lam": (0.0, 1.0, 0.01)}

_REWARDS = (0.0, 0.0, 0.0, 1.0, 0.0, 0.2, 0.0)
_VALUES = (0.5, 0.9, 0.4, 0.7, 0.5, 0.3, 0.6, 0.8)
_END = (False, False, False, True, False, False, False)
_NO_END = (False,) * 7
# Segments that the reader can switch to: name, rewards, values, terminated, truncated, final values.
_PRESETS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("Step 3 terminates", (_REWARDS, _VALUES, _END, None, None)),
    ("Step 3 is truncated", (_REWARDS, _VALUES, _NO_END, _END, (0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0))),
    ("No episode ends", (_REWARDS, _VALUES, _NO_END, _NO_END, None)),
    (
        "A critic that knows nothing, one reward at the end",
        ((0.0,) * 6 + (1.0,), (0.0,) * 8, (*_NO_END[:6], True), _NO_END, None),
    ),
)


def gae_explorer(
    rewards: Sequence[float] = _REWARDS,
    values: Sequence[float] = _VALUES,
    terminated: Sequence[bool] = _END,
    truncated: Sequence[bool] | None = None,
    final_values: Sequence[float] | None = None,
    *,
    gamma: float = 0.9,
    lam: float = 0.8,
) -> Figure:
    """Edit rewards, values and episode ends: each δ and each advantage follows, with its arithmetic.

    The entry under the pointer, or the one that has the focus, is written out in numbers. In JupyterLab,
    `widget().advantages` and `widget().deltas` hold the numbers on display.

    Parameters
    ----------
    rewards : 2 to 8 numbers
    values : one number more
        The last one is the value after the last step.
    terminated, truncated, final_values
        As for `ppobook.returns.gae`.
    gamma, lam : float in [0, 1]
        Where the sliders start.
    """
    presets = [_segment(name, *other) for name, other in _PRESETS]
    first = _segment("This segment", rewards, values, terminated, truncated, final_values)
    twin = next((preset for preset in presets if {**preset, "name": first["name"]} == first), first)
    segments = [twin, *(preset for preset in presets if preset is not twin)]
    deltas, advantages = _estimates(first, gamma, lam)

    ends = [
        f"step {t} {'terminated' if over else 'was truncated, with final value ' + f'{final:g}'}"
        for t, (over, cut, final) in enumerate(
            zip(first["terminated"], first["truncated"], first["final_values"], strict=True)
        )
        if over or cut
    ]
    alt = f"""
        A table of {len(rewards)} steps. Rewards: {_listed(first["rewards"])}. Values:
        {_listed(first["values"])}. Episode ends: {", ".join(ends) or "none"}. With γ = {gamma:g} and
        λ = {lam:g} the TD errors δ are {_listed(deltas)}, and the advantages, each δ plus γλ times the
        next advantage within the episode, are {_listed(advantages)}.
    """
    state = {
        "segments": segments,
        "gamma": float(gamma),
        "lam": float(lam),
        "ranges": _RANGES,
        "deltas": [round(float(delta), 9) for delta in deltas],
        "advantages": [round(float(advantage), 9) for advantage in advantages],
    }
    return Figure(
        "gae",
        state,
        alt=alt,
        height=4.2,
        still=lambda picture: _still(picture, first, deltas, advantages, gamma, lam),
    )


def _segment(
    name: str, rewards: Any, values: Any, terminated: Any, truncated: Any, final_values: Any
) -> dict[str, Any]:
    """A segment as the script has it: every step has both flags and some final value, read or not."""
    given: list[Any] = [
        None if column is None else np.asarray(column) if i in (0, 1, 4) else column
        for i, column in enumerate((rewards, values, terminated, truncated, final_values))
    ]
    returns.gae(*given)  # refuses what does not fit
    steps = len(rewards)
    over = [bool(flag) for flag in terminated]
    cut = [bool(flag) for flag in (truncated if truncated is not None else [False] * steps)]
    final = [0.0] * steps if final_values is None else [float(value) for value in final_values]
    cut = [flag and not other for flag, other in zip(cut, over, strict=True)]
    return {
        "name": name,
        "rewards": [float(reward) for reward in rewards],
        "values": [float(value) for value in values],
        "terminated": over,
        "truncated": cut,
        # A step that is made a truncated one starts with a value near those around it.
        "final_values": [
            final[t] if cut[t] else float(value) for t, value in enumerate(list(values)[:steps])
        ],
    }


def _estimates(
    segment: dict[str, Any], gamma: float, lam: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    arguments = [
        np.array(segment[name]) for name in ("rewards", "values", "terminated", "truncated", "final_values")
    ]
    deltas = returns.n_step_advantages(*arguments, n=1, gamma=gamma)
    return deltas, returns.gae(*arguments, gamma=gamma, lam=lam)[0]


def _listed(numbers: Any) -> str:
    return ", ".join(f"{float(number):.2f}".rstrip("0").rstrip(".") or "0" for number in numbers).replace(
        "-", "−"
    )


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
    for t in steps:
        if segment["terminated"][t] or segment["truncated"][t]:
            word = "terminated" if segment["terminated"][t] else "truncated"
            ax.axvline(t + 0.5, color=style.colour("ink"), lw=1.5, ls="--")
            ax.annotate(
                word, (t + 0.5, high), xytext=(5, -3), textcoords="offset points", va="top", fontsize=12
            )
    ax.set_title(f"grey: δ;  coloured: the advantage   (γ = {gamma:g}, λ = {lam:g})", fontsize=13)
    labels = [f"t = {t}\nr {segment['rewards'][t]:g}\nV {segment['values'][t]:g}" for t in steps]
    ax.set_xticks([*steps, len(steps)], [*labels, f"next\n\nV {segment['values'][-1]:g}"])
    ax.set(ylim=(-high if min(*deltas, *advantages) < 0 else 0, high))
    ax.grid(visible=False, axis="x")
