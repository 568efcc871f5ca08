"""`ppobook course …`: what an instructor runs."""

from __future__ import annotations

from collections.abc import Sequence

from ppobook.cli.main import run_command

COMMANDS = {
    "slides": ("ppobook.cli.teach:slides", "slides of a chapter, in one HTML file"),
    "schedule": ("ppobook.cli.teach:schedule", "a plan of the term, with honest hours"),
}

EXAMPLES = """\
  ppobook course slides 3 --out clipped.html
  ppobook course schedule --weeks 10
  ppobook course schedule --weeks 5 --chapters 3,4,5 --begin 2027-02-01 --out plan.ics"""


def run(words: Sequence[str], prog: str) -> None:
    """Run the command that the first word names."""
    run_command(words, prog, COMMANDS, EXAMPLES)
