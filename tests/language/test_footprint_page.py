"""The formula that the page "To a real model" prints, evaluated as it stands there and held to the code."""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ppobook.language.footprint import Sizes, Work, memory, seconds

PAGE = (Path(__file__).parents[2] / "reference" / "to_a_real_model.md").read_text(encoding="utf-8")
WAYS = ("float32, all weights", "float32, LoRA", "bfloat16, all weights", "bfloat16, LoRA")
# Qwen2.5-0.5B; and two in which other terms are the largest: few words, and heads wider than the model.
SIZES = {
    "Qwen2.5-0.5B": Sizes(24, 896, 4864, 14, 2, 64, 151936, True, biases=1152, norms=1792),
    "few words": Sizes(3, 128, 352, 4, 2, 32, 300, True),
    "an own head": Sizes(2, 64, 512, 8, 8, 16, 5000, False),
}
ROWS = [Work(64, 200, 256, 4, 64), Work(8, 300, 2, 8, 8), Work(5, 1, 40, 1, 5)]


def python(formula):
    """Translate what stands between dollars to Python: spaces and neighbours are products, text is a name."""
    formula = re.sub(r"\\underbrace\{([^{}]*)\}_\{\\text\{\w+\}\}", r"\1", formula)
    formula = re.sub(r"\\text\{(\w+)\}", r"\1", formula)
    words = re.findall(r"[a-z]{2,}|[A-Za-z]|\d+|[-+/(),]", re.sub(r"\\[,;]|\\(?=max)", " ", formula))
    out = words[0]
    for before, word in itertools.pairwise(words):
        apart = before in {*"+-/(,", "max"} or word in {*"+-/),"}
        out += word if apart else f"*{word}"
    return out


def cells(name):
    """The formulas of all rows that begin with this name, table after table."""
    rows = re.findall(rf"^\| {re.escape(name)} \| (\{{math\}}.*) \|$", PAGE, re.M)
    return [re.search(r"`(.*)`", cell)[1] for row in rows for cell in row.split(" | ")]


def equations():
    block = re.search(r"\\begin\{aligned\}(.*?)\\end\{aligned\}\n\$\$ \(real-memory\)", PAGE, re.S)[1]
    lines = [line.replace("\\\\", "").strip() for line in block.strip().splitlines()]
    return dict(line.split(" &= ") for line in lines)


def by_the_page(sizes, work):
    """The parts of `memory`, from the numbers and formulas of the page."""
    half = work.dtype == "bfloat16"
    way = f"{work.dtype}, {'LoRA' if work.rank else 'all weights'}"
    known = {
        **{"L": sizes.layers, "h": sizes.width, "f": sizes.inner, "q": sizes.query, "k": sizes.keys},
        **{"V": sizes.vocab, "P": sizes.weights(), "r": work.rank or 0, "n": sizes.heads},
        **{"X": work.prompt, "Y": work.completion, "m": work.trained_rows, "g": work.sampled_rows},
        "max": max,
    }

    def value(formula):
        return eval(python(formula), known)

    first = re.search(r"A = (.*?)\.\n\$\$ \(real-adapters\)", PAGE, re.S)[1]
    known["A"] = value(first) if work.rank else known["P"]
    known["N"] = value(re.search(r"`N = ([^`]*)`", PAGE)[1])
    known |= dict(zip("wcieap", map(value, cells(way)), strict=True))
    known |= dict(zip("tsd", map(value, cells(work.dtype)), strict=True))
    masks = re.search(r"comes the mask, \{math\}`(.*?)`, or \{math\}`(.*?)` in bfloat16", PAGE).groups()
    mask = value(masks[half])
    known["a"] += mask + value(re.search(r"to \{math\}`a`, \{math\}`(.*?)` for the norms", PAGE)[1])
    known["p"] += mask
    if work.stage == "sft":
        known["t"] = value(re.search(r"its \{math\}`t` is (\d+)\.", PAGE)[1])
    parts = {re.sub(r"\\text\{(\w+)\}", r"\1", name): x for name, x in equations().items()}
    found = {name: value(parts[name]) for name in ("always", "scoring")}
    found["training"] = value(parts["checkpointing" if work.gradient_checkpointing else "training"])
    moments = [python(x) for x in re.fullmatch(r"\\max\((.*?),\\; (.*)\)", parts["generating"]).groups()]
    last, first = (eval(x, known) for x in moments)
    if not work.rank:
        found["always"] -= 4 * known["A"]  # "and there are no adapters beside it"
        if half:
            more = re.search(r"precision as well: \{math\}`(.*?)` in training", PAGE)[1]
            found["training"] += value(more)
            last += value(re.search(r"the head's \{math\}`(.*?)` at the last token", PAGE)[1])
    found["generating"] = max(last, first)
    if work.stage == "sft":
        found |= {"generating": 0, "scoring": 0, "always": found["always"] - 4 * known["A"]}
    known |= found
    return found | {"peak": value(parts["peak"])}


