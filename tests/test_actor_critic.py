"""Tests of what PPO and TRPO share: advantages, metrics, resuming, plain and fast forms, networks."""

import math

import numpy as np
import pytest
import switches  # noqa: F401
import torch
from bands import seeds

from ppobook import learner as learners
from ppobook import load, ppo, train, trpo
from ppobook.envs import make_env
from ppobook.evaluation import evaluate
from ppobook.policies import CategoricalPolicy
from ppobook.ppo import PPO
from ppobook.rollouts import Collector
from ppobook.trpo import TRPO
from ppobook.vanilla import Vanilla

LEARNERS = pytest.mark.parametrize("kind", [PPO, TRPO])
SMALL = {"num_envs": 2, "num_steps": 32, "hidden": (8,)}


def learner(kind, env="CartPole-v1", seed=0, **settings):
    made = kind.settings_class.make(kind.algorithm, {**SMALL, **few(kind), **settings}, {})
    envs = make_env(env, made.num_envs)
    one = kind(envs.single_observation_space, envs.single_action_space, made, seed=seed)
    return one, Collector(envs, one.policy, seed=seed)


def few(kind):
    """Minibatches for a batch of 64 steps."""
    return {"epochs": 2, "num_minibatches": 4} if issubclass(kind, PPO) else {"value_minibatches": 4}


def run(kind, env="CartPole-v1", total_steps=128, **settings):
    merged = {**SMALL, **few({"ppo": PPO, "trpo": TRPO}.get(kind, kind)), **settings}
    return train(kind, env=env, total_steps=total_steps, progress=False, **merged)


def without_clocks(history):
    return history.drop(columns=[name for name in history if name.startswith("seconds")])


def bits(*modules):
    return torch.cat([p.detach().reshape(-1) for module in modules for p in module.parameters()])


# ----------------------------------------------------------------------------------------------- metrics


@LEARNERS
def test_kl_and_entropy_are_of_the_policy_after_the_update(kind):
    one, collector = learner(kind)
    rollout = one.collect(collector)
    metrics = one.update(rollout)
    with torch.no_grad():
        log_ratio = one.policy.logp(rollout.observations, rollout.actions) - rollout.logp
        kl = (log_ratio.exp() - 1 - log_ratio).mean().item()
        assert metrics["approx_kl"] == pytest.approx(kl, rel=1e-3, abs=1e-7)
        entropy = one.policy.entropy(rollout.observations).mean().item()
        assert metrics["entropy"] == pytest.approx(entropy)


# ------------------------------------------------------------------------------------------------- a run


@LEARNERS
@pytest.mark.parametrize("fast", [True, False])
def test_a_run_goes_on_to_the_same_bits(kind, fast, tmp_path):
    common = {
        "env": "Pendulum-v1",
        "seed": 3,
        "checkpoint_every": 1,
        "normalize_observations": True,
        "normalize_rewards": True,
        "fast": fast,
    }
    whole = run(kind, total_steps=320, **common)
    run(kind, total_steps=128, out=tmp_path / "run", **common)
    resumed = train(resume=tmp_path / "run", total_steps=320, progress=False)
    assert without_clocks(whole.history).equals(without_clocks(resumed.history))
    assert torch.equal(bits(whole.policy, whole.value), bits(resumed.policy, resumed.value))
    loaded = load(tmp_path / "run")
    assert loaded.policy.normalizer.count == loaded.value.normalizer.count == 320
    assert torch.equal(bits(loaded.policy), bits(whole.policy))


@pytest.mark.learning
@LEARNERS
def test_several_discrete_actions_at_once_are_learned(kind, band):
    """Each of ten steps pays at most 2; what knows nothing earns 8."""
    more = {"num_envs": 8, "num_steps": 64, "hidden": (64, 64)}
    more |= {"max_kl": 0.05} if kind is TRPO else {"lr": 5e-3, "entropy_coef": 0.0, "epochs": 4}
    runs = [run(kind, "tests/Switches-v0", total_steps=8_000, seed=seed, **more) for seed in seeds(3)]
    band([one.history["return_mean"].iloc[-1] for one in runs], at_least=13)


