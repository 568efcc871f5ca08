"""`ppobook language …`: each command from its words to what it prints, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

import ppobook.language as language
from ppobook.cli import main
from ppobook.cli.language import STAGES
from ppobook.language import training

WORLD = "nouns=2,places=2,verbs=2,adjectives=1,clauses=(1.0,),max_new_tokens=18"
SMALL = ["--layers", "1", "--width", "16", "--heads", "2", "--examples", "64", "--eval-examples", "16"]
FEW = ["--pairs", "32", "--eval-pairs", "16", "--updates", "2", "--eval-every", "2", "--batch-size", "8"]
# Settings with which two updates of each stage are a matter of a moment.
QUICK = {
    "sft": ["--updates", "2", "--batch-size", "8", "--examples", "32", "--eval-examples", "8"],
    "reward": FEW,
    "ppo": ["--updates", "2", "--batch-size", "8"],
    "grpo": ["--updates", "2", "--batch-size", "8", "--group-size", "4"],
    "dpo": FEW,
    "online_dpo": ["--updates", "2", "--batch-size", "8"],
    "iterative_ppo": ["--updates", "2", "--batch-size", "8", "--pairs", "8"],
    "lagged_grpo": ["--updates", "2", "--batch-size", "8", "--group-size", "4"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a base, a reward model, and data as files."""
    folder = tmp_path_factory.mktemp("runs")
    base, reward_model = str(folder / "base"), str(folder / "reward_model")
    words = ["sft", "--world", WORLD, *SMALL, "--updates", "40", "--lr", "0.01", "--batch-size", "32"]
    assert main(["language", *words, "--out", base, "--quiet"]) == 0
    assert main(["language", "reward", base, *FEW, "--out", reward_model, "--quiet"]) == 0
    world = language.load(base).world
    corpus = world.corpus(40, 3)
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    pairs = [
        {"prompt": a["prompt"], "chosen": a["completion"], "rejected": b["completion"] + " ."}
        for a, b in zip(corpus, reversed(corpus), strict=True)
    ]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return folder


def said(capsys, *argv):
    """Run a command that must succeed, and return what it prints."""
    capsys.readouterr()
    code = main(["language", *map(str, argv)])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def refused(capsys, *argv):
    """The one sentence on stderr, with exit code 2."""
    capsys.readouterr()
    try:
        code = main(["language", *map(str, argv)])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("ppobook")
    assert err.count("\n") == 1
    return err


def row(text, name):
    """The numbers of a printed table's row."""
    (line,) = [line for line in text.splitlines() if line.split()[:1] == [name]]
    return [float(x) for x in line.split()[1:]]


# ---------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_trains_and_says_what_became_of_it(stage, runs, tmp_path, capsys):
    out = tmp_path / "run"
    wants_reward = training.STAGES.find(stage).wants_reward
    reward = ["--reward", runs / "reward_model"] if wants_reward else []
    text = said(capsys, stage, runs / "base", *reward, *QUICK[stage], "--out", out, "--seed", 3, "--quiet")
    assert text.startswith(f"{stage} from {runs / 'base'}, seed 3\n2 updates, ")
    assert text.endswith(f"saved in {out}\n")
    run = language.load(out)
    assert run.config["stage"] == stage
    assert run.config["seed"] == 3
    history = run.history
    for name in {"gold", "reward", "kl_reference", "length", "loss"} & set(history):
        assert row(text, name) == pytest.approx([history[name].iloc[0], history[name].iloc[-1]], abs=6e-4)
    assert {"gold", "reward", "kl_reference", "length"} <= set(history) or not wants_reward
    if stage == "reward":
        assert "16 pairs held out: accuracy" in text
        assert "kind words: the " in text
    else:
        samples = [line for line in text.splitlines() if line.startswith("tell ")]
        assert len(samples) == 3
        assert all("gold" in line and ("reward" in line) == wants_reward for line in samples)


def test_settings_and_a_file_of_them(runs, tmp_path, capsys):
    file = tmp_path / "grpo.yaml"
    file.write_text(
        "variant: dr_grpo\nlr: 1e-3\nbatch-size: 8\ngroup_size: 2\nupdates: 1\nseed: 5\nreward: gold\n"
    )
    out = tmp_path / "out"
    words = ["grpo", "--config", file, "--lr=0.01", "--model", runs / "base", "--out", out, "--quiet"]
    said(capsys, *words)
    config = json.loads((out / "config.json").read_text())
    wanted = {"variant": "dr_grpo", "lr": 0.01, "scale": "none", "seed": 5, "reward": "gold", "updates": 1}
    assert {name: config[name] for name in wanted} == wanted
    again = tmp_path / "again"
    said(capsys, "grpo", runs / "base", "--config", out / "config.json", "--out", again, "--quiet")
    assert json.loads((again / "config.json").read_text()) == config


