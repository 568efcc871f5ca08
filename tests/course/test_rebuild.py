"""A submission in the form of its pack: whatever was done to its cells, only the student's code is new."""

import copy
import json

import pytest

from ppobook.course.needed import needed
from ppobook.course.rebuild import RunCell, Unreadable, rebuild


def cell(name, source, *tags, kind="code"):
    made = {"cell_type": kind, "id": name, "metadata": {"tags": list(tags)}, "source": source}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def words(text, name="words", *tags):
    return cell(name, text, *tags, kind="markdown")


BLANK = 'def twice(x):\n    raise NotImplementedError("not yet: twice")'
PACK = {
    "cells": [
        words("# Week 1", "title"),
        cell("imports", "import math"),
        cell("blank", BLANK, "solution:twice"),
        cell("test", 'check("twice", twice)', "test:twice:2"),
        words("*Your answer*", "essay", "manual:why:3"),
        cell("show", "print(twice(3))"),
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
ANSWER = "def twice(x):\n    return 2 * x"


def submitted(change=lambda cells: cells, answer=ANSWER, **top):
    """A notebook in which the answer was written, and then this was done to its cells."""
    notebook = copy.deepcopy(PACK)
    notebook["cells"][2]["source"] = answer
    notebook["cells"] = change(notebook["cells"])
    return json.dumps(notebook | top).encode()


def ran(data):
    return [(c.kind, c.source) for c in rebuild(PACK, data).cells]


WANTED = [
    ("pack", "import math"),
    ("solution", ANSWER),
    ("pack", 'check("twice", twice)'),
    ("pack", "print(twice(3))"),
]


def test_a_submission_as_it_should_be():
    found = rebuild(PACK, submitted())
    assert [(c.kind, c.source) for c in found.cells] == WANTED
    assert found.cells[2].tests == "twice"
    assert not found.missing + found.unclear
    assert found.texts == {"why": ""}


def without(*names):
    return lambda cells: [c for c in cells if c["id"] not in names]


CHANGES = {
    "test deleted": without("test", "imports", "title", "show"),
    "moved": lambda cells: [*cells[3:], *cells[:3]],
    "ids renamed": lambda cells: [c | {"id": f"new-{c['id']}"} for c in cells],
    "ids and tags gone": lambda cells: [c | {"metadata": {}, "id": None} for c in cells],
    "tags edited": lambda cells: [c | {"metadata": {"tags": ["test:twice:99"]}} for c in cells],
    "no metadata": lambda cells: [{k: v for k, v in c.items() if k != "metadata"} for c in cells],
    "line ends": lambda cells: [c | {"source": c["source"].replace("\n", "\r\n")} for c in cells],
    "sources as lists": lambda cells: [c | {"source": c["source"].splitlines(True)} for c in cells],
    "blank doubled": lambda cells: [cells[0], PACK["cells"][2], *cells[1:]],
    "odd things between": lambda cells: [7, None, [], *cells, {"cell_type": 3, "source": {"a": 1}}],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_done_to_cells_makes_no_difference(change):
    assert ran(submitted(change)) == WANTED


def test_a_test_that_was_edited_is_as_it_was_and_the_edit_runs_behind_it():
    edited = submitted().replace(b'check(\\"twice\\", twice)', b"check = print")
    assert ran(edited)[2:4] == [WANTED[2], ("own", "check = print")]


def test_own_cells_stay_in_their_places():
    def change(cells):
        helper = cell("mine", "def helper(): pass")
        other = cell("b", "y = 1")
        return [helper, *cells[:2], other, *cells[2:5], words("And more."), cells[5]]

    found = rebuild(PACK, submitted(change))
    own = {place: c.source for place, c in enumerate(found.cells) if c.kind == "own"}
    assert own == {0: "def helper(): pass", 2: "y = 1"}
    assert found.texts["why"].endswith("And more.")


def typed_anew(*names, source=None):
    """Cells that were typed anew: their ids, tags and metadata are gone."""

    def change(cells):
        made = [c | {"id": "new", "metadata": {}} if c["id"] in names else c for c in cells]
        return [c | ({"source": source} if source and c["id"] == "new" else {}) for c in made]

    return change


def essay(*cells):
    """Return the text in the place of the cell for the essay."""
    return lambda had: [*had[:4], *cells, *had[5:]]


@pytest.mark.parametrize(
    ("change", "text", "unclear"),
    [
        (typed_anew("essay", source="My proof."), "My proof.", []),
        (typed_anew("essay", "test", "show", source="My proof."), "My proof.", []),
        (essay(words("One.", "a"), words("Two.", "b")), "One.\n\nTwo.", []),
        (essay(words("My proof."), PACK["cells"][4]), "My proof.", []),
        (essay(cell("a", "# My proof.")), "# My proof.", []),
        (lambda had: [words("My proof."), *had], "", ["Cell 1:\n\nMy proof."]),
        (lambda had: [had[0] | {"source": "# Week 1\nSo."}, *had[1:]], "", ["Cell 1:\n\n# Week 1\nSo."]),
    ],
    ids=["typed anew", "with others", "two cells", "above it", "as code", "elsewhere", "in the statement"],
)
def test_no_answer_in_text_is_lost(change, text, unclear):
    found = rebuild(PACK, submitted(change))
    assert (found.texts["why"], found.unclear, found.missing) == (text, unclear, [])


def test_a_deleted_answer_cell_is_named():
    found = rebuild(PACK, submitted(without("essay")))
    assert (found.missing, found.unclear, found.texts.get("why", "")) == (["why"], [], "")
    elsewhere = words("Why? Because.")
    found = rebuild(PACK, submitted(lambda had: [elsewhere, *had[:4], *had[5:]]))
    assert (found.missing, found.unclear) == (["why"], ["Cell 1:\n\nWhy? Because."])
    # Where every answer has a text, other texts are only notes.
    written = essay(PACK["cells"][4] | {"source": "Because."})
    assert rebuild(PACK, submitted(lambda had: [elsewhere, *written(had)])).unclear == []
    emptied = rebuild(PACK, submitted(essay(PACK["cells"][4] | {"source": ""})))
    assert (emptied.missing, emptied.texts) == ([], {"why": ""})


def test_what_an_earlier_pack_asked_is_nobodys_answer():
    def asked(name):
        return words(f"Prove {name}.", f"{name}-text"), words("…", name, f"manual:{name}:2")

    first, *others = PACK["cells"]
    cells = [first | {"source": "# Week 1, 9 points"}, *others[:3], *asked("a"), others[3], *asked("b")]
    earlier = PACK | {"cells": cells}
    blank = json.dumps(earlier).encode()
    found = rebuild(PACK, blank, [earlier])
    assert (found.texts, found.missing, found.unclear) == ({"why": ""}, [], [])
    assert [(c.kind, c.source) for c in found.cells if c.kind != "solution"] == [WANTED[0], *WANTED[2:]]
    answered = blank.replace(b"*Your answer*", b"So.").replace(b"\\u2026", b"A proof.")
    assert rebuild(PACK, answered, [earlier]).texts == {"why": "So."}
    assert rebuild(PACK, submitted(essay(words("So."))), [earlier]).texts == {"why": "So."}


def test_code_that_lost_its_metadata_is_found_by_its_place():
    plain = "print('no function at all')"
    assert ran(submitted(typed_anew("blank", source=plain)))[1] == ("solution", plain)


def test_a_function_in_another_cell_is_found():
    moved = submitted(lambda cells: [*without("blank")(cells), cell("other", ANSWER)])
    assert ran(moved) == [WANTED[0], *WANTED[2:], ("own", ANSWER)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (submitted()[:400], "truncated"),
        (b"[1, 2]", "no notebook"),
        (b'{"cells": 7}', "no notebook"),
        (b"[" * 100_000, "no notebook"),
        (b" " * (20 * 2**20 + 1), "at most 20 MB, 2000 cells and 1 MB of code"),
        (b'{"cells": [' + b",".join([b"1"] * 3000) + b"]}", "at most 20 MB"),
        (submitted(lambda cells: [*cells, cell("mine", "x = 1\n" * 2**18)]), "at most 20 MB"),
    ],
    ids=["cut", "list", "number", "deep", "large", "many", "code"],
)
def test_what_is_no_notebook_is_refused_in_a_sentence(data, said):
    with pytest.raises(Unreadable, match=said):
        rebuild(PACK, data)


# --- what of the pack's code is run

GIVEN = """import math
import numpy as np

def helper(x):
    return table[x] + math.pi

table = {1: 2}
table.update(a=3)
shown = [helper(i) for i in range(10**9)]
print(shown)
np.random.seed(0)"""


def kept(*cells):
    return [c.source.split("\n") for c in needed(list(cells))]


def test_only_what_somebody_needs_is_run():
    (given, *_) = kept(RunCell("pack", GIVEN), RunCell("solution", "def f(x): return helper(x) + np.pi"))
    assert "shown = [helper(i) for i in range(10**9)]" not in given
    assert "print(shown)" not in given
    assert {"import math", "def helper(x):", "table = {1: 2}", "table.update(a=3)"} <= set(given)
    assert "np.random.seed(0)" in given
    assert given.index("def helper(x):") == GIVEN.split("\n").index("def helper(x):")


@pytest.mark.parametrize("source", ["globals()['shown']", "eval('shown')", "%time shown", "shown ="])
def test_where_names_cannot_be_seen_more_is_run(source):
    given = kept(RunCell("pack", GIVEN), RunCell("own", source))[0]
    assert "shown = [helper(i) for i in range(10**9)]" in given


@pytest.mark.parametrize(
    "source", ["a", "def f(): return a", "lambda b=a: b", "class C:\n    b = a", "f'{a}'"]
)
def test_a_name_that_is_read_anywhere_is_needed(source):
    assert kept(RunCell("pack", "a = 1"), RunCell("own", source))[0] == ["a = 1"]
