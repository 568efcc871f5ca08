"""`python -m ppobook`: the command line. Under torchrun the first process speaks for all."""

import contextlib
import os
import sys

from ppobook.cli import main

if __name__ == "__main__":
    with contextlib.ExitStack() as quiet:
        if os.environ.get("RANK", "0") != "0":
            nowhere = quiet.enter_context(open(os.devnull, "w", encoding="utf-8"))
            quiet.enter_context(contextlib.redirect_stdout(nowhere))
        sys.exit(main())
