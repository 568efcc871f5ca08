"""The page "To a real model": its code and its script run on a small model, its numbers are recorded."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest
from small_pretrained import CHAT, save_letters
from warm import python

from ppobook.experiments import results
from ppobook.language import load
from ppobook.language.footprint import Sizes, Work, memory
from ppobook.language.sums import answer_is_right, chat_sums, last_number

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "reference" / "to_a_real_model.md").read_text(encoding="utf-8")
GRPO, RECORD, REWARD, DPO, OWN, SAVE, MEMORY = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture
def small(tmp_path):
    """A folder in which runs/smollm2 is a model that is small and new."""
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    save_letters(tmp_path / "runs" / "smollm2", CHAT)
    return tmp_path


def test_the_code_of_the_page_runs(small):
    quick = re.sub(r"updates=\d+", "updates=1", "\n".join([GRPO, DPO, OWN, SAVE, MEMORY]))
    assert quick.count("updates=1") == 3
    save_letters(small / "my-model", CHAT)
    for name, rows in zip(("my.jsonl", "held-out.jsonl"), chat_sums(), strict=True):
        (small / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (small / "page.py").write_text(quick, encoding="utf-8")
    done = python("page.py", cwd=small, TQDM_DISABLE="1", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert "chosen_logp" in done.stdout
    assert done.stdout.endswith(" GB\n")
    assert load(small / "runs" / "sums").config["reward"] == "function answer_is_right"
    assert (small / "my-better-model" / "model.safetensors").is_file()


def test_the_record_and_the_reward_are_the_librarys():
    record = ast.literal_eval(RECORD)
    assert record in [row for rows in chat_sums() for row in rows]
    shown = {"last_number": last_number}
    exec(REWARD, shown)
    texts = ["7 + 5 = 12.", "12 or 13", "none", "The answer is 12"]
    assert shown["answer_is_right"]([], texts, [12] * 4) == answer_is_right([], texts, [12] * 4)


def test_the_script_trains_and_goes_on(small, capsys):
    spec = importlib.util.spec_from_file_location("script", ROOT / "examples" / "to_a_real_model.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    data = small / "my.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in chat_sums()[0][:20]), encoding="utf-8")
    model, out = small / "runs" / "smollm2", small / "runs" / "mine"
    words = ["--model", str(model), "--out", str(out), "--data", str(data), "--seed", "1"]
    script.main([*words, "--updates", "1"])
    said = capsys.readouterr().out
    assert re.search(r"^before: \d+% right; sampled, \d+%\n    \d+: ", said, re.M)
    assert re.search(r"^after: ", said, re.M)
    script.main([*words, "--updates", "2"])
    run = load(out)
    assert len(run.history) == 2
    assert run.config["lora"] == {"r": 16, "alpha": 32}


def test_the_sums_on_the_page_are_recorded():
    table = results("real_sums").query("task == 'one digit'")
    mean = table.groupby("update")[["greedy", "sampled", "ended", "cpu"]].mean()
    rows = re.findall(r"^\| (\d+) \| (0.\d+) \| (0.\d+) \| (0.\d+) \| (\d.\d) \|$", PAGE, re.M)
    assert [int(update) for update, *_ in rows] == [0, 10, 20]
    for update, *said in rows:
        *shares, cpu = mean.loc[int(update)]
        assert said == [*(f"{x + 1e-9:.2f}" for x in shares), f"{cpu / 60:.1f}"]
    at = table.set_index(["update", "seed"])
    assert (at.loc[20]["greedy"] > at.loc[0]["greedy"]).all()
    assert len(at.loc[20]) == 5
    assert f"between {at.loc[20]['greedy'].min():.2f} and {at.loc[20]['greedy'].max():.2f}" in PAGE
    lost = (at.loc[0]["elsewhere_sampled"] - at.loc[20]["elsewhere_sampled"]).mean()
    assert f"lost {lost:.2f} nats" in PAGE
    for said in ("To add 7 and 9, we need to combine the numbers in a", "7 + 9 = 16."):
        assert said in "".join(table["texts"])


def test_the_memory_on_the_page_is_recorded():
    table = results("language_footprint")
    peaks = table[table["phase"] == "peak"].set_index(["size", "way"])
    measured, computed = peaks["bytes"] / 1e9, peaks["formula_bytes"] / 1e9
    rows = re.findall(r"^\| ((?:all weights|LoRA).*?) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.M)
    assert [way for way, *_ in rows] == list(measured["SmolLM2"].index)
    for way, *said in rows:
        assert said == [f"{x['SmolLM2', way]:.2f}" for x in (measured, computed)]
    ratio = measured / computed
    assert f"between {ratio.min():.2f} and {ratio.max():.2f} times" in PAGE
    timed = table[table["seconds"] > 0]
    counted = timed["operations"] / timed["formula_operations"]
    assert counted.between(0.998, 1.002).all()
    timed = timed[timed["size"] == "SmolLM2"].assign(rate=timed["operations"] / timed["seconds"])
    rate = timed.pivot(index="way", columns="phase", values="rate")
    share = rate["generating"] / rate["scoring"]
    assert f"{share.min():.0%} to {share.max():.0%}" in PAGE.replace(" %", "%")


def test_the_memory_of_a_larger_model_is_computed():
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen2Config(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    rows = re.findall(r"^\| (float32|bfloat16) \| (\d+) \| (no|yes) \| ([\d.]+) \|$", PAGE, re.M)
    assert len(rows) == 4
    for dtype, micro, checkpointing, said in rows:
        how = {"dtype": dtype, "gradient_checkpointing": checkpointing == "yes"}
        work = Work(64, 200, 256, micro_rows=int(micro), generation_rows=64, rank=16, **how)
        assert f"{memory(Sizes.of(config), work)['peak'] / 1e9:.1f}" == said
