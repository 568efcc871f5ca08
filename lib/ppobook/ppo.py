"""Proximal policy optimization: several passes over one batch, each step kept near the policy that played it.

    repeat
        play T steps in N environments with π_old, and note log π_old(a_t | s_t)
        advantages Â_t by GAE; targets for the critic, Â_t + V(s_t)
        for each of K epochs, for each minibatch of the N T steps, in a random order
            r_t = π_θ(a_t | s_t) / π_old(a_t | s_t)
            step up   mean of min(r_t Â_t, clip(r_t, 1 − ε, 1 + ε) Â_t) − c_v ½ (V − target)² + c_e H

Or, in place of the clip, r_t Â_t − β KL(π_old, π_θ), with β fixed or adapted (`objective`).

Schulman, Wolski, Dhariwal, Radford and Klimov 2017, "Proximal policy optimization algorithms", algorithm 1.
"""

from __future__ import annotations

import copy
import math
from statistics import fmean
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from ppobook.actor_critic import ActorCritic
from ppobook.adaptive_kl import AdaptiveCoefficient
from ppobook.batches import Batch
from ppobook.diagnostics import explained_variance, normalize
from ppobook.fast.closed_form import ClosedForm
from ppobook.fast.flat import Adam, clip_gradient, flatten, in_row
from ppobook.objectives import ppo_loss
from ppobook.policies import together
from ppobook.presets import PRESETS
from ppobook.rollouts import Rollout
from ppobook.settings import PPOSettings


