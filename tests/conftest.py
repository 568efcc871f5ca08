"""Bands over seeds, helpers/bands.py: the fixture, the option, and the table at the end of a session."""

import gc
import signal

import hypothesis
import pytest
from bands import band, pytest_addoption, pytest_terminal_summary

__all__ = ["band", "pytest_addoption", "pytest_terminal_summary"]

# The same examples each time, and however slow the machine is.
hypothesis.settings.register_profile("book", deadline=None, derandomize=True)
hypothesis.settings.load_profile("book")

# A shell's background job ignores Ctrl-C, and so would the tests of it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let no garbage be looked for meanwhile, nor later in what is made here: all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Files that train first: a long file begun at the end would leave the other processes without work."""
    trains = {item.path for item in items if item.get_closest_marker("learning")}
    items.sort(key=lambda item: item.path not in trains)
