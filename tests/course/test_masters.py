"""From a master to a reader's notebook and back; the rules, each broken once; every master of the book."""

from pathlib import Path

import pytest
from tiny_book import MASTER

from notebook_builder.draft import draft
from notebook_builder.targets import targets
from ppobook.course import masters

REPOSITORY = Path(__file__).parents[2]
MASTERS = sorted((REPOSITORY / "exercises" / "masters").glob("*.md"))


def master(tmp_path, *edits):
    """The tiny master, with (old, new) edits in its text."""
    text = MASTER
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "01_tiny.md"
    path.write_text(text, encoding="utf-8")
    return masters.read(path)


# --- there and back -----------------------------------------------------------------------------------------


def test_the_reader_gets_blanks_and_nothing_hidden(tmp_path):
    solution, test, why, manual = masters.reader(master(tmp_path))["cells"][3:]
    assert solution["source"] == (
        'def double(x):\n    """Twice x."""\n    raise NotImplementedError("not yet: double")'
    )
    assert test["source"] == 'check("double", double)'
    assert test["metadata"]["tags"] == ["test:double:2", "raises-exception"]
    assert "Why does it work?" in why["source"]
    assert manual["source"] == masters.ANSWER_HERE


def test_a_blank_keeps_what_stands_above_it_and_raises_where_the_solution_stood():
    source = (
        "def f(x):\n    y = abs(x)\n    for i in range(3):\n        # solution\n        y += 1\n    return y"
    )
    space = {}
    exec(masters.blank(source, "sine"), space)
    with pytest.raises(NotImplementedError, match=r"^not yet: sine$"):
        space["f"](1.0)


def test_solutions_are_the_cells_without_their_marker_and_the_model_answers(tmp_path):
    found = masters.solutions(master(tmp_path))
    assert found["double"].kind == "code"
    assert found["double"].source == 'def double(x):\n    """Twice x."""\n    return x + x  # the secret'
    assert found["why"].kind == "text"
    assert found["why"].source == "The model answer: addition."


def test_what_is_no_notebook_is_refused(tmp_path):
    (tmp_path / "x.ipynb").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"path must be a valid notebook, got 'x\.ipynb'"):
        masters.read(tmp_path / "x.ipynb")
    with pytest.raises(ValueError, match=r"path must end in \.md or \.ipynb, got 'x\.txt'"):
        masters.read(tmp_path / "x.txt")


# --- the rules ----------------------------------------------------------------------------------------------

CODE = "# solution\n    return x + x  # the secret"
FORM = "it must have one tag solution:NAME, test:NAME:POINTS or manual:NAME:POINTS"
FACTS = "it needs a line '*Build · difficulty 2 of 5"
SECOND = "\n```{code-cell} ipython3\n:tags: [TAG]\n\ndef double(x):\n    # solution\n    return x\n```\n"
END = "The model answer: addition.\n"
BROKEN = {
    "no points": ("test:double:2", "test:double", FORM),
    "points not finite": ("test:double:2", "test:double:nan", FORM),
    "two roles": ('"test:double:2"', '"test:double:2", "solution:x"', FORM),
    "no marker": (CODE, "return x + x", "it must have one line '# solution', inside a function, got 0"),
    "nothing below": (CODE, "return x + x\n    # solution", "inside a function, got 1"),
    "code below the function": (CODE, CODE + "\n\ntriple = 3", "nothing must follow the function"),
    "a method below": (
        'def double(x):\n    """Twice x."""\n    ' + CODE,
        "class D:\n    def f(x):\n        # solution\n        return x\n\n    def g(x):\n        return x",
        "nothing must follow the function",
    ),
    "a blank in the middle of an expression": (
        CODE,
        "return sum([\n        x,\n        # solution\n        x])",
        "it is no Python, or the reader's half of it is not",
    ),
    "marker without its tag": (":tags: [solution:double]\n", "", "without the tag solution:…, so"),
    "answer without its tag": (' {"tags": ["manual:why:1.5"]}', "", "without the tag manual:…, so"),
    "empty answer": ("\n\nThe model answer: addition.", "", "needs one line '<!-- solution -->'"),
    "an exercise below an answer": (
        END,
        f"{END}\n## The next\n\nIts text.",
        "must stand in a cell of its own",
    ),
    "code as text": ("solution:double]", "'manual:double:1']", "must be of the kind markdown, got code"),
    "check below hidden": (
        'check("double", double)\n# hidden',
        '# hidden\ncheck("double", double)',
        "it has to call check('double', …), above the line '# hidden'",
    ),
    "a label without ex-": (":label: ex-double", ":label: double", "it needs a line ':label: ex-NAME'"),
    "the same label": (":label: ex-why", ":label: ex-double", "it needs a line ':label: ex-NAME' of its own"),
    "no facts": ("*Build · difficulty 1 of 5 · 5 minutes", "*Do it", FACTS),
    "outcome": ("minutes · outcome: double-it", "minutes · outcome: triple-it", FACTS),
    "two exercises in a cell": (
        ":::{exercise} Doubling",
        ":::{exercise} Before\n:::\n:::{exercise} Doubling",
        "its cell must begin one exercise",
    ),
    "a part outside": (
        '+++ {"tags": ["manual:why:1.5"]}',
        '+++\n\n## A section\n\n+++ {"tags": ["manual:why:1.5"]}',
        "(manual:why): it must belong to an exercise",
    ),
    "a name twice": (END, END + SECOND.replace("TAG", "solution:why"), "the name why must be used once"),
    "half a pair": ("test:double:2", "test:triple:2", "a solution:triple and a test:triple:POINTS belong"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_told_in_a_sentence(tmp_path, case):
    old, new, sentence = BROKEN[case]
    said = masters.problems(master(tmp_path, (old, new)), outcomes=["double-it"])
    assert any(sentence in line for line in said), said
    assert all(line.startswith("cell ") and line.endswith((".", "'.")) for line in said)


def test_a_master_that_keeps_the_rules_is_told_nothing(tmp_path):
    assert masters.problems(master(tmp_path), outcomes=["double-it"]) == []


# --- the book's own -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_each_check_says_right_on_the_solution(path):
    """nbval runs the executed masters, in which a check that fails stops the run; here, that it is their code
    that a reader has who puts the solutions in, and that each check has said so."""
    blank = draft(next(t for t in targets(REPOSITORY) if t.kind == "reader" and t.source == path))
    solved = masters.fill(blank, masters.solutions(path))["cells"]
    ran = masters.read(path.with_suffix(".ipynb"))["cells"]
    assert [cell["cell_type"] for cell in solved] == [cell["cell_type"] for cell in ran]
    for own, masters_own in zip(solved, ran, strict=True):
        if own["cell_type"] == "code":
            lines = masters_own["source"].partition("\n# hidden")[0].splitlines()
            assert own["source"].splitlines() == [line for line in lines if line.strip() != "# solution"]
            assert "raises-exception" not in masters.tags(masters_own)
    for part in masters.parts(blank):
        if part.role == "test":
            printed = "".join("".join(output.get("text", "")) for output in ran[part.index]["outputs"])
            assert "✓" in printed, part.name
