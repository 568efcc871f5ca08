"""From a causal model of the hub to one that does sums in words: SFT, then GRPO, with LoRA.

    python examples/to_a_real_model.py --model Qwen/Qwen2.5-0.5B --out runs/sums --device cuda
    python examples/to_a_real_model.py --resume runs/sums                   after a Ctrl-C, or worse
    python examples/to_a_real_model.py --model Qwen/Qwen2.5-0.5B --estimate     memory and arithmetic only

A small model to try it with, made here without a network, in a few minutes:

    python examples/to_a_real_model.py --small runs/small
    python examples/to_a_real_model.py --model runs/small --out runs/sums

The page "To a real model" says what each step does, and what was not run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from ppobook.language import Completions, generate, load, open_pretrained, prompts_of, save_pretrained, train
from ppobook.language.data import examples_of
from ppobook.language.footprint import Sizes, Work, arithmetic, memory, seconds
from ppobook.language.pretrained import library
from ppobook.language.records import records_of
from ppobook.language.settings import GRPOSettings
from ppobook.language.word_problems import answer_is_right, records_of_questions, word_problems

# The options by name: the default, and what it is for.
OPTIONS: dict[str, tuple[Any, str]] = {
    "model": (None, "a folder, or a name on the hub"),
    "out": (None, "a new folder for runs, adapter and report"),
    "resume": (None, "the folder of a run that was stopped"),
    "small": (None, "make a small model in this new folder, and stop"),
    "small_updates": (300, "updates of that model, of 64 solutions each"),
    "data": (None, "a JSONL file with question and answer, such as GSM8K's; none: problems made here"),
    "problems": (2000, "how many problems are made here"),
    "steps": (2, "the most sums in a problem that is made here"),
    "largest": (20, "the largest number in one"),
    "held_out": (100, "problems that are kept for evaluation"),
    "chat": (False, "write problems as conversations, for a model with a chat template"),
    "sft_updates": (100, "updates of SFT; 0: none, for a model that can follow the form already"),
    "updates": (100, "updates of GRPO"),
    "batch_size": (64, "completions of an update of GRPO"),
    "group_size": (8, "completions of a prompt"),
    "sft_batch_size": (16, "examples of an update of SFT"),
    "micro_batch_size": (4, "rows of a forward pass with a gradient"),
    "max_new_tokens": (200, "longest completion"),
    "lr": (2e-5, "learning rate of GRPO"),
    "sft_lr": (2e-4, "learning rate of SFT"),
    "kl_coef": (0.0, "weight of the KL to the policy after SFT"),
    "rank": (16, "r of LoRA; alpha is twice as large"),
    "dtype": ("float32", "float32 or bfloat16, which matrices are multiplied in"),
    "device": ("cpu", "cpu or cuda"),
    "gradient_checkpointing": (False, "compute activations again, to save memory"),
    "memory": (None, "gigabytes that there are; what would take more is refused"),
    "tflops": (None, "trillions of operations a second; none: measured on one matrix product"),
    "bandwidth": (None, "gigabytes a second that are read from memory; none: measured on one copy"),
    "seed": (0, "of everything"),
    "estimate": (False, "print memory and arithmetic, and stop"),
}
SETTINGS = "settings.json"
REPORT = "report.json"


def main(words: list[str] | None = None) -> int:
    """Run the script, and return the exit code."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    asked = None
    try:
        asked = options(words)
        run(asked)
    except KeyboardInterrupt:
        begun = asked and not asked["estimate"] and asked["out"] and Path(asked["out"], SETTINGS).is_file()
        print(f"stopped; go on with --resume {asked['out']}" if begun else "stopped", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError) as error:
        print(f"to_a_real_model: {error}", file=sys.stderr)
        return 2
    return 0


