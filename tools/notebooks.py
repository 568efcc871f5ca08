"""Make the notebooks from their text: one way, executed, the same bytes twice.

    python tools/notebooks.py [NAME…] [--force]

NAME is a number (01), a file's name or a path, of a chapter with its exercises; without one, all are made.
`chapters/NN_name.md` gives `chapters/NN_name.ipynb`; `exercises/masters/NN_name.md` gives the executed master
beside it, and `exercises/NN_name.ipynb`, which a reader opens; `desk/name.md` gives `desk/name.ipynb`,
executed too, but without outputs, since each reader sees something else in it.

A notebook is executed from top to bottom in a fresh kernel and a temporary folder, and then written in one
step, so that a failing or killed build leaves the old one whole. It remembers what its outputs depend on: its
code cells, the `ppobook` modules that it imports (their syntax trees less docstrings), the files that the
package reads for it, and the pins of constraints.txt. While none of these changes, new text is put in and the
outputs are kept; `stale` says, in a sentence each, what has changed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from notebook_builder.digests import changes, code_cells_digest, outputs_digest
from notebook_builder.draft import draft, promises
from notebook_builder.execution import Ran, execute, hide_answers, without_outputs
from notebook_builder.refusals import refusals, serialised
from notebook_builder.staleness import stored_notebook
from notebook_builder.targets import BuildError, Target, chosen
from ppobook.run.files import atomic_write
from ppobook.teaching.tags import Notebook


def write(notebook: Notebook, path: Path) -> None:
    """Write a notebook in one step: whoever looks sees the old one or the new one, whole."""
    import nbformat

    nbformat.validate(nbformat.from_dict(notebook))
    atomic_write(path, serialised(notebook))


def _keep_outputs(target: Target, wanted: Notebook) -> Notebook | None:
    """The wanted text with the stored outputs, if these still stand; else None."""
    try:
        stored = stored_notebook(target.notebook)
        kept = stored["metadata"]["ppobook"]
        if (
            kept["outputs"] != outputs_digest(stored)
            or kept["code"] != code_cells_digest(stored)
            or changes(kept, wanted, target.root)
        ):
            return None
    except (OSError, ValueError, KeyError):
        return None
    old = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    new = [cell for cell in wanted["cells"] if cell["cell_type"] == "code"]
    for before, after in zip(old, new, strict=True):
        after["outputs"] = before["outputs"]
        after["execution_count"] = before["execution_count"]
    wanted["metadata"]["ppobook"] = kept
    return wanted


def build(target: Target, *, force: bool = False) -> str:
    """Make one notebook; return what was done, in words. `force` executes it where the outputs still stand.

    Raises
    ------
    BuildError
        It can't be made; the stored notebook is as it was.
    """
    wanted = draft(target)
    ready = None if force else _keep_outputs(target, wanted)
    if ready is not None:
        _refuse(ready, target)
        if serialised(ready) == target.notebook.read_bytes():
            return "up to date"
        write(ready, target.notebook)
        return "new text, outputs kept"
    ran = _run(wanted, target)
    _refuse(ran.notebook, target)
    write(ran.notebook, target.notebook)
    return _cost(ran, target)


def _run(wanted: Notebook, target: Target) -> Ran:
    try:
        ran = execute(wanted, target.root)
    except BuildError as error:
        if target.kind != "reader":
            raise
        raise BuildError(
            f"before the reader has solved anything, {error}\n\nA cell that needs an answer would stop "
            "'Run all'; move what it does into the test cell, below the check."
        ) from None
    if target.kind == "reader":
        hide_answers(ran.notebook)
    if target.kind == "desk":
        without_outputs(ran.notebook)
    return ran


def _refuse(notebook: Notebook, target: Target) -> None:
    said = refusals(notebook, target.root)
    if said:
        raise BuildError("\n".join(said))


def _cost(ran: Ran, target: Target) -> str:
    size = len(serialised(ran.notebook)) / 1000
    said = f"{size:.0f} kB, executed in {ran.seconds:.0f} s, {ran.cpu:.0f} s of CPU"
    facts = promises(target)
    if target.kind == "chapter" and facts is not None:
        promised = 60 * facts["minutes"]["compute"]
        said += f" of the {promised:.0f} s that book.yml promises" + ": LONGER" * (ran.cpu > promised)
    return said


def main(arguments: list[str] | None = None) -> int:
    """Make the notebooks that the command line names; the exit code is 1 if one can't be made."""
    parser = argparse.ArgumentParser(prog="notebooks", description="Make the notebooks from their text.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="01, 01_name or a path; all, if left out")
    parser.add_argument("--force", action="store_true", help="execute, even where the outputs still stand")
    options = parser.parse_args(arguments)
    try:
        wanted = chosen(options.names)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    failed = 0
    for target in wanted:
        print(f"{target}: ", end="", flush=True)
        try:
            print(build(target, force=options.force))
        except KeyboardInterrupt:
            print("stopped; the stored notebook is as it was")
            return 130
        except BuildError as error:
            failed += 1
            print("NOT made; the stored notebook is as it was")
            print(
                "\n".join(f"    {line}" if line else "" for line in str(error).splitlines()), file=sys.stderr
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
