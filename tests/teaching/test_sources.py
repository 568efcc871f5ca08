"""Chapters print the code that runs."""

from ppobook.returns import gae
from ppobook.teaching import source_of


def test_the_code_is_shown_without_its_docstring():
    shown = source_of(gae)
    assert shown.startswith("def gae(")
    assert '"""' not in shown
    assert compile(shown, "gae", "exec")
    name = test_the_code_is_shown_without_its_docstring  # which has none
    assert source_of(name).startswith("def test_the_code")
