"""Records of a list, a file of JSON lines, or a `datasets.Dataset`.

A record is a dict of columns, which `ppobook.language.data` interprets. Here they are read, and get names for
error messages: ``data[7]``, or ``pairs.jsonl, line 8``.
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Record = Mapping[str, Any]
T = TypeVar("T")


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
        """The name of a record: ``data[7]``, or the line of a file."""
        return f"{self.source}[{i}]" if self.lines is None else f"{self.source}, line {self.lines[i]}"

    def map(self, function: Callable[[Record], T]) -> list[T]:
        """Apply a function to each record. Its errors are raised with the record's name."""
        made: list[T] = []
        for i, row in enumerate(self.rows):
            try:
                made.append(function(row))
            except Exception as error:  # a chat template may raise anything
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{self.place(i)}: {error}") from error
        return made

    def format(self, *formats: Sequence[str]) -> Sequence[str]:
        """Find the first of these sets of columns that the first record has. All others must have it too."""
        found = next((x for x in formats if _has(self.rows[0], x)), None)
        for i, row in enumerate(self.rows):
            if found is None or not _has(row, found):
                known = ", or ".join(" and ".join(map(repr, x)) for x in ([found] if found else formats))
                raise ValueError(f"{self.place(i)} must have {known}, got {reprlib.repr(dict(row))}")
        assert found is not None
        return found


def _has(row: Record, columns: Sequence[str]) -> bool:
    return all(row.get(name) is not None for name in columns)


def records_of(data: Any) -> Records:
    """Read the records of a list, a file or a dataset.

    A file has one JSON object a line (JSONL), or is a JSON list of objects.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        No records, no such file, a line that is not JSON, a record that is not a dict.
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, Iterator):
        raise TypeError("data must be a list, not an iterator: it is read more than once")
    records = _read_file(Path(data)) if isinstance(data, str | Path) else Records(list(data))
    if not records.rows:
        raise ValueError(f"{records.source} must have at least one record, got none")
    for i, row in enumerate(records.rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"{records.place(i)} must be a dict of columns, got {reprlib.repr(row)}")
    return records


def _read_file(path: Path) -> Records:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if text.lstrip().startswith("["):
            return Records(json.loads(text), str(path))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON in UTF-8, got: {error}") from None
    rows: list[Record] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number} must be a JSON object, got: {error}") from None
            lines.append(number)
    return Records(rows, str(path), lines)


def _plain(x: Any) -> Any:
    """An object that JSON can't store, as data: an array as lists."""
    return x.tolist() if hasattr(x, "tolist") else repr(x)


def digest_of(data: Any) -> str:
    """SHA-256 of the records in a file or in memory, in hexadecimal.

    It does not depend on where they are stored, nor on the order of a record's columns.
    """
    digest = hashlib.sha256()
    for row in records_of(data).rows:
        text = json.dumps(dict(row), sort_keys=True, default=_plain)
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()
