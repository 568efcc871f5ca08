"""The files that the package has read for its caller.

A notebook's stored outputs depend on the recorded tables and the cards that it shows. Whoever reads such a
file on a chapter's behalf notes it here, and the notebook builder asks for the list after the last cell.
"""

from pathlib import Path

paths: list[str] = []


def note(path: str | Path) -> Path:
    """Remember that `path` was read; return it as a `Path`, so that a call can stand inside an open()."""
    path = Path(path)
    absolute = str(path.resolve())
    if absolute not in paths:
        paths.append(absolute)
    return path
