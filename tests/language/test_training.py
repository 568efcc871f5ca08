"""Training of language models: what a run is made from, what a resumed one is given again, rewards, data.

What it has in common with training of policies is in tests/run/test_contract.py.
"""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
import torch
from small_language import completions as some_completions
from small_language import same, same_run, timeless
from small_stages import (
    CASES,
    RECORDS,
    SIZES,
    WORLD,
    Own,
    decoder,
    fit,
    go_on,
    reward_model,
    short,
)

from ppobook.language.data import train_eval_split
from ppobook.language.grpo import GRPO
from ppobook.language.run import load
from ppobook.language.sft import SFT
from ppobook.language.stage import Task
from ppobook.language.tokens import WordTokenizer
from ppobook.language.training import train
from ppobook.language.world import World
from ppobook.run.folder import checkpoints


def listed(config):
    return {name: list(x) if isinstance(x, tuple) else x for name, x in config.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_is_read_without_running_code_and_its_config_is_plain(tmp_path, case):
    fit(case, updates=2, out=tmp_path / "run")
    state = torch.load(tmp_path / "run" / "checkpoint-000002" / "state.pt", weights_only=True)
    for part in ("config", "architecture", "tokenizer"):
        assert json.loads(json.dumps(state[part])) == listed(state[part])
    assert same(load(tmp_path / "run").config, state["config"])


@pytest.mark.parametrize("case", CASES)
def test_every_checkpoint_is_a_place_to_go_on_from(tmp_path, case):
    straight = fit(case, updates=6)
    for stop in (0, 1, 4):
        fit(case, updates=max(stop, 1), out=tmp_path / str(stop))
        if stop == 0:
            shutil.rmtree(tmp_path / "0" / "checkpoint-000001")
        same_run(go_on(tmp_path / str(stop), case, updates=6), straight)


def test_a_frozen_parameter_stays_as_it_is(tmp_path):
    """In a resumed run too, and in one that starts from it."""
    model = fit(updates=1).model
    assert all(p.requires_grad for p in model.parameters())
    model.wpe.weight.requires_grad_(False)
    straight = fit("own, gold", model=model)
    fit("own, gold", model=model, updates=3, out=tmp_path / "run")
    run = go_on(tmp_path / "run", "own, gold", updates=7)
    same_run(run, straight)
    assert torch.equal(run.model.wpe.weight, model.wpe.weight)
    assert not torch.equal(run.model.wte.weight, model.wte.weight)
    for one in (run.model, load(tmp_path / "run").model):
        assert [name for name, p in one.named_parameters() if not p.requires_grad] == ["wpe.weight"]


def test_a_chain_by_folders_and_a_chain_by_runs_are_the_same(tmp_path):
    base = fit(out=tmp_path / "base")
    small = {"pairs": 30, "eval_pairs": 0, "batch_size": 8, "updates": 3, "progress": False}
    critic = train("reward", base, **small)
    train("reward", tmp_path / "base", out=tmp_path / "reward_model", **small)
    same_run(load(tmp_path / "reward_model"), critic)
    given = {"stage": Own, "updates": 3, "progress": False}
    by_runs = train(model=base, reward=critic, **given)
    by_folders = train(model=str(tmp_path / "base"), reward=tmp_path / "reward_model", **given)
    same_run(by_folders, by_runs)
    assert by_runs.config["data"] == {"world": WORLD.config}
    assert by_runs.config["reward"] == "reward_model"
    # A checkpoint holds every network: the others may go.
    train(model=base, reward=critic, out=tmp_path / "tuned", **given)
    for folder in ("base", "reward_model"):
        os.rename(tmp_path / folder, tmp_path / f"gone-{folder}")
    same_run(
        go_on(tmp_path / "tuned", "own, a reward model", updates=5),
        train(**{**given, "updates": 5}, model=base, reward=critic),
    )


def test_warmup_and_gradient_clipping():
    run = fit(warmup=3, lr=0.08)
    assert run.history["lr"].tolist() == [0.02, 0.04, 0.06, 0.08, 0.08, 0.08, 0.08]
    assert fit(warmup=0, lr=0.08).history["lr"].tolist() == [0.08] * 7

    stage = SFT(Task(decoder(), WORLD.tokenizer, WORLD), SFT.settings_class(examples=10))
    weight = stage.model.wte.weight
    stage.optimizer = torch.optim.SGD([weight], lr=1.0)
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    for length, limit, moved in ((4.0, 1.0, 1.0), (4.0, None, 4.0), (0.5, 1.0, 0.5)):
        stage.settings = dataclasses.replace(stage.settings, max_grad_norm=limit)
        before = weight.detach().clone()
        weight.grad = direction * (length / direction.norm())
        norm = stage.optimizer_step()
        assert norm == pytest.approx(length, rel=1e-5)
        assert (weight - before).norm().item() == pytest.approx(moved, rel=1e-4)


# ---------------------------------------------------------------------- resumed with something else, damaged


RESUMED_WITH = [
    ("sft", {"stage": "sfd"}, "stage must be one of .* got 'sfd'. Did you mean 'sft'"),
    ("sft", {"data": World(**{**SIZES, "nouns": 3})}, "data must be those of resume=.* got other data"),
    ("sft", {"model": decoder()}, "model must be left out on resume: the run has its own"),
    ("own, a function", {"reward": None}, "reward must be given again, 'function short' as in resume=.*None"),
    ("own, gold", {"reward": short}, "reward must be left out, since resume=.* has its own, got <function"),
]


@pytest.mark.parametrize(
    ("case", "changes", "message"), RESUMED_WITH, ids=lambda x: str(x)[:40].split(" at ")[0]
)
def test_a_resumed_run_keeps_its_model_its_reward_and_its_data(tmp_path, case, changes, message):
    fit(case, updates=1, out=tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises((ValueError, TypeError), match=message):
        go_on(tmp_path / "run", case, **{"updates": 2, **changes})
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = {"reward": "gold"} if case == "own, gold" else {}
    assert len(go_on(tmp_path / "run", case, updates=2, **again).history) == 2


def test_data_in_a_file_are_found_again_and_must_be_the_same(tmp_path, monkeypatch):
    file = tmp_path / "data.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in RECORDS))
    run = fit("sft, data in memory", data=file, out=tmp_path / "run")
    in_memory = fit("sft, data in memory")
    assert timeless(run.history).equals(timeless(in_memory.history))
    assert len(train(resume=tmp_path / "run", updates=9, progress=False).history) == 9
    monkeypatch.chdir(tmp_path)
    near = fit("sft, data in memory", data="data.jsonl", out="near")
    assert near.config["data"]["file"] == str(file)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(train(resume="../near", updates=9, progress=False).history) == 9
    file.write_text(file.read_text() + json.dumps(RECORDS[0]) + "\n")
    with pytest.raises(ValueError, match="data must be those of resume="):
        train(resume=tmp_path / "run", updates=11, progress=False)


def state_of(folder):
    path = checkpoints(folder)[-1] / "state.pt"
    return path, torch.load(path, weights_only=True)


def test_a_run_from_another_kind_of_device_goes_on_with_a_generator_of_its_own(tmp_path):
    """The state of an accelerator's generator is of another length, and means nothing here."""
    runs_there = []
    for name in ("a", "b"):
        fit("own, gold", updates=3, out=tmp_path / name)
        path, state = state_of(tmp_path / name)
        state["config"]["device"] = "cuda"
        state["stage"]["generator"] = torch.zeros(16, dtype=torch.uint8)
        torch.save(state, path)
        runs_there.append(go_on(tmp_path / name, "own, gold", updates=6, device="cpu"))
    same_run(*runs_there)
    assert runs_there[0].config["device"] == "cpu"


# ------------------------------------------------------------------------------------------- what it is given

SWAPPED = WordTokenizer([*reversed(WORLD.tokenizer.words[2:])])
UNFIT = [
    ("sft", {"data": RECORDS}, "model must be a run, its folder or a model for 'sft', got None"),
    ("sft", {"reward": "gold"}, "reward must be left out for 'sft'"),
    ("sft", {"model": reward_model()}, "model must be a language model for 'sft', got a reward model"),
    ("own, gold", {"reward": decoder()}, "reward must be a reward model, got a Decoder"),
    ("own, gold", {"data": RECORDS}, "tokenizer must be passed with a model in memory, got None"),
    ("own, gold", {"tokenizer": SWAPPED}, "data must have the same words as the model, got other words"),
]


@pytest.mark.parametrize(("case", "changes", "message"), UNFIT, ids=lambda x: str(x)[:40].split(" at ")[0])
def test_what_cannot_be_trained_on_leaves_no_folder(tmp_path, case, changes, message):
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        fit(case, **{**changes, "out": tmp_path / "run"})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda completions: [0.5] * 5,
            r"reward function <lambda> \(.*test_training.py, line \d+\) must return 6 numbers, .*, got 5",
        ),
        (lambda completions: [float("nan")] * 6, "must return finite numbers, got nan for completion 0"),
        (lambda completions: ["good"] * 6, "must return numbers, got 'good' for completion 0"),
    ],
)
def test_a_reward_function_must_return_a_finite_number_for_each_completion(function, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit("own, a function", reward=function)


def test_a_reward_function_is_given_texts_and_the_columns_that_it_asks_for():
    records = [{**row, "answer": i, "level": "easy"} for i, row in enumerate(RECORDS)]
    seen = []

    def everything(prompts, completions, answer, **columns):
        seen.append((prompts, completions, answer, columns))
        return np.arange(len(prompts))

    def little(completions, level="none"):
        return torch.tensor([float(level[i] == "easy") for i in range(len(completions))])

    run = fit("own, a function", data=records, reward=everything, updates=2)
    assert run.history["reward"].tolist() == [2.5, 2.5]
    for prompts, completions, answer, columns in seen:
        assert prompts == [RECORDS[i]["prompt"] for i in answer]
        assert columns == {"level": ["easy"] * 6}
        words = {*WORLD.tokenizer.words} - {"<pad>", "<eos>"}
        assert all(set(text.split()) <= words for text in completions)
    assert fit("own, a function", data=records, reward=little, updates=2).history["reward"].tolist() == [1, 1]


# ------------------------------------------------------------------------------------------- what is stored


@pytest.mark.parametrize(("n", "wanted", "held"), [(30, 2, 2), (30, 8, 3), (9, 5, 0)])
def test_what_is_held_out_is_not_learned(n, wanted, held):
    stored = some_completions([(3,)] * n, [(4, 5)] * n)  # each row has log-probabilities of its own
    learned, kept = train_eval_split(stored, wanted, seed=3)
    assert (0 if kept is None else len(kept)) == held
    parts = [learned.logp] if kept is None else [learned.logp, kept.logp]
    assert torch.equal(torch.cat(parts).sort(dim=0).values, stored.logp.sort(dim=0).values)
    if kept is not None:
        assert not torch.equal(kept.logp, train_eval_split(stored, wanted, seed=4)[1].logp)


# ------------------------------------------------------------------------ a reward or a loss that fails

PROMPTS = [{"prompt": "tell fox barn :"}, {"prompt": "tell owl hill :"}]
SAMPLED = {"tokenizer": WORLD.tokenizer, "max_new_tokens": 5, "batch_size": 8, "progress": False}


def long(prompts, completions):
    return [float(len(text)) for text in completions]


class Fails:
    """A reward that is not a number, once."""

    __name__ = "long"

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, prompts, completions):
        self.calls += 1
        rewards = long(prompts, completions)
        return rewards if self.calls != self.at else [float("nan"), *rewards[1:]]


