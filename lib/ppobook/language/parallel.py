"""Several processes that train one run together, each on its share of the rows.

    torchrun --nproc-per-node 2 script.py                        which calls `train` as ever
    torchrun --nproc-per-node 2 -m ppobook language grpo …

Every process has all the weights. What goes through a model is shared out: of the rows of a batch each
process samples, scores and learns from its own, and what comes of it is told to all. Prompts, random numbers,
advantages, whitening, the history and the adapted β are of the whole batch, and worked out by all of them
alike. Gradients are summed, each weighted by its share of the mean that the loss is. So two processes take
the steps of one, but for the rounding of float sums. So do the parts of `micro_batch_size`, one after the
other.

Done by all of them again, as it takes no longer than to tell: preferences that a World samples before
training, and looks at what is held out. Only the first process locks and writes the run's folder, and shows
a bar. An exception in one of them is raised in all.

torchrun says by its environment variables who is who; a process group that is there already is used as it is.
On CPUs they talk by gloo, on CUDA by NCCL, where a process has the GPU of its LOCAL_RANK. Tests run two
processes on a CPU. Several GPUs have not been tried.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

# Exceptions that are raised by their own names where another process had them.
_KINDS = (ValueError, TypeError, KeyError, FloatingPointError, RuntimeError, NotImplementedError, OSError)


def begin() -> None:
    """Join the others, if torchrun has started several processes and it has not been done."""
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
    """How many processes there are; 1 where nobody has begun any."""
    joined = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if joined else 1


def rank() -> int:
    """The number of this one, from 0. The one of number 0 writes."""
    return 0 if world_size() == 1 else int(distributed.get_rank())


def own_device(device: str) -> str:
    """The device of this process, where "cuda" was asked of all of them."""
    return f"cuda:{_local_rank()}" if device == "cuda" and world_size() > 1 else device


def share(n: int, together: int = 1) -> Tensor:
    """The numbers, of 0 … n − 1, of the rows that are this process's. So many `together` are not parted.

    All processes' in their order are all rows. Where there are few, a process may have none.
    """
    groups = torch.arange(n).split(together)
    first, last = (len(groups) * k // world_size() for k in (rank(), rank() + 1))
    return torch.arange(min(first * together, n), min(last * together, n))


def gather(function: Callable[[], list[Any]], device: str = "cpu") -> list[Any]:
    """What a function returns in each process, one list after the other.

    Parameters
    ----------
    function : function without arguments
        Returns a list of tensors, of plain data, and of lists, dicts and dataclasses of them.
    device : str
        Where tensors of other processes are put.

    Raises
    ------
    What the function raises, in all processes if it does in one.
    """
    if world_size() == 1:
        return function()
    mine: list[Any] = []
    error: Exception | None = None
    try:
        mine = function()
    except Exception as caught:
        error = caught
    told: list[Any] = [None] * world_size()
    failed = None if error is None else (type(error).__name__, str(error))
    distributed.all_gather_object(told, (failed, _at(mine, "cpu")))
    if error is not None:
        raise error
    for k, (other, _) in enumerate(told):
        if other is not None:
            raise _named(other[0], other[1], k)
    return [_at(one, device) for _, part in told for one in part]


def _named(name: str, message: str, k: int) -> Exception:
    """An exception of another process."""
    for kind in _KINDS:
        if kind.__name__ == name:
            return kind(message)
    return RuntimeError(f"{name} in process {k}: {message}")


def _at(x: Any, device: str) -> Any:
    """What holds tensors, with copies of them on a device."""
    if isinstance(x, Tensor):
        return x.detach().to(device, copy=True)  # of a view, all that it is a view of would be sent
    if is_dataclass(x) and not isinstance(x, type):
        return type(x)(**{f.name: _at(getattr(x, f.name), device) for f in fields(x)})
    if isinstance(x, dict):
        return {name: _at(one, device) for name, one in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(_at(one, device) for one in x)
    return x


def first(function: Callable[[], Any]) -> Any:
    """What a function returns in the first process, which alone calls it."""
    return gather(lambda: [function()] if rank() == 0 else [])[0]


def wait() -> None:
    """Go on when all have come this far: what the first has written is there then for the others."""
    gather(lambda: [])


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Put the sum over all processes in the place of each gradient; one that is not there counts as 0."""
    if world_size() == 1:
        return
    alike: dict[tuple[torch.device, torch.dtype], list[nn.Parameter]] = {}
    for p in parameters:
        alike.setdefault((p.device, p.dtype), []).append(p)
    for some in alike.values():
        row = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in some])
        distributed.all_reduce(row)
        for p, gradient in zip(some, row.split([p.numel() for p in some]), strict=True):
            p.grad = gradient.view_as(p)


@torch.no_grad()
def same_weights(modules: Iterable[nn.Module]) -> None:
    """Give all processes the weights that the first one has."""
    if world_size() > 1:
        for module in modules:
            for x in module.state_dict().values():
                whole = x.contiguous()
                distributed.broadcast(whole, 0)
                x.copy_(whole)
