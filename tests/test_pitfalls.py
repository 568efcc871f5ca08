"""The mistakes that implementations of PPO make, planted one by one: a slow update finds each.

The slow update is written from the paper alone: one sample at a time, loops over steps, no function of the
library. `PPO.update` has to end with its weights. Each pitfall changes one thing that `PPO.update` calls, as
somebody's edit would, and then the weights must differ.
"""

import copy
import math

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from ppobook import learner, ppo
from ppobook.envs import make_env
from ppobook.learner import gradient_step
from ppobook.ppo import PPO
from ppobook.rollouts import Collector
from ppobook.settings import PPOSettings

SETTINGS = PPOSettings(
    num_envs=4, num_steps=32, epochs=2, num_minibatches=2, lr=0.03, clip_eps=0.2, value_clip_eps=0.1,
    value_coef=0.7, entropy_coef=0.05, gamma=0.97, lam=0.9, max_grad_norm=0.5, hidden=(16,),
)  # fmt: skip


@pytest.fixture(scope="module")
def before():
    """A learner and its rollout, with episodes that terminated, were truncated, and are unfinished."""
    envs = make_env("CartPole-v1", SETTINGS.num_envs, seed=0, max_episode_steps=15)
    learner = PPO(envs.single_observation_space, envs.single_action_space, SETTINGS)
    rollout = Collector(envs, learner.policy, seed=0).collect(SETTINGS.num_steps)
    assert rollout.terminated.any()
    assert (rollout.truncated & ~rollout.terminated).any()
    assert not (rollout.terminated | rollout.truncated)[:, -1].all()
    return learner, rollout


def slow_update(learner, rollout):
    """The weights of policy and critic after one update, by the definitions."""
    s, draw = learner.settings, torch.Generator()
    draw.set_state(learner.shuffle.generator.get_state())
    policy, value = copy.deepcopy((learner.policy, learner.value))
    finals = iter(rollout.final_observations)
    samples = []
    for n in range(s.num_envs):
        column = []
        for t in range(s.num_steps):
            over, cut = bool(rollout.terminated[n, t]), bool(rollout.truncated[n, t])
            after = rollout.last_observations[n] if t == s.num_steps - 1 else rollout.observations[n, t + 1]
            after = next(finals) if cut and not over else after
            v, v_after = value(rollout.observations[n, t]).item(), 0.0 if over else value(after).item()
            column.append((v, rollout.rewards[n, t].item() + s.gamma * v_after - v, over or cut))
        for t in range(s.num_steps):
            advantage, weight = 0.0, 1.0
            for _, delta, end in column[t:]:
                advantage += weight * delta
                weight *= s.gamma * s.lam
                if end:
                    break
            seen, action, logp = rollout.observations[n, t], rollout.actions[n, t], rollout.logp[n, t].item()
            samples.append((t, n, seen, action, logp, advantage, advantage + column[t][0], column[t][0]))
    samples.sort(key=lambda sample: sample[:2])

    weights = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(weights, lr=s.lr, eps=s.adam_eps)
    for _ in range(s.epochs):
        for rows in torch.randperm(len(samples), generator=draw).chunk(s.num_minibatches):
            part = [samples[i] for i in rows]
            mean = sum(x[5] for x in part) / len(part)
            std = math.sqrt(sum((x[5] - mean) ** 2 for x in part) / len(part))
            loss = 0.0
            for _, _, seen, action, old_logp, advantage, target, old_v in part:
                probs = torch.softmax(policy.network(seen), -1)
                a = (advantage - mean) / (std + 1e-8)
                ratio = probs[action] / math.exp(old_logp)
                gain = torch.minimum(ratio * a, ratio.clamp(1 - s.clip_eps, 1 + s.clip_eps) * a)
                v = value(seen)
                near = old_v + (v - old_v).clamp(-s.value_clip_eps, s.value_clip_eps)
                error = torch.maximum((v - target) ** 2, (near - target) ** 2) / 2
                entropy = -(probs * probs.log()).sum()
                loss = loss + (-gain + s.value_coef * error - s.entropy_coef * entropy) / len(part)
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(weights, s.max_grad_norm)
            optimizer.step()
    return torch.cat([w.detach().flatten() for w in weights])


