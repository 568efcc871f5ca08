"""A reader's own copies of the chapters and exercises, and how to start an exercise over.

The copies live in `work/`, which git ignores. A copy that the reader hasn't touched follows the book; one
that they have is theirs, and nothing here ever overwrites it without leaving a backup. What was copied is
remembered in `work/.book.json`. A copy counts as touched when a cell of it says something else than the cell
that was copied; running it, which changes only outputs, doesn't touch it.

Needs nothing but the standard library, so that it works before anything else is installed.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import os
import time
from pathlib import Path

from ppobook.teaching import tags
from ppobook.teaching.tags import Cell, Notebook

MEMORY = ".book.json"
FOLDERS = ("chapters", "exercises")


def find_source(source: str | Path | None = None) -> Path:
    """The folder of the book, with its chapters: the one given, this package's checkout, or one we stand in.

    Raises
    ------
    FileNotFoundError
        There is none; the message says where to get it.
    """
    if source is not None:
        if not _is_book(Path(source)):
            raise FileNotFoundError(
                f"source: {source} is not the book's folder; wanted: the one with book.yml."
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


# --- copies -------------------------------------------------------------------------------------------------


def sync(destination: str | Path = "work", source: str | Path | None = None) -> list[Path]:
    """Copy each chapter and exercise that is not in `destination` yet, and say what changed in the book.

    A copy that was never touched is replaced by the book's version when that has changed. A touched one
    stays as it is. Prints what it did.

    Parameters
    ----------
    destination : path
        The reader's folder; made if it isn't there.
    source : path, optional
        The book's folder; found by itself in a checkout.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        There is no book to copy from, or the destination is a file.
    ValueError
        The destination is the book itself, or one of its own folders.
    OSError
        The destination cannot be written.
    """
    book, work = find_source(source), _copies(destination)
    if work.exists() and not work.is_dir():
        raise NotADirectoryError(f"destination: {work} is a file; wanted: a folder for your copies.")
    if work.resolve() == book:
        raise ValueError(
            f"destination: {work} is the book's own folder; wanted: another one, for instance work."
        )
    if work.resolve().is_relative_to(book):
        top = book / work.resolve().relative_to(book).parts[0]
        ours = any((top / folder).is_dir() for folder in FOLDERS)
        ours = ours or (top / MEMORY).exists() or (work / MEMORY).exists()
        if top.is_dir() and any(top.iterdir()) and not ours:
            raise ValueError(
                f"destination: {work} is among the book's own files; wanted: a folder for your copies, for "
                "instance work."
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
            _write(there, here.read_bytes())
        memory[name] = now
    _memorise(work, memory)

    if new:
        print(f"Copied to {work}: {', '.join(new)}.")
    if fresher:
        print(f"Brought up to date, for you hadn't changed them: {', '.join(fresher)}.")
    for name in changed:
        print(
            f"The book's version of {name} has changed, and your copy has changes of your own, which stay. "
            f"To have both, give your copy another name and run this again; "
            f"to start over, run: ppobook reset {name.removesuffix('.ipynb')}"
        )
    if kept > len(changed):
        print(f"Kept as you left them: {kept - len(changed)} of your notebooks.")
    if not new and not fresher and not kept:
        print(f"Your copies in {work} are those of the book; there is nothing to do.")
    return [work / name for name in (*new, *fresher)]


def _copies(destination: str | Path) -> Path:
    """The reader's folder. JupyterLab's terminals open inside of it, where `work` means the folder itself."""
    work = Path(destination)
    inside = work == Path("work") and not work.exists() and Path(MEMORY).exists()
    return Path() if inside else work


def _notebooks(book: Path) -> list[str]:
    return [f"{folder}/{path.name}" for folder in FOLDERS for path in sorted((book / folder).glob("*.ipynb"))]


def _cells_digest(path: Path) -> str | None:
    """A digest of what the cells say, without outputs; None for a file that is no notebook (any more)."""
    try:
        cells = tags.read(path)["cells"]
        said = [(cell["cell_type"], cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError):
        return None
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def _version(path: Path) -> dict[str, str]:
    """What is remembered of a notebook of the book when it is copied."""
    return {"cells": str(_cells_digest(path)), "file": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}


def _remember(work: Path) -> dict[str, dict[str, str]]:
    try:
        memory = json.loads((work / MEMORY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        memory = None
    if not isinstance(memory, dict) or not all(isinstance(entry, dict) for entry in memory.values()):
        # Without it, each copy that differs from the book counts as touched: nothing is lost.
        print(
            f"{work / MEMORY} could not be read and is made anew; copies that differ from the book are kept."
        )
        return {}
    return memory


def _memorise(work: Path, memory: dict[str, dict[str, str]]) -> None:
    _write(work / MEMORY, (json.dumps(memory, indent=1, sort_keys=True) + "\n").encode())


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, so that an interruption leaves the old one whole."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            waiting.write_bytes(data)
            os.replace(waiting, path)
        finally:
            waiting.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(
            f"destination: {path} cannot be written ({error.strerror}); wanted: a folder that can be."
        ) from None


# --- starting over ------------------------------------------------------------------------------------------


def reset(name: str, destination: str | Path = "work", source: str | Path | None = None) -> Path | None:
    """Put one exercise, or one whole notebook, of the reader's copies back to how the book has it.

    The copy as it was goes to `destination/backups` first. Cells that the reader added stay where they are.

    Parameters
    ----------
    name : str
        An exercise by its label ("best-baseline" or "ex-best-baseline"), one part of it by the name in its
        "not yet" message, or a notebook ("exercises/01_vanilla_policy_gradient").
    destination : path
        The reader's folder.
    source : path, optional
        The book's folder; found by itself in a checkout.

    Returns
    -------
    Path or None
        The backup; None where there was no copy yet.

    Raises
    ------
    ValueError
        Nothing in the book has this name, or two things have, or the copy can't be read as a notebook.
    FileNotFoundError
        There is no book to copy from, or no folder of copies.
    OSError
        The copy cannot be written.
    """
    book, work = find_source(source), _copies(destination)
    file, wanted = _find(name, book)
    if not work.is_dir():
        raise FileNotFoundError(
            f"destination: there is no folder {work}; wanted: the one with your copies, which `ppobook work` "
            "makes."
        )
    here, there = book / file, work / file
    if not there.exists():
        sync(work, book)
        print(f"There was no copy of {file} yet; there is a fresh one now.")
        return None
    if wanted is None:
        backup = _backup(work, file)
        _write(there, here.read_bytes())
        memory = _remember(work)
        memory[file] = _version(here)
        _memorise(work, memory)
        print(f"{there} is as in the book again. Yours is kept in {backup}.")
        return backup
    try:
        mine = json.loads(there.read_text(encoding="utf-8"))
        restored = _restore(mine, tags.read(here), wanted)
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{there} can't be read as a notebook, so the exercise can't be found in it. To start the whole "
            f"notebook over, with a backup of yours, run: ppobook reset {file.removesuffix('.ipynb')}"
        ) from None
    backup = _backup(work, file)
    _write(there, (json.dumps(restored, indent=1, ensure_ascii=False) + "\n").encode())
    print(f"{name} in {there} is blank again. Yours is kept in {backup}.")
    print("If the notebook is open in JupyterLab, choose File, Reload Notebook from Disk.")
    return backup


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
        raise ValueError(f"name: {name!r} can mean more than one thing; wanted: {choices}.")
    if not found:
        notebooks = ", ".join(f.removesuffix(".ipynb") for f in files) or "none yet"
        near = difflib.get_close_matches(stem, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"name: nothing in the book is called {name!r}; {hint}wanted: an exercise "
            f"({', '.join(known) or 'none yet'}) or a notebook ({notebooks})."
        )
    return found[0]


def _backup(work: Path, file: str) -> Path:
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    path = Path(file)
    for number in range(1, 1000):
        more = "" if number == 1 else f"-{number}"
        backup = work / "backups" / path.parent / f"{path.stem}.{stamp}{more}.ipynb"
        if not backup.exists():
            _write(backup, (work / file).read_bytes())
            return backup
    raise FileExistsError(f"{work / 'backups'} has a thousand backups of this second.")


def _restore(mine: Notebook, book: Notebook, wanted: list[Cell]) -> Notebook:
    """The reader's notebook with the wanted cells as in the book, found by id or by tag, or put back."""
    result = copy.deepcopy(mine)
    cells: list[Cell] = result["cells"]
    order = [cell["id"] for cell in book["cells"]]
    for cell in wanted:
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
