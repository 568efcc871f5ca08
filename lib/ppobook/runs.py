"""What every training run shares, whatever it trains: settings, history, checkpoints, the loop, stopping.

A run's folder::

    config.json               what was asked for, for people
    history.csv               one row an update, for people and plots; times are in columns named seconds…
    checkpoint-000120/        all that is needed to go on from update 120; the last two are kept
        state.pt              weights, optimizers, random generators, history; read with weights_only=True

Beside `state.pt` a trainer may keep files of its own. What this room promises: a run that is killed at any
moment and resumed is, to the bit, the run that was not; Ctrl-C waits for the update under way and loses
nothing; only one process at a time trains in a folder; and a checkpoint is whole wherever there is one, for
it is written under another name, `….part`, and then renamed.

A trainer is a `Training`, and `carry_out` carries it out. What it trains is a `Remembering`, which says what
of it changes; its settings are a `Settings`. The book has two: `ppobook.training` trains policies in
environments, and `ppobook.language.training` trains language models.
"""

from __future__ import annotations

import abc
import array
import contextlib
import csv
import errno
import fnmatch
import inspect
import io
import json
import math
import os
import re
import shutil
import signal
import sys
import threading
import time
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from tqdm import tqdm

import ppobook
from ppobook import _doors

# A weight of this size is none that has been learned.
NO_WEIGHT = 1e6


# ---------------------------------------------------------------------------------------------- settings


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """A field of a `Settings` class: its default, a sentence for people, and what it may be."""
    limits = {"low": low, "high": high, "above": above}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    metadata = {"help": help, "choices": choices, "limits": limits}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """What a run can be asked for beside seed, length and folder. The fields are those of a subclass."""

    @classmethod
    def make(cls, name: str, given: dict[str, Any], preset: dict[str, Any]) -> Self:
        """The settings of a run: what was given, else what is preset for its kind, else the defaults.

        Parameters
        ----------
        name : str
            What these are the settings of, for the sentence that refuses one: "ppo".
        given, preset : dict

        Raises
        ------
        ValueError, TypeError
            A name that is no setting, or a value that the setting does not take.
        """
        known = {f.name: f for f in fields(cls)}
        written = inspect.get_annotations(cls).items()
        forgotten = [one for one, kind in written if one not in known and "ClassVar" not in str(kind)]
        if forgotten:
            raise TypeError(
                f"{cls.__name__} adds {forgotten[0]!r} and is no dataclass; "
                "@dataclass(frozen=True) is wanted above the class"
            )
        for one in given:
            if one not in known:
                raise ValueError(
                    f"{one}={given[one]!r}: {name} has no such setting; "
                    f"{_doors.nearest(one, list(known), show=len(known))}"
                )
        return cls(**{one: cls.checked(one, value) for one, value in {**preset, **given}.items()})

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """A setting's value in its type, after its door."""
        # A subclass may annotate a field without `setting`: then it has no limits, and its type counts.
        metadata = cls.__dataclass_fields__[name].metadata
        limits, choices = metadata.get("limits", {}), metadata.get("choices")
        wanted = typing.get_type_hints(cls)[name]
        if typing.get_origin(wanted) in (types.UnionType, typing.Union):
            kinds = [kind for kind in typing.get_args(wanted) if kind is not types.NoneType]
            # The command line and a file have no other word for None.
            if len(kinds) < len(typing.get_args(wanted)) and str(value).lower() == "none":
                return None
            wanted = kinds[0] if len(kinds) == 1 else Any
        if choices is not None:
            return _doors.choice(name, value, choices)
        if wanted is bool:
            return _doors.flag(name, value)
        if wanted is int:
            return whole(name, value, **limits)
        if wanted is float:
            return _doors.number(name, value, **limits)
        if wanted is str:
            if not isinstance(value, str):
                raise TypeError(f"{name} is {value!r}; a string is wanted")
            return str(value)
        if typing.get_origin(wanted) is tuple:
            value = value.tolist() if isinstance(value, np.ndarray) else value
            several = value if isinstance(value, list | tuple) else (value,)
            read = _doors.number if float in typing.get_args(wanted) else whole
            return tuple(read(name, one, **limits) for one in several)
        return storable(name, value)


def whole(name: str, value: Any, **limits: Any) -> int:
    """A count. 1e5 is how people write a hundred thousand."""
    as_int = int(value) if isinstance(value, float) and value.is_integer() else value
    return _doors.count(name, as_int, **limits)


