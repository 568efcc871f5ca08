"""Running the script of an experiment."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

from ppobook import validation
from ppobook.experiments.recording import overriding
from ppobook.experiments.tables import is_checkout, results_folder


def run_script(name: str | Path, **given: Any) -> list[Path]:
    """Run the script of an experiment, as `python results/NAME/run.py` does.

    `name` is a folder in `results/`, or the path of a script, or of a folder with a `run.py`. What is
    `given`, `workers`, `ray` and `folder`, goes before what the script gives to `record`. Returned are the
    tables that it has written.
    """
    script = _script(name)
    if "folder" not in given and script.is_relative_to(results_folder()) and not is_checkout():
        raise ValueError("folder must be given where the book is installed as a package, got none")
    before = list(sys.path)
    sys.path.insert(0, str(script.parent))
    try:
        with overriding(given):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.path[:] = before
    if "written" not in given:
        raise ValueError(f"{script} must call ppobook.experiments.record, got a script that does not")
    return list(given["written"])


def _script(name: str | Path) -> Path:
    """The script of an experiment."""
    known = sorted(path.parent.name for path in results_folder().glob("*/run.py"))
    if name in known:
        return results_folder() / name / "run.py"
    path = Path(name)
    script = path / "run.py" if path.is_dir() else path
    if script.suffix == ".py" and script.is_file():
        return script.resolve()
    hint = validation.did_you_mean(name, known)
    raise ValueError(
        f"name must be an experiment, {validation.one_of(known)}, or the path of a script, "
        f"got {str(name)!r}{hint}"
    )
