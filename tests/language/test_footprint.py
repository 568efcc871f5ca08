"""The formula for memory and arithmetic, beside parameters, allocations and operations that are counted."""

import pytest
import torch
from language_footprint import run as measured

import ppobook
from ppobook.language.footprint import Sizes, Work, arithmetic, memory

# Sizes of models of the hub, from their config.json: hidden, inner, layers, heads, key heads, words, tied.
SHAPES = {
    "SmolLM2-135M": ("llama", 576, 1536, 30, 9, 3, 49152, True),
    "Mistral-7B": ("mistral", 4096, 14336, 32, 32, 8, 32000, False),
    "Qwen2.5-0.5B": ("qwen2", 896, 4864, 24, 14, 2, 151936, True),
    "Qwen3-0.6B": ("qwen3", 1024, 3072, 28, 16, 8, 151936, True),
}


def config_of(name, **changes):
    from transformers import AutoConfig

    kind, width, inner, layers, heads, kv_heads, vocab, tied = SHAPES[name]
    sizes = {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
    }
    return AutoConfig.for_model(kind, **sizes, **changes)


@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_counted_exactly(transformers, name):
    config = config_of(name)
    with torch.device("meta"):
        net = transformers.AutoModelForCausalLM.from_config(config)
    assert Sizes.of(config).weights() == sum(p.numel() for p in net.parameters())


def test_adapters_are_counted_exactly(transformers, peft):
    config = config_of("Qwen2.5-0.5B")
    with torch.device("meta"):
        net = transformers.AutoModelForCausalLM.from_config(config)
        net = peft.get_peft_model(net, peft.LoraConfig(r=16, target_modules="all-linear"))
    trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
    assert Sizes.of(config).adapters(16) == trained == 8_798_208


@pytest.mark.parametrize("way", ["all weights", "LoRA", "LoRA, bfloat16, checkpointing"])
def test_memory_and_operations_are_those_that_are_measured(peft, way):
    rows = {row["phase"]: row for row in measured.one(0, "small", way, timed=False)}
    assert rows["fixed"]["bytes"] == pytest.approx(rows["fixed"]["formula_bytes"], rel=0.001)
    for phase in ("peak", "training", "scoring"):
        assert rows[phase]["bytes"] == pytest.approx(rows[phase]["formula_bytes"], rel=0.05)
    assert rows["generating"]["bytes"] == pytest.approx(rows["generating"]["formula_bytes"], rel=0.25)
    for phase in ("generating", "scoring", "training"):
        assert rows[phase]["operations"] == pytest.approx(rows[phase]["formula_operations"], rel=0.005)


def test_sft_is_within_a_tenth(peft):
    """It neither samples nor has a reference, and has fewer copies of the logits."""
    from ppobook.language.opening import open_task
    from ppobook.language.settings import SFTSettings
    from ppobook.language.sft import SFT
    from ppobook.language.stage import Task
    from ppobook.language.tokens import WordTokenizer

    for dtype in ("float32", "bfloat16"):
        work = Work(8, 20, 30, rank=8, dtype=dtype, stage="sft")
        net = measured.net_of(*measured.SIZES["small"])
        words = WordTokenizer([f"w{i}" for i in range(1998)])
        text = [" ".join(f"w{i + k}" for i in range(20)) for k in range(8)]
        data = [{"prompt": t, "completion": " ".join(["w7"] * 29)} for t in text]
        task = open_task(SFT, Task(net, words, data), "cpu", 0, {"lora": {"r": 8}, "dtype": dtype})
        settings = SFTSettings.make("sft", {"batch_size": 8, "eval_examples": 0}, {})
        stage = SFT(task, settings)
        stage.step(0)
        found = measured.most_bytes(lambda stage=stage: stage.step(1))
        said = memory(Sizes.of(net.config), work)
        assert said["generating"] == said["scoring"] == said["reference"] == 0
        assert found == pytest.approx(said["training"], rel=0.1)


@pytest.fixture(scope="module")
def table():
    return ppobook.results("language_footprint")


def test_the_recorded_formula_is_this_one(transformers, table):
    for (size, way), rows in table.groupby(["size", "way"]):
        sizes = Sizes.of(measured.net_of(*measured.SIZES[size]).config)
        work = Work(measured.ROWS, measured.PROMPT, measured.COMPLETION, **measured.WAYS[way])
        said, counted = memory(sizes, work), arithmetic(sizes, work)
        for row in rows[rows["phase"] != "fixed"].itertuples():
            assert row.formula_bytes == pytest.approx(said[row.phase], rel=1e-5)
            assert row.formula_operations == pytest.approx(counted.get(row.phase, 0), rel=1e-5)