def storable(name: str, value: Any) -> Any:
    """A value in plain data: a checkpoint must hold it.

    Raises
    ------
    TypeError
        Something in it is neither a number, a string, True, False nor None.
    """
    plain = _plain(value)
    try:
        json.dumps(plain)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} is {value!r}, which no checkpoint can hold; numbers, strings, True, False, None, and "
            "lists and dicts of them are wanted"
        ) from None
    return plain


def _plain(value: Any) -> Any:
    """NumPy's numbers, strings and arrays as Python's own."""
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        inside = [_plain(one) for one in value]
        return tuple(inside) if isinstance(value, tuple) else inside
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def refuse_other_settings(
    home: Home, asked: dict[str, Any], config: dict[str, Any], settings: Settings
) -> None:
    """Refuse what was asked of a resumed run, where it is not what the run has already.

    Parameters
    ----------
    home : Home
    asked : dict
        Settings, and other entries of the config, by name.
    config : dict
        The run's.
    settings : Settings
        The run's, as it was made from the config.

    Raises
    ------
    ValueError, TypeError
    """
    for name, value in asked.items():
        if name not in config:
            raise ValueError(
                f"{name}={value!r}: the run has no such setting, and a resumed run keeps its settings; "
                "wanted: leave it out"
            )
        same = settings.checked(name, value) if hasattr(settings, name) else value
        if same != config[name]:
            raise ValueError(
                f"{name}={value!r}: the run in {str(home.folder)!r} has {config[name]!r}, and a resumed "
                "run keeps its settings; wanted: leave it out"
            )


# ------------------------------------------------------------------------------------- what is remembered


