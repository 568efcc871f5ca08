"""The notebooks of the book, and the texts that they are made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class BuildError(Exception):
    """A notebook can't be made; the message says why."""


@dataclass(frozen=True)
class Target:
    """A notebook to make, of the kind "chapter", "master", "reader" or "desk", and the text it comes from."""

    kind: str
    notebook: Path
    source: Path
    root: Path

    def __str__(self) -> str:
        return self.notebook.relative_to(self.root).as_posix()


def targets(root: Path = ROOT) -> list[Target]:
    """All notebooks of the book: chapters, each exercise master before its reader's notebook, the desk."""
    found = [
        Target("chapter", md.with_suffix(".ipynb"), md, root)
        for md in sorted((root / "chapters").glob("*.md"))
    ]
    for md in sorted((root / "exercises" / "masters").glob("*.md")):
        found.append(Target("master", md.with_suffix(".ipynb"), md, root))
        found.append(Target("reader", root / "exercises" / f"{md.stem}.ipynb", md, root))
    found += [
        Target("desk", md.with_suffix(".ipynb"), md, root) for md in sorted((root / "desk").glob("*.md"))
    ]
    return found


def chosen(names: list[str], root: Path = ROOT) -> list[Target]:
    """The notebooks of chapters that the names mean, and those of their exercises; all, without names."""
    every = targets(root)
    result = [] if names else every
    for name in names:
        found = [t for t in every if t.source.stem == Path(name).stem or t.source.stem.startswith(f"{name}_")]
        if not found:
            known = ", ".join(sorted({t.source.stem for t in every}))
            raise BuildError(f"{name!r} is no notebook of the book; there are {known}.")
        result += found
    return result
