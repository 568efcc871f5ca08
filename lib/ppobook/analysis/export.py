"""Export a policy to ONNX, for programs without torch.

    export_onnx(run.policy, "policy.onnx")

The model maps a batch of observations to the most probable actions and the parameters of their distribution.
It includes everything the policy does to an observation, such as normalisation.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.analysis.files import new_file, writing
from ppobook.policies import Categorical, Gaussian, MultiCategorical, TabularPolicy
from ppobook.run.files import atomic_write
from ppobook.run.machine import float32_on_cpu

# The two run the same float32 arithmetic in another order.
TOLERANCE = 1e-4
# Batch sizes that the file is tested with.
_BATCHES = (1, 2, 33)


class Exported(NamedTuple):
    """The result of `export_onnx`.

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
        Observations to test the file with, in addition to zeros and random numbers. Required for a custom
        policy without `obs_dim`.

    Raises
    ------
    ValueError, TypeError, OSError
        Not a policy, another extension, a library that is not installed, a policy that torch cannot export, a
        file whose outputs differ from the policy's, or that can't be written.
    """
    path = new_file("out", out, (".onnx",))
    if not isinstance(policy, nn.Module) or not hasattr(policy, "distribution"):
        raise TypeError(f"policy must be a policy, such as Run.policy, got {type(policy).__name__}")
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch needs it
    except ImportError as error:
        raise ValueError(
            f"out needs {error.name}, which is not installed; run: pip install 'ppobook[onnx]'"
        ) from None

    trials = _trials(policy, observations)
    modes = {part: part.training for part in policy.modules()}
    module = _Answers(policy).eval()
    before = next((p.device for p in policy.parameters()), torch.device("cpu"))
    try:
        module.to("cpu")
        content = _exported(module, trials[-1])
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        difference = max(_compare(session, module, trial) for trial in trials)
    finally:
        module.to(before)
        for part, training in modes.items():
            part.training = training
    with writing("out", path):
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
        if isinstance(distribution, Gaussian):
            self.names = ("action", "mean", "std")
            return action, distribution.mean, distribution.std.expand_as(distribution.mean)
        raise TypeError(
            "policy must have a Categorical, MultiCategorical or Gaussian distribution, "
            f"got {type(distribution).__name__}"
        )


def says_what_it_observes(policy: Any) -> bool:
    """Return True if test observations can be generated, as for the book's policies, whose size is known."""
    return isinstance(policy, TabularPolicy) or getattr(policy, "obs_dim", None) is not None


def _trials(policy: Any, observations: Any) -> list[Tensor]:
    """Batches to test the file with; the last one has several rows."""
    trials = []
    if observations is not None:
        given = torch.as_tensor(observations).cpu()
        if given.ndim == 0 or len(given) < 2:
            raise ValueError(f"observations must have at least two rows, got shape {tuple(given.shape)}")
        given = given.float() if given.is_floating_point() else given.long()
        trials = [given[:1], given]
    generator = torch.Generator().manual_seed(0)
    if isinstance(policy, TabularPolicy):
        states = policy.table.shape[0] if hasattr(policy, "table") else policy.n_states
        return [torch.randint(states, (n,), generator=generator) for n in _BATCHES] + trials
    size = getattr(policy, "obs_dim", None)
    if not says_what_it_observes(policy) and not trials:
        raise ValueError(
            "observations must be given for a policy without obs_dim, at least two rows, got none for "
            f"{type(policy).__name__}"
        )
    shape = trials[0].shape[1:] if trials else (size,)
    if trials and not trials[0].is_floating_point():
        return trials
    # Small numbers, large ones, and zeros.
    scales = (1.0, 100.0, 0.0)
    made = [s * torch.randn((n, *shape), generator=generator) for n, s in zip(_BATCHES, scales, strict=True)]
    return made + trials


def _exported(module: _Answers, example: Tensor) -> bytes:
    """The file's bytes."""
    with torch.no_grad():
        module(example)
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
            assert program is not None
            content: bytes = program.model_proto.SerializeToString()
    except Exception as error:
        raise ValueError(
            "policy must have a `distribution` that torch can export, without branches on the values of the "
            f"observations, got: {validation.reason(error)}"
        ) from error
    return content


def _compare(session: Any, module: _Answers, observations: Tensor) -> float:
    """The largest difference between the file's outputs and torch's, relative for numbers above 1."""
    found = session.run(None, {"observations": observations.numpy()})
    with torch.no_grad():
        expected = module(observations)
    largest = 0.0
    for name, theirs, ours in zip(module.names, found, expected, strict=True):
        right = ours.numpy()
        if theirs.shape != right.shape or theirs.dtype != right.dtype:
            raise ValueError(
                f"policy must give {name} with the same dtype and shape in the file as in torch, for any "
                f"batch size, got {theirs.dtype}{list(theirs.shape)} and {right.dtype}{list(right.shape)}"
            )
        if right.dtype.kind == "f":
            difference = float(np.max(np.abs(theirs - right) / np.maximum(1, np.abs(right)), initial=0))
            largest = max(largest, difference)
    # Rounding may decide between two equally probable actions, so they are compared by their logits.
    if expected[0].dtype == torch.int64 and module.names == ("action", "logits"):
        largest = max(largest, _regret(module.policy, found[0], expected[0].numpy(), expected[1].numpy()))
    if not largest <= TOLERANCE:
        raise ValueError(
            f"policy must give the same finite numbers in the file as in torch, to within {TOLERANCE:g}, got "
            f"a difference of {largest:.2g}"
        )
    return largest


def _regret(policy: Any, theirs: np.ndarray, ours: np.ndarray, logits: np.ndarray) -> float:
    """By how much the logits of the file's actions fall short of those of torch's."""
    nvec = getattr(policy, "nvec", None) or (logits.shape[-1],)
    columns = np.cumsum([0, *nvec[:-1]])
    theirs, ours = (np.reshape(x, (len(logits), len(nvec))) + columns for x in (theirs, ours))
    short = np.take_along_axis(logits, ours, 1) - np.take_along_axis(logits, theirs, 1)
    return float(np.max(short, initial=0))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence torch's and onnxscript's logging during the export."""
    import logging

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
