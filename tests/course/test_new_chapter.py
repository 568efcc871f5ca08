"""A chapter that is added to the book later can be assigned as the others are."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
import yaml

from ppobook.cli import main
from ppobook.course import beginning, masters, packs, sets, settings, work
from ppobook.teaching import workspace

ROOT = Path(__file__).parents[2]

HEAD = "---\nkernelspec:\n  display_name: Python 3\n  language: python\n  name: python3\n---\n\n"
CHAPTER = """\
# A made-up chapter

It comes after all the others.

## One idea

**One sentence says what it is about.** Others say why.

## Summary

- It was short.
"""
MASTER = """\
# Exercises: a made-up chapter

```{code-cell} ipython3
import torch

from ppobook.teaching import check
```

:::{exercise} Once more
:label: ex-once-more

*Build · difficulty 1 of 5 · 10 minutes · outcome: made-up*

Credit each step with what came after it.
:::

```{code-cell} ipython3
:tags: [solution:reward-to-go]

SOLUTION
```

```{code-cell} ipython3
:tags: ["test:reward-to-go:3"]

check("reward-to-go", reward_to_go)
```
"""
VARIANTS = """\
[[reward-to-go]]
bug = "none in particular"
text = [["Credit each step", "In this course, credit each step"]]
"""


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the book with one more chapter, which is where the commands find the book."""
    book = tmp_path / "book"
    for folder in (book, book / "chapters", book / "exercises", book / "exercises" / "masters"):
        folder.mkdir()
    for name in ("constraints.txt", "pyproject.toml", "references.bib", "reference"):
        (book / name).symlink_to(ROOT / name)
    for folder in ("chapters", "exercises/masters"):
        for path in (ROOT / folder).iterdir():
            if path.suffix in (".md", ".toml", ".ipynb"):
                (book / folder / path.name).symlink_to(path)
    spine = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))
    new = {"file": "chapters/11_made_up", "sections": [{"file": "exercises/11_made_up"}]}
    part = [one for one in spine["parts"] if one["chapters"][0]["file"].startswith("chapters/")][-1]
    part["chapters"].append(new)
    facts = {"title": "A made-up chapter", "minutes": {"compute": 0}, "needs": ["chapter 10"]}
    spine["meta"]["chapters"][new["file"]] = facts | {"outcomes": [{"id": "made-up", "text": "go on"}]}
    (book / "book.yml").write_text(yaml.safe_dump(spine), encoding="utf-8")
    texts = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(CHAPTER)])
    nbformat.write(texts, book / "chapters" / "11_made_up.ipynb")
    (book / "chapters" / "11_made_up.md").write_text(HEAD + CHAPTER, encoding="utf-8")
    first = masters.read(ROOT / "exercises" / "masters" / "01_vanilla_policy_gradient.md")
    (solution,) = (c["source"] for c in first["cells"] if "solution:reward-to-go" in masters.tags(c))
    master = book / "exercises" / "masters" / "11_made_up.md"
    master.write_text(HEAD + MASTER.replace("SOLUTION", solution), encoding="utf-8")
    master.with_suffix(".variants.toml").write_text(VARIANTS, encoding="utf-8")
    reader = masters.reader(masters.notebook(masters.read(master)["cells"]))
    (book / "exercises" / "11_made_up.ipynb").write_text(json.dumps(reader), encoding="utf-8")
    for module in (workspace, sets, beginning, packs, work):
        monkeypatch.setattr(module, "find_source", lambda *_: book)
    return book


def test_a_new_chapter_is_assigned_and_released(tmp_path: Path, book: Path) -> None:
    folder = tmp_path / "course"
    assert main(["course", "new", str(folder), "--begin", "2027-02-01", "--weeks", "2"]) == 0
    course = settings.load(folder)
    (assignment,) = [one for one in course.assignments if one.set == "11_made_up"]
    assert assignment.exercises == ("once-more",)
    handout = packs.release(course, assignment.name)[0]
    assert "chapter 11 of the book" in handout.notebook["cells"][0]["source"]
    public = masters.solutions(book / "exercises" / "masters" / "11_made_up.md")["reward-to-go"].source
    assert "In this course, credit each step" in json.dumps(handout.notebook)
    assert public in [cell["source"] for cell in packs.solved(course, handout)["cells"]]
