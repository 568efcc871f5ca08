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

from functools import partial
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from ppobook.diagnostics import explained_variance, normalize
from ppobook.episodes import collect_episodes, critic_values, episode_starts, mean, whole_episodes
from ppobook.learner import Learner, gradient_step
from ppobook.objectives import policy_gradient_loss, value_loss
from ppobook.presets import PRESETS
from ppobook.returns import discounted_returns
from ppobook.rollouts import Collector, Rollout
from ppobook.run.metrics import means
from ppobook.settings import VanillaSettings

OPTIMIZERS: dict[str, Any] = {"adam": partial(torch.optim.Adam, fused=True), "sgd": torch.optim.SGD}


class Vanilla(Learner):
    """Vanilla policy gradient.

    **Where a batch stops.** With a critic every environment takes `num_steps` steps, and V stands for what
    was not seen: after the last step, and after a truncated episode. Without one nothing can stand for it, so
    each environment plays whole episodes, from a reset, until it has `num_steps` (`collect_episodes`). A
    truncated episode then counts for what it earned: what is learned is to do well within the limit.

    **What it estimates.** The weight "return" gives, on average, the gradient of the discounted return J.
    The weight "reward_to_go" varies less. As everywhere in practice its steps are not weighted by γ^t, so
    for γ < 1 it gives Σ_t E[∇ log π(a_t | s_t) Q(s_t, a_t)], where late steps count as much as early ones;
    for γ = 1 the two agree. A loss is a mean over steps, so all this is divided by the length of an
    episode. The "mean" of a batch contains the very returns that it is subtracted from; with whole
    returns of K episodes that shortens the expected gradient by the factor 1 − 1/K.
    """

    algorithm = "vanilla"
    settings_class = VanillaSettings
    presets = PRESETS["vanilla"]
    state_attributes = ("policy", "value", "policy_optimizer", "value_optimizer")

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: VanillaSettings, **kwargs: Any
    ) -> None:
        super().__init__(
            observation_space, action_space, settings, critic=settings.baseline == "value", **kwargs
        )
        make = OPTIMIZERS[settings.optimizer]
        self.policy_optimizer = make(self.policy.parameters(), lr=settings.lr)
        self.value_optimizer: Any = None
        if self.value is not None:
            self.value_optimizer = make(self.value.parameters(), lr=settings.value_lr)

    def collect(self, collector: Collector) -> Rollout:
        if self.value is None:
            return collect_episodes(collector, self.settings.num_steps)
        return super().collect(collector)

    def used(self, rollout: Rollout) -> Tensor | None:
        return whole_episodes(rollout, self.settings.num_steps) if self.value is None else None

    def weigh(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """Return what followed each action, what was expected, and the weight Ψ of its score; each [N, T]."""
        s, used = self.settings, self.used(rollout)
        rewards, terminated, truncated = rollout.rewards, rollout.terminated, rollout.truncated
        if self.value is not None:
            expected, last_values, final_values = critic_values(self.value, rollout)
        else:
            expected, last_values, final_values = torch.zeros_like(rewards), None, None
        followed = discounted_returns(
            rewards, terminated, truncated, gamma=s.gamma, last_values=last_values, final_values=final_values
        )
        psi = followed - expected
        if s.weight == "return":  # every action of an episode is credited with all of it
            psi = psi.gather(1, episode_starts(rollout))
        if s.baseline == "mean":
            psi = psi - mean(psi, used)
        if s.normalize_advantages:
            psi = normalize(psi, used)
        return followed, expected, psi

    def update(self, rollout: Rollout) -> dict[str, float]:
        s, used = self.settings, self.used(rollout)
        observations, actions = rollout.observations, rollout.actions
        followed, expected, psi = self.weigh(rollout)

        steps = []
        for _ in range(s.epochs):
            loss = policy_gradient_loss(self.policy.logp(observations, actions), psi, mask=used)
            objective = loss
            if s.entropy_coef:
                objective = loss - s.entropy_coef * mean(self.policy.entropy(observations), used)
            norm = gradient_step(self.policy_optimizer, objective)
            steps.append({"policy_loss": loss, "grad_norm": norm})
        metrics = means(steps)

        if self.value is not None:
            steps = []
            for _ in range(s.value_epochs):
                loss = value_loss(self.value(observations), followed)
                gradient_step(self.value_optimizer, loss)
                steps.append({"value_loss": loss})
            metrics |= means(steps)
            metrics["explained_variance"] = float(explained_variance(expected, followed))
        return metrics
