"""The parts of `tools/notebooks.py`, which makes the notebooks from their text."""
