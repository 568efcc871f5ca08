"""What TRPO and PPO share: an actor, a critic, and advantages by GAE."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.batches import Batch, Shuffle
from ppobook.divergences import k3
from ppobook.episodes import critic_values
from ppobook.learner import Learner
from ppobook.policies import RewardScale, RunningNorm, actor_critic_for
from ppobook.returns import gae
from ppobook.rollouts import Rollout
from ppobook.run.machine import stream
from ppobook.run.metrics import validate_advantages


class ActorCritic(Learner):
    """A policy, a critic, and the advantages estimated with them.

    Running statistics of the observations change between updates only, so that within one the ratio starts
    at 1, up to rounding.
    """

    state_attributes: ClassVar[tuple[str, ...]] = ("policy", "value", "shuffle", "reward_scale")

    settings: Any
    value: nn.Module
    # Whether what the methods of a subclass return has been validated: after the first update.
    validated = False

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
        if settings.normalize_observations and getattr(self.policy, "normalizer", None) is None:
            raise ValueError(
                f"the policy made by {type(self).__name__}.networks must have a .normalizer (a "
                "ppobook.policies.RunningNorm) with normalize_observations=True, got none"
            )
        self.shuffle = Shuffle(stream(seed, "minibatches"))
        self.reward_scale: RewardScale | None = None
        if settings.normalize_rewards:
            self.reward_scale = RewardScale(settings.num_envs, settings.gamma).to(self.device)

    @property
    def shares_trunk(self) -> bool:
        """Whether policy and critic share all layers but the last."""
        return False

    def networks(self, observation_space: gym.Space, action_space: gym.Space, seed: int) -> Any:
        """A policy and a critic; see `Learner.networks`."""
        s = self.settings
        normalizer = None
        if s.normalize_observations:
            if isinstance(observation_space, gym.spaces.Discrete):
                raise ValueError(
                    f"normalize_observations must be False for states ({observation_space}), which index a "
                    "table, got True"
                )
            normalizer = RunningNorm(observation_space.shape or ())
        return actor_critic_for(
            observation_space,
            action_space,
            s.hidden,
            shared=self.shares_trunk,
            activation=s.activation,
            initial_std=s.initial_std,
            normalizer=normalizer,
            seed=stream(seed, "actor and critic"),
        )

    def advantages(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """Advantages, returns (the critic's targets) and values of a rollout; each [N, T]."""
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

    def estimate(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """`advantages(rollout)`, validated in the first update, since a subclass may have written it."""
        estimated = self.advantages(rollout)
        if not self.validated:
            validate_advantages(
                f"{type(self).__name__}.advantages",
                estimated,
                ("advantages", "returns", "values"),
                tuple(rollout.rewards.shape),
                "environments by steps",
            )
        return estimated

    def validate_minibatches(self, name: str, *, at_least: int = 1) -> None:
        """Raise ValueError if a minibatch would have fewer than `at_least` steps."""
        s = self.settings
        count, steps = getattr(s, name), s.num_envs * s.num_steps
        if steps < at_least:
            raise ValueError(
                f"num_envs times num_steps must be at least {at_least} with normalize_advantages="
                f"{s.normalize_advantages!r}, got {steps}"
            )
        if steps // count < at_least:
            why = "" if at_least == 1 else " to normalize over"
            raise ValueError(
                f"{name} must be at most {max(steps // at_least, 1)}, got {count}: a batch has {steps} steps "
                f"(num_envs times num_steps), and each minibatch needs {at_least}{why}"
            )

    def reset_episodes(self) -> None:
        if self.reward_scale is not None:
            self.reward_scale.reset_episodes()

    @torch.no_grad()
    def after_update(self, batch: Batch) -> dict[str, float]:
        """Entropy of the new policy, and the k3 estimate of KL(old, new), on the whole batch."""
        validation.instance("batch", batch, Batch)
        new = self.policy.distribution(batch.observations)
        kl = k3(batch.old_logp, new.logp(batch.actions))
        return {"entropy": new.entropy().mean().item(), "approx_kl": kl.mean().item()}

    def update_normalizer(self, rollout: Rollout) -> None:
        """Add a rollout's observations to the running mean and variance, for the next rollout on."""
        validation.instance("rollout", rollout, Rollout)
        if self.settings.normalize_observations:
            self.policy.normalizer.update(rollout.observations)
