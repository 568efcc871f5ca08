"""What is checked in the first update of a run: networks and optimizers."""

import re
from functools import partial

import pytest
import torch
from small_runs import OwnPolicy, same_run
from small_stages import WORLD, decoder
from torch import nn

from ppobook import train
from ppobook.language import ppo as language_ppo
from ppobook.language.training import train as train_stage
from ppobook.policies import CategoricalPolicy, GaussianPolicy, ValueFunction
from ppobook.ppo import PPO
from ppobook.trpo import TRPO
from ppobook.vanilla import Vanilla

SMALL = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 32, "total_steps": 128, "progress": False}

LANGUAGE = {"data": WORLD, "reward": "gold", "updates": 2, "batch_size": 4, "progress": False}


class Net(nn.Module):
    """A layer, and what is done to its input or its output."""

    def __init__(self, inputs, outputs, before=None, after=None):
        super().__init__()
        self.layer, self.before, self.after = nn.Linear(inputs, outputs), before, after

    def forward(self, x):
        y = self.layer(self.before(x) if self.before else x)
        return self.after(y) if self.after else y


def dropped(x):
    return nn.functional.dropout(x, 0.5)


def learner(kind, policy=None, value=None):
    def networks(self, observations, actions, seed):
        return policy or CategoricalPolicy(4, 2), value or ValueFunction(4)

    return type("Mine", (kind,), {"networks": networks})


def centred(x):
    return 10 * (x - x.mean(tuple(range(x.ndim - 1)), keepdim=True)) if x.ndim > 1 else x


DETACHED, DROPPED, CENTRED = {"after": torch.Tensor.detach}, {"before": dropped}, {"before": centred}
RANDOM = r"must be a deterministic function of each observation, got other {} for the same .* a second time"
AMONG = r"must be a deterministic function of each observation, got other {} for the same .* in another batch"
WITHOUT = r"the {} of Mine\.{} must have a gradient in its parameters, got none"


@pytest.mark.parametrize("kind", [PPO, TRPO, Vanilla])
@pytest.mark.parametrize(
    ("policy", "value", "message"),
    [
        (DETACHED, {}, WITHOUT.format("log-probabilities", "policy")),
        ({}, DETACHED, WITHOUT.format("values", "value")),
        (DROPPED, {}, r"Mine\.policy " + RANDOM.format("log-probabilities")),
        ({}, DROPPED, r"Mine\.value " + RANDOM.format("values")),
        (CENTRED, {}, r"Mine\.policy " + AMONG.format("log-probabilities")),
        ({}, CENTRED, r"Mine\.value " + AMONG.format("values")),
        ({"after": lambda y: (y, None)}, {}, r"network must return a tensor, got \(Tensor, NoneType\)"),
        ({}, {"after": lambda y: y.detach().numpy()}, "network must return a tensor, got ndarray"),
    ],
    ids=[
        "detached policy",
        "detached critic",
        "random policy",
        "random critic",
        "batch's policy",
        "batch's critic",
        "tuple",
        "numpy",
    ],
)
def test_networks_that_no_algorithm_can_train_are_refused(kind, policy, value, message):
    networks = (
        CategoricalPolicy(4, 2, network=Net(4, 2, **policy)),
        ValueFunction(4, network=Net(4, 1, **value)),
    )
    with pytest.raises((ValueError, TypeError), match=message):
        train(learner(kind, *networks), **SMALL)


def test_a_gradient_in_the_standard_deviations_alone_is_not_enough():
    policy, value = GaussianPolicy(3, 1, network=Net(3, 1, **DETACHED)), ValueFunction(3)
    with pytest.raises(ValueError, match=WITHOUT.format("log-probabilities", r"policy\.network")):
        train(learner(PPO, policy, value), **SMALL | {"env": "Pendulum-v1"})


class NumpyCritic(Net):
    def forward(self, x):
        return super().forward(x).squeeze(-1).detach().numpy()


def test_a_critic_of_ones_own_returns_a_tensor():
    with pytest.raises(TypeError, match=r"Mine\.value must return values as a tensor, got ndarray"):
        train(learner(PPO, value=NumpyCritic(4, 1)), **SMALL)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", [PPO, TRPO, Vanilla])
def test_what_no_gradient_reaches_is_said_once(kind, fast, capfd):
    value = ValueFunction(4, network=Net(4, 1, **DETACHED)).requires_grad_(False)
    policy = CategoricalPolicy(4, 2, network=Net(4, 2))
    policy.unused, policy.frozen = nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)
    before = torch.get_rng_state()
    train(learner(kind, policy, value), **SMALL, fast=fast)
    assert torch.equal(torch.get_rng_state(), before)
    said = r"policy\.unused\.weight and 1 more are not trained: without a gradient in the first update\. .*\n"
    assert re.fullmatch(said, capfd.readouterr().err)