def test_data_of_ones_own(runs, tmp_path, capsys):
    corpus, pairs = runs / "corpus.jsonl", runs / "pairs.jsonl"
    tuned = tmp_path / "tuned"
    few = ["--updates", 2, "--batch-size", 4, "--quiet"]
    text = said(capsys, "sft", runs / "base", "--data", corpus, *few, "--out", tuned)
    assert "gold" not in text
    assert len([line for line in text.splitlines() if line.startswith("tell ")]) == 3
    text = said(capsys, "reward", tuned, "--data", pairs, *few, "--out", tmp_path / "reward_model")
    assert "4 pairs held out: accuracy" in text
    assert "kind words" not in text
    assert "eval_accuracy" not in text
    text = said(capsys, "dpo", tuned, "--data", pairs, *few)
    assert len([line for line in text.splitlines() if line.startswith("tell ")]) == 3
    (tmp_path / "text.jsonl").write_text('{"text": "the fox sits by the hill ."}\n' * 8)
    text = said(capsys, "sft", runs / "base", "--data", tmp_path / "text.jsonl", *few)
    assert "no samples: " in text
    curve = said(
        capsys, "best_of_n", tuned, "--reward-model", tmp_path / "reward_model", "--n", "1,2", "--prompts", 3
    )
    assert "4 draws of 3 prompts" in curve


