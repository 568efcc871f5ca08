"""`ppobook language …`: each command from its words to what it prints, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

import ppobook.language as language
from ppobook.cli import main
from ppobook.cli.language import STAGES
from ppobook.language import registry
from ppobook.language.settings import SETTINGS

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


def test_the_table_of_stages_is_that_of_the_library():
    assert list(STAGES) == list(registry.STAGES) == list(SETTINGS)
    for name, stage in STAGES.items():
        kind = registry.stage_class(name)
        assert (kind.wants_reward, kind.wants_reference) == (stage.wants_reward, stage.wants_reference)
        assert kind.settings_class is SETTINGS[name]


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_trains_and_says_what_became_of_it(stage, runs, tmp_path, capsys):
    out = tmp_path / "run"
    reward = ["--reward", runs / "reward_model"] if STAGES[stage].wants_reward else []
    text = said(capsys, stage, runs / "base", *reward, *QUICK[stage], "--out", out, "--seed", 3, "--quiet")
    assert text.startswith(f"{stage} from {runs / 'base'}, seed 3\n2 updates, ")
    assert text.endswith(f"saved in {out}\n")
    run = language.load(out)
    assert run.config["stage"] == stage
    assert run.config["seed"] == 3
    history = run.history
    for name in {"gold", "reward", "kl_reference", "length", "loss"} & set(history):
        assert row(text, name) == pytest.approx([history[name].iloc[0], history[name].iloc[-1]], abs=6e-4)
    assert {"gold", "reward", "kl_reference", "length"} <= set(history) or not STAGES[stage].wants_reward
    if stage == "reward":
        assert "16 pairs held out: accuracy" in text
        assert "kind words: the " in text
    else:
        samples = [line for line in text.splitlines() if line.startswith("tell ")]
        assert len(samples) == 3
        assert all("gold" in line and ("reward" in line) == STAGES[stage].wants_reward for line in samples)


def test_a_reward_of_ones_own(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_rewards.py").write_text(
        "number = 3\ndef short(prompts, completions):\n    return [-len(c.split()) for c in completions]\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["ppo", runs / "base", *QUICK["ppo"], "--quiet"]
    text = said(capsys, *words, "--reward", "my_rewards:short", "--out", "run")
    assert row(text, "reward")[0] < 0
    assert json.loads(Path("run/config.json").read_text())["reward"] == "function short"
    text = said(capsys, "ppo", "--resume", "run", "--updates", 3, "--reward", "my_rewards:short", "--quiet")
    assert "3 updates" in text
    assert "reward must be given again, 'function short'" in refused(
        capsys, "ppo", "--resume", "run", "--updates", 4
    )
    assert "got 'long', which is not in it" in refused(capsys, *words, "--reward", "my_rewards:long")
    Path("file.yaml").write_text("reward: my_rewards:short\n")
    assert "imported unasked" in refused(capsys, *words, "--config", "file.yaml")


def test_resume_ends_where_the_whole_run_does(runs, tmp_path, capsys):
    words = ["ppo", runs / "base", "--reward", runs / "reward_model", "--batch-size", 8, "--quiet"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    said(capsys, *words, "--updates", 3, "--out", whole)
    said(capsys, *words, "--updates", 1, "--out", parts)
    text = said(capsys, "ppo", "--resume", parts, "--updates", 3, "--quiet")
    assert text.startswith("ppo, seed 0\n3 updates, ")
    assert text.endswith(f"saved in {parts}\n")
    mine, other = (language.load(x) for x in (parts, whole))
    assert all(a.equal(b) for a, b in zip(mine.model.parameters(), other.model.parameters(), strict=True))
    for more in ([], ["--updates", 3]):
        text = said(capsys, "ppo", "--resume", parts, *more, "--quiet")
        assert text == f"nothing to do: {parts} has its 3 updates; larger --updates continue it\n"


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


def test_best_of_n(runs, capsys):
    text = said(capsys, "best_of_n", runs / "base", "--n", "1,2,8", "--draws", 16)
    assert "best of n by gold, 16 draws of 4 prompts" in text
    header, *_ = [line for line in text.splitlines() if "kl_bound" in line]
    assert header.split() == ["n", "kl", "kl_bound", "gold"]
    gold = [row(text, n)[-1] for n in ("1", "2", "8")]
    assert gold == sorted(gold)
    assert len(set(gold)) == 3
    assert len(re.findall(r"\(gold (\S+)\)", text)) == 3
    text = said(capsys, "best_of_n", runs / "base", "--reward-model", runs / "reward_model", "--n", 4)
    assert ["n", "kl", "kl_bound", "reward", "gold"] in [line.split() for line in text.splitlines()]
    assert "8 draws" in text


# ------------------------------------------------------------------------------------ lists and refusals


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("prediction", "got 'prediction'"),
        ("ppo", "needs MODEL"),
        ("ppo BASE", "ppobook language ppo needs --reward: a run of 'reward', gold, or MODULE:FUNCTION"),
        ("ppo BASE --reward gold --lr -1", "lr must be a number above 0 and at most 1000, got -1"),
        ("ppo BASE --reward BASE", "reward must be a reward model"),
        ("sft BASE --data nowhere.jsonl", "nowhere.jsonl"),
        ("sft BASE --reward gold", "--reward: ppobook language sft has no such option"),
        ("sft --world nouns", "must be names with numbers, as in nouns=8,places=8"),
        ("sample BASE --prompt fxo", "got 'fxo'. Did you mean 'fox'?"),
        ("compare BASE OTHER", "were trained on different data"),
        ("ladder BASE", "RUN must be a run of 'reward', got"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(argv, sentence, runs, other, capsys):
    names = {"BASE": runs / "base", "REWARD_MODEL": runs / "reward_model", "FOLDER": runs, "OTHER": other}
    names["CORPUS"] = runs / "corpus.jsonl"
    assert sentence in refused(capsys, *(names.get(word, word) for word in argv.split()))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A run in another world."""
    out = str(tmp_path_factory.mktemp("other") / "run")
    words = [
        "--world",
        WORLD.replace("nouns=2", "nouns=3"),
        *SMALL,
        "--updates",
        "1",
        "--out",
        out,
        "--quiet",
    ]
    assert main(["language", "sft", *words]) == 0
    return out


# --------------------------------------------------------------------------------- what users bring, and take


OWN = """
from ppobook.language.sft import SFT

class Mine(SFT):
    def step(self, number):
        return {**super().step(number), "mine": 1.0}
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
    assert "needs MODULE:CLASS, as in own_stages:Mine" in refused(capsys, "train", "--resume", "run")
    text = said(capsys, "train", f"--resume={runs / 'base'}", "--quiet")  # a stage of the library
    assert text.startswith("nothing to do: ")
    again = ["--config", "run/config.json", "--out", "again", "--quiet"]
    said(capsys, "train", "own_stages:Mine", runs / "base", *again)
    assert language.load("again").config == run.config | {"updates": 3}
    assert "--eval-examples" in said(capsys, "train", "own_stages:Mine", "--list")
    assert len(said(capsys, "sample", "run", "--n", 2).splitlines()) == 2
    assert "own_stages:Mine" in refused(capsys, "sft", "--resume", "run")
    assert "as in my_module:MyStage for my_module.py, got 'Mine'" in refused(capsys, "train", "Mine")
