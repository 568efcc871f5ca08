"""Learning rates: those that an own optimizer's groups were given, scaled by the setting's schedule."""

import numpy as np
import pytest
import torch
from small_stages import WORLD, decoder

from ppobook import train
from ppobook.language.sft import SFT
from ppobook.language.training import train as train_stage
from ppobook.ppo import PPO
from ppobook.run.rates import given_rates, load_optimizer, scale_rates
from ppobook.trpo import TRPO

PLAIN = {"num_envs": 2, "num_steps": 32, "hidden": (8,)}
SMALL = {**PLAIN, "epochs": 2, "num_minibatches": 4, "lr": 3e-4, "lr_final": None}
STEPS = 64 * 4


class OneGroup(PPO):
    """An optimizer over what the library's own had been given."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.optimizer = torch.optim.SGD(self.optimizer.param_groups[0]["params"], lr=0.0)


class TwoGroups(PPO):
    """Two rates."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        groups = [{"params": self.policy.parameters(), "lr": 1e-2}, {"params": self.value.parameters()}]
        self.optimizer = torch.optim.SGD(groups, lr=0.2)
        self.rates = [0.0, 0.0]

    def gradient_step(self, minibatch):
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        return super().gradient_step(minibatch)


class Scheduled(PPO):
    """A scheduler of torch, of the library's own optimizer."""

    state_attributes = (*PPO.state_attributes, "scheduler")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)

    def update(self, rollout):
        metrics = super().update(rollout)
        self.scheduler.step()
        return metrics


class OwnScheduler(Scheduled, TwoGroups):
    """A scheduler of torch, of an own optimizer."""


class ScheduledStage(SFT):
    """The same in a stage."""

    state_attributes = (*SFT.state_attributes, "scheduler")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)

    def step(self, number):
        metrics = super().step(number)
        self.scheduler.step()
        return metrics


class SetByHand(PPO):
    """The rate of the library's own optimizer, changed by the reader after each update."""

    def update(self, rollout):
        metrics = super().update(rollout)
        self.optimizer.param_groups[0]["lr"] *= 0.5
        return metrics


def trained(kind, **settings):
    return train(kind, "CartPole-v1", total_steps=STEPS, progress=False, **{**SMALL, **settings})


@pytest.mark.parametrize("fast", [True, False])
def test_an_own_optimizer_keeps_its_rate(fast):
    history = trained(OneGroup, fast=fast).history
    assert (history["lr"] == 0).all()
    assert (history["approx_kl"].abs() < 1e-9).all()


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", [PPO, TRPO])
def test_what_the_librarys_optimizer_was_given_can_be_given_to_another(kind, fast):
    def own(self, *args, **kwargs):
        kind.__init__(self, *args, **kwargs)
        name = "optimizer" if kind is PPO else "value_optimizer"
        params = getattr(self, name).param_groups[0]["params"]
        setattr(self, name, torch.optim.SGD(params, lr=0.01))
        self.before = [p.detach().clone() for p in self.value.parameters()]

    def update(self, rollout):
        metrics = kind.update(self, rollout)
        assert all(not torch.equal(a, b) for a, b in zip(self.before, self.value.parameters(), strict=True))
        return metrics

    small = SMALL if kind is PPO else PLAIN
    one = type("Own", (kind,), {"__init__": own, "update": update, "__module__": __name__})
    train(one, "CartPole-v1", total_steps=STEPS, progress=False, fast=fast, **small)


@pytest.mark.parametrize("fast", [True, False])
def test_the_schedule_scales_all_groups_and_a_resumed_run_goes_on_with_it(fast, tmp_path):
    seen = []

    class Seen(TwoGroups):
        def update(self, rollout):
            metrics = super().update(rollout)
            seen.append(self.rates)
            return metrics

    run = trained(Seen, lr_final=0.0, fast=fast, out=tmp_path / "run", checkpoint_every=1)
    share = 1 - np.arange(4) / 4
    np.testing.assert_allclose(run.history["lr"], 1e-2 * share)
    np.testing.assert_allclose(np.array(seen), np.outer(share, [1e-2, 0.2]))
    seen.clear()
    train(Seen, resume=tmp_path / "run", total_steps=2 * STEPS, progress=False)
    np.testing.assert_allclose(np.array(seen), np.outer(1 - np.arange(4, 8) / 8, [1e-2, 0.2]))


