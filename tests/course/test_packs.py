"""Packs: what is in them, what is not, and that the same course gives the same bytes."""

import builtins
import contextlib
import dataclasses
import io
import json
import re
import zipfile

import nbformat
import pytest
from small_course import SECRET, write_course
from tiny_book import replace

from ppobook.cli import main
from ppobook.course import masters, packs, sets, work
from ppobook.course.records import named
from ppobook.course.sources import names as names_of
from ppobook.teaching.tags import part

SETS = list(sets.names())


def assigned(tmp_path, name, labels=(), more=""):
    """A course with one assignment of this set."""
    text = f"set: '{name}', exercises: [{', '.join(labels)}]{more}"
    return write_course(tmp_path, ("set: 90_doubling", text))


def make(course):
    return packs.make(course, course.assignments[0])


def sources(pack, kind=None):
    return [cell["source"] for cell in pack.notebook["cells"] if kind in (None, cell["cell_type"])]


def undefined(notebook):
    """The names that a notebook's cells use and no cell above defines."""
    defined, found = set(dir(builtins)), set()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and (names := names_of(cell["source"])):
            found |= names.used - names.defined - defined
            defined |= names.defined
    return found


# --- every set of the book ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_each_set_can_be_assigned_whole_and_exercise_by_exercise(name, tmp_path):
    whole = sets.open_set(name)
    chosen = [()]
    for one in whole.exercises:
        with contextlib.suppress(ValueError):  # it needs another
            chosen += [(one.label,)] * bool(sets.choose(whole, [one]))
    assert len(chosen) > len(whole.exercises) / 4
    for labels in chosen:
        pack = make(assigned(tmp_path, name, labels))
        exercises = [one for one in whole.exercises if not labels or one.label in labels]
        assert {one.exercise for one in pack.parts} <= {one.label for one in exercises}
        assert pack.points == sum(p.points or 0 for one in exercises for p in one.parts)
        assert undefined(pack.notebook) <= undefined(whole.notebook)
        assert all(sources(pack))
        text = "\n".join(sources(pack, "markdown"))
        # Nothing that JupyterLab can't show, and no link that leads nowhere.
        assert not re.search(r"\{(cite|cite:t|ref|numref)\}`|\]\(\.\./", text)
        for label in re.findall(r"\]\(#([\w-]+)\)", text):
            assert re.search(rf"^\({label}\)=|^ *:?(label|name): *{label}$", text, re.M), label
        for label in re.findall(r"\{eq\}`([\w-]+)`", text):
            assert re.search(rf"\({label}\)|label: *{label}", text), label


@pytest.mark.parametrize("name", SETS)
def test_no_solution_hidden_line_or_model_answer_is_in_a_whole_set_and_it_opens(name, tmp_path):
    master, pack = sets.open_set(name).notebook, make(assigned(tmp_path, name))
    text = json.dumps(pack.notebook, ensure_ascii=False)
    public = json.dumps(masters.reader(master), ensure_ascii=False)
    for solution in masters.solutions(master).values():
        pieces = solution.source.split("\n\n") if solution.kind == "text" else [solution.source]
        for piece in (json.dumps(one, ensure_ascii=False)[1:-1] for one in pieces if len(one) >= 40):
            assert piece not in text or piece in public
    for marker in ("# solution", "# hidden", "<!-- solution -->", SECRET, "/home/", str(tmp_path)):
        assert marker not in text
    assert all(not cell.get("outputs") for cell in pack.notebook["cells"])
    nbformat.validate(nbformat.reads(json.dumps(pack.notebook), as_version=4))


def test_an_exercise_that_needs_anothers_answer_is_refused_without_it(tmp_path):
    with pytest.raises(ValueError, match="must hold 'kl-in-loss' as well, for 'hunt-three' uses grpo_loss"):
        make(assigned(tmp_path, "08_grpo", ["hunt-three"]))
    pack = make(assigned(tmp_path, "08_grpo", ["hunt-three", "kl-in-loss", "grpo-token-loss"]))
    # In the set's order.
    assert [p.name for p in pack.tested] == ["grpo-token-loss", "kl-in-loss", "hunt-three"]


# --- sheets of several sets ---------------------------------------------------------------------------------


def test_a_sheet_mixes_the_books_exercises_with_the_courses_own(tmp_path):
    both = "03_the_clipped_surrogate, 90_doubling"
    course = assigned(tmp_path, both, ["clip-table-up", "double", "why"], ", points: {double: 5}")
    pack = packs.release(course, "week-01")[0]
    assert {one.name: one.points for one in pack.parts} == {"clip-table-up": 2, "double": 5, "why": 1.5}
    ids = [cell["id"] for cell in pack.notebook["cells"]]
    assert len(set(ids)) == len(ids)
    text = "\n".join(sources(pack))
    assert "The exercises come from chapter 3 of the book and your instructor." in text
    assert "double: this exercise is checked when you hand it in." in text
    assert ":::{exercise} Why" in named(pack.parts, "why").question
    assert named(pack.parts, "why").rubric == "The model answer: addition."
    with pytest.raises(ValueError, match="each part must be in it once, got one that two"):
        make(assigned(tmp_path, "03_the_clipped_surrogate, 03_the_clipped_surrogate", ["clip-table-up"]))


# --- what a student reads -----------------------------------------------------------------------------------


def test_the_front_says_points_date_policy_and_ai_use(tmp_path):
    course = write_course(tmp_path)
    pack = packs.make(course, course.assignments[1])
    front = sources(pack)[0]
    assert "**13 points** in total, due **2027-03-08 23:59 (Europe/Berlin)**" in front
    assert "Up to 15 minutes after the due time nothing is lost. For each day begun, 10 per cent" in front
    assert "| The clipped loss | Build | 15 | 4 |" in front
    assert "Say what you asked" in front
    introduction = sources(pack)[2]
    assert "There are four kinds" in introduction
    # What is not true of a pack.
    assert not re.search("Eighteen exercises|solution|model answer", introduction)


