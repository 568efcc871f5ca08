"""One process that makes sandboxes, for all tests of a course."""

import pytest

from ppobook.course.remote import Grader
from ppobook.course.sandbox import Limits, Server


@pytest.fixture(scope="session")
def server():
    with Server() as made:
        yield made


@pytest.fixture
def open_grader(server):
    """Opens sandboxes, each with cells that have been run; they're closed at the end of the test."""
    opened = []

    def make(*cells, **limits):
        sandbox = server.start(Limits(**limits))
        opened.append(sandbox)
        grader = Grader(sandbox)
        for cell in cells:
            error = grader.cell(cell, 20.0)
            assert error is None, error
        return grader

    yield make
    for sandbox in opened:
        sandbox.close()