# -------------------------------------------------------------------------------- plain form and fast form


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        (PPO, [(PPO, "loss"), (PPO, "gradient_step"), (ppo, "ppo_loss"), (learners, "gae")]),
        (TRPO, [(TRPO, "critic_step"), (trpo, "conjugate_gradient"), (trpo, "line_search"),
                (trpo, "surrogate_loss"), (learners, "gae")]),
    ],
)  # fmt: skip
def test_a_run_calls_what_chapters_print_unless_it_is_to_be_fast(kind, printed, monkeypatch):
    calls = []
    for place, name in printed:
        original = getattr(place, name)

        def called(*given, name=name, original=original, **more):
            calls.append(name)
            return original(*given, **more)

        monkeypatch.setattr(place, name, called)
    run(kind.algorithm)
    assert set(calls) == {name for _, name in printed}
    calls.clear()
    run(kind.algorithm, fast=True)
    assert not {"loss", "ppo_loss", "critic_step"} & set(calls)


@LEARNERS
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_training_by_either_form_is_the_same(kind, env):
    more = {"normalize_observations": True, "normalize_rewards": True}
    more |= {"value_clip_eps": 0.2} if kind is PPO else {}
    fast, plain = (run(kind, env, total_steps=192, seed=1, fast=fast, **more) for fast in (True, False))
    assert fast.config["fast"]
    assert not plain.config["fast"]
    for a, b in ((fast.policy, plain.policy), (fast.value, plain.value)):
        torch.testing.assert_close(bits(a), bits(b), rtol=1e-3, atol=1e-4)
    columns = list(without_clocks(fast.history))
    assert columns == list(without_clocks(plain.history))
    np.testing.assert_allclose(
        fast.history[columns].to_numpy(float), plain.history[columns].to_numpy(float), rtol=5e-3, atol=2e-3
    )


# --------------------------------------------------------------------------------------------- bad input


def own(kind, **methods):
    return type("Mine", (kind,), methods)


def own_networks(kind, policy=None, value=None, **attributes):
    def networks(self, observation_space, action_space, seed):
        ours = kind.networks(self, observation_space, action_space, seed)
        for name, x in attributes.items():
            setattr(ours[0], name, x)
        return policy or ours[0], value or ours[1]

    return own(kind, networks=networks)


# What a case is, the methods of a subclass, settings, the error and its message.


class Masked(torch.nn.Module):
    """Allows the first action only where the first joint is to the left; or, by `allowed`, none anywhere."""

    def __init__(self, allowed=True):
        super().__init__()
        self.out, self.allowed = torch.nn.Linear(6, 3), allowed

    def forward(self, observations):
        forbidden = (observations[..., 1:2] > 0) & torch.tensor([True, False, False])
        return self.out(observations).masked_fill(forbidden | (not self.allowed), -math.inf)


@pytest.mark.parametrize(
    ("kind", "settings", "fast"),
    [
        (PPO, {"entropy_coef": 0.01}, True),
        (PPO, {"objective": "adaptive_kl"}, False),
        (TRPO, {}, False),
        (Vanilla, {"entropy_coef": 0.01}, False),
    ],
)
def test_minus_infinity_masks_actions(kind, settings, fast):
    policy = CategoricalPolicy(6, 3, network=Masked())
    merged = {"num_envs": 2, "num_steps": 32, "fast": fast, "progress": False, **settings}
    made = train(own_networks(kind, policy=policy), env="Acrobot-v1", total_steps=192, **merged)
    assert made.history[["entropy", "approx_kl", "grad_norm"]].notna().all(axis=None)
    assert all(p.isfinite().all() for p in made.policy.parameters())
    assert len(evaluate(made.policy, "Acrobot-v1", episodes=2)["returns"]) == 2
    none = CategoricalPolicy(6, 3, network=Masked(allowed=False))
    with pytest.raises((ValueError, FloatingPointError), match="finite"):
        train(own_networks(kind, policy=none), env="Acrobot-v1", total_steps=64, **merged)


@LEARNERS
def test_dropout_and_batch_normalisation_leave_the_first_ratios_at_one(kind):
    layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)]
    made = own_networks(kind, policy=CategoricalPolicy(4, 2, network=torch.nn.Sequential(*layers)))
    one, collector = learner(made)
    rollout = collector.collect(32)
    logp = one.policy.distribution(rollout.observations.flatten(0, 1)).logp(rollout.actions.flatten())
    torch.testing.assert_close(logp, rollout.logp.flatten())


@LEARNERS
@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"policy": CategoricalPolicy(4, 2, network=torch.nn.Linear(4, 3))}, r"\(2, 2\).*, got \(2, 3\)"),
        ({"value": torch.nn.Linear(4, 1)}, r"got \(2, 32, 1\)"),
    ],
    ids=["policy", "value"],
)
def test_networks_with_a_wrong_output_shape_are_refused(kind, made, message):
    with pytest.raises(ValueError, match=message):
        run(own_networks(kind, **made), total_steps=64)