def options(words: list[str] | None) -> dict[str, Any]:
    """Read the options of a command line; those of a run that is resumed are in its folder."""
    parser = argparse.ArgumentParser(
        prog="to_a_real_model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, (default, what) in OPTIONS.items():
        how: dict[str, Any] = {"action": "store_true"}
        if default is not False:
            numbers = ("memory", "tflops", "bandwidth")
            kind = float if name in numbers else str if default is None else type(default)
            how = {"type": kind, "default": default, "metavar": "X"}
        shown = "" if default in (None, False) else f" ({default})"
        parser.add_argument(f"--{name.replace('_', '-')}", help=what + shown, **how)
    o = vars(parser.parse_args(words))
    if o["resume"] is not None:
        saved = json.loads(Path(o["resume"], SETTINGS).read_text(encoding="utf-8"))
        return saved | {"resume": o["resume"], "out": o["resume"]}
    if o["small"] is None and (o["model"] is None or (o["out"] is None and not o["estimate"])):
        parser.error("give --model and --out, or --small")
    GRPOSettings.make("grpo", settings_of_grpo(o), {})  # a mistake is better found before SFT
    return o


def settings_of_grpo(o: dict[str, Any]) -> dict[str, Any]:
    """The settings of the stage of GRPO."""
    return {
        **{name: o[name] for name in ("updates", "batch_size", "group_size", "max_new_tokens")},
        **{name: o[name] for name in ("lr", "kl_coef", "micro_batch_size", "gradient_checkpointing")},
        "generation_rows": o["batch_size"],
        "epochs": 1,
        "num_minibatches": 1,
    }


def run(o: dict[str, Any]) -> None:
    """Do everything that the options ask for."""
    if o["small"] is not None:
        return make_small(Path(o["small"]), o)
    records, held_out = data_of(o)
    model, tokenizer = open_pretrained(
        o["model"], dtype=o["dtype"], lora={"r": o["rank"], "alpha": 2 * o["rank"]}, seed=o["seed"]
    )
    longest = longest_prompt(o, model, tokenizer, records, held_out)
    estimate(o, model, longest)
    if o["estimate"]:
        return None
    out = Path(o["out"])
    if o["resume"] is None:
        out.mkdir(parents=True)  # a new folder; a run that was stopped goes on with --resume
        asked = {name: x for name, x in o.items() if name != "resume"}
        (out / SETTINGS).write_text(json.dumps(asked, indent=1), encoding="utf-8")
    report = Report(out / REPORT)
    asking = {"held_out": held_out, "o": o}
    model.to(o["device"])
    report.add("before", lambda: evaluated(model, tokenizer, **asking))

    start: Any = model  # what is frozen of it is in memory once, however many copies there are
    if o["sft_updates"]:
        examples = examples_in(records)
        start = stage(
            "sft",
            out / "sft",
            o,
            start,
            examples,
            tokenizer=tokenizer,
            updates=o["sft_updates"],
            batch_size=min(o["sft_batch_size"], len(examples)),
            lr=o["sft_lr"],
            warmup=min(10, o["sft_updates"]),
            eval_examples=0,
            **{name: o[name] for name in ("micro_batch_size", "gradient_checkpointing")},
        )
        report.add("after SFT", lambda: evaluated(start.model, start.tokenizer, **asking))
    prompts = [{name: row[name] for name in ("prompt", "answer")} for row in records]
    tuned = stage(
        "grpo",
        out / "grpo",
        o,
        start,
        prompts,
        tokenizer=tokenizer,
        reward=answer_is_right,
        **settings_of_grpo(o),
    )
    report.add("after GRPO", lambda: evaluated(tuned.model, tuned.tokenizer, **asking))
    if not (out / "adapter").exists():
        save_pretrained(tuned, out / "adapter", merge=False)
    print(report.table())
    if o["device"].startswith("cuda"):
        print(f"most bytes that were allocated at once: {torch.cuda.max_memory_allocated() / 1e6:,.1f} MB")
    print(f"adapter, for peft.PeftModel.from_pretrained: {out / 'adapter'}")
    return None


def stage(name: str, folder: Path, o: dict[str, Any], model: Any, data: Any, **settings: Any) -> Any:
    """A run of a stage: new, gone on with, or loaded if it is done."""
    reward = {"reward": settings.pop("reward")} if "reward" in settings else {}
    if folder.exists():
        run = load(folder)
        if len(run.history) >= settings["updates"]:
            print(f"{name}: done before, {len(run.history)} updates", flush=True)
            return on_device(run, o)
        print(f"{name}: resumed after {len(run.history)} updates", flush=True)
        return on_device(train(resume=folder, data=data, updates=settings["updates"], **reward), o)
    began = time.perf_counter()
    run = train(
        name,
        model,
        data,
        seed=o["seed"],
        out=folder,
        device=o["device"],
        num_threads=torch.get_num_threads(),
        **reward,
        **settings,
    )
    last = run.history.iloc[-1]
    print(
        f"{name}: {len(run.history)} updates in {time.perf_counter() - began:.0f} s, "
        f"{last['seconds_update']:.2f} s the last one",
        flush=True,
    )
    return on_device(run, o)


def on_device(run: Any, o: dict[str, Any]) -> Any:
    run.model.to(o["device"])
    return run


# ---------------------------------------------------------------------------------------------------- data


def data_of(o: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records to train on, and those for evaluation."""
    if o["data"] is None:
        print(f"{o['problems']:,} problems are made, and {o['held_out']:,} for evaluation", flush=True)
        records = word_problems(
            o["problems"] + o["held_out"],
            o["seed"],
            steps=o["steps"],
            largest=o["largest"],
            chat=o["chat"],
        )
    else:
        records = records_of_questions(records_of(o["data"]).rows, chat=o["chat"])
    if len(records) <= o["held_out"]:
        raise ValueError(f"held_out must be less than the {len(records)} problems, got {o['held_out']}")
    return records[o["held_out"] :], records[: o["held_out"]]


def examples_in(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of records, what SFT reads."""
    return [{name: row[name] for name in ("prompt", "completion")} for row in records]


def longest_prompt(o: dict[str, Any], model: Any, tokenizer: Any, records: Any, held_out: Any) -> int:
    """Tokens of the longest prompt. What does not fit in the model's context is refused."""
    rows = [{"prompt": row["prompt"]} for row in [*records, *held_out]]
    longest = int(prompts_of(rows, tokenizer).mask.sum(1).max())
    room = model.context - longest
    if room < 1:
        raise ValueError(
            f"data must have prompts shorter than the model's context, {model.context} tokens, got {longest}"
        )
    if o["max_new_tokens"] > room:
        raise ValueError(
            f"max_new_tokens must be at most {room}, since the model's context is {model.context} tokens and "
            f"the longest prompt has {longest}, got {o['max_new_tokens']}"
        )
    if o["sft_updates"]:
        examples_of(examples_in(records), tokenizer, max_length=model.context)
    return longest


def evaluated(model: Any, tokenizer: Any, *, held_out: list[dict[str, Any]], o: dict[str, Any]) -> dict:
    """The share of held-out problems that are right: greedy, and sampled once."""
    prompts = prompts_of([{"prompt": row["prompt"]} for row in held_out], tokenizer)
    answers = [row["answer"] for row in held_out]
    found: dict[str, Any] = {}
    for name, temperature in {"greedy": 0.0, "sampled": 1.0}.items():
        some: Completions = generate(
            model,
            prompts.tokens.to(o["device"]),
            prompts.mask.to(o["device"]),
            o["max_new_tokens"],
            temperature=temperature,
            generator=torch.Generator(o["device"]).manual_seed(o["seed"]) if temperature else None,
            at_once=o["batch_size"],
        )
        texts = some.texts(tokenizer)
        right = answer_is_right([], texts, answers)
        found[name] = sum(right) / len(right)
        found[f"{name}_ended"] = some.ended.float().mean().item()
        found.setdefault("example", texts[0])
    return found


class Report:
    """The results in a file, so that a resumed run does not measure them twice."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows: dict[str, dict[str, Any]] = {}
        if file.is_file():
            self.rows = json.loads(file.read_text(encoding="utf-8"))

    def add(self, name: str, look: Any) -> None:
        """Measure, unless that was done before, and print the result."""
        if name not in self.rows:
            self.rows[name] = look()
            self.file.write_text(json.dumps(self.rows, indent=1, ensure_ascii=False), encoding="utf-8")
        row = self.rows[name]
        print(
            f"{name}: {row['greedy']:.0%} right, {row['sampled']:.0%} sampled; {row['example']!r}", flush=True
        )

    def table(self) -> str:
        """All rows."""
        lines = [f"{'':<12} {'greedy':>8} {'sampled':>8} {'ended':>8}"]
        for name, row in self.rows.items():
            numbers = (row["greedy"], row["sampled"], row["sampled_ended"])
            lines.append(f"{name:<12} " + " ".join(f"{x:>8.0%}" for x in numbers))
        return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ estimates


def estimate(o: dict[str, Any], model: Any, longest: int) -> None:
    """Print what the stages take, and refuse what does not fit."""
    sizes = Sizes.of(model.config)
    how = {"rank": o["rank"], "dtype": o["dtype"], "gradient_checkpointing": o["gradient_checkpointing"]}
    work = Work(
        o["batch_size"],
        longest,
        o["max_new_tokens"],
        micro_rows=o["micro_batch_size"],
        generation_rows=o["batch_size"],
        **how,
    )
    print(
        f"{sizes.weights():,} weights, {sizes.adapters(o['rank']):,} in adapters of rank {o['rank']}; "
        f"prompts of up to {longest} tokens, completions of up to {o['max_new_tokens']}"
    )
    parts = memory(sizes, work)
    print("memory of an update of GRPO, by the formula")
    for name, x in parts.items():
        print(f"  {name:<12} {x / 1e6:>10,.1f} MB")
    rates = rates_of(o, sizes, work)
    took = seconds(sizes, work, **rates)
    count = arithmetic(sizes, work)
    print(
        f"an update of GRPO, at {rates['operations'] / 1e12:.3g} trillion operations and "
        f"{rates['bandwidth'] / 1e9:.3g} GB a second"
    )
    for name, x in took.items():
        print(f"  {name:<12} {count[name] / 1e12:>10.3g} trillion operations {x:>10.3g} s")
    total = sum(took.values())
    print(
        f"  {'sum':<12} {total:>33.3g} s, {o['updates']} updates {total * o['updates'] / 60:.3g} min",
        flush=True,
    )
    if o["memory"] is not None and parts["peak"] > o["memory"] * 1e9:
        raise ValueError(
            f"memory must be at least {parts['peak'] / 1e9:.2f} GB for these settings, got {o['memory']:g}: "
            "lower micro_batch_size or max_new_tokens, or set gradient_checkpointing"
        )


def rates_of(o: dict[str, Any], sizes: Sizes, work: Work) -> dict[str, float]:
    """Operations and bytes a second of this device, by one matrix product and one copy."""
    device, dtype = o["device"], getattr(torch, o["dtype"])
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None

    def fastest(function: Any) -> float:
        times = []
        for _ in range(5):
            wait()
            began = time.perf_counter()
            function()
            wait()
            times.append(time.perf_counter() - began)
        return min(times)

    rows = min(4096, work.trained_rows * work.columns)
    x = torch.ones(rows, sizes.width, dtype=dtype, device=device)
    w = torch.ones(sizes.width, sizes.inner, dtype=dtype, device=device)
    kept = torch.ones(2**24, dtype=torch.uint8, device=device)
    operations = o["tflops"] and o["tflops"] * 1e12
    bandwidth = o["bandwidth"] and o["bandwidth"] * 1e9
    return {
        "operations": operations or 2 * rows * w.numel() / fastest(lambda: x @ w),
        "bandwidth": bandwidth or 2 * kept.numel() / fastest(kept.clone),
        "between": 5e-4 * sizes.layers,
    }


# ------------------------------------------------------------------------------------------- a small model


def make_small(folder: Path, o: dict[str, Any]) -> None:
    """A model of the kind of Qwen2.5 with a tokenizer of its own, and half-right knowledge of sums.

    It stands for a model of the hub: it has read solutions, 15 % of whose results are wrong, and has seen the
    form in which an answer ends here now and then.
    """
    transformers, tokenizers = library(), library("tokenizers")
    transformers.logging.disable_progress_bar()
    seed, updates = o["seed"], o["small_updates"]
    problems = word_problems(4000, seed + 1_000_000, steps=o["steps"], largest=o["largest"], slips=0.15)
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    split = tokenizers.pre_tokenizers.Digits(individual_digits=True)
    letters = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, letters])
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([row["prompt"] + row["completion"] for row in problems], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<|endoftext|>", eos_token="<|im_end|>"
    )
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = transformers.Qwen2ForCausalLM(config)
    print(
        f"a new model of {sum(p.numel() for p in net.parameters()):,} weights reads {len(problems)} solutions"
    )
    # One in five ends in ####, so that the token is known; the others end without.
    texts = [
        row if i % 5 == 0 else row | {"completion": row["completion"].partition(" ####")[0]}
        for i, row in enumerate(problems)
    ]
    read = train(
        "sft",
        net,
        texts,
        tokenizer=tokenizer,
        seed=seed,
        updates=updates,
        warmup=min(10, updates),
        batch_size=64,
        lr=2e-3,
        eval_examples=0,
    )
    save_pretrained(read, folder)
    print(f"a model and its tokenizer: {folder}")


if __name__ == "__main__":
    sys.exit(main())
