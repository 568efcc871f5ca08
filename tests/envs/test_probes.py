"""The five probes: exact values, what climbing says of a broken learner, and that ours get to the top."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from bands import seeds
from gymnasium.utils.env_checker import check_env

from ppobook import train
from ppobook.envs import PROBES, climb, make_env
from ppobook.policies import together
from ppobook.ppo import PPO

SMALL = {"num_envs": 8, "num_steps": 32, "gamma": 0.9}
LEARNERS = {
    "ppo": {**SMALL, "total_steps": 4096, "lr": 1e-2, "num_minibatches": 4, "epochs": 5},
    "trpo": {**SMALL, "total_steps": 4096, "max_kl": 0.05, "value_lr": 1e-2},
    "vanilla": {**SMALL, "total_steps": 3072, "lr": 3e-2, "value_lr": 1e-2},
}


def trained(algorithm, seed, settings):
    """The argument of `climb`: a function of an id, which trains there."""

    def learn(env_id):
        run = train(algorithm, env=env_id, seed=seed, progress=False, **settings)
        return run.value, lambda x: run.policy.distribution(x).logits.softmax(-1)

    return learn


# --- the environments


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
def test_a_probe_is_an_environment_with_vectors(probe):
    check_env(gym.make(probe.id).unwrapped, skip_render_check=True)
    envs = make_env(probe.id, 3, seed=0)
    assert envs.single_observation_space.shape == (1,)
    assert envs.single_action_space.n == len(probe.rewards[0])


def test_exact_values():
    constant, observation, discount, action, both = (probe.values(0.9).tolist() for probe in PROBES)
    assert constant == [1]
    assert observation == [-1, 1]
    assert discount == pytest.approx([0.9, 1])
    assert action == [1]
    assert both == [1, 1]
    assert [probe.best_actions().tolist() for probe in PROBES] == [[0], [0, 0], [0, 0], [1], [0, 1]]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
def test_episodes_earn_what_the_tables_say(probe):
    """Under random actions, by what was seen alone: each observation's mean return is its value."""
    envs, rng = make_env(probe.id, 40, seed=0), np.random.default_rng(0)
    n_actions, played = len(probe.rewards[0]), len(probe.observations)
    seen, _ = envs.reset(seed=1)
    looks = np.array(probe.observations, dtype=np.float32)
    open_steps = [[] for _ in range(40)]
    returns = {look: [] for look in looks.tolist()}
    for _ in range(40):
        actions = rng.integers(n_actions, size=40)
        after, rewards, terminated, truncated, infos = envs.step(actions)
        assert not truncated.any()
        for i in range(40):
            assert seen[i, 0] in looks
            open_steps[i].append((float(seen[i, 0]), float(rewards[i])))
            if terminated[i]:
                assert infos["final_obs"][i].tolist() == [0.0]
                total = 0.0
                for look, reward in reversed(open_steps[i]):
                    total = reward + 0.9 * total
                    returns[look].append(total)
                open_steps[i] = []
        seen = after
    values = probe.mdp(0.9).policy_value(np.full((played + 1, n_actions), 1 / n_actions))
    for look, value in zip(returns, values[:-1], strict=True):
        assert np.mean(returns[look]) == pytest.approx(value, abs=0.15 if n_actions > 1 else 1e-9)


# --- learners of ours


@pytest.mark.learning
@pytest.mark.parametrize("algorithm", LEARNERS)
def test_ours_get_to_the_top(algorithm, band):
    """The number of rungs passed; 5 and 5 for each of the three on seeds 1000 and 1001."""
    runs = [climb(trained(algorithm, seed, LEARNERS[algorithm])) for seed in seeds(2)]
    band([float(table["passes"].sum()) for table in runs], at_least=4.5)


def test_a_healthy_learner_passes_and_nothing_is_suspected():
    table = climb(scripted(exact, best))
    assert table["passes"].all()
    assert (table["suspect"] == "").all()
    assert table.index.tolist() == [1, 2, 3, 4, 5]
    assert table.loc[3, "exact"] == pytest.approx([0.9, 1.0])


# --- learners with one broken part: the first rung that fails


class EndsIgnored(PPO):
    """The value of what follows is counted after a terminated step too."""

    def advantages(self, rollout):
        rollout = replace(rollout, terminated=torch.zeros_like(rollout.terminated))
        return super().advantages(rollout)


class SeesAfterTheStep(PPO):
    """The observation that a step led to is stored in place of the one it was taken at."""

    def update(self, rollout):
        seen = torch.cat([rollout.observations[:, 1:], rollout.last_observations[:, None]], dim=1)
        return super().update(replace(rollout, observations=seen))


class NoDiscount(PPO):
    """Its returns are those of a γ of 1."""

    def advantages(self, rollout):
        _, _, values = super().advantages(rollout)
        to_go = torch.zeros_like(rollout.rewards)
        total = torch.zeros_like(values[:, 0])
        for t in reversed(range(to_go.shape[1])):
            total = rollout.rewards[:, t] + total * ~rollout.terminated[:, t]
            to_go[:, t] = total
        return to_go - values, to_go, values


class WrongSign(PPO):
    def advantages(self, rollout):
        advantages, returns, values = super().advantages(rollout)
        return -advantages, returns, values


class PolicySeesNothing(PPO):
    """The policy learns from a blank observation, the critic from the right one."""

    def loss(self, batch):
        policy, _ = together(self.policy, self.value, torch.zeros_like(batch.observations))
        _, values = together(self.policy, self.value, batch.observations)
        error = ((values - batch.returns) ** 2).mean() / 2
        ratio = (policy.logp(batch.actions) - batch.old_logp).exp().clamp(0.8, 1.2)
        loss = error - (ratio * batch.advantages).mean()
        return loss, {"policy_loss": loss.detach(), "value_loss": error.detach(), "approx_kl": 0.0}


@pytest.mark.learning
@pytest.mark.parametrize(
    ("broken", "rung"),
    [
        (EndsIgnored, 1),
        (SeesAfterTheStep, 2),
        (NoDiscount, 3),
        (WrongSign, 4),
        (PolicySeesNothing, 5),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_a_broken_part_fails_at_its_rung_first(broken, rung):
    learn, healthy = trained(broken, 300, LEARNERS["ppo"] | {"fast": True}), scripted(exact, best)
    upto = {probe.id for probe in PROBES[:rung]}  # what comes after it need not be trained
    table = climb(lambda env_id: (learn if env_id in upto else healthy)(env_id))
    failed = table.index[~table["passes"]]
    assert failed.min() == rung, table[["learned", "passes"]]
    assert table.loc[rung, "suspect"] == PROBES[rung - 1].suspect


# --- what a learner may return


def scripted(values, probabilities):
    return lambda env_id: (lambda x: values(env_id, x), lambda x: probabilities(env_id, x))


def exact(env_id, x):
    probe = next(p for p in PROBES if p.id == env_id)
    return torch.tensor(probe.values(0.9))


def best(env_id, x):
    return torch.eye(2)[(x[:, 0] >= 0).long()]
