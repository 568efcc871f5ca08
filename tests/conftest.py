"""Bands over seeds, helpers/bands.py: the fixture, the option, and the table at the end of a session."""

from bands import band, pytest_addoption, pytest_terminal_summary

__all__ = ["band", "pytest_addoption", "pytest_terminal_summary"]
