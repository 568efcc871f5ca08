"""The builder: the same bytes twice, an old notebook that stays whole, and everything that is refused."""

import copy
import shutil
from pathlib import Path

import pytest
from tiny_book import HEAD, replace, write_book

import notebooks
from notebook_builder.draft import draft
from notebook_builder.execution import hide_answers
from notebook_builder.refusals import FIGURE, WIDGETS, refusals
from notebook_builder.targets import BuildError, chosen, targets
from notebooks import build
from ppobook.course import masters

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tiny book with its three notebooks made, once for all tests."""
    root = write_book(tmp_path_factory.mktemp("made"))
    for target in targets(root):
        build(target)
    return root


@pytest.fixture
def book(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "book"))


def chapter(root):
    return targets(root)[0]


def cells(target):
    return masters.read(target.notebook)["cells"]


@pytest.fixture
def no_kernel(monkeypatch):
    """Fail where a notebook would be executed."""

    def refuse(*_):
        raise AssertionError("executed, and its outputs still stood")

    monkeypatch.setattr(notebooks, "execute", refuse)


# --- what is made -------------------------------------------------------------------------------------------


def test_the_same_bytes_twice(book):
    before = chapter(book).notebook.read_bytes()
    assert "executed" in build(chapter(book), force=True)
    assert chapter(book).notebook.read_bytes() == before


def test_the_chapter_has_its_text_its_box_and_its_outputs(made):
    title, box, _, first, *_ = cells(chapter(made))
    assert title["source"].startswith("# A tiny chapter")
    assert "double a number, twice" in box["source"]
    assert "arithmetic" in box["source"]
    assert "about 5 minutes to read, and up to 0.5 minutes to compute" in box["source"]
    assert "Deeper" not in box["source"]
    assert first["outputs"][0]["data"]["text/plain"] == ["('1,2,3', 42)"]


def test_a_name_means_the_chapter_and_its_exercises(made):
    def of(name):
        return [str(target) for target in chosen([name], made)]

    every = ["chapters/01_tiny.ipynb", "exercises/masters/01_tiny.ipynb", "exercises/01_tiny.ipynb"]
    assert of("01") == of("01_tiny") == every
    assert [str(target) for target in chosen([], made)] == every
    assert of("chapters/01_tiny.md") == of("exercises/01_tiny.ipynb") == every
    with pytest.raises(BuildError, match="'02' is no notebook of the book; there are 01_tiny"):
        chosen(["02"], made)


# --- when outputs are kept ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_kernel")
def test_what_is_up_to_date_is_not_executed_and_not_written(book):
    for target in targets(book):
        before = target.notebook.stat().st_mtime_ns
        assert build(target) == "up to date"
        assert target.notebook.stat().st_mtime_ns == before


@pytest.mark.usefixtures("no_kernel")
def test_an_edit_of_the_text_alone_keeps_the_outputs(book):
    before = [cell.get("outputs") for cell in cells(chapter(book)) if cell["cell_type"] == "code"]
    replace(chapter(book).source, "One paragraph.", "Another paragraph.")
    replace(chapter(book).source, "one grey dot", "a dot, and it is grey")
    assert build(chapter(book)) == "new text, outputs kept"
    after = cells(chapter(book))
    assert [cell["outputs"] for cell in after if cell["cell_type"] == "code"] == before
    assert "Another paragraph." in after[0]["source"]
    assert after[5]["metadata"]["mystnb"]["image"]["alt"] == "a dot, and it is grey"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("chapters/01_tiny.md", "toy.double(21)", "toy.double(22)"),
        ("lib/ppobook/twice.py", "2", "3"),
        ("results/numbers/table.csv", "1,2,3", "1,2,4"),
        ("constraints.txt", "2.0", "2.1"),
        ("chapters/01_tiny.ipynb", "'1,2,3'", "'1,2,5'"),
    ],
)
@pytest.mark.usefixtures("no_kernel")
def test_a_change_that_outputs_depend_on_executes_again(book, file, old, new):
    replace(book / file, old, new)
    with pytest.raises(AssertionError, match="executed"):
        build(chapter(book))


# --- an old notebook stays whole ----------------------------------------------------------------------------


def test_a_failing_cell_is_shown_and_the_old_notebook_stays(book):
    before = chapter(book).notebook.read_bytes()
    replace(chapter(book).source, "toy.double(21)", "toy.double(1 / 0)")
    with pytest.raises(BuildError) as error:
        build(chapter(book))
    assert "cell 4 failed with ZeroDivisionError" in str(error.value)
    assert "toy.double(1 / 0)" in str(error.value)
    assert "\x1b" not in str(error.value)
    assert chapter(book).notebook.read_bytes() == before


# --- exercises ----------------------------------------------------------------------------------------------


def test_the_master_is_executed_and_the_reader_gets_blanks(made):
    _, master, reader = targets(made)
    solved, blank = cells(master), cells(reader)
    assert solved[4]["outputs"][0]["text"] == ["✓ Right\n"]
    assert 'raise NotImplementedError("not yet: double")' in blank[3]["source"]
    assert [cell["id"] for cell in solved] == [cell["id"] for cell in blank]
    assert blank[1]["outputs"], "a picture of the problem is the reader's too"
    assert not blank[4]["outputs"]
    text = reader.notebook.read_text(encoding="utf-8")
    for secret in ("the secret", "double(7)", "addition", "# hidden"):
        assert secret not in text
        assert secret in master.notebook.read_text(encoding="utf-8")


def test_a_cell_that_needs_an_answer_is_refused_in_the_readers_notebook(book):
    _, master, reader = targets(book)
    with open(master.source, "a", encoding="utf-8") as file:
        file.write("\n```{code-cell} ipython3\ndouble(100)\n```\n")
    with pytest.raises(
        BuildError, match=r"(?s)before the reader has solved anything, cell 8 failed.*Run all"
    ):
        build(reader)


def executed_reader(book, outputs):
    notebook = draft(targets(book)[2])
    notebook["metadata"] = {"ppobook": {}}
    notebook["cells"][4]["outputs"] = outputs
    return notebook


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ([], "the check passes"),
        ([{"output_type": "error", "ename": "NotRight", "evalue": "", "traceback": []}], "raises NotRight"),
    ],
)
def test_a_check_that_does_not_say_not_yet_is_refused(book, outputs, said):
    with pytest.raises(
        BuildError,
        match=rf"cell 5 \(test:double\): on the blank {said.replace('raises', 'the check raises')}",
    ):
        hide_answers(executed_reader(book, outputs))


# --- what is refused ----------------------------------------------------------------------------------------


def code_cell(data=None, text=None, source="", **metadata):
    outputs = [] if data is None else [{"output_type": "display_data", "metadata": {}, "data": data}]
    if text is not None:
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    return {
        "cell_type": "code",
        "id": "bad",
        "metadata": metadata,
        "source": source,
        "execution_count": 1,
        "outputs": outputs,
    }


def text_cell(source):
    return {"cell_type": "markdown", "id": "bad", "metadata": {}, "source": source}


PNG = {"image/png": "aGVsbG8=", "text/plain": "<Figure>"}
BAD = {
    "a figure without alt text": (code_cell(PNG), "its figure has no alt text"),
    "blank alt text": (code_cell(PNG, mystnb={"image": {"alt": " "}}), "its figure has no alt text"),
    "svg without alt text": (code_cell({"image/svg+xml": "<svg/>"}), "its figure has no alt text"),
    "an interactive figure without alt text": (
        code_cell({**PNG, FIGURE: {"module": "baseline", "state": {}, "alt": ""}}),
        "its interactive figure has no alt text",
    ),
    "html picture": (code_cell({"text/html": "<p><img src='x.png'></p>"}), "an <img> without alt text"),
    "markdown picture": (text_cell("See ![](x.png)."), "its picture has no alt text"),
    "figure directive": (text_cell(":::{figure} x.png\nA caption\n:::"), "its figure has no alt text"),
    "markdown html picture": (text_cell("<img src='x.png'/>"), "its <img> has no alt text"),
    "home": (code_cell(text="saved to /home/ada/runs/1"), "a path of this machine"),
    "mac": (code_cell(text="in /Users/ada/x"), "a path of this machine"),
    "windows": (code_cell(text=r"in C:\Users\ada\x"), "a path of this machine"),
    "this checkout": (code_cell({"text/html": f"<b>{REPOSITORY}</b>"}), "a path of this machine"),
    "a warning": (code_cell(text="lib/site-packages/x.py:1: UserWarning"), "a path of this machine"),
    "a traceback": (code_cell(text='File "ipykernel_123/5.py"'), "a path of this machine"),
    "an address": (code_cell({"text/plain": "<Thing at 0x7f3a5c0>"}), "an address in memory"),
    "a widget": (code_cell({WIDGETS[0]: {}}), "holds a widget"),
    "too large": (code_cell(text="x" * 1_000_001), "1 MB is the limit"),
}
GOOD = {
    "a figure with alt text": code_cell(PNG, mystnb={"image": {"alt": "two curves"}}),
    "an interactive figure": code_cell({**PNG, FIGURE: {"module": "b", "state": {}, "alt": "a slider"}}),
    "html picture": code_cell({"text/html": "<img src='x.png' alt='a dot'>"}),
    "markdown pictures": text_cell("![a dot](x.png)\n\n:::{figure} x.png\n:alt: a dot\n:::"),
    "code about pictures": text_cell("```md\n![](x.png)\n```"),
    "links": code_cell(text="https://example.org/home/ada and results/a.csv, 1/2, C: and 50 % at 0x2a"),
    "the tag": code_cell(tags=["nbval-check-output", "hide-input"]),
}


def with_cell(cell):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [copy.deepcopy(cell)]}


@pytest.mark.parametrize("case", BAD)
def test_a_planted_fault_is_refused(case):
    cell, sentence = BAD[case]
    said = refusals(with_cell(cell))
    assert len(said) == 1
    assert sentence in said[0]


@pytest.mark.parametrize("case", GOOD)
def test_what_is_right_is_not_refused(case):
    assert refusals(with_cell(GOOD[case])) == []


# --- book.yml -----------------------------------------------------------------------------------------------


# --- the desk -----------------------------------------------------------------------------------------------

DESK = """# A desk

See {ref}`ex-double`.

```{code-cell} ipython3
from ppobook import toy

toy.double(21)
```
"""


def test_a_notebook_of_the_desk_is_executed_and_keeps_no_outputs(book):
    (book / "desk").mkdir()
    (book / "desk" / "desk.md").write_text(HEAD + DESK, encoding="utf-8")
    target = targets(book)[-1]
    assert str(target) == "desk/desk.ipynb"
    assert "executed" in build(target)
    text, code = cells(target)
    assert "../exercises/01_tiny.ipynb" in text["source"]
    assert (code["outputs"], code["execution_count"]) == ([], None)
    # Nothing that it shows depends on the library; so a change there leaves it as it is.
    replace(book / "lib/ppobook/twice.py", "2", "3")
    assert build(target) == "up to date"
    replace(target.source, "toy.double(21)", "toy.double(1 / 0)")
    with pytest.raises(BuildError, match="ZeroDivisionError"):
        build(target)
