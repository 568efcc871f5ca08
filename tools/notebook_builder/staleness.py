"""A comparison of a stored notebook with what its sources make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from notebook_builder.digests import changes, outputs_digest
from notebook_builder.draft import draft
from notebook_builder.targets import ROOT, BuildError, Target, targets
from ppobook.teaching.tags import Cell, Notebook


def stale(notebook: str | Path, root: Path = ROOT) -> list[str]:
    """Return what changed since a stored notebook was made, a sentence each."""
    path = Path(notebook).resolve()
    target = next((t for t in targets(root) if t.notebook.resolve() == path), None)
    if target is None:
        return [f"{path.name} has no source: nothing makes it."]
    return [f"{target}: {sentence}." for sentence in _stale(target)]


def _stale(target: Target) -> list[str]:
    if not target.notebook.is_file():
        return ["it was never made"]
    try:
        stored, wanted = stored_notebook(target.notebook), draft(target)
    except (ValueError, BuildError) as error:
        return [str(error).rstrip(".")]
    said = []
    pairs = list(zip(stored["cells"], wanted["cells"], strict=False))
    differ = [i for i, (old, new) in enumerate(pairs) if _said_by(old) != _said_by(new)]
    source = target.source.relative_to(target.root).as_posix()
    if differ:
        first = wanted["cells"][differ[0]]
        line = next(iter(first["source"].strip().splitlines()), "")
        more = f" and {len(differ) - 1} more" if len(differ) > 1 else ""
        said.append(f"it differs from {source} in cell {differ[0] + 1}{more} ({line[:60]!r})")
    elif len(stored["cells"]) != len(wanted["cells"]):
        said.append(f"it has {len(stored['cells'])} cells, and {source} makes {len(wanted['cells'])}")
    kept = stored["metadata"].get("ppobook")
    if kept is None:
        return [*said, "it has no record of what its outputs depend on"]
    if kept["outputs"] != outputs_digest(stored):
        said.append("its outputs are not the ones that were made; perhaps it was run and saved in JupyterLab")
    return said + changes(kept, wanted, target.root)


def _said_by(cell: Cell) -> tuple[Any, ...]:
    return cell["cell_type"], cell.get("id"), cell["source"], cell["metadata"]


def stored_notebook(path: Path) -> Notebook:
    """Read a notebook as it is in memory: a long text is one string, where the file has a list of lines."""
    import nbformat

    return json.loads(json.dumps(nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)))
