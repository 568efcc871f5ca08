"""Proximal policy optimization: several epochs over a batch, each step kept near the policy that sampled.

    repeat
        run π_old for T steps in N environments, and record log π_old(a_t | s_t)
        advantages Â_t by GAE; targets for the critic, Â_t + V(s_t)
        for each of K epochs, for each minibatch of the N T steps, in a random order
            ρ_t = π_θ(a_t | s_t) / π_old(a_t | s_t)
            step up   mean of min(ρ_t Â_t, clip(ρ_t, 1 − ε, 1 + ε) Â_t)
                      − c_v ½ (V − target)² + c_e H

Or, in place of the clip, ρ_t Â_t − β KL(π_old, π_θ), with β fixed or adapted (`objective`).

Schulman, Wolski, Dhariwal, Radford and Klimov 2017, "Proximal policy optimization algorithms", algorithm 1.
"""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor

from ppobook.adaptive_kl import AdaptiveKLCoefficient
from ppobook.batches import Batch
from ppobook.diagnostics import explained_variance, normalize
from ppobook.learner import ActorCritic, gradient_step
from ppobook.objectives import ppo_loss
from ppobook.policies import together
from ppobook.presets import PRESETS
from ppobook.rollouts import Rollout
from ppobook.run.metrics import means
from ppobook.run.rates import scale_rates
from ppobook.settings import PPOSettings


class PPO(ActorCritic):
    """Proximal policy optimization, with the settings of `PPOSettings`.

    **To extend it**, override one of three methods: `networks` makes policy and critic, `advantages` returns
    advantages, returns and values of a rollout, `loss` returns what a gradient step on a minibatch minimizes.

    **Where things happen.** Advantages are normalized over each minibatch by default. The loss's diagnostics
    and grad_norm are logged as means over all gradient steps of all epochs (the loss's approx_kl as
    minibatch_kl); entropy, approx_kl and kl are of the policy after the update.

    **value_coef** multiplies half a squared error. Stable-Baselines3 leaves the half out, so its vf_coef of
    0.5 is a value_coef of 1 here.

    Attributes
    ----------
    old_policy : policy
        π_old, a copy of the policy as it was before the update. It is there with a KL penalty, and where the
        class sets `keeps_old_policy`.
    """

    algorithm = "ppo"
    settings_class = PPOSettings
    presets = PRESETS["ppo"]
    state_attributes = (*ActorCritic.state_attributes, "optimizer", "kl_coef")
    keeps_old_policy: ClassVar[bool] = False

    settings: PPOSettings
    old_policy: Any = None

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: PPOSettings, **kwargs: Any
    ) -> None:
        super().__init__(observation_space, action_space, settings, **kwargs)
        target = settings.kl_target if settings.objective == "adaptive_kl" else None
        self.kl_coef = AdaptiveKLCoefficient(settings.kl_coef, target)
        parameters = list(dict.fromkeys([*self.policy.parameters(), *self.value.parameters()]))
        self.optimizer: Any = torch.optim.Adam(parameters, settings.lr, eps=settings.adam_eps, fused=True)

    def update(self, rollout: Rollout) -> dict[str, float]:
        s = self.settings
        advantages, returns, values = self.advantages(rollout)
        per_minibatch = s.normalize_advantages == "minibatch" and s.num_minibatches > 1  # one is the batch
        if s.normalize_advantages != "none" and not per_minibatch:
            advantages = normalize(advantages)
        batch = Batch.of(rollout, advantages, returns, values)
        if s.objective != "clip" or self.keeps_old_policy:
            self.old_policy = copy.deepcopy(self.policy)
        scale_rates(self.optimizer, s.lr, self.scheduled(s.lr, s.lr_final))

        steps = []
        for _ in range(s.epochs):
            for minibatch in batch.minibatches(s.num_minibatches, self.shuffle):
                if per_minibatch:
                    minibatch.advantages = normalize(minibatch.advantages)
                steps.append(self.gradient_step(minibatch))
            if s.max_kl is not None and means(steps[-s.num_minibatches :])["approx_kl"] > s.max_kl:
                break

        metrics = means(steps)
        metrics["minibatch_kl"] = metrics.pop("approx_kl", math.nan)
        metrics |= self.after_update(batch)
        metrics["explained_variance"] = float(explained_variance(values, returns))
        metrics["epochs"] = len(steps) // s.num_minibatches
        metrics["lr"] = float(self.optimizer.param_groups[0]["lr"])
        metrics["clip_eps"] = self.coefficients()["clip_eps"]
        if s.objective != "clip":
            metrics |= {"kl": self.exact_kl(batch), "kl_coef": self.kl_coef.value}
            self.kl_coef.update(metrics["kl"])
        self.update_normalizer(rollout)
        return metrics

    def gradient_step(self, minibatch: Batch) -> dict[str, Any]:
        """Take a step of the optimizer; return the loss's diagnostics, and grad_norm before clipping."""
        loss, diagnostics = self.loss(minibatch)
        grad_norm = gradient_step(self.optimizer, loss, self.settings.max_grad_norm)
        return {**diagnostics, "grad_norm": grad_norm}

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """Return what a gradient step on this minibatch minimizes, and diagnostics for the history."""
        policy, values = together(self.policy, self.value, batch.observations)
        penalty = {}
        if self.settings.objective != "clip":
            with torch.no_grad():
                old_policy = self.old_policy.distribution(batch.observations)
            penalty = {"kl": old_policy.kl(policy), "beta": self.kl_coef.value}
        return ppo_loss(
            policy.logp(batch.actions),
            batch.old_logp,
            batch.advantages,
            values,
            batch.returns,
            policy.entropy(),
            old_values=batch.old_values,
            **self.coefficients(),
            **penalty,
        )

    def coefficients(self) -> dict[str, Any]:
        """Return clip range and weights of the loss, as scheduled for this update."""
        s = self.settings
        clip_eps = self.scheduled(s.clip_eps, s.clip_eps_final)
        return {
            "clip_eps": clip_eps,
            "clip_eps_high": clip_eps if s.clip_eps_high is None else s.clip_eps_high,
            "value_coef": s.value_coef,
            "value_clip_eps": s.value_clip_eps,
            "entropy_coef": self.scheduled(s.entropy_coef, s.entropy_coef_final),
        }

    def scheduled(self, start: float, final: float | None) -> float:
        """Interpolate a setting linearly from `start` to `final` over the run; constant without `final`."""
        return start if final is None else start + (final - start) * self.progress

    @torch.no_grad()
    def exact_kl(self, batch: Batch) -> float:
        """Mean KL(π_old, π_θ) over the batch, from the distributions themselves."""
        old, new = (p.distribution(batch.observations) for p in (self.old_policy, self.policy))
        return old.kl(new).mean().item()

    @property
    def shares_trunk(self) -> bool:
        return self.settings.shared_trunk
