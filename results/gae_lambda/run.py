"""Chapter 4: PPO with four values of λ, on two environments; how good its gradients and its critic are.

Only λ differs. A row is one update. `agreement` is the cosine between the policy gradients of the two halves
of the environments, at the policy that played them: near 1 if the estimate has little noise. After training,
fresh episodes judge the critic. They go on far past the usual time limit, so that next to nothing is missing
from their discounted returns; the states before that limit are looked at. `value_mean` is the mean of what
the critic says of them, `return_mean_true` of what was earned from there.
"""

import torch

from ppobook import evaluate, train
from ppobook.diagnostics import normalize
from ppobook.envs import make_env
from ppobook.episodes import collect_episodes
from ppobook.experiments import record
from ppobook.objectives import policy_gradient_loss
from ppobook.ppo import PPO
from ppobook.returns import discounted_returns
from ppobook.rollouts import Collector

COMMON = {"epochs": 10, "num_minibatches": 8, "value_coef": 1.0, "entropy_coef": 0.0}
ENVS = {
    "CartPole-v1": {"num_envs": 8, "num_steps": 128, "gamma": 0.999, "lr": 1e-3},
    "Pendulum-v1": {"num_envs": 4, "num_steps": 256, "gamma": 0.95, "lr": 2e-3, "normalize_rewards": True},
}
STEPS = {"CartPole-v1": 20_000, "Pendulum-v1": 40_000}
# The usual time limit, and one by which little of a discounted return is missing.
LIMITS = {"CartPole-v1": (500, 3000), "Pendulum-v1": (200, 300)}
LAMBDAS = {"CartPole-v1": (0.0, 1.0, 0.9, 0.5), "Pendulum-v1": (0.0, 1.0, 0.9)}
KEPT = ["update", "steps", "return_mean", "explained_variance", "agreement", "final"]
KEPT += ["value_mean", "return_mean_true"]


class Watched(PPO):
    """PPO that notes how alike the gradients from two halves of a batch are."""

    presets = {}  # noqa: RUF012

    def advantages(self, rollout):
        estimated = super().advantages(rollout)
        columns = rollout.observations, rollout.actions, normalize(estimated[0])
        gradients = []
        for seen, actions, weights in zip(*(x.tensor_split(2) for x in columns), strict=True):
            loss = policy_gradient_loss(self.policy.logp(seen, actions), weights)
            parts = torch.autograd.grad(loss, list(self.policy.parameters()))
            gradients.append(torch.cat([part.flatten() for part in parts]))
        self.agreement = torch.cosine_similarity(*gradients, dim=0).item()
        return estimated

    def update(self, rollout):
        metrics = super().update(rollout)
        scale = 1.0 if self.reward_scale is None else self.reward_scale.statistics.var.sqrt().item()
        return {**metrics, "agreement": self.agreement, "scale": scale}


def judged(run, env: str, gamma: float, seed: int) -> dict[str, float]:
    """Compare the critic's values of the states of fresh episodes with the rewards that followed."""
    usual, longest = LIMITS[env]
    envs = make_env(env, 8, seed=seed, max_episode_steps=longest)
    played = collect_episodes(Collector(envs, run.policy, seed=seed), 1)
    returns = discounted_returns(played.rewards, played.terminated, played.truncated, gamma=gamma)
    ended = (played.terminated | played.truncated).int()
    first = ended.cumsum(1) - ended == 0
    first[:, usual:] = False
    with torch.no_grad():
        values = run.value(played.observations) * run.history["scale"].iloc[-1]
    return {"value_mean": values[first].mean().item(), "return_mean_true": returns[first].mean().item()}


def one(seed: int, env: str, lam: float) -> list[dict]:
    own = {**COMMON, **ENVS[env]}
    run = train(Watched, env=env, seed=seed, total_steps=STEPS[env], lam=lam, progress=False, **own)
    final = evaluate(run.policy, env, episodes=100, seed=10_000 + seed)["mean"]
    critic = judged(run, env, own["gamma"], 20_000 + seed)
    return run.history.assign(final=final, **critic)[KEPT].to_dict("records")


if __name__ == "__main__":
    record(
        "gae_lambda",
        one,
        [{"env": env, "lam": lam} for env, lams in LAMBDAS.items() for lam in lams],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="γ, learning rate, batch and budget chosen by short runs on seeds 0 to 2; every seed reported.",
    )
