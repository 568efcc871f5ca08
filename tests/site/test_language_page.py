"""The code on the page about language models runs, and its tables say what the library does."""

import ast
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_pretrained import save_letters
from warm import python

from ppobook.cli import main
from ppobook.language import World, train
from ppobook.language.settings import VARIANTS
from ppobook.language.training import STAGES

PAGE = (Path(__file__).parents[2] / "reference" / "language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
COMMANDS = [block.splitlines() for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S)]

QUIET = {"TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def cells(heading):
    """The rows of the table below a heading."""
    (part,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return rows[2:]


def codes(cell):
    return re.findall(r"`([^`]+)`", cell)


def run_python(code, folder):
    (folder / "page.py").write_text(code, encoding="utf-8")
    done = python("page.py", cwd=folder, **QUIET)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def run_command(tmp_path, monkeypatch, capfd):
    """A function that runs a line of the page, in a folder of its own, and returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(line, *more):
        program, *words = line.removeprefix("$ ").split()
        if program == "ppobook":  # within this process: to import transformers takes several seconds
            code = main([*words, *more])
            said = capfd.readouterr()
            assert code == 0, said.err
            return said.out
        assert program == "torchrun"
        command = [sys.executable, "-m", "torch.distributed.run", *words, *more]
        done = subprocess.run(
            command, env={**os.environ, **QUIET}, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def with_two_updates(code):
    """The page's code with two updates in each run."""
    return re.sub(r"^(\w+ = train\()(.*?),?\s*\)$", r"\1\2, updates=2)", code, flags=re.M | re.S)


def test_the_commands_of_the_world_run(run_command):
    for line in COMMANDS[0][:-1]:
        assert "2 updates" in run_command(line, "--updates", "2", "--quiet")
    (shared,) = COMMANDS[2]
    said = run_command(shared, "--updates", "2", "--batch-size", "32", "--quiet")
    assert said.count("2 updates") == 1
    said = run_command(COMMANDS[0][-1], "--n", "32")
    assert {"gold", "reward", "kl_reference", "distinct_2"} <= set(said.splitlines()[0].split())
    assert [line.split()[0] for line in said.splitlines()[1:4]] == ["base", "ppo", "dpo"]


def test_the_commands_of_the_readme_run(run_command):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ppobook language [^#\n]*", readme, re.M)
    assert len(lines) == 6
    for line in lines[:-1]:
        assert "1 update" in run_command(line, "--updates", "1", "--quiet")
    assert "runs/tuned" in run_command(lines[-1], "--n", "16")


def test_the_python_of_the_world_runs(tmp_path):
    said = run_python(with_two_updates("\n".join([BLOCKS[0], BLOCKS[3]])), tmp_path)
    assert "kl_reference" in said
    assert "tuned" in said


@pytest.fixture
def my_model(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    save_letters(tmp_path / "my-model")
    return tmp_path


def test_the_python_of_your_own_model_runs(my_model):
    checks = (
        "assert right([''] * 4, ['7 ', ' 8', '70', ''], [7, 7, 7, 7]) == [1.0, 0.0, 0.0, 0.0]\n"
        "assert len(run.history) == 2 and run.model.lora['r'] == 8\n"
        "assert again.config.model_type == 'llama'\n"
    )
    code = [with_two_updates("from ppobook.language import train\n" + BLOCKS[1]), BLOCKS[2], checks]
    assert "dead_groups" in run_python("\n".join(code), my_model)


def test_the_commands_of_your_own_model_run(my_model, run_command):
    pairs = [
        {"prompt": f"{a} + {b} =", "chosen": f" {a + b}", "rejected": f" {a}"}
        for a in range(4)
        for b in range(1, 5)
    ]
    text = "".join(json.dumps(pair) + "\n" for pair in pairs)
    (my_model / "pairs.jsonl").write_text(text, encoding="utf-8")
    text = "".join(json.dumps({"prompt": pair["prompt"]}) + "\n" for pair in pairs)
    (my_model / "prompts.jsonl").write_text(text, encoding="utf-8")
    for line in COMMANDS[1]:
        trains = line.split()[3] in STAGES
        run_command(line, *(["--updates", "1", "--batch-size", "4", "--quiet"] if trains else []))
    assert (my_model / "my-better-model" / "config.json").is_file()


def test_the_table_of_stages_is_complete():
    named = [codes(row[0])[0] for row in cells("The stages")]
    assert set(named) == {*STAGES, "best_of_n"}
    losses = {
        part.removeprefix("loss=").strip('"') for row in cells("The stages") for part in codes(row[0])[1:]
    }
    choices = STAGES.find("dpo").settings_class.__dataclass_fields__["loss"].metadata["choices"]
    assert losses == set(choices) - {"dpo"}


def test_the_table_of_variants_is_what_they_set():
    said = {}
    for name, sets, _ in cells("GRPO's relatives"):
        call = ast.parse(f"dict({''.join(codes(sets))})", mode="eval").body
        said[codes(name)[0]] = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    assert said == {name: variant.settings for name, variant in VARIANTS.items()}


def test_every_column_of_a_history_is_explained():
    world = World(nouns=2, places=2)
    few = {"progress": False, "updates": 1}
    looks = {"pairs": 30, "eval_pairs": 10, "eval_every": 1}
    base = train("sft", data=world, examples=50, eval_every=1, **few)
    reward_model = train("reward", base, **looks, **few)
    runs = [base, reward_model]
    for loss in ("dpo", "kto"):
        runs.append(train("dpo", base, loss=loss, **({} if loss == "kto" else looks), **few))
    for stage in ("ppo", "grpo", "online_dpo", "lagged_grpo"):
        runs.append(train(stage, base, reward=reward_model, batch_size=16, **few))
    runs.append(train("iterative_ppo", base, reward=reward_model, batch_size=8, pairs=10, **few))
    assert {run.config["stage"] for run in runs} == set(STAGES)
    found = {column for run in runs for column in run.history.columns}
    assert {name for row in cells("What the numbers mean") for name in codes(row[0])} == found


def test_what_is_called_otherwise_in_trl_is_a_setting_there_and_here():
    ours = {name for stage in STAGES for name in STAGES.find(stage).settings_class.__dataclass_fields__}
    rows = cells("Beside TRL")
    assert {name for row in rows for name in codes(row[0])} <= ours
    (note,) = [row[2] for row in rows if codes(row[0]) == ["kl_coef"]]
    assert f"{STAGES.find('grpo').settings_class().kl_coef:g} here" in note
    trl = pytest.importorskip("trl")
    theirs = {f.name for kind in (trl.GRPOConfig, trl.DPOConfig) for f in dataclasses.fields(kind)}
    assert {name for row in rows for name in codes(row[1])} <= theirs


def test_trls_defaults_are_as_the_page_says():
    trl = pytest.importorskip("trl")
    for config, sets, _, _ in cells("TRL's defaults"):
        config = getattr(trl, *codes(config))
        for said in codes(sets):
            (word,) = ast.parse(f"dict({said})", mode="eval").body.keywords
            field = config.__dataclass_fields__[word.arg]
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            assert default == ast.literal_eval(word.value), said
