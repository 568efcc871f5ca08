"""A book of one chapter and one exercise, small enough to be made within a test."""

from pathlib import Path

HEAD = "---\nkernelspec:\n  display_name: Python 3\n  language: python\n  name: python3\n---\n\n"

CHAPTER = (
    HEAD
    + """# A tiny chapter

One paragraph.

## Doubling

```{code-cell} ipython3
from ppobook import toy, results

results("numbers"), toy.double(21)
```

A widget leaves nothing behind but its words.

```{code-cell} ipython3
---
mystnb:
  image: {alt: "one grey dot"}
---
import sys
from IPython.display import display

display({
    "text/plain": "a widget",
    "image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'/>",
    "application/vnd.jupyter.widget-view+json": {"model_id": "0123", "version_major": 2, "version_minor": 0},
}, raw=True)
for line in range(3):
    print("line", line, flush=True)
```

```{code-cell} ipython3
:tags: [nbval-check-output]

set("abc")
```
"""
)

MASTER = (
    HEAD
    + '''# Exercises

```{code-cell} ipython3
from ppobook.teaching import check
print("a picture of the problem")
```

## Doubling

:::{exercise} Doubling
:label: ex-double

*Build · difficulty 1 of 5 · 5 minutes · outcome: double-it*

Double it.
:::

```{code-cell} ipython3
:tags: [solution:double]

def double(x):
    """Twice x."""
    # solution
    return x + x  # the secret
```

```{code-cell} ipython3
:tags: ["test:double:2", nbval-check-output]

check("double", double)
# hidden
assert double(7) == 14
```

:::{exercise} Why
:label: ex-why

*Reflect · difficulty 2 of 5 · 1 minute · outcome: double-it*

Why does it work?
:::

+++ {"tags": ["manual:why:1.5"]}

<!-- solution -->

The model answer: addition.
'''
)

BOOK = """format: jb-book
root: index
meta:
  chapters:
    chapters/01_tiny:
      title: A tiny chapter
      minutes: {compute: 0.5}
      needs: [arithmetic]
      outcomes:
        - {id: double-it, text: "double a number, twice"}
"""

LIBRARY = {
    "__init__.py": '''"""A tiny library."""
from pathlib import Path

from ppobook import _reads


def results(name):
    return _reads.note(Path(__file__).parents[2] / "results" / name / "table.csv").read_text()
''',
    "_reads.py": "paths = []\n\n\ndef note(path):\n    paths.append(str(path.resolve()))\n    return path\n",
    "toy.py": '''"""Toys."""
from ppobook import twice


def double(x):
    """Twice x."""
    return twice.TWO * x
''',
    "twice.py": "TWO = 2\n",
    "unused.py": "NOBODY = 'imports this'\n",
    "teaching/__init__.py": '''"""A check with the book's manners."""


class NotYet(AssertionError):
    def _render_traceback_(self):
        return [str(self)]


def check(name, function):
    try:
        assert function(2) == 4, "✗ Not right"
    except NotImplementedError as error:
        raise NotYet(f"Not yet: {name}") from error
    print("✓ Right")
''',
}


def write_book(root: Path) -> Path:
    """Write the tiny book's sources under `root`; return `root`."""
    files = {
        "book.yml": BOOK,
        "constraints.txt": "# pins\nnumpy==2.0\n",
        "results/numbers/table.csv": "1,2,3",
        "chapters/01_tiny.md": CHAPTER,
        "exercises/masters/01_tiny.md": MASTER,
        **{f"lib/ppobook/{name}": text for name, text in LIBRARY.items()},
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def replace(path: Path, old: str, new: str) -> None:
    """Edit a file; the text to be replaced has to be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
