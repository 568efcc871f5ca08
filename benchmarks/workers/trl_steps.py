"""Time TRL's trainers at settings that cost them nothing: no logging, saving, progress bar, half precision.

A job's settings are those of the trainer's config. TRL has dropped PPO; its last version with it is in an
environment of its own, and its trainer takes four models.
"""

from __future__ import annotations

import importlib
import tempfile
from typing import Any

import common
import language
import torch
from datasets import Dataset
from language import NEW_TOKENS, ROWS
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2ForSequenceClassification,  # noqa: F401 - before memory is measured
    GPT2LMHeadModel,  # noqa: F401
    TrainerCallback,
)

BEST: dict[str, Any] = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "per_device_train_batch_size": ROWS,
    "gradient_accumulation_steps": 1,
    "lr_scheduler_type": "constant",
    "logging_strategy": "no",
    "logging_nan_inf_filter": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
    "dataloader_num_workers": 0,
    "dataloader_pin_memory": False,
}


class Watch(TrainerCallback):
    """Notes when a step has ended."""

    def __init__(self, steps: language.Steps) -> None:
        self.steps = steps

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.steps.end()


class Written:
    """Wrap a model's `generate` to check that all completions have the full length."""

    def __init__(self, model: Any) -> None:
        self.generate, self.model, self.batches = model.generate, model, 0
        model.generate = self

    def __call__(self, *args: Any, **how: Any) -> Any:
        out = self.generate(*args, **how)
        tokens = getattr(out, "sequences", out)
        read = how["input_ids"].shape[1]
        ends = torch.tensor([self.model.config.eos_token_id, self.model.config.pad_token_id])
        if torch.isin(tokens[:, read:], ends).any():
            raise RuntimeError("a completion has ended, and none should")
        language.must_be_equal(len(tokens), {tokens.shape[1] - read})
        self.batches += 1
        return out


def kinds(algorithm: str) -> tuple[Any, Any]:
    """Return the config and the trainer of an algorithm."""
    place = importlib.import_module("trl.experimental.ppo" if algorithm == "ppo" else "trl")
    name = algorithm.upper()
    return getattr(place, f"{name}Config"), getattr(place, f"{name}Trainer")


def trainer(job: dict[str, Any], callbacks: list[Any], out: str) -> tuple[Any, Written | None]:
    place, algorithm = language.folder(job["layers"], job["width"]), job["algorithm"]
    tokenizer = AutoTokenizer.from_pretrained(place, padding_side="left")
    given = {**BEST, "output_dir": out, "seed": job["seed"], **job["settings"]}
    if algorithm == "ppo":
        return _ppo(job, place, tokenizer, given, callbacks)
    config, kind = kinds(algorithm)
    given["max_steps"] = job["warm_up"] + job["steps"]
    if algorithm in ("grpo", "rloo"):
        made = kind(
            # From a folder: the trainer makes its reference from it.
            model=str(place / "sampled"),
            reward_funcs=language.different_words,
            args=config(max_completion_length=NEW_TOKENS, **given),
            train_dataset=Dataset.from_list(language.data(job, "prompts")),
            processing_class=tokenizer,
            callbacks=callbacks,
        )
        return made, Written(made.model)
    made = kind(
        model=AutoModelForCausalLM.from_pretrained(place),
        args=config(**given),
        train_dataset=Dataset.from_list(language.data(job, "examples" if algorithm == "sft" else "pairs")),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    return made, None


def _ppo(job: dict[str, Any], place: Any, tokenizer: Any, given: dict[str, Any], callbacks: Any) -> Any:
    config, kind = kinds("ppo")
    policy, reference = (AutoModelForCausalLM.from_pretrained(place / "sampled") for _ in range(2))
    reward_model, critic = (
        AutoModelForSequenceClassification.from_pretrained(place / "reward_model") for _ in range(2)
    )
    records = language.data(job, "prompts")
    ids = [{"input_ids": tokenizer(record["prompt"])["input_ids"]} for record in records]
    given["total_episodes"] = ROWS * (job["warm_up"] + job["steps"])
    made = kind(
        args=config(response_length=NEW_TOKENS, **given),
        processing_class=tokenizer,
        model=policy,
        ref_model=reference,
        reward_model=reward_model,
        value_model=critic,
        train_dataset=Dataset.from_list(ids),
        eval_dataset=Dataset.from_list(ids[:ROWS]),  # it wants one, and does not read it
        callbacks=callbacks,
    )
    return made, Written(policy)


def run(job: dict[str, Any]) -> dict[str, Any]:
    kinds(job["algorithm"])  # all is imported before memory is measured
    steps = language.Steps(job)
    with tempfile.TemporaryDirectory() as out:
        made, written = trainer(job, [Watch(steps)], out)
        made.train()
    if written is not None and written.batches != job["warm_up"] + job["steps"]:
        raise RuntimeError(f"{written.batches} batches were written in {len(steps.ends)} steps")
    return steps.result()


if __name__ == "__main__":
    common.main(run)
