"""Milliseconds for generalised advantages: the library's public function, and the loop that is often written.

Both are given what a rollout holds: float32 tensors, [N, T] views of storage in which time comes first, with
about one episode in a hundred steps ending, some of them truncated by a time limit. The library's checks its
arguments and treats truncated episodes apart; the other loop does neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import common
import torch
from torch import Tensor

from ppobook.returns import gae


def plain_loop(rewards: Tensor, values: Tensor, dones: Tensor, gamma: float, lam: float) -> Tensor:
    """Backwards through time, all environments at once; [T, N] in and out, values [T + 1, N]."""
    advantages = torch.zeros_like(rewards)
    after = torch.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        goes_on = 1.0 - dones[t]
        delta = rewards[t] + gamma * values[t + 1] * goes_on - values[t]
        advantages[t] = after = delta + gamma * lam * goes_on * after
    return advantages


def median_ms(call: Callable[[], Any], seconds: float) -> float:
    """Processor time of a call, the median of those that fit into so many seconds, at least five."""
    call()
    took: list[float] = []
    until = time.perf_counter() + seconds
    while len(took) < 5 or time.perf_counter() < until:
        begin = time.process_time()
        call()
        took.append(time.process_time() - begin)
    return sorted(took)[len(took) // 2] * 1e3


def run(job: dict[str, Any]) -> dict[str, Any]:
    steps, envs, seconds = job["steps"], job["envs"], job["seconds"]
    generator = torch.Generator().manual_seed(job["seed"])
    rewards = torch.randn(steps, envs, generator=generator)
    values = torch.randn(steps + 1, envs, generator=generator)
    ended = torch.rand(steps, envs, generator=generator) < 0.01
    truncated = ended & (torch.rand(steps, envs, generator=generator) < 0.3)
    terminated = ended & ~truncated
    final_values = torch.where(truncated, torch.randn(steps, envs, generator=generator), torch.nan)
    views = [x.T for x in (rewards, values, terminated, truncated, final_values)]
    dones = ended.float()
    if job["form"] == "public":
        ms = median_ms(lambda: gae(*views, gamma=0.99, lam=0.95), seconds)
    else:
        ms = median_ms(lambda: plain_loop(rewards, values, dones, 0.99, 0.95), seconds)
    return {"milliseconds": ms}


if __name__ == "__main__":
    common.main(run)
