"""Several processes that train one run together, each on its share of the rows.

    torchrun --nproc-per-node 2 script.py                        which calls `train` as usual
    torchrun --nproc-per-node 2 -m ppobook language grpo …

Every process has all weights. Of the rows of a batch, each process samples, scores and learns from its share;
results are gathered in all. Prompts, random numbers, advantages, whitening, the history and the adapted β
belong to the whole batch and are computed by all processes alike. Gradients are summed, each weighted by its
share of the mean in the loss. So two processes take the same steps as one, up to floating-point rounding;
`micro_batch_size` does the same with the parts of a batch, one after the other.

Every process repeats what is quicker to compute than to send. Only the first process locks and writes the
run's folder and shows a progress bar. An exception in one process is raised in all.

torchrun's environment variables give each process its rank; a process group that exists is used. The backend
is gloo on CPUs and NCCL on CUDA, where each process uses the GPU of its LOCAL_RANK. Tests run two processes
on a CPU; several GPUs are untested.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn


def begin() -> None:
    """Join the process group, if torchrun has started several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or distributed.is_initialized():
        return
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(_local_rank())
    distributed.init_process_group(backend)
    atexit.register(distributed.destroy_process_group)


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def world_size() -> int:
    """The number of processes."""
    joined = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if joined else 1


def rank() -> int:
    """The rank of this process. Rank 0 writes."""
    return 0 if world_size() == 1 else int(distributed.get_rank())


def own_device(device: str) -> str:
    """The device of this process: with several, "cuda" is the GPU of its LOCAL_RANK."""
    return f"cuda:{_local_rank()}" if device == "cuda" and world_size() > 1 else device


def share(n: int, together: int = 1) -> Tensor:
    """The rows, of 0 … n − 1, of this process; groups of `together` rows stay in one process.

    In the order of the ranks they are all rows. With few rows, a process may have none.
    """
    groups = torch.arange(n).split(together)
    first, last = (len(groups) * k // world_size() for k in (rank(), rank() + 1))
    return torch.arange(min(first * together, n), min(last * together, n))


@contextmanager
def raised_in_all() -> Iterator[None]:
    """Raise an exception of the block, in other processes as a RuntimeError."""
    if world_size() == 1:
        yield
        return
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        error = caught
    failed: list[Any] = [None] * world_size()
    distributed.all_gather_object(failed, None if error is None else repr(error))
    if error is not None:
        raise error
    for k, message in enumerate(failed):
        if message is not None:
            raise RuntimeError(f"process {k} has raised {message}")


def joined(mine: list[Any], device: str = "cpu") -> list[Any]:
    """The lists of all processes, in the order of the ranks, with their tensors on a device.

    They hold tensors, plain data, and lists, dicts and dataclasses of them.
    """
    if world_size() == 1:
        return mine
    gathered: list[Any] = [None] * world_size()
    distributed.all_gather_object(gathered, _at(mine, "cpu"))
    return [_at(one, device) for part in gathered for one in part]


def gather(function: Callable[[], list[Any]], device: str = "cpu") -> list[Any]:
    """The lists that a function returns in each process, `joined`; what it raises is raised in all."""
    with raised_in_all():
        mine = function()
    return joined(mine, device)


def _at(x: Any, device: str) -> Any:
    """A copy with its tensors on a device."""
    if isinstance(x, Tensor):
        return x.detach().to(device, copy=True)  # a view would be sent with its whole storage
    if is_dataclass(x) and not isinstance(x, type):
        return type(x)(**{f.name: _at(getattr(x, f.name), device) for f in fields(x)})
    if isinstance(x, dict):
        return {name: _at(one, device) for name, one in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(_at(one, device) for one in x)
    return x


def first(function: Callable[[], Any]) -> Any:
    """Call a function in the first process only, and return its result in all."""
    return gather(lambda: [function()] if rank() == 0 else [])[0]


def wait() -> None:
    """Wait for all processes, so that the others see what the first has written."""
    gather(lambda: [])


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace each gradient by its sum over all processes; a missing one counts as 0."""
    if world_size() == 1:
        return
    by_kind: dict[tuple[torch.device, torch.dtype], list[nn.Parameter]] = {}
    for p in parameters:
        by_kind.setdefault((p.device, p.dtype), []).append(p)
    for some in by_kind.values():
        row = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in some])
        distributed.all_reduce(row)
        for p, gradient in zip(some, row.split([p.numel() for p in some]), strict=True):
            p.grad = gradient.view_as(p)


@torch.no_grad()
def same_weights(modules: Iterable[nn.Module]) -> None:
    """Broadcast the weights of the first process."""
    if world_size() > 1:
        for module in modules:
            for x in module.state_dict().values():
                whole = x.contiguous()
                distributed.broadcast(whole, 0)
                x.copy_(whole)
