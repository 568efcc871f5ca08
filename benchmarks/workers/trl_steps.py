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
from peft import LoraConfig, get_peft_model
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

    def __init__(self, job: dict[str, Any], model: Any) -> None:
        self.job, self.generate, self.model, self.batches = job, model.generate, model, 0
        model.generate = self

    def __call__(self, *args: Any, **how: Any) -> Any:
        out = self.generate(*args, **how)
        tokens = getattr(out, "sequences", out)
        read = how["input_ids"].shape[1]
        ends = torch.tensor([self.model.config.eos_token_id, self.model.config.pad_token_id])
        if torch.isin(tokens[:, read:], ends).any():
            raise RuntimeError("a completion has ended, and none should")
        language.must_be_equal(self.job, len(tokens), {tokens.shape[1] - read})
        self.batches += 1
        return out


def kinds(algorithm: str) -> tuple[Any, Any]:
    """Return the config and the trainer of an algorithm."""
    place = importlib.import_module("trl.experimental.ppo" if algorithm == "ppo" else "trl")
    name = algorithm.upper()
    return getattr(place, f"{name}Config"), getattr(place, f"{name}Trainer")


def trainer(job: dict[str, Any], callbacks: list[Any], out: str) -> tuple[Any, Written | None]:
    place, algorithm = language.folder(job), job["algorithm"]
    read = place / "sampled" if algorithm in ("grpo", "rloo", "ppo") else place
    tokenizer = AutoTokenizer.from_pretrained(read, padding_side="left")
    given = {**BEST, "output_dir": out, "seed": job["seed"], **job["settings"]}
    peft = None if "lora" not in job else LoraConfig(task_type="CAUSAL_LM", **job["lora"])
    if algorithm == "ppo":
        return _ppo(job, place, tokenizer, given, callbacks, peft)
    config, kind = kinds(algorithm)
    given["max_steps"] = job["warm_up"] + job["steps"]
    if algorithm in ("grpo", "rloo"):
        made = kind(
            # From a folder: the trainer makes its reference from it.
            model=str(read),
            reward_funcs=language.different_words,
            args=config(max_completion_length=job["new_tokens"], **given),
            train_dataset=Dataset.from_list(language.data(job, "prompts")),
            processing_class=tokenizer,
            callbacks=callbacks,
            peft_config=peft,
        )
        return made, Written(job, made.model)
    made = kind(
        model=AutoModelForCausalLM.from_pretrained(place),
        args=config(**given),
        train_dataset=Dataset.from_list(language.data(job, "examples" if algorithm == "sft" else "pairs")),
        processing_class=tokenizer,
        callbacks=callbacks,
        peft_config=peft,
    )
    return made, None


def _ppo(
    job: dict[str, Any], place: Any, tokenizer: Any, given: dict[str, Any], callbacks: Any, peft: Any
) -> Any:
    config, kind = kinds("ppo")
    policy, reference = (AutoModelForCausalLM.from_pretrained(place / "sampled") for _ in range(2))
    reward_model, critic = (
        AutoModelForSequenceClassification.from_pretrained(place / "reward_model") for _ in range(2)
    )
    records = language.data(job, "prompts")
    ids = [{"input_ids": tokens_of(record["prompt"], tokenizer)} for record in records]
    given["total_episodes"] = job["rows"] * (job["warm_up"] + job["steps"])
    made = kind(
        args=config(response_length=job["new_tokens"], **given),
        processing_class=tokenizer,
        model=policy,
        ref_model=None if peft else reference,
        reward_model=reward_model,
        value_model=critic,
        train_dataset=Dataset.from_list(ids),
        eval_dataset=Dataset.from_list(ids[: job["rows"]]),  # it wants one, and does not read it
        callbacks=callbacks,
        peft_config=peft,
    )
    return made, Written(job, policy)


def tokens_of(prompt: Any, tokenizer: Any) -> list[int]:
    """The tokens of a text, or of a conversation."""
    if isinstance(prompt, str):
        return tokenizer(prompt)["input_ids"]
    return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"]


def write(job: dict[str, Any]) -> dict[str, Any]:
    """Time transformers' own sampling, with which TRL writes its completions."""
    place = language.folder(job) / "sampled"
    tokenizer = AutoTokenizer.from_pretrained(place, padding_side="left")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(place), LoraConfig(**job["lora"])).eval()
    prompts = [{"input_ids": tokens_of(x["prompt"], tokenizer)} for x in language.read(job)["prompts"]]
    batch = tokenizer.pad(prompts, return_tensors="pt")
    written, steps = Written(job, model), language.Steps(job)
    for _ in range(job["warm_up"] + job["steps"]):
        written(**batch, max_new_tokens=job["new_tokens"], do_sample=True, top_k=0)
        steps.end()
    return steps.result()


def run(job: dict[str, Any]) -> dict[str, Any]:
    if job["algorithm"] == "generate":
        return write(job)
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
