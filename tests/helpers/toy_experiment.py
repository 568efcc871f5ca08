"""Functions that worker processes can import: they know `tests/helpers`, not the test modules."""

import os
import time


def height(seed, slope):
    return {"height": slope + seed}


def patient_height(seed, slope, folder):
    """Notes in `folder` the processes of its node and of its own, and waits there for the file `go`."""
    with open(f"{folder}/begun", "a") as file:
        file.write(f"{os.getppid()} {os.getpid()}\n")
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.02)
    return {"height": slope + seed / 3}


def falling(seed, slope):
    raise ArithmeticError(f"too steep: {slope}")
