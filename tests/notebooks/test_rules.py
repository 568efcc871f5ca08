"""The rules of a master, each broken once; every master of the book."""

from pathlib import Path

import pytest
from tiny_book import MASTER

from notebook_builder import rules
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
    said = rules.problems(master(tmp_path, (old, new)), outcomes=["double-it"])
    assert any(sentence in line for line in said), said
    assert all(line.startswith("cell ") and line.endswith((".", "'.")) for line in said)


def test_a_master_that_keeps_the_rules_is_told_nothing(tmp_path):
    assert rules.problems(master(tmp_path), outcomes=["double-it"]) == []


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