def test_formulas_are_read_as_they_are_meant():
    assert python(r"2 w L\,(h + 3f) + \underbrace{4A}_{\text{Adam}}") == "2*w*L*(h+3*f)+4*A"
    assert python(r"\text{always} + \max(t V,\; 5/4\, a)") == "always+max(t*V,5/4*a)"
    assert [len(cells(way)) for way in WAYS] == [6] * 4
    assert [len(cells(dtype)) for dtype in ("float32", "bfloat16")] == [3, 3]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("stage", ["grpo", "sft"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rank", [None, 16])
def test_the_printed_formula_is_the_codes(name, stage, dtype, rank):
    for work, checkpointing in itertools.product(ROWS, (False, True)):
        given = replace(work, dtype=dtype, rank=rank, stage=stage, gradient_checkpointing=checkpointing)
        said = memory(SIZES[name], given)
        fixed = ("weights", "adapters", "gradients", "moments", "reference")
        said["always"] = sum(said[part] for part in fixed)
        for part, x in by_the_page(SIZES[name], given).items():
            assert x == pytest.approx(said[part], rel=1e-4), (part, given)  # 5/4 is rounded down


def test_each_term_is_the_largest_somewhere():
    """Else the comparison above would say nothing about it."""
    sizes, work = SIZES["few words"], replace(ROWS[1], rank=16)
    assert memory(sizes, work)["generating"] > memory(sizes, replace(work, prompt=1))["generating"] * 50
    checkpointed = replace(work, gradient_checkpointing=True)
    parts = memory(sizes, checkpointed)
    assert parts["training"] > parts["activations"] + parts["logits"]
    large = memory(SIZES["Qwen2.5-0.5B"], replace(ROWS[0], rank=16, gradient_checkpointing=True))
    assert large["training"] == large["activations"] + large["logits"]


def test_the_table_of_a_free_accelerator_is_the_formulas():
    sizes = SIZES["Qwen2.5-0.5B"]
    assert f"({sizes.weights():,} weights, {sizes.adapters(16):,} in adapters of rank 16)" in PAGE
    works = {
        (dtype, rows, checkpointing): Work(64, 200, 256, rows, 64, 16, dtype, checkpointing == "yes")
        for dtype in ("float32", "bfloat16")
        for checkpointing in ("no", "yes")
        for rows in (2, 4, 8)
    }
    printed = re.findall(r"^\| (\w+) \| (\d) \| (no|yes) \| ([\d.]+) \|$", PAGE, re.M)
    assert [(dtype, int(rows), yes) for dtype, rows, yes, _ in printed] == list(works)
    for (*_, gigabytes), work in zip(printed, works.values(), strict=True):
        assert gigabytes == f"{memory(sizes, work)['peak'] / 1e9:.1f}"
        assert gigabytes == f"{by_the_page(sizes, work)['peak'] / 1e9:.1f}"
    rates = {"operations": 0.4 * 8.1e12, "bandwidth": 0.8 * 320e9, "between": 5e-4 * sizes.layers}
    took = sum(seconds(sizes, works["float32", 4, "no"], **rates).values())
    assert f"an update takes about {took:.0f} s, and 100 updates {took * 100 / 60:.0f} min" in PAGE
    assert f"{20 * 150_000 / 1e6:.0f} MB" in PAGE
