"""Engines that run an experiment's tasks: in this process, in others on this machine, or on Ray."""

from __future__ import annotations

import ast
import contextlib
import json
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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from ppobook.validation import copied, counted, kind_of

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
    if "<" in fn.__qualname__:  # <lambda>, or <locals> of another function
        raise ValueError(
            f"fn must be a function of a module where there are workers, which import it, got "
            f"{fn.__qualname__}. workers=0 runs it in this process"
        )
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


def refuse_unguarded() -> None:
    """Raise where the script that asks for workers would ask again in each of them, which import it."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") != "__main__":
        frame = frame.f_back
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    script, spec = frame.f_globals.get("__file__") or "", frame.f_globals.get("__spec__")
    of_package = getattr(spec, "name", "").endswith("__main__")  # python -m PACKAGE
    if of_package or frame.f_globals.get("__name__") != "__main__" or not Path(script).is_file():
        return  # workers import no notebook, no interpreter and no package's __main__
    for statement in ast.parse(Path(script).read_bytes()).body:
        within = statement.lineno <= frame.f_lineno <= (statement.end_lineno or 0)
        if within and not (isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)):
            raise ValueError(
                'record must be called below `if __name__ == "__main__":` where there are workers, which '
                f"import the script, got a call in line {frame.f_lineno} of {Path(script).name}. workers=0 "
                "runs it in this process"
            )


def on_ray(fn: Function, tasks: list[Task], address: str) -> Generator[tuple[Task, Measured]]:
    """Run tasks on a Ray cluster, one on each CPU. Those of a node that is lost run again on another.

    Raises
    ------
    ValueError
        Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ImportError:
        raise ValueError(
            f"ray must be None where Ray is not installed, got {address!r}. pip install 'ppobook[scale]' "
            "installs it"
        ) from None
    joined = not ray.is_initialized()
    if joined:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = f"{error}".split("\n")[0].rstrip(".")
            raise ValueError(f"ray must be the address of a cluster, got {address!r}: {reason}") from None
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
    setting, seed = copied(task)  # the function may change what it is given
    wall, cpu = time.perf_counter(), time.process_time()
    rows = fn(seed=seed, **setting)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if hasattr(rows, "to_dict"):
        rows = rows.to_dict("records")
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list | tuple) or not all(isinstance(row, dict) for row in rows):
        raise TypeError(f"fn must return a dict, a list of dicts or a DataFrame, got {kind_of(rows)}")
    plain = [{str(key): _plain(str(key), value) for key, value in row.items()} for row in rows]
    return Measured(plain, wall, cpu, machine())


def machine() -> str:
    """Describe this machine: cores, processor and system, but no host name and no path."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        cores = os.cpu_count() or 1
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        model = found.group(1).strip() if found else model
    return f"{counted(cores, 'core')}, {model}, {platform.system()}"


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    found = {"python": platform.python_version()}
    for package in ("ppobook", "torch", "numpy", "gymnasium", "pandas"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def _measure_there(fn: Function, task: Task, expected: dict[str, str]) -> tuple[Any, ...]:
    """Run one task on a node, which must have the versions that the facts will name."""
    mine = versions()
    if other := [name for name in expected if mine[name] != expected[name]]:
        name = other[0]
        raise ValueError(
            f"every node of the cluster must have {name} {expected[name]}, as this machine has, got "
            f"{mine[name]}"
        )
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


def _plain(column: str, value: Any) -> Any:
    """Convert a NumPy or torch scalar to a Python one, which JSON can hold."""
    try:
        value = value.item() if hasattr(value, "item") else value
        json.dumps(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"fn must return values that JSON can hold, got {value!r} for {column!r}") from None
    return value
