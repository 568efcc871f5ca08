"""Run an experiment over settings and seeds, and record the results."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import inspect
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ppobook import validation
from ppobook.experiments.engines import Function, Row, Task, here, on_ray, versions
from ppobook.experiments.tables import results_folder
from ppobook.run.files import atomic_write
from ppobook.run.progress import Progress
from ppobook.settings import storable

# Arguments that go before those in a script: what `ppobook record` was given.
_given: ContextVar[dict[str, Any] | None] = ContextVar("given", default=None)


def record(
    name: str,
    fn: Function,
    settings: Sequence[dict[str, Any]],
    seeds: Iterable[int],
    *,
    workers: int = 2,
    ray: str | None = None,
    folder: str | Path | None = None,
    digits: int = 6,
    note: str = "",
    progress: bool | None = None,
) -> Path:
    """Run `fn(seed=…, **setting)` for every setting and seed, and write the rows as one tidy table.

    A killed run loses at most the pairs under way: each finished pair is kept in `partial.jsonl`, and the
    next call with the same `fn` resumes from there. The table is written atomically when all are done. It is
    the same however many workers there are, and wherever they run, if `fn` is a function of its arguments.

    Parameters
    ----------
    name : str
        The rows are written to `results/NAME/table.csv`, the facts to `results/NAME/facts.json`, in place of
        those that are there. A table with rows of further settings or seeds is kept: that raises.
    fn : callable
        A module-level function (each worker is a fresh process that imports it). Returns a list of row
        dicts, a single dict, or a pandas DataFrame. If it trains, it may do so with `fast=True`.
    settings : list of dict
        Keyword arguments of `fn`; each also becomes a column. Values that JSON can hold.
    seeds : iterable of int
    workers : int
        Number of worker processes. 0 runs everything in this process, which is easier to debug.
    ray : str, optional
        Address of a Ray cluster to run on instead, one pair on each of its CPUs: "auto" for the cluster of
        this machine, or "HOST:PORT". If a node is lost, the pairs that it was running run again elsewhere.
    folder : path, optional
        Parent of the experiment's folder. Default: the checkout's `results/`.
    digits : int
        Significant digits of the floats that `fn` returns. Those of settings are written in full.
    note : str
        A sentence for the facts: what was fixed before the run, what is being compared.
    progress : bool, optional
        True: a progress bar with the time left. None: a bar in a terminal and in a notebook, elsewhere a line
        now and then. False: nothing.

    Returns
    -------
    Path of the table.

    Raises
    ------
    ValueError
        A duplicate pair, a row whose column clashes with a setting, or a partial run that was started with
        another `fn`.
    FileExistsError
        A finished table of this name has rows of other settings or seeds, which would be lost.
    """
    if (given := _given.get()) is not None:
        workers = given.get("workers", workers)
        ray, folder = given.get("ray", ray), given.get("folder", folder)
    settings = [storable(f"settings[{i}]", setting) for i, setting in enumerate(settings)]
    seeds = [int(seed) for seed in seeds]
    tasks = [(setting, seed) for setting in settings for seed in seeds]
    if len({_key(task) for task in tasks}) < len(tasks):
        raise ValueError("settings and seeds must be distinct, got the same pair twice")
    where = Path(folder or results_folder()).expanduser() / name
    where.mkdir(parents=True, exist_ok=True)
    partial = where / "partial.jsonl"
    code = _digest(fn)
    _refuse_to_lose(where, tasks)

    done = _read_partial(partial, code)
    waiting = [task for task in tasks if _key(task) not in done]
    engine = here(fn, waiting, workers) if ray is None else on_ray(fn, waiting, ray)
    begun = len(tasks) - len(waiting)
    with (
        partial.open("a", encoding="utf-8") as log,
        _resumable(partial),
        Progress(len(tasks), begun, name, "run", progress) as shown,
        contextlib.closing(engine),
    ):
        for count, (task, measured) in enumerate(engine, begun + 1):
            clash = {"seed", *task[0]} & {column for row in measured.rows for column in row}
            if clash:
                column = sorted(clash)[0]
                raise ValueError(f"fn must return rows without columns of setting or seed, got {column!r}")
            line = json.dumps({"task": _key(task), "code": code, **measured._asdict()})
            log.write(line + "\n")
            log.flush()
            os.fsync(log.fileno())
            done[_key(task)] = json.loads(line)  # the function may go on changing what it has returned
            shown.show(count, {})

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
        "seeds": sorted(seeds),
        "settings": settings,
        "rows": len(table),
        "wall_seconds": round(sum(line["wall"] for line in kept), 1),
        "cpu_seconds": round(sum(line["cpu"] for line in kept), 1),
        "workers": max(workers, 1) if ray is None else "on Ray",
        "machine": "; ".join(sorted({line["machine"] for line in kept})),
        "versions": versions(),
    }
    atomic_write(where / "facts.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    path = where / "table.csv"
    atomic_write(path, _as_csv(table, digits, in_full={key for setting in settings for key in setting}))
    partial.unlink()
    if given is not None:
        given.setdefault("written", []).append(path)
    return path


@contextlib.contextmanager
def overriding(given: dict[str, Any]) -> Iterator[None]:
    """Within, `record` goes by these of its arguments, and adds its tables' paths to `given["written"]`."""
    token = _given.set(given)
    try:
        yield
    finally:
        _given.reset(token)


@contextlib.contextmanager
def _resumable(partial: Path) -> Iterator[None]:
    """Note on whatever ends a run early how much of it is kept."""
    try:
        yield
    except BaseException as error:
        if kept := partial.read_text(encoding="utf-8").count("\n"):
            kept_runs = validation.counted(kept, "finished run")
            error.add_note(f"{kept_runs} kept in {partial}: the next call goes on from there")
        raise


def _refuse_to_lose(where: Path, tasks: list[Task]) -> None:
    """Raise where a finished table has rows of a setting and a seed that the new one would not have."""
    table = where / "table.csv"
    try:
        before = json.loads((where / "facts.json").read_text(encoding="utf-8"))
        rows = {_key((setting, seed)) for setting in before["settings"] for seed in before["seeds"]}
    except (OSError, ValueError, KeyError, TypeError):  # the table is by something else, or not there
        return
    lost = rows - {_key(task) for task in tasks}
    if lost and table.is_file():
        raise FileExistsError(
            f"{table} must not have rows that the new table would not, got {min(lost)}: remove it, or record "
            "under another name or folder"
        )


def _key(task: Task) -> str:
    return json.dumps({"setting": task[0], "seed": task[1]}, sort_keys=True)


def _digest(fn: Function) -> str:
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


def _as_csv(rows: list[Row], digits: int, in_full: set[str]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(c), None if c in in_full else digits) for c in columns])
    return text.getvalue()


def _cell(value: Any, digits: int | None) -> Any:
    if isinstance(value, float):
        short = "" if value != value else f"{value:.{digits or 6}g}"
        return repr(value) if digits is None and short and float(short) != value else short
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    return value
