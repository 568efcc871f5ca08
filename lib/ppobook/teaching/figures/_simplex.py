"""E8: one step of each method from the same softmax policy over three actions, in the simplex of policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch

from ppobook.divergences import kl_categorical
from ppobook.objectives import clipped_surrogate_loss, surrogate_loss
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure
from ppobook.trpo import conjugate_gradient, line_search

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

#: The methods that the figure knows, in the order of the book.
METHODS: Final = ("vanilla", "natural", "trpo", "ppo_small", "ppo_large")

# How PPO-clip steps: small steps until no gradient is left, or at most so many; and a few long ones.
_SMALL, _MANY, _EPOCHS = 0.001, 10_000, 10
_DELTAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
_LENGTHS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 30.0)
_EPS = (0.05, 0.5, 0.01)
_THIRD = (1 / 3, 1 / 3, 1 / 3)
# What the reader can switch to. Each A has mean 0 under its old policy.
_PRESETS = (
    (_THIRD, (1.0, 0.0, -1.0)),
    (_THIRD, (2.0, -1.0, -1.0)),
    ((0.6, 0.3, 0.1), (-0.5, 0.5, 1.5)),
    ((0.8, 0.15, 0.05), (-0.25, 0.0, 4.0)),
)

_ASKS = {
    "trpo": {
        "asks": "Make the steps longer. Which method stays inside the pink oval?",
        "options": ["vanilla", "natural gradient", "TRPO"],
        "right": 2,
        "todo": "Then drag the step length.",
        "answer": "TRPO stays: it shortens a step that would leave the oval.",
    },
    "ppo_large": {
        "asks": "From the middle, tiny steps of PPO end near the edge of the blue shape. "
        "Where do ten long steps end?",
        "options": ["Near the edge, too", "Far outside", "Back at the start"],
        "right": 1,
        "todo": "Then drag the step length.",
        "answer": "Far outside: one long step jumps over the edge, and the clip does not pull it back.",
    },
}


class SimplexStep(NamedTuple):
    """The end point of a method."""

    probs: NDArray[np.float64]  # π_new, (K,)
    ratios: NDArray[np.float64]  # π_new / π_old
    kl: float  # KL(π_old, π_new)
    steps: int  # that moved the policy; for "trpo", the lengths that the line search tried
    stopped: bool  # no gradient was left when the steps ended; False for the methods that take one step
    path: NDArray[np.float64]  # the logits on the way, log π_old first, (steps + 1, K)


def simplex_step(
    method: str,
    old: ArrayLike = _THIRD,
    advantages: ArrayLike = (1.0, 0.0, -1.0),
    *,
    max_kl: float = 0.02,
    clip_eps: float = 0.2,
    length: float = 1.0,
) -> SimplexStep:
    """The step of one method, from a softmax policy in one state, with exact expectations and no sampling.

    The parameters are the logits θ; the surrogate is L(θ) = Σ_a π_old(a) r_a A_a, its gradient g, the Fisher
    matrix F.

        vanilla      θ_old + α g
        natural      θ_old + α F⁺ g
        trpo         θ_old + s √(2δ / xᵀFx) x,   x = F⁺ g;   s: the first of 1, 0.8, 0.8², … with KL ≤ δ
        ppo_small    ascent on the clipped L in steps of 0.001 g, until no gradient is left
        ppo_large    ascent on the clipped L in 10 steps of α g; the first is vanilla's own

    F is singular, as adding one number to all logits changes no policy; F⁺ is its pseudo-inverse, undamped.

    Parameters
    ----------
    method : str
        One of those above.
    old : shape (K,)
        π_old, positive.
    advantages : shape (K,)
        A. Their mean under π_old is subtracted, since an advantage has none.
    max_kl, clip_eps, length : float above 0
        δ, which "trpo" reads; ε, which the PPO methods read; α, which the three others read.

    References
    ----------
    Kakade 2001, "A natural policy gradient"; Schulman et al. 2015, "Trust region policy optimization",
    appendix C; Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7.
    """
    p, a = _policy(old, advantages)
    start, weighted = p.log(), p * a

    # π_old weighs each action, so the sum over actions of the weighted entries is the expectation.
    def surrogate(logits: Tensor, clip: bool = False) -> Tensor:
        logp = logits.log_softmax(0)
        if clip:
            return -clipped_surrogate_loss(
                logp, start, weighted, clip_eps, reduction="constant", denominator=1
            )
        return -surrogate_loss(logp, start, weighted, reduction="constant", denominator=1)

    def slope(logits: Tensor, clip: bool = False) -> Tensor:
        logits = logits.clone().requires_grad_()
        return torch.autograd.grad(surrogate(logits, clip), logits)[0]

    g = slope(start)
    path, stopped = [start], False
    if method == "vanilla":
        path.append(start + length * g)
        tried = 1
    elif method in ("natural", "trpo"):
        x = conjugate_gradient(lambda v: p * v - p * (p @ v), g)
        if method == "natural":
            path.append(start + length * x)
            tried = 1
        else:
            size = math.sqrt(2 * max_kl / max(float(x @ g), 1e-30))

            def gain(logits: Tensor) -> tuple[float, float]:
                return float(surrogate(logits) - surrogate(start)), float(kl_categorical(start, logits))

            found = line_search(gain, start, size * x, max_kl=max_kl)
            path.append(found.parameters)
            tried = found.steps
    else:
        size, most = (_SMALL, _MANY) if method == "ppo_small" else (length, _EPOCHS)
        for _ in range(most):
            step = size * slope(path[-1], clip=True)
            stopped = not bool(step.abs().max() > 1e-12 * size)
            if stopped:
                break
            path.append(path[-1] + step)
        tried = len(path) - 1
    probs = path[-1].softmax(0)
    kl = float(kl_categorical(start, path[-1]))
    return SimplexStep(probs.numpy(), (probs / p).numpy(), kl, tried, stopped, torch.stack(path).numpy())


def trust_region_step(
    old: Sequence[float] = _THIRD,
    advantages: Sequence[float] = (1.0, 0.0, -1.0),
    *,
    max_kl: float = 0.02,
    clip_eps: float = 0.2,
    length: float = 1.0,
    methods: Sequence[str] = METHODS,
) -> Figure:
    """One step of each method from the same policy: who stays in the KL ball, who in the clip region?

    The reader drags the old policy, changes the advantages, δ, ε and the step length, and switches methods on
    and off. In JupyterLab, `widget().steps` holds the numbers on display.

    Parameters
    ----------
    old, advantages : three numbers each
        The policy that they all start from, and the advantages; their mean under `old` is subtracted.
    max_kl : float
        δ, where its slider starts: one of 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2.
    clip_eps : float from 0.05 to 0.5
        ε, where its slider starts.
    length : float
        α, the step length of vanilla policy gradient, natural gradient and large PPO steps, where its slider
        starts: one of 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 30.
    methods : names out of "vanilla", "natural", "trpo", "ppo_small", "ppo_large"
        Those that the figure has. Without a PPO method there is neither a clip region nor a slider for ε.
    """
    p, a = (tensor.tolist() for tensor in _policy(old, advantages))
    methods = [method for method in METHODS if method in methods]
    others = [(preset, shown) for preset, shown in _PRESETS if not np.allclose((preset, shown), (p, a))]
    presets = [{"old": list(p_old), "advantages": list(shown)} for p_old, shown in [(p, a), *others]]
    found = {
        method: simplex_step(method, p, a, max_kl=max_kl, clip_eps=clip_eps, length=length)
        for method in methods
    }
    state = {
        "ask": _ASKS["ppo_large" if "ppo_large" in methods else "trpo"],
        "presets": presets,
        "preset": 0,
        "old": p,
        "advantages": a,
        "max_kl": max_kl,
        "clip_eps": clip_eps,
        "length": length,
        "methods": methods,
        "deltas": _DELTAS,
        "lengths": _LENGTHS,
        "eps_range": _EPS,
        "small": [_SMALL, _MANY],
        "epochs": _EPOCHS,
        # Rounded so that machines agree on the stored digits.
        "steps": {
            method: {
                "ratios": step.ratios.round(9).tolist(),
                "kl": round(step.kl, 9),
                "steps": step.steps,
                "stopped": step.stopped,
            }
            for method, step in found.items()
        },
    }
    settings = {"max_kl": max_kl, "clip_eps": clip_eps, "length": length}
    return Figure(
        "simplex",
        state,
        alt=_alt(p, a, found, settings),
        height=3.75 + 0.25 * len(found),
        still=lambda picture: _still(picture, np.array(p), found, settings),
    )


def _policy(old: ArrayLike, advantages: ArrayLike) -> tuple[Tensor, Tensor]:
    p = torch.as_tensor(np.asarray(old, dtype=np.float64))
    a = torch.as_tensor(np.asarray(advantages, dtype=np.float64))
    p = p / p.sum()
    a = a - p @ a
    # What is left of a mean of 0 is rounding, and would give an action of advantage 0 a sign.
    return p, torch.where(a.abs() < 1e-12, 0.0, a)


_NAMES = {
    "vanilla": "vanilla policy gradient",
    "natural": "natural gradient",
    "trpo": "TRPO",
    "ppo_small": "PPO-clip, tiny steps",
    "ppo_large": "PPO-clip, steps of α",
}


def _triple(numbers: Sequence[float] | NDArray[np.float64]) -> str:
    return "(" + ", ".join(f"{x:.2f}".replace("-", "−") for x in numbers) + ")"


def _alt(p: list[float], a: list[float], found: dict[str, SimplexStep], settings: dict[str, float]) -> str:
    low, high = 1 - settings["clip_eps"], 1 + settings["clip_eps"]
    ends = []
    for method, step in found.items():
        ball = "inside" if step.kl <= settings["max_kl"] + 1e-12 else "outside"
        text = (
            f"{_NAMES[method]} ends at ratios {_triple(step.ratios)} with KL {step.kl:.4f}, {ball} the ball"
        )
        if method.startswith("ppo"):
            # With the digits that are shown: a small step ends a hair beyond the end of the region.
            out = max(step.ratios) > high + 5e-4 or min(step.ratios) < low - 5e-4
            text += " and outside the region" if out else " and inside the region"
        if method == "ppo_small" and step.stopped:
            text += ", where no gradient is left"
        ends.append(text)
    sides = len(_box(np.array(p), settings["clip_eps"]))
    box = f"A shape with {sides} straight sides is the clip region, all ratios from {low:g} to {high:g}."
    return f"""
        The simplex of policies over three actions, and a close-up around the old policy {_triple(p)}. The
        advantages are {_triple(a)}. An oval curve is the KL ball, KL(old, new) ≤ {settings["max_kl"]:g}.
        {box if any(method.startswith("ppo") for method in found) else ""} Steps of length
        {settings["length"]:g}: {"; ".join(ends)}.
    """


# Corners of the simplex in the plane: action 1 on top, 2 at the lower left, 3 at the lower right.
_CORNERS = np.array([[0.5, math.sqrt(3) / 2], [0.0, 0.0], [1.0, 0.0]])
_LOOKS = {
    "vanilla": ("vanilla", "-", "o"),
    "natural": ("ink", (0, (7, 2, 1.5, 2)), "s"),
    "trpo": ("trpo", "-", "D"),
    "ppo_small": ("ppo", "-", "^"),
    "ppo_large": ("ppo", (0, (2, 1.5)), "v"),
}


def _ball(p: NDArray[np.float64], max_kl: float) -> NDArray[np.float64]:
    """The curve KL(p, ·) = δ, by bisection on rays from p; shape (points, 3)."""
    logp = np.log(p)
    points = []
    for angle in np.linspace(0, 2 * np.pi, 181):
        ray = np.array([2.0, -1.0, -1.0]) * math.cos(angle) + np.array([0.0, 1.7, -1.7]) * math.sin(angle)
        far = min(-p[k] / ray[k] for k in range(3) if ray[k] < 0)
        low, high = 0.0, far * (1 - 1e-12)
        for _ in range(60):
            middle = (low + high) / 2
            inside = kl_categorical(logp, np.log(p + middle * ray)) <= max_kl
            low, high = (middle, high) if inside else (low, middle)
        points.append(p + low * ray)
    return np.array(points)


def _box(p: NDArray[np.float64], clip_eps: float) -> NDArray[np.float64]:
    """Corners of the clip region: the simplex, bounded by ρ_k ≥ 1 − ε and ρ_k ≤ 1 + ε for each action k."""
    corners = list(np.eye(3))
    low, high = 1 - clip_eps, 1 + clip_eps
    for k in range(3):
        for sign, bound in ((1, low * p[k]), (-1, -high * p[k])):
            kept: list[NDArray[np.float64]] = []
            for i, here in enumerate(corners):
                before = corners[i - 1]
                d0, d1 = sign * before[k] - bound, sign * here[k] - bound
                if (d0 < 0) != (d1 < 0):
                    kept.append(before + (here - before) * d0 / (d0 - d1))
                if d1 >= 0:
                    kept.append(here)
            corners = kept
    return np.array(corners)


def _still(
    picture: Picture, p: NDArray[np.float64], found: dict[str, SimplexStep], settings: dict[str, float]
) -> None:
    whole, near = picture.subplots(1, 2)
    ball, box = _ball(p, settings["max_kl"]), _box(p, settings["clip_eps"])
    clipped = any(method.startswith("ppo") for method in found)
    centre = p @ _CORNERS
    shapes = [ball, box] if clipped else [ball]
    reach = 1.45 * max(float(np.abs(shape @ _CORNERS - centre).max()) for shape in shapes)
    for ax in (whole, near):
        ax.fill(*_CORNERS.T, fc="none", ec=style.colour("muted"), lw=1.2)
        ax.fill(*(ball @ _CORNERS).T, fc=style.colour("trpo"), ec=style.colour("trpo"), alpha=0.22, lw=0)
        ax.plot(*(ball @ _CORNERS).T, color=style.colour("trpo"), lw=1.4)
        if clipped:
            ax.fill(*(box @ _CORNERS).T, fc="none", ec=style.colour("ppo"), lw=1.4)
        for method, step in found.items():
            _draw(ax, method, step)
        ax.plot(*centre, "o", ms=9, mfc="white", mec=style.colour("ink"), mew=1.6, zorder=6)
        ax.set_aspect("equal")
        ax.axis("off")
    for k, (dx, dy) in enumerate([(0.0, 0.05), (0.02, -0.1), (-0.02, -0.1)]):
        x, y = _CORNERS[k] + (dx, dy)
        whole.text(x, y, f"action {k + 1}", ha="center", fontsize=12)
    whole.add_patch(_frame(centre, reach))
    whole.set(xlim=(-0.16, 1.16), ylim=(-0.23, 1.09))
    whole.set_title("all policies", fontsize=13)
    near.set(xlim=(centre[0] - reach, centre[0] + reach), ylim=(centre[1] - reach, centre[1] + reach))
    near.add_patch(_frame(centre, reach * 0.995))
    near.set_title("close to the old one", fontsize=13)
    handles = [_handle(method, step) for method, step in found.items()]
    picture.legend(handles=handles, loc="outside lower left", fontsize=11.5, handlelength=2.6)


def _frame(centre: NDArray[np.float64], reach: float) -> Any:
    from matplotlib.patches import Rectangle

    corner = (centre[0] - reach, centre[1] - reach)
    look: dict[str, Any] = {"fc": "none", "ec": style.colour("muted"), "lw": 0.9, "ls": (0, (1, 2))}
    return Rectangle(corner, 2 * reach, 2 * reach, **look)


def _draw(ax: Axes, method: str, step: SimplexStep) -> None:
    hue, dashes, marker = _LOOKS[method]
    if method in ("vanilla", "natural", "trpo"):
        # One step in the logits, which is a curve among the probabilities.
        logits = step.path[0] + np.linspace(0, 1, 60)[:, None] * (step.path[-1] - step.path[0])
    else:
        logits = step.path
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    line = probs / probs.sum(axis=1, keepdims=True) @ _CORNERS
    wide = 4.5 if method == "vanilla" else 2.0
    hue = style.colour(hue)
    ax.plot(*line.T, color=hue, lw=wide, ls=dashes, clip_on=True, zorder=3, solid_capstyle="butt")
    # Vanilla's and the first large PPO step are one: the mark below must show around the one above.
    big = 12 if method == "vanilla" else 8.5
    ax.plot(*line[-1], marker, color=hue, ms=big, mec="white", mew=1.0, zorder=5, clip_on=True)


def _handle(method: str, step: SimplexStep) -> Any:
    from matplotlib.lines import Line2D

    hue, dashes, marker = _LOOKS[method]
    label = f"{_NAMES[method]}: ρ = {_triple(step.ratios)}, KL {step.kl:.4f}"
    return Line2D(
        [], [], color=style.colour(hue), ls=dashes, marker=marker, ms=8, mec="white", lw=2, label=label
    )
