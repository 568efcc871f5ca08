"""Chapter 5: chapter 3's short PPO beside the library's, both with the settings of the library's presets.

What the short one has: the clipped loss, advantages normalized over the batch, the critic's squared error,
Adam.
"""

import torch

from ppobook import evaluate, train
from ppobook.diagnostics import explained_variance, normalize
from ppobook.envs import make_env
from ppobook.episodes import critic_values
from ppobook.experiments import record
from ppobook.objectives import clipped_surrogate_loss, value_loss
from ppobook.policies import policy_for, value_for
from ppobook.presets import PPO
from ppobook.returns import gae
from ppobook.rollouts import Collector

STEPS = {"Acrobot-v1": 40_000, "Pendulum-v1": 60_000}
SETTINGS = [{"env": env, "case": case} for env in STEPS for case in ("short", "full")]


def columns_of(batch, value, gamma: float, lam: float):
    values, last_values, final_values = critic_values(value, batch)
    advantages, targets = gae(
        batch.rewards,
        torch.cat([values, last_values[:, None]], dim=1),
        batch.terminated,
        batch.truncated,
        final_values,
        gamma=gamma,
        lam=lam,
    )
    columns = batch.observations, batch.actions, batch.logp, normalize(advantages), targets
    return [x.flatten(0, 1) for x in columns], explained_variance(values, targets).item()


def short_ppo(env: str, seed: int):
    """Chapter 3's, with the preset's sizes, rates and discounts."""
    s = {"gamma": 0.99, "lam": 0.95} | PPO[env]
    torch.manual_seed(seed)
    envs = make_env(env, s["num_envs"], seed=seed)
    spaces = envs.single_observation_space, envs.single_action_space
    policy, value = policy_for(*spaces, seed=seed), value_for(spaces[0], seed=seed + 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=s["lr"], eps=1e-5)
    collector, log = Collector(envs, policy, seed=seed), []
    for _ in range(STEPS[env] // (s["num_envs"] * s["num_steps"])):
        batch = collector.collect(s["num_steps"])
        (seen, actions, old_logp, advantages, targets), explained = columns_of(
            batch, value, s["gamma"], s["lam"]
        )
        for _ in range(10):
            for rows in torch.randperm(len(targets)).chunk(s["num_minibatches"]):
                logp = policy.logp(seen[rows], actions[rows])
                loss = clipped_surrogate_loss(logp, old_logp[rows], advantages[rows])
                optimizer.zero_grad()
                (loss + value_loss(value(seen[rows]), targets[rows])).backward()
                optimizer.step()
        returns = batch.episode_returns.mean() if len(batch.episode_returns) else float("nan")
        log.append({"steps": seen.shape[0] * (len(log) + 1), "return_mean": returns})
        log[-1]["explained_variance"] = explained
    return policy, log


def one(seed: int, env: str, case: str) -> list[dict]:
    if case == "short":
        policy, log = short_ppo(env, seed)
    else:
        run = train("ppo", env=env, seed=seed, total_steps=STEPS[env], progress=False)
        policy, log = run.policy, run.history.to_dict("records")
    final = evaluate(policy, env, episodes=50, seed=10_000 + seed)["mean"]
    kept = ("steps", "return_mean", "explained_variance")
    return [{**{name: row[name] for name in kept}, "final": final} for row in log]


if __name__ == "__main__":
    record(
        "ppo_short",
        one,
        SETTINGS,
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="Both with the presets' sizes, rates and discounts. Acrobot was added, and five seeds made ten, "
        "after five on Pendulum had shown no difference.",
    )
