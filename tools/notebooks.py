"""Make the notebooks from their text: one way, executed, the same bytes twice.

    python tools/notebooks.py [NAME…] [--force] [--twice]

NAME is a number (01), a file's name (01_vanilla_policy_gradient) or a path; without one, every notebook is
made. `chapters/NN_name.md` gives `chapters/NN_name.ipynb`; `exercises/masters/NN_name.md` gives the executed
master beside it, and `exercises/NN_name.ipynb`, which a reader opens.

A notebook is executed from top to bottom in a fresh kernel and a temporary folder, and then written in one
step, so that a failing or killed build leaves the old one whole. It remembers what its outputs depend on: its
code cells, the `ppobook` modules that it imports (their syntax trees less docstrings), the files that the
package reads for it, and the pins of constraints.txt. While none of these changes, new text is put in and the
outputs are kept; `stale` says, in a sentence each, what has changed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ppobook.course import masters
from ppobook.teaching.tags import Cell, Notebook

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 1_000_000  # bytes
CELL_TIMEOUT = 600  # seconds
FIGURE = "application/vnd.ppobook.figure+json"
WIDGETS = ("application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json")

# What the kernel says of itself holds its Python's version, which would differ from machine to machine.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}


class BuildError(Exception):
    """A notebook can't be made; the message says why."""


@dataclass(frozen=True)
class Target:
    """One notebook to make, of the kind "chapter", "master" or "reader", and the text that it comes from."""

    kind: str
    notebook: Path
    source: Path
    root: Path

    def __str__(self) -> str:
        return self.notebook.relative_to(self.root).as_posix()


def targets(root: Path = ROOT) -> list[Target]:
    """All notebooks of the book, chapters first, each exercise master before its reader's notebook."""
    found = [
        Target("chapter", md.with_suffix(".ipynb"), md, root)
        for md in sorted((root / "chapters").glob("*.md"))
    ]
    for md in sorted((root / "exercises" / "masters").glob("*.md")):
        found.append(Target("master", md.with_suffix(".ipynb"), md, root))
        found.append(Target("reader", root / "exercises" / f"{md.stem}.ipynb", md, root))
    return found


def chosen(names: list[str], root: Path = ROOT) -> list[Target]:
    """The targets that the names mean; all of them where there are no names."""
    every = targets(root)
    if not names:
        return every
    result = []
    for name in names:
        path = Path(name)
        # A path says which folder; a bare number or name means the chapter and its exercises.
        exact = [
            t
            for t in every
            if path.resolve().with_suffix("") in _stems(t) or (root / path).with_suffix("") in _stems(t)
        ]
        loose = [t for t in every if t.source.stem == path.stem or t.source.stem.startswith(f"{name}_")]
        if not exact and not loose:
            known = ", ".join(sorted({t.source.stem for t in every})) or "none yet"
            raise BuildError(f"{name!r} is no notebook of the book; there are {known}.")
        result += [t for t in exact or loose if t not in result]
    return result


def _stems(target: Target) -> set[Path]:
    return {target.source.with_suffix(""), target.notebook.with_suffix("")}


# --- the notebook before it is run --------------------------------------------------------------------------


def draft(target: Target) -> Notebook:
    """The notebook as its text says, without outputs."""
    cells = masters.read(target.source)["cells"]
    if target.kind == "chapter":
        if not cells or not cells[0]["source"].lstrip().startswith("# "):
            raise BuildError(f"{target.source.name}: its first cell has to be its title, '# TITLE'.")
        cells.insert(1, {"cell_type": "markdown", "metadata": {}, "source": opening_box(target)})
    notebook: Notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": dict(METADATA), "cells": cells}
    _give_ids(cells)
    if target.kind != "chapter":
        try:
            masters.validate(notebook, outcomes=_outcomes(target))
        except masters.MasterError as error:
            relative = target.source.relative_to(target.root)
            raise BuildError("\n".join(f"{relative}: {line}" for line in str(error).splitlines())) from None
    return masters.reader(notebook) if target.kind == "reader" else notebook


