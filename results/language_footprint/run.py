"""The memory and the arithmetic of an update, measured, beside the formula of `ppobook.language.footprint`.

Models of the kind of Qwen2.5 with random weights, at small sizes and at those of SmolLM2-135M, are trained
by GRPO on random tokens. Of an update, sampling, scoring by the reference and the gradient step are measured
one by one:

- bytes that are there all the time are counted tensor by tensor;
- bytes at the peak of a phase are those of torch's allocator, allocation by allocation, under its profiler;
- multiplications and additions are counted by torch's FlopCounterMode, with attention as matrix products,
  since those of a fused kernel are not counted on a CPU;
- seconds are of CPU, one thread, the median of three.

Nothing is tuned. The seed draws weights and tokens; the sizes in bytes do not depend on it.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from ppobook.experiments import record
from ppobook.language.footprint import Sizes, Work, arithmetic, memory
from ppobook.language.grpo import GRPO
from ppobook.language.on_policy import Experience
from ppobook.language.opening import open_task
from ppobook.language.settings import GRPOSettings
from ppobook.language.stage import Task
from ppobook.language.tokens import Completions, WordTokenizer

# Layers, width, inner width, heads, heads of keys, vocabulary.
SIZES = {
    "small": (2, 64, 160, 4, 2, 2_000),
    "wide": (3, 256, 704, 8, 2, 1_000),
    "deep": (12, 128, 352, 4, 1, 1_000),
    "wordy": (2, 128, 352, 4, 2, 20_000),
    "SmolLM2": (30, 576, 1536, 9, 3, 49_152),
}
WAYS = {
    "all weights": {},
    "all weights, bfloat16": {"dtype": "bfloat16"},
    "LoRA": {"rank": 8},
    "LoRA, bfloat16": {"rank": 8, "dtype": "bfloat16"},
    "LoRA, checkpointing": {"rank": 8, "gradient_checkpointing": True},
    "LoRA, bfloat16, checkpointing": {"rank": 8, "dtype": "bfloat16", "gradient_checkpointing": True},
}
ROWS, PROMPT, COMPLETION = 8, 48, 64


def net_of(
    layers: int, width: int, inner: int, heads: int, kv_heads: int, vocab: int, seed: int = 0, **how: Any
) -> Any:
    """A model of transformers with random weights."""
    import transformers

    config = transformers.Qwen2Config(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
        **how,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.Qwen2ForCausalLM(config)


def stage_of(net: Any, work: Work, seed: int = 0) -> GRPO:
    """GRPO on this model, and one update done, so that all that stays is there."""
    how: dict[str, Any] = {"dtype": work.dtype} | ({"lora": {"r": work.rank}} if work.rank else {})
    tokenizer = WordTokenizer([f"w{i}" for i in range(net.config.vocab_size - 2)])
    prompts = [{"prompt": f"w{i} w{i + 1}"} for i in range(8)]
    task = open_task(GRPO, Task(net, tokenizer, prompts, length), "cpu", seed, how)
    settings = {
        "batch_size": work.rows,
        "group_size": 4,
        "num_minibatches": 1,
        "epochs": 1,
        "max_new_tokens": work.completion,
        "micro_batch_size": work.micro_rows,
        "generation_rows": work.generation_rows,
        "gradient_checkpointing": work.gradient_checkpointing,
    }
    return GRPO(task, GRPOSettings.make("grpo", settings, {}), seed=seed)


def length(prompts: list[str], completions: list[str]) -> list[float]:
    return [float(len(text)) for text in completions]


def batch_of(stage: GRPO, work: Work, seed: int = 0) -> Experience:
    """Random tokens: completions as long as they may be, prompts of which one is shorter."""
    generator = torch.Generator().manual_seed(seed)
    shape = work.rows, work.prompt + work.completion
    tokens = torch.randint(2, stage.model.vocab_size, shape, generator=generator)
    prompt_mask = torch.ones(work.rows, work.prompt, dtype=torch.bool)
    prompt_mask[1:, :2] = work.prompt < 3
    mask = torch.ones(work.rows, work.completion, dtype=torch.bool)
    some = Completions(
        tokens[:, : work.prompt].masked_fill(~prompt_mask, 0),
        prompt_mask,
        tokens[:, work.prompt :],
        mask,
        torch.full(mask.shape, -5.0),
        torch.zeros(work.rows, dtype=torch.bool),
    )
    return Experience(some, torch.full(mask.shape, -5.0), torch.randn(mask.shape, generator=generator))


def phases(stage: GRPO, work: Work, seed: int = 0) -> dict[str, Callable[[], Any]]:
    """Return the work of one update."""
    from ppobook.language.generation import sample

    batch = batch_of(stage, work, seed)
    rows, some = work.sampled_rows, batch.completions
    numbers = torch.rand(work.rows, work.completion, dtype=torch.float64)

    def generating() -> None:
        with torch.no_grad(), never_ending(stage.model):
            for k in range(0, work.rows, rows):
                given = some.prompts[k : k + rows], some.prompt_mask[k : k + rows], numbers[k : k + rows]
                sample(stage.model, *given, work.completion, 1.0, None, None)

    return {
        "generating": generating,
        "scoring": lambda: stage.reference_logp(some),
        "training": lambda: stage.minibatch_step(batch),
    }


class never_ending:  # noqa: N801
    """Let a model end no sequence, so that all completions are as long as they may be."""

    def __init__(self, model: Any) -> None:
        self.model, self.eos = model, model.eos

    def __enter__(self) -> None:
        self.model.eos = -1

    def __exit__(self, *_: object) -> None:
        self.model.eos = self.eos


def always_there(stage: GRPO) -> int:
    """Bytes of all tensors of model, reference, gradients and optimizer, each once."""
    modules = [stage.model, stage.reference]
    tensors = [x for module in modules for x in (*module.parameters(), *module.buffers())]
    tensors += [p.grad for p in stage.model.parameters() if p.grad is not None]
    tensors += [x for kept in stage.optimizer.state.values() for x in (kept["exp_avg"], kept["exp_avg_sq"])]
    return sum({x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}.values())


def most_bytes(function: Callable[[], Any]) -> int:
    """The most bytes that torch has allocated at once on the CPU while a function ran, more than before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        function()
    assert watched.profiler is not None
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def operations(function: Callable[[], Any]) -> int:
    """Multiplications and additions of a function's matrix products and attention."""
    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())


def cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the median of three calls."""
    found = []
    for _ in range(3):
        began = time.process_time()
        function()
        found.append(time.process_time() - began)
    return median(found)


def one(seed: int, size: str, way: str, timed: bool = True) -> list[dict[str, Any]]:
    """A row for each phase, and one for the whole: bytes, operations and seconds, and the formula's."""
    torch.set_num_threads(1)
    work = Work(ROWS, PROMPT, COMPLETION, **WAYS[way])
    net = net_of(*SIZES[size], seed=seed)
    sizes = Sizes.of(net.config)
    stage = stage_of(net, work, seed)
    steps = phases(stage, work, seed)
    for step in steps.values():
        step()
    counted_net = net_of(*SIZES[size], seed=seed, attn_implementation="eager")
    plain = phases(stage_of(counted_net, work, seed), work, seed)
    said, counted = memory(sizes, work), arithmetic(sizes, work)
    fixed = sum(said[name] for name in ("weights", "adapters", "gradients", "moments", "reference"))
    rows = []
    for name, step in steps.items():
        rows.append(
            {
                "phase": name,
                "bytes": most_bytes(step),
                "formula_bytes": said[name],
                "operations": operations(plain[name]),
                "formula_operations": counted[name],
                "seconds": cpu_seconds(step) if timed else 0.0,
            }
        )
    there = always_there(stage)
    whole = {"phase": "fixed", "bytes": there, "formula_bytes": fixed}
    peak = {
        "phase": "peak",
        "bytes": there + max(row["bytes"] for row in rows),
        "formula_bytes": said["peak"],
    }
    rest = {"operations": 0, "formula_operations": 0, "seconds": 0.0}
    return [*rows, whole | rest, peak | rest]


if __name__ == "__main__":
    record(
        "language_footprint",
        one,
        [
            {"size": size, "way": way}
            for size in SIZES
            for way in WAYS
            if size != "SmolLM2" or "bfloat16" not in way  # which takes minutes
        ],
        seeds=[100],
        workers=1,
        note="Nothing is tuned; bytes do not depend on the seed. Seconds are of CPU, one thread.",
    )
