"""The interactive figures of the chapter on the whole of PPO, without a browser."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from ppobook.teaching import figures
from ppobook.teaching.figures import _parts, entropy_runs, loss_batch

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
    for setting in ((0.2, 0.5, 0.01), (0.05, 2.0, 0.3), (0.5, 0.0, 1.0)):
        found, expected = _parts._parts(recorded, *setting), directly(batch, *setting)
        for name in ("policy_loss", "value_loss", "entropy", "loss", "clip_fraction", "flat_fraction"):
            assert found[name] == pytest.approx(expected[name], abs=2e-4), (setting, name)
        for name in ("policy_pull", "value_pull", "both_pull"):
            assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), (setting, name)
        assert found["turn"] == pytest.approx(expected["turn"], abs=0.1), setting


# E7


@pytest.fixture(scope="module")
def collapse():
    return figures.entropy_collapse()


def entropy(probs):
    return -(probs * np.log(np.maximum(probs, 1e-12))).sum(axis=-1)


def test_state_of_e7_is_what_the_library_computed(collapse):
    state = collapse.state
    assert [run["coef"] for run in state["runs"]] == [0.0, 0.02, 0.1, 0.3]
    for run in state["runs"][::2]:
        shown = np.array([row.split() for row in run["probs"]], dtype=float).reshape(25, 12, 3) / 1000
        np.testing.assert_allclose(shown, entropy_runs(run["coef"])[::5, :, :3], atol=0.00051)
    assert len(json.dumps(state, indent=1)) < 25_000


def test_the_first_update_by_hand():
    """Four steps along the gradient of the clipped surrogate and the entropy, written out."""
    generator = np.random.default_rng([0, 0])
    arms = (generator.random((16, 1)) >= np.array([0.25, 0.5, 0.75])).sum(axis=1)
    rewards = np.array([1.0, 0.8, 0.6, 0.4])[arms] + 0.5 * generator.standard_normal(16)
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    logits = np.zeros(4)
    for _ in range(4):
        probs = np.exp(logits) / np.exp(logits).sum()
        ratios = probs[arms] / 0.25
        flat = ((ratios > 1.2) & (advantages > 0)) | ((ratios < 0.8) & (advantages < 0))
        weight = np.where(flat, 0, ratios * advantages)
        slope = (weight[:, None] * (np.eye(4)[arms] - probs)).mean(axis=0)
        slope += 0.3 * -probs * (np.log(probs) + entropy(probs))
        logits = logits + slope
    probs = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(entropy_runs(0.3, updates=1, seeds=1)[1, 0], probs, atol=1e-6)