@pytest.fixture(scope="module")
def wanted(before):
    return slow_update(*before)


def update(before):
    """The weights after `PPO.update`."""
    learner, rollout = copy.deepcopy(before)
    learner.update(rollout)
    return torch.cat(
        [w.detach().flatten() for w in (*learner.policy.parameters(), *learner.value.parameters())]
    )


def test_an_update_is_the_papers(before, wanted):
    torch.testing.assert_close(update(before), wanted, rtol=1e-3, atol=1e-4)


# --- what goes wrong --------------------------------------------------------------------------------------

LOSS, GAE, NORMALIZE = (ppo, "ppo_loss"), (learner, "gae"), (ppo, "normalize")


def loss_with(change):
    """`ppo_loss` called with other arguments."""
    right = ppo.ppo_loss

    def wrong(logp, old_logp, advantages, values, returns, entropy, **settings):
        names = ("logp", "old_logp", "advantages", "values", "returns", "entropy")
        given = (
            dict(zip(names, (logp, old_logp, advantages, values, returns, entropy), strict=True)) | settings
        )
        return right(**given | change(given))

    return wrong


def gae_with(change):
    """`gae` called with other arguments."""
    right = learner.gae

    def wrong(rewards, values, terminated, truncated, final_values, **settings):
        names = ("rewards", "values", "terminated", "truncated", "final_values")
        given = dict(zip(names, (rewards, values, terminated, truncated, final_values), strict=True))
        return right(**given | change(given), **settings)

    return wrong


def nothing_at_the_end(values):
    return torch.cat([values[:, :-1], torch.zeros_like(values[:, -1:])], dim=1)


PITFALLS = {
    "ratio by division": (
        *LOSS,
        loss_with(lambda x: {"logp": x["old_logp"] + (x["logp"] / x["old_logp"]).log()}),
    ),
    "min and max swapped": (torch, "minimum", torch.maximum),
    "no advantage normalization": (*NORMALIZE, lambda x, *_: x),
    "old log-probs not stored": (*LOSS, loss_with(lambda x: {"old_logp": x["logp"].detach()})),
    "old values not stored": (*LOSS, loss_with(lambda x: {"old_values": x["values"].detach()})),
    "advantage sign": (*LOSS, loss_with(lambda x: {"advantages": -x["advantages"]})),
    "entropy sign": (*LOSS, loss_with(lambda x: {"entropy": -x["entropy"]})),
    "half of the value loss missing": (*LOSS, loss_with(lambda x: {"value_coef": 2 * x["value_coef"]})),
    "done mask missing": (
        *GAE,
        gae_with(lambda x: {name: torch.zeros_like(x[name]) for name in ("terminated", "truncated")}),
    ),
    "truncated treated as terminated": (
        *GAE,
        gae_with(lambda x: {"terminated": x["terminated"] | x["truncated"]}),
    ),
    "bootstrap missing at a truncation": (
        *GAE,
        gae_with(lambda x: {"final_values": torch.zeros_like(x["final_values"])}),
    ),
    "bootstrap missing for the unfinished rollout": (
        *GAE,
        gae_with(lambda x: {"values": nothing_at_the_end(x["values"])}),
    ),
    "gradient not clipped": (ppo, "gradient_step", lambda optimizer, loss, _: gradient_step(optimizer, loss)),
}


@pytest.mark.parametrize("pitfall", PITFALLS)
def test_a_pitfall_is_found(pitfall, before, wanted, monkeypatch):
    monkeypatch.setattr(*PITFALLS[pitfall])
    with pytest.raises(AssertionError):
        torch.testing.assert_close(update(before), wanted, rtol=1e-3, atol=1e-4)


def test_advantages_that_are_not_detached_are_found():
    """Detached inside the loss: a critic must not learn from the policy's part."""
    numbers = torch.tensor([-0.5, -1.0]), torch.tensor([-0.6, -0.9])
    advantages = torch.tensor([1.0, -2.0], requires_grad=True)
    logp = numbers[0].requires_grad_()
    rest = torch.zeros(2), torch.zeros(2), torch.zeros(2)
    loss, _ = ppo.ppo_loss(logp, numbers[1], advantages, *rest, clip_eps=0.2, value_coef=1, entropy_coef=0)
    loss.backward()
    assert advantages.grad is None
