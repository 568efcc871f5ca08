"""Functions that worker processes can import: they know `tests/helpers`, not the test modules."""

import os
import time


def height(seed, slope):
    return {"height": slope + seed}


def slow_height(seed, slope, log):
    """Writes to `log` which process began this process, a node's if it runs on a cluster."""
    with open(log, "a") as file:
        file.write(f"{os.getppid()} {slope} {seed}\n")
    time.sleep(0.5)
    return {"height": slope + seed / 3}


def falling(seed, slope):
    raise ArithmeticError(f"too steep: {slope}")
