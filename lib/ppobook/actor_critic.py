"""The parts that TRPO and PPO share: an actor, a critic, and advantages by GAE."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn

from ppobook.batches import Batch, Shuffle
from ppobook.divergences import k3
from ppobook.episodes import critic_values
from ppobook.learner import Learner
from ppobook.policies import RewardScale, RunningNorm, actor_critic_for
from ppobook.returns import gae
from ppobook.rollouts import Rollout
from ppobook.run.machine import stream


class ActorCritic(Learner):
    """A policy, a critic, and the advantages estimated with them.

    Running statistics of the observations change between updates only, so that within one the ratio starts
    at 1, up to rounding.
    """

    state_attributes: ClassVar[tuple[str, ...]] = ("policy", "value", "shuffle", "reward_scale")

    settings: Any
    value: nn.Module

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        settings: Any,
        *,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_space, action_space, settings, seed=seed, **kwargs)
        self.shuffle = Shuffle(stream(seed, "minibatches"))
        self.reward_scale: RewardScale | None = None
        if settings.normalize_rewards:
            self.reward_scale = RewardScale(settings.num_envs, settings.gamma).to(self.device)

    @property
    def shares_trunk(self) -> bool:
        """True if policy and critic share all layers but the last."""
        return False

    def networks(self, observation_space: gym.Space, action_space: gym.Space, seed: int) -> Any:
        """Make a policy and a critic; see `Learner.networks`."""
        s = self.settings
        return actor_critic_for(
            observation_space,
            action_space,
            s.hidden,
            shared=self.shares_trunk,
            activation=s.activation,
            initial_std=s.initial_std,
            normalizer=RunningNorm(observation_space.shape or ()) if s.normalize_observations else None,
            seed=stream(seed, "actor and critic"),
        )

    def advantages(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """Return advantages, returns (the critic's targets) and values of a rollout; each [N, T]."""
        s = self.settings
        values, last_values, final_values = critic_values(self.value, rollout)
        rewards = rollout.rewards
        if self.reward_scale is not None:
            rewards = self.reward_scale(rewards, rollout.terminated | rollout.truncated)
        advantages, returns = gae(
            rewards,
            torch.cat([values, last_values[:, None]], dim=1),
            rollout.terminated,
            rollout.truncated,
            final_values,
            gamma=s.gamma,
            lam=s.lam,
        )
        return advantages, returns, values

    def reset_episodes(self) -> None:
        if self.reward_scale is not None:
            self.reward_scale.reset_episodes()

    @torch.no_grad()
    def after_update(self, batch: Batch) -> dict[str, float]:
        """Measure the entropy of the new policy, and the k3 estimate of KL(old, new), on the whole batch."""
        new = self.policy.distribution(batch.observations)
        kl = k3(batch.old_logp, new.logp(batch.actions))
        return {"entropy": new.entropy().mean().item(), "approx_kl": kl.mean().item()}

    def update_normalizer(self, rollout: Rollout) -> None:
        """Add a rollout's observations to the running mean and variance, for the next rollout on."""
        if self.settings.normalize_observations:
            self.policy.normalizer.update(rollout.observations)
