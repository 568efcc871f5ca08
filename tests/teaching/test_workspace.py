"""A reader's copies: made, refreshed while untouched, never overwritten; and starting an exercise over."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_book import replace, write_book

import notebooks
from notebook_builder.draft import draft
from notebook_builder.targets import targets
from ppobook.course import masters
from ppobook.course.masters import METADATA
from ppobook.teaching import workspace

EXERCISES = "exercises/01_tiny.ipynb"
CHAPTER = "chapters/01_tiny.ipynb"


def make(root):
    """Make the book's notebooks from their text, not executed: these tests are about copies."""
    for target in targets(root):
        notebook = draft(target)
        notebook["metadata"] = dict(METADATA)
        notebooks.write(notebook, target.notebook)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = write_book(tmp_path_factory.mktemp("made"))
    make(root)
    return root


@pytest.fixture
def book(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "book"))


@pytest.fixture
def work(book, capsys):
    workspace.sync(book / "work", book)
    capsys.readouterr()
    return book / "work"


def edit(path, change):
    """Do what a reader does in JupyterLab: change the notebook's cells, and save."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change(notebook["cells"])
    path.write_text(json.dumps(notebook), encoding="utf-8")


def sources(path):
    return [cell["source"] for cell in masters.read(path)["cells"]]


def answer(cells):
    cells[3]["source"] = ["def double(x):\n", "    return 2 * x"]


def publish(book):
    """A new version of the book: another sentence in the chapter and in the exercises."""
    replace(book / "chapters/01_tiny.md", "One paragraph.", "A better paragraph.")
    replace(book / "exercises/masters/01_tiny.md", "Double it.\n", "Double it, and think.\n")
    make(book)


# --- sync ---------------------------------------------------------------------------------------------------


def test_the_first_time_everything_is_copied_but_no_master(book, capsys):
    written = workspace.sync(book / "work", book)
    assert written == [book / "work" / CHAPTER, book / "work" / EXERCISES]
    for name in (CHAPTER, EXERCISES):
        assert sources(book / "work" / name) == sources(book / name)
    assert not (book / "work/exercises/masters").exists()
    assert capsys.readouterr().out == f"Copied to {book / 'work'}: {CHAPTER}, {EXERCISES}.\n"


def test_a_figure_has_its_number_and_caption_below_it(book):
    figure = {"figure": {"name": "fig-a", "caption": "What happened."}}
    edit(book / CHAPTER, lambda cells: cells[1]["metadata"].update(mystnb=figure))
    workspace.sync(book / "work", book)
    assert sources(book / "work" / CHAPTER)[2] == "**Figure 1.1.** What happened."
    assert workspace.sync(book / "work", book) == []


def test_the_diagrams_of_the_chapters_are_where_the_copies_look_for_them(book):
    diagram = book / "_static/diagrams/loop.svg"
    diagram.parent.mkdir(parents=True)
    diagram.write_text("<svg/>")
    workspace.sync(book / "work", book)
    assert (book / "work" / CHAPTER / "../../_static/diagrams/loop.svg").resolve().read_text() == "<svg/>"


def test_what_a_reader_wrote_is_never_overwritten(book, work, capsys):
    edit(work / EXERCISES, answer)
    mine = (work / EXERCISES).read_bytes()
    assert workspace.sync(work, book) == []
    assert "Kept as you left them: 1 of your notebooks." in capsys.readouterr().out
    publish(book)
    for _ in range(2):
        workspace.sync(work, book)
        assert (work / EXERCISES).read_bytes() == mine
        said = capsys.readouterr().out
        assert f"The book's version of {EXERCISES} has changed, and your copy has changes of your own" in said
        assert "give your copy another name and run this again" in said
        assert "ppobook reset exercises/01_tiny" in said


def test_an_untouched_copy_follows_the_book_also_after_it_was_run(book, work, capsys):
    def run(cells):
        cells[1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["mine\n"]}]
        cells[1]["execution_count"] = 5

    edit(work / EXERCISES, run)
    publish(book)
    assert workspace.sync(work, book) == [work / CHAPTER, work / EXERCISES]
    assert sources(work / EXERCISES) == sources(book / EXERCISES)
    assert f"you hadn't changed them: {CHAPTER}, {EXERCISES}." in capsys.readouterr().out
    assert workspace.sync(work, book) == []


@pytest.mark.parametrize("memory", [None, "{"])
def test_without_its_memory_nothing_is_lost(book, work, memory):
    edit(work / EXERCISES, answer)
    mine = (work / EXERCISES).read_bytes()
    path = work / workspace.MEMORY
    if memory is None:
        path.unlink()
    else:
        path.write_text(memory, encoding="utf-8")
    assert workspace.sync(work, book) == []
    assert (work / EXERCISES).read_bytes() == mine
    # The chapter is as in the book, so it is known again, and follows the book from here on.
    publish(book)
    assert workspace.sync(work, book) == [work / CHAPTER]


# --- reset --------------------------------------------------------------------------------------------------

BLANK = 'def double(x):\n    """Twice x."""\n    raise NotImplementedError("not yet: double")'


def answer_and_note(cells):
    answer(cells)
    cells[4]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["✓ Right\n"]}]
    cells[6]["source"] = "Because of addition."
    cells.insert(4, {"cell_type": "markdown", "id": "my-note", "metadata": {}, "source": "a note of mine"})


@pytest.mark.parametrize("name", ["double", "ex-double"])
def test_one_exercise_starts_over_and_the_rest_stays(book, work, capsys, name):
    edit(work / EXERCISES, answer_and_note)
    mine = (work / EXERCISES).read_bytes()
    backup = workspace.reset(name, work, book)
    assert backup.read_bytes() == mine
    assert backup.parent == work / "backups/exercises"
    cells = masters.read(work / EXERCISES)["cells"]
    assert cells[3]["source"] == BLANK
    assert cells[4]["source"] == "a note of mine"
    assert cells[5]["outputs"] == []
    assert cells[7]["source"] == "Because of addition."
    said = capsys.readouterr().out
    assert str(backup) in said
    assert "Reload Notebook from Disk" in said


def test_a_deleted_cell_comes_back_to_its_place(book, work):
    def delete(cells):
        del cells[3]

    edit(work / EXERCISES, delete)
    workspace.reset("double", work, book)
    assert sources(work / EXERCISES) == sources(book / EXERCISES)


@pytest.mark.parametrize("name", ["exercises/01_tiny", "work/exercises/01_tiny.ipynb"])
def test_a_whole_notebook_starts_over(book, work, name):
    edit(work / EXERCISES, answer_and_note)
    mine = (work / EXERCISES).read_bytes()
    backup = workspace.reset(name, work, book)
    assert backup.read_bytes() == mine
    assert sources(work / EXERCISES) == sources(book / EXERCISES)
    # From here on it is untouched, and follows the book again.
    publish(book)
    assert work / EXERCISES in workspace.sync(work, book)
