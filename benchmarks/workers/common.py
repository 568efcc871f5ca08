"""Shared parts of all workers: read a job, run it with the clock on, evaluate with the clock off.

A worker is a script that runs one job in one library's environment: ``python workers/sb3.py < job.json``. The
job comes as JSON on standard input, the result goes as one JSON line to standard output, and nothing else
does. This file needs NumPy and torch, and Gymnasium where a policy is evaluated.

Time is `time.process_time`: seconds that this process spent on a processor, all its threads together. What
else runs on the machine does not count as time, though it still takes its share of caches and memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    import gymnasium as gym

Act = Callable[[np.ndarray], np.ndarray]

PACKAGES = ("torch", "numpy", "gymnasium", "stable-baselines3", "sb3-contrib", "ppobook", "mujoco")
PACKAGES += ("transformers", "trl", "accelerate", "datasets", "jax", "gymnax", "flax")


class Enough(Exception):  # noqa: N818 - it is no error
    """The policy has reached what was asked for; training stops here."""


class Clock:
    """Processor seconds of what happens while it runs."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self._since: float | None = None

    def start(self) -> None:
        self._since = time.process_time()

    def stop(self) -> None:
        if self._since is not None:
            self.cpu += time.process_time() - self._since
            self._since = None

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        running = self._since is not None
        self.stop()
        yield
        if running:
            self.start()


class Watch:
    """Times a run, and evaluates its policy every so many environment steps, off the clock.

    Parameters
    ----------
    job : dict
        Of it are read: env, seed; and, where the policy is to be evaluated, every (steps between two checks),
        episodes (of each check), threshold (a mean return at which the run ends; none, if left out), and cold
        (the clock shows what this process has taken since its start, imports included).
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.env, self.seed = job["env"], job["seed"]
        self.every, self.episodes = job.get("every"), job.get("episodes", 100)
        self.threshold = job.get("threshold")
        self.clock = Clock()
        if job.get("cold"):
            self.clock.cpu = time.process_time()
        self.checks: list[dict[str, float]] = []
        self.steps = 0
        self._next = self.every

    def after_update(self, steps: int, act: Act) -> None:
        """To be called once an update is done, with the steps so far and the policy as it is now."""
        self.steps = steps
        if self.every is None or steps < self._next:
            return
        with self.clock.off(), _same_random_numbers():
            returns = play(act, self.env, self.episodes, seed=10_000 + 1_000 * self.seed + len(self.checks))
        self.checks.append(
            {
                "steps": steps,
                "cpu_seconds": self.clock.cpu,
                "mean": float(returns.mean()),
                "std": float(returns.std()),
            }
        )
        self._next = self.every * (steps // self.every + 1)
        if self.threshold is not None and returns.mean() >= self.threshold:
            raise Enough

    def result(self) -> dict[str, Any]:
        reached = None
        if self.threshold is not None:
            reached = bool(self.checks) and self.checks[-1]["mean"] >= self.threshold
        return {
            "steps": self.steps,
            "cpu_seconds": self.clock.cpu,
            "reached": reached,
            "checks": self.checks,
        }


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Let a check draw random numbers without changing those of the run that it interrupts."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])  # noqa: NPY002
    torch.set_rng_state(before[2])


_made: dict[tuple[str, int], gym.vector.VectorEnv] = {}


def play(act: Act, env: str, episodes: int, *, seed: int) -> np.ndarray:
    """Return the returns of so many episodes, one in each of as many environments, played to their ends.

    Each environment plays exactly one, so that short ones aren't preferred; what an environment does after
    its end is ignored.
    """
    import gymnasium as gym  # libraries of language models come without it

    if (env, episodes) not in _made:
        _made[env, episodes] = gym.make_vec(env, num_envs=episodes)
    envs = _made[env, episodes]
    observations, _ = envs.reset(seed=seed)
    returns, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        observations, rewards, terminated, truncated, _ = envs.step(act(observations))
        returns += np.where(running, rewards, 0.0)
        running &= ~(terminated | truncated)
    return returns


def patched(source: str, changes: dict[str, str]) -> str:
    """A peer's file with these lines changed; each must stand in it exactly once."""
    for before, after in changes.items():
        if source.count(before) != 1:
            raise ValueError(f"{before.strip()!r} must stand once in the file, got {source.count(before)}")
        source = source.replace(before, after)
    return source


def main(run: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Run the job that stands on standard input; write its result to standard output."""
    job = json.load(sys.stdin)
    torch.set_num_threads(1)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is not the result
    result = run(job)
    out.write(json.dumps({**result, "versions": versions()}) + "\n")
    out.flush()


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
