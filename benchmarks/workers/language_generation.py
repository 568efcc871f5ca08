"""Milliseconds to write 64 completions of 24 tokens with a cache, by the library's `generate` and by theirs.

`model` of a job is "gpt2" (transformers' model, opened by the library), "decoder" (the same weights in the
library's own), or "transformers": its own model and its own `generate`.
"""

from __future__ import annotations

from typing import Any

import common
import language_common
import torch
from language_common import NEW_TOKENS, ROWS
from torch import Tensor


def prompts(job: dict[str, Any]) -> Tensor:
    found = language_common.read(job)
    ids = {word: i + 2 for i, word in enumerate(found["words"])}
    return torch.tensor([[ids[word] for word in one["prompt"].split()] for one in found["prompts"]])


def run(job: dict[str, Any]) -> dict[str, Any]:
    place, read = language_common.folder(job["layers"], job["width"]), prompts(job)
    generator = torch.Generator().manual_seed(job["seed"])
    if job["model"] == "transformers":
        from transformers import AutoModelForCausalLM, GPT2LMHeadModel

        torch.manual_seed(job["seed"])
        steps = language_common.Steps(job)
        theirs = AutoModelForCausalLM.from_pretrained(place / "sampled").eval()
        real = torch.ones_like(read)

        def write() -> Tensor:
            with torch.no_grad():
                out = theirs.generate(
                    input_ids=read,
                    attention_mask=real,
                    do_sample=True,
                    top_k=0,
                    max_new_tokens=NEW_TOKENS,
                    use_cache=True,
                )
            return out[:, read.shape[1] :]
    else:
        from ppobook.language.generation import generate
        from ppobook.language.serialization import load_model

        if job["model"] == "decoder":
            steps = language_common.Steps(job)
            model = load_model(place / "sampled.pt")
        else:
            from transformers import AutoTokenizer, GPT2LMHeadModel  # noqa: F401

            from ppobook.language.hf import open_pretrained

            steps = language_common.Steps(job)
            model, _ = open_pretrained(place / "sampled")

        def write() -> Tensor:
            return generate(model, read, None, NEW_TOKENS, generator=generator).tokens

    steps.end()
    for _ in range(job["warm_up"] + job["steps"] - 1):
        tokens = write()
        steps.end()
        language_common.refuse_unless_equal(len(tokens), {tokens.shape[1]})
    result = steps.result()
    return {**result, "tokens_per_second": 1e3 * ROWS * NEW_TOKENS / result["milliseconds"]}


if __name__ == "__main__":
    common.main(run)
