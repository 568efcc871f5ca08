"""Time the library's language stages through the public function `ppobook.language.train`.

`model` of a job is "folder", the folder of transformers' model, as it is opened for a user; or "decoder", the
same weights in the library's own decoder, which is what `ppobook language` trains where nothing else is said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import common
import language
import torch

from ppobook.language import train
from ppobook.language.data import prompts_of
from ppobook.language.generation import generate
from ppobook.language.hf import open_pretrained
from ppobook.language.rewards import RewardModel
from ppobook.language.serialization import build
from ppobook.language.tokens import WordTokenizer
from ppobook.language.training import STAGES

SAMPLING = ("grpo", "rloo", "ppo")
DATA = {"sft": "examples", "dpo": "pairs"} | dict.fromkeys(SAMPLING, "prompts")


def read_model(path: Path) -> Any:
    """Read a model of the library's own that make_gpt2.py has written."""
    saved = torch.load(path, weights_only=True)
    model = build(saved["architecture"])
    model.load_state_dict(saved["weights"])
    return model


def start(job: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return model, tokenizer and reward of a job; None where the library finds it by itself."""
    place, algorithm = language.folder(job), job["algorithm"]
    reward: Any = language.different_words if algorithm in ("grpo", "rloo") else None
    if job["model"] == "folder":
        # Before memory is measured, as for all others.
        from transformers import AutoTokenizer, GPT2ForSequenceClassification, GPT2LMHeadModel  # noqa: F401

        model = str(place / "sampled" if algorithm in SAMPLING else place)
        return model, None, str(place / "reward_model") if algorithm == "ppo" else reward
    model = read_model(place / ("sampled.pt" if algorithm in SAMPLING else "decoder.pt"))
    if algorithm == "ppo":
        scalar = read_model(place / "reward_model.pt")
        reward = RewardModel(scalar.body, "last", bias=False)
        reward.output.load_state_dict(scalar.output.state_dict())
    return model, WordTokenizer(language.read(job)["words"]), reward


def write(job: dict[str, Any]) -> dict[str, Any]:
    """Time the sampling of completions alone."""
    model, tokenizer = open_pretrained(str(language.folder(job) / "sampled"), lora=job["settings"]["lora"])
    prompts = prompts_of(language.read(job)["prompts"], tokenizer)
    steps = language.Steps(job)
    for _ in range(job["warm_up"] + job["steps"]):
        done = generate(model, prompts.tokens, prompts.mask, job["new_tokens"])
        language.must_be_equal(job, len(done), set(done.lengths.tolist()))
        steps.end()
    return steps.result()


def run(job: dict[str, Any]) -> dict[str, Any]:
    if job["algorithm"] == "generate":
        return write(job)
    kind = STAGES.find("grpo" if job["algorithm"] == "rloo" else job["algorithm"])
    model, tokenizer, reward = start(job)
    steps = language.Steps(job)

    class Watched(kind):  # type: ignore[misc, valid-type]
        def step(self, number: int) -> dict[str, Any]:
            row = super().step(number)
            steps.end()
            return row

    done = train(
        Watched,
        model,
        language.data(job, DATA[job["algorithm"]]),
        reward=reward,
        tokenizer=tokenizer,
        seed=job["seed"],
        updates=job["warm_up"] + job["steps"],
        checkpoint_every=10**6,
        num_threads=1,
        progress=False,
        **job["settings"],
    )
    if job["algorithm"] in SAMPLING:
        rows = done.history["tokens"].iloc[-1] / len(done.history) / job["new_tokens"]
        language.must_be_equal(job, int(rows), {int(x) for x in done.history["length"]})
    return steps.result()


if __name__ == "__main__":
    common.main(run)