def test_the_first_code_cell_installs_the_library_or_names_it(tmp_path):
    assert "import ppobook" in sources(make(write_course(tmp_path)), "code")[0]
    course = write_course(tmp_path, ("title:", "book: https://git.example/me/book@v1\ntitle:"))
    source = sources(make(course), "code")[0]
    assert '"install", "-q", "ppobook[plot] @ git+https://git.example/me/book@v1"]' in source
    # The library is here: nothing is installed.
    exec(source.replace("subprocess.run", "raise AssertionError"), {})
    with zipfile.ZipFile(io.BytesIO(packs.zipped(course, make(course)))) as archive:
        *_, needed, versions = (archive.read(name).decode() for name in archive.namelist())
    assert needed.endswith("constraints.txt\nppobook[lab] @ git+https://git.example/me/book@v1\n")
    assert re.search(r"^torch==\d", versions, re.M)


def test_the_share_of_the_points_for_a_mistake_is_read_from_the_master_and_no_student_sees_it(tmp_path):
    course = write_course(tmp_path)
    own = tmp_path / "exercises" / "90_doubling.md"
    tag = ':tags: ["test:double:2", nbval-check-output]'
    replace(own, tag, f"{tag}\n:partial: {{squared: 0.5}}")
    pack = packs.release(course, "week-01")[0]
    assert named(packs.released(course, "week-01").parts, "double").partial == {"squared": 0.5}
    assert "squared" not in json.dumps(pack.notebook)


@pytest.mark.parametrize(
    ("name", "part"), [("10_final_assessment", "final-debug"), ("05_the_whole_of_ppo", "hunt-epochs")]
)
def test_the_rubric_is_about_the_bug_that_is_planted(tmp_path, name, part):
    found, course = sets.open_set(name), assigned(tmp_path, name, [part])
    book, said = masters.solutions(found.notebook)[f"{part}-why"].source, {}
    for number in range(12):
        drawn = dataclasses.replace(course, secret=f"{number:064}")
        pack = make(drawn)
        (form,) = packs.drawn(drawn, pack).values()
        said[form.bug] = form.rubric, named(pack.parts, f"{part}-why").rubric
    assert len(said) == 2
    for bug, (own, rubric) in said.items():
        generic = f"**In this course another bug is planted: {bug}.** What follows is about the book's."
        assert rubric == (own or f"{generic}\n\n{book}")


def test_the_solutions_are_those_of_the_variant_that_was_handed_out(tmp_path, capsys):
    course = assigned(tmp_path, "03_the_clipped_surrogate", ["clip-table-up", "hunt-minmax"])
    pack = packs.release(course, "week-01")[0]
    assert main(["course", "solutions", "week-01", "--course", str(tmp_path)]) == 0
    assert "Submissions still count" in capsys.readouterr().out
    path = tmp_path / "release" / "week-01-solutions.ipynb"
    written = {c["id"]: c["source"] for c in json.loads(path.read_text())["cells"]}
    forms = packs.drawn(course, pack)
    k = int(re.search(r"A = \+(\d+)", forms["clip-table-up"].note)[1])
    assert f"0.5: ({0.5 * k:g}, 0.8, {0.8 * k:g}, {0.5 * k:g}, False)" in written["solution-clip-table-up"]
    assert "The last line is wrong. Of two *losses*" in written["manual-hunt-minmax-why"]
    assert not any("NotImplementedError" in source for source in written.values())


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("# solution", "# slution", "solution:double must have a line '# solution'"),
        (":tags: [solution:double]\n", "", "a cell with the line '# solution' must have its tag"),
    ],
)
def test_an_own_set_that_breaks_the_rules(tmp_path, old, new, said):
    course = write_course(tmp_path)
    replace(tmp_path / "exercises" / "90_doubling.md", old, new)
    with pytest.raises(ValueError, match=said):
        make(course)


# --- the zip ------------------------------------------------------------------------------------------------


def test_the_same_course_gives_the_same_bytes(tmp_path):
    course = write_course(tmp_path)
    first, state = packs.release(course, "week-02")
    path = tmp_path / "release" / "week-02.zip"
    content = path.read_bytes()
    assert state == "new"
    path.unlink()
    assert packs.release(course, "week-02")[1] == "unchanged"
    assert path.read_bytes() == content
    again = write_course(tmp_path / "elsewhere")
    assert packs.zipped(again, packs.make(again, again.assignments[1])) == content
    assert packs.released(course, "week-02") == first
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        notebook, how = (archive.read(name).decode() for name in archive.namelist())
    assert "Hand in that one file, `week-02.ipynb`" in how
    notebook = json.loads(notebook)
    for cell in notebook["cells"]:
        p = part(cell)
        assert cell["metadata"]["deletable"] is False
        locked = cell["metadata"].get("editable") is False
        assert locked == (cell["cell_type"] == "markdown" and p is None)
    assert [p.points for p in masters.parts(notebook) if p.points] == [one.points for one in first.parts]


def test_what_was_handed_out_changes_only_when_asked(tmp_path):
    course = write_course(tmp_path)
    assert packs.release(course, "week-01")[1] == "new"
    replace(tmp_path / "exercises" / "90_doubling.md", "Double it.", "Double it twice.")
    assert work.changed(course, "week-01")
    with pytest.raises(ValueError, match="--replace releases it anew"):
        packs.release(course, "week-01")
    assert packs.release(course, "week-01", replace=True)[1] == "changed"
    assert not work.changed(course, "week-01")
    assert packs.release(course, "week-01")[1] == "unchanged"