def test_a_reward_of_ones_own(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_rewards.py").write_text(
        "number = 3\ndef short(prompts, completions):\n    return [-len(c.split()) for c in completions]\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["ppo", runs / "base", *QUICK["ppo"], "--quiet"]
    text = said(capsys, *words, "--reward", "my_rewards:short", "--out", "run")
    assert row(text, "reward")[0] < 0
    assert json.loads(Path("run/config.json").read_text())["reward"] == "function short"
    assert "reward must be given again, 'function short'" in refused(
        capsys, "ppo", "--resume", "run", "--updates", 4
    )
    assert "got 'long', which is not in it" in refused(capsys, *words, "--reward", "my_rewards:long")
    Path("file.yaml").write_text("reward: my_rewards:short\n")
    assert "imported unasked" in refused(capsys, *words, "--config", "file.yaml")


def test_a_run_is_resumed(runs, tmp_path, capsys):
    words = ["ppo", runs / "base", "--reward", runs / "reward_model", "--batch-size", 8, "--quiet"]
    out = tmp_path / "run"
    said(capsys, *words, "--updates", 1, "--out", out)
    text = said(capsys, "ppo", "--resume", out, "--updates", 2, "--quiet")
    assert text.startswith("ppo, seed 0\n2 updates, ")
    assert text.endswith(f"saved in {out}\n")
    text = said(capsys, "ppo", "--resume", out, "--quiet")
    assert text == f"nothing to do: {out} has its 2 updates; larger --updates continue it\n"


# ----------------------------------------------------------------------------------------------- readings


def test_sample_evaluate(runs, capsys):
    base, reward_model = runs / "base", runs / "reward_model"
    lines = said(capsys, "sample", base, "--n", 3).splitlines()
    assert len(lines) == 3
    assert len({line.partition(" :")[0] for line in lines}) == 3
    assert said(capsys, "sample", base, "--n", 9).count("\n") == 9
    one = said(capsys, "sample", base, "--prompt", "tell owl hill :", "--n", 2, "--temperature", 0)
    first, second = one.splitlines()
    assert first == second
    assert first.startswith("tell owl hill : ")
    text = said(
        capsys, "evaluate", base, "--reward-model", reward_model, "--reference", base, "--n", 64, "--seed", 2
    )
    found = language.evaluate(str(base), reward_model=str(reward_model), reference=str(base), n=64, seed=2)
    assert {name: row(text, name)[0] for name in found.numbers} == pytest.approx(found.numbers, abs=6e-4)
    assert row(text, "kl_reference") == [0.0]


def test_compare(runs, capsys):
    base, reward_model = runs / "base", runs / "reward_model"
    words = ["compare", base, runs / "tuned", "--reward-model", reward_model, "--reference", base, "--n", 32]
    tuned = said(capsys, "sft", base, *QUICK["sft"], "--lr", 0.01, "--out", runs / "tuned", "--quiet")
    assert "2 updates" in tuned
    text = said(capsys, *words)
    assert text.split("\n")[0].split()[:3] == ["gold", "reward", "kl_reference"]
    assert text.count("\n  tell ") == 4
    assert main(["compare", str(base)]) == 2  # the command for policies
    assert "must be written by ppobook.train" in capsys.readouterr().err


def test_best_of_n(runs, capsys):
    text = said(capsys, "best_of_n", runs / "base", "--n", "1,2,8", "--draws", 16)
    assert "best of n by gold, 16 draws of 4 prompts" in text
    header, *_ = [line for line in text.splitlines() if "kl_bound" in line]
    assert header.split() == ["n", "kl", "kl_bound", "gold"]
    gold = [row(text, n)[-1] for n in ("1", "2", "8")]
    assert gold == sorted(gold)
    assert len(set(gold)) == 3
    assert len(re.findall(r"\(gold (\S+)\)", text)) == 3
    # Of all that were drawn: the texts below the table are those that its last line is a mean of.
    text = said(capsys, "best_of_n", runs / "base", "--n", 8, "--draws", 8, "--samples", 4)
    best = [float(gold) for gold in re.findall(r"\(gold (\S+)\)", text)]
    assert len(best) == 4
    assert sum(best) / 4 == pytest.approx(row(text, "8")[-1], abs=6e-3)


# ------------------------------------------------------------------------------------ lists and refusals


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("ppo", "model must be a run, its folder or a model for 'ppo', got None"),
        ("ppo BASE --rewrad gold", "Did you mean --reward"),
        ("ppo BASE --reward BASE", "reward must be a reward model"),
        ("sft BASE --reward gold", "reward must be left out for 'sft'"),
        ("sft --world nouns", "must be names with numbers, as in nouns=8,places=8"),
        ("ppo --resume BASE", "'sft'"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(argv, sentence, runs, capsys):
    assert sentence in refused(capsys, *(runs / "base" if word == "BASE" else word for word in argv.split()))


# --------------------------------------------------------------------------------- what users bring, and take


OWN = """
from ppobook.language.sft import SFT

class Mine(SFT):
    def step(self, number):
        return {**super().step(number), "mine": 1.0}

class Other: pass
"""


def test_a_stage_of_ones_own(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "own_stages.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    few = ["--updates", 2, "--batch-size", 8, "--quiet"]
    text = said(capsys, "train", "own_stages:Mine", "--lr", 0.01, runs / "base", *few, "--out", "run")
    assert text.startswith(f"own_stages:Mine from {runs / 'base'}, seed 0\n2 updates, ")
    run = language.load("run")
    assert run.config["lr"] == 0.01
    assert run.history["mine"].tolist() == [1.0, 1.0]
    text = said(capsys, "train", "own_stages:Mine", "--resume", "run", "--updates", 3, "--quiet")
    assert "3 updates" in text
    again = ["--config", "run/config.json", "--out", "again", "--quiet"]
    said(capsys, "train", "own_stages:Mine", runs / "base", *again)
    assert language.load("again").config == run.config | {"updates": 3}
    assert "--eval-examples" in said(capsys, "train", "own_stages:Mine", "--list")
    assert len(said(capsys, "sample", "run", "--n", 2).splitlines()) == 2
    assert "own_stages:Mine" in refused(capsys, "sft", "--resume", "run")
    for words, sentence in (
        ([], "needs MODULE:CLASS"),
        (["Mine"], "as in my_module:MyStage for my_module.py, got 'Mine'"),
        (["own_stages:Other"], "stage must be one of"),
        (["own_stages:Mine", "--udpates", "2"], "Did you mean --updates"),
    ):
        assert sentence in refused(capsys, "train", *words)


def test_export(runs, tmp_path, capsys):
    pytest.importorskip("transformers")
    out = tmp_path / "exported"
    text = said(capsys, "export", runs / "base", out)
    assert text == f"saved in {out}, for transformers.AutoModelForCausalLM.from_pretrained('{out}')\n"
    assert "must be a new folder" in refused(capsys, "export", runs / "base", out)
