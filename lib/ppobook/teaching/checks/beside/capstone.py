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

from ppobook.envs import make_env

from .. import Answer, Stop


class Tape(gym.Env):
    """An environment that plays random episodes and writes down each step, reset and seed.

    Attributes
    ----------
    steps : list of (observation, action, reward, terminated, truncated, next observation)
    resets : list of int
        How many steps had been made at each reset.
    seeds : list
        What each reset was given.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, number: int = 0, size: int = 3, actions: int = 2, longest: int = 4) -> None:
        self.rng = np.random.default_rng(1000 + number)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Discrete(actions)
        self.size, self.actions, self.longest = size, actions, longest
        self.steps: list[tuple[np.ndarray, int, float, bool, bool, np.ndarray]] = []
        self.resets: list[int] = []
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.resets.append(len(self.steps))
        self.seeds.append(seed)
        self.left = int(self.rng.integers(1, self.longest + 1))
        self.now = self._look()
        return self.now.copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Take a step."""
        self.left -= 1
        before, self.now, reward = self.now, self._look(), float(self.rng.normal())
        kind = int(self.rng.integers(3)) if self.left == 0 else -1
        terminated, truncated = kind in (0, 2), kind in (1, 2)
        self.steps.append((before, int(action), reward, terminated, truncated, self.now))
        return self.now.copy(), reward, terminated, truncated, {}

    def _look(self) -> np.ndarray:
        return self.rng.normal(size=self.observation_space.shape).astype(np.float32)

    @property
    def played(self) -> tuple[list[int], list[int | None], list[int]]:
        """The resets, their seeds and the actions, from which the same tape can be played again."""
        return self.resets, self.seeds, [step[1] for step in self.steps]

    @property
    def returns(self) -> list[float]:
        """The undiscounted returns of the episodes that were played to their end, in their order."""
        totals, total = [], 0.0
        for _, _, reward, terminated, truncated, _ in self.steps:
            total += reward
            if terminated or truncated:
                totals.append(total)
                total = 0.0
        return totals


def play_again(played: list[tuple[list[int], list[int | None], list[int]]]) -> list[Tape]:
    """The tapes on which this was played: what they say is true, wherever it was played."""
    tapes = []
    for number, (resets, seeds, actions) in enumerate(played):
        tape, begins = Tape(number), iter([*zip(resets, seeds, strict=True), (None, None)])
        at, seed = next(begins)
        for k in range(len(actions) + 1):
            while at == k:
                tape.reset(seed=seed)
                at, seed = next(begins)
            if k < len(actions):
                tape.step(actions[k])
        if tape.resets:
            tapes.append(tape)
    return tapes


class Tapes:
    """The environments that are made by their id while it is open."""

    ID = "capstone/Tape-v0"
    MOST = 1000  # environments that a check lets be made
    now: Tapes | None = None

    def __init__(self) -> None:
        self.made: list[Tape] = []

    def __enter__(self) -> list[Tape]:
        Tapes.now = self
        return self.made

    def __exit__(self, *_: Any) -> None:
        Tapes.now = None


def make_tape(**settings: Any) -> Tape:
    """Make the environment that the id stands for; it has no settings.

    Raises
    ------
    RuntimeError
        No check is being made.
    ValueError
        There are too many.
    """
    if Tapes.now is None:
        raise RuntimeError(f"{Tapes.ID} can be made during a check only")
    made = Tapes.now.made
    if len(made) == Tapes.MOST:
        raise ValueError(f"there can be {Tapes.MOST} environments, and one more is made")
    made.append(Tape(len(made), **settings))
    return made[-1]


gym.register(Tapes.ID, make_tape)


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
    def watch(self, tapes: list[Tape], rollout: int) -> Iterator[None]:
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        def look(module: nn.Module, given: tuple[Any, ...]) -> None:
            """Return whether the very first observation is shown after the second rollout."""
            for tape in tapes:
                if len(tape.steps) > rollout and given and isinstance(given[0], Tensor):
                    first = torch.tensor(tape.steps[0][0])
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
    answer: Answer, rollout: int, seed: int, total: int, settings: dict[str, Any]
) -> tuple[Any, dict[str, Any], list[Any]]:
    """Return the result, what was seen of it, and what was played; a first rollout has `rollout` steps."""
    steps = Steps()
    with Tapes() as tapes, steps.watch(tapes, rollout):
        came = answer(Tapes.ID, seed, total, **settings)
    return came, vars(steps), [tape.played for tape in tapes]


def evaluate_on_tapes(answer: Answer, policy: nn.Module, episodes: int, seed: int) -> tuple[Any, list[Any]]:
    """Return the result of an evaluation, and what was played."""
    with Tapes() as tapes:
        came = answer(policy, Tapes.ID, episodes, seed)
    return came, [tape.played for tape in tapes]


def learn_and_play(
    answer: Answer, env_id: str, seed: int, total: int, gamma: float, episodes: int
) -> tuple[Any, list[Any]]:
    """Return what was learned, and the policy's actions in as many environments until each has ended once."""
    came = answer(env_id, seed, total, gamma)
    policy = came[0] if isinstance(came, tuple | list) and came else None
    envs = make_env(env_id, episodes, seed=10_000 + seed)
    generator = torch.Generator().manual_seed(seed)
    observations, _ = envs.reset(seed=10_000 + seed)
    alive, taken = np.ones(episodes, dtype=bool), list[Any]()
    while alive.any() and isinstance(policy, nn.Module):
        with torch.no_grad():
            logits = policy(torch.as_tensor(observations, dtype=torch.float32))
        if tuple(logits.shape) != (episodes, 2):
            raise Stop("returned", "wrong shape", f"the policy's logits have shape {list(logits.shape)}.")
        actions = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0].numpy()
        taken.append(actions)
        observations, _, terminated, truncated, _ = envs.step(actions)
        alive &= ~(terminated | truncated)
    return came, taken
