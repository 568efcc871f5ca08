"""Notes for an instructor and similar answers: what was seen, and of honest students nothing."""

import json

import pytest
from filled_in import pack_of
from small_course import write_course
from tiny_book import replace

from ppobook.course import masters, packs
from ppobook.course.graders import open_grader
from ppobook.course.looks import Looks, page, similar
from ppobook.course.rebuild import rebuild

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


PACK = pack_of("week", notebook())


@pytest.mark.parametrize(
    ("solution", "more", "said"),
    [
        (OWN, (), ""),
        (None, (), ""),
        (OWN, ("from ppobook.teaching import style\nprint(double([1], [1]))",), ""),
        (OWN, ("import torch\nf = torch.compile(double).eval()",), ""),
        (f"%precision 4\n{OWN}", ("!ls\nprint?",), ""),
        ("def double(", (), ""),
        (f"x = {'-' * 3000}1\n{OWN}", (), ""),
        (f"x = {'+'.join(['y'] * 450)}\n{OWN}", (), ""),
        (f"x = 1\n{' ' * 10**6}x\n{OWN}", (), ""),
        (PUBLIC, (), "has the 4 lines of the book"),
        (f"%precision 4\n# mine\n{PUBLIC}".replace("    ", "  "), (), "has the 4 lines of the book"),
        (None, (PUBLIC,), "cell 3: has the 4 lines of the book"),
        (OWN, ("exec('y = 1')",), "uses `exec`"),
        (OWN, ("import base64\nbase64.b64decode('eA==')",), "decodes something (`b64decode`)"),
        (OWN, ("import ppobook.teaching.checks as L",), "imports `ppobook.teaching.checks`"),
    ],
)
def test_looks(solution, more, said):
    handed_in = json.dumps(notebook(solution, *more)).encode()
    found = Looks(PACK, [PUBLIC], [PACK.notebook]).of(handed_in)
    assert bool(found) == bool(said), found
    assert said in " ".join(found)


@pytest.mark.parametrize("form", ["{}", "\n{}  \r\n", "{}  # mine"])
def test_formatting_gives_no_note(form):
    given = notebook(None, "exec('y = 1')")
    cells = notebook(OWN, "exec( 'y = 1' )")["cells"]
    written = [cell | {"source": form.format(cell["source"]).replace("'", '"')} for cell in cells]
    handed_in = json.dumps({"cells": written}).encode()
    assert Looks(pack_of("week", given), [PUBLIC], [given]).of(handed_in) == []


def test_a_line_that_was_mended_in_what_was_handed_out_gives_no_note():
    given = notebook(PUBLIC.replace("2 * entry", "3 * entry"))
    handed_in = json.dumps(notebook(PUBLIC)).encode()
    assert Looks(pack_of("week", given), [PUBLIC], [given]).of(handed_in) == []


def test_a_dropped_exercise_and_one_of_the_earlier_pack_give_no_note(tmp_path):
    course = write_course(tmp_path)
    own = tmp_path / "exercises" / "90_doubling.md"
    dropped = '```{code-cell} ipython3\nexec("y = 1")\n```\n\nA hint.\n\n+++\n\n'
    replace(own, ":::{exercise} Why", f"{dropped}:::{{exercise}} Why")
    before = packs.release(course, "week-01")[0]
    handed_in = json.dumps(masters.fill(before.notebook, {"double": OWN})).encode()
    replace(own, dropped, "")
    now = packs.release(course, "week-01", replace=True)[0]
    assert Looks(now, [], [now.notebook]).of(handed_in) != []  # without what was handed out before
    assert Looks(now, [], [now.notebook, *packs.earlier(course, "week-01")]).of(handed_in) == []
    with open_grader(tmp_path, "week-01") as grade:  # nor is what was asked earlier an answer
        assert grade(handed_in, "ada", "a reason")["unclear"] == []
    assert "A hint." in rebuild(now.notebook, handed_in).unclear[0]


# --- similar answers ----------------------------------------------------------------------------------------

LONG = PUBLIC.replace(
    "    return", "    for k in range(3):\n        total -= weights[k] ** 2 / (1 + x[k])\n    return"
)


def test_equal_and_nearly_equal_answers_are_listed_and_no_others():
    renamed = LONG.replace("total", "s").replace("entry", "e").replace("    ", "  ") + "# my own\n"
    nearly = LONG.replace("range(3)", "range(4)")
    handed_in = {
        "ada": LONG,
        "bob": renamed,
        "eve": nearly,
        "mel": OWN,
        "zoe": LONG.replace("for k in range(3)", "for w in weights").replace("-= weights[k]", "*= w"),
        "ann": None,
        "tom": None,
        "sum": f"{LONG}\nx = {'+'.join(['y'] * 450)}",
        "deep": f'f"""{{x:\n{"-" * 10000}1 #}}"""',
        "end": f'f"""{{x:\na=1 #}}"""\n{LONG}',
    }
    content = {who: json.dumps(notebook(source)).encode() for who, source in handed_in.items()}
    found = similar(PACK, content | {"kim": b"no notebook"})
    assert [one.students for one in found] == [("ada", "bob"), ("ada", "eve")]
    assert (found[0].share, found[0].sources) == (1.0, (LONG, renamed))
    assert 0.8 <= found[1].share < 1
    assert "<b>bob</b><pre>def double" in page("Similar", found)


def test_answers_in_cells_of_the_students_own_are_compared_too():
    handed_in = {"ada": notebook(LONG), "bob": notebook(None, LONG), "eve": notebook(OWN, "x = 1", LONG)}
    found = similar(PACK, {who: json.dumps(one).encode() for who, one in handed_in.items()})
    assert [(one.part, one.students) for one in found] == [("double", ("ada", "bob", "eve"))]
    found = similar(PACK, {who: json.dumps(handed_in[who]).encode() for who in ("bob", "eve")})
    assert [(one.part, one.students) for one in found] == [("other cells", ("bob", "eve"))]


def test_what_was_handed_out_is_not_what_answers_have_in_common():
    given = notebook(None, LONG)
    mended = json.dumps(notebook(LONG.replace("range(3)", "range(4)"), LONG)).encode()
    assert similar(pack_of("week", given), {"ada": mended, "bob": mended}) == []
