"""From a master to a reader's notebook and back."""

import pytest
from tiny_book import MASTER

from ppobook.course import masters


def master(tmp_path):
    (tmp_path / "01_tiny.md").write_text(MASTER, encoding="utf-8")
    return masters.read(tmp_path / "01_tiny.md")


def test_the_reader_gets_blanks_and_nothing_hidden(tmp_path):
    _, test, why, manual = masters.reader(master(tmp_path))["cells"][3:]
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
    code = 'def double(x):\n    """Twice x."""\n    return x + x  # the secret'
    text = "The model answer: addition."
    found = masters.solutions(master(tmp_path))
    assert found == {"double": masters.Solution("code", code), "why": masters.Solution("text", text)}
