"""Vanilla policy gradient: REINFORCE, with reward-to-go, a baseline, a learned value.

    repeat
        play some episodes with the policy π_θ
        weigh each action:      Ψ_t = what followed it − what was expected
        step uphill:            θ ← θ + lr · mean of Ψ_t ∇ log π_θ(a_t | s_t)
        with a critic, move V(s_t) towards what followed

Chapter 1 of the book derives it. What it does on CartPole, and how it collapses, is recorded in
``ppobook.results("vanilla_cartpole")`` and ``ppobook.results("vanilla_collapse")``.

Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning";
Sutton, McAllester, Singh and Mansour 2000, "Policy gradient methods for reinforcement learning with function
approximation".
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from ppobook import training
from ppobook.diagnostics import explained_variance, normalize
from ppobook.objectives import policy_gradient_loss, value_loss
from ppobook.returns import discounted_returns
from ppobook.rollouts import Collector, Rollout
from ppobook.training import Learner, gradient_step, setting

OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}

# Picked on seeds 0 to 4, by what a few rivals did there.
PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"num_envs": 8, "num_steps": 128, "lr": 3e-3, "value_lr": 3e-3, "value_epochs": 20},
    "ppobook/Chain-v0": {"num_steps": 32, "lr": 0.1, "value_lr": 0.1, "gamma": 0.95},
    "ppobook/Gridworld-v0": {"num_steps": 32, "lr": 0.1, "value_lr": 0.1, "gamma": 0.95},
}


@dataclass(frozen=True)
class Settings(training.Settings):
    """The settings of vanilla policy gradient, and their defaults."""

    weight: str = setting(
        "reward_to_go",
        "what followed an action: its whole episode, or what came after",
        choices=("return", "reward_to_go"),
    )
    baseline: str = setting(
        "value",
        "what was expected: nothing, the batch's mean, or a learned V(s)",
        choices=("none", "mean", "value"),
    )
    optimizer: str = setting("adam", "of policy and critic", choices=tuple(OPTIMIZERS))
    lr: float = setting(3e-3, "learning rate of the policy", above=0, high=1e37)
    epochs: int = setting(1, "gradient steps on one batch; only the first is on the policy's own data", low=1)
    entropy_coef: float = setting(0.0, "weight of an entropy bonus", low=0)
    normalize_advantages: bool = setting(
        False, "shift and scale the weights of a batch to mean 0, deviation 1"
    )
    value_lr: float = setting(3e-3, "learning rate of the critic", above=0, high=1e37)
    value_epochs: int = setting(20, "gradient steps of the critic on one batch", low=1)


class Vanilla(Learner):
    """Vanilla policy gradient.

    **Where a batch stops.** With a critic every environment takes `num_steps` steps, and V stands for what
    was not seen: after the last step, and after an episode that a time limit cut. Without one nothing can
    stand for it, so each environment plays whole episodes, from a reset, until it has `num_steps`
    (`collect_episodes`). An episode that a time limit cut then counts for what it earned: what is learned
    is to do well within the limit.

    **What it estimates.** The weight "return" gives, on average, the gradient of the discounted return J.
    The weight "reward_to_go" varies less. As everywhere in practice its steps are not weighted by γ^t, so
    for γ < 1 it gives Σ_t E[∇ log π(a_t | s_t) Q(s_t, a_t)], where late steps count as much as early ones;
    for γ = 1 the two agree. A loss is a mean over steps, so all this is divided by the length of an
    episode. The "mean" of a batch contains the very returns that it is subtracted from, which shortens the
    gradient by a factor of about 1 − 1/K for K episodes.
    """

    algorithm = "vanilla"
    settings_class = Settings
    presets = PRESETS
    remembers = ("policy", "value", "policy_optimizer", "value_optimizer")

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: Settings, **kwargs: Any
    ) -> None:
        super().__init__(
            observation_space, action_space, settings, critic=settings.baseline == "value", **kwargs
        )
        make = OPTIMIZERS[settings.optimizer]
        self.policy_optimizer = make(self.policy.parameters(), lr=settings.lr)
        self.value_optimizer = None
        if self.value is not None:
            self.value_optimizer = make(self.value.parameters(), lr=settings.value_lr)

    def collect(self, collector: Collector) -> Rollout:
        if self.value is None:
            return training.collect_episodes(collector, self.settings.num_steps)
        return super().collect(collector)

    def used(self, rollout: Rollout) -> Tensor | None:
        return training.whole_episodes(rollout, self.settings.num_steps) if self.value is None else None

    def weigh(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """What followed each action, what was expected, and the weight Ψ of its score; each [N, T]."""
        s, used = self.settings, self.used(rollout)
        rewards, terminated, truncated = rollout.rewards, rollout.terminated, rollout.truncated
        if self.value is not None:
            expected, last_values, final_values = training.critic_values(self.value, rollout)
        else:
            expected, last_values, final_values = torch.zeros_like(rewards), None, None
        followed = discounted_returns(
            rewards, terminated, truncated, gamma=s.gamma, last_values=last_values, final_values=final_values
        )
        psi = followed - expected
        if s.weight == "return":  # every action of an episode is credited with all of it
            psi = psi.gather(1, training.episode_starts(rollout))
        if s.baseline == "mean":
            psi = psi - training.mean(psi, used)
        if s.normalize_advantages:
            psi = normalize(psi, used)
        return followed, expected, psi

    def update(self, rollout: Rollout) -> dict[str, float]:
        s, used = self.settings, self.used(rollout)
        observations, actions = rollout.observations, rollout.actions
        followed, expected, psi = self.weigh(rollout)

        losses, norms = [], []
        for _ in range(s.epochs):
            loss = policy_gradient_loss(self.policy.logp(observations, actions), psi, mask=used)
            losses.append(loss.item())
            if s.entropy_coef:
                loss = loss - s.entropy_coef * training.mean(self.policy.entropy(observations), used)
            norms.append(gradient_step(self.policy_optimizer, loss))
        metrics = {"policy_loss": fmean(losses), "grad_norm": fmean(norms)}

        if self.value is not None and self.value_optimizer is not None:
            losses = []
            for _ in range(s.value_epochs):
                loss = value_loss(self.value(observations), followed)
                losses.append(loss.item())
                gradient_step(self.value_optimizer, loss)
            metrics["value_loss"] = fmean(losses)
            metrics["explained_variance"] = float(explained_variance(expected, followed))
        return metrics
