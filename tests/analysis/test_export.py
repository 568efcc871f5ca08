"""Policies as ONNX: what onnxruntime makes of the file is what torch makes of the policy."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_runs import SMALL, Own, OwnPolicy

from ppobook import train
from ppobook.analysis import export as export_module
from ppobook.analysis.export import _Answers, _exported, export_onnx
from ppobook.cli import main
from ppobook.policies import Categorical, CategoricalPolicy, RunningNorm, policy_for

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

BOX = spaces.Box(-1, 1, (4,))
GENERATOR = torch.Generator().manual_seed(0)


def shaken(policy):
    """Weights as after training, and not nearly 0 as at the start."""
    with torch.no_grad():
        for p in policy.parameters():
            p += 0.3 * torch.randn(p.shape, generator=GENERATOR)
    return policy


def norm():
    made = RunningNorm((4,))
    made.update(5 + 3 * torch.randn(200, 4, generator=GENERATOR))
    return made


KINDS = {
    "gaussian": (
        BOX,
        spaces.Box(np.array([-2, 0], np.float32), np.array([2, 0.5], np.float32)),
        {},
        ["mean", "std"],
    ),
    "several choices": (BOX, spaces.MultiDiscrete([2, 4, 3]), {}, ["logits"]),
    "relu, normalised": (BOX, spaces.Discrete(2), {"normalizer": norm, "activation": "relu"}, ["logits"]),
    "table": (spaces.Discrete(6), spaces.Discrete(3), {}, ["logits"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_onnxruntime_gives_what_torch_gives(tmp_path, kind):
    seen, acts, given, names = KINDS[kind]
    given = {name: value() if callable(value) else value for name, value in given.items()}
    policy = shaken(policy_for(seen, acts, seed=1, **given))
    found = export_onnx(policy, tmp_path / "policy.onnx")
    assert found.outputs == ("action", *names)
    assert found.largest_difference <= 1e-5
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]

    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    assert [output.name for output in session.get_outputs()] == list(found.outputs)
    for n in (1, 7, 300):
        if isinstance(seen, spaces.Discrete):
            observations = torch.randint(6, (n,), generator=GENERATOR)
        else:
            observations = 4 * torch.randn(n, 4, generator=GENERATOR)
        action, *parameters = session.run(None, {"observations": observations.numpy()})
        greedy = policy.in_bounds(policy.mode(observations)).numpy()
        assert action.shape == greedy.shape
        assert action.dtype == greedy.dtype
        np.testing.assert_allclose(action, greedy, rtol=1e-5, atol=1e-5)
        ours = policy.mean_std(observations) if names[0] == "mean" else [policy.logits(observations)]
        for theirs, right in zip(parameters, ours, strict=True):
            np.testing.assert_allclose(theirs, right.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_the_actions_of_a_box_stay_in_it(tmp_path):
    policy = policy_for(BOX, spaces.Box(-0.1, 0.1, (2,)), seed=0)
    with torch.no_grad():
        for p in policy.parameters():
            p += 5
    export_onnx(policy, tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    action, mean, _ = session.run(None, {"observations": np.ones((3, 4), np.float32)})
    assert (np.abs(mean) > 0.1).all()
    assert (np.abs(action) <= np.float32(0.1)).all()


def test_normalisation_is_in_the_file(tmp_path):
    """With the statistics left out it would be another function."""
    normalizer = norm()
    policy = shaken(policy_for(BOX, spaces.Discrete(3), seed=1, normalizer=normalizer))
    export_onnx(policy, tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    observations = 5 + 3 * torch.randn(5, 4, generator=GENERATOR)
    _, logits = session.run(None, {"observations": observations.numpy()})
    np.testing.assert_allclose(logits, policy.network(normalizer(observations)).detach().numpy(), atol=1e-5)
    assert np.abs(logits - policy.network(observations).detach().numpy()).max() > 0.1


def test_a_policy_of_ones_own(tmp_path):
    policy = OwnPolicy(3, 2).train()
    observations = torch.randn(9, 3)
    with pytest.raises(
        ValueError,
        match=r"observations must be given for a policy without obs_dim, .* got none for OwnPolicy",
    ):
        export_onnx(policy, tmp_path / "own.onnx")
    assert export_onnx(policy, tmp_path / "own.onnx", observations=observations).largest_difference <= 1e-5
    assert policy.training


class Branching(CategoricalPolicy):
    def distribution(self, observations):
        if observations.sum() > 0:
            return Categorical(self.logits(observations))
        return Categorical(2 * self.logits(observations))


@pytest.mark.parametrize(
    ("policy", "path", "given", "sentence"),
    [
        (CategoricalPolicy(4, 2), "policy.pt", {}, r"out must end in .onnx, got .*policy.pt"),
        (Branching(4, 2), "policy.onnx", {}, "policy must have a `distribution` that torch can export"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_nothing(tmp_path, policy, path, given, sentence):
    with pytest.raises((ValueError, TypeError, OSError), match=sentence):
        export_onnx(policy, tmp_path / path, **given)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_gives_something_else_is_never_written(tmp_path, monkeypatch):
    policy, other = (shaken(CategoricalPolicy(4, 2, seed=seed)) for seed in (0, 1))
    real = _exported
    monkeypatch.setattr(export_module, "_exported", lambda module, example: real(_Answers(other), example))
    with pytest.raises(ValueError, match=r"policy must give the same finite numbers .*, got a difference of"):
        export_onnx(policy, tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_policy_of_ones_own_on_the_command_line(tmp_path, capsys):
    """The run's environment says what the policy observes."""
    run, file = str(tmp_path / "run"), tmp_path / "policy.onnx"
    train(Own, **SMALL, total_steps=64, out=run)
    assert main(["export", run, str(file), "--learner", "small_runs:Own"]) == 0
    said = capsys.readouterr().out
    assert f"observations to action, logits, in {file}" in said
    assert "differ by" in said
    (entry,) = onnxruntime.InferenceSession(file).get_inputs()
    assert entry.shape[1:] == [4]
