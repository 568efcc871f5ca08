"""Records, from wherever they lie: a list, a file of JSON lines, a `datasets.Dataset`.

A record is a dict of columns. What each says is for `ppobook.language.data` to know; here it is only found,
and given a name to complain of it by: ``data[7]``, or ``pairs.jsonl, line 8``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ppobook import validation
from ppobook.language.world import World

Record = Mapping[str, Any]
T = TypeVar("T")


class EmptyError(ValueError):
    """A text without anything in it."""


@dataclass(frozen=True)
class Records:
    """Records, and what to call each of them.

    Attributes
    ----------
    rows : list of dicts
    source : str
        "data", or the path of a file.
    lines : list of int, optional
        Where each stands in a file of lines.
    """

    rows: list[Record]
    source: str = "data"
    lines: list[int] | None = None

    def place(self, i: int) -> str:
        """What to call a record: ``data[7]``, or the line of a file."""
        return f"{self.source}[{i}]" if self.lines is None else f"{self.source}, line {self.lines[i]}"

    def each(self, function: Callable[[Record], T]) -> list[T]:
        """What a function makes of each record. Whatever it refuses is refused with the record's place."""
        made: list[T] = []
        for i, row in enumerate(self.rows):
            try:
                made.append(function(row))
            except EmptyError as error:
                others = sum(_is_empty(function, other) for other in self.rows[i + 1 :])
                also = f" (so it is in {others} more)" if others else ""
                raise ValueError(f"{self.place(i)}: {error}{also}; leave such records out") from None
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{self.place(i)}: {error}") from None
        return made

    def format(self, *formats: Sequence[str]) -> Sequence[str]:
        """The first of these sets of columns that the first record has; all others must have it, too."""
        has = [name for name, value in self.rows[0].items() if value is not None]
        for wanted in formats:
            if {*wanted} <= {*has}:
                break
        else:
            known = ", or ".join(_listed(wanted) for wanted in formats)
            raise ValueError(f"{self.place(0)} has {_columns(has)}; {known} is wanted")
        for i, row in enumerate(self.rows):
            for name in wanted:
                if row.get(name) is None:
                    there = [other for other, value in row.items() if value is not None]
                    raise ValueError(
                        f"{self.place(i)} has {_columns(there)}, and no {name!r}; {_listed(wanted)} as in "
                        f"{self.place(0)} is wanted"
                    )
        return wanted


def _columns(names: Sequence[str]) -> str:
    if not names:
        return "no column with a value"
    return f"the column{'s' if len(names) > 1 else ''} {_listed(names)}"


def _is_empty(function: Callable[[Record], Any], row: Record) -> bool:
    try:
        function(row)
    except EmptyError:
        return True
    except (TypeError, ValueError):
        pass
    return False


def _listed(names: Iterable[str]) -> str:
    *most, last = [*map(repr, names)] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def records_of(data: Any) -> Records:
    """The records in whatever holds them.

    Parameters
    ----------
    data : list of dicts, path, or datasets.Dataset
        A file has one JSON object a line (JSONL), or is one JSON list of them.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        No records, no such file, a line that is no JSON, a record that is no dict.
    """
    if isinstance(data, World):
        raise TypeError(f"data is {data!r}; records are wanted, such as its corpus(1000)")
    if isinstance(data, str | os.PathLike):
        records = _read_file(Path(validation.path("data", data)))
    elif isinstance(data, Mapping):
        splits = [name for name, part in data.items() if hasattr(part, "column_names")]
        hint = f"one of its splits, data[{splits[0]!r}]" if splits else "a list of dicts, one a record"
        raise TypeError(f"data is a {type(data).__name__} of {_listed(data)}; wanted: {hint}")
    elif hasattr(data, "to_dict") and hasattr(data, "iloc"):
        raise TypeError(f"data is a {type(data).__name__}; wanted: its records, data.to_dict('records')")
    elif hasattr(data, "take") and not hasattr(data, "__len__"):
        raise TypeError(
            f"data is a {type(data).__name__}, which is read as it comes, and all is looked at before "
            "training; wanted: some of it, as in list(data.take(10_000))"
        )
    elif not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise TypeError(
            f"data is of type {type(data).__name__}; a World, a list of dicts, the path of a JSONL file or a "
            "datasets.Dataset is wanted (a list(…) of what can be gone through only once, or has no length)"
        )
    elif hasattr(data, "column_names") and hasattr(data, "to_list") and data.format["type"] != "custom":
        # A dataset as a whole, three times as fast as row by row, where a "custom" transform would be seen.
        records = Records(data.to_list())
    else:
        records = Records(list(data))
    if not records.rows:
        raise ValueError(f"{records.source} is empty; at least one record is wanted")
    for i, row in enumerate(records.rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"{records.place(i)} is {reprlib.repr(row)}; a dict of columns is wanted")
        for name in row:
            if not isinstance(name, str):
                raise TypeError(f"{records.place(i)} has a column {name!r}; names of columns are strings")
    return records


# Files of other kinds, and the function of a datasets.Dataset that reads them.
_TABLES = {".parquet": "from_parquet", ".csv": "from_csv", ".arrow": "from_file"}


def _read_file(path: Path) -> Records:
    if path.is_file() and path.suffix.lower() in _TABLES:
        reader = _TABLES[path.suffix.lower()]
        raise ValueError(
            f"data is {str(path)!r}, and a JSONL file is wanted; what datasets.Dataset.{reader} reads there "
            "can be handed over in Python, and its to_json(…) writes such a file"
        )
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        raise ValueError(
            f"data is {str(path)!r}, a folder of datasets, and a JSONL file is wanted; what "
            "datasets.load_from_disk reads there can be handed over in Python, and its to_json(…) writes "
            "such a file"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"data is {str(path)!r}, where there is no file; the path of a JSONL file is wanted "
            "(what datasets.load_dataset or load_from_disk gives can be handed over as it is)"
        )
    rows: list[Record] = []
    lines: list[int] = []
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if not rows and line.lstrip().startswith("["):
                    return _read_list(path, line + file.read(), number)
                if line.strip():
                    rows.append(json.loads(line))
                    lines.append(number)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {number} is no JSON ({error.msg} at column {error.colno}); "
            "one JSON object a line is wanted"
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 after line {number} ({error.reason})") from None
    return Records(rows, str(path), lines)


def _read_list(path: Path, text: str, number: int) -> Records:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {number + error.lineno - 1} is no JSON ({error.msg} at column {error.colno}); "
            "a list of objects is wanted, or one object a line"
        ) from None
    return Records(rows, str(path))


def digest_of(data: Any) -> str:
    """A number in hexadecimals for the records in a file or in memory: the same for the same records.

    It does not depend on where they lie, nor on the order of a record's columns.

    Raises
    ------
    As `records_of`.
    """
    digest = hashlib.sha256()
    for row in records_of(data).rows:
        digest.update(json.dumps(dict(row), sort_keys=True, default=_plain).encode() + b"\n")
    return digest.hexdigest()


def _plain(x: Any) -> Any:
    """What JSON has no form for, as something that is the same whenever the program runs."""
    if hasattr(x, "tolist"):
        return x.tolist()
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(x))
