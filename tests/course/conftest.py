"""Sandboxes for the tests of a course."""

import pytest

from ppobook.course.calls import Grader
from ppobook.course.sandbox import Limits, Sandbox


@pytest.fixture(scope="module")
def grader():
    """One process for all tests of a file that end nobody."""
    with Sandbox() as sandbox:
        yield Grader(sandbox)


@pytest.fixture
def open_grader():
    """Opens sandboxes, each with cells that have been run; they're closed at the end of the test."""
    opened = []

    def make(*cells, **limits):
        opened.append(Sandbox(Limits(**limits)))
        grader = Grader(opened[-1])
        for cell in cells:
            error = grader.cell(cell, 300.0)
            assert error is None, error
        return grader

    yield make
    for sandbox in opened:
        sandbox.close()
