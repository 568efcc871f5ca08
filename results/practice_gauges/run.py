"""Chapter 6: what the gauges of PPO show when something is wrong, one planted fault at a time."""

import dataclasses
import sys
from pathlib import Path

from ppobook import evaluate, train
from ppobook.experiments import record
from ppobook.ppo import PPO

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where the other experiments are

from practice_clip_lr.run import COMMON


class Healthy(PPO):
    """PPO as it is, with autograd, as the faults below have it."""

    presets = {}  # noqa: RUF012


class OldLogpRecomputed(Healthy):
    """old_logp is computed anew in each step, from the policy that moves."""

    def loss(self, batch):
        batch.old_logp = self.policy.logp(batch.observations, batch.actions).detach()
        return super().loss(batch)


class ProbabilityStored(Healthy):
    """The rollout keeps probabilities, where log-probabilities are wanted."""

    def update(self, rollout):
        return super().update(dataclasses.replace(rollout, logp=rollout.logp.exp()))


class TargetSign(Healthy):
    """The critic's loss is (values + returns)², where (values − returns)² is wanted."""

    def loss(self, batch):
        batch.returns = -batch.returns
        return super().loss(batch)


class EntropySign(Healthy):
    """The bonus for entropy is added to the loss, where it should be subtracted."""

    def loss(self, batch):
        loss, diagnostics = super().loss(batch)
        entropy = self.policy.distribution(batch.observations).entropy().mean()
        return loss + 2 * self.settings.entropy_coef * entropy, diagnostics


class AdvantageSign(Healthy):
    """Bad actions become more likely."""

    def advantages(self, rollout):
        advantages, returns, values = super().advantages(rollout)
        return -advantages, returns, values


class DoneMissing(Healthy):
    """Advantages and targets run on across the ends of episodes."""

    def advantages(self, rollout):
        never = rollout.terminated & False
        return super().advantages(dataclasses.replace(rollout, terminated=never, truncated=never))


CASES = {
    "healthy": (Healthy, {}),
    "learning rate ten times": (Healthy, {"lr": 0.03}),
    "old_logp recomputed": (OldLogpRecomputed, {}),
    "probability stored": (ProbabilityStored, {}),
    "target's sign": (TargetSign, {}),
    "entropy's sign": (EntropySign, {"entropy_coef": 0.2}),
    "entropy's sign, cured": (Healthy, {"entropy_coef": 0.2}),
    "advantage's sign": (AdvantageSign, {}),
    "ends of episodes missing": (DoneMissing, {}),
}
SETTINGS = [{"env": "CartPole-v1", "case": case} for case in CASES]
KEPT = ["update", "steps", "return_mean", "value_loss", "entropy", "explained_variance", "approx_kl"]
KEPT += ["clip_fraction", "grad_norm", "final"]


def one(seed: int, env: str, case: str) -> list[dict]:
    learner, own = CASES[case]
    settings = {**COMMON, "lr": 0.003, **own}
    run = train(learner, env=env, seed=seed, total_steps=30_000, progress=False, **settings)
    final = evaluate(run.policy, env, episodes=100, seed=10_000 + seed)
    return run.history.assign(final=final["mean"])[KEPT].to_dict("records")


if __name__ == "__main__":
    record(
        "practice_gauges",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=3,
        note="One fault a case; the cure of each is the case without it. Five seeds made ten, after the "
        "first five were seen; every seed reported.",
    )