def _give_ids(cells: list[Cell]) -> None:
    # jupytext draws ids at random. A part of an exercise is called by its name, so that a reader's answer can
    # be found again after the text around it has changed; any other cell by a hash of what it says.
    used: dict[str, int] = {}
    for cell in cells:
        part = masters.part(cell)
        stem = f"{part.role}-{part.name}" if part else _digest(cell["cell_type"], cell["source"])[:12]
        used[stem] = used.get(stem, 0) + 1
        cell["id"] = stem if used[stem] == 1 else f"{stem}-{used[stem]}"


def _book(root: Path) -> dict[str, Any]:
    path = root / "book.yml"
    try:
        book = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BuildError("book.yml is missing; it says what each chapter promises.") from None
    except yaml.YAMLError as error:
        raise BuildError(f"book.yml can't be read: {error}") from None
    return book or {}


def promises(target: Target) -> dict[str, Any] | None:
    """What book.yml says of the target's chapter: title, minutes, needs, outcomes. None if it is silent."""
    name = f"chapters/{target.source.stem}"
    facts = _book(target.root).get("meta", {}).get("chapters", {}).get(name)
    if facts is None:
        return None
    missing = [key for key in ("title", "minutes", "needs", "outcomes") if key not in facts]
    if missing:
        raise BuildError(f"book.yml: {name} lacks {' and '.join(missing)}.")
    if set(facts["minutes"]) != {"read", "compute"}:
        raise BuildError(f"book.yml: the minutes of {name} are {{read: …, compute: …}}.")
    for outcome in facts["outcomes"]:
        # An unquoted text with a comma inside braces is cut there, without a word from YAML.
        if set(outcome) != {"id", "text"}:
            has = ", ".join(map(str, outcome))
            raise BuildError(
                f"book.yml: an outcome of {name} is {{id: …, text: …}}, and one has {has}; "
                "a text with a comma needs quotes."
            )
    return facts


def _outcomes(target: Target) -> list[str] | None:
    facts = promises(target)
    return None if facts is None else [outcome["id"] for outcome in facts["outcomes"]]


def opening_box(target: Target) -> str:
    """The box below a chapter's title, from book.yml, readable where directives aren't rendered too."""
    facts = promises(target)
    if facts is None:
        raise BuildError(
            f"book.yml has no entry chapters/{target.source.stem} under meta: chapters:; "
            "give it a title, minutes, needs and outcomes."
        )
    read, compute = (_minutes(facts["minutes"][key]) for key in ("read", "compute"))
    return "\n".join(
        [
            ":::{admonition} In this chapter",
            "**Afterwards you can**",
            "",
            *[f"- {outcome['text']}" for outcome in facts["outcomes"]],
            "",
            "**You need first**",
            "",
            *[f"- {need}" for need in facts["needs"]],
            "",
            f"**It takes** about {read} to read, and up to {compute} to compute.",
            ":::",
        ]
    )


def _minutes(number: float) -> str:
    return f"{number:g} minute" + ("" if number == 1 else "s")


# --- what its outputs depend on -----------------------------------------------------------------------------


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def code_digest(source: str) -> str:
    """A digest of what a module does: its syntax tree, less docstrings, the same on every Python of the book.

    `ast.dump` won't do: it has changed its mind about empty fields, and Pythons differ in how they cut the
    text between the braces of an f-string into pieces.
    """
    return _digest(repr(_plain(ast.parse(source))))


def _plain(node: Any) -> Any:
    if isinstance(node, ast.AST):
        fields = {
            name: value for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment")
        }
        if isinstance(node, ast.JoinedStr):
            fields["values"] = _joined(node.values)
        plain = [(name, _plain(value)) for name, value in fields.items()]
        return (
            type(node).__name__,
            *sorted((name, value) for name, value in plain if value not in (None, [])),
        )
    if isinstance(node, list):
        return [_plain(item) for item in node if not _is_remark(item)]
    # The repr of a constant tells 1 from 1.0 and from True.
    return repr(node) if node is not None else None


