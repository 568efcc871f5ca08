"""Run an experiment over settings and seeds, and record the results."""

from __future__ import annotations

import csv
import hashlib
import inspect
import io
import json
import multiprocessing
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ppobook.experiments.tables import results_folder
from ppobook.run.files import atomic_write

Row = dict[str, Any]
Task = tuple[dict[str, Any], int]


def record(
    name: str,
    fn: Callable[..., Any],
    settings: Sequence[dict[str, Any]],
    seeds: Iterable[int],
    *,
    workers: int = 2,
    folder: str | Path | None = None,
    digits: int = 6,
    note: str = "",
) -> Path:
    """Run `fn(seed=…, **setting)` for every setting and seed, and write the rows as one tidy table.

    A killed run loses at most the pairs under way: each finished pair is kept in `partial.jsonl`, and the
    next call with the same `fn` resumes from there. The table is written atomically when all are done.

    Parameters
    ----------
    name : str
        Lowercase letters, digits and underscores. The rows are written to `results/NAME/table.csv`, the
        facts to `results/NAME/facts.json`.
    fn : callable
        A module-level function (each worker is a fresh process that imports it). Returns a list of row
        dicts, a single dict, or a pandas DataFrame.
    settings : list of dict
        Keyword arguments of `fn`; each also becomes a column. Values that JSON can hold.
    seeds : iterable of int
    workers : int
        Number of worker processes. 0 runs everything in this process, which is easier to debug.
    folder : path, optional
        Parent of the experiment's folder. Default: the checkout's `results/`.
    digits : int
        Significant digits of floats in the table.
    note : str
        A sentence for the facts: what was fixed before the run, what is being compared.

    Returns
    -------
    Path
        Path of the table.

    Raises
    ------
    ValueError
        An invalid name, no settings or no seeds, a duplicate pair, a row whose column clashes with a
        setting, or a partial run that was started with another `fn`.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"name must be lowercase letters, digits and underscores, starting with a letter, got {name!r}"
        )
    tasks = _tasks(settings, seeds)
    where = (Path(folder) if folder is not None else results_folder()) / name
    where.mkdir(parents=True, exist_ok=True)
    partial = where / "partial.jsonl"
    code = _digest(fn)

    done = _read_partial(partial, code)
    waiting = [task for task in tasks if _key(task) not in done]
    with partial.open("a", encoding="utf-8") as log:
        for task, rows, wall, cpu in _run(fn, waiting, workers):
            clash = {"seed", *task[0]} & {column for row in rows for column in row}
            if clash:
                column = sorted(clash)[0]
                raise ValueError(f"fn must return rows without columns of setting or seed, got {column!r}")
            line: dict[str, Any] = {"task": _key(task), "code": code, "rows": rows, "wall": wall, "cpu": cpu}
            log.write(json.dumps(line) + "\n")
            log.flush()
            os.fsync(log.fileno())
            done[line["task"]] = line

    kept = [done[_key(task)] for task in tasks]
    table = [
        {**setting, "seed": seed, **row}
        for (setting, seed), line in zip(tasks, kept, strict=True)
        for row in line["rows"]
    ]
    facts = {
        "name": name,
        "note": note,
        "date": datetime.now(UTC).date().isoformat(),
        "made_by": "run.py",
        "seeds": sorted({seed for _, seed in tasks}),
        "settings": list(settings),
        "rows": len(table),
        "wall_seconds": round(sum(line["wall"] for line in kept), 1),
        "cpu_seconds": round(sum(line["cpu"] for line in kept), 1),
        "workers": max(workers, 1),
        "machine": machine(),
        "versions": versions(),
    }
    atomic_write(where / "facts.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    path = where / "table.csv"
    atomic_write(path, _as_csv(table, digits))
    partial.unlink()
    return path


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
    return f"{cores} core{'s' * (cores != 1)}, {model}, {platform.system()}"


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    found = {"python": platform.python_version()}
    for package in ("ppobook", "torch", "numpy", "gymnasium", "pandas"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def _tasks(settings: Sequence[dict[str, Any]], seeds: Iterable[int]) -> list[Task]:
    seeds = [int(seed) for seed in seeds]
    if not settings or not all(isinstance(setting, dict) for setting in settings):
        raise ValueError(f"settings must be a non-empty list of dicts of keyword arguments, got {settings!r}")
    if not seeds:
        raise ValueError("seeds must hold at least one seed, got none")
    tasks = [(dict(setting), seed) for setting in settings for seed in seeds]
    if len({_key(task) for task in tasks}) < len(tasks):
        raise ValueError("settings and seeds must be distinct, got the same pair twice")
    return tasks


def _key(task: Task) -> str:
    return json.dumps({"setting": task[0], "seed": task[1]}, sort_keys=True)


def _digest(fn: Callable[..., Any]) -> str:
    return hashlib.sha256(inspect.getsource(fn).encode()).hexdigest()[:16]


def _read_partial(path: Path, code: str) -> dict[str, dict[str, Any]]:
    done: dict[str, dict[str, Any]] = {}
    if not path.is_file():
        return done
    text = path.read_text(encoding="utf-8")
    whole, _, rest = text.rpartition("\n")
    if rest:  # an incomplete last line, left by a kill: its pair runs again
        atomic_write(path, whole + "\n" if whole else "")
    for line in map(json.loads, whole.splitlines()):
        if line["code"] != code:
            raise ValueError(
                f"fn must be the function that began {path}, got another version of it; delete the file to "
                "start over, or restore the function to finish that run"
            )
        done[line["task"]] = line
    return done


def _run(
    fn: Callable[..., Any], tasks: list[Task], workers: int
) -> Iterator[tuple[Task, list[Row], float, float]]:
    if workers == 0:
        for task in tasks:
            yield (task, *_measure(fn, task))
        return
    # A fork would copy a process in which torch may already hold threads; a fresh process does not.
    context = multiprocessing.get_context("spawn")
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            pending = {pool.submit(_measure, fn, task): task for task in tasks}
            try:
                for future in as_completed(pending):
                    yield (pending[future], *future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        os.environ.pop("OMP_NUM_THREADS") if before is None else os.environ.update(OMP_NUM_THREADS=before)


def _measure(fn: Callable[..., Any], task: Task) -> tuple[list[Row], float, float]:
    setting, seed = task
    wall, cpu = time.perf_counter(), time.process_time()
    rows = fn(seed=seed, **setting)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if hasattr(rows, "to_dict"):
        rows = rows.to_dict("records")
    rows = [rows] if isinstance(rows, dict) else list(rows)
    return [{str(key): _plain(value) for key, value in row.items()} for row in rows], wall, cpu


def _plain(value: Any) -> Any:
    """Convert a NumPy or torch scalar to a Python one, which JSON can hold."""
    return value.item() if hasattr(value, "item") else value


def _as_csv(rows: list[Row], digits: int) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column), digits) for column in columns])
    return text.getvalue()


def _cell(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return "" if value != value else f"{value:.{digits}g}"
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    return value
