"""The instructor's side of the book: from an exercise's master to the notebook that a student opens."""

import sys

# nbformat, which jupytext imports, would compile forty grammars of addresses, for a check that no notebook
# asks for: seconds of each command, and of each process that grades.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
