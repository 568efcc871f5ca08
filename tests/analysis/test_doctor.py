"""The doctor: each disease is found where it was planted, and nothing is found in health."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from bands import seeds
from gymnasium import spaces
from small_runs import SMALL

import ppobook
from ppobook import train
from ppobook.analysis.doctor import examine, too_short
from ppobook.cli import main
from ppobook.training import ALGORITHMS, Record

N = 60


def healthy(**columns):
    """A run as one would wish it: the return rises, and everything else keeps still."""
    rng = np.random.default_rng(0)
    t = np.arange(N)
    table = {
        "update": t + 1,
        "steps": (t + 1) * 256,
        "return_mean": 500 / (1 + np.exp(-(t - 25) / 5)) + rng.normal(0, 10, N),
        "policy_loss": rng.normal(0, 0.01, N),
        "value_loss": rng.uniform(1, 9, N),
        "grad_norm": rng.uniform(0.1, 0.5, N),
        "entropy": 0.69 - 0.002 * t,
        "explained_variance": 1 - 1.5 * np.exp(-t / 10),
        "approx_kl": rng.uniform(0.002, 0.02, N),
        "clip_fraction": rng.uniform(0.02, 0.25, N),
        "accepted": np.ones(N),
    }
    return pd.DataFrame({**table, **columns})


def names(history, *args, **kwargs):
    return [finding.name for finding in examine(history, *args, **kwargs)]


def where(*updates, inside, outside):
    column = np.full(N, outside, float)
    column[[update - 1 for update in updates]] = inside
    return column


def test_health_is_left_in_peace():
    assert names(healthy()) == []
    assert names(healthy()[["update"]]) == []


RETURNS = "{} of 20 updates with a finished episode"


@pytest.mark.parametrize(
    ("history", "lacking"),
    [
        (healthy(), {}),
        (healthy().drop(columns=["clip_fraction", "return_mean"]), {}),
        (
            healthy().head(1),
            {
                "the return collapses": RETURNS.format(1),
                "no learning": RETURNS.format(1),
                "clip fraction 0": "1 of 20 updates",
                "explained variance negative": "0 of 5 updates after the first 25% of them",
            },
        ),
        (
            healthy(return_mean=np.full(N, np.nan)),
            {"the return collapses": RETURNS.format(0), "no learning": RETURNS.format(0)},
        ),
    ],
)
def test_what_a_history_is_too_short_to_show(history, lacking):
    assert too_short(history) == lacking


@pytest.mark.parametrize(
    ("updates", "said"), [(1, "too short to say\n  the return collapses:"), (60, "nothing found\n")]
)
def test_nothing_is_found_only_where_something_could_be(monkeypatch, capsys, updates, said):
    config = {"algorithm": "ppo", "env": "E", "seed": 0, "total_steps": int(healthy()["steps"].iloc[-1])}
    record = Record(healthy().head(updates), config, spaces.Box(0, 1, (1,)), spaces.Discrete(2))
    monkeypatch.setattr("ppobook.training.read_record", lambda folder: record)
    assert main(["doctor", "run"]) == 0
    assert said in capsys.readouterr().out


rng = np.random.default_rng(1)
falls = np.r_[np.linspace(20, 480, 30), np.linspace(480, 30, 30)] + rng.normal(0, 5, N)
SICK = {
    "KL explodes": {"approx_kl": where(*range(3, 12), inside=0.3, outside=0.01)},
    "clip fraction near 1": {"clip_fraction": where(*range(1, 50), inside=0.93, outside=0.2)},
    "clip fraction 0": {"clip_fraction": np.zeros(N)},
    "explained variance negative": {"explained_variance": np.full(N, -0.6)},
    "entropy gone too fast": {"entropy": 0.69 * np.exp(-np.arange(N) / 3)},
    "the line search fails": {"accepted": where(*range(10, 30), inside=0, outside=1)},
    "the return collapses": {"return_mean": falls},
    "no learning": {"return_mean": 20 + rng.normal(0, 3, N)},
    "not a number": {"value_loss": where(7, inside=np.inf, outside=1)},
}


@pytest.mark.parametrize("name", SICK)
def test_each_disease_alone(name):
    found = examine(healthy(**SICK[name]))
    assert [finding.name for finding in found] == [name]
    assert found[0].updates
    assert all((found[0].evidence, found[0].causes, found[0].remedy))


def test_the_evidence_says_which_updates_and_which_numbers():
    (found,) = examine(healthy(**SICK["KL explodes"]), {"lr": 0.03, "epochs": 10})
    assert found.evidence == "approx_kl above 0.05 in 9 of 60 updates (3, 4, 5, …); at most 0.3, in update 3"
    assert found.updates == tuple(range(3, 12))
    assert found.remedy == "a smaller lr (now 0.03); fewer epochs (now 10)"  # the run has no max_kl


@pytest.mark.parametrize(
    "columns",
    [
        {"approx_kl": where(3, 9, inside=0.2, outside=0.01)},  # two bad updates in sixty
        {"clip_fraction": where(3, 4, inside=0.7, outside=0.1)},
        {"explained_variance": where(*range(1, 16), inside=-5, outside=0.5)},  # while the critic is new
        {"entropy": np.r_[np.full(40, 0.6), np.full(20, 0.01)]},  # late, and it may be done
        {"return_mean": np.r_[np.linspace(20, 480, 50), np.full(10, 400)]},  # a dip
    ],
)
def test_what_is_no_disease(columns):
    assert names(healthy(**columns)) == []


def test_what_follows_from_a_step_that_was_too_long_gets_no_advice_of_longer_ones():
    config = {"lr": 10, "epochs": 10}
    still = SICK["clip fraction 0"] | SICK["no learning"]
    alone = {one.name: one.remedy for one in examine(healthy(**still), config)}
    assert all("a larger lr" in remedy for remedy in alone.values())
    destroyed = healthy(approx_kl=where(1, inside=4.0, outside=0.0), **still)
    found = {one.name: one for one in examine(destroyed, config)}
    assert list(found) == ["KL explodes", *alone]
    assert not [name for name, one in found.items() if "larger" in one.remedy]
    assert all("see 'KL explodes'" in found[name].causes for name in alone)


def test_the_exact_kl_counts_where_it_is_recorded():
    """And a trust region that was meant to be large is no disease."""
    sampled = SICK["KL explodes"]
    assert names(healthy(**sampled, step_kl=np.full(N, 0.03))) == []
    wide = healthy(step_kl=np.full(N, 0.08))
    assert names(wide, {"max_kl": 0.01}) == ["KL explodes"]
    assert names(wide, {"max_kl": 0.05}) == []
    assert "step_kl above 0.05" in examine(wide)[0].evidence


def test_a_gaussians_entropy_is_measured_by_its_standard_deviations():
    falling = healthy(entropy=np.r_[1.4, np.full(N - 1, -1.5)])
    assert names(falling) == []  # nobody said how many numbers it acts with
    assert names(falling, action_dims=1) == ["entropy gone too fast"]
    assert names(falling, action_dims=6) == []


# ------------------------------------------------------------------------------------------------ real runs


@pytest.mark.parametrize(
    ("case", "least"),
    [
        # case of chapter 1, and the least of its ten seeds that each finding must be made in
        ("SGD", {"KL explodes": 8}),
        ("V(s), long steps", {"KL explodes": 8, "entropy gone too fast": 8}),
        ("Adam, many steps a batch", {"KL explodes": 8, "entropy gone too fast": 5}),
    ],
)
def test_the_recorded_collapses_of_chapter_1(case, least):
    table = ppobook.results("vanilla_collapse").query("case == @case and pay == 1")
    found = [name for _, run in table.groupby("seed") for name in names(run)]
    for name, at_least in least.items():
        assert found.count(name) >= at_least


def test_the_sound_runs_of_chapter_1():
    table = ppobook.results("vanilla_cartpole").query("case == 'minus V(s)'")
    found = [names(run) for _, run in table.groupby("seed")]
    # In one run of the ten the policy makes large steps on the way, and its returns dip.
    assert found.count([]) >= 9
    assert [name for run in found for name in run] in ([], ["KL explodes"])


def ppo(kind="ppo", env="CartPole-v1", **changes):
    given = {"num_envs": 8, "num_steps": 32, "num_minibatches": 1, "epochs": 10, "gamma": 0.98, "lam": 0.8}
    given |= {"lr": 3e-3, "total_steps": 20 * 256, "progress": False}
    return train(kind, env=env, **given | changes)


def vanilla(seed):
    sizes = {"num_envs": 8, "num_steps": 64, "total_steps": 20 * 512, "progress": False}
    return train("vanilla", **SMALL | sizes, lr=0.3, seed=seed)


class Sure(ALGORITHMS["ppo"]):
    """The sign of the entropy term is wrong, as in a custom loss."""

    def loss(self, batch):
        loss, diagnostics = super().loss(batch)
        return loss + 2 * self.policy.distribution(batch.observations).entropy().mean(), diagnostics


class WrongSign(ALGORITHMS["ppo"]):
    """The critic learns minus the return."""

    def loss(self, batch):
        return super().loss(dataclasses.replace(batch, returns=-batch.returns))


class OtherSteps(ALGORITHMS["ppo"]):
    """The log-probabilities are those of other steps."""

    def update(self, rollout):
        return super().update(dataclasses.replace(rollout, logp=rollout.logp.roll(1, 0)))


@pytest.mark.learning
def test_ppo_as_it_should_be(band):
    """With its preset. A run may well lose on the way what it had, and then the doctor is right to say so."""
    found = []
    for seed in seeds(3):
        run = train("ppo", env="CartPole-v1", seed=seed, total_steps=50_000, progress=False)
        found.append(len(names(run.history, run.config, action_dims=0)))
    band(found, at_most=0.5)


# Settled: all of them are found in each of six runs and more.
FAULTS = {
    "vanilla with a hundred times its step": (vanilla, {"KL explodes"}),
    "ppo with 500 times its step": (
        lambda seed: ppo(lr=0.5, seed=seed),
        {"KL explodes", "clip fraction near 1"},
    ),
    "ppo with a thousandth of its step": (lambda seed: ppo(lr=1e-6, seed=seed), {"clip fraction 0"}),
    "ppo that is paid for being sure": (lambda seed: ppo(Sure, seed=seed), {"entropy gone too fast"}),
    "ppo whose critic is given the wrong sign": (
        lambda seed: ppo(WrongSign, "Pendulum-v1", lam=1.0, seed=seed),
        {"explained variance negative"},
    ),
    "ppo with the log-probabilities of other steps": (
        lambda seed: ppo(OtherSteps, "Pendulum-v1", seed=seed),
        {"clip fraction near 1"},
    ),
}


@pytest.mark.learning
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault, band):
    make, expected = FAULTS[fault]
    found = []
    for seed in seeds(3):
        run = make(seed)
        # As if it had been stopped after a quarter of its steps.
        config = run.config | {"total_steps": 4 * run.config["total_steps"]}
        dims = int(run.config["env"] == "Pendulum-v1")
        findings = {one.name: one for one in examine(run.history, config, action_dims=dims)}
        found.append(expected <= findings.keys())
        if make is vanilla and found[-1]:
            assert "lr (now 0.3)" in findings["KL explodes"].remedy
    band(found, at_least=0.5)


def test_trpo_whose_steps_are_never_accepted():
    class Stuck(ALGORITHMS["trpo"]):
        def update(self, rollout):
            return super().update(rollout) | {"accepted": 0.0}

    run = train(Stuck, env="CartPole-v1", num_envs=4, num_steps=32, total_steps=128 * 5)
    assert names(run.history, run.config) == ["the line search fails"]
