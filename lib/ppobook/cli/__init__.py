"""`ppobook …` on the command line."""

from ppobook.cli.main import main

__all__ = ["main"]
