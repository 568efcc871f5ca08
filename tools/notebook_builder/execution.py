"""Executing a notebook in a fresh kernel."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from notebook_builder.digests import outputs_digest, record
from notebook_builder.refusals import WIDGETS
from notebook_builder.targets import ROOT, BuildError
from ppobook.course import masters
from ppobook.teaching.tags import Notebook

CELL_TIMEOUT = 600  # seconds


_SIGN = "what the builder asks the kernel:"


_QUESTION = f"""
def _ask():
    import json, os, sys
    reads = sys.modules.get("ppobook._reads")
    sys.stdout.write({_SIGN!r} + json.dumps({{
        "modules": sorted(name for name in sys.modules if name.split(".")[0] == "ppobook"),
        "files": list(reads.paths) if reads else [],
        "cpu": sum(os.times()[:4]),
    }}))
_ask()
"""


@dataclass(frozen=True)
class Ran:
    """An executed notebook, with its record in its metadata, and what it cost."""

    notebook: Notebook
    seconds: float
    cpu: float


def execute(notebook: Notebook, root: Path = ROOT) -> Ran:
    """Run a notebook from top to bottom in a fresh kernel, in a temporary folder.

    Raises
    ------
    BuildError
        A cell failed; the message shows the cell and its error.
    """
    # Imported here: the digest test needs neither, and takes half as long without.
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    running = nbformat.from_dict(notebook)
    running.cells.append(nbformat.v4.new_code_cell(_QUESTION))
    at = [0]
    client = NotebookClient(
        running,
        kernel_name="python3",
        timeout=CELL_TIMEOUT,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        on_cell_start=lambda cell, cell_index: at.__setitem__(0, cell_index),
    )
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ppobook-", ignore_cleanup_errors=True) as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(root / "lib"), os.environ.get("PYTHONPATH")])),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "TQDM_DISABLE": "1",
            "PPOBOOK_BUILD": "1",
            "IPYTHONDIR": str(Path(folder, "ipython")),  # a person's own start-up files have no say
        }
        workplace = Path(folder, "work")
        workplace.mkdir()
        client.resources = {"metadata": {"path": str(workplace)}}
        # The kernel's own log; what the cells write to stderr becomes output.
        with open(Path(folder, "log"), "wb") as log:
            try:
                client.execute(env=environment, stderr=log)
            except (CellControlSignal, DeadKernelError) as error:
                raise BuildError(_failure(running.cells, at[0], error)) from None
    seconds = time.monotonic() - begin
    asked = running.cells.pop()
    answer = json.loads("".join(o.get("text", "") for o in asked.outputs).partition(_SIGN)[2])
    result: Notebook = json.loads(json.dumps(running))
    result["metadata"] = dict(masters.METADATA)
    for cell in result["cells"]:
        for output in cell.get("outputs", []):
            for mime in WIDGETS:
                output.get("data", {}).pop(mime, None)
    result["metadata"]["ppobook"] = record(result, answer["modules"], answer["files"], root)
    return Ran(result, seconds, answer["cpu"])


def _failure(cells: list[Any], index: int, error: Exception) -> str:
    cell = cells[index]
    shown = "\n".join(f"    {line}" for line in cell["source"].splitlines())
    errors = [output for output in cell.get("outputs", []) if output["output_type"] == "error"]
    if errors:
        trace = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(errors[-1]["traceback"]))
        return f"cell {index + 1} failed with {errors[-1]['ename']}:\n\n{shown}\n\n{trace}"
    return f"cell {index + 1} failed:\n\n{shown}\n\n{type(error).__name__}: {error}"


def without_outputs(notebook: Notebook) -> None:
    """Take all outputs from an executed notebook, in which each reader sees something else.

    None are left that could depend on the library.
    """
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    notebook["metadata"]["ppobook"] |= {"outputs": outputs_digest(notebook), "modules": {}, "files": {}}


def hide_answers(notebook: Notebook) -> None:
    """Take from a reader's executed notebook what depends on blanks; refuse a check that passes on one."""
    for index, cell in enumerate(notebook["cells"]):
        part = masters.part(cell)
        if cell["cell_type"] != "code":
            continue
        if part is not None and part.role == "test":
            errors = [output["ename"] for output in cell["outputs"] if output["output_type"] == "error"]
            if errors != ["NotYet"]:
                came = f"raises {errors[0]}" if errors else "passes"
                raise BuildError(
                    f"cell {index + 1} (test:{part.name}): on the blank the check {came}; "
                    "it must raise 'not yet'."
                )
        if part is not None:
            cell["outputs"] = []
        # It is the reader's to run: no cell of it has been counted yet.
        cell["execution_count"] = None
        for output in cell["outputs"]:
            if "execution_count" in output:
                output["execution_count"] = None
    notebook["metadata"]["ppobook"]["outputs"] = outputs_digest(notebook)