def test_a_run_whose_reward_failed_goes_on_to_the_same_end(tmp_path):
    given = SAMPLED | {"model": decoder(), "data": PROMPTS, "stage": "grpo", "group_size": 4}
    whole = train(reward=long, updates=5, **given)
    with pytest.raises(ValueError, match="got nan for completion 0") as failed:
        train(reward=Fails(4), updates=5, out=tmp_path / "run", **given)
    assert "go on with resume=" in failed.value.__notes__[0]
    same_run(train(resume=tmp_path / "run", data=PROMPTS, reward=long, progress=False), whole)


TWELVE = [{"prompt": "tell fox barn :", "chosen": "fox", "rejected": "barn"}] * 12


def test_no_batch_repeats_examples():
    given = {"tokenizer": WORLD.tokenizer, "progress": False, "updates": 2}
    run = train("dpo", decoder(), TWELVE, **given)
    assert run.config["batch_size"] == 11  # one of 12 is held out
    same_run(run, train("dpo", decoder(), TWELVE, batch_size=11, **given))


SMALL = {"model": decoder(), "data": WORLD, "reward": "gold", "batch_size": 8, "progress": False}


def loss(make):
    return type("Mine", (GRPO,), {"loss": lambda self, *given: make(*GRPO.loss(self, *given))})


def test_a_loss_that_is_not_finite():
    with pytest.raises(FloatingPointError, match="loss must be finite, got nan"):
        train(loss(lambda x, row: (x * float("nan"), row)), updates=1, epochs=1, group_size=2, **SMALL)
