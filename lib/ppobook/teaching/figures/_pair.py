"""One pair of texts that DPO moves apart: where probability goes, with a parameter for all and for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ppobook.preferences import dpo_loss
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike, NDArray

# Six texts with 0 to 5 kind words: how often the reference writes them, and what people think of them.
_REF = (0.40, 0.30, 0.18, 0.08, 0.03, 0.01)
_KIND = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
_GOLD = (0.0, 1.0, 2.0, 3.0, 2.5, 2.0)
_PAIRS = ((1, 0), (2, 1), (3, 0), (3, 5))
# Where the sliders stop.
_HS = tuple(round(0.1 * k, 1) for k in range(81))
_BETAS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0)


class PairMoved(NamedTuple):
    """The result of `pair_moved`."""

    probs: NDArray[np.float64]  # the policy
    chosen: float  # log π − log π_ref of the chosen text, in nats
    rejected: float  # the same of the rejected one; their difference is h
    choice: float  # σ(β h), the probability that the policy gives to the choice
    weight: float  # β σ(−β h), the weight of the pair in DPO's gradient


def pair_moved(
    ref_probs: ArrayLike,
    feature: ArrayLike,
    pair: tuple[int, int],
    h: float,
    *,
    shared: bool = True,
    beta: float = 0.3,
) -> PairMoved:
    """The policy that DPO makes of its reference by one pair, once the two texts are h apart.

        shared        π ∝ π_ref exp(θ f(y)),       θ = h / (f(y_w) − f(y_l))
        not shared    π ∝ π_ref exp(z(y)),         z(y_w) = h / 2,  z(y_l) = −h / 2,  else 0

    Shared, all texts have one parameter, the worth of a feature, and the one way to raise h is along it. Not
    shared, each has a logit of its own, and DPO's gradient moves those of the pair by equal amounts.

    Parameters
    ----------
    ref_probs : shape (K,)
        π_ref, positive.
    feature : shape (K,)
        f, different for the two texts of the pair.
    pair : two ints
        The chosen text and the rejected one.
    h, beta : float of at least 0, float above 0
    """
    ref = np.asarray(ref_probs, dtype=np.float64)
    f = np.asarray(feature, dtype=np.float64)
    chosen, rejected = pair
    moves = np.zeros(len(ref))
    if shared:
        moves = h / (f[chosen] - f[rejected]) * f
    else:
        moves[chosen], moves[rejected] = h / 2, -h / 2
    logits = np.log(ref) + moves
    logits -= logits.max()
    logp = logits - np.log(np.exp(logits).sum())
    ratio = logp - np.log(ref)

    apart = torch.tensor([ratio[chosen] - ratio[rejected]], dtype=torch.float64, requires_grad=True)
    none = torch.zeros_like(apart)
    loss, _ = dpo_loss(apart, none, none, none, beta)
    (slope,) = torch.autograd.grad(loss, apart)
    choice = torch.sigmoid(beta * apart).item()
    return PairMoved(np.exp(logp), float(ratio[chosen]), float(ratio[rejected]), choice, -slope.item())


def dpo_pair(h: float = 0.0, *, small: bool = False) -> Figure:
    """Move the two texts of a pair apart, and watch all six: a text that is in no pair may gain the most.

    Six texts have 0 to 5 kind words. The reader chooses the pair, whether kind words share one parameter or
    each text has its own logit, and how far apart the pair is; `h` is where it starts, a multiple of 0.1 from
    0 to 8. The `small` form has the first pair, the shared parameter and the bars only. In JupyterLab,
    `widget().moved` holds the numbers on display.
    """
    apart, own = (pair_moved(_REF, _KIND, _PAIRS[0], 2.0, shared=which) for which in (True, False))
    alt = f"""
        Bars: the probabilities of six texts with 0 to 5 kind words, the reference's as outlines. In the pair,
        the text with 1 kind word is chosen over that with none. If kind words share one parameter and the
        pair is 2 nats apart, the rejected text has fallen by {-apart.rejected:.1f} nats and the chosen one by
        {-apart.chosen:.1f}; texts that are in no pair have {1 - apart.probs[:2].sum():.0%} of the
        probability. If each text has a logit of its own, the chosen one has risen by {own.chosen:.1f} nats.
        Curves: both changes against the distance h.
    """
    if small:
        alt = f"""
            Bars: the probabilities of six texts with 0 to 5 kind words, the reference's as outlines. In the
            pair, the text with 1 kind word is chosen over that with none. Moved 2 nats apart, both have
            become less probable: texts in no pair have {1 - apart.probs[:2].sum():.0%} of it.
        """
    beta = 0.3
    found = pair_moved(_REF, _KIND, _PAIRS[0], h, beta=beta)
    state = {
        "ref": _REF,
        "kind": _KIND,
        "gold": _GOLD,
        "pairs": [list(pair) for pair in _PAIRS],
        "hs": _HS,
        "betas": _BETAS,
        "pair": 0,
        "shared": True,
        "h": h,
        "beta": beta,
        "small": small,
        "moved": {
            "chosen": found.chosen,
            "rejected": found.rejected,
            "elsewhere": float(1 - found.probs[:2].sum()),
            "gold": float(found.probs @ np.array(_GOLD)),
            "choice": found.choice,
            "weight": found.weight,
        },
    }
    if small:
        return Figure("pair", state, alt=alt, height=3.0, still=_still_small)
    return Figure("pair", state, alt=alt, height=5.4, still=_still)


def _still_small(picture: Picture) -> None:
    ax = picture.subplots()
    _draw_bars(ax, shared=True)
    style.finding(picture, "Moved apart, both texts become less probable")
    for x, side, hue in ((0, "rejected", "bad"), (1, "chosen", "good")):
        ax.text(x, _REF[x] + 0.04, side, color=style.colour(hue, "text"), ha="center", fontsize=12)
    ax.set_ylabel("probability")


def _still(picture: Picture) -> None:
    axes = picture.subplots(2, 2, sharey="row")
    for column, (title, shared) in enumerate((("own logits", False), ("one θ for all", True))):
        _draw_bars(axes[0, column], shared)
        axes[0, column].set_title(title)
        _draw_changes(axes[1, column], shared)
    axes[0, 0].set_ylabel("probability, h = 2")
    axes[1, 0].set_ylabel("log π − log π_ref")


def _draw_bars(ax: Axes, shared: bool) -> None:
    probs = pair_moved(_REF, _KIND, _PAIRS[0], 2.0, shared=shared).probs
    colours = [style.colour("bad"), style.colour("good"), *[style.colour("muted")] * 4]
    ax.bar(_KIND, probs, 0.7, color=colours)
    ax.bar(_KIND, _REF, 0.7, facecolor="none", edgecolor=style.colour("ink"), lw=1.4, ls=":")
    ax.set(xlabel="kind words", xticks=range(6), ylim=(0, 1))
    ax.grid(visible=False, axis="x")


def _draw_changes(ax: Axes, shared: bool) -> None:
    hs = _HS[:41]
    found = [pair_moved(_REF, _KIND, _PAIRS[0], h, shared=shared) for h in hs]
    for side, hue in (("chosen", "good"), ("rejected", "bad")):
        y = [getattr(x, side) for x in found]
        ax.plot(hs, y, color=style.colour(hue))
        if not shared:
            above = side == "chosen"
            spot = (4, y[-1] + (0.4 if above else -0.6))
            ink = style.colour(hue, "text")
            ax.text(*spot, side, color=ink, ha="right", va="bottom" if above else "top", fontsize=12)
    ax.axhline(0, color=style.colour("muted"), lw=1, zorder=0)
    ax.set(xlabel="h, in nats", ylim=(-16, 3))