class Remembering:
    """Something that learns, and says which of its attributes change while it does.

    Attributes
    ----------
    remembers : tuple of str, of the class
        Attributes that a checkpoint must hold: modules, optimizers and whatever else has `state_dict` and
        `load_state_dict`, random generators of torch and NumPy, tensors, numbers, strings, and lists and
        dicts of them. One that is None is left out.
    device : str
        Where its tensors are put.
    """

    remembers: ClassVar[tuple[str, ...]] = ()
    device: str

    def state_dict(self) -> dict[str, Any]:
        """All that has been learned so far, for a checkpoint."""
        return {
            name: _remembered(name, getattr(self, name))
            for name in self.remembers
            if getattr(self, name) is not None
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what `state_dict` returned.

        Raises
        ------
        ValueError
            It lacks something that is remembered.
        """
        for name in self.remembers:
            if name not in state and getattr(self, name) is not None:
                raise ValueError(
                    f"the state of {type(self).__name__} lacks {name!r}, which it remembers; "
                    "wanted: all that state_dict returned"
                )
        self.put_back(state)

    def beside_weights(self) -> dict[str, Any]:
        """What changes with every draw, modules and optimizers aside."""
        parts = {name: getattr(self, name) for name in self.remembers}
        weights = nn.Module | torch.optim.Optimizer | Tensor | None
        return {name: _remembered(name, x) for name, x in parts.items() if not isinstance(x, weights)}

    def put_back(self, state: dict[str, Any]) -> None:
        """Some or all of what `state_dict` returned."""
        for name, part in state.items():
            mine = getattr(self, name)
            if hasattr(mine, "load_state_dict"):
                mine.load_state_dict(part)
            elif isinstance(mine, torch.Generator):
                mine.set_state(part)
            elif isinstance(mine, np.random.Generator):
                mine.bit_generator.state = part
            else:
                setattr(self, name, part.to(self.device) if isinstance(part, Tensor) else part)


def _remembered(name: str, x: Any) -> Any:
    """What a checkpoint holds of an attribute."""
    if _has_state(x):
        return x.state_dict()
    if isinstance(x, torch.Generator):
        return x.get_state()
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    return x.detach().clone() if isinstance(x, Tensor) else storable(name, x)


def _has_state(x: Any) -> bool:
    return hasattr(x, "state_dict") and hasattr(x, "load_state_dict")


def refuse_to_forget(learner: Remembering) -> None:
    """Refuse a learner with a part that changes and that its checkpoints would lack.

    A plain number or tensor can't be told from a constant, and is let pass.

    Raises
    ------
    ValueError
        `remembers` lists what is not there; or a module, an optimizer, a generator is not listed.
    """
    absent = [name for name in learner.remembers if not hasattr(learner, name)]
    if absent:
        raise ValueError(
            f"{type(learner).__name__}.remembers lists {absent[0]!r}, which it does not have after __init__; "
            "an attribute is wanted (super().__init__ makes those of the class it extends)"
        )
    kept = [getattr(learner, name) for name in learner.remembers]
    known = {
        id(x)
        for part in kept
        if isinstance(part, nn.Module)
        for x in part.state_dict(keep_vars=True).values()
    }
    for name, part in vars(learner).items():
        if name in learner.remembers:
            continue
        if isinstance(part, nn.Module):
            lost = any(id(x) not in known for x in part.state_dict(keep_vars=True).values())
        else:
            lost = isinstance(part, torch.Generator | np.random.Generator) or _has_state(part)
        if lost:
            kind = type(learner).__name__
            raise ValueError(
                f"{kind} has {name}, a {type(part).__name__}, which its checkpoints would lack; "
                f'remembers = (…, "{name}") is wanted in {kind}'
            )


# ---------------------------------------------------------------------------------------------- history


class History:
    """The table of a run, by columns: a checkpoint late in a run costs hardly more than an early one.

    Parameters
    ----------
    columns : mapping of str to tensors
        As `tensors` returned them. Whole numbers stay such. One of the columns is `update`.

    Raises
    ------
    ValueError
        The columns differ in length.
    """

    def __init__(self, columns: Mapping[str, Tensor]) -> None:
        self.columns = {
            name: array.array("d" if column.is_floating_point() else "q", column.tolist())
            for name, column in columns.items()
        }
        if len({len(column) for column in self.columns.values()}) != 1:
            raise ValueError("history: its columns differ in length")
        self.lines: list[str] = []

    @classmethod
    def empty(cls, columns: Iterable[str], counts: Iterable[str] = ("update",)) -> Self:
        """A table without rows; the columns among `counts` are for whole numbers."""
        kinds = {name: torch.int64 if name in counts else torch.float64 for name in columns}
        return cls({name: torch.empty(0, dtype=kind) for name, kind in kinds.items()})

    def __len__(self) -> int:
        return len(self.columns["update"])

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Add a row, and return it in plain numbers.

        A column that it lacks, or brings for the first time, has NaN elsewhere.
        """
        for name in [name for name in row if name not in self.columns]:
            self.columns[name] = array.array("d", [math.nan] * len(self))
            self.lines.clear()
        plain = {
            name: int(number) if self.columns[name].typecode == "q" else float(number)
            for name, number in row.items()
        }
        for name, column in self.columns.items():
            column.append(plain.get(name, math.nan))
        return plain

    def last(self, name: str) -> float:
        """The newest entry of a column."""
        return self.columns[name][-1]

    def tensors(self) -> dict[str, Tensor]:
        """The columns, for a checkpoint."""
        return {name: torch.from_numpy(np.array(column)) for name, column in self.columns.items()}

    def table(self) -> pd.DataFrame:
        """The table, for people."""
        return pd.DataFrame({name: column.numpy() for name, column in self.tensors().items()})

    def text(self) -> str:
        """The table as CSV. What was written before is kept: to format numbers takes longer than all else."""
        buffer = io.StringIO()
        table = csv.writer(buffer, lineterminator="\n")
        if not self.lines:
            table.writerow(self.columns)
        done = max(0, len(self.lines) - 1)
        table.writerows(zip(*(column[done:] for column in self.columns.values()), strict=True))
        self.lines += buffer.getvalue().splitlines(keepends=True)
        return "".join(self.lines)


def checked_metrics(by: str, measured: Any, taken: Iterable[str]) -> dict[str, Any]:
    """What an update says the history should hold of it, after its door.

    Parameters
    ----------
    by : str
        Who says it, for the sentence that refuses it: "MyPPO.update".
    measured : dict of numbers by column
    taken : patterns such as "seconds*"
        Columns that are filled elsewhere.

    Raises
    ------
    TypeError, ValueError
    """
    if not isinstance(measured, dict):
        raise TypeError(f"{by} returned {type(measured).__name__}; a dict of numbers is wanted, maybe empty")
    for name, number in measured.items():
        if any(fnmatch.fnmatchcase(str(name), pattern) for pattern in taken):
            raise ValueError(f"{by} tells {name!r}, a column that the loop fills; another name is wanted")
        try:
            float(number)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{by} tells {name!r} of type {type(number).__name__}; one number is wanted"
            ) from None
    return measured