class PPO(ActorCritic):
    """Proximal policy optimization, as `PPOSettings` describe it.

    **To extend it**, override one of three methods: `networks` makes policy and critic, `advantages` says how
    much better than expected each action was (both are documented with `ActorCritic`), `loss` is what a
    minibatch should make small.

    **What every update does, and where.** Advantages are normalised over each minibatch, unless told
    otherwise. Statistics of observations change between updates only, so that within one the ratio starts at
    1, but for rounding. What a loss tells, and grad_norm, stand in the history as means over all gradient
    steps of all epochs (the loss's approx_kl as minibatch_kl); entropy, approx_kl and kl describe the policy
    afterwards.

    **Its weight of the critic** multiplies half a squared error. Stable-Baselines3 leaves the half out, so
    its vf_coef of 0.5 is a value_coef of 1 here.
    """

    algorithm = "ppo"
    settings_class = PPOSettings
    presets = PRESETS["ppo"]
    state_attributes = (*ActorCritic.state_attributes, "optimizer", "kl_coef")

    settings: PPOSettings
    # As it was when the rollout was played; kept where the objective, or a loss of one's own, may ask it.
    old_policy: Any = None

    def __init__(
        self, observation_space: gym.Space, action_space: gym.Space, settings: PPOSettings, **kwargs: Any
    ) -> None:
        super().__init__(observation_space, action_space, settings, **kwargs)
        s = settings
        self.refuse_unless_parts(
            "num_minibatches", at_least=2 if s.normalize_advantages == "minibatch" else 1
        )
        if s.objective == "adaptive_kl" and s.kl_coef == 0:
            raise ValueError(
                "kl_coef is 0, which no doubling makes larger; above 0 is wanted with adaptive_kl"
            )
        self.weights = flatten(self.policy, self.value)
        self.optimizer = Adam(self.weights, s.lr, eps=s.adam_eps)
        self.kl_coef = AdaptiveCoefficient(s.kl_coef, s.kl_target if s.objective == "adaptive_kl" else None)
        self.closed_form: ClosedForm | None = None
        if type(self).loss is PPO.loss and s.objective == "clip" and ClosedForm.fits(self.policy, self.value):
            self.closed_form = ClosedForm(self.policy, self.value)

    @property
    def shares_trunk(self) -> bool:
        return self.settings.shared_trunk

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """What a gradient step on this minibatch should make small, and what the history should say of it."""
        s = self.settings
        now, values = together(self.policy, self.value, batch.observations)
        penalty = {}
        if s.objective != "clip":
            with torch.no_grad():
                before = self.old_policy.distribution(batch.observations)
            penalty = {"kl": before.kl(now), "beta": self.kl_coef.value}
        return ppo_loss(
            now.logp(batch.actions),
            batch.old_logp,
            batch.advantages,
            values,
            batch.returns,
            now.entropy(),
            old_values=batch.old_values,
            **self.coefficients(),
            **penalty,
        )

    def coefficients(self) -> dict[str, Any]:
        """Clip and weights of the loss, where training stands now."""
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
        """Where a setting that goes from `start` to `final` in a straight line is now."""
        return start if final is None else start + (final - start) * self.progress

    def update(self, rollout: Rollout) -> dict[str, float]:
        s = self.settings
        advantages, returns, values = self.estimate(rollout)
        if s.normalize_advantages == "batch":
            advantages = normalize(advantages)
        batch = Batch.of(rollout, advantages, returns, values)
        # The clip needs the old policy's log-probabilities only; a KL, or a loss of one's own, all of it.
        needed = s.objective != "clip" or type(self).loss is not PPO.loss
        self.old_policy = copy.deepcopy(self.policy) if needed else None
        self.optimizer.lr = self.scheduled(s.lr, s.lr_final)

        steps: list[dict[str, Any]] = []
        for _ in range(s.epochs):
            for minibatch in batch.minibatches(s.num_minibatches, self.shuffle):
                if s.normalize_advantages == "minibatch":
                    minibatch.advantages = normalize(minibatch.advantages)
                steps.append(self.step(minibatch))
            if s.max_kl is not None and self.mean_kl(steps[-s.num_minibatches :]) > s.max_kl:
                break

        metrics = means(steps)
        if "approx_kl" in metrics:  # a loss of one's own need not measure it
            metrics["minibatch_kl"] = metrics.pop("approx_kl")
        metrics |= self.afterwards(batch)
        metrics["explained_variance"] = float(explained_variance(values, returns))
        metrics |= {
            "epochs": len(steps) // s.num_minibatches,
            "lr": self.optimizer.lr,
            "clip_eps": self.coefficients()["clip_eps"],
        }
        if s.objective != "clip":
            with torch.no_grad():
                before, now = (p.distribution(batch.observations) for p in (self.old_policy, self.policy))
                metrics |= {"kl": before.kl(now).mean().item(), "kl_coef": self.kl_coef.value}
            self.kl_coef.update(metrics["kl"])
        self.follow(rollout)
        return metrics

    def step(self, minibatch: Batch) -> dict[str, Any]:
        """One gradient step; returns the diagnostics of the loss, and the length that the gradient had."""
        if self.closed_form is not None:
            diagnostics = self.closed_form.gradient(minibatch, **self.coefficients())
        else:
            self.optimizer.zero_grad()
            loss, diagnostics = self.told(minibatch)
            loss.backward()
            if not in_row(self.weights, self.policy, self.value):
                raise ValueError(
                    f"{type(self).__name__}.loss has taken the parameters' gradients away, as zero_grad() "
                    "does; gradients left to the trainer are wanted"
                )
        norm = clip_gradient(self.weights, self.settings.max_grad_norm)
        self.optimizer.step()
        return {**diagnostics, "grad_norm": norm}

    def told(self, minibatch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """What `loss` returns, after a door: a subclass may have written it."""
        made, name = self.loss(minibatch), type(self).__name__
        if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], dict)):
            raise TypeError(f"{name}.loss returned {type(made).__name__}; a pair (loss, dict) is wanted")
        loss, diagnostics = made
        if not isinstance(loss, Tensor) or loss.ndim > 0 or not loss.requires_grad:
            what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise TypeError(f"{name}.loss returned {what}; a scalar tensor with a gradient is wanted")
        if not math.isfinite(loss.item()):
            raise FloatingPointError(f"{name}.loss returned {loss.item()}; a finite number is wanted")
        for key, number in diagnostics.items():
            if isinstance(number, Tensor) and number.numel() != 1:
                raise TypeError(
                    f"{name}.loss tells {key!r} of shape {tuple(number.shape)}; one number is wanted"
                )
        return loss, diagnostics

    def mean_kl(self, steps: list[dict[str, Any]]) -> float:
        """How far the policy was from the old one during some steps, by their losses' own account."""
        if "approx_kl" not in steps[0]:
            raise ValueError(
                f"max_kl is {self.settings.max_kl}, and {type(self).__name__}.loss tells no "
                "'approx_kl' to compare with it; one is wanted among its diagnostics"
            )
        return means(steps)["approx_kl"]


def means(steps: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of each entry over gradient steps."""
    return {name: fmean(float(step[name]) for step in steps) for name in steps[0]}
