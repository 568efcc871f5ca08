"""Chapter 4: PPO with the ends of episodes treated correctly, and in five wrong ways.

On CartPole, where episodes end by a fall, and on Pendulum, where all of them are truncated; in training after
50 steps, in the evaluation after the usual 200. Within an environment nothing else differs.
"""

import gymnasium as gym
import torch

from ppobook import evaluate, train
from ppobook.episodes import critic_values
from ppobook.experiments import record
from ppobook.ppo import PPO
from ppobook.returns import gae

COMMON = {"epochs": 10, "num_minibatches": 8, "value_coef": 1.0, "entropy_coef": 0.0}
CARTPOLE = {"num_envs": 8, "num_steps": 128, "gamma": 0.99, "lam": 0.95, "lr": 1e-3}
PENDULUM = {"num_envs": 4, "num_steps": 256, "gamma": 0.95, "lam": 0.9, "lr": 2e-3}
PENDULUM |= {"env_kwargs": {"max_episode_steps": 50}}
STEPS = {"CartPole-v1": 20_000, "Pendulum-v1": 40_000}


class Correct(PPO):
    """GAE with the flags as `flags` returns them."""

    presets = {}  # noqa: RUF012

    def flags(self, rollout, next_values, final_values):
        return rollout.terminated, rollout.truncated, final_values

    def advantages(self, rollout):
        values, last_values, final_values = critic_values(self.value, rollout)
        all_values = torch.cat([values, last_values[:, None]], dim=1)
        flags = self.flags(rollout, all_values[:, 1:], final_values)
        s = self.settings
        return (*gae(rollout.rewards, all_values, *flags, gamma=s.gamma, lam=s.lam), values)


class TruncatedAsTerminated(Correct):
    """done = terminated or truncated: nothing is expected after a time limit."""

    def flags(self, rollout, next_values, final_values):
        return rollout.terminated | rollout.truncated, None, None


class ValueOfNextEpisode(Correct):
    """At a time limit, the value of the next row: the first observation of the next episode."""

    def flags(self, rollout, next_values, final_values):
        return rollout.terminated, rollout.truncated, next_values


class TerminatedAsTruncated(Correct):
    """A fall is followed by what comes next in the batch: by the start of another episode."""

    def flags(self, rollout, next_values, final_values):
        ended = rollout.terminated | rollout.truncated
        return torch.zeros_like(ended), ended, next_values


class NotCut(Correct):
    """The next value is right at each end, and the sum runs on into the next episode."""

    def advantages(self, rollout):
        values, last_values, final_values = critic_values(self.value, rollout)
        following = torch.cat([values[:, 1:], last_values[:, None]], dim=1)
        following = torch.where(rollout.truncated, final_values, following)
        following = torch.where(rollout.terminated, 0.0, following)
        s = self.settings
        deltas = rollout.rewards + s.gamma * following - values
        advantages = torch.zeros_like(deltas)
        later = torch.zeros_like(last_values)
        for t in reversed(range(deltas.shape[1])):
            advantages[:, t] = later = deltas[:, t] + s.gamma * s.lam * later
        return advantages, advantages + values, values


class ResetSteps(gym.Wrapper):
    """NEXT_STEP autoreset as a batch sees it: a row for each reset, its action ignored, its reward 0."""

    final = first = None

    def reset(self, **kwargs):
        observation, info = self.env.reset(**kwargs)
        if self.final is None:
            return observation, info
        self.first = observation
        return self.final, info

    def step(self, action):
        if self.first is not None:
            observation, self.first = self.first, None
            return observation, 0.0, False, False, {}
        result = self.env.step(action)
        if result[2] or result[3]:
            self.final = result[0]
        return result


def with_reset_steps():
    return ResetSteps(gym.make("CartPole-v1"))


CASES = {
    "CartPole-v1": {
        "correct": Correct,
        "termination bootstrapped": TerminatedAsTruncated,
        "not cut": NotCut,
        "reset steps": Correct,
    },
    "Pendulum-v1": {
        "correct": Correct,
        "truncation as termination": TruncatedAsTerminated,
        "value of the next episode": ValueOfNextEpisode,
    },
}


def one(seed: int, env: str, case: str) -> dict:
    settings = COMMON | (CARTPOLE if env == "CartPole-v1" else PENDULUM)
    run = train(
        CASES[env][case],
        env=with_reset_steps if case == "reset steps" else env,
        seed=seed,
        total_steps=STEPS[env],
        progress=False,
        **settings,
    )
    final = evaluate(run.policy, env, episodes=100, seed=10_000 + seed)["mean"]
    explained = run.history["explained_variance"].tail(10).median()
    return {
        "final": final,
        "training_return": run.history["return_mean"].mean(),
        "explained_variance": explained,
    }


if __name__ == "__main__":
    record(
        "gae_ends",
        one,
        [{"env": env, "case": case} for env, cases in CASES.items() for case in cases],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Settings by short runs on seeds 0 to 2; every seed reported.",
    )
