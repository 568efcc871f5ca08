"""Draw groups of completions: their rewards, their advantages in GRPO, and how often a group is dead."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ppobook.language.grpo import group_advantages
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike, NDArray

_SIZES = (4, 8, 16, 64)


class GroupDrawn(NamedTuple):
    """The result of `group_drawn`."""

    mean: float
    std: float  # with G − 1 in the denominator
    advantages: NDArray[np.float64]
    dead: bool  # all rewards are equal


def group_drawn(rewards: ArrayLike, *, divided: bool = False) -> GroupDrawn:
    """Compute the advantages of one group, R − mean, or (R − mean) / std if `divided`."""
    r = torch.as_tensor(np.asarray(rewards, dtype=np.float64))
    advantages = group_advantages(r, len(r), scale="group" if divided else "none", eps=0.0)
    return GroupDrawn(r.mean().item(), r.std().item(), advantages.numpy(), bool((r == r[0]).all()))


def dead_share(p: float, group_size: int) -> float:
    """Compute the probability that all completions of a group are right, or all are wrong."""
    return p**group_size + (1 - p) ** group_size


def groups(seed: int) -> Iterator[list[float]]:
    """Yield the groups that the figure draws: a completion is right if its number is below p.

    Each group has numbers for the largest size. The generator is that of `kit.js`, mulberry32.
    """
    state, whole = seed, 0xFFFFFFFF
    while True:
        group = []
        for _ in range(_SIZES[-1]):
            state = (state + 0x6D2B79F5) & whole
            t = ((state ^ (state >> 15)) * (state | 1)) & whole
            t ^= (t + (t ^ (t >> 7)) * (t | 61)) & whole
            group.append((t ^ (t >> 14)) / 2**32)
        yield group


def group_explorer(p: float = 0.3, group_size: int = 8, *, seed: int = 28) -> Figure:
    """Draw a group: rewards, mean and advantages, and the share of dead groups against p.

    The reader chooses the probability that a completion is right, the size of the group, and whether its
    advantages are divided by the standard deviation. In JupyterLab, `widget().drawn` holds the numbers on
    display.

    Parameters
    ----------
    p : float in [0, 1]
        The probability where the slider starts.
    group_size : 4, 8, 16 or 64
    seed : int
        Decides which groups are drawn.
    """
    (first,) = islice(groups(seed), 1)
    rewards = [float(u < p) for u in first[:group_size]]
    found = group_drawn(rewards)
    alt = f"""
        Two panels. Left, a group of {group_size} completions of one prompt, {sum(rewards):.0f} of which are
        right: its mean reward is {found.mean:.3g}, so a right completion has the advantage
        {found.advantages.max():.3g} and a wrong one −{-found.advantages.min():.3g}. Right, the share of dead
        groups, in which all rewards are equal, against the probability p of a right completion. The curve
        starts and ends at 1 and is near 0 in the middle. For groups of {group_size}, it is
        {dead_share(0.05, group_size):.2f} at p = 0.05 and at p = 0.95.
    """
    state = {
        "sizes": _SIZES,
        "seed": seed,
        "p": p,
        "group_size": group_size,
        "divided": False,
        "drawn": {"mean": found.mean, "std": found.std, "dead": 0, "groups": 1},
    }
    return Figure("group", state, alt=alt, height=3.75, still=lambda picture: _still(picture, rewards, p))


def _still(picture: Picture, rewards: list[float], p: float) -> None:
    left, right = picture.subplots(1, 2)
    _draw_group(left, rewards)
    size, ps = len(rewards), np.linspace(0, 1, 201)
    for other, hue, height in ((64, "muted", 0.4), (size, "grpo", 0.52)):
        right.plot(ps, [dead_share(x, other) for x in ps], color=style.colour(hue))
        right.text(0.5, height, f"G = {other}", ha="center", color=style.colour(hue, "text"), fontsize=12)
    right.plot(p, dead_share(p, size), "o", ms=9, color=style.colour("grpo"))
    right.set(title="share of dead groups", xlabel="p", ylim=(-0.02, 1.02))


def _draw_group(ax: Axes, rewards: list[float]) -> None:
    found = group_drawn(rewards)
    for i, (reward, advantage) in enumerate(zip(rewards, found.advantages, strict=True)):
        hue = style.colour("good" if reward else "bad")
        ax.bar(i, advantage, 0.7, color=hue)
        ax.plot(i, 1.2, "o" if reward else "x", ms=8, mew=2.4, color=hue)
    ax.axhline(0, color=style.colour("ink"), lw=1)
    ax.set(title=f"{sum(rewards):.0f} of {len(rewards)} are right", ylabel="advantage", ylim=(-0.8, 1.5))
    ax.set(xticks=[], yticks=[-0.5, 0, 0.5, 1], xlabel="completions of one prompt")
    ax.grid(visible=False, axis="x")
