"""A ladder of five probe environments, each of which only one more part of a learner can fail.

    1  constant      one action, one step, reward 1              V = 1
    2  observation   the reward is the observation, ±1           V(o) = o
    3  discount      two steps, reward 1 at the second           V(first) = γ, V(second) = 1
    4  action        two actions, reward ±1 by the action        the second one, always
    5  both          reward ±1 by observation and action          the second one where o = 1, else the first

A learner that passes the first three and fails the fourth has a critic that works and an actor that does
not; so the first rung that fails says where to look. Each is learned in a few thousand steps, and its exact
values are known (`Probe.values`). They are registered with Gymnasium as ``ppobook/ProbeConstant-v0``,
``ppobook/ProbeObservation-v0``, ``ppobook/ProbeDiscount-v0``, ``ppobook/ProbeAction-v0`` and
``ppobook/ProbeBoth-v0``.

Jones 2021, "Debugging reinforcement learning systems without the agonizing pain".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ppobook.envs.tabular import TabularMDP
from ppobook.envs.worlds import TabularEnv

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Probe:
    """One rung of the ladder. Its last state is the one after the end; it looks like an observation of 0.

    Attributes
    ----------
    id : str
        What it is registered as.
    tests : str
        What a learner must be able to do, beyond the rungs below.
    suspect : str
        What to look at where this is the first rung that fails.
    observations : tuple of float
        What each state that is played in looks like: an observation is a vector of one number.
    first : tuple of int
        The states in which an episode may begin, equally likely.
    rewards : tuple of tuples of float
        By state and action.
    """

    id: str
    tests: str
    suspect: str
    observations: tuple[float, ...]
    first: tuple[int, ...]
    rewards: tuple[tuple[float, ...], ...]

    def mdp(self, gamma: float = 1.0) -> TabularMDP:
        """The probe as a world whose values are computed exactly."""
        played, n_actions = len(self.observations), len(self.rewards[0])
        transitions = np.zeros((played + 1, n_actions, played + 1))
        for state in range(played):
            then = state + 1  # an episode goes from state to state until it would come to where one begins
            transitions[state, :, played if then in self.first else then] = 1
        start = np.zeros(played + 1)
        start[list(self.first)] = 1 / len(self.first)
        rewards = [*self.rewards, (0.0,) * n_actions]
        return TabularMDP(transitions, rewards, gamma, start, np.arange(played + 1) == played)

    def values(self, gamma: float) -> np.ndarray:
        """The value of each observation under the best policy; where there is one action, the only one."""
        mdp = self.mdp(gamma)
        return mdp.policy_value(mdp.optimal_policy())[:-1]

    def best_actions(self) -> np.ndarray:
        """The best action at each observation."""
        return np.argmax(self.rewards, axis=1)

    @property
    def acts(self) -> bool:
        """True if there is an action to choose."""
        return len(self.rewards[0]) > 1


PROBES: tuple[Probe, ...] = (
    Probe(
        "ppobook/ProbeConstant-v0",
        "the value of a constant",
        "the value loss, its optimizer, and the zero after a terminated step",
        (0.0,),
        (0,),
        ((1.0,),),
    ),
    Probe(
        "ppobook/ProbeObservation-v0",
        "a value that depends on the observation",
        "observations on their way to the critic: stored before the step, in the order of their returns",
        (-1.0, 1.0),
        (0, 1),
        ((-1.0,), (1.0,)),
    ),
    Probe(
        "ppobook/ProbeDiscount-v0",
        "a reward that comes one step later",
        "the discount, the next step's value, and the direction in which returns are computed",
        (0.0, 1.0),
        (0,),
        ((0.0,), (1.0,)),
    ),
    Probe(
        "ppobook/ProbeAction-v0",
        "an action that is better than another",
        "advantages, the policy loss and its sign, the log-probabilities of the actions that were taken",
        (0.0,),
        (0,),
        ((-1.0, 1.0),),
    ),
    Probe(
        "ppobook/ProbeBoth-v0",
        "an action whose worth depends on the observation",
        "observations, actions and advantages that no longer belong together; a policy that sees nothing",
        (-1.0, 1.0),
        (0, 1),
        ((1.0, -1.0), (-1.0, 1.0)),
    ),
)


class ProbeEnv(TabularEnv):
    """A `Probe` as a Gymnasium environment, whose observations are vectors of one number in [-1, 1]."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe.mdp())
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._looks = np.array([*probe.observations, 0.0], dtype=np.float32)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:  # type: ignore[override]
        state, info = super().reset(**kwargs)
        return self._looks[[state]], info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:  # type: ignore[override]
        state, reward, terminated, truncated, info = super().step(action)
        return self._looks[[state]], reward, terminated, truncated, info


def climb(
    learn: Callable[[str], tuple[Callable[[Any], Any], Callable[[Any], Any]]],
    *,
    gamma: float = 0.9,
    tolerance: float = 0.04,
) -> pd.DataFrame:
    """Train a learner on each of the five probes, and say what it has learned and where to look.

    Parameters
    ----------
    learn : function
        Gets the id of an environment, trains on it, and returns two functions of observations [B, 1], a
        float32 tensor: their values, [B] or [B, 1], and the probabilities of the actions, [B, A].
    gamma : float in [0, 1]
        The learner's discount.
    tolerance : float
        How far a value, and the probability of the best action from 1, may be off.

    Returns
    -------
    DataFrame
        One row per rung, from the lowest. Columns: probe (its id), tests, learned and exact (lists; values on
        the first three rungs, probabilities of the best action on the last two), passes, and suspect, which
        is empty where the rung is passed. The first rung that fails is the one to look at: those above it
        need the same part.

    Examples
    --------
    >>> def learn(env_id):
    ...     run = train("ppo", env=env_id, total_steps=4096, gamma=0.9, lr=1e-2, progress=False)
    ...     return run.value, lambda x: run.policy.distribution(x).logits.softmax(-1)
    >>> climb(learn)
    """
    import pandas as pd

    rows = []
    for probe in PROBES:
        value, probabilities = learn(probe.id)
        learned = _learned(probe, value, probabilities)
        exact = np.ones(len(learned)) if probe.acts else probe.values(gamma)
        passes = bool(np.allclose(learned, exact, rtol=0, atol=tolerance))  # false for nan
        rows.append(
            {
                "probe": probe.id,
                "tests": probe.tests,
                "learned": learned.tolist(),
                "exact": exact.tolist(),
                "passes": passes,
                "suspect": "" if passes else probe.suspect,
            }
        )
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="rung"))


def _learned(probe: Probe, value: Callable[[Any], Any], probabilities: Callable[[Any], Any]) -> np.ndarray:
    """Values of a probe's observations, or the probabilities of the best actions there."""
    import torch

    observations = torch.tensor(probe.observations, dtype=torch.float32)[:, None]
    with torch.no_grad():
        found = np.asarray((probabilities if probe.acts else value)(observations), dtype=np.float64)
    size = len(probe.observations)
    return found[np.arange(size), probe.best_actions()] if probe.acts else found.reshape(size)


for _probe in PROBES:
    gym.register(_probe.id, "ppobook.envs.probes:ProbeEnv", kwargs={"probe": _probe})
