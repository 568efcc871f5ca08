"""Draw the figures of the sections "On a real model" from the records `results/real_*`.

fig, axes = plt.subplots(1, 3, figsize=(6.4, 2.8)); over_optimization(axes)        chapter 7
fig, axes = plt.subplots(1, 2, figsize=(6.4, 3.0)); methods(axes)                  chapter 8
fig, ax = plt.subplots(figsize=(6.4, 3.0)); elsewhere(ax)                          chapter 10
"""

from typing import Any

import pandas as pd

from ppobook import results
from ppobook.teaching import style

BETAS = {0.0: "vanilla", 0.05: "trpo", 0.2: "ppo"}
METHODS = {"GRPO": "grpo", "PPO": "ppo", "best of n": "vanilla", "online DPO": "dpo"}


def curves(ax: Any, runs: pd.DataFrame, x: str, y: str, name: str, label: str) -> None:
    """Draw each seed thin and the mean over seeds thick, against a column that differs between seeds."""
    for _, run in runs.groupby("seed"):
        ax.plot(run[x], run[y], color=style.colour(name), linewidth=1, alpha=0.4)
    mean = runs.groupby("update")[[x, y]].mean()
    ax.plot(mean[x], mean[y], color=style.colour(name), label=label)


def over_optimization(axes: Any) -> None:
    """Proxy, true reward and KL of PPO against updates, at three β."""
    runs = results("real_rlhf")
    for ax, (column, title) in zip(
        axes, {"proxy": "the reward model's", "points": "the true one", "kl": "KL, nats"}.items(), strict=True
    ):
        for beta, name in BETAS.items():
            curves(ax, runs[runs["kl_coef"] == beta], "update", column, name, f"β {beta:g}")
        ax.set(title=title, xlabel="update")
    style.label_curves(axes[-1])


def sums(ax: Any) -> None:
    """Right answers to held-out one-digit sums during GRPO, greedy and sampled."""
    runs = results("real_sums")
    curves(ax, runs, "update", "greedy", "good", "greedy")
    curves(ax, runs, "update", "sampled", "grpo", "sampled")
    ax.set(xlabel="update", ylabel="right answers", ylim=(0, 1.02), xticks=range(0, 21, 5))
    style.label_curves(ax)


def methods(axes: Any) -> None:
    """Right answers to held-out sums, sampled, against tokens and against CPU minutes."""
    runs = results("real_methods")
    runs["cpu"] /= 60
    for ax, (column, label) in zip(
        axes, {"tokens": "sampled tokens", "cpu": "CPU minutes"}.items(), strict=True
    ):
        for method, name in METHODS.items():
            curves(ax, runs[runs["method"] == method], column, "sampled", name, method)
        ax.set(xlabel=label)
    axes[0].set(ylabel="right, sampled")
    style.label_curves(axes[0])


def elsewhere(ax: Any) -> None:
    """The KL per token that training caused on answers to other questions, for each method."""
    ends = {f"sums, {name}": runs for name, runs in results("real_methods").groupby("method", sort=False)}
    for beta, runs in results("real_rlhf").groupby("kl_coef"):
        ends[f"PPO on a reward model, β {beta:g}"] = runs
    ends["DPO"] = results("real_dpo")
    for place, runs in enumerate(ends.values()):
        some = runs.dropna(subset="elsewhere_sampled").groupby("seed")["elsewhere_sampled"]
        cost = some.first() - some.last()
        ax.scatter(cost, [place] * len(cost), color=style.colour("ppo"), alpha=0.6)
    ax.set(yticks=range(len(ends)), yticklabels=list(ends), xlabel="KL(original, trained) per token, nats")
    ax.invert_yaxis()
