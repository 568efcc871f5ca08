"""Where a step of ours goes: its products of matrices, attention, work on each number, and what is between.

One step is counted, some are timed, and some are profiled; the shares are of the profiled ones. A profiler
takes time itself, most of it between the operations, so that the rest is less than it says.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import common
import torch
from language_ours import start, trained
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from ppobook.language.registry import stage_class

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
        begin = time.process_time()
        a @ b
        times.append(time.process_time() - begin)
    return 2 * a.numel() * 4 * width / statistics.median(times) / 1e9


def run(job: dict[str, Any]) -> dict[str, Any]:
    kind = stage_class(job["stage"])
    begun = start(job)
    profiler = profile(activities=[ProfilerActivity.CPU])
    counted: list[float] = []
    timed: list[float] = []
    whole: list[float] = []

    class Watched(kind):  # type: ignore[misc, valid-type]
        done = 0

        def step(self, number: int) -> dict[str, Any]:
            self.done += 1
            after = self.done - WARM_UP - 1  # steps since the one that is counted
            if after == 0:
                with FlopCounterMode(display=False) as counter:
                    row = super().step(number)
                found = counter.get_flop_counts()["Global"]
                counted.append(
                    sum(n for op, n in found.items() if str(op).split(".")[-1] in KINDS["products"])
                )
                return row
            if after == TIMED + 1:
                profiler.__enter__()
            cpu, wall = time.process_time(), time.perf_counter()
            row = super().step(number)
            if after > TIMED:
                whole.append(time.perf_counter() - wall)  # the profiler's own clock
            elif after > 0:
                timed.append(time.process_time() - cpu)
            if after == TIMED + PROFILED:
                profiler.__exit__(None, None, None)
            return row

    trained(Watched, begun, job, WARM_UP + 1 + TIMED + PROFILED)
    took = {one.key.removeprefix("aten::"): one.self_cpu_time_total / 1e6 for one in profiler.key_averages()}
    shares = {name: sum(took.get(op, 0.0) for op in ops) / sum(whole) for name, ops in KINDS.items()}
    return {
        "milliseconds": 1e3 * statistics.median(timed),
        "gflop": counted[0] / 1e9,
        "gflops_of_one_product": rate(job["width"]),
        **shares,
        "between": 1 - sum(shares.values()),
    }


if __name__ == "__main__":
    common.main(run)
