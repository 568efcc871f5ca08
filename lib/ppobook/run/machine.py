"""Threads, seeds and devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from ppobook import validation


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    """Let torch and NumPy use n threads inside the block. Nothing else in the library sets their number."""
    before = torch.get_num_threads()
    # NumPy's matrix products would use all cores, and on small matrices wait for most of them.
    with threadpool_limits(n):
        torch.set_num_threads(n)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextlib.contextmanager
def float32_on_cpu() -> Iterator[None]:
    """Within, new tensors are float32 and on the CPU where nothing else is said, whatever torch's defaults.

    They are the caller's, and no folder holds them: a run would not be the same when it is resumed.
    """
    before, device = torch.get_default_dtype(), torch.get_default_device()
    torch.set_default_dtype(torch.float32)
    try:
        with contextlib.nullcontext() if device.type == "cpu" else torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(before)


def stream(seed: int, purpose: str) -> int:
    """A seed for one purpose, derived from the run's, so that its random streams are independent."""
    seed = validation.count("seed", seed, low=0)
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0])


def checked_device(given: Any) -> str:
    """The name of a device, which must be available; ValueError if it is not."""
    try:
        torch.zeros(1, device=torch.device(given)).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"device must be 'cpu' or an accelerator that torch can use, got {given!r} ({why})"
        ) from None
    return str(given)
