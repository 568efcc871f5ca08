"""The formula for memory and arithmetic, beside parameters, allocations and operations that are counted."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from language_footprint import run as measured

import ppobook
from ppobook.language.footprint import Sizes, Work, arithmetic, memory, seconds

# Sizes of models of the hub, from their config.json: hidden, inner, layers, heads, key heads, words, tied.
SHAPES = {
    "SmolLM2-135M": ("llama", 576, 1536, 30, 9, 3, 49152, True),
    "Mistral-7B": ("mistral", 4096, 14336, 32, 32, 8, 32000, False),
    "Qwen2.5-0.5B": ("qwen2", 896, 4864, 24, 14, 2, 151936, True),
    "Qwen3-0.6B": ("qwen3", 1024, 3072, 28, 16, 8, 151936, True),
}
PHASES = ("training", "scoring", "generating")
MEASURED = ("seconds", "operations")
HALF_A_BILLION = Work(64, 200, 256, micro_rows=4, generation_rows=64, rank=16)


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


def test_biases_are_counted(transformers):
    config = config_of("SmolLM2-135M", attention_bias=True, mlp_bias=True)
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


def test_the_page_has_the_recorded_ranges(table):
    page = (Path(__file__).parents[2] / "reference" / "to_a_real_model.md").read_text(encoding="utf-8")
    assert len(table.groupby(["size", "way"])) == len(measured.SIZES) * len(measured.WAYS) == 24
    share = (table["bytes"] / table["formula_bytes"]).groupby(table["phase"])
    assert share.min()["fixed"] == pytest.approx(1, abs=5e-4) == share.max()["fixed"]
    for phase, line in {"peak": "bytes at the peak", **{name: f"… of {name}" for name in PHASES}}.items():
        assert f"| {line} | {share.min()[phase]:.2f} to {share.max()[phase]:.2f} |" in page
    steps = table[table["phase"].isin(PHASES)]
    counted = steps["operations"] / steps["formula_operations"]
    assert f"| operations, each phase | {counted.min():.3f} to {counted.max():.3f} |" in page
    by = {name: steps.pivot(index=["way", "size"], columns="phase", values=name) for name in MEASURED}
    seen, said = (by[name]["training"] / by[name]["scoring"] for name in MEASURED)
    for way in measured.WAYS:
        ratios = []
        for x in (said[way], seen[way]):
            low, high = f"{x.min():.1f}", f"{x.max():.1f}"
            ratios.append(low if low == high else f"{low} to {high}")
        assert f"| {way} | {ratios[0]} | {ratios[1]} |" in page
    rate = by["operations"] / by["seconds"]
    share_of_scoring = rate["generating"] / rate["scoring"]
    assert f"{share_of_scoring.min():.0%} to {share_of_scoring.max():.0%}".replace("%", " %") in page


def test_what_a_setting_changes(transformers):
    sizes = Sizes.of(config_of("Qwen2.5-0.5B"))
    base = memory(sizes, HALF_A_BILLION)
    assert list(base) == list(memory(sizes, replace(HALF_A_BILLION, stage="sft")))
    less = memory(sizes, replace(HALF_A_BILLION, gradient_checkpointing=True))
    assert less["activations"] < base["activations"] / 5
    assert memory(sizes, replace(HALF_A_BILLION, dtype="bfloat16"))["weights"] == base["weights"] / 2
    whole = memory(sizes, replace(HALF_A_BILLION, rank=None))
    assert whole["weights"] + whole["gradients"] + whole["moments"] == 16 * sizes.weights()
    again = arithmetic(sizes, replace(HALF_A_BILLION, gradient_checkpointing=True))
    assert again["training"] > arithmetic(sizes, HALF_A_BILLION)["training"]


def test_generation_waits_for_memory_or_for_kernels(transformers):
    sizes = Sizes.of(config_of("Qwen2.5-0.5B"))
    rates = {"operations": 1e15, "bandwidth": 1e12}
    took = seconds(sizes, HALF_A_BILLION, **rates)
    assert took["generating"] > 256 * 4 * sizes.weights() / 1e12
    few = seconds(sizes, replace(HALF_A_BILLION, generation_rows=8), **rates, between=0.03)
    assert few["generating"] == pytest.approx(8 * 256 * 0.03)
    assert took["training"] == arithmetic(sizes, HALF_A_BILLION)["training"] / 1e15
