"""Groups of recorded answers to a prompt: each answer's reward, and the mean of its group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from numpy.typing import ArrayLike


def group_answers(
    answers: Mapping[str, tuple[str, Sequence[str], ArrayLike]], *, size: int = 8, start: int = 0
) -> Figure:
    """Draw groups of a policy's answers, and compare each reward with the mean of its group.

    Parameters
    ----------
    answers : mapping of str to (str, sequence of str, array)
        From the easiest prompt to the hardest: what kind of prompt it is, its answers, and their rewards,
        which are 0 or 1.
    size : int
        The number of answers in a group. It divides the number of answers.
    start : int
        The prompt that is shown first.
    """
    prompts = [
        {
            "prompt": prompt,
            "level": level,
            "texts": list(texts),
            "right": "".join(str(int(reward)) for reward in np.asarray(rewards)),
        }
        for prompt, (level, texts, rewards) in answers.items()
    ]
    first = prompts[start]
    texts, rewards = first["texts"][:size], np.array([float(x) for x in first["right"][:size]])
    mean = rewards.mean()
    alt = f"""
        A group of {size} answers to the prompt “{first["prompt"]}”, one below the other, {rewards.sum():.0f}
        of them right. A line marks the mean reward of the group, {mean:.3g}. A bar runs from the line to each
        answer's reward, to the right if the answer is right and to the left if it is wrong. Its length is the
        advantage: {1 - mean:.3g} for a right answer, −{mean:.3g} for a wrong one.
    """
    state = {"prompts": prompts, "size": size, "prompt": start, "group": 0}
    return Figure(
        "answers",
        state,
        alt=alt,
        height=3.75,
        still=lambda picture: _still(picture, str(first["prompt"]), texts, rewards),
    )


def _still(picture: Picture, prompt: str, texts: Sequence[str], rewards: np.ndarray) -> None:
    ax, mean = picture.subplots(), rewards.mean()
    for row, reward in enumerate(rewards):
        hue = style.colour("good" if reward else "bad")
        ax.plot([mean, reward], [row, row], color=hue, linewidth=5, solid_capstyle="butt")
        ax.plot(reward, row, "o" if reward else "X", markersize=11, color=hue)
        ax.text(1.08, row, f"{reward - mean:+.2f}".replace("-", "−"), va="center", fontsize=12)
    ax.axvline(mean, color=style.colour("grpo"), linewidth=3)
    ax.text(mean, -0.9, f"mean {mean:.2f}", ha="center", color=style.colour("grpo", "text"), fontsize=12)
    ax.text(1.08, -0.9, "advantage", fontsize=12)
    ax.set(xlim=(-0.06, 1.3), ylim=(len(rewards) - 0.4, -0.6), xticks=(0, 1), xlabel="reward")
    ax.set_yticks(range(len(rewards)), [f"{prompt} {text}" for text in texts])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[["left", "bottom"]].set_visible(False)
