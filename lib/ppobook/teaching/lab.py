"""A reader's Jupyter kernel: one thread, lines of readable length, and checks that answer with a card.

`ppobook.teaching` calls `begin` when a kernel imports it, and `check` shows what it found with `show`. Both
do nothing where notebooks are built or tested.
"""

from __future__ import annotations

import html
import os
import re
import sys
from pathlib import Path

from ppobook.teaching import progress, style

_STYLE = (
    "<style>.jp-RenderedMarkdown > :is(p, ul, ol), .jp-RenderedMarkdown > div > p {max-width: 46rem}</style>"
)
# How a message begins: the color of its card's edge, and how opaque its ground is.
_COLOURS = {"✓": ("good", "1a"), "✗": ("vanilla", "24"), "N": ("muted", "1a")}


def begin() -> None:
    """Give a reader's kernel one thread, and its page lines of readable length."""
    if progress.shell() is None:
        return
    from IPython.display import HTML, display
    from threadpoolctl import threadpool_limits

    # With networks this small, more threads only wait for each other; on a busy machine, for minutes.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    threadpool_limits(1)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    display(HTML(_STYLE))


def show(message: str, wrong: type[Exception] | None = None) -> bool:
    """Show a check's message as a card; return whether there is a reader's kernel to show it in.

    From then on, IPython does not show an exception of the type `wrong`, which would look like a crash. The
    cell has failed all the same, and Run All stops there.
    """
    reader = progress.shell()
    if reader is None:
        return False
    from IPython.display import display

    if wrong is not None:
        reader.set_custom_exc((wrong,), lambda *_, **__: None)
    display({"text/html": card(message), "text/plain": message}, raw=True)
    return True


def card(message: str) -> str:
    """The HTML of a card. The section that the message names is a link if its notebook is at hand."""
    head, _, rest = html.escape(message, quote=False).partition("\n")
    rest = re.sub(r"chapter\s+(\d+),[^“]*“(.*?)”\s+\([\w-]+\)", _linked, rest, flags=re.S)
    name, opacity = _COLOURS[head[0]]
    edge = style.colour(name)
    return (
        f'<div style="border-left: 5px solid {edge}; background: {edge}{opacity}; padding: .6em 1em; '
        f'max-width: 46rem; white-space: pre-wrap"><strong>{head}</strong>\n{rest}</div>'
    )


def _linked(named: re.Match[str]) -> str:
    said = " ".join(named[0].split()).rpartition(" (")[0]
    found = next(Path("../chapters").glob(f"{int(named[1]):02}_*.ipynb"), None)
    # JupyterLab's anchor of a heading is its text.
    return f'<a href="{found}#{"-".join(named[2].split())}">{said}</a>' if found else said
