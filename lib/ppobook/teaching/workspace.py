"""A reader's own copies of the chapters, exercises and desk, and how to start an exercise over.

The copies are in `work/`, which git ignores. A copy that the reader hasn't changed follows the book; a
changed one is theirs, and is never overwritten without a backup. What was copied is
recorded in `work/.book.json`. A copy counts as changed when the source of a cell differs from the cell that
was copied; running it changes only outputs.

Only the standard library is needed, so that it works before anything else is installed.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import os
import platform
import shlex
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from ppobook.run.files import atomic_write
from ppobook.teaching import tags
from ppobook.teaching.tags import Cell, Notebook

MEMORY = ".book.json"
FOLDERS = ("chapters", "exercises", "desk")
DIAGRAMS = "_static/diagrams"


def find_source(source: str | Path | None = None) -> Path:
    """The folder of the book: the one given, this package's checkout, or one that we stand in."""
    if source is not None:
        if not _is_book(Path(source)):
            raise FileNotFoundError(
                f"source must be the book's folder, the one with book.yml, got {str(source)!r}"
            )
        return Path(source).resolve()
    # In a checkout the package stands in lib/ppobook, three folders up from this file's own.
    for folder in (Path(__file__).resolve().parents[3], Path.cwd(), *Path.cwd().parents):
        if _is_book(folder):
            return folder.resolve()
    raise FileNotFoundError(
        "The notebooks are not part of the installed package. Get the book's repository (git clone, or its "
        "ZIP; the book's website links to it), and run `ppobook work` inside its folder."
    )


def _is_book(folder: Path) -> bool:
    return (folder / "book.yml").is_file() and (folder / "chapters").is_dir()


def around(folder: Path) -> Path | None:
    """The folder of copies that this one is or is in; None where there is none."""
    found = (above for above in (folder, *folder.parents) if (above / MEMORY).is_file())
    return next(found, None)


# --- copies -------------------------------------------------------------------------------------------------


def sync(folder: str | Path = "work", source: str | Path | None = None) -> list[Path]:
    """Copy each notebook of the book that is not in `folder` yet, and print what changed in the book.

    An unchanged copy is replaced when the book's version has changed. A changed copy is kept. Returned are
    the notebooks that were written. The diagrams that they show are copied each time.
    """
    book, work = find_source(source), _copies(folder)
    if work.resolve() == book:
        raise ValueError(
            f"folder must be a folder for your copies, such as work, got the book's own, {str(work)!r}"
        )
    memory = _remember(work)
    new: list[str] = []
    fresher: list[str] = []
    changed: list[str] = []
    kept = 0
    for name in _notebooks(book):
        here, there = book / name, work / name
        known = memory.get(name, {})
        now = _version(here)
        mine = _cells_digest(there) if there.exists() else None
        if not there.exists():
            new.append(name)
        elif mine is None or mine not in (known.get("cells"), now["cells"]):
            kept += 1
            if known.get("cells") != now["cells"]:
                changed.append(name)
            continue
        elif known.get("file", now["file"]) != now["file"]:
            fresher.append(name)
        if name in (*new, *fresher):
            _write(there, _copy_of(here))
        memory[name] = now
    _memorise(work, memory)
    for diagram in sorted((book / DIAGRAMS).glob("*.svg")):
        _write(work / DIAGRAMS / diagram.name, diagram.read_bytes())

    if new:
        print(f"Copied to {work}: {', '.join(new)}.")
    if fresher:
        print(f"Brought up to date, for you hadn't changed them: {', '.join(fresher)}.")
    for name in changed:
        print(
            f"The book's version of {name} has changed, and your copy has changes of your own, which stay. "
            f"To have both, give your copy another name and run this again; "
            f"to start over, run: {_reset_all(name, folder)}"
        )
    if kept > len(changed):
        print(f"Kept as you left them: {kept - len(changed)} of your notebooks.")
    if not new and not fresher and not kept:
        print(f"Your copies in {work} are those of the book; there is nothing to do.")
    return [work / name for name in (*new, *fresher)]


