"""The base class of the algorithms: networks, collecting a batch, updating on it.

An algorithm is a `Learner`. The loop of rollouts and updates, the run's folder, checkpoints and resuming are
in `ppobook.training` and `ppobook.run`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.policies import Policy, policy_for, value_for
from ppobook.rollouts import Collector, Rollout
from ppobook.run.machine import float32_on_cpu, stream
from ppobook.run.state import Stateful
from ppobook.settings import ControlSettings

# A module with the methods of `ppobook.policies.Policy`, the library's or a user's own.
AnyPolicy = Any
AnyValue = nn.Module

# Columns of the history that the loop fills, as patterns.
RESERVED = ("update", "steps", "episodes", "length_mean", "return_*", "seconds*")

# Layers whose output depends on chance, or on the rest of the batch.
_STOCHASTIC = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)


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
            made = self.networks(observation_space, action_space, seed)
        policy, value = _validate_networks(type(self).__name__, made, critic)
        self.policy = policy.to(device)
        self.value = value.to(device) if critic and value is not None else None

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
        """The batch of one update."""
        validation.instance("collector", collector, Collector)
        return collector.collect(self.settings.num_steps)

    def used(self, rollout: Rollout) -> Tensor | None:
        """Mask of the steps that belong to the batch, [N, T] bool; None if all do."""
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


def _validate_networks(learner: str, returned: Any, critic: bool) -> tuple[AnyPolicy, AnyValue | None]:
    """The pair that `networks` returned.

    Raises
    ------
    TypeError, ValueError
        It is none, or an algorithm cannot train it.
    """
    name = f"{learner}.networks"
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(f"{name} must return a pair (policy, value), got {validation.kind_of(returned)}")
    policy, value = returned
    for what, network in {"policy": policy, "value": value}.items():
        if not (isinstance(network, nn.Module) or (what == "value" and network is None)):
            raise TypeError(
                f"the {what} returned by {name} must be a torch.nn.Module, got {type(network).__name__}"
            )
        for parameter, x in () if network is None else network.named_parameters():
            which = f"{parameter!r} of the {what} returned by {name}"
            if isinstance(x, nn.parameter.UninitializedParameter):
                raise ValueError(f"{which} must have values, got none yet: call the lazy layer once")
            if x.is_meta:
                raise ValueError(f"{which} must have values, got none: it is on the device 'meta'")
        for layer in [] if network is None else network.modules():
            if isinstance(layer, _STOCHASTIC):
                raise ValueError(
                    f"the {what} returned by {name} must be a deterministic function of each observation, "
                    f"got one with a {type(layer).__name__}. Use LayerNorm or none"
                )
    missing = [
        method for method in vars(Policy) if not method.startswith("_") and not hasattr(policy, method)
    ]
    if missing:
        raise TypeError(
            f"the policy returned by {name} must have the methods of ppobook.policies.Policy, got "
            f"{type(policy).__name__} without {', '.join(missing)}"
        )
    if critic and value is None:
        raise TypeError(f"{name} must return a value function for an algorithm with a critic, got None")
    return policy, value


def gradient_step(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """One step of the optimizer on a loss; returns the norm of the gradient."""
    optimizer.zero_grad()
    loss.backward()
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    optimizer.step()
    return norm.item()


def finite_norm(norm: Tensor) -> float:
    """The norm of a gradient as a float.

    Raises
    ------
    FloatingPointError
        It is not finite.
    """
    length = norm.item()
    if not math.isfinite(length):
        raise FloatingPointError(
            f"the norm of the gradient must be finite, got {length}: rewards, advantages or a coefficient of "
            "the loss, such as value_coef, are too large for a float32. Make them smaller, or set "
            "normalize_rewards=True"
        )
    return length
