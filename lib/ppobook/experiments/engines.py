"""Engines that run an experiment's tasks: in this process, in others on this machine, or on Ray."""

from __future__ import annotations

import contextlib
import copy
import logging
import multiprocessing
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from ppobook.validation import counted

Row = dict[str, Any]
Task = tuple[dict[str, Any], int]
Function = Callable[..., Any]


class Measured(NamedTuple):
    """The rows of one task, its seconds, and the machine that it ran on."""

    rows: list[Row]
    wall: float
    cpu: float
    machine: str


def here(fn: Function, tasks: list[Task], workers: int) -> Generator[tuple[Task, Measured]]:
    """Run tasks in `workers` processes of this machine, or one by one in this process if there are none."""
    if workers == 0:
        for task in tasks:
            with _naming(task):
                yield task, measure(fn, task)
        return
    # A fork would copy a process in which torch may already hold threads; a fresh process does not.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_end_quietly) as pool:
            pending = {pool.submit(measure, fn, task): task for task in tasks}
            try:
                for future in as_completed(pending):
                    task = pending[future]
                    with _naming(task):
                        yield task, future.result()
            except BaseException:
                for process in set(multiprocessing.active_children()) - others:
                    process.terminate()  # else the tasks under way would be waited for
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        if threads is None:
            os.environ.pop("OMP_NUM_THREADS")
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def on_ray(fn: Function, tasks: list[Task], address: str) -> Generator[tuple[Task, Measured]]:
    """Run tasks on a Ray cluster, one on each CPU. Those of a node that is lost run again on another."""
    import ray

    joined = not ray.is_initialized()
    if joined:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    module = sys.modules[fn.__module__]
    by_value = fn.__module__.partition(".")[0] not in ("__main__", "ppobook")
    if by_value:  # the nodes have this library, and not the file that the function is in
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        # Ray gives a task of one CPU one thread. A task is tried again if its node or its process is lost,
        # not if it raises.
        remote = ray.remote(num_cpus=1, max_retries=10)(_measure_there)
        pending = {remote.remote(fn, task, versions()): task for task in tasks}
        while pending:
            (done, *_), _ = ray.wait(list(pending))
            task = pending.pop(done)
            with _naming(task):
                try:
                    measured = ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                yield task, Measured(*measured)
    finally:
        if by_value:
            ray.cloudpickle.unregister_pickle_by_value(module)
        if joined:
            ray.shutdown()


def measure(fn: Function, task: Task) -> Measured:
    """Run one task."""
    setting, seed = copy.deepcopy(task)  # the function may change what it is given
    wall, cpu = time.perf_counter(), time.process_time()
    rows = fn(seed=seed, **setting)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if hasattr(rows, "to_dict"):
        rows = rows.to_dict("records")
    rows = [rows] if isinstance(rows, dict) else rows
    plain = [{str(key): _plain(value) for key, value in row.items()} for row in rows]
    return Measured(plain, wall, cpu, machine())


def machine() -> str:
    """Describe this machine: cores, processor and system, but no host name and no path."""
    only_on_linux = getattr(os, "sched_getaffinity", None)
    cores = len(only_on_linux(0)) if only_on_linux else os.cpu_count() or 1
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        model = found.group(1).strip() if found else model
    return f"{counted(cores, 'core')}, {model}, {platform.system()}"


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    packages = ("ppobook", "torch", "numpy", "gymnasium", "pandas")
    return {"python": platform.python_version()} | {package: version(package) for package in packages}


def _measure_there(fn: Function, task: Task, expected: dict[str, str]) -> tuple[Any, ...]:
    """Run one task on a node, which must have the versions that the facts will name."""
    mine = versions()
    if mine != expected:
        raise ValueError(f"nodes must have this machine's versions, {expected}, got {mine}")
    return tuple(measure(fn, task))


@contextlib.contextmanager
def _naming(task: Task) -> Iterator[None]:
    """Note on an error which task it came from."""
    try:
        yield
    except Exception as error:
        setting = "".join(f"{name}={value!r}, " for name, value in task[0].items())
        error.add_note(f"in the run with {setting}seed={task[1]}")
        raise


def _end_quietly() -> None:
    """A terminal's Ctrl-C ends a worker without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _plain(value: Any) -> Any:
    """Convert a NumPy or torch scalar to a Python one, which JSON can hold."""
    return value.item() if hasattr(value, "item") else value