@pytest.mark.parametrize("fast", [True, False])
def test_a_layer_that_only_the_loss_uses_is_trained(fast, capfd):
    policy = CategoricalPolicy(4, 2, network=Net(4, 2))
    policy.auxiliary = nn.Linear(4, 1)

    def loss(self, batch):
        value, diagnostics = PPO.loss(self, batch)
        return value + self.policy.auxiliary(batch.observations).square().mean(), diagnostics

    mine = learner(PPO, policy)
    mine.loss = loss
    train(mine, **SMALL, fast=fast)
    assert capfd.readouterr().err == ""


class CountingPolicy(OwnPolicy):
    """Its outputs are the same for the same parameters, and it keeps how often it was asked."""

    def __init__(self, size, actions):
        super().__init__(size, actions)
        self.register_buffer("calls", torch.zeros(()))

    def distribution(self, observations):
        self.calls += 1
        return super().distribution(observations)


class Counting(PPO):
    def networks(self, observations, actions, seed):
        return CountingPolicy(4, 2), ValueFunction(4)


def test_a_policy_that_counts_its_calls_is_resumed_to_the_same_bits(tmp_path):
    constant = SMALL | {"lr_final": None, "clip_eps_final": None}
    whole = train(Counting, **constant)
    train(Counting, **constant | {"total_steps": 64}, out=tmp_path / "run")
    same_run(train(Counting, resume=tmp_path / "run", total_steps=128, progress=False), whole)


def own_optimizer(kind, name, make, **methods):
    def init(self, *args, **kwargs):
        kind.__init__(self, *args, **kwargs)
        setattr(self, name, make(self))

    return type("Mine", (kind,), {"__init__": init, **methods})


def lbfgs(one):
    return torch.optim.LBFGS((one.model if hasattr(one, "model") else one.value).parameters(), lr=1e-3)


@pytest.mark.parametrize(
    ("kind", "name", "method"),
    [
        (PPO, "optimizer", "gradient_step"),
        (TRPO, "value_optimizer", "critic_step"),
        (Vanilla, "value_optimizer", "update"),
        (language_ppo.PPO, "optimizer", "optimizer_step"),
    ],
)
def test_an_optimizer_that_needs_a_closure_is_refused_before_training(kind, name, method, tmp_path):
    mine, out = own_optimizer(kind, name, lbfgs), tmp_path / "run"
    message = rf"Mine\.{name} must be .* needs no closure, got LBFGS\. Override {method} to step it otherwise"
    language = partial(train_stage, model=decoder(), **LANGUAGE)
    given = language if kind is language_ppo.PPO else partial(train, **SMALL)
    with pytest.raises(TypeError, match=message):
        given(mine, out=out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("optimizer", "got"), [(None, "None"), (torch.optim.Adam, "Adam"), ("adam", "'adam'")]
)
@pytest.mark.parametrize(("kind", "method"), [(PPO, "gradient_step"), (language_ppo.PPO, "optimizer_step")])
def test_what_is_no_optimizer_is_refused_before_training(kind, method, optimizer, got):
    mine = own_optimizer(kind, "optimizer", lambda one: optimizer)
    language = partial(train_stage, model=decoder(), **LANGUAGE)
    message = rf"Mine\.optimizer must be an optimizer, got {got}\. Override {method} if it needs none"
    with pytest.raises(TypeError, match=message):
        (language if kind is language_ppo.PPO else partial(train, **SMALL))(mine)


def test_a_method_of_ones_own_may_step_with_a_closure():
    def critic_step(self, minibatch):
        def closure():
            self.value_optimizer.zero_grad()
            loss = (self.value(minibatch.observations) - minibatch.returns).square().mean()
            loss.backward()
            return loss

        return self.value_optimizer.step(closure).item()

    train(own_optimizer(TRPO, "value_optimizer", lbfgs, critic_step=critic_step), **SMALL)


def of_policy(one):
    return torch.optim.Adam((one.model if hasattr(one, "model") else one.policy).parameters())


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", [PPO, language_ppo.PPO])
def test_what_no_optimizer_steps_is_said_once(kind, fast, capfd):
    mine = own_optimizer(kind, "optimizer", of_policy)
    if kind is PPO:
        train(mine, **SMALL, fast=fast)
        which = r"value\.network\.\S+ and 5 more are"
    else:
        train_stage(mine, model=decoder(), **LANGUAGE, fast=fast)
        which = r"critic\.\S+( and \d+ more are| is)"
    said = capfd.readouterr().err
    assert re.fullmatch(rf"{which} not trained: in no parameter group of Mine\.optimizer, and not .*\n", said)


@pytest.mark.parametrize("fast", [True, False])
def test_of_what_is_trained_otherwise_nothing_is_said(fast, capfd):
    for kind in (PPO, TRPO, Vanilla):
        train(kind, **SMALL, fast=fast)
    train("ppo", **SMALL, fast=fast, shared_trunk=True)

    def update(self, rollout):
        with torch.no_grad():
            for p in self.value.parameters():
                p.data.add_(0.5)
        return PPO.update(self, rollout)

    train(own_optimizer(PPO, "optimizer", of_policy, update=update), **SMALL, fast=fast)
    assert capfd.readouterr().err == ""
