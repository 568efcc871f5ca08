"""A policy as an ONNX file, for programs that know nothing of torch.

    export_onnx(run.policy, "policy.onnx")

The file takes a batch of observations of any size, and gives the most probable actions and the numbers that
their distribution is made of. Everything the policy does to an observation is in it, the normalisation of
observations too.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ppobook import validation
from ppobook.policies import Categorical, Gaussian, MultiCategorical, TabularPolicy

# The two run the same float32 arithmetic in another order.
TOLERANCE = 1e-4
# Batches that the file is tried with.
_BATCHES = (1, 2, 33)


class Exported(NamedTuple):
    """What `export_onnx` wrote.

    Attributes
    ----------
    path : Path
    outputs : tuple of str
        "action", and then "logits", or "mean" and "std".
    largest_difference : float
        Between what onnxruntime and torch gave in the trial, in any output.
    """

    path: Path
    outputs: tuple[str, ...]
    largest_difference: float


def export_onnx(policy: Any, path: str | Path, *, observations: Any = None) -> Exported:
    """Write a policy as ONNX, after a trial of the file in onnxruntime.

    The input is "observations": float32 [batch, obs], or int64 [batch] states for a tabular policy. The
    outputs are "action", the most probable one as the environment may be given it (int64 [batch], int64
    [batch, K] or float32 [batch, act]), and "logits" [batch, choices], or "mean" and "std" [batch, act]. The
    logits of several choices stand one after the other.

    Parameters
    ----------
    policy : one of the book's, or a module with the methods of `networks.Policy`
        A module of your own needs a `distribution` that gives one of `networks.Categorical`,
        `MultiCategorical` and `Gaussian`, and methods that torch can export.
    path : path
        A file that ends in .onnx. It appears when the trial has gone well.
    observations : array or tensor, [B, *obs], optional
        What to try the file with, over and above zeros and random numbers; and an example of what a policy
        of your own takes, which cannot be guessed.

    Raises
    ------
    ValueError, TypeError, OSError
        No policy, another ending, a library that is not installed, a policy that torch cannot export, a file
        that does not give what the policy gives, a place that cannot be written.
    """
    path = validation.path("path", path)
    if path.suffix.lower() != ".onnx":
        raise ValueError(f"path is {str(path)!r}; a file ending in .onnx is wanted")
    if path.is_dir() or not path.parent.is_dir():
        raise OSError(f"path={str(path)!r} cannot be written (no such place); wanted: a folder that is there")
    if not isinstance(policy, nn.Module) or not hasattr(policy, "distribution"):
        raise TypeError(f"policy is of type {type(policy).__name__}; a policy is wanted, such as Run.policy")
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch needs it
    except ImportError as error:
        raise ValueError(f"{error.name} is not installed; wanted: pip install 'ppobook[onnx]'") from None

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
    written = path.with_name(f".{path.name}.part")
    try:
        written.write_bytes(content)
        os.replace(written, path)
    except OSError as error:
        raise OSError(
            f"path={str(path)!r} cannot be written ({error.strerror}); wanted: a place that can"
        ) from None
    finally:
        written.unlink(missing_ok=True)
    return Exported(path, module.names, difference)


class _Answers(nn.Module):
    """A policy as one function: observations to the greedy action and the distribution's numbers."""

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
            f"policy has a distribution of type {type(distribution).__name__}; "
            "Categorical, MultiCategorical or Gaussian is wanted"
        )


def says_what_it_observes(policy: Any) -> bool:
    """Whether observations to try the file with can be made up: the book's policies say what they take."""
    return isinstance(policy, TabularPolicy) or getattr(policy, "obs_dim", None) is not None


def _trials(policy: Any, observations: Any) -> list[Tensor]:
    """Batches to try the file with; the last one has several rows."""
    trials = []
    if observations is not None:
        given = torch.as_tensor(observations).cpu()
        if given.ndim == 0 or len(given) < 2:
            raise ValueError(
                f"observations has shape {tuple(given.shape)}; at least two are wanted, one a row"
            )
        given = given.float() if given.is_floating_point() else given.long()
        trials = [given[:1], given]
    generator = torch.Generator().manual_seed(0)
    if isinstance(policy, TabularPolicy):
        states = policy.table.shape[0] if hasattr(policy, "table") else policy.n_states
        return [torch.randint(states, (n,), generator=generator) for n in _BATCHES] + trials
    size = getattr(policy, "obs_dim", None)
    if not says_what_it_observes(policy) and not trials:
        raise ValueError(
            f"policy is of type {type(policy).__name__}, and says nothing of what it observes; "
            "wanted: observations=, at least two of them"
        )
    shape = trials[0].shape[1:] if trials else (size,)
    if trials and not trials[0].is_floating_point():
        return trials
    # Small ones, large ones, and none.
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
            f"policy cannot be exported ({validation.reason(error)}); wanted: a `distribution` whose steps do "
            "not "
            "depend on the numbers in the observations"
        ) from error
    return content


def _compare(session: Any, module: _Answers, observations: Tensor) -> float:
    """The largest difference between the file's answers and torch's, relative to numbers above 1."""
    found = session.run(None, {"observations": observations.numpy()})
    with torch.no_grad():
        wanted = module(observations)
    largest = 0.0
    for name, theirs, ours in zip(module.names, found, wanted, strict=True):
        right = ours.numpy()
        if theirs.shape != right.shape or theirs.dtype != right.dtype:
            raise ValueError(
                f"policy: the file gives {name} as {theirs.dtype}{list(theirs.shape)}, and torch as "
                f"{right.dtype}{list(right.shape)}; the same is wanted, whatever the batch"
            )
        if right.dtype.kind == "f":
            difference = float(np.max(np.abs(theirs - right) / np.maximum(1, np.abs(right)), initial=0))
            largest = max(largest, difference)
    # Between two actions that are equally good rounding may decide, so they are compared by their logits.
    if wanted[0].dtype == torch.int64 and module.names == ("action", "logits"):
        largest = max(largest, _regret(module.policy, found[0], wanted[0].numpy(), wanted[1].numpy()))
    if not largest <= TOLERANCE:
        raise ValueError(
            f"policy: the file differs from torch by {largest:.2g}; {TOLERANCE:g} at most is wanted, and a "
            "policy that gives numbers that are finite"
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
    """Torch speaks of its own steps here, and not of ours."""
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
