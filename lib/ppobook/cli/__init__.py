"""`ppobook …` on the command line."""

from ppobook.cli.control import main

__all__ = ["main"]
