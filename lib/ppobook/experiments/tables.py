"""Reading recorded experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppobook import _reads, validation

if TYPE_CHECKING:
    import pandas as pd


def results_folder() -> Path:
    """The folder of recorded experiments: `results/` of a checkout, else the installed package's copy."""
    package = Path(__file__).resolve().parents[1]
    return package.parents[1] / "results" if is_checkout() else package / "_results"


def is_checkout() -> bool:
    """Return True if the library is part of a checkout of the book rather than an installed package."""
    package = Path(__file__).resolve().parents[1]
    return package.parent.name == "lib" and (package.parents[1] / "pyproject.toml").is_file()


def names() -> list[str]:
    """The names of all recorded experiments."""
    return sorted(path.parent.name for path in results_folder().glob("*/table.csv"))


def results(name: str) -> pd.DataFrame:
    """The table of a recorded experiment: one row per setting, seed and point of measurement.

    `ppobook.experiments.names()` lists them. Another name is a ValueError, which suggests similar ones.
    """
    import pandas as pd

    return pd.read_csv(_reads.note(_find(name, "table.csv")))


def facts(name: str) -> dict[str, Any]:
    """The facts of a recorded experiment: seeds, settings, versions, machine, seconds and date."""
    facts: dict[str, Any] = json.loads(_reads.note(_find(name, "facts.json")).read_text(encoding="utf-8"))
    return facts


def _find(name: str, file: str) -> Path:
    known = names()
    if name not in known:
        hint = validation.did_you_mean(name, known)
        raise ValueError(
            f"name must be a recorded experiment, {validation.one_of(known)}, got {name!r}{hint}"
        )
    return results_folder() / name / file
