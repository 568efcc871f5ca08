"""E2: the ratio of each token of a text during one update, and what the clip makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike, NDArray

_ARRAYS = ("old_logp", "new_logp", "advantages")
_EPS = (0.02, 0.5, 0.01)


def token_ratios(
    texts: Mapping[str, Mapping[str, Any]],
    *,
    steps: Sequence[int],
    paths: Sequence[str] = ("this update",),
    clip_eps: float = 0.2,
) -> Figure:
    """Go through an update step by step: each token's ratio, whether it is clipped, what its gradient does.

    The token that is chosen is written out in numbers. In JupyterLab, `widget().ratios` holds the ratios on
    display.

    Parameters
    ----------
    texts : mapping of str to mapping
        What each text is called, and what is known of it: `words`, T of them; `old_logp` and `advantages`, of
        shape (T,); `new_logp` of shape (len(paths), len(steps), T), the log-probabilities after so many
        gradient steps.
    steps : sequence of int
        The numbers of gradient steps; the first is 0.
    paths : sequence of str
        What the ways are called that the update was made: with a clip and without one, say.
    clip_eps : float in [0.02, 0.5]
        Where the slider of ε starts.

    Returns
    -------
    Figure
        To stand as the last line of a code cell. It begins before the first step; the still picture is drawn
        after the last step of the first path.
    """
    steps = list(steps)
    paths = [str(path) for path in paths]
    read = {name: _read(text) for name, text in texts.items()}

    name, first = next(iter(read.items()))
    ratios = np.exp(first["new_logp"][0, -1] - first["old_logp"])
    outside = np.abs(ratios - 1) > clip_eps
    flat = outside & ((ratios > 1) == (first["advantages"] > 0)) & (first["advantages"] != 0)
    far = int(np.argmax(np.abs(np.log(ratios))))
    alt = f"""
        The {len(ratios)} tokens of the text “{" ".join(first["words"])}” ({name}) after {steps[-1]} gradient
        steps ({paths[0]}), one below the other, each with its ratio to the policy that wrote it. The ratios
        lie between {ratios.min():.2f} and {ratios.max():.2f}; furthest from 1 is that of
        “{first["words"][far]}”, {ratios[far]:.2f}. With ε = {clip_eps:g}, {outside.sum()} of them are outside
        of the clip range, and {flat.sum()} of these have no gradient. The ratio of the whole text is their
        product, {ratios.prod():.2f}.
    """
    state = {
        "texts": [
            {
                "name": name,
                "words": text["words"],
                "old": _packed(text["old_logp"]),
                "advantages": _packed(text["advantages"]),
                "new": [[_packed(row) for row in path] for path in text["new_logp"]],
            }
            for name, text in read.items()
        ],
        "paths": paths,
        "steps": steps,
        "text": 0,
        "path": 0,
        "step": 0,
        "token": far,
        "clip_eps": clip_eps,
        "range": _EPS,
        "ratios": [round(float(ratio), 6) for ratio in np.exp(first["new_logp"][0, 0] - first["old_logp"])],
    }
    return Figure(
        "tokens",
        state,
        alt=alt,
        height=1.3 + 0.27 * len(ratios),
        still=lambda picture: _still(picture, first, ratios, flat, clip_eps),
    )


def _read(text: Mapping[str, Any]) -> dict[str, Any]:
    """Return a text's words and arrays."""
    words = [str(word) for word in text["words"]]
    # Rounded here, so that the script, the sentence and the still picture have the same numbers.
    arrays = {name: np.asarray(text[name], dtype=np.float64).round(4) for name in _ARRAYS}
    return {"words": words, **arrays}


def _packed(numbers: ArrayLike) -> str:
    """Numbers in one text: a notebook would give each number of a list a line of its own."""
    return " ".join(f"{x:.4f}" for x in np.asarray(numbers))


def _still(
    picture: Picture, text: dict[str, Any], ratios: NDArray[Any], flat: NDArray[Any], clip_eps: float
) -> None:
    from matplotlib.ticker import NullLocator

    ax = picture.subplots()
    rows = np.arange(len(ratios))
    ax.axvspan(1 - clip_eps, 1 + clip_eps, color=style.colour("faint"), alpha=0.7, lw=0)
    ax.axvline(1, color=style.colour("ink"), lw=1)
    for row, ratio, advantage, stopped in zip(rows, ratios, text["advantages"], flat, strict=True):
        hue = style.colour("good" if advantage > 0 else "bad")
        ax.plot([1, ratio], [row, row], color=hue, lw=2)
        ax.plot(ratio, row, "o", ms=8, color=hue, mfc="white" if stopped else hue, mew=2)
    ax.set_xscale("log")
    far = max(1.6, 1.15 * float(np.exp(np.abs(np.log(ratios)).max())))
    ticks = [x for x in (0.1, 0.25, 0.5, 0.8, 1, 1.25, 2, 4, 10) if 1 / far < x < far]
    ax.set(xlim=(1 / far, far), ylim=(len(ratios) - 0.4, -0.6), xlabel="ratio (filled: it has a gradient)")
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yticks(rows, text["words"])
    ax.grid(visible=False, axis="y")
