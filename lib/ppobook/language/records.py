"""Records of a list, a file of JSON lines, or a `datasets.Dataset`.

A record is a dict of columns, which `ppobook.language.data` interprets. Here they are read, and get names for
error messages: ``data[7]``, or ``pairs.jsonl, line 8``.
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
from ppobook.run.folder import is_run

Record = Mapping[str, Any]
T = TypeVar("T")


class EmptyError(ValueError):
    """An empty text."""


@dataclass(frozen=True)
class Records:
    """Records, and their names.

    Attributes
    ----------
    rows : list of dicts
    source : str
        "data", or the path of a file.
    lines : list of int, optional
        The line numbers in a file of lines.
    """

    rows: list[Record]
    source: str = "data"
    lines: list[int] | None = None

    def place(self, i: int) -> str:
        """A record's name: ``data[7]``, or the line of a file."""
        return f"{self.source}[{i}]" if self.lines is None else f"{self.source}, line {self.lines[i]}"

    def map(self, function: Callable[[Record], T]) -> list[T]:
        """Apply a function to each record. Its errors are raised with the record's name."""
        made: list[T] = []
        for i, row in enumerate(self.rows):
            try:
                made.append(function(row))
            except EmptyError as error:
                others = sum(_is_empty(function, other) for other in self.rows[i + 1 :])
                also = f" (and in {others} more)" if others else ""
                raise ValueError(f"{self.place(i)}: {error}{also}. Leave such records out") from None
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{self.place(i)}: {error}") from None
        return made

    def format(self, *formats: Sequence[str]) -> Sequence[str]:
        """The first of these sets of columns that the first record has; all others must have it too."""
        has = [name for name, value in self.rows[0].items() if value is not None]
        for columns in formats:
            if {*columns} <= {*has}:
                break
        else:
            known = ", or ".join(_listed(one) for one in formats)
            raise ValueError(f"{self.place(0)} must have {known}, got {_columns(self.rows[0])}")
        for i, row in enumerate(self.rows):
            for name in columns:
                if row.get(name) is None:
                    raise ValueError(
                        f"{self.place(i)} must have {_listed(columns)}, as {self.place(0)} has, got "
                        f"{_columns(row)} without {name!r}"
                    )
        return columns


