"""Shared parts of the language workers: where they begin, the time of a step, peak memory.

All begin from one folder, which `make_gpt2.py` or `make_real.py` has made: a model as transformers saves it,
its tokenizer, a reward model, and the data. A job has the folder's name, the number of completions (`rows`),
and the number of new tokens in each (`new_tokens`).
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def folder(job: dict[str, Any]) -> Path:
    """Return the folder of the job's model, with its data."""
    return Path(__file__).resolve().parents[1] / ".peers" / job["folder"]


def read(job: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of the folder's data.json."""
    text = (folder(job) / "data.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def data(job: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return records for as many steps as the job has: `prompts`, `examples` or `pairs`."""
    return read(job)[kind] * (job["warm_up"] + job["steps"])


def different_words(prompts: list[Any], completions: list[Any], **_: Any) -> list[float]:
    """The reward of GRPO and RLOO: how many different words are said. It costs next to nothing.

    TRL passes the completions of conversations as lists of messages.
    """
    texts = [said if isinstance(said, str) else said[0]["content"] for said in completions]
    return [float(len(set(text.split()))) for text in texts]


class Steps:
    """The time of each step, from the end of the step before to its own end."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.warm_up, self.wanted = job["warm_up"], job["steps"]
        self.ends: list[float] = []

    def end(self) -> None:
        self.ends.append(time.process_time())

    def result(self) -> dict[str, Any]:
        """Return medians over the steps after the warm-up."""
        if len(self.ends) != self.warm_up + self.wanted:
            raise RuntimeError(f"{len(self.ends)} steps ran instead of {self.warm_up} + {self.wanted}")
        timed = self.ends[self.warm_up - 1 :]
        return {
            "milliseconds": statistics.median(1e3 * (b - a) for a, b in pairwise(timed)),
            "peak_mb": peak_memory(),
        }


def peak_memory() -> float:
    """Return the most memory that this process has held so far, in MB."""
    status = Path("/proc/self/status")
    if status.is_file():  # on Linux `ru_maxrss` begins with what the parent held
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status.read_text(), re.M)
        assert found is not None
        return int(found[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def must_be_equal(job: dict[str, Any], rows: int, lengths: set[int]) -> None:
    """Raise unless a contestant wrote what all of them should write."""
    wanted, tokens = job["rows"], job["new_tokens"]
    if rows != wanted or lengths != {tokens}:
        raise RuntimeError(f"{rows} completions of {sorted(lengths)} tokens, not {wanted} of {tokens}")
