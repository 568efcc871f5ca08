"""A run does not depend on torch's default dtype."""

import contextlib

import numpy as np
import pytest
import torch

from ppobook import evaluate, load, train
from ppobook.language import World
from ppobook.language import evaluate as evaluate_language
from ppobook.language import load as load_language
from ppobook.language import train as train_language

SMALL = {"total_steps": 32, "num_envs": 2, "num_steps": 16, "hidden": (4,), "progress": False}
TINY = {"updates": 1, "batch_size": 4, "layers": 1, "width": 8, "heads": 2, "examples": 8, "eval_examples": 0}


@contextlib.contextmanager
def in_float64():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def control(out):
    run = train("ppo", env="CartPole-v1", num_minibatches=2, out=out, **SMALL)
    scored = evaluate(run.policy, "CartPole-v1", episodes=2)["returns"]
    return run, [*run.policy.parameters(), *load(out).policy.parameters(), torch.from_numpy(scored)]


def language(out):
    run = train_language("sft", data=World(nouns=2, places=2), out=out, progress=False, **TINY)
    weights = [*run.model.parameters(), *load_language(out).model.parameters()]
    return run, [*weights, evaluate_language(run, n=4).completions.tokens]


HALVES = {"control": control, "language": language}


@pytest.mark.parametrize("half", HALVES)
def test_a_run_is_the_same(half, tmp_path):
    expected, tensors = HALVES[half](tmp_path / "plain")
    with in_float64():
        run, others = HALVES[half](tmp_path / "other")
        assert torch.get_default_dtype() == torch.float64
    columns = [name for name in expected.history if not name.startswith("seconds")]
    np.testing.assert_array_equal(run.history[columns], expected.history[columns])
    for x, y in zip(tensors, others, strict=True):
        assert (x.dtype, x.device) == (y.dtype, y.device)
        np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())
