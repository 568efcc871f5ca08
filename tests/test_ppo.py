"""PPO: its update against slow and independent definitions; `test_actor_critic.py` has what TRPO shares."""

import math

import numpy as np
import pytest
import torch

from ppobook import load, train
from ppobook.envs import make_env
from ppobook.fast import FastPPO
from ppobook.ppo import PPO
from ppobook.rollouts import Collector
from ppobook.settings import PPOSettings

SMALL = {"num_envs": 2, "num_steps": 32, "epochs": 2, "num_minibatches": 4, "hidden": (8,)}


def learner(env: str = "CartPole-v1", seed: int = 0, fast: bool = False, **settings) -> tuple[PPO, Collector]:
    envs = make_env(env, settings.get("num_envs", 2))
    made = PPOSettings.make("ppo", {**SMALL, **settings}, {})
    one = (FastPPO if fast else PPO)(envs.single_observation_space, envs.single_action_space, made, seed=seed)
    return one, Collector(envs, one.policy, seed=seed)


# --------------------------------------------------------------------------------------------- the update


def test_metrics_are_means_over_all_epochs_and_not_the_last():
    one, collector = learner(epochs=3)
    seen, step = [], one.gradient_step
    one.gradient_step = lambda minibatch: seen.append(step(minibatch)) or seen[-1]
    metrics = one.update(one.collect(collector))
    assert len(seen) == 12
    for name, column in (
        ("policy_loss", "policy_loss"),
        ("value_loss", "value_loss"),
        ("clip_fraction", "clip_fraction"),
        ("flat_fraction", "flat_fraction"),
        ("approx_kl", "minibatch_kl"),
        ("ratio_mean", "ratio_mean"),
        ("ratio_std", "ratio_std"),
        ("grad_norm", "grad_norm"),
    ):
        assert metrics[column] == pytest.approx(np.mean([float(s[name]) for s in seen])), name
    assert metrics["epochs"] == 3


# ------------------------------------------------------------------------------------------ what holds it


def test_it_stops_early_once_the_kl_of_an_epoch_is_too_large():
    free, _ = learner(lr=0.05, epochs=10)
    held, collector = learner(lr=0.05, epochs=10, max_kl=0.02)
    rollout = held.collect(collector)
    assert free.update(rollout)["epochs"] == 10
    metrics = held.update(rollout)
    assert 1 <= metrics["epochs"] < 10
    calm, _ = learner(lr=1e-6, epochs=10, max_kl=0.02)
    assert calm.update(rollout)["epochs"] == 10


def test_beta_follows_the_exact_kl_of_the_update():
    one, collector = learner(objective="adaptive_kl", lr=0.05, kl_target=0.01, epochs=10, kl_coef=0.01)
    kls, betas = [], []
    for _ in range(4):
        rollout = one.collect(collector)
        with torch.no_grad():
            before = one.policy.logits(rollout.observations).log_softmax(-1)
        metrics = one.update(rollout)
        with torch.no_grad():
            after = one.policy.logits(rollout.observations).log_softmax(-1)
        assert metrics["kl"] == pytest.approx(
            (before.exp() * (before - after)).sum(-1).mean().item(), rel=1e-3
        )
        kls.append(metrics["kl"])
        betas.append(metrics["kl_coef"])
    for kl, now, then in zip(kls, betas, betas[1:], strict=False):
        factor = 0.5 if kl < 0.01 / 1.5 else 2.0 if kl > 0.015 else 1.0
        assert then == pytest.approx(now * factor)


def test_schedules_run_in_a_straight_line_to_their_ends():
    run = train(
        "ppo",
        env="CartPole-v1",
        total_steps=64 * 5,
        progress=False,
        **SMALL,
        lr=1e-3,
        lr_final=0.0,
        clip_eps=0.3,
        clip_eps_final=0.1,
        entropy_coef=0.02,
        entropy_coef_final=0.0,
    )
    share = np.arange(5) / 5
    np.testing.assert_allclose(run.history["lr"], 1e-3 * (1 - share))
    np.testing.assert_allclose(run.history["clip_eps"], 0.3 - 0.2 * share)
    one, _ = learner(entropy_coef=0.02, entropy_coef_final=0.0)
    one.progress = 0.25
    assert one.coefficients()["entropy_coef"] == pytest.approx(0.015)
    assert one.coefficients()["clip_eps_high"] == one.coefficients()["clip_eps"]


# ----------------------------------------------------------------------------------- networks and scaling


@pytest.mark.parametrize("fast", [True, False])
def test_the_ratio_begins_at_one_although_statistics_move(fast):
    one, collector = learner(
        "Pendulum-v1", normalize_observations=True, num_minibatches=1, epochs=1, fast=fast
    )
    for _ in range(3):
        metrics = one.update(one.collect(collector))
        assert metrics["minibatch_kl"] == pytest.approx(0, abs=1e-6)
        assert metrics["ratio_mean"] == pytest.approx(1, abs=1e-5)


# --------------------------------------------------------------------------------------------- bad input


class Fails(PPO):
    """Its loss is no number in the second update."""

    updates = 0

    def update(self, rollout):
        self.updates += 1
        return super().update(rollout)

    def loss(self, batch):
        found, diagnostics = super().loss(batch)
        return found * (math.nan if self.updates > 1 else 1), diagnostics


def test_a_loss_that_is_not_finite_later_ends_the_run_and_leaves_the_weights(tmp_path):
    given = {"env": "CartPole-v1", "checkpoint_every": 1, "out": tmp_path / "run", "progress": False, **SMALL}
    with pytest.raises(FloatingPointError, match=r"in update 2: .*finite"):
        train(Fails, total_steps=192, **given)
    kept = load(tmp_path / "run", learner=Fails)
    assert len(kept.history) == 1
    assert all(p.isfinite().all() for p in kept.policy.parameters())


def test_a_loss_of_ones_own_can_read_the_old_policy_if_the_class_says_so():
    class Pulled(PPO):
        keeps_old_policy = True

        def loss(self, batch):
            loss, diagnostics = super().loss(batch)
            policy = self.policy.distribution(batch.observations)
            with torch.no_grad():
                old_policy = self.old_policy.distribution(batch.observations)
            kl = old_policy.kl(policy).mean()
            return loss + kl, {**diagnostics, "pull": kl.detach()}

    settings = {"env": "CartPole-v1", "total_steps": 128, "progress": False, **SMALL, "lr": 1e-2}
    assert (train(Pulled, **settings).history["pull"] > 1e-6).all()


def test_a_run_from_a_machine_with_an_accelerator_is_loaded_and_resumed_here(tmp_path):
    run = train("ppo", env="CartPole-v1", total_steps=64, out=tmp_path / "run", progress=False, **SMALL)
    (checkpoint,) = sorted((tmp_path / "run").glob("checkpoint-*"))[-1:]
    state = torch.load(checkpoint / "state.pt", weights_only=True)
    state["config"]["device"] = "cuda:7"
    torch.save(state, checkpoint / "state.pt")
    again = load(tmp_path / "run")
    for a, b in zip(run.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match=r"device must be 'cpu' .*, got 'cuda:7'"):
        train(resume=tmp_path / "run", total_steps=128, progress=False)
    longer = train(resume=tmp_path / "run", total_steps=128, device="cpu", progress=False)
    assert len(longer.history) == 2
    assert longer.config["device"] == "cpu"
