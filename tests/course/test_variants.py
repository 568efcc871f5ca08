"""Private variants: what each part declares, and that it can be solved, and not by what is public."""

from __future__ import annotations

import ast
import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checks import Exercises
from course_form import course_form, covering, wrong_answers

from ppobook.course import masters
from ppobook.course.variants import Option, Variant, book_form, declared, draw, lettered, units, variant
from ppobook.course.variants.declarations import function_of
from ppobook.course.variants.drawing import renamed
from ppobook.teaching import checks

MASTERS = sorted((Path(__file__).parents[2] / "exercises" / "masters").glob("*.md"))
# Public solutions and mistakes get arguments that they were not written for.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
TRAINS = "capstone-learning"  # its check trains for half a minute


class Set(Exercises):
    """The exercises of one master, with what its parts declare."""

    def __init__(self, master: Path) -> None:
        self.master = master
        self.solutions = {n: s for n, s in masters.solutions(master).items() if s.kind == "code"}
        self.declared = DECLARED[master]
        self.notebook = masters.read(master)
        self.reader = masters.reader(self.notebook)
        self.space = self.namespace()
        for solution in self.solutions.values():
            exec(solution.source, self.space)

    def run(self, variant: Variant, source: str) -> checks.Verdict:
        """The check's verdict on a cell that was handed in for this variant."""
        space = dict(self.space)
        exec(source, space)
        return checks.run(variant.declaration.part, variant.adapter(space[variant.declaration.function]))


@cache
def opened(master: Path) -> Set:
    return Set(master)


DECLARED = {path: declared(path) for path in MASTERS}
PARTS = [(path, part) for path in MASTERS for part in DECLARED[path]]
each_part = pytest.mark.parametrize(("master", "part"), PARTS, ids=[part for _, part in PARTS])
QUICK = [(path, part) for path, part in PARTS if part != TRAINS]
each_quick_part = pytest.mark.parametrize(("master", "part"), QUICK, ids=[part for _, part in QUICK])


# --- what is declared


@pytest.mark.parametrize("master", MASTERS, ids=[path.stem for path in MASTERS])
def test_every_part_with_a_check_says_what_may_vary(master: Path) -> None:
    assert set(DECLARED[master]) == set(opened(master).solutions)


def test_few_parts_are_for_practice_only_and_most_have_many_variants() -> None:
    counts = [DECLARED[path][part].count for path, part in PARTS]
    assert counts.count(0) <= 10
    assert sum(count < 6 for count in counts) <= 10


# --- that it can be solved, and not by what is public


@each_quick_part
def test_the_reference_passes_and_the_public_solution_does_not(master: Path, part: str) -> None:
    exercises, public = opened(master), opened(master).solutions[part].source
    for one in covering(exercises.declared[part]):
        verdict = exercises.run(one, one.reference(public))
        assert verdict.right, f"{one}\n{verdict.message}"
        assert not exercises.run(one, public).right, one
        # The public lines below the signature that the pack has.
        function = function_of(public)
        lines = public.splitlines()[function.body[0].lineno - 1 :]
        assert not exercises.run(one, "\n".join([_signature(one, public), *lines])).right, one


def _signature(variant: Variant, public: str) -> str:
    start = variant._start(public)
    function = function_of(start)
    return "\n".join(start.splitlines()[function.lineno - 1 : function.body[0].lineno - 1])


WRONG = wrong_answers()


