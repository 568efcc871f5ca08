"""The file that a film, a figure or a model is written to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def new_file(name: str, path: str | Path, endings: Sequence[str]) -> Path:
    """The path of a file to write or replace, which must have one of these endings and a folder."""
    path = Path(path).expanduser()
    if path.suffix.lower() not in endings:
        raise ValueError(f"{name} must end in {' or '.join(endings)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise OSError(f"{name} must be a file in an existing folder, got {str(path)!r}")
    return path
