"""Export a policy to ONNX, for programs without torch.

    export_onnx(run.policy, "policy.onnx")

The model maps a batch of observations to the most probable actions and the parameters of their distribution.
It includes everything the policy does to an observation, such as normalisation.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.analysis.files import new_file
from ppobook.policies import Categorical, MultiCategorical, TabularPolicy
from ppobook.run.files import atomic_write
from ppobook.run.machine import float32_on_cpu

# The two run the same float32 arithmetic in another order.
TOLERANCE = 1e-4
# Batch sizes that the file is tested with.
_BATCHES = (1, 2, 33)


class Exported(NamedTuple):
    """What `export_onnx` wrote.

    Attributes
    ----------
    path : Path
    outputs : tuple of str
        "action", and then "logits", or "mean" and "std".
    largest_difference : float
        The largest difference between the outputs of onnxruntime and torch in the test.
    """

    path: Path
    outputs: tuple[str, ...]
    largest_difference: float


@float32_on_cpu()
def export_onnx(policy: Any, out: str | Path, *, observations: Any = None) -> Exported:
    """Export a policy to ONNX, and compare the file's outputs in onnxruntime with torch's.

    The input is "observations": float32 [batch, obs], or int64 [batch] states for a tabular policy. The
    outputs are "action", the most probable one as `make_env` takes it (int64 [batch], int64 [batch, K] or
    float32 [batch, act]), and "logits" [batch, actions], or "mean" and "std" [batch, act]. Discrete actions
    count from 0: the `start` of an environment's own space is to be added. The logits of a MultiDiscrete
    action are concatenated.

    Parameters
    ----------
    policy : Policy
        One of `ppobook.policies`, or a module with the same methods, which torch must be able to export, and
        whose `distribution` returns a `Categorical`, `MultiCategorical` or `Gaussian`.
    out : path
        A file that ends in .onnx, to write or replace. It is written when the test has passed.
    observations : array or tensor, [B, *obs], optional
        Observations to test the file with, in addition to zeros and random numbers; at least two. Required
        for a custom policy without `obs_dim`.

    Raises
    ------
    ValueError
        Another extension, a policy that torch cannot export, or a file with other outputs than the policy.
    """
    import onnxruntime

    path = new_file("out", out, (".onnx",))
    trials = _trials(policy, observations)
    module = _Answers(copy.deepcopy(policy)).cpu().eval()
    content = _exported(module, trials[-1])
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    difference = max(_compare(session, module, trial) for trial in trials)
    atomic_write(path, content)
    return Exported(path, module.names, difference)


class _Answers(nn.Module):
    """A policy as one function: observations to the greedy action and the parameters of the distribution."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy
        self.names: tuple[str, ...] = ()

    def forward(self, observations: Tensor) -> tuple[Tensor, ...]:
        distribution = self.policy.distribution(observations)
        action = self.policy.in_bounds(distribution.mode())
        if isinstance(distribution, Categorical | MultiCategorical):
            self.names = ("action", "logits")
            return action, distribution.logits
        self.names = ("action", "mean", "std")
        return action, distribution.mean, distribution.std.expand_as(distribution.mean)


def says_what_it_observes(policy: Any) -> bool:
    """Whether test observations can be generated, as for the book's policies, whose size is known."""
    return isinstance(policy, TabularPolicy) or getattr(policy, "obs_dim", None) is not None


def _trials(policy: Any, observations: Any) -> list[Tensor]:
    """Batches to test the file with; the last one has several rows."""
    generator = torch.Generator().manual_seed(0)
    if isinstance(policy, TabularPolicy):
        states = policy.table.shape[0] if hasattr(policy, "table") else policy.n_states
        return [torch.randint(states, (n,), generator=generator) for n in _BATCHES]
    trials = []
    if observations is not None:
        given = torch.as_tensor(observations).cpu().float()
        trials = [given[:1], given]
    elif not says_what_it_observes(policy):
        raise ValueError(
            "observations must be given for a policy without obs_dim, at least two rows, got none for "
            f"{type(policy).__name__}"
        )
    shape = trials[0].shape[1:] if trials else (policy.obs_dim,)
    # Small numbers, large ones, and zeros.
    scales = (1.0, 100.0, 0.0)
    made = [s * torch.randn((n, *shape), generator=generator) for n, s in zip(_BATCHES, scales, strict=True)]
    return made + trials


def _exported(module: _Answers, example: Tensor) -> bytes:
    """The file's bytes."""
    with torch.no_grad():
        module(example)  # sets module.names
    try:
        with _quietly():
            program = torch.onnx.export(
                module,
                (example,),
                input_names=["observations"],
                output_names=list(module.names),
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise ValueError(
            "policy must have a `distribution` that torch can export, without branches on the values of the "
            f"observations, got: {validation.reason(error)}"
        ) from error
    assert program is not None
    content: bytes = program.model_proto.SerializeToString()
    return content


def _compare(session: Any, module: _Answers, observations: Tensor) -> float:
    """The largest difference of a distribution's parameters, relative for numbers above 1.

    Actions are not compared: rounding may decide between two that are equally probable.
    """
    found = session.run(None, {"observations": observations.numpy()})
    with torch.no_grad():
        expected = module(observations)
    largest = max(
        float(np.max(np.abs(theirs - ours) / np.maximum(1, np.abs(ours))))
        for theirs, ours in zip(found[1:], (x.numpy() for x in expected[1:]), strict=True)
    )
    if not largest <= TOLERANCE:
        raise ValueError(
            f"policy must give the same finite numbers in the file as in torch, to within {TOLERANCE:g}, got "
            f"a difference of {largest:.2g}"
        )
    return largest


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence torch's and onnxscript's logging during the export."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
