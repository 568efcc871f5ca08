"""The interactive figures of the chapter on the whole of PPO, without a browser."""

from __future__ import annotations

import json
import math

import pytest
import torch

from ppobook.policies import together
from ppobook.teaching import figures
from ppobook.teaching.figures import _parts, loss_batch

# E4


@pytest.fixture(scope="module")
def parts():
    return figures.loss_parts()


def directly(batch, clip_eps, value_coef, entropy_coef):
    """Parts and pulls of the whole loss, each by a pass of its own."""
    losses = {
        "all": batch.loss(clip_eps, value_coef, entropy_coef),
        "own": batch.loss(clip_eps, 0.0, entropy_coef),
    }
    pulls = {name: batch.pull(loss) for name, (loss, _) in losses.items()}
    loss, diagnostics = losses["all"]
    lengths = {name: pull.norm().item() for name, pull in pulls.items()}
    cosine = (pulls["all"] @ pulls["own"]).item() / (lengths["all"] * lengths["own"])
    return {
        **{name: value.item() for name, value in diagnostics.items()},
        "loss": loss.item(),
        "policy_pull": lengths["own"],
        "value_pull": (pulls["all"] - pulls["own"]).norm().item(),
        "both_pull": lengths["all"],
        "turn": math.degrees(math.acos(max(-1.0, min(1.0, cosine)))),
    }


@pytest.mark.parametrize("which", [0, 1])
def test_state_of_e4_is_what_the_library_computed(parts, which):
    recorded, batch = parts.state["batches"][which], loss_batch((1.0, 10.0)[which])
    for setting in ((0.2, 0.5, 0.01), (0.05, 2.0, 0.3), (0.5, 0.0, 1.0), (0.11, 0.02, 0.0)):
        found, expected = _parts._parts(recorded, *setting), directly(batch, *setting)
        for name in ("policy_loss", "value_loss", "entropy", "loss", "clip_fraction", "flat_fraction"):
            assert found[name] == pytest.approx(expected[name], abs=2e-4), (setting, name)
        for name in ("policy_pull", "value_pull", "both_pull"):
            assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), (setting, name)
        assert found["turn"] == pytest.approx(expected["turn"], abs=0.1), setting


def test_the_parts_add_up_and_the_starting_numbers_are_in_the_state(parts):
    shown = parts.state["parts"]
    total = shown["policy_loss"] + 0.5 * shown["value_loss"] - 0.01 * shown["entropy"]
    assert shown["loss"] == pytest.approx(total, abs=1e-8)
    assert shown == pytest.approx(_parts._parts(parts.state["batches"][0], 0.2, 0.5, 0.01), abs=1e-8)
    assert len(json.dumps(parts.state)) < 20_000


def test_a_batch_of_the_library(parts):
    batch = loss_batch()
    assert batch.advantages.mean().item() == pytest.approx(0, abs=1e-9)
    assert len(batch.actions) == len(parts.state["batches"][0]["ratios"]) == 48
    with torch.no_grad():
        policy, values = together(batch.policy, batch.value, batch.observations)
    ratios = (policy.logp(batch.actions) - batch.old_logp).exp()
    assert parts.state["batches"][0]["ratios"] == pytest.approx(ratios.tolist(), abs=1e-5)
    assert parts.state["batches"][0]["values"] == pytest.approx(values.tolist(), abs=1e-5)
    assert (ratios > 1.2).any(), "the clip has something to do"
    assert (ratios < 0.8).any()


def test_larger_rewards_let_the_critic_pull_harder(parts):
    small, large = (_parts._parts(batch, 0.2, 0.5, 0.01) for batch in parts.state["batches"])
    assert small["value_pull"] < small["policy_pull"]
    assert large["value_pull"] > 5 * large["policy_pull"]
    assert large["turn"] > 60 > 2 * small["turn"]
    # Without a value coefficient nothing turns the policy's direction.
    assert _parts._parts(parts.state["batches"][1], 0.2, 0.0, 0.01)["turn"] == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"clip_eps": 0.6}, "clip_eps must be one of 0.05, 0.06"),
        ({"value_coef": 0.3}, "value_coef must be one of 0, 0.005, 0.01"),
        ({"entropy_coef": -0.01}, "entropy_coef must be one of 0, 0.001"),
    ],
)
def test_loss_parts_refuses_what_no_slider_can_show(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        figures.loss_parts(**settings)