@each_quick_part
def test_a_mistake_is_a_mistake_in_every_form(master: Path, part: str) -> None:
    exercises = opened(master)
    # What is changed in place is then the course's copy.
    known = [n for n in sorted(WRONG[part]) if "overwritten" not in n and "in place" not in n]
    one = draw("a course", "week-01", part, exercises.declared[part])
    for name in known[:: max(1, len(known) // 2)][:2]:
        verdict = checks.run(part, one.adapter(course_form(WRONG[part][name], one.form)))
        assert not verdict.right, name


BUGS = [
    pytest.param(path, part, option, id=f"{part}-{option.bug}")
    for path, part in PARTS
    for options in DECLARED[path][part].choices
    for option in options
    if option.bug
]


@pytest.mark.parametrize(("master", "part", "option"), BUGS)
def test_another_bug_that_is_planted_is_a_bug(master: Path, part: str, option: Option) -> None:
    exercises = opened(master)
    one = next(v for v in covering(exercises.declared[part]) if option in v.options)
    cells = opened(master).notebook["cells"]
    changed = []
    for cell in cells:
        if cell["cell_type"] == "code" and masters.part(cell) is None:
            old, new = (functions_in(text) for text in (cell["source"], replaced(cell["source"], option)))
            changed += [source for name, source in new.items() if source != old[name]]
    (source,) = changed
    space = dict(exercises.space)
    exec(source, space)
    assert not checks.run(part, space[function_of(source).name]).right
    assert "suspicious" in source or "perfect" in source
    # The hints of the book's bug are gone, and the text speaks of this one.
    applied = one.apply(opened(master).reader)
    exercise = next(e for e in masters.exercises(applied) if part in {p.name for p in e.parts})
    shown = "\n".join(c["source"] for c in applied["cells"][exercise.start : exercise.stop])
    assert "{dropdown}" not in shown
    assert source in shown


def functions_in(source: str) -> dict[str, str]:
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {f.name: ast.get_source_segment(source, f) or "" for f in functions}


def replaced(source: str, option: Option) -> str:
    for old, new in option.text:
        source = source.replace(old, new)
    return source


@each_part
def test_the_text_that_a_variant_changes_is_there(master: Path, part: str) -> None:
    declaration = opened(master).declared[part]
    notebook = opened(master).reader
    sources = [c["source"] for c in notebook["cells"] if getattr(masters.part(c), "role", "") != "test"]
    options = [option for row in declaration.choices for option in row]
    for old, _ in (*declaration.letters_text, *(pair for option in options for pair in option.text)):
        assert any(old in source for source in sources), old


@each_part
def test_all_that_a_variant_changes_is_changed(master: Path, part: str) -> None:
    """Also where one change is of words that stand in another's, as a title in a sentence."""
    for one in covering(opened(master).declared[part]):
        said = "\n".join(cell["source"] for cell in one.apply(opened(master).reader)["cells"])
        for old, new in one.text:
            # Calls are renamed as well, and a docstring gets another first line.
            assert new.lstrip('"') in said or "(" in new, (old, new)
            assert old not in said or old in new or not old.endswith("."), old


# --- what a student gets


@each_part
def test_a_pack_shows_the_form_and_nothing_of_the_solution(master: Path, part: str) -> None:
    exercises = opened(master)
    notebook = opened(master).reader
    one = draw("a course", "week-01", part, exercises.declared[part])
    kept = copy.deepcopy(notebook)
    applied = one.apply(notebook)
    assert notebook == kept
    cells = [c for c in applied["cells"] if masters.tags(c) == [f"solution:{part}"]]
    cells += [c for c in applied["cells"] if c.get("id") in (f"variant-{part}", f"form-{part}")]
    start, statement, *rest = (c["source"] for c in cells)
    assert one.statement.removeprefix("In this course") in statement
    shown = "\n".join([start, one.statement, one.note, *rest])
    assert_nothing_given_away(master, part, shown)
    for cell in applied["cells"]:
        if cell["cell_type"] == "code":
            ast.parse(cell["source"])
    # The check is given the book's form.
    test = next(
        c["source"]
        for c in applied["cells"]
        if getattr(masters.part(c), "role", "") == "test" and masters.part(c).name == part
    )  # type: ignore[union-attr]
    assert f'check("{part}", book_{one.declaration.function})' in test
    assert function_of(start).name == one.declaration.function
    assert tuple(a.arg for a in function_of(start).args.args)[: len(one.form.order)] == one.form.order


def assert_nothing_given_away(master: Path, part: str, shown: str) -> None:
    cell = next(
        c["source"] for c in opened(master).notebook["cells"] if f"solution:{part}" in masters.tags(c)
    )
    above, below = (re.sub(r"[ \t]+", "", half) for half in re.split(r"# solution\n", cell))
    for line in below.splitlines():
        code = line.removeprefix("return")
        if len(code) > 10 and code not in above:
            assert code not in re.sub(r"[ \t]+", "", shown), line


@pytest.mark.parametrize("master", MASTERS, ids=[path.stem for path in MASTERS])
def test_a_notebook_with_all_its_variants_can_be_solved(master: Path) -> None:
    exercises = opened(master)
    drawn = {part: draw("a course", "week-02", part, d) for part, d in exercises.declared.items()}
    notebook = opened(master).reader
    for one in drawn.values():
        notebook = one.apply(notebook)
    space, passed = exercises.namespace(), []
    for cell in notebook["cells"]:
        p = masters.part(cell)
        if p is not None and p.role == "solution":
            source = exercises.solutions[p.name].source
            exec(drawn[p.name].reference(source, drawn), space)
        elif cell.get("id", "").startswith("form-"):
            exec(cell["source"], space)
        elif p is not None and p.role == "test" and p.name != TRAINS:
            exec(next(line for line in cell["source"].splitlines() if line.startswith("check(")), space)
            passed.append(p.name)
    assert set(passed) == set(drawn) - {TRAINS}


def test_cells_that_call_the_function_call_it_in_the_books_form() -> None:
    source = "for x in f(1):\n    g(lambda f: f(2), f)  # é\n\ndef h(f=f):\n    return f(3)\n"
    assert renamed(source, {"f": "book_f"}) == (
        "for x in book_f(1):\n    g(lambda f: f(2), book_f)  # é\n\ndef h(f=book_f):\n    return f(3)\n"
    )


# --- drawing


def test_a_secret_gives_the_same_variant_twice_and_another_gives_another() -> None:
    for path, part in PARTS:
        declaration = DECLARED[path][part]
        assert draw("one", "week-01", part, declaration) == draw(b"one", "week-01", part, declaration)
        if declaration.count > 5:
            found = {draw(f"secret {i}", "week-01", part, declaration).number for i in range(20)}
            assert len(found) > 3, part
            weeks = {draw("one", f"week {i}", part, declaration).number for i in range(20)}
            assert len(weeks) > 3, part


def test_no_two_numbers_are_the_same_variant_and_none_is_the_books() -> None:
    for path, part in PARTS:
        declaration = DECLARED[path][part]
        numbers = range(min(declaration.count, 60))
        found = [variant(declaration, number) for number in numbers]
        assert len({(repr(one.form), one.text, one.letters) for one in found}) == len(found), part
        assert all(one.statement for one in found), part


def test_a_part_for_practice_cannot_be_drawn(tmp_path: Path) -> None:
    master = written(tmp_path, '[add]\npractice = "it is too short"')
    assert declared(master)["add"].count == 0
    with pytest.raises(ValueError, match="for practice: it is too short"):
        draw("one", "week-01", "add", declared(master)["add"])


MASTER = """---
kernelspec:
  name: python3
  display_name: Python 3
---

```{code-cell} ipython3
:tags: [solution:add]

def add(a, b, c=1):
    # solution
    return a + b + c
```
"""


def written(folder: Path, declarations: str) -> Path:
    master = folder / "01_small.md"
    master.write_text(MASTER, encoding="utf-8")
    (folder / "01_small.variants.toml").write_text(declarations, encoding="utf-8")
    return master


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[sub]", "part must be one of the master's, got 'sub'"),
        ('[add]\norder = "a c"', "order must name arguments without a default"),
        ('[add]\nturn = "a"', "no other words, got turn"),
        ('[add]\nchoices = [[{ d = "percent" }]]', "must name arguments or results, got d"),
        ('[add]\nchoices = [[{ a = "feet" }]]', "unit must be one of .*, got 'feet'"),
        ("[add]", "must vary something or say practice"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        declared(written(tmp_path, text))


def test_without_a_file_nothing_is_declared(tmp_path: Path) -> None:
    assert declared(tmp_path / "01_none.md") == {}


def test_a_part_that_is_not_in_the_notebook_is_said(tmp_path: Path) -> None:
    declaration = declared(written(tmp_path, '[add]\norder = "any"'))["add"]
    with pytest.raises(ValueError, match="must have the part 'add'"):
        variant(declaration, 0).apply({"cells": []})


# --- the adapter


@pytest.mark.parametrize("unit", sorted(units.UNITS))
def test_a_unit_has_a_way_back(unit: str) -> None:
    parameter, value = {
        "times": (":3", 0.3),
        "plus": (":2", 0.3),
        "flipped": ("", torch.tensor([True, False])),
        "not": ("", True),
        "logs": ("", torch.tensor([0.3, 0.7])),
        "exps": ("", torch.tensor([0.3, 0.7])),
        "softmax": ("", torch.tensor([0.3, 0.7]).log()),
        "swapped": ("", torch.rand(2, 3)),
        "reversed": ("", [1.0, 2.0, 3.0]),
        "axes": (":2,0,1", np.random.default_rng(0).random((2, 3, 4))),
        "columns": (":2,0,1", torch.rand(2, 3)),
        "places": (":2,0,1", {"a": [1, 2, 3]}),
        "turned": ("", (1.0, 2.0)),
        "middle": ("", (1.0, 2.0)),
        "width": ("", (1.0, 2.0)),
        "table": (":-2:3", {1: (1.0, 2.0)}),
        "costs": ("", torch.sin),
        "by-feature": ("", torch.sin),
        "slopes": (":3:-1", {(0.5, 1): (1.0, 0.0)}),
    }.get(unit, ("", 0.3))
    there = units.to_course(unit + parameter, value)
    back = units.to_book(unit + parameter, there)
    if callable(value):
        back, value = back(torch.eye(2)), value(torch.eye(2))
    if isinstance(value, dict):
        assert back == value
    else:
        np.testing.assert_allclose(back, value, rtol=1e-6)
    assert units.said(unit + parameter, "`x`")


def test_a_table_that_was_filled_by_hand_may_be_rows_and_each_may_begin_with_its_key() -> None:
    assert units.to_book("table:-3,-2:2", [(0.5, 2.0, 4.0, True)]) == [(0.5, 1.0, 2.0, True)]
    assert units.to_book("table:-3,-2:2", {0.5: (2.0, 4.0, True)}) == {0.5: (1.0, 2.0, True)}
    assert units.to_book("slopes:2:-1", [((0.5, 2), 4.0, -2.0), np.array([2.0, 0.0])]) == [
        ((0.5, 2), -2.0, 1.0),
        (-1.0, 0.0),
    ]


def test_gradients_and_types_go_through_an_adapter() -> None:
    called = book_form(
        lambda mask, logp, beta: -(logp[~mask] * beta).sum(),
        "logp beta mask",
        order="mask logp beta",
        arguments={"logp": "bits", "beta": "inverse", "mask": "flipped"},
        results={"result": "negated"},
    )
    logp = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
    value = called(logp, 0.5, torch.tensor([True, True, False]))
    (slope,) = torch.autograd.grad(value, logp)
    assert value.dtype == torch.float64
    np.testing.assert_allclose(slope, np.array([2.0, 2.0, 0.0]) / np.log(2))


def test_arguments_by_name_and_defaults_go_through_an_adapter() -> None:
    def course(b, a, eps=1.0, most=2):
        return a, b, eps, most

    called = book_form(course, "a b", optional="eps most", order="b a", arguments={"eps": "percent or none"})
    assert called(1, 2) == (1, 2, 1.0, 2)
    assert called(1, b=2, most=3) == (1, 2, 1.0, 3)
    assert called(1, 2, 0.5) == (1, 2, 50.0, 2)
    assert called(1, 2, eps=None) == (1, 2, None, 2)


def test_what_is_changed_in_place_is_changed_in_the_book_too() -> None:
    def course(x):
        x += 100.0

    for x in (torch.tensor([1.0]), np.array([1.0])):
        book_form(course, "x", arguments={"x": "percent"})(x)
        assert float(x[0]) == 2.0


def test_what_cannot_be_converted_is_refused_or_it_might_be_right_in_the_book() -> None:
    with_two = {"outputs": "a b", "returned": "b a", "results": {"a": "log"}}
    for value in (None, "seven", {}, (1, 2, 3)):
        assert book_form(lambda value=value: value, **with_two)() == value
    for value in ("seven", {}, (1, 2, 3), [..., 1.0]):
        with pytest.raises(checks.Stop, match=r"not in this course's form|an entry is still empty"):
            book_form(lambda value=value: value, results={"result": "log"})()
    assert book_form(lambda: None, results={"result": "log"})() is None


@pytest.mark.parametrize("several", [list, np.array, torch.tensor, iter, lambda pair: dict.fromkeys(pair)])
def test_several_results_are_put_in_order_however_they_come(several: Any) -> None:
    function = book_form(lambda: several((2.0, 3.0)), outputs="a b", returned="b a", results={"a": "times:3"})
    a, b = function()
    assert (float(a), float(b)) == (1.0, 2.0)


@pytest.mark.parametrize(
    "unit", ["negated", "percent", "swapped", "logs", "exps", "np-logs", "reversed", "columns:1,0", "times:3"]
)
def test_numbers_in_another_container_are_converted_too(unit: str) -> None:
    value = np.array([[0.2, 0.8], [0.6, 0.4]])
    wanted = np.asarray(units.to_book(unit, torch.tensor(value)))
    other: list[Any] = [value, value.tolist(), tuple(map(tuple, value.tolist())), value.astype(str).tolist()]
    other += [torch.tensor(value, requires_grad=True)]
    for one in other:
        found = units.to_book(unit, one)
        found = found.detach() if hasattr(found, "detach") else found
        np.testing.assert_allclose(np.asarray(found).astype(float), wanted)


def test_a_stumble_is_shown_with_the_students_line() -> None:
    exercises = opened(MASTERS[0])
    one = draw("a course", "week-01", "pg-loss", exercises.declared["pg-loss"])

    def stumbling(*args: Any) -> Any:
        return len(args) + undefined_name  # noqa: F821

    verdict = checks.run("pg-loss", one.adapter(stumbling))
    assert "len(args) + undefined_name" in verdict.message
    message = one.message(verdict.message)
    assert message.startswith(verdict.message)
    assert "the book's form, pg_loss(logp, advantages, mask). It returns the objective to *climb*" in message


def test_a_clinic_is_lettered_in_another_way_and_so_are_its_messages() -> None:
    ring = lettered("ABCDEF", 77)
    assert sorted(ring) == sorted(ring.values()) == list("ABCDEF")
    assert all(book != course for book, course in ring.items())
    (master,) = (path for path in MASTERS if path.stem == "06_clinic")
    one = draw("a course", "week-06", "clinic", DECLARED[master]["clinic"])
    course = one.form.keys["A"]
    verdict = checks.run("clinic", one.adapter(lambda: {course: "lr-low"}))
    message = one.message(verdict.message)
    assert f"{course}✗" in message
    assert f"case {course}," in message
    assert re.search(r"case ([A-J]),", verdict.message)[1] == "A"  # type: ignore[index]
