"""The page "To a real model", over seeds: its script, from the small model that it makes to GRPO.

Each seed draws all anew: the small model and what it read, the problems to train on and to evaluate, and
training. The calls are those of `examples/to_a_real_model.py` with the options of the page; only more
problems are held out. Right answers are counted on problems that neither stage had seen.

The options were chosen on seed 0, which is not among these.
"""

import importlib.util
import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

import torch

from ppobook.experiments import record

SCRIPT = Path(__file__).parents[2] / "examples" / "to_a_real_model.py"
SMALL = "--largest 9"
OPTIONS = "--largest 9 --rank 8 --lr 3e-4 --sft-lr 5e-4 --max-new-tokens 48 --micro-batch-size 32"
HELD_OUT = 500


def one(seed: int, updates: int) -> list[dict[str, Any]]:
    """A row for each stage: the shares of right answers, and of completions that ended."""
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("to_a_real_model", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with tempfile.TemporaryDirectory() as folder:
        small, out = Path(folder, "small"), Path(folder, "sums")
        script.run(script.options(shlex.split(f"--small {small} {SMALL} --seed {seed}")))
        line = f"--model {small} --out {out} {OPTIONS} --updates {updates} --held-out {HELD_OUT}"
        script.run(script.options(shlex.split(f"{line} --seed {seed}")))
        report = json.loads((out / script.REPORT).read_text(encoding="utf-8"))
    shares = ("greedy", "sampled", "greedy_ended", "sampled_ended")
    return [{"stage": stage, **{name: row[name] for name in shares}} for stage, row in report.items()]


if __name__ == "__main__":
    record(
        "language_real_model",
        one,
        [{"updates": 100}],
        seeds=range(100, 105),
        workers=1,
        note="Options were chosen on seed 0. Every seed is reported.",
    )
