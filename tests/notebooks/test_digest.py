"""Stored outputs can't go stale unseen, and what is stored is fit to be read by anyone."""

import itertools
import shutil
from pathlib import Path

import pytest
from tiny_book import replace, write_book

import notebooks
from notebook_builder.digests import code_digest, record
from notebook_builder.draft import draft
from notebook_builder.refusals import LARGEST, refusals
from notebook_builder.staleness import stale, stored_notebook
from notebook_builder.targets import targets
from ppobook.course.masters import METADATA

REPOSITORY = Path(__file__).parents[2]
COMMITTED = sorted(
    itertools.chain(
        (REPOSITORY / "chapters").glob("*.ipynb"),
        (REPOSITORY / "exercises").glob("*.ipynb"),
        (REPOSITORY / "exercises" / "masters").glob("*.ipynb"),
        (REPOSITORY / "desk").glob("*.ipynb"),
    )
)


# --- every notebook of the book -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_stored_notebook_is_what_its_sources_make(path):
    said = stale(path)
    assert not said, "\n".join([*said, f"Run: make notebooks NAME={path.stem}"])


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_stored_notebook_is_fit_to_be_read(path):
    """Alt text everywhere, at most 1 MB, no machine path, no widget state, unpaired."""
    notebook = stored_notebook(path)
    assert refusals(notebook) == []
    assert path.stat().st_size <= LARGEST
    assert set(notebook["metadata"]) == {"kernelspec", "language_info", "ppobook"}
    assert not [cell for cell in notebook["cells"] if "execution" in cell["metadata"]], "timing"


def test_every_text_has_its_notebook():
    missing = [str(target) for target in targets(REPOSITORY) if target.notebook not in COMMITTED]
    assert not missing, f"never made: {', '.join(missing)}. Run: make notebooks"


# --- what is found ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The tiny book, with records as its execution would leave them."""
    root = write_book(tmp_path_factory.mktemp("recorded"))
    for target in targets(root):
        notebook = draft(target)
        read = (
            [str((root / "results" / "numbers" / "table.csv").resolve())] if target.kind == "chapter" else []
        )
        modules = ["ppobook", "ppobook.toy", "ppobook.twice"]
        notebook["metadata"] = {
            **METADATA,
            "ppobook": record(notebook, modules, read, root),
        }
        notebooks.write(notebook, target.notebook)
    return root


@pytest.fixture
def book(recorded, tmp_path):
    return Path(shutil.copytree(recorded, tmp_path / "book"))


LAST_CELL = '\n```{code-cell} ipython3\n:tags: [nbval-check-output]\n\nset("abc")\n```\n'
PRINTED = '{"output_type": "stream", "name": "stdout", "text": "x"}'


def said(book):
    return stale(book / "chapters" / "01_tiny.ipynb", book)


def test_nothing_changed_nothing_said(book):
    for target in targets(book):
        assert stale(target.notebook, book) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("lib/ppobook/toy.py", "twice.TWO * x", "x * twice.TWO", "lib/ppobook/toy.py changed"),
        ("results/numbers/table.csv", "3", "4", "results/numbers/table.csv changed"),
        ("constraints.txt", "2.0", "2.1", "constraints.txt pins other versions"),
        (
            "chapters/01_tiny.md",
            "One paragraph",
            "A paragraph",
            "it differs from chapters/01_tiny.md in cell 1",
        ),
        (
            "chapters/01_tiny.md",
            "toy.double(21)",
            "toy.double(2)",
            "its code cells changed since it was executed",
        ),
        ("chapters/01_tiny.md", LAST_CELL, "", "it has 7 cells, and chapters/01_tiny.md makes 6"),
        (
            "chapters/01_tiny.ipynb",
            '"outputs": []',
            f'"outputs": [{PRINTED}]',
            "its outputs are not the ones",
        ),
        ("chapters/01_tiny.ipynb", '"ppobook": {', '"other": {', "it has no record"),
        ("book.yml", "arithmetic", "algebra", "in cell 2"),
    ],
)
def test_a_change_is_found_and_named(book, file, old, new, sentence):
    replace(book / file, old, new)
    found = said(book)
    assert any(line.startswith("chapters/01_tiny.ipynb: ") and sentence in line for line in found), found


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("lib/ppobook/toy.py", '"""Twice x."""', '"""Two times x.\n\n    With care.\n    """'),
        ("lib/ppobook/toy.py", "    return twice", "    # why not\n    return twice"),
        ("lib/ppobook/unused.py", "imports this", "reads this"),
        ("constraints.txt", "# pins", "# exact pins"),
    ],
)
def test_what_changes_no_output_is_not_told(book, file, old, new):
    replace(book / file, old, new)
    assert said(book) == []


def test_an_edited_master_makes_both_of_its_notebooks_stale(book):
    replace(book / "exercises/masters/01_tiny.md", "Double it.", "Double it, please.")
    assert all(stale(target.notebook, book) for target in targets(book)[1:])
    assert said(book) == []


# --- the digest of a module ---------------------------------------------------------------------------------

# Everything in which the trees of Python 3.11, 3.12 and 3.13 are known to differ, and then some.
SYNTAX = '''"""A module."""
import a.b as c
from . import d


@decorated
async def f(x, /, y: int = 1, *args, z=None, **kw) -> "str":
    """Docstring."""
    async with x as y, z:
        return f"a" f"{x!r:>{y}.2f}" "b" f"{x=}" f"{{}}" f"" f"{x:%H:%M}" f"{x:}"


class C(c.Base, metaclass=M):
    field: int = 1
    """A remark."""

    def g(self):
        pass


match f:
    case {"a": [1, *rest], **others} if rest:
        lambda: (yield)
    case C(x=1) | None:
        del rest
try:
    x = [i async for i in y if i] if (n := 1.0) else {**a, "b": b"c"}
except* ValueError:
    raise
print(f"{x:{'>'}{10}}", u"x", 1_000, 1e3, True, ..., 1j, x[1:2, ...], "\\N{BULLET}")
'''


def test_the_digest_of_a_module_is_the_same_on_every_python():
    # Worked out on 3.11, 3.12 and 3.13; a Python that says otherwise would call every notebook stale.
    assert code_digest(SYNTAX) == "06b46436692982b4"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = 1.0"),
        ("def f(x, y): pass", "def f(x, *, y): pass"),
        ("x = f'{a}b'", "x = f'{a}c'"),
        ("x = -0.0", "x = 0.0"),
    ],
)
def test_a_change_of_meaning_changes_the_digest(one, other):
    assert code_digest(one) != code_digest(other)