def _is_remark(node: Any) -> bool:
    """Whether a statement is only a string: a docstring, or a note below an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    merged: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant) and merged and isinstance(merged[-1], ast.Constant):
            merged[-1] = ast.Constant(f"{merged[-1].value}{value.value}")
        else:
            merged.append(value)
    return [value for value in merged if not (isinstance(value, ast.Constant) and value.value == "")]


def _module_file(name: str, root: Path) -> Path | None:
    path = root / "lib" / Path(*name.split("."))
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _file_digest(path: Path) -> str:
    # Line ends differ between checkouts on Windows and elsewhere.
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]


def _pins_digest(root: Path) -> str:
    path = root / "constraints.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return _digest(*(pin for line in lines if (pin := line.split("#")[0].strip())))


def _code(notebook: Notebook) -> str:
    return _digest(*(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"))


def _outputs(notebook: Notebook) -> str:
    outputs = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return _digest(json.dumps(outputs, sort_keys=True))


def record(notebook: Notebook, modules: list[str], files: list[str], root: Path) -> dict[str, Any]:
    """What the outputs of an executed notebook depend on, as digests, to be kept in its metadata."""
    kept: dict[str, Any] = {
        "code": _code(notebook),
        "outputs": _outputs(notebook),
        "modules": {},
        "files": {},
    }
    for name in modules:
        path = _module_file(name, root)
        if path is not None:
            kept["modules"][name] = code_digest(path.read_text(encoding="utf-8"))
        elif not (root / "lib" / Path(*name.split("."))).is_dir():
            raise BuildError(f"it imports {name}, which is not in lib/.")
    for file in sorted(files):
        path = Path(file)
        if not path.is_relative_to(root.resolve()):
            raise BuildError(
                f"it reads {path.name} from outside of the checkout, where no other reader has it."
            )
        kept["files"][path.relative_to(root.resolve()).as_posix()] = _file_digest(path)
    kept["constraints"] = _pins_digest(root)
    return kept


def _changes(kept: dict[str, Any], notebook: Notebook, root: Path) -> list[str]:
    """Why stored outputs no longer stand for what the notebook would do now."""
    said = []
    if kept["code"] != _code(notebook):
        said.append("its code cells changed since it was executed")
    for name, digest in kept["modules"].items():
        path = _module_file(name, root)
        if path is None:
            said.append(f"it imported {name}, which is gone")
        elif code_digest(path.read_text(encoding="utf-8")) != digest:
            said.append(f"{path.relative_to(root).as_posix()} changed")
    for file, digest in kept["files"].items():
        if not (root / file).is_file():
            said.append(f"it read {file}, which is gone")
        elif _file_digest(root / file) != digest:
            said.append(f"{file} changed")
    if kept["constraints"] != _pins_digest(root):
        said.append("constraints.txt pins other versions")
    return said


def stale(notebook: str | Path, root: Path = ROOT) -> list[str]:
    """What changed since a stored notebook was made, a sentence each; an empty list where nothing did."""
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
    if kept["outputs"] != _outputs(stored):
        said.append("its outputs are not the ones that were made; perhaps it was run and saved in JupyterLab")
    return said + _changes(kept, wanted, target.root)


def _said_by(cell: Cell) -> tuple[Any, ...]:
    return cell["cell_type"], cell.get("id"), cell["source"], cell["metadata"]


def stored_notebook(path: Path) -> Notebook:
    """Read a notebook as it is in memory: a long text is one string, where the file has a list of lines."""
    import nbformat

    return json.loads(json.dumps(nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)))


# --- running it ---------------------------------------------------------------------------------------------

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
    result["metadata"] = dict(METADATA)
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


def _hide_answers(notebook: Notebook) -> None:
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
                    "it has to say 'not yet'."
                )
        if part is not None:
            cell["outputs"] = []
        # It is the reader's to run: no cell of it has been counted yet.
        cell["execution_count"] = None
        for output in cell["outputs"]:
            if "execution_count" in output:
                output["execution_count"] = None
    notebook["metadata"]["ppobook"]["outputs"] = _outputs(notebook)


# --- what is refused ----------------------------------------------------------------------------------------

# No pattern begins with a repeat: a picture's source is a single word of hundreds of kilobytes.
_PATHS = re.compile(
    r"(?<![\w.:/~-])/(?:home|Users|root|tmp|var/folders)/[^\s'\"<>]*"
    r"|\b[A-Za-z]:\\+Users\\[^\s'\"<>]*|[/\\]site-packages[/\\]\S*|ipykernel_\d+\S*"
)
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_IMAGE = re.compile(r"<img\b[^>]*>", re.S)
_ALT = re.compile(r"\balt\s*=\s*(\"[^\"]*\S[^\"]*\"|'[^']*\S[^']*')")


def refusals(notebook: Notebook, root: Path = ROOT) -> list[str]:
    """Why a notebook may not be stored, a sentence each; an empty list where nothing is in the way."""
    said = []
    size = len(_serialised(notebook))
    if size > LARGEST:
        weights = [len(json.dumps(cell.get("outputs", []))) for cell in notebook["cells"]]
        heaviest = max(range(len(weights)), key=weights.__getitem__)
        said.append(
            f"it has {size / 1e6:.2f} MB, and 1 MB is the limit; cell {heaviest + 1} weighs the most "
            f"({weights[heaviest] / 1e6:.2f} MB)."
        )
    if "jupytext" in notebook["metadata"]:
        said.append("it is paired by jupytext, so running and saving it would rewrite its source.")
    if "widgets" in notebook["metadata"]:
        said.append("it holds widget state.")
    for index, cell in enumerate(notebook["cells"]):
        said += [f"cell {index + 1}: {sentence}" for sentence in _cell_refusals(cell, root)]
    return said


def _cell_refusals(cell: Cell, root: Path) -> list[str]:
    said = []
    for tag in masters.tags(cell):
        spelt = re.sub(r"[^a-z]", "", tag.lower())
        meant = difflib.get_close_matches(spelt, ["nbvalcheckoutput", "checkoutput"], cutoff=0.8)
        if tag not in masters.NBVAL and ("nbval" in spelt or meant):
            said.append(f"its tag {tag!r} says nothing to nbval; it is spelt 'nbval-check-output'.")
    if cell["cell_type"] == "markdown":
        return said + _picture_refusals(cell["source"])
    if re.search(r"^\s*#\s*(NBVAL_|PYTEST_VALIDATE)", cell["source"], re.M):
        said.append("it speaks to nbval in a comment; use the tag 'nbval-check-output'.")
    described = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt")
    for output in cell["outputs"]:
        data = output.get("data", {})
        if any(mime in data for mime in WIDGETS):
            said.append("its output holds a widget, which nothing can show once the kernel is gone.")
        if FIGURE in data:
            if not str(data[FIGURE].get("alt") or "").strip():
                said.append("its interactive figure has no alt text; give it one where it is made, alt=….")
        elif any(mime.startswith("image/") for mime in data) and not str(described or "").strip():
            said.append("its figure has no alt text; add the cell option mystnb: {image: {alt: …}}.")
        if any(not _ALT.search(tag) for tag in _IMAGE.findall(_plain_text(data.get("text/html", "")))):
            said.append("its HTML has an <img> without alt text.")
        text = _text_of(output)
        place = (
            next((p for p in _places(root) if p in text), None)
            or getattr(_PATHS.search(text), "group", str)()
        )
        if place:
            said.append(f"its output shows a path of this machine, {place!r}.")
        address = _ADDRESS.search(text)
        if address:
            said.append(
                f"its output shows an address in memory ({address[0]!r}), which differs in every run."
            )
    return said


def _picture_refusals(source: str) -> list[str]:
    said = []
    prose = re.sub(r"^(`{3,}|~{3,}).*?^\1", "", source, flags=re.S | re.M)
    if re.search(r"!\[\s*\]\(", prose):
        said.append("its picture has no alt text; write it between the brackets of ![…](…).")
    for fence in re.finditer(r"^(:{3,}|`{3,})\{(image|figure)\}.*?^\1", source, re.S | re.M):
        if not re.search(r"^:alt:[ \t]*\S", fence[0], re.M):
            said.append(f"its {fence[2]} has no alt text; add a line ':alt: …'.")
    if any(not _ALT.search(tag) for tag in _IMAGE.findall(prose)):
        said.append("its <img> has no alt text.")
    return said


def _places(root: Path) -> list[str]:
    places = {str(root), str(Path.home()), sys.prefix, tempfile.gettempdir()}
    return sorted(place for place in places if len(place) > 4)


def _plain_text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else "".join(map(str, value))
        if isinstance(value, list)
        else json.dumps(value)
    )


def _text_of(output: dict[str, Any]) -> str:
    texts = [
        _plain_text(output.get("text", "")),
        _plain_text(output.get("traceback", "")),
        str(output.get("evalue", "")),
    ]
    for mime, value in output.get("data", {}).items():
        if mime == "image/svg+xml" or not mime.startswith("image/"):
            texts.append(_plain_text(value))
    return "\n".join(texts)


# --- writing it ---------------------------------------------------------------------------------------------


def _serialised(notebook: Notebook) -> bytes:
    import nbformat

    return (nbformat.writes(nbformat.from_dict(notebook), version=4).rstrip("\n") + "\n").encode()


def write(notebook: Notebook, path: Path) -> None:
    """Write a notebook in one step: whoever looks sees the old one or the new one, whole."""
    import nbformat

    nbformat.validate(nbformat.from_dict(notebook))
    data = _serialised(notebook)
    waiting = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(waiting, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(waiting, path)
    finally:
        waiting.unlink(missing_ok=True)


def _keep_outputs(target: Target, wanted: Notebook) -> Notebook | None:
    """The wanted text with the stored outputs, if these still stand; else None."""
    try:
        stored = stored_notebook(target.notebook)
        kept = stored["metadata"]["ppobook"]
        if (
            kept["outputs"] != _outputs(stored)
            or kept["code"] != _code(stored)
            or _changes(kept, wanted, target.root)
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


def build(target: Target, *, force: bool = False, twice: bool = False) -> str:
    """Make one notebook; return what was done, in words.

    Parameters
    ----------
    force : execute even where the stored outputs still stand.
    twice : execute two times, and refuse outputs that differ.

    Raises
    ------
    BuildError
        It can't be made; the stored notebook is as it was.
    """
    wanted = draft(target)
    ready = None if force or twice else _keep_outputs(target, wanted)
    if ready is not None:
        _refuse(ready, target)
        if _serialised(ready) == target.notebook.read_bytes():
            return "up to date"
        write(ready, target.notebook)
        return "new text, outputs kept"
    ran = _run(wanted, target)
    if twice:
        _compare(ran.notebook, _run(wanted, target).notebook)
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
        _hide_answers(ran.notebook)
    return ran


def _refuse(notebook: Notebook, target: Target) -> None:
    said = refusals(notebook, target.root)
    if said:
        raise BuildError("\n".join(said))


def _compare(first: Notebook, second: Notebook) -> None:
    differ = [
        index + 1
        for index, (one, other) in enumerate(zip(first["cells"], second["cells"], strict=True))
        if one.get("outputs") != other.get("outputs")
    ]
    if differ:
        raise BuildError(
            f"executed twice, it gave two different outputs in cell {', '.join(map(str, differ))}."
        )


def _cost(ran: Ran, target: Target) -> str:
    size = len(_serialised(ran.notebook)) / 1000
    said = f"{size:.0f} kB, executed in {ran.seconds:.0f} s, {ran.cpu:.0f} s of CPU"
    facts = promises(target)
    if target.kind == "chapter" and facts is not None:
        promised = 60 * facts["minutes"]["compute"]
        if ran.cpu > promised:
            said += (
                f"\n    LONGER than book.yml promises ({promised:.0f} s): record what takes long under "
                "results/, or promise more."
            )
        else:
            said += f" of the {promised:.0f} s that book.yml promises"
    return said


def main(arguments: list[str] | None = None) -> int:
    """Make the notebooks that the command line names; the exit code is 1 if one can't be made."""
    parser = argparse.ArgumentParser(prog="notebooks", description="Make the notebooks from their text.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="01, 01_name or a path; all, if left out")
    parser.add_argument("--force", action="store_true", help="execute, even where the outputs still stand")
    parser.add_argument(
        "--twice", action="store_true", help="execute two times, and refuse outputs that differ"
    )
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
            print(build(target, force=options.force, twice=options.twice))
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
