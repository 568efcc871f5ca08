"""What holds for PPO and TRPO alike: advantages, metrics, resuming, plain and fast forms, bad input."""

import copy
import functools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import switches  # noqa: F401
import torch
from bands import seeds

from ppobook import load, train
from ppobook.batches import Batch
from ppobook.envs import make_env
from ppobook.evaluation import evaluate
from ppobook.fast import choose
from ppobook.fast.closed_form import CriticStep, PPOStep
from ppobook.fast.declare import declared, fast_form
from ppobook.policies import CategoricalPolicy, ValueFunction, actor_critic_for
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
    merged = {**SMALL, **few(kind), **settings}
    return train(kind, env=env, total_steps=total_steps, progress=False, **merged)


def without_clocks(history):
    return history.drop(columns=[name for name in history if name.startswith("seconds")])


def bits(*modules):
    return torch.cat([p.detach().reshape(-1) for module in modules for p in module.parameters()])


# -------------------------------------------------------------------------------------------- advantages


@LEARNERS
@pytest.mark.parametrize("fast", [True, False])
def test_advantages_are_those_of_a_slow_walk_through_the_rollout(kind, fast):
    """Every step's TD errors summed forwards, episode by episode, the critic being asked state by state."""
    one, collector = learner(kind, "Pendulum-v1", num_steps=150, gamma=0.9, lam=0.8, fast=fast)
    collector.collect(120)  # so that two episodes are truncated in the next, and two stay unfinished
    rollout = one.collect(collector)
    assert rollout.truncated.any()
    assert len(rollout.final_observations) == 2
    rollout.terminated[0, [5, 70]] = True  # which Pendulum never is
    found, returns, values = one.advantages(rollout)
    ends = iter(rollout.final_observations)
    n, t = rollout.rewards.shape
    with torch.no_grad():
        for i in range(n):
            deltas, last = [], []
            for k in range(t):
                over, cut = bool(rollout.terminated[i, k]), bool(rollout.truncated[i, k])
                if cut and not over:
                    following = next(ends)
                elif k == t - 1:
                    following = rollout.last_observations[i]
                else:
                    following = rollout.observations[i, k + 1]
                after = 0.0 if over else one.value(following).item()
                before = one.value(rollout.observations[i, k]).item()
                assert values[i, k].item() == pytest.approx(before, rel=1e-5, abs=1e-6)
                deltas.append(rollout.rewards[i, k].item() + 0.9 * after - before)
                last.append(over or cut)
            for k in range(t):
                total, weight = 0.0, 1.0
                for j in range(k, t):
                    total += weight * deltas[j]
                    weight *= 0.9 * 0.8
                    if last[j]:
                        break
                assert found[i, k].item() == pytest.approx(total, rel=1e-4, abs=1e-4)
    torch.testing.assert_close(returns, found + values)


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


@LEARNERS
def test_explained_variance_is_of_the_values_recorded_in_the_rollout(kind):
    one, collector = learner(kind)
    rollout = one.collect(collector)
    _, returns, values = one.advantages(rollout)
    metrics = one.update(rollout)
    expected = 1 - np.var((returns - values).numpy()) / np.var(returns.numpy())
    assert metrics["explained_variance"] == pytest.approx(expected, rel=1e-4)


@LEARNERS
def test_returns_so_far_are_reset_with_the_environments(kind):
    one, collector = learner(kind, normalize_rewards=True, num_steps=8)
    one.advantages(one.collect(collector))
    assert (one.reward_scale.returns != 0).any()
    one.reset_episodes()
    assert (one.reward_scale.returns == 0).all()


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


class OwnLoss(PPO):
    def loss(self, batch):
        return super().loss(batch)


class OwnStep(PPO):
    def gradient_step(self, minibatch):
        return super().gradient_step(minibatch)


class OwnCriticStep(TRPO):
    def critic_step(self, minibatch):
        return super().critic_step(minibatch)


class Bare(CategoricalPolicy):
    pass


class OwnPolicy(PPO):
    def networks(self, observation_space, action_space, seed):
        return Bare(4, 2, (8,)), super().networks(observation_space, action_space, seed)[1]


@pytest.mark.parametrize(
    ("kind", "settings", "fast"),
    [
        (PPO, {}, True),
        (PPO, {"activation": "relu"}, True),
        (type("Extended", (PPO,), {"advantages": lambda self, r: PPO.advantages(self, r)}), {}, True),
        (PPO, {"fast": False}, False),
        (PPO, {"objective": "kl"}, False),
        (PPO, {"activation": "gelu"}, False),
        (PPO, {"shared_trunk": True}, False),
        (OwnLoss, {}, False),
        (OwnStep, {}, False),
        (OwnPolicy, {}, False),
        (TRPO, {}, True),
        (TRPO, {"fast": False}, False),
        (TRPO, {"activation": "gelu"}, False),
        (OwnCriticStep, {}, False),
    ],
)
def test_a_fast_form_runs_only_where_everything_declares_it(kind, settings, fast):
    one, _ = learner(kind, **settings)
    if issubclass(kind, PPO):
        assert isinstance(choose.ppo_gradient(one), PPOStep) == fast
    else:
        assert isinstance(choose.critic_gradient(one), CriticStep) == fast