# ------------------------------------------------------------------------------------------- the folder


class Home(NamedTuple):
    """A run's folder, and the name of the argument that it came in."""

    name: str
    folder: Path

    @classmethod
    def at(cls, name: str, folder: str | Path) -> Self:
        """The home at a path, which must be one."""
        return cls(name, _doors.path(name, folder))

    def __str__(self) -> str:
        return f"{self.name}={str(self.folder)!r}"


@contextlib.contextmanager
def locked(home: Home) -> Iterator[None]:
    """Keep a second process from training in the same folder.

    Raises
    ------
    ValueError
        One is training there.
    """
    # The system lets go of such a lock however its holder ends, kill -9 included. Where there is none to be
    # had, as on Windows and some network drives, nothing is locked.
    try:
        import fcntl

        handle = os.open(home.folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{home} is being trained in already; wanted: one at a time") from None
        yield
    finally:
        os.close(handle)


def refuse_unless_writable(home: Home) -> None:
    """Refuse a folder in which no file can be made."""
    try:
        probe = home.folder / "probe.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _unwritable(home, error) from None


def _unwritable(home: Home, error: OSError) -> OSError:
    return OSError(f"{home} cannot be written ({error.strerror}); wanted: a folder that can")


def new_folder(home: Home) -> None:
    """Make the folder, if need be; refuse one that holds something or cannot be written."""
    try:
        home.folder.mkdir(parents=True, exist_ok=True)
        # What a run leaves that was killed before its first checkpoint is nothing worth keeping.
        left = [entry for entry in home.folder.iterdir() if not entry.name.endswith(".part")]
    except OSError as error:
        raise _unwritable(home, error) from None
    refuse_unless_writable(home)
    if left:
        run = checkpoints(home.folder)
        what = f"holds a run already, up to {run[-1].name}" if run else f"holds {left[0].name!r} already"
        go_on = f"resume={str(home.folder)!r} to go on with it, or " if run and home.name == "out" else ""
        raise FileExistsError(f"{home} {what}; wanted: {go_on}a new folder")


# ------------------------------------------------------------------------------------------- checkpoints


@dataclass
class Checkpoint:
    """A checkpoint in memory.

    Attributes
    ----------
    state : dict
        What `state.pt` holds: config, history and what else there is, all of it plain data and tensors.
    files : dict of bytes by name
        What stands beside it.
    where : str
        Where it was read, for a sentence.
    text : str, optional
        The history as CSV, where that is known already.
    """

    state: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    where: str = ""
    text: str | None = None

    @property
    def update(self) -> int:
        """The number of updates done."""
        return len(self.state["history"]["update"])

    def damaged(self, error: Exception) -> ValueError:
        """What to raise where it is ours by its format, and yet something in it is not."""
        return ValueError(
            f"{self.where}/state.pt lacks something, or was changed, or was written by another class or "
            f"version ({_doors.reason(error)}); wanted: the file as it was written, and the class and "
            f"ppobook {self.state.get('version')} that wrote it"
        )


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [path for path in folder.iterdir() if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(found, key=update_of)


def update_of(checkpoint: Path) -> int:
    """The update that a checkpoint was written after."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Add a checkpoint to a run's folder, in one step; drop all but the last two."""
    for broken_off in list(folder.glob("checkpoint-*.part")):
        shutil.rmtree(broken_off, ignore_errors=True)
    final = folder / f"checkpoint-{checkpoint.update:06d}"
    part = folder / f"{final.name}.part"
    part.mkdir()
    state = io.BytesIO()
    torch.save(checkpoint.state, state)
    for name, content in {"state.pt": state.getvalue(), **checkpoint.files}.items():
        write_bytes(part / name, content)
    os.rename(part, final)

    # For people. What reads a run reads the checkpoint, so these may lag behind it after a kill.
    _write_whole(folder / "config.json", json.dumps(checkpoint.state["config"], indent=2) + "\n")
    text = History(checkpoint.state["history"]).text() if checkpoint.text is None else checkpoint.text
    _write_whole(folder / "history.csv", text)
    for old in checkpoints(folder)[:-2]:
        shutil.rmtree(old, ignore_errors=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, and have it on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write_whole(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def drop_later(folder: Path, update: int) -> None:
    """Take away the checkpoints of all updates after this one: these are done a second time."""
    for later in checkpoints(folder):
        if update_of(later) > update:
            # Under its own name, half of it would be taken for the run's last checkpoint after a kill.
            part = later.with_name(later.name + ".part")
            os.rename(later, part)
            shutil.rmtree(part, ignore_errors=True)


# The layouts of checkpoints of the book's own trainers, and who writes and reads them. One in another layout
# is refused, and not guessed at.
CONTROL: int | str = 1
LANGUAGE: int | str = "language 1"
_TRAINERS = {
    CONTROL: ("ppobook.train", "`ppobook …`"),
    LANGUAGE: ("ppobook.language.train", "`ppobook language …`"),
}


def read_checkpoint(
    home: Home,
    *,
    format: Any,
    needs: Iterable[str] = (),
    files: Iterable[str] = (),
    checkpoint: Path | None = None,
) -> Checkpoint:
    """A checkpoint of a run's folder: the last one, if it is not said which.

    Nothing is unpickled but numbers, strings, tensors and what holds them, so a stranger's run is safe to
    read. The files beside `state.pt` are read and not opened.

    Parameters
    ----------
    home : Home
    format : int or str
        Of the trainer that asks. A checkpoint in another one is refused, and not guessed at.
    needs : names
        What its state must hold beside config, history and seconds.
    files : names
        What may stand beside `state.pt`.
    checkpoint : path, optional

    Raises
    ------
    OSError
        No folder, no checkpoint, or files that cannot be read.
    ValueError
        A checkpoint that is cut short, is none of ours, or lacks something.
    """
    folder, where = home.folder, str(home)
    try:
        whole_ones = checkpoints(folder)
    except OSError as error:
        absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = "is no folder" if absent else f"cannot be read ({error.strerror})"
        raise OSError(f"{where} {what}; wanted: the folder of a run, as train(out=…) writes it") from None
    if not whole_ones:
        raise FileNotFoundError(
            f"{where} holds no checkpoint; wanted: the folder of a run, as train(out=…) writes it"
        )
    last = checkpoint or whole_ones[-1]
    earlier = f" To go back to {whole_ones[-2].name}, remove {last.name}." if len(whole_ones) > 1 else ""
    where += f": {last.name}"
    try:
        content = (last / "state.pt").read_bytes()
        beside = {name: (last / name).read_bytes() for name in files if (last / name).exists()}
    except FileNotFoundError:
        raise FileNotFoundError(f"{where} has no state.pt; wanted: the whole checkpoint.{earlier}") from None
    except OSError as error:  # nothing may be wrong with it
        raise OSError(
            f"{where} cannot be read ({error.strerror}); wanted: files that this user may read"
        ) from None
    try:
        _doors.whole_archive(io.BytesIO(content))
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # its message has advice in it that is not ours to give
        raise ValueError(
            f"{where}/state.pt is cut short or damaged, or is no checkpoint of this package; "
            f"wanted: the file as it was written.{earlier}"
        ) from None
    found = state.get("format") if isinstance(state, dict) else None
    if found != format and found in _TRAINERS and format in _TRAINERS:
        trainer, command = _TRAINERS[found]
        raise ValueError(
            f"{where} was written by {trainer}, and {command} reads it; "
            f"wanted: a run of {_TRAINERS[format][0]}"
        )
    if found != format:
        by = f" by ppobook {state['version']}" if isinstance(state, dict) and "version" in state else ""
        raise ValueError(
            f"{where} was written{by} in checkpoint format {found!r}; "
            f"wanted: format {format}, which ppobook {ppobook.__version__} reads"
        )
    lacking = {"config", "history", "seconds", *needs} - state.keys()
    if lacking:
        raise ValueError(f"{where}/state.pt has no {min(lacking)!r}; wanted: the file as it was written")
    return Checkpoint(state, beside, where)


# --------------------------------------------------------------------------------------------- the loop


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training. The update under way was finished first and, given a folder, saved.

    Attributes
    ----------
    run : Run
        As far as it came.
    """

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run


class Interrupts:
    """Ctrl-C waits for the update under way: half of one could not be resumed. A second one does not wait.

    Attributes
    ----------
    asked : bool
        Whether it was pressed inside the `with` block.
    """

    asked = False

    def __enter__(self) -> Self:
        # Only the main thread may say what a signal does; elsewhere nothing changes.
        self.mine = threading.current_thread() is threading.main_thread()
        if self.mine:
            self.before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self.mine:
            signal.signal(signal.SIGINT, self.before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class Training(abc.ABC):
    """A run while it runs: one update after the other, saved every so often, until it is long enough.

    A trainer is a subclass, which says in the methods below what it trains. For resuming to the same bits,
    whatever one update leaves to the next must come back from what `parts` returned.

    Parameters
    ----------
    config : dict
        All that the run was asked for, in plain data: `checkpoint_every`, the entry named by `limit`, and
        what is the trainer's own.
    history : History
        Without rows, for a fresh run.

    Attributes
    ----------
    counter : str, of the class
        The column of the history that says how far a run has come.
    unit : str, of the class
        What that counts, for people.
    limit : str, of the class
        The entry of the config that says how far it is to go.
    format : int or str, of the class
        The layout of its checkpoints, as for `read_checkpoint`.
    seconds : float
        Wall-clock time spent so far.
    saved : int
        The update after which the last checkpoint was written; -1 if there is none.
    """

    counter: ClassVar[str] = "update"
    unit: ClassVar[str] = "updates"
    limit: ClassVar[str]
    format: ClassVar[int | str]

    def __init__(self, config: dict[str, Any], history: History) -> None:
        self.config = config
        self.history = history
        self.seconds = 0.0
        self.saved = -1
        # Whether an update that failed has left everything as it was before it.
        self.untouched = False

    # What a subclass writes.

    @abc.abstractmethod
    def one_update(self) -> dict[str, Any]:
        """Do an update; return its row of the history, less `update` and `seconds`."""

    @abc.abstractmethod
    def modules(self) -> list[nn.Module]:
        """What has weights that are learned."""

    @abc.abstractmethod
    def parts(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """For a checkpoint: what is to go into its state, beside config and history; and files by name."""

    @abc.abstractmethod
    def run(self) -> Any:
        """What the caller is given, as far as it came."""

    @abc.abstractmethod
    def label(self) -> str:
        """What is being done, in front of the bar."""

    def shown(self, row: dict[str, float]) -> dict[str, Any]:
        """What the bar shows of a row, beside the number of the update."""
        return {}

    def rates(self) -> dict[str, float]:
        """Step sizes by name: one of them is too large where weights grow beyond all bounds."""
        return {
            name: rate
            for name, rate in self.config.items()
            if f"_{name}".endswith("_lr") and isinstance(rate, int | float)
        }

    def before_checkpoint(self) -> None:  # noqa: B027 - most have nothing of the kind
        """Begin anew what a checkpoint cannot hold, where one is due.

        The run that goes on does so, and the one that is resumed there: thus the two agree.
        """

    def agreed(self, stop: bool) -> bool:
        """Whether to stop before the next update, where Ctrl-C has said so, or not, in this process.

        Several processes that train one run together must do so at the same update.
        """
        return stop

    def to_go_on(self, folder: Path) -> str:
        """How, for somebody whose run has ended early."""
        return f"go on with resume={str(folder)!r}"

    # What all of them do.

    @property
    def update(self) -> int:
        """The number of updates done."""
        return len(self.history)

    @property
    def position(self) -> int:
        """How far the run has come, by its counter."""
        return int(self.history.last(self.counter)) if self.history else 0

    @property
    def progress(self) -> float:
        """The share done, from 0 to 1."""
        return min(1.0, self.position / self.config[self.limit])

    def checkpoint(self) -> Checkpoint:
        """All that is needed to go on from here."""
        parts, files = self.parts()
        state = {
            "format": self.format,
            "version": ppobook.__version__,
            "config": self.config,
            **parts,
            "history": self.history.tensors(),
            "seconds": self.seconds,
        }
        return Checkpoint(state, files, text=self.history.text())

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        """Take over what every checkpoint has; the parts are for the subclass to put back."""
        self.history = History(checkpoint.state["history"])
        self.seconds = checkpoint.state["seconds"]
        self.saved = self.update

    def save(self, home: Home | None, *, due: bool) -> None:
        """A checkpoint after the present update."""
        if due:
            self.before_checkpoint()
        self.saved = self.update
        if home is None:
            return
        try:
            write_checkpoint(home.folder, self.checkpoint())
        except OSError as error:
            remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "mend that"
            raise OSError(
                f"{home} cannot be written any more ({error.strerror or error}); "
                f"earlier checkpoints are whole; {remedy} and resume from there"
            ) from None

    def go(self, home: Home | None, interrupts: Interrupts, progress: bool | None, tensorboard: bool) -> None:
        """Update until the run is as long as it was asked to be, or somebody presses Ctrl-C.

        Raises
        ------
        FloatingPointError
            The weights have grown beyond all bounds.
        Interrupted
            Ctrl-C, once.
        OSError
            The folder cannot be written.
        """
        total, every = self.config[self.limit], self.config["checkpoint_every"]
        folder = home.folder if home else None
        if home and self.position < total:
            refuse_unless_writable(home)
            drop_later(home.folder, self.update)
        started = time.perf_counter() - self.seconds
        with (
            bar(total, self.position, self.label(), f" {self.unit}", progress) as line,
            events(folder if tensorboard else None, self.counter, self.position) as log,
        ):
            if self.saved < 0:
                self.save(home, due=True)
            stopped = False
            while self.position < total and not (stopped := self.agreed(interrupts.asked)):
                try:
                    row = self._sound_update()
                except Exception as error:
                    if self.untouched:
                        if self.saved < self.update:
                            self.save(home, due=False)
                        if folder is not None:
                            error.add_note(f"update {self.update} is saved; {self.to_go_on(folder)}")
                    raise
                self.seconds = time.perf_counter() - started
                row = self.history.append({**row, "update": self.update + 1, "seconds": self.seconds})
                log(row)
                if not line.disable:
                    line.set_postfix(update=self.update, **self.shown(row), refresh=False)
                    line.update(self.position - line.n)
                if self.update % every == 0:
                    self.save(home, due=True)
            if self.saved < self.update:
                self.save(home, due=False)
        if stopped:
            kept = f"; {self.to_go_on(folder)}" if folder is not None else ", and kept nowhere but in .run"
            place = "" if self.counter == "update" else f", {self.position} {self.unit}"
            raise Interrupted(f"stopped by Ctrl-C after update {self.update}{place}{kept}", self.run())

    def _sound_update(self) -> dict[str, Any]:
        """An update after which the weights are still numbers."""
        try:
            row = self.one_update()
            if not weights_are_finite(self.modules()):
                raise FloatingPointError
        except Exception as error:
            # Weights without bounds make nearly anything stumble; then they are what to speak of.
            if not grown_beyond_bounds(self.modules()):
                raise
            now = " or ".join(f"{name} (now {rate:g})" for name, rate in self.rates().items())
            raise FloatingPointError(
                f"the weights have grown beyond all bounds, seen in update {self.update + 1}; "
                f"a smaller {now or 'step'} is wanted. Checkpoints saved before are whole"
            ) from error
        return row


TrainingT = TypeVar("TrainingT", bound=Training)


def carry_out(
    fresh: Callable[[], TrainingT],
    resumed: Callable[[Home], TrainingT],
    *,
    out: str | Path | None,
    resume: str | Path | None,
    num_threads: int = 1,
    progress: bool | None = None,
    tensorboard: bool = False,
    writes: bool = True,
) -> TrainingT:
    """A run from its beginning, or from its last checkpoint, to its end.

    Parameters
    ----------
    fresh : function
        Makes the run. It is called before there is a folder, so that what it refuses leaves none.
    resumed : function of a Home
        Makes it as it was at the last checkpoint there, while nobody else can train in that folder.
    out, resume : path, optional
        A new folder, or that of a run; or neither, and then nothing is kept.
    num_threads : int
        Threads of torch and NumPy.
    progress : bool, optional
        Whether to show a bar. If left out: in a terminal and in a notebook.
    tensorboard : bool
        Also write the history as TensorBoard events, into the folder.
    writes : bool
        Whether this process locks and writes the folder. Of several that train one run together, one does.

    Raises
    ------
    ValueError, TypeError, OSError
        An argument that cannot be used, with a sentence that says why; and what `Training.go` raises.
    """
    # More threads than this and the system may refuse one in the middle, which ends the process.
    num_threads = _doors.count("num_threads", num_threads, high=256)
    if progress is not None:
        progress = _doors.flag("progress", progress)
    if _doors.flag("tensorboard", tensorboard) and out is None and resume is None:
        raise ValueError("tensorboard=True, and out is left out; a folder is wanted to write the events to")
    home = None
    if resume is not None:
        home = Home.at("resume", resume)
        if out is not None:
            raise ValueError(
                f"out={str(out)!r}: a resumed run stays in its folder; wanted: resume without out"
            )
    elif out is not None:
        home = Home.at("out", out)
    with contextlib.ExitStack() as held:
        if home is not None and resume is not None:
            if writes:
                held.enter_context(locked(home))
            training = resumed(home)
        else:
            training = fresh()
            if home is not None and writes:
                new_folder(home)
                held.enter_context(locked(home))
        held.enter_context(threads(num_threads))
        training.go(home if writes else None, held.enter_context(Interrupts()), progress, tensorboard)
    return training


def weights_are_finite(modules: Iterable[nn.Module]) -> bool:
    """Whether all weights are numbers."""
    weights = [p.detach() for module in modules for p in module.parameters()]
    # A finite length has finite terms, and is found in one go. One that is not may have overflowed.
    if math.isfinite(torch.nn.utils.get_total_norm(weights).item()):
        return True
    return all(torch.isfinite(p).all() for p in weights)


@torch.no_grad()
def grown_beyond_bounds(modules: Iterable[nn.Module]) -> bool:
    """Whether the weights are no numbers any more, or so large that what they lead to soon is none."""
    return any(
        not torch.isfinite(p).all() or p.abs().max() > NO_WEIGHT
        for module in modules
        for p in module.parameters()
        if p.numel() > 0
    )


# ----------------------------------------------------------------------------------------- small helpers


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    """Let torch and NumPy use n threads inside the block. Nothing else here changes their number."""
    before = torch.get_num_threads()
    # NumPy's matrix products would take all cores, and on matrices of this size wait for most of them.
    with threadpool_limits(n):
        torch.set_num_threads(n)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def stream(seed: int, purpose: str) -> int:
    """A seed for one purpose, so that the streams of a run do not run in step."""
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0])


def device(given: Any) -> str:
    """The name of a device that can hold numbers.

    Raises
    ------
    ValueError
        Torch does not know it, or it is not here.
    """
    try:
        torch.zeros(1, device=given).item()  # there are devices that hold shapes and no numbers
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"device={given!r} cannot be used ({reason}); wanted: 'cpu', or an accelerator torch has"
        ) from None
    return str(given)


def bar(total: int, initial: int, label: str, unit: str, progress: bool | None) -> tqdm:
    """A bar with rate and time left.

    Parameters
    ----------
    total, initial : int
        How far it goes, and where it begins.
    label, unit : str
        What is being done, and counted: " steps".
    progress : bool or None
        Whether it is shown. None: in a terminal and in a notebook.
    """
    if progress is None:
        # In a notebook stderr is no terminal, and yet somebody looks at it.
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        progress = sys.stderr.isatty() or hasattr(shell, "kernel")
    return tqdm(
        total=total,
        initial=initial,
        desc=label,
        unit=unit,
        unit_scale=True,
        # TQDM_DISABLE=1 is for stored runs, whose output must not depend on the clock.
        disable=not progress or bool(int(os.environ.get("TQDM_DISABLE") or 0)),
    )


@contextlib.contextmanager
def events(folder: Path | None, counter: str, position: int) -> Iterator[Callable[[dict[str, float]], None]]:
    """A function that logs a row to TensorBoard, or one that does nothing.

    Parameters
    ----------
    folder : path or None
        The run's; None for nothing.
    counter : str
        The column that numbers the rows.
    position : int
        The number of the last row that is kept.

    Raises
    ------
    ValueError
        TensorBoard is not installed.
    """
    if folder is None:
        yield lambda row: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard=True, and TensorBoard is not installed; wanted: pip install 'ppobook[tensorboard]'"
        ) from None
    # After a kill there may be events of updates that the checkpoint does not have: those are purged.
    with SummaryWriter(folder / "tensorboard", purge_step=position + 1) as writer:

        def log(row: dict[str, float]) -> None:
            for name, value in row.items():
                if name != counter and value == value:
                    writer.add_scalar(name, value, int(row[counter]))

        yield log