def _copies(folder: str | Path) -> Path:
    """The reader's folder. JupyterLab's terminals open inside of it, where `work` means the folder itself."""
    work = Path(folder).expanduser()
    if work != Path("work") or work.exists():
        return work
    inside = around(Path.cwd())
    return Path(os.path.relpath(inside)) if inside else work


def _notebooks(book: Path) -> list[str]:
    return [f"{folder}/{path.name}" for folder in FOLDERS for path in sorted((book / folder).glob("*.ipynb"))]


def _copy_of(path: Path) -> bytes:
    """A notebook of the book as a reader gets it.

    Figures have their captions below them. The notebook says which Python it runs in, as a kernel would, so
    that it does not count as unsaved when it is opened.
    """
    notebook = tags.read(path)
    notebook["cells"] = list(_with_captions(notebook["cells"], path.stem))
    notebook["metadata"]["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook["metadata"].setdefault("language_info", {})["version"] = platform.python_version()
    return (json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _with_captions(cells: list[Cell], stem: str) -> Iterator[Cell]:
    """Each cell, and the caption of the figure that it shows."""
    number = count(1)
    for cell in cells:
        yield cell
        if tags.is_figure(cell):
            said = cell["metadata"]["mystnb"]["figure"]["caption"]
            text = f"**{tags.figure_number(stem, next(number))}.** {said}"
            yield {"cell_type": "markdown", "id": f"{cell['id']}-caption", "metadata": {}, "source": text}


def _cells_digest(path: Path) -> str | None:
    """A digest of the sources of a copy's cells; None for a file that is not a valid notebook.

    Captions do not count, which the notebooks of the book do not have.
    """
    try:
        cells = [cell for cell in tags.read(path)["cells"] if not cell.get("id", "").endswith("-caption")]
        said = [(cell["cell_type"], cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError):
        return None
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def _version(path: Path) -> dict[str, str]:
    """Digests of a notebook of the book, recorded when it is copied."""
    return {"cells": str(_cells_digest(path)), "file": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}


def _remember(work: Path) -> dict[str, dict[str, str]]:
    try:
        memory: dict[str, dict[str, str]] = json.loads((work / MEMORY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        # Without it, each copy that differs from the book counts as changed: nothing is lost.
        print(f"{work / MEMORY} is damaged and is written again; copies that differ from the book are kept.")
        return {}
    return memory


def _memorise(work: Path, memory: dict[str, dict[str, str]]) -> None:
    _write(work / MEMORY, (json.dumps(memory, indent=1, sort_keys=True) + "\n").encode())


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, data)


# --- starting over ------------------------------------------------------------------------------------------


def reset(name: str, folder: str | Path = "work", source: str | Path | None = None) -> Path | None:
    """Reset one exercise, or one whole notebook, of the reader's copies to the book's version.

    The copy is backed up in `folder/backups` first; returned is the backup, or None where there was no copy
    yet. Cells that the reader added are kept.

    Parameters
    ----------
    name : str
        An exercise by its label ("best-baseline" or "ex-best-baseline"), one part of it by the name in its
        "not yet" message, or a notebook ("exercises/01_vanilla_policy_gradient").
    folder, source : path
        The reader's folder and the book's.
    """
    book, work = find_source(source), _copies(folder)
    file, only = _find(name, book)
    if not work.is_dir():
        raise FileNotFoundError(
            f"folder must be the folder of your copies, got {str(work)!r}, which does not exist; "
            "`ppobook work` makes it"
        )
    here, there = book / file, work / file
    if not there.exists():
        sync(work, book)
        print(f"There was no copy of {file} yet; there is a fresh one now.")
        return None
    if only is None:
        backup = _backup(work, file)
        _write(there, _copy_of(here))
        memory = _remember(work)
        memory[file] = _version(here)
        _memorise(work, memory)
        print(f"{there} is as in the book again. Yours is kept in {backup}.")
        return backup
    try:
        mine = json.loads(there.read_text(encoding="utf-8"))
        restored = _restore(mine, tags.read(here), only)
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{there} can't be read as a notebook, so the exercise can't be found in it. To start the whole "
            f"notebook over, with a backup of yours, run: {_reset_all(file, folder)}"
        ) from None
    backup = _backup(work, file)
    _write(there, (json.dumps(restored, indent=1, ensure_ascii=False) + "\n").encode())
    print(f"{name} in {there} is blank again. Yours is kept in {backup}.")
    print("If the notebook is open in JupyterLab, choose File, Reload Notebook from Disk.")
    return backup


def _reset_all(file: str, folder: str | Path) -> str:
    """The command that starts a whole notebook over."""
    where = "" if str(folder) == "work" else f" --folder {shlex.quote(str(folder))}"
    return f"ppobook reset {file.removesuffix('.ipynb')}{where}"


def _find(name: str, book: Path) -> tuple[str, list[Cell] | None]:
    """The notebook that a name means, and the cells to restore in it; None for all of them."""
    files = _notebooks(book)
    stem = name.removesuffix(".ipynb").rstrip("/")
    whole = [f for f in files if stem.endswith(f.removesuffix(".ipynb"))]
    whole = whole or [f for f in files if Path(f).stem == stem or Path(f).stem.startswith(f"{stem}_")]
    found: list[tuple[str, list[Cell] | None]] = [(file, None) for file in whole]
    known = []
    for file in files:
        if not file.startswith("exercises/"):
            continue
        notebook = tags.read(book / file)
        cells = notebook["cells"]
        labels = {exercise.label: exercise for exercise in tags.exercises(notebook)}
        known += list(labels)
        label = stem.removeprefix("ex-")
        parts = [cells[p.index] for p in tags.parts(notebook) if p.name == stem]
        if label in labels:
            found.append((file, cells[labels[label].start : labels[label].stop]))
        elif parts:
            found.append((file, parts))
    if len(found) > 1:
        choices = " or ".join(f.removesuffix(".ipynb") for f, _ in found)
        raise ValueError(f"name must be {choices}, got {name!r}, which can mean each of them")
    if not found:
        if near := difflib.get_close_matches(stem, known, n=1):
            raise ValueError(
                f"name must be an exercise or a notebook, got {name!r}. Did you mean {near[0]!r}?"
            )
        notebooks = ", ".join(f.removesuffix(".ipynb") for f in files) or "none yet"
        raise ValueError(
            f"name must be an exercise ({', '.join(known) or 'none yet'}) or a notebook ({notebooks}), "
            f"got {name!r}"
        )
    return found[0]


def _backup(work: Path, file: str) -> Path:
    path = Path(file)
    stem = f"{path.stem}.{time.strftime('%Y-%m-%d-%H%M%S')}"
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.ipynb" for number in count(1))
    backups = (work / "backups" / path.parent / name for name in names)
    backup = next(backup for backup in backups if not backup.exists())
    _write(backup, (work / file).read_bytes())
    return backup


def _restore(mine: Notebook, book: Notebook, restored: list[Cell]) -> Notebook:
    """The reader's notebook with these cells as in the book, found by id or by tag, or put back."""
    result = copy.deepcopy(mine)
    cells: list[Cell] = result["cells"]
    order = [cell["id"] for cell in book["cells"]]
    for cell in restored:
        at = [index for index, other in enumerate(cells) if _same_cell(other, cell)]
        if at:
            cells[at[0]] = copy.deepcopy(cell)
            # A cell that was split in JupyterLab has left its tag on both halves; the backup has them.
            for index in reversed(at[1:]):
                del cells[index]
            continue
        if tags.part(cell) is None:
            # Text of another version of the book, perhaps, whose ids differ: it has no answer in it.
            continue
        before = order[: order.index(cell["id"])]
        places = [index for index, other in enumerate(cells) if other.get("id") in before]
        cells.insert(max(places, default=-1) + 1, copy.deepcopy(cell))
    return result


def _same_cell(mine: Cell, book: Cell) -> bool:
    if mine.get("id") == book["id"]:
        return True
    mine_part, book_part = tags.part(mine), tags.part(book)
    if mine_part is None or book_part is None:
        return False
    return (mine_part.role, mine_part.name) == (book_part.role, book_part.name)
