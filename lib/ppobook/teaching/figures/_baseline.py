"""E3: what subtracting a baseline does to a single-sample policy gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, annotate, arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike, NDArray

# Bandits that the reader can switch to: one where the two special baselines are far apart, one whose
# baseline is small beside the best reward.
_OTHERS = (
    ("The same arms, nearly always arm 1", (0.9, 0.06, 0.04), (11.0, 10.0, 9.0)),
    ("Only arm 1 pays: 20, 0 and 0", (0.2, 0.3, 0.5), (20.0, 0.0, 0.0)),
)


def single_pull(
    probs: ArrayLike, rewards: ArrayLike, baseline: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """The policy-gradient estimate from one pull of a bandit with a softmax policy: exact mean and spread.

        g(a) = (r_a − b) ∇ log π(a),    ∇ log π(a) = e_a − π   by the logits

    Parameters
    ----------
    probs, rewards : shape (K,)
        π, and what each arm pays, always the same.
    baseline : float
        b, in the unit of the rewards.

    Returns
    -------
    estimates : shape (K, K)
        Row a is g(a), the estimate of someone who pulled arm a.
    mean : shape (K,)
        E[g], the exact gradient, whatever the baseline.
    spread : float
        √E‖g − E[g]‖², how far a single estimate lies from the exact gradient.
    """
    probs, rewards = _bandit(probs, rewards)
    score = np.eye(len(probs)) - probs
    estimates = score * (rewards - baseline)[:, None]
    mean = probs @ estimates
    spread = math.sqrt(probs @ ((estimates - mean) ** 2).sum(axis=1))
    return estimates, mean, spread


def best_baseline(probs: ArrayLike, rewards: ArrayLike) -> float:
    """The constant baseline with the least spread: the mean reward, weighted by the squared length of the
    score.

        b* = E[‖∇ log π(a)‖² r_a] / E[‖∇ log π(a)‖²]

    References
    ----------
    Greensmith, Bartlett and Baxter 2004, "Variance reduction techniques for gradient estimates in
    reinforcement learning", which treats the constant baseline before the one that depends on the state.
    """
    probs, rewards = _bandit(probs, rewards)
    weight = probs * ((np.eye(len(probs)) - probs) ** 2).sum(axis=1)
    return float(weight @ rewards / weight.sum())


def baseline(
    probs: Sequence[float] = (0.2, 0.3, 0.5),
    rewards: Sequence[float] = (11.0, 10.0, 9.0),
    baseline: float = 0.0,
) -> Figure:
    """Slide the baseline: the estimates of a single pull shrink or grow, and their mean stays.

    Parameters
    ----------
    probs, rewards : three numbers each
        A bandit with three arms, since the three estimates then lie in a plane that can be drawn.
    baseline : float
        Where the slider starts.
    """
    probs, rewards = (x.tolist() for x in _bandit(probs, rewards))
    listed = ", ".join(f"{reward:g}" for reward in rewards[:-1]) + f" and {rewards[-1]:g}"
    bandits = [_state(f"Three arms pay {listed}", probs, rewards)]
    bandits += [_state(*other) for other in _OTHERS if other[1:] != (tuple(probs), tuple(rewards))]
    first = bandits[0]

    at_zero, at_expected, best_spread = (
        single_pull(probs, rewards, b)[2] for b in (0.0, first["expected"], first["best"])
    )
    alt = f"""
        Three arrows, one for each arm: the policy gradient as a single sample of that arm estimates it.
        Without a baseline all three are long and each pushes its own arm up; one estimate lies {at_zero:.2f}
        from the exact gradient. With the expected reward, {first["expected"]:.2f}, as baseline the arrows are
        short, some arms are pushed up and others down, and the distance is {at_expected:.2f}. A curve of this
        distance against the baseline has its lowest point, {best_spread:.2f}, at {first["best"]:.2f}. The
        exact gradient is the same for every baseline.
    """
    ask = {
        "asks": f"Subtract the average reward, {first['expected']:g}, from every reward. "
        "Where does the dot, the average of many samples, go? The magnifier shows it best.",
        "options": ["To 0", "It stays", "Farther out"],
        "right": 1,
        "todo": f"Then drag the baseline to {first['expected']:g}.",
        "answer": "The dot stays. The arrows shrink and one turns, so a sample is less noisy.",
    }
    state = {
        "ask": ask,
        "baseline": baseline,
        "bandit": 0,
        "bandits": bandits,
        "seed": 0,
        "pulls": 20,
        "learners": 40,
    }
    return Figure("baseline", state, alt=alt, height=6.2, still=lambda picture: _still(picture, first))


def _bandit(probs: ArrayLike, rewards: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    probs, rewards = np.asarray(probs, dtype=np.float64), np.asarray(rewards, dtype=np.float64)
    return probs, rewards


def _state(name: str, probs: Sequence[float], rewards: Sequence[float]) -> dict[str, Any]:
    """All that the script needs about one bandit, rounded so that machines agree on the stored digits."""
    expected = float(np.dot(probs, rewards))
    low = float(min(0, math.floor(min(rewards))))
    high = float(max(math.ceil(2 * expected), math.ceil(max(rewards)) + 1))
    grid = np.linspace(low, high, 101)
    return {
        "name": name,
        "probs": list(probs),
        "rewards": list(rewards),
        "mean": [round(float(entry), 9) for entry in single_pull(probs, rewards, 0.0)[1]],
        "expected": round(expected, 9),
        "best": round(best_baseline(probs, rewards), 9),
        "range": [low, high],
        "step": 10.0 ** math.floor(math.log10((high - low) / 100)),
        "grid": [round(float(b), 9) for b in grid],
        "spread": [round(single_pull(probs, rewards, float(b))[2], 9) for b in grid],
    }


# The estimates sum to zero over the arms, so three of them lie in a plane. Seen along (1, 1, 1), the three
# logits point up, to the lower right and to the lower left, and lengths are true.
_ANGLES = np.deg2rad([90.0, -30.0, 210.0])
_PLANE = np.sqrt(2 / 3) * np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])


def _still(picture: Picture, bandit: dict[str, Any]) -> None:
    axes = picture.subplot_mosaic([["none", "expected"], ["curve", "curve"]], height_ratios=[1.25, 1])
    _draw_plane(axes["none"], bandit, 0.0)
    _draw_plane(axes["expected"], bandit, bandit["expected"])

    ax = axes["curve"]
    ax.plot(bandit["grid"], bandit["spread"], color=style.colour("vanilla"))
    for b in (0.0, bandit["expected"]):
        spread = single_pull(bandit["probs"], bandit["rewards"], b)[2]
        ax.plot(b, spread, "o", ms=9, color=style.colour("vanilla"))
    ax.axvline(bandit["expected"], color=style.colour("muted"), lw=1, ls=":")
    annotate(ax, "average reward", (bandit["expected"], ax.get_ylim()[1]), (5, -4), va="top")
    ax.set(xlabel="baseline", ylim=(0, None), xlim=bandit["range"])
    ax.set_title("how far one sample's estimate lies from the exact gradient", fontsize=13)


def _draw_plane(ax: Axes, bandit: dict[str, Any], b: float) -> None:
    estimates, mean, spread = single_pull(bandit["probs"], bandit["rewards"], b)
    reach = 1.12 * max(
        np.linalg.norm(single_pull(bandit["probs"], bandit["rewards"], end)[0], axis=1).max()
        for end in bandit["range"]
    )
    centre = _PLANE @ mean
    ring = np.linspace(0, 2 * np.pi, 200)
    x, y = centre[0] + spread * np.cos(ring), centre[1] + spread * np.sin(ring)
    ax.fill(x, y, color=style.colour("vanilla"), alpha=0.18, lw=0)
    for estimate in single_pull(bandit["probs"], bandit["rewards"], 0.0)[0]:
        # The estimates without a baseline, for comparison.
        ax.plot(*np.outer(_PLANE @ estimate, [0, 1]), color=style.colour("muted"), lw=1.4, alpha=0.5)
    for arm, estimate in enumerate(estimates):
        kind = "good" if bandit["rewards"][arm] > b else "bad"
        # A short arrow gets a small head, or nothing of it would be seen but the head.
        head = 14 * min(1.0, float(np.linalg.norm(estimate)) / (0.25 * reach))
        lw = 2.4 if head == 14 else 1.6
        arrow(ax, _PLANE @ estimate, style.colour(kind), lw, mutation_scale=head)
        direction = _PLANE[:, arm] / np.linalg.norm(_PLANE[:, arm])
        ax.plot(*np.outer(direction, [0, reach]), color=style.colour("faint"), lw=1, zorder=0)
        x, y = direction * reach * 1.16
        ax.text(x, y, f"arm {arm + 1}", ha="center", va="center", fontsize=12, zorder=5)
    ax.plot(*centre, "o", color=style.colour("truth"), ms=6, mec="white", zorder=6)
    ax.set(xlim=(-1.3 * reach, 1.3 * reach), ylim=(-0.95 * reach, 1.35 * reach), aspect="equal")
    if spread < 0.1 * reach:
        _draw_lens(ax, bandit, b, centre, 0.1 * reach)
    ax.set_title(f"baseline {b:.3g}: spread {spread:.2f}", fontsize=13)
    ax.axis("off")


def _draw_lens(ax: Axes, bandit: dict[str, Any], b: float, centre: Any, half: float) -> None:
    """Arrows that are too short to be seen, once more and larger."""
    lens = ax.inset_axes((0.62, 0.6, 0.4, 0.4))
    for reward, estimate in zip(
        bandit["rewards"], single_pull(bandit["probs"], bandit["rewards"], b)[0], strict=True
    ):
        arrow(lens, _PLANE @ estimate, style.colour("good" if reward > b else "bad"), 2.0, mutation_scale=11)
    lens.plot(*centre, "o", color=style.colour("truth"), ms=5, mec="white", zorder=6)
    lens.set(xlim=centre[0] + np.array([-half, half]), ylim=centre[1] + np.array([-half, half]))
    lens.set(aspect="equal", xticks=(), yticks=())
    lens.set_xlabel("the same, larger", fontsize=11)