def test_declarations_are_lost_where_something_is_overridden():
    assert declared(PPO.loss) == declared(OwnStep.loss) == "ppo_clip"
    assert declared(OwnLoss.loss) is None
    assert declared(CategoricalPolicy) == declared(CategoricalPolicy(4, 2)) == "categorical"
    assert declared(Bare) is None
    assert declared(fast_form("bare")(type("Again", (Bare,), {}))) == "bare"
    assert declared(len) is None
    assert declared(functools.wraps(PPO.loss)(lambda self, batch: None)) is None


def with_hook(policy):
    policy.network.register_forward_hook(lambda module, inputs, output: output * 0.1)


def with_hook_on_a_parameter(policy):
    next(policy.parameters()).register_hook(lambda gradient: gradient * 0)


def with_a_layer_more(policy):
    policy.network.layers.insert(1, torch.nn.Linear(8, 8))


def with_an_activation_at_the_end(policy):
    policy.network.layers.append(torch.nn.Tanh())


@pytest.mark.parametrize(
    "change", [with_hook, with_hook_on_a_parameter, with_a_layer_more, with_an_activation_at_the_end]
)
def test_a_changed_network_runs_in_its_plain_form(change):
    one, _ = learner(PPO, hidden=(8,))
    change(one.policy)
    assert not isinstance(choose.ppo_gradient(one), PPOStep)


def test_a_parameter_without_a_gradient_stays_with_an_own_loss():
    class PolicyOnly(PPO):
        def loss(self, batch):
            logp = self.policy.logp(batch.observations, batch.actions)
            return -(logp * batch.advantages).mean(), {}

    trained = [run(PolicyOnly, "CartPole-v1", total_steps=64, seed=1, fast=fast) for fast in (True, False)]
    for fast, plain in zip(*(one.value.parameters() for one in trained), strict=True):
        torch.testing.assert_close(fast, plain, rtol=0, atol=0)


@LEARNERS
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("more", [{}, {"normalize_observations": True, "normalize_rewards": True}], ids=str)
def test_training_by_either_form_is_the_same(kind, env, more):
    if kind is PPO and more:
        more = {**more, "value_clip_eps": 0.2}
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


def test_one_update_of_the_plain_form_is_the_box_of_the_paper():
    """`torch.optim.Adam` and autograd by hand, minibatch by minibatch, against both forms of PPO."""
    reached = []
    for fast in (True, False, None):
        one, collector = learner(PPO, epochs=3, fast=bool(fast), normalize_advantages="none", lr=1e-2)
        rollout = one.collect(collector)
        if fast is None:
            batch = Batch.of(rollout, *one.advantages(rollout))
            parameters = [*one.policy.parameters(), *one.value.parameters()]
            optimizer = torch.optim.Adam(parameters, 1e-2, eps=1e-5)
            for _ in range(3):
                for part in batch.minibatches(4, one.shuffle):
                    loss, _ = one.loss(part)
                    optimizer.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(parameters, 0.5)
                    optimizer.step()
        else:
            one.update(rollout)
        reached.append(bits(one.policy, one.value))
    assert torch.equal(reached[1], reached[2])
    torch.testing.assert_close(reached[0], reached[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("word", "fast"), [("0", False), ("1", True)])
def test_the_environment_variable_sets_the_default(word, fast):
    code = "from ppobook.settings import PPOSettings; print(PPOSettings().fast, PPOSettings(fast=True).fast)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PPOBOOK_FAST": word},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [str(fast), "True"]


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


def advantages(make):
    return {"advantages": lambda self, rollout: make(rollout)}


def shared(self, observation_space, action_space, seed):
    return actor_critic_for(observation_space, action_space, shared=True, seed=seed)


DROPOUT = ValueFunction(4, network=torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout()))
# What a case is, the methods of a subclass or the class itself, settings, the error and its message.
BOTH = [
    ("transposed", advantages(lambda r: (r.rewards.T,) * 3), {}, ValueError,
     r"advantages returned by Mine.advantages must have shape \(2, 32\), .*, got \(32, 2\)"),
    ("two", advantages(lambda r: (r.rewards,) * 2), {}, TypeError,
     r"Mine.advantages must return a tuple \(advantages, returns, values\), got 2 values"),
    ("none", advantages(lambda r: None), {}, TypeError, "Mine.advantages must return .* got NoneType"),
    ("arrays", advantages(lambda r: (r.rewards.numpy(),) * 3), {}, TypeError,
     "advantages returned by Mine.advantages must be a torch tensor, got ndarray"),
    ("nan", advantages(lambda r: (r.rewards * math.nan,) * 3), {}, ValueError,
     "advantages returned by Mine.advantages must be finite, got nan"),
    ("no dict", {"update": lambda self, r: None}, {}, TypeError, "Mine.update"),
    ("a column", {"update": lambda self, r: {"seconds": 1.0}}, {}, ValueError, "Mine.update .*'seconds'"),
    ("states", {}, {"env": "ppobook/Chain-v0", "normalize_observations": True}, ValueError,
     "normalize_observations must be False for states"),
    ("lam", {}, {"lam": 1.5}, ValueError, r"lam must be a number in \[0, 1\], got 1.5"),
    ("gamma", {}, {"gamma": -1}, ValueError, "gamma must be"),
]  # fmt: skip