@pytest.mark.parametrize("fast", [True, False])
def test_clipping_and_the_norm_span_all_groups(fast):
    one = {}

    class Clipped(TwoGroups):
        def update(self, rollout):
            metrics = super().update(rollout)
            gradients = [p.grad for p in (*self.policy.parameters(), *self.value.parameters())]
            one["norm"] = torch.nn.utils.get_total_norm(gradients).item()
            return metrics

    trained(Clipped, max_grad_norm=1e-3, fast=fast)
    assert one["norm"] == pytest.approx(1e-3, rel=2e-3)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("kind", "rate"), [(Scheduled, 3e-4), (OwnScheduler, 1e-2), (SetByHand, 3e-4)])
def test_without_a_schedule_the_rates_are_left_alone(kind, rate, fast, tmp_path):
    out = tmp_path / "run"
    train(kind, "CartPole-v1", total_steps=128, progress=False, fast=fast, out=out, **SMALL)
    run = train(kind, resume=out, total_steps=STEPS, progress=False)
    np.testing.assert_allclose(run.history["lr"], rate * 0.5 ** np.arange(4))


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", [Scheduled, OwnScheduler, SetByHand])
def test_a_rate_that_two_schedules_set_is_refused(kind, fast):
    message = r"must be set by one schedule, got .* had set .*\. Pass lr_final=None to set it yourself"
    with pytest.raises(ValueError, match=message):
        trained(kind, lr_final=0.0, fast=fast)


@pytest.mark.parametrize("fast", [True, False])
def test_a_stage_has_its_warm_up_or_another_schedule(fast):
    given = {"model": decoder(), "data": WORLD, "progress": False, "batch_size": 4, "examples": 10}
    given |= {"updates": 3, "lr": 0.08, "fast": fast}
    assert train_stage(ScheduledStage, **given, warmup=0).history["lr"].tolist() == [0.08, 0.04, 0.02]
    with pytest.raises(ValueError, match="Pass warmup=0 to set it yourself"):
        train_stage(ScheduledStage, **given, warmup=3)


@pytest.mark.parametrize("now", [0.25, 1.0])
def test_states_without_given_rates_are_of_the_rates_of_a_new_optimizer(now):
    old = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))], lr=1.0)
    state = old.state_dict()
    state["param_groups"][0]["lr"] = 0.5  # as the schedule had it
    load_optimizer(old, state)
    scale_rates(old, 1.0, now, "lr_final=None")
    assert (given_rates(old), old.param_groups[0]["lr"]) == ([1.0], now)


def test_scaled_by_exactly_what_the_schedule_says():
    made = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=3e-4)
    for now in np.linspace(3e-4, 1e-5, 50).tolist():
        scale_rates(made, 3e-4, now, "lr_final=None")
        assert made.param_groups[0]["lr"] == now


class TwoRates(SFT):
    """An optimizer of one's own, with a rate for the embeddings and one for the rest."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        embeddings = [self.model.wte.weight, self.model.wpe.weight]
        others = [p for p in self.model.parameters() if all(p is not one for one in embeddings)]
        groups = [{"params": embeddings, "lr": 4.0}, {"params": others}]
        self.optimizer = torch.optim.SGD(groups, lr=0.4)

    def step(self, number):
        return {**super().step(number), "second": self.optimizer.param_groups[1]["lr"]}


def test_an_own_optimizer_keeps_its_rates_and_warms_up(tmp_path):
    given = {"model": decoder(), "data": WORLD, "progress": False, "batch_size": 4, "examples": 10}
    train_stage(TwoRates, **given, warmup=3, lr=0.08, updates=2, out=tmp_path / "run")
    history = train_stage(TwoRates, resume=tmp_path / "run", updates=6, progress=False).history
    assert history["lr"].tolist() == [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]
    assert history["second"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    assert train_stage(TwoRates, **given, warmup=0, updates=2).history["lr"].tolist() == [4.0, 4.0]
