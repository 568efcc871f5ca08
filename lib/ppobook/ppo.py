"""Proximal policy optimization: several epochs over a batch, each step kept near the policy that sampled.

    repeat
        run π_old for T steps in N environments, and record log π_old(a_t | s_t)
        advantages Â_t by GAE; targets for the critic, Â_t + V(s_t)
        for each of K epochs, for each minibatch of the N T steps, in a random order
            r_t = π_θ(a_t | s_t) / π_old(a_t | s_t)
            step up   mean of min(r_t Â_t, clip(r_t, 1 − ε, 1 + ε) Â_t)
                      − c_v ½ (V − target)² + c_e H

Or, in place of the clip, r_t Â_t − β KL(π_old, π_θ), with β fixed or adapted (`objective`).

Schulman, Wolski, Dhariwal, Radford and Klimov 2017, "Proximal policy optimization algorithms", algorithm 1.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ppobook import validation
from ppobook.actor_critic import ActorCritic
from ppobook.adaptive_kl import AdaptiveKLCoefficient
from ppobook.batches import Batch
from ppobook.diagnostics import explained_variance, normalize
from ppobook.divergences import k3
from ppobook.fast import choose
from ppobook.fast.declare import fast_form
from ppobook.learner import RESERVED, finite_norm
from ppobook.objectives import ppo_loss
from ppobook.policies import together
from ppobook.presets import PRESETS
from ppobook.rollouts import Rollout
from ppobook.run.metrics import detached, means, validate_loss
from ppobook.run.rates import scale_rates
from ppobook.settings import PPOSettings

# Columns of the history that `update` fills; a loss must not return them.
_OF_THE_UPDATE = ("lr", "grad_norm", "epochs", "clip_eps", "minibatch_kl", "explained_variance")


class PPO(ActorCritic):
    """Proximal policy optimization, with the settings of `PPOSettings`.

    **To extend it**, override one of three methods: `networks` makes policy and critic, `advantages` returns
    advantages, returns and values of a rollout, `loss` is what a gradient step on a minibatch minimizes.

    **Where things happen.** Advantages are normalized over each minibatch by default. The loss's diagnostics
    and grad_norm are logged as means over all gradient steps of all epochs (the loss's approx_kl as
    minibatch_kl); entropy, approx_kl and kl are of the policy after the update. A number of one's own needs a
    name of its own: those of columns that `update` fills are refused.

    **value_coef** multiplies half a squared error. Stable-Baselines3 leaves the half out, so its vf_coef of
    0.5 is a value_coef of 1 here.

    Attributes
    ----------
    keeps_old_policy : bool, of the class
        Whether `loss` may read `old_policy` with any objective. A subclass whose loss does sets it to True.
    """

    algorithm = "ppo"
    settings_class = PPOSettings
    presets = PRESETS["ppo"]
    state_attributes = (*ActorCritic.state_attributes, "optimizer", "kl_coef")
    keeps_old_policy: ClassVar[bool] = False

    settings: PPOSettings
    _old_policy: Any = None
    # Whether the numbers returned by `loss` have been compared: with the first minibatch of the run.
    _compared = False

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: PPOSettings, **kwargs: Any
    ) -> None:
        super().__init__(observation_space, action_space, settings, **kwargs)
        s = settings
        self.validate_minibatches(
            "num_minibatches", at_least=2 if s.normalize_advantages == "minibatch" else 1
        )
        self.kl_coef = AdaptiveKLCoefficient(s.kl_coef, s.kl_target if s.objective == "adaptive_kl" else None)
        parameters = [*self.policy.parameters(), *self.value.parameters()]
        self.optimizer = choose.optimizer(parameters, s.lr, eps=s.adam_eps, step=self.loss, fast=s.fast)

    def update(self, rollout: Rollout) -> dict[str, float]:
        s = self.settings
        advantages, returns, values = self.estimate(rollout)
        if s.normalize_advantages == "batch":
            advantages = normalize(advantages)
        batch = Batch.of(rollout, advantages, returns, values)
        if s.objective != "clip" or self.keeps_old_policy:  # the clip only needs its log-probabilities
            self._old_policy = copy.deepcopy(self.policy)
        scale_rates(self.optimizer, s.lr, self.scheduled(s.lr, s.lr_final))
        lr = float(self.optimizer.param_groups[0]["lr"])
        gradient_step = choose.ppo_gradient(self)  # self.gradient_step, or with fast=True its closed form

        steps: list[dict[str, Any]] = []
        for _ in range(s.epochs):
            for minibatch in batch.minibatches(s.num_minibatches, self.shuffle):
                if s.normalize_advantages == "minibatch":
                    minibatch.advantages = normalize(minibatch.advantages)
                steps.append(gradient_step(minibatch))
            if s.max_kl is not None and self.approx_kl(means(steps[-s.num_minibatches :])) > s.max_kl:
                break
        self.validated = True

        metrics = means(steps)
        if "approx_kl" in metrics:  # a subclass's loss need not return it
            metrics["minibatch_kl"] = metrics.pop("approx_kl")
        metrics |= self.after_update(batch)
        metrics["explained_variance"] = float(explained_variance(values, returns))
        metrics |= {
            "epochs": len(steps) // s.num_minibatches,
            "lr": lr,
            "clip_eps": self.coefficients()["clip_eps"],
        }
        if s.objective != "clip":
            with torch.no_grad():
                old, new = (p.distribution(batch.observations) for p in (self.old_policy, self.policy))
                metrics |= {"kl": old.kl(new).mean().item(), "kl_coef": self.kl_coef.value}
            self.kl_coef.update(metrics["kl"])
        self.update_normalizer(rollout)
        return metrics

    @fast_form("ppo_clip")
    def gradient_step(self, minibatch: Batch) -> dict[str, Any]:
        """A step of the optimizer on a minibatch; returns diagnostics, and grad_norm before clipping."""
        loss, diagnostics = self.loss(minibatch) if self.validated else self.validated_loss(minibatch)
        diagnostics = detached(diagnostics)  # a subclass's may have gradients
        self.optimizer.zero_grad()
        loss.backward()
        stepped = choose.stepped(self.optimizer)
        try:
            grad_norm = finite_norm(clip_grad_norm_(stepped, self.settings.max_grad_norm or math.inf))
        except FloatingPointError:
            # It may be the loss that is not finite.
            validate_loss(f"{type(self).__name__}.loss", (loss, diagnostics))
            raise
        self.optimizer.step()
        return {**diagnostics, "grad_norm": grad_norm}

    @fast_form("ppo_clip")
    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """What a gradient step on this minibatch minimizes, and diagnostics for the history."""
        validation.instance("batch", batch, Batch)
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

    @fast_form("ppo_clip")
    def coefficients(self) -> dict[str, Any]:
        """Clip range and weights of the loss, as scheduled for this update."""
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
        """A setting that is interpolated linearly from `start` to `final` over the run; constant without."""
        return start if final is None else start + (final - start) * self.progress

    @property
    def shares_trunk(self) -> bool:
        return self.settings.shared_trunk

    @property
    def old_policy(self) -> Any:
        """π_old, a copy of the policy as it was before the update."""
        if self._old_policy is None:
            name = type(self).__name__
            raise RuntimeError(f"{name}.keeps_old_policy must be True where loss reads old_policy, got False")
        return self._old_policy

    def validated_loss(self, minibatch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """`loss(minibatch)`, validated: a subclass may have written it."""
        returned = self.loss(minibatch)
        by = f"{type(self).__name__}.loss"
        penalty = self.settings.objective != "clip"
        validate_loss(by, returned, (*RESERVED, *_OF_THE_UPDATE, *(["kl_coef"] if penalty else [])))
        # Not after a resume: a policy may count its calls.
        if self.progress == 0 and not self._compared:
            self._compared = True
            self._refuse_other_numbers(by, minibatch, detached(returned[1]))
        if self.settings.max_kl is not None:
            self.approx_kl(returned[1])
        return returned

    @torch.no_grad()
    def _refuse_other_numbers(self, by: str, minibatch: Batch, diagnostics: Mapping[str, Any]) -> None:
        """Raise ValueError if the loss returned another number by the name of one that `update` measures."""
        policy = self.policy.distribution(minibatch.observations)
        if "entropy" in diagnostics:
            entropy = policy.entropy().mean().item()
            if not math.isclose(given := float(diagnostics["entropy"]), entropy, rel_tol=1e-2, abs_tol=1e-3):
                raise ValueError(
                    f"'entropy' returned by {by} must be the policy's mean entropy, {entropy:.4g}, which is "
                    f"measured again after the update, got {given:.4g}: give another number another name"
                )
        if k3(minibatch.old_logp, policy.logp(minibatch.actions)).mean() > 1e-6:
            return  # after a step of a subclass's own; before one, every estimate of the KL divergence is 0
        for name in ("approx_kl", "kl") if self.settings.objective != "clip" else ("approx_kl",):
            if name in diagnostics and abs(given := float(diagnostics[name])) > 1e-2:
                raise ValueError(
                    f"{name!r} returned by {by} must estimate the KL divergence from the policy before the "
                    "update, which is 0 before the first step and is measured again after the update, got "
                    f"{given:.4g}: give another number another name"
                )

    def approx_kl(self, diagnostics: Mapping[str, Any]) -> Any:
        """What `max_kl` limits, of the loss's diagnostics: a subclass's loss may have left it out."""
        if "approx_kl" not in diagnostics:
            raise ValueError(
                f"the diagnostics returned by {type(self).__name__}.loss must contain 'approx_kl', which "
                f"max_kl={self.settings.max_kl} limits, got {sorted({*diagnostics} - {'grad_norm'})}"
            )
        return diagnostics["approx_kl"]
