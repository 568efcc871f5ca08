"""`python -m ppobook`: the command line. Under torchrun the first process speaks for all."""

import contextlib
import os
import signal
import sys


def run() -> int:
    """The process of a command. Ctrl-C at any moment ends it with one line."""
    try:
        from ppobook.cli import main

        with contextlib.ExitStack() as quiet:
            if os.environ.get("RANK", "0") != "0":
                nowhere = quiet.enter_context(open(os.devnull, "w", encoding="utf-8"))
                quiet.enter_context(contextlib.redirect_stdout(nowhere))
            code = main()
    except KeyboardInterrupt:  # while importing
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(2, b"ppobook: stopped by Ctrl-C\n")
        code = 130
    # What is left is the interpreter's own end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(run())
