"""The base classes of the algorithms: networks, collecting a batch, updating on it.

An algorithm is a `Learner`; TRPO and PPO are an `ActorCritic`, with advantages by GAE. The loop of
rollouts and updates, the run's folder, checkpoints and resuming are in `ppobook.training` and `ppobook.run`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn

from ppobook.batches import Batch, Shuffle
from ppobook.divergences import k3
from ppobook.episodes import critic_values
from ppobook.policies import RewardScale, RunningNorm, actor_critic_for, policy_for, value_for
from ppobook.returns import gae
from ppobook.rollouts import Collector, Rollout
from ppobook.run.machine import float32_on_cpu, stream
from ppobook.run.state import Stateful
from ppobook.settings import ControlSettings

# A module with the methods of `ppobook.policies.Policy`, the library's or a user's own.
AnyPolicy = Any
AnyValue = nn.Module


class Learner(Stateful):
    """An algorithm, for one kind of observations and actions.

    A subclass sets `settings_class` and `presets`, makes what it needs in `__init__`, lists in
    `state_attributes` what a checkpoint must hold, and implements `update`. To change an algorithm of the
    book, subclass it; `train` takes the class, and so does `load`::

        @dataclass(frozen=True)
        class MySettings(PPO.settings_class):
            memory: float = setting(0.9, "share of the old average that is kept", low=0, high=1)

        class MyPPO(PPO):
            settings_class = MySettings
            state_attributes = (*PPO.state_attributes, "average")  # else a resumed run begins with 0

            def __init__(self, observation_space, action_space, settings, **kwargs):
                super().__init__(observation_space, action_space, settings, **kwargs)
                self.average = 0.0

            def networks(self, observation_space, action_space, seed):
                policy, value = super().networks(observation_space, action_space, seed)
                return MyPolicy(observation_space, action_space), value

        run = train(MyPPO, env="CartPole-v1", memory=0.95, out="run")
        run = load("run", learner=MyPPO)

    A checkpoint holds the name of the class and not its code, so that reading a run never executes code that
    came with it; `load` and `train(resume=…)` need the class itself. It may be defined in a notebook and move
    to a module later: only its name must stay. On the command line it is `my_module:MyPPO`.

    Attributes
    ----------
    policy : torch module with the methods of `ppobook.policies.Policy`
    value : torch module or None
        Observations [..., obs] to values [...].
    settings : Settings
    device : str
    progress : float
        The share of `total_steps` done before the present update, in [0, 1): for schedules.

    Notes
    -----
    `ppobook.run.state.Stateful` documents what may stand in `state_attributes`.
    """

    algorithm: ClassVar[str]
    settings_class: ClassVar[type[ControlSettings]] = ControlSettings
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    state_attributes: ClassVar[tuple[str, ...]] = ("policy", "value")

    policy: AnyPolicy
    value: AnyValue | None
    progress: float = 0.0

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        settings: Any,
        *,
        seed: int = 0,
        device: str = "cpu",
        critic: bool = True,
    ) -> None:
        """Make new networks on the device; without `critic`, only the policy is kept."""
        self.settings = settings
        self.device = device
        self.spaces = observation_space, action_space
        # torch's layers are initialized from its global generator, and a user's network is made of them.
        with torch.random.fork_rng(devices=[]), float32_on_cpu():
            torch.manual_seed(stream(seed, "networks"))
            policy, value = self.networks(observation_space, action_space, seed)
        # With dropout a policy has no ratio to its own past: it is off, as in evaluation.
        self.policy = policy.to(device).eval()
        self.value = value.to(device).eval() if critic and value is not None else None

    def networks(
        self, observation_space: gym.Space, action_space: gym.Space, seed: int
    ) -> tuple[AnyPolicy, AnyValue | None]:
        """A new policy and critic. A subclass overrides this to use its own.

        Parameters
        ----------
        observation_space, action_space : gymnasium.Space
            Of a single environment.
        seed : int
            The run's. Modules that are initialized from torch's global generator need not use it: the
            generator is seeded before the call and restored after it.

        Returns
        -------
        policy : torch module with the methods of `ppobook.policies.Policy`
        value : torch module, or None for an algorithm without a critic
            The two may share modules.
        """
        hidden = self.settings.hidden
        policy = policy_for(observation_space, action_space, hidden, seed=stream(seed, "policy"))
        return policy, value_for(observation_space, hidden, seed=stream(seed, "critic"))

    def collect(self, collector: Collector) -> Rollout:
        """Collect the batch of one update."""
        return collector.collect(self.settings.num_steps)

    def used(self, rollout: Rollout) -> Tensor | None:
        """Return a mask of the steps that belong to the batch, [N, T] bool; None if all do."""
        return None

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train on a batch; returns metrics for the history.

        A name of `ppobook.training.COLUMNS` fills that column, any other name adds one. An algorithm that
        returns `entropy` and `approx_kl` saves the loop a pass through the networks. Names that the loop
        fills raise: `update`, `steps`, `episodes`, `length_mean`, and all that begin with `return_` or
        `seconds`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement update")

    def reset_episodes(self) -> None:
        """Drop what is kept about unfinished episodes: the environments have been reset."""


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


def gradient_step(optimizer: torch.optim.Optimizer, loss: Tensor, max_norm: float | None = None) -> Tensor:
    """Take one step of the optimizer on a loss; return the norm of the gradient, before it is clipped.

    g ← g · min(1, max_norm / ‖g‖),   ‖g‖ over all parameters together
    """
    optimizer.zero_grad()
    loss.backward()
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    # clip_grad_norm_ takes the norm of each parameter first: with small networks, several times as slow.
    norm = torch.linalg.vector_norm(torch.cat([g.flatten() for g in gradients]))
    if max_norm is not None and norm > max_norm:
        scale = max_norm / norm
        for g in gradients:
            g.mul_(scale)
    optimizer.step()
    return norm
