"""Notes for an instructor: what looks copied or reaches for the checks, and what does not."""

import json

import pytest

from ppobook.course import masters
from ppobook.course.looks import looks
from ppobook.course.pack import Pack
from ppobook.course.safe_text import line, plain

PUBLIC = """def double(x, weights):
    \"\"\"Twice x.\"\"\"
    total = 0.0
    for entry, weight in zip(x, weights):
        if weight > 0:
            total += 2 * entry * weight
    return total / max(len(x), 1)
"""
OWN = """def double(x, weights):
    kept = [2 * e * w for e, w in zip(x, weights) if w > 0]
    return sum(kept) / max(len(x), 1)
"""
CELLS = [
    ("from ppobook.teaching import check\nfrom ppobook.objectives import value_loss as _loss", ()),
    ("def double(x, weights):\n    raise NotImplementedError", ("solution:double",)),
    ("check('double', double)", ("test:double:2",)),
]


def notebook(solution=None, *more):
    rows = [(CELLS[1][0] if solution is None else solution, CELLS[1][1])]
    rows = [CELLS[0], *rows, *((source, ()) for source in more), CELLS[2]]
    cells = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {"tags": [*tags]}, "source": source, "outputs": []}
        for i, (source, tags) in enumerate(rows)
    ]
    return masters.notebook(cells)


PACK = Pack.of("week", notebook())


@pytest.mark.parametrize(
    ("solution", "more", "said"),
    [
        (OWN, (), ""),
        (None, (), ""),
        ("def double(", (), ""),
        (OWN, ("from ppobook.teaching import check\nprint(book_double(1))",), ""),
        (PUBLIC, (), "looks like the public solution of double"),
        (PUBLIC.replace("entry", "a").replace("total", "b"), (), "looks like the public solution of double"),
        (
            "def double(weights, x):\n"
            + "".join(f"    {one}\n" for one in PUBLIC.splitlines())
            + "    return double",
            (),
            "looks like the public solution of double",
        ),
        ("def double(x, weights):\n    return book_double(x, weights)", (), "calls `book_double`"),
        ("def double(x, weights):\n    return _loss(x, weights)", (), "uses `_loss`"),
        (OWN, ("f = book_double._form",), "looks at the form of a private variant (`_form`)"),
        (OWN, ("import ppobook.teaching.checks as L",), "imports `ppobook.teaching.checks`"),
        (OWN, ("from ppobook.course import variants",), "imports `ppobook.course`"),
    ],
)
def test_looks(solution, more, said):
    found = looks(PACK, json.dumps(notebook(solution, *more)).encode(), {"double": PUBLIC})
    assert bool(found) == bool(said), found
    assert said in " ".join(found)


def test_a_file_that_is_no_notebook_has_no_looks():
    assert looks(PACK, b"no", {}) == []


def test_what_a_terminal_and_a_page_show_stays_one_line_and_is_not_turned():
    assert line("a\x1b[2J\n1 graded\u202e\x07") == "a\ufffd[2J\ufffd1 graded\ufffd\ufffd"
    assert plain("a\u202eb\u2066") == "ab"
