"""Chapters print the code that runs."""

from ppobook.returns import gae
from ppobook.teaching import source_of


def test_the_code_is_shown_without_its_docstring():
    shown = source_of(gae)
    assert shown.startswith("def gae(")
    assert '"""' not in shown
    assert compile(shown, "gae", "exec")


def test_a_function_without_a_docstring_is_shown_whole():
    assert source_of(test_a_function_without_a_docstring_is_shown_whole).startswith("def test_a_function")
