"""What TRPO and PPO share: an actor, a critic, and advantages by GAE.

They differ in how they use a batch, and that is what their own files say.
"""

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


class ActorCritic(Learner):
    """A policy, a critic, and what is estimated with them.

    Statistics of observations change between updates only, so that within one the ratio starts at 1, but for
    rounding.
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
        if settings.normalize_observations and getattr(self.policy, "normalizer", None) is None:
            raise ValueError(
                f"normalize_observations is True, and the policy that {type(self).__name__}.networks made "
                "has no normalizer; a ppobook.networks.RunningNorm is wanted as its .normalizer"
            )
        self.shuffle = Shuffle(stream(seed, "minibatches"))
        self.reward_scale: RewardScale | None = None
        if settings.normalize_rewards:
            self.reward_scale = RewardScale(settings.num_envs, settings.gamma).to(self.device)

    @property
    def shares_trunk(self) -> bool:
        """Whether policy and critic are one network, but for the last layer."""
        return False

    def networks(self, observation_space: gym.Space, action_space: gym.Space, seed: int) -> Any:
        """A policy and a critic; see `Learner.networks`."""
        s = self.settings
        normalizer = None
        if s.normalize_observations:
            if isinstance(observation_space, gym.spaces.Discrete):
                raise ValueError(
                    f"normalize_observations is True, and the observations are states ({observation_space}); "
                    "False is wanted, for these are looked up in a table"
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
        """How much better than expected each action was; targets for the critic; its values. Each [N, T]."""
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
        """What `advantages` returns, after a door: a subclass may have written it."""
        made = self.advantages(rollout)
        name, shape = type(self).__name__, tuple(rollout.rewards.shape)
        if not isinstance(made, tuple) or len(made) != 3:
            what = f"{len(made)} things" if isinstance(made, tuple) else type(made).__name__
            raise TypeError(
                f"{name}.advantages returned {what}; a tuple (advantages, returns, values) is wanted"
            )
        for what, x in zip(("advantages", "returns", "values"), made, strict=True):
            if not isinstance(x, Tensor):
                raise TypeError(
                    f"{name}.advantages returned {what} of type {type(x).__name__}; a torch tensor is wanted"
                )
            if tuple(x.shape) != shape:
                raise ValueError(
                    f"{name}.advantages returned {what} of shape {tuple(x.shape)}; {shape} is wanted, "
                    "environments by steps"
                )
            validation.finite(f"{what}, as {name}.advantages returned them,", x)
        advantages, returns, values = (x.detach() for x in made)
        return advantages, returns, values

    def refuse_unless_parts(self, name: str, *, at_least: int = 1) -> None:
        """Refuse a number of minibatches that leaves fewer than `at_least` steps to one."""
        s = self.settings
        parts, steps = getattr(s, name), s.num_envs * s.num_steps
        if steps // parts < at_least:
            why = "" if at_least == 1 else f", so that each has {at_least} to be normalised over"
            raise ValueError(
                f"{name} is {parts}, and a batch has {steps} steps (num_envs times num_steps); at most "
                f"{max(steps // at_least, 1)} is wanted{why}"
            )

    def reset_episodes(self) -> None:
        if self.reward_scale is not None:
            self.reward_scale.reset_episodes()

    @torch.no_grad()
    def afterwards(self, batch: Batch) -> dict[str, float]:
        """What the policy has become, on the whole batch: its entropy, and how far it has moved."""
        now = self.policy.distribution(batch.observations)
        kl = k3(batch.old_logp, now.logp(batch.actions))
        return {"entropy": now.entropy().mean().item(), "approx_kl": kl.mean().item()}

    def follow(self, rollout: Rollout) -> None:
        """Let what the networks see be scaled by this rollout too, from the next one on."""
        if self.settings.normalize_observations:
            self.policy.normalizer.update(rollout.observations)
