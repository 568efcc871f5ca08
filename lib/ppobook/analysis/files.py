"""The file that a film, a figure or a model is written to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ppobook import validation


def new_file(name: str, path: Any, endings: Sequence[str]) -> Path:
    """The path of a file to write or replace.

    Raises
    ------
    ValueError, TypeError, OSError
        A path with none of these endings, or in a folder that is not there or can't be written.
    """
    path = validation.path(name, path, "a file")
    if path.is_dir():
        raise OSError(
            f"{name} must be a file that ends in {' or '.join(endings)}, got the folder {str(path)!r}"
        )
    if path.suffix.lower() not in endings:
        raise ValueError(f"{name} must end in {' or '.join(endings)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise OSError(f"{name} must be a file in an existing folder, got {str(path)!r}")
    if not os.access(path.parent, os.W_OK):
        raise OSError(f"{name} must be in a folder that can be written, got {str(path)!r}")
    return path


@contextlib.contextmanager
def writing(name: str, path: Path) -> Iterator[None]:
    """Name the argument where writing the file fails."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{name} must be writable, got {str(path)!r} ({error.strerror or error})") from None