def _columns(row: Record) -> str:
    names, empty = ([name for name in row if (row[name] is None) == none] for none in (False, True))
    none = f" (and None in {_listed(empty)})" if empty else ""
    if not names:
        return f"no column with a value{none}"
    return f"the column{'s' if len(names) > 1 else ''} {_listed(names)}{none}"


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
    """The records of a list, a file or a dataset.

    Parameters
    ----------
    data : list of dicts, path, datasets.Dataset, or Records
        A file has one JSON object a line (JSONL), or is a JSON list of objects.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        No records, no such file, a line that is not JSON or has a key twice, a record that is not a dict.
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, World):
        raise TypeError(f"data must be records, such as World.corpus(1000), got {data!r}")
    if isinstance(data, str | os.PathLike):
        records = _read_file(Path(validation.path("data", data)))
    elif isinstance(data, type):
        raise TypeError(f"data must be a World or records, got the class {data.__name__} itself")
    elif isinstance(data, Mapping):
        splits = [name for name, part in data.items() if hasattr(part, "column_names")]
        expected = f"one split, such as data[{splits[0]!r}]" if splits else "a list of dicts, one a record"
        raise TypeError(f"data must be {expected}, got a {type(data).__name__} of {_listed(data)}")
    elif hasattr(data, "to_dict") and hasattr(data, "iloc"):
        raise TypeError(f"data must be records, data.to_dict('records'), got a {type(data).__name__}")
    elif hasattr(data, "take") and not hasattr(data, "__len__"):
        raise TypeError(
            "data must be in memory, such as list(data.take(10_000)), since all of it is checked before "
            f"training, got a {type(data).__name__}"
        )
    elif not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise TypeError(
            "data must be a World, a list of dicts, the path of a JSONL file or a datasets.Dataset, got "
            f"{type(data).__name__}. Make a list of an iterator"
        )
    elif hasattr(data, "column_names") and hasattr(data, "to_list") and data.format["type"] != "custom":
        # Three times as fast as row by row, but without a "custom" transform.
        records = Records(data.to_list())
    else:
        records = Records(list(data))
    if not records.rows:
        raise ValueError(f"{records.source} must have at least one record, got none")
    for i, row in enumerate(records.rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"{records.place(i)} must be a dict of columns, got {reprlib.repr(row)}")
        for name in row:
            if not isinstance(name, str):
                raise TypeError(f"{records.place(i)} must have strings as column names, got {name!r}")
    return records


# Other file types, and the function of datasets.Dataset that reads them.
_TABLES = {".parquet": "from_parquet", ".csv": "from_csv", ".arrow": "from_file"}


def _read_file(path: Path) -> Records:
    if path.is_file() and path.suffix.lower() in _TABLES:
        reader = _TABLES[path.suffix.lower()]
        raise ValueError(
            f"data must be a JSONL file, got {str(path)!r}. Pass what datasets.Dataset.{reader} reads, or "
            "write it by its to_json(…)"
        )
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        raise ValueError(
            f"data must be a JSONL file, got {str(path)!r}, a folder of datasets. Pass what "
            "datasets.load_from_disk reads, or write it by its to_json(…)"
        )
    if is_run(path):
        raise ValueError(f"data must be a JSONL file, got {str(path)!r}, a run: pass it as model")
    if not path.is_file():
        kind, what = (ValueError, "a folder") if path.is_dir() else (FileNotFoundError, "where there is none")
        raise kind(
            f"data must be a JSONL file, got {str(path)!r}, {what}. What datasets.load_dataset or "
            "load_from_disk returns can be passed as it is"
        )
    if path.suffix.lower() in (".gz", ".bz2", ".xz", ".zst", ".zip"):
        raise ValueError(f"data must be a JSONL file, got {str(path)!r}, a compressed one: unpack it")
    rows: list[Record] = []
    lines: list[int] = []
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if not rows and line.lstrip().startswith("["):
                    return _read_list(path, line + file.read(), number)
                if line.strip():
                    rows.append(_decoded(line.rstrip()))
                    lines.append(number)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {number} must be a JSON object, "
            f"got {error.msg.removesuffix(' at')} at column {error.colno}"
        ) from None
    except _RepeatedKeyError as error:
        raise ValueError(f"{path}, line {number} must have each key once, got {error}") from None
    except UnicodeDecodeError as error:  # it counts from the beginning of the block that was read
        raise ValueError(f"{path}, line {_line_that_fails(path)} must be UTF-8, got {error.reason}") from None
    return Records(rows, str(path), lines)


def _line_that_fails(path: Path) -> int:
    """The first line of a file that is not UTF-8."""
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        content = content[: error.start]
    return 1 + content.count(b"\n")


def _read_list(path: Path, text: str, number: int) -> Records:
    text = text.rstrip()
    try:
        rows = _decoded(text)
    except _RepeatedKeyError as error:
        line = number + text.count("\n", 0, _record_that_fails(text))
        raise ValueError(f"{path}, line {line} must have each key once, got {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {number + error.lineno - 1} must be part of a JSON list of objects, "
            f"got {error.msg.removesuffix(' at')} at column {error.colno}"
        ) from None
    return Records(rows, str(path))


class _RepeatedKeyError(ValueError):
    """An object has a key twice, of which Python's json would keep the last."""


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(f"{next(x for i, x in enumerate(names) if x in names[:i])!r} twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_each_key_once)


def _decoded(text: str) -> Any:
    """What a text in JSON says. Its every error but a repeated key is a JSONDecodeError."""
    try:
        return _DECODER.decode(text)
    except (json.JSONDecodeError, _RepeatedKeyError):
        raise
    except (ValueError, RecursionError) as error:
        nested = isinstance(error, RecursionError)
        long = re.search(r"\d{4301}", text)
        what = "brackets that are nested too deeply" if nested else "an integer of more than 4,300 digits"
        raise json.JSONDecodeError(what, text, long.start() if long and not nested else 0) from None


def _record_that_fails(text: str) -> int:
    """Where the first record of a JSON list begins that has a key twice."""
    at = 0
    while True:
        at = re.compile(r"[\s,[]*").match(text, at).end()  # type: ignore[union-attr]
        try:
            at = _DECODER.raw_decode(text, at)[1]
        except _RepeatedKeyError:
            return at


def digest_of(data: Any) -> str:
    """SHA-256 of the records in a file or in memory, in hexadecimal.

    It does not depend on where they are stored, nor on the order of a record's columns.

    Raises
    ------
    As `records_of`.
    """
    digest = hashlib.sha256()
    for row in records_of(data).rows:
        digest.update(json.dumps(dict(row), sort_keys=True, default=_plain).encode() + b"\n")
    return digest.hexdigest()


def _plain(x: Any) -> Any:
    """An object that JSON can't store, as data that is the same in every process."""
    if hasattr(x, "tolist"):
        return x.tolist()
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(x))
