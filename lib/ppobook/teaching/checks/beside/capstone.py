"""Arguments for the functions of the capstone's checks, and the environments that these play in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from .. import Answer


class Player(gym.Env):
    """An environment that is played on a tape of the check's own, which writes down what happens.

    `first` is the observation before the first step, and `steps` how many there were.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, deck: Any) -> None:
        self.number, size, actions = deck.make()
        self._reset, self._step = deck.reset, deck.step
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Discrete(actions)
        self.steps = 0
        self.first = self.now = np.zeros(size, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.now = self._reset(self.number, seed)
        return self.now.copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Take a step."""
        if self.steps == 0:
            self.first = self.now
        self.now, reward, terminated, truncated = self._step(self.number, int(action))
        self.steps += 1
        return self.now.copy(), reward, terminated, truncated, {}


class Tapes:
    """The environments that are made by their id while it is open; they play on `deck`."""

    ID = "capstone/Tape-v0"
    now: Tapes | None = None

    def __init__(self, deck: Any) -> None:
        self.deck, self.made = deck, list[Player]()

    def __enter__(self) -> list[Player]:
        Tapes.now = self
        return self.made

    def __exit__(self, *_: Any) -> None:
        Tapes.now = None


def make_player(**settings: Any) -> Player:
    """Make the environment that the id stands for; it has no settings.

    Raises
    ------
    RuntimeError
        No check is being made.
    """
    if Tapes.now is None:
        raise RuntimeError(f"{Tapes.ID} can be made during a check only")
    Tapes.now.made.append(Player(Tapes.now.deck, **settings))
    return Tapes.now.made[-1]


gym.register(Tapes.ID, make_player)


class Coin(nn.Module):
    """A policy with the same probabilities everywhere."""

    def __init__(self, *probabilities: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(probabilities).log())

    def forward(self, observations: Tensor) -> Tensor:
        return self.logits.expand(*observations.shape[:-1], len(self.logits))


class Keen(nn.Module):
    """A policy that takes action 1 where the first number that it sees is positive, and 0 elsewhere."""

    def forward(self, observations: Tensor) -> Tensor:
        first = observations[..., :1]
        return torch.cat([-first.sign(), first.sign()], -1) * 20


class Policy(nn.Module):
    """Logits that are free numbers for each sample, or, of one row, the same for all; remembers which
    samples it was asked about.
    """

    def __init__(self, weight: Tensor, seen: list[np.ndarray]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.seen = seen

    def forward(self, observations: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.seen.append(observations.detach().reshape(-1, observations.shape[-1]).argmax(-1).numpy())
        return observations @ self.weight.expand(observations.shape[-1], -1)


class GradientDescent:
    """Writes down, at each step, the samples looked at, the weights, and their gradients."""

    __travels__ = True  # see `descent`

    def __init__(self, parameters: list[Tensor], seen: list[np.ndarray], rate: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": parameters, "lr": rate}]
        self.defaults: dict[str, Any] = {"lr": rate}
        self.state: dict[Any, Any] = {}
        self.seen, self.rate = seen, rate
        self.samples: list[np.ndarray] = []
        self.weights: list[list[np.ndarray]] = []
        self.slopes: list[list[np.ndarray]] = []

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        parameters = self.param_groups[0]["params"]
        looked = np.concatenate(self.seen) if self.seen else np.zeros(0, int)
        self.seen.clear()
        self.samples.append(np.array(list(dict.fromkeys(looked.tolist())), dtype=int))
        self.weights.append([p.detach().double().numpy().copy() for p in parameters])
        self.slopes.append(
            [np.zeros(p.shape) if p.grad is None else p.grad.double().numpy().copy() for p in parameters]
        )
        with torch.no_grad():
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter -= self.rate * parameter.grad


class Steps:
    """Every optimizer that took a step while it is watched, and how often; and what networks were shown."""

    def __init__(self) -> None:
        self.optimizers: list[tuple[str, float, list[Tensor]]] = []  # each one's kind, eps and parameters
        self.rates: list[float] = []
        # Each parameter, its value and its gradient, at the first step.
        self.first: list[tuple[Tensor, Tensor, Tensor]] = []
        self.chance: list[bytes] = []  # torch's generator at each step
        self.count = 0
        self.stale = False

    @contextmanager
    def watch(self, players: list[Player], rollout: int) -> Iterator[None]:
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        def look(module: nn.Module, given: tuple[Any, ...]) -> None:
            """Return whether the very first observation is shown after the second rollout."""
            for player in players:
                if player.steps > rollout and given and isinstance(given[0], Tensor):
                    first = torch.tensor(player.first)
                    if given[0].shape[-1:] == first.shape:
                        self.stale |= bool((given[0].detach() == first).all(-1).any())

        seen: list[Any] = []

        def note(optimizer: Any, *_: Any) -> None:
            self.count += 1
            self.chance.append(torch.get_rng_state().numpy().tobytes())
            for group in optimizer.param_groups if self.count == 1 else ():
                for p in group["params"]:
                    slope = torch.zeros_like(p) if p.grad is None else p.grad.clone()
                    self.first.append((p, p.detach().clone(), slope))
            if all(optimizer is not one for one in seen):
                seen.append(optimizer)
                self.rates.append(float(optimizer.param_groups[0]["lr"]))

        hooks = register_optimizer_step_pre_hook(note), register_module_forward_pre_hook(look)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for optimizer in seen:
                groups = optimizer.param_groups
                parameters = [parameter for group in groups for parameter in group["params"]]
                eps = float(groups[0].get("eps", 0))
                self.optimizers.append((type(optimizer).__name__, eps, parameters))

    def parameters(self) -> set[int]:
        return {id(parameter) for _, _, parameters in self.optimizers for parameter in parameters}

    def at_first(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        """The value and the gradient that a parameter had at the first step."""
        return next((value, slope) for p, value, slope in self.first if p is parameter)


def train_on_tapes(
    answer: Answer, deck: Any, rollout: int, seed: int, total: int, settings: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the result and what was seen of it; `rollout` is the number of steps of a first rollout."""
    steps = Steps()
    with Tapes(deck) as players, steps.watch(players, rollout):
        came = answer(Tapes.ID, seed, total, **settings)
    return came, vars(steps)


def evaluate_on_tapes(answer: Answer, deck: Any, policy: nn.Module, episodes: int, seed: int) -> Any:
    """Return the result of an evaluation."""
    with Tapes(deck):
        return answer(policy, Tapes.ID, episodes, seed)
