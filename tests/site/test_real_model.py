"""The script of the page "To a real model" runs from end to end on a small model; the page's commands."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest
import torch

from ppobook.evaluation import aggregate
from ppobook.experiments import facts, results
from ppobook.language import load, prompts_of

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "to_a_real_model.py"
STAGES = ("before", "after SFT", "after GRPO")
NAMES = ("as made", "after SFT, 100 updates", "after GRPO, 100 updates")
PAGE = (ROOT / "reference" / "to_a_real_model.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ python (\S+)(.*)$", PAGE.replace("\\\n", " "), re.M)
FEW = "--problems 40 --held-out 6 --max-new-tokens 8 --batch-size 8 --group-size 4 --rank 2 --largest 9"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("to_a_real_model", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def small(script, tmp_path_factory):
    """The script's own small model, which has hardly read anything."""
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    folder = tmp_path_factory.mktemp("models") / "small"
    assert script.main(["--small", str(folder), "--small-updates", "2"]) == 0
    return folder


def words(small, out, more=""):
    return shlex.split(f"--model {small} --out {out} --sft-updates 2 --updates 2 {FEW} {more}")


def test_from_a_model_to_an_adapter(script, small, tmp_path, capsys):
    import peft
    import transformers

    out = tmp_path / "sums"
    assert script.main(words(small, out, "--memory 1 --gradient-checkpointing")) == 0
    said = capsys.readouterr().out
    begin = said.index("memory of an update of GRPO")
    assert begin < said.index("an update of GRPO, at") < said.index("before:")
    assert said.index("before:") < said.index("after SFT:") < said.index("after GRPO:")
    assert "peak" in said[begin:]
    report = json.loads((out / "report.json").read_text())
    assert list(report) == ["before", "after SFT", "after GRPO"]
    assert all(0 <= row["greedy"] <= 1 for row in report.values())

    tuned = load(out / "grpo")
    base = transformers.AutoModelForCausalLM.from_pretrained(small)
    theirs = peft.PeftModel.from_pretrained(base, out / "adapter").eval()
    tokens = prompts_of([{"prompt": "Question: Ana has 3 eggs."}], tuned.tokenizer).tokens
    torch.testing.assert_close(theirs(input_ids=tokens).logits, tuned.model(tokens), rtol=1e-4, atol=1e-4)

    assert script.main(words(small, out)) == 2
    assert "File exists" in capsys.readouterr().err


def test_resume_goes_on_where_a_run_was_stopped(script, small, tmp_path, capsys, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"

    def answer_is_right(prompts, completions, answer):  # a model that knows nothing is never right
        return [float(len(text)) for text in completions]

    monkeypatch.setattr(script, "answer_is_right", answer_is_right)
    assert script.main(words(small, whole)) == 0
    real = script.train

    def stopped(stage=None, *given, **how):
        if stage == "grpo":
            real(stage, *given, **{**how, "updates": 1})
            # As an interrupted run is: with the updates that were asked for, and fewer done.
            raise KeyboardInterrupt
        return real(stage, *given, **how)

    monkeypatch.setattr(script, "train", stopped)
    assert script.main(words(small, parts)) == 130
    monkeypatch.setattr(script, "train", real)
    assert f"stopped; go on with --resume {parts}" in capsys.readouterr().err
    assert script.main(["--resume", str(parts)]) == 0
    said = capsys.readouterr().out
    assert "sft: done before, 2 updates" in said
    assert "grpo: resumed after 1 updates" in said
    one, other = load(whole / "grpo"), load(parts / "grpo")
    assert len(one.history) == len(other.history) == 2
    assert one.history["grad_norm"].gt(0).all()
    weights = other.model.state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in one.model.state_dict().items())
    assert (parts / "adapter" / "adapter_model.safetensors").is_file()


def test_the_page_has_the_recorded_shares():
    table = results("language_real_model")
    shares = {x: table.pivot(index="seed", columns="stage", values=x) * 100 for x in ("greedy", "sampled")}
    assert list(shares["greedy"].index) == facts("language_real_model")["seeds"]

    def row(name, of, sign=""):
        cells = []
        for x in shares.values():
            mean, low, high = (f"{round(float(y)):{sign}d}".replace("-", "−") for y in aggregate(of(x)))
            cells.append(f"{mean} ({low} to {high})")
        return f"| {name} | {' | '.join(cells)} |"

    lines = [
        *(row(name, lambda x, stage=stage: x[stage]) for name, stage in zip(NAMES, STAGES, strict=True)),
        row("what SFT changes", lambda x: x["after SFT"] - x["before"], "+"),
        row("what GRPO changes", lambda x: x["after GRPO"] - x["after SFT"], "+"),
    ]
    assert "\n".join(lines) in PAGE
    recorded_facts = facts("language_real_model")
    minutes = recorded_facts["cpu_seconds"] / len(recorded_facts["seeds"]) / 60
    assert f"A seed takes {minutes:.1f} minutes of one core" in PAGE
    by_grpo = {name: x["after GRPO"] - x["after SFT"] for name, x in shares.items()}
    assert by_grpo["sampled"].min() > 0  # "in all five seeds"
    assert ((by_grpo["greedy"] > 0).sum(), (by_grpo["greedy"] < 0).sum()) == (3, 2)
