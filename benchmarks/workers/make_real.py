"""Make the folder that all contestants of the race on a real model begin from: SmolLM2, of `make real`.

    MODEL/            SmolLM2 and its tokenizer, for SFT and DPO
    MODEL/sampled     the same, but it never ends: for all that sample, and write exactly as many tokens
    MODEL/reward_model    the same with a random head that scores a text, for PPO
    MODEL/data.json   prompts, examples, pairs

A text ends with a token that the model does not say: none of its conversations has <|endoftext|> in it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import common
import torch
from language import folder
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from ppobook.language.sums import chat_sums

SOURCE = Path(__file__).resolve().parents[2] / "runs" / "smollm2"


def records(rows: int) -> dict[str, Any]:
    """Sums with a right answer, and with a wrong one."""
    sums = (chat_sums()[0] * rows)[:rows]

    def said(answer: float) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": f"The answer to your question is {answer:g}, my friend."}]

    answers = [(row["prompt"], said(row["answer"]), said(row["answer"] + 1)) for row in sums]
    return {
        "prompts": [{"prompt": prompt} for prompt, _, _ in answers],
        "examples": [{"prompt": prompt, "completion": right} for prompt, right, _ in answers],
        "pairs": [{"prompt": prompt, "chosen": right, "rejected": wrong} for prompt, right, wrong in answers],
    }


def run(job: dict[str, Any]) -> dict[str, Any]:
    place = folder(job)
    shutil.rmtree(place, ignore_errors=True)
    model: Any = AutoModelForCausalLM.from_pretrained(SOURCE)
    tokenizer: Any = AutoTokenizer.from_pretrained(SOURCE)
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    tokenizer.add_special_tokens({"eos_token": "<|endoftext|>", "pad_token": "<repo_name>"})
    for part in (model.config, model.generation_config):
        part.eos_token_id, part.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    model.save_pretrained(place / "sampled")
    tokenizer.save_pretrained(place / "sampled")
    judge: Any = AutoModelForSequenceClassification.from_pretrained(place / "sampled", num_labels=1)
    torch.nn.init.normal_(judge.score.weight, std=0.02, generator=torch.Generator().manual_seed(2))
    judge.save_pretrained(place / "reward_model")
    tokenizer.save_pretrained(place / "reward_model")
    (place / "data.json").write_text(json.dumps(records(job["rows"]), indent=1) + "\n")
    return {}


if __name__ == "__main__":
    common.main(run)
