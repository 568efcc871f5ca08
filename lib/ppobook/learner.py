"""What the trainers of policies share: the loop of rollout and update, its history, loading and resuming.

An algorithm is a `Learner`: it says how it gathers a batch and what it does with it. What is the same
whatever is trained stands in `ppobook.runs`, all the rest here, so that an algorithm's own file holds the
algorithm and nothing else.

The folder of a run is that of `ppobook.runs`, and in a checkpoint of it, where environments can be saved::

    environments.pkl          the environments in mid-episode, pickled; only resuming reads it

**Trust.** A pickle can run code when it is read. `load` does not unpickle `environments.pkl`, and
`state.pt` is read in torch's restricted mode, so a stranger's run is safe to load. Resume only runs that
you would also execute; without its `environments.pkl` a run can still be resumed, with new episodes.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn

from ppobook.policies import Policy, policy_for, value_for
from ppobook.rollouts import Collector, Rollout

# These are at hand here too, for whoever has a run in hand.
from ppobook.run.interrupts import Interrupted as Interrupted
from ppobook.run.machine import stream
from ppobook.run.machine import threads as threads
from ppobook.run.state import Stateful
from ppobook.settings import Settings

# A policy is a module with the methods of `networks.Policy`; ours and a user's own are treated alike, so
# nothing more is said of its type.
AnyPolicy = Any


AnyValue = nn.Module


# Layers whose answer to one observation depends on chance, or on the other observations beside it.
_FICKLE = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)


class Learner(Stateful):
    """An algorithm, for one environment's kind of observations and actions.

    A subclass names its `settings_class` and `presets`, makes what it needs in `__init__`, lists in
    `state_attributes` the attributes that a checkpoint must hold, and writes `update`. The loop does the
    rest. To change an algorithm of the book, subclass it; `train` takes the class, and so does `load`::

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

    A checkpoint holds the name of the class and not its code, so that reading a stranger's run never runs a
    stranger's module; whoever has the class hands it over. The class may stand in a notebook, and may move
    to a module later: only its own name must stay. On the command line it is `my_module:MyPPO`.

    Attributes
    ----------
    policy : torch module with the methods of `ppobook.networks.Policy`
        It need not be a class of the book's.
    value : torch module or None
        Observations [..., obs] to values [...].
    settings : Settings
    device : str
    progress : float
        The share of `total_steps` done before the present update, from 0 to below 1: for schedules.

    Notes
    -----
    What may stand in `state_attributes` is said at `ppobook.runs.Stateful`. An attribute that is a random
    generator, or has `state_dict` and `load_state_dict`, and is not listed is refused when training begins.
    """

    algorithm: ClassVar[str]
    settings_class: ClassVar[type[Settings]] = Settings
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
        """Fresh networks on the device; without `critic`, only the policy is kept."""
        self.settings = settings
        self.device = device
        self.spaces = observation_space, action_space
        # Layers of torch draw their first weights from its global generator. A user's network is made of
        # them, and has to be the same when the seed is.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(seed, "networks"))
            made = self.networks(observation_space, action_space, seed)
        policy, value = _checked_networks(type(self).__name__, made, critic)
        self.policy = policy.to(device)
        self.value = value.to(device) if critic and value is not None else None

    def networks(
        self, observation_space: gym.Space, action_space: gym.Space, seed: int
    ) -> tuple[AnyPolicy, AnyValue | None]:
        """A fresh policy and critic: what a subclass overrides to bring its own.

        Parameters
        ----------
        observation_space, action_space : gymnasium.Space
            Of a single environment.
        seed : int
            The run's. Modules that draw from torch's global generator need not look at it: the generator is
            seeded before the call and put back after it.

        Returns
        -------
        policy : torch module with the methods of `ppobook.networks.Policy`
        value : torch module, or None for an algorithm without a critic
            The two may share modules.
        """
        hidden = self.settings.hidden
        policy = policy_for(observation_space, action_space, hidden, seed=stream(seed, "policy"))
        return policy, value_for(observation_space, hidden, seed=stream(seed, "critic"))

    def collect(self, collector: Collector) -> Rollout:
        """The batch of one update."""
        return collector.collect(self.settings.num_steps)

    def used(self, rollout: Rollout) -> Tensor | None:
        """Which steps of the batch count, [N, T] bool; None if all of them do."""
        return None

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from a batch; return what the history should say about it.

        A name of `COLUMNS` fills that column, any other one adds a column. An algorithm that measures
        `entropy` and `approx_kl` itself returns them, and spares the loop a pass through the networks. The
        names that the loop fills are refused: `update`, `steps`, `episodes`, `length_mean`, and all that
        begin with `return_` or `seconds`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method update; one is wanted")

    def reset_episodes(self) -> None:
        """Forget what was kept of the episodes under way: the environments have been reset."""


def _checked_networks(learner: str, made: Any, critic: bool) -> tuple[AnyPolicy, AnyValue | None]:
    """What `networks` returned, after the door."""
    if not isinstance(made, tuple) or len(made) != 2:
        raise TypeError(
            f"{learner}.networks returned {type(made).__name__}; a pair (policy, value) is wanted"
        )
    policy, value = made
    if not isinstance(policy, nn.Module) or not (value is None or isinstance(value, nn.Module)):
        wrong, x = ("policy", policy) if not isinstance(policy, nn.Module) else ("value", value)
        raise TypeError(
            f"{learner}.networks returned a {wrong} of type {type(x).__name__}; a torch.nn.Module is wanted"
        )
    lacking = [name for name in vars(Policy) if not name.startswith("_") and not hasattr(policy, name)]
    if lacking:
        raise TypeError(
            f"{learner}.networks returned a policy of type {type(policy).__name__}, which has no "
            f"{' and no '.join(lacking)}; the methods of ppobook.networks.Policy are wanted"
        )
    for network in (policy, value):
        for part in [] if network is None else network.modules():
            if isinstance(part, _FICKLE):
                raise ValueError(
                    f"{learner}.networks returned a network with a {type(part).__name__}, which answers "
                    "differently in training, so that a ratio to its own past would mean nothing; LayerNorm, "
                    "or none, is wanted"
                )
    if critic and value is None:
        raise TypeError(
            f"{learner}.networks returned no value, and this algorithm has a critic; "
            "a torch.nn.Module is wanted"
        )
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
            f"the norm of the gradient must be finite, got {length}: rewards or advantages are too large for "
            "a float32. Make the rewards smaller, or set normalize_rewards=True"
        )
    return length
