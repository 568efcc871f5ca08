"""Where a step of ours goes: its products of matrices, attention, work on each number, and what is between.

One step is counted, some are timed, and some are profiled; the shares are of the profiled ones. A profiler
takes time itself, most of it between the operations, so that the rest is less than it says.
"""

from __future__ import annotations

import time
from typing import Any

import common
import language_common
import torch
from language_ours import DATA, start
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from ppobook.language import train
from ppobook.language.training import stage_class

WARM_UP, TIMED, PROFILED = 2, 3, 2

# The kinds of work, by how torch's operations are called. What comes "between" is the rest: Python, views,
# tables of words, drawing tokens.
FLASH = "_scaled_dot_product_flash_attention_for_cpu"
EACH_NUMBER = """
    add add_ sub rsub mul mul_ div div_ addcmul addcmul_ neg exp sigmoid sigmoid_ clamp clamp_ sum cumsum
    copy_ fill_ where masked_fill_ native_layer_norm native_layer_norm_backward _softmax _log_softmax
    _log_softmax_backward_data
"""
KINDS = {
    "products": ["mm", "addmm", "bmm", "baddbmm"],
    "attention": [FLASH, f"{FLASH}_backward"],
    "each_number": EACH_NUMBER.split(),
}


def rate(width: int) -> float:
    """GFLOP/s of a product of a step, [64 · 28, width] by [width, 4 · width], with nothing between two."""
    a, b = torch.randn(64 * 28, width), torch.randn(width, 4 * width)
    for _ in range(20):
        a @ b
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - begin)
    return 2 * a.numel() * 4 * width / sorted(times)[len(times) // 2] / 1e9


def run(job: dict[str, Any]) -> dict[str, Any]:
    kind = stage_class(job["stage"])
    model, tokenizer, reward = start(job)
    profiler = profile(activities=[ProfilerActivity.CPU])
    counted: list[float] = []
    seconds: list[float] = []
    spent: list[float] = []

    class Watched(kind):  # type: ignore[misc, valid-type]
        def step(self, number: int) -> dict[str, Any]:
            done = len(seconds)
            if done == WARM_UP:
                with FlopCounterMode(display=False) as counter:
                    row = super().step(number)
                found = counter.get_flop_counts()["Global"]
                counted.append(
                    sum(n for op, n in found.items() if str(op).split(".")[-1] in KINDS["products"])
                )
                seconds.append(0.0)
                return row
            if done == WARM_UP + 1 + TIMED:
                profiler.__enter__()
            begin = time.process_time()
            row = super().step(number)
            seconds.append(time.process_time() - begin)
            if len(seconds) == WARM_UP + 1 + TIMED + PROFILED:
                profiler.__exit__(None, None, None)
                spent.extend(seconds[-PROFILED:])
            return row

    train(
        Watched,
        model,
        language_common.data(job, DATA[job["algorithm"]]),
        reward=reward,
        tokenizer=tokenizer,
        seed=job["seed"],
        steps=WARM_UP + 1 + TIMED + PROFILED,
        checkpoint_every=10**6,
        progress=False,
        **job["settings"],
    )
    whole = sum(spent)
    took = {one.key.removeprefix("aten::"): one.self_cpu_time_total / 1e6 for one in profiler.key_averages()}
    shares = {name: sum(took.get(op, 0.0) for op in ops) / whole for name, ops in KINDS.items()}
    timed = sorted(seconds[WARM_UP + 1 : WARM_UP + 1 + TIMED])
    return {
        "milliseconds": 1e3 * timed[len(timed) // 2],
        "gflop": counted[0] / 1e9,
        "gflops_of_one_product": rate(job["width"]),
        **shares,
        "between": 1 - sum(shares.values()),
    }


if __name__ == "__main__":
    common.main(run)
