"""What the races have recorded in results/, for the page and its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"

# The contestant that is ours with fast=False: a column of the tables, and no peer.
PLAIN = "ours, plain"
Facts = dict[str, Any]


class Recorded:
    """What is recorded so far, read from a folder; None where a recording is missing."""

    def __init__(self, folder: Path = RESULTS) -> None:
        self.folder = folder
        self.race, self.forms, self.many, self.curves = (
            self._facts(name) for name in ("race", "race_forms", "race_many_seeds", "race_curves")
        )

    def _facts(self, name: str) -> Facts | None:
        path = self.folder / name / "facts.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_csv(self.folder / name / "table.csv")

    def learned(self) -> Facts | None:
        """Where the rows of what learning takes are best recorded."""
        return self.many or self.race
