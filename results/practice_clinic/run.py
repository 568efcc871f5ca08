"""Chapter 6, the clinic: ten broken runs of PPO on CartPole, each a line or two away from the healthy one.

Whoever wants to diagnose them should not read on: the faults stand below, case by case.
"""

import dataclasses
import sys
from pathlib import Path

import torch

from ppobook import evaluate, train
from ppobook.experiments import record
from ppobook.objectives import value_loss
from ppobook.policies import CategoricalPolicy
from ppobook.ppo import PPO

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from practice_clip_lr.run import COMMON


class Healthy(PPO):
    """PPO as it is."""

    presets = {}  # noqa: RUF012


class LargeRewards(Healthy):
    """The environment's rewards are 100, not 1."""

    def advantages(self, rollout):
        return super().advantages(dataclasses.replace(rollout, rewards=100 * rollout.rewards))


class EntropySign(Healthy):
    """The bonus for entropy is added to the loss, where it should be subtracted."""

    def loss(self, batch):
        loss, diagnostics = super().loss(batch)
        entropy = self.policy.distribution(batch.observations).entropy().mean()
        return loss + 2 * self.settings.entropy_coef * entropy, diagnostics


class AdvantagesShuffled(Healthy):
    """A minibatch takes its advantages in another order than its actions."""

    def loss(self, batch):
        batch.advantages = batch.advantages[torch.randperm(len(batch))]
        return super().loss(batch)


class ObservationsShuffled(Healthy):
    """A minibatch takes its observations in another order than all the rest."""

    def loss(self, batch):
        batch.observations = batch.observations[torch.randperm(len(batch))]
        return super().loss(batch)


class MaximumForMinimum(Healthy):
    """The larger of the two surrogates is taken, where the smaller is wanted."""

    def loss(self, batch):
        loss, diagnostics = super().loss(batch)
        ratio = (self.policy.logp(batch.observations, batch.actions) - batch.old_logp).exp()
        eps = self.settings.clip_eps
        both = ratio * batch.advantages, ratio.clamp(1 - eps, 1 + eps) * batch.advantages
        return loss + torch.minimum(*both).mean() - torch.maximum(*both).mean(), diagnostics


class Broadcast(Healthy):
    """values[:, None] − returns is a square: each value is compared with the returns of all steps."""

    def loss(self, batch):
        loss, diagnostics = super().loss(batch)
        values = self.value(batch.observations)
        wrong = (values[:, None] - batch.returns).square().mean() / 2
        loss = loss + self.settings.value_coef * (wrong - value_loss(values, batch.returns))
        return loss, {**diagnostics, "value_loss": wrong.detach()}


class Worst(CategoricalPolicy):
    """The best action is the one with the smallest probability."""

    def mode(self, observations):
        return self.logits(observations).argmin(-1)


class EvaluatedWrongly(Healthy):
    """Training is as it should be, and the policy is put to use by the wrong line."""

    def networks(self, observation_space, action_space, seed):
        policy, value = super().networks(observation_space, action_space, seed)
        policy.__class__ = Worst
        return policy, value


CASES = {
    "healthy": (Healthy, {}),
    "A": (Healthy, {"lr": 0.09}),
    "B": (Healthy, {"gamma": 0.0}),
    "C": (Healthy, {"value_coef": 0.0}),
    "D": (LargeRewards, {}),
    "E": (EntropySign, {}),
    "F": (AdvantagesShuffled, {}),
    "G": (ObservationsShuffled, {}),
    "H": (MaximumForMinimum, {}),
    "I": (Broadcast, {}),
    "J": (EvaluatedWrongly, {}),
}
SETTINGS = [{"case": case} for case in CASES]
KEPT = ["update", "steps", "return_mean", "entropy", "approx_kl", "clip_fraction", "ratio_std"]
KEPT += ["explained_variance", "value_loss", "grad_norm", "final"]


def one(seed: int, case: str) -> list[dict]:
    learner, own = CASES[case]
    settings = {**COMMON, "lr": 0.003, "entropy_coef": 0.05, **own}
    torch.manual_seed(seed)  # two of the faults shuffle
    run = train(learner, env="CartPole-v1", seed=seed, total_steps=30_000, progress=False, **settings)
    final = evaluate(run.policy, "CartPole-v1", episodes=20, seed=10_000 + seed, deterministic=True)
    return run.history.assign(final=final["mean"])[KEPT].to_dict("records")


if __name__ == "__main__":
    record(
        "practice_clinic",
        one,
        SETTINGS,
        seeds=range(100, 103),
        workers=1,
        digits=3,
        note="A fault a case; the settings of practice_gauges, with a bonus of 0.05 for the entropy. Three "
        "seeds, because each run is shown, and nothing is compared by an interval.",
    )