@LEARNERS
@pytest.mark.parametrize(
    ("methods", "settings", "error", "message"), [x[1:] for x in BOTH], ids=[x[0] for x in BOTH]
)
def test_bad_input_of_both_is_refused(kind, methods, settings, error, message):
    with pytest.raises(error, match=message):
        run(own(kind, **methods), **settings)


class FirstTwo(torch.nn.Module):
    """A network without parameters."""

    def forward(self, observations):
        return observations[..., :2]


@pytest.mark.parametrize("fast", [True, False])
def test_a_policy_without_parameters_may_be_evaluated_by_a_critic(fast):
    policy = CategoricalPolicy(4, 2, network=FirstTwo())
    history = run(own_networks(PPO, policy=policy), total_steps=128, fast=fast).history
    assert (history["approx_kl"] == 0).all()


@pytest.mark.parametrize("what", ["policy", "value"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_network_that_is_replaced_in_update_is_refused(what, fast):
    """Rollouts would be of the old policy, and the optimizer's steps of the old network."""

    class Mine(PPO):
        def update(self, rollout):
            setattr(self, what, copy.deepcopy(getattr(self, what)))
            return super().update(rollout)

    with pytest.raises(ValueError, match=f"Mine.update must change the {what} in place, got another module"):
        run(Mine, total_steps=128, fast=fast)


class Masked(torch.nn.Module):
    """Allows the first action only where the first joint is to the left; or, by `allowed`, none anywhere."""

    def __init__(self, allowed=True):
        super().__init__()
        self.out, self.allowed = torch.nn.Linear(6, 3), allowed

    def forward(self, observations):
        forbidden = (observations[..., 1:2] > 0) & torch.tensor([True, False, False])
        return self.out(observations).masked_fill(forbidden | (not self.allowed), -math.inf)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (PPO, {"entropy_coef": 0.01}),
        (PPO, {"objective": "adaptive_kl"}),
        (TRPO, {}),
        (Vanilla, {"entropy_coef": 0.01}),
    ],
)
def test_minus_infinity_masks_actions(kind, settings, fast):
    policy = CategoricalPolicy(6, 3, network=Masked())
    merged = {"num_envs": 2, "num_steps": 32, "fast": fast, "progress": False, **settings}
    made = train(own_networks(kind, policy=policy), env="Acrobot-v1", total_steps=192, **merged)
    assert made.history[["entropy", "approx_kl", "grad_norm"]].notna().all(axis=None)
    assert all(p.isfinite().all() for p in made.policy.parameters())
    assert len(evaluate(made.policy, "Acrobot-v1", episodes=2, fast=fast)["returns"]) == 2
    none = CategoricalPolicy(6, 3, network=Masked(allowed=False))
    with pytest.raises(ValueError, match="outputs of the policy must be finite"):
        train(own_networks(kind, policy=none), env="Acrobot-v1", total_steps=64, **merged)


@LEARNERS
@pytest.mark.parametrize(
    ("made", "settings", "message"),
    [
        (
            {"normalizer": None},
            {"normalize_observations": True},
            r"made by Mine.networks must have a .normalizer",
        ),
        ({"policy": CategoricalPolicy(4, 2, network=torch.nn.Linear(4, 3))}, {}, "."),
        (
            {"policy": CategoricalPolicy(4, 2, network=torch.nn.Linear(5, 2))},
            {},
            r"shapes cannot be multiplied",
        ),
        ({"value": torch.nn.Linear(4, 1)}, {}, r"got \(2, 32, 1\)"),
        ({"value": DROPOUT}, {}, "Dropout"),
        ({"policy": 1.0}, {}, "policy returned by Mine.networks must be a torch.nn.Module, got float"),
        ({"value": 1.0}, {}, "value returned by Mine.networks must be a torch.nn.Module, got float"),
        ({"policy": torch.nn.Linear(4, 2)}, {}, "policy returned by Mine.networks must have the methods of"),
    ],
    ids=["no normalizer", "outputs", "inputs", "squeeze", "dropout", "no policy", "no value", "no methods"],
)
def test_networks_that_do_not_fit_are_refused_and_not_blamed_on_the_learning_rate(
    kind, made, settings, message
):
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message) as caught:
        run(own_networks(kind, **made), total_steps=64, **settings)
    assert "beyond all bounds" not in str(caught.value)
