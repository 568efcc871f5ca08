"""TODO."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    """Let torch and NumPy use n threads inside the block. Nothing else here changes their number."""
    before = torch.get_num_threads()
    # NumPy's matrix products would take all cores, and on matrices of this size wait for most of them.
    with threadpool_limits(n):
        torch.set_num_threads(n)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def stream(seed: int, purpose: str) -> int:
    """A seed for one purpose, so that the streams of a run do not run in step."""
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0])


def checked_device(given: Any) -> str:
    """The name of a device that can hold numbers.

    Raises
    ------
    ValueError
        Torch does not know it, or it is not here.
    """
    try:
        torch.zeros(1, device=given).item()  # there are devices that hold shapes and no numbers
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"device={given!r} cannot be used ({reason}); wanted: 'cpu', or an accelerator torch has"
        ) from None
    return str(given)
