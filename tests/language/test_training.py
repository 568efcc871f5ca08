"""The loop of the language stages: killed, interrupted, resumed, given the wrong things, and extended."""

import copy
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from small_language import same, same_run, timeless
from spoiling import spoil

import ppobook
from ppobook.fast.adam import Adam
from ppobook.language.data import prompts_of
from ppobook.language.generation import generate
from ppobook.language.model import Decoder, DecoderConfig, Scalar
from ppobook.language.registry import STAGES, stage_class
from ppobook.language.rewards import RewardModel, numbers_of, open_reward
from ppobook.language.run import load
from ppobook.language.settings import StageSettings
from ppobook.language.sft import SFT
from ppobook.language.stage import Stage, Task
from ppobook.language.stored import take_rows, train_eval_split
from ppobook.language.tokens import WordTokenizer, completion_logits, completion_values, token_logp
from ppobook.language.training import train
from ppobook.language.world import World
from ppobook.run.checkpoint import drop_later
from ppobook.run.folder import checkpoints
from ppobook.run.interrupts import Interrupted
from ppobook.run.machine import stream
from ppobook.run.settings import setting

SIZES = {"nouns": 2, "places": 2, "verbs": 1, "adjectives": 1, "clauses": [1.0], "max_new_tokens": 12}
WORLD = World(**SIZES)
SMALL_DECODER = {"layers": 1, "width": 8, "heads": 2}
RECORDS = WORLD.corpus(30, seed=1)


def decoder(tokenizer=WORLD.tokenizer, seed=0, **changes):
    sizes = {"context": 16, **SMALL_DECODER, "eos": tokenizer.eos, "pad": tokenizer.pad, **changes}
    return Decoder(DecoderConfig(**{"vocab_size": tokenizer.vocab_size, **sizes}), seed=seed)


# ------------------------------------------------------------------------------- a stage of somebody's own


@dataclasses.dataclass(frozen=True)
class OwnSettings(StageSettings):
    memory: float = setting(0.9, "of the baseline", low=0, high=1)
    word: str = "plain"  # a field without a door of its own


class Own(Stage):
    """What a user might write: REINFORCE less a running mean and a critic, with all that a stage can have."""

    settings_class = OwnSettings
    state_attributes = (
        *Stage.state_attributes,
        "reference",
        "reward_model",
        "critic",
        "critic_optimizer",
        "dice",
        "mean",
        "seen",
    )
    wants_reward = True
    wants_reference = True

    def __init__(self, task, settings, *, seed=0, device="cpu"):
        super().__init__(task, settings, seed=seed, device=device)
        self.reference, self.reward, self.reward_model = task.reference, task.reward, task.reward.module
        # Frozen, in a run that is resumed as well.
        assert not any(
            p.requires_grad
            for p in [*self.reference.parameters(), *(self.reward_model or self.reference).parameters()]
        )
        self.critic = Scalar(self.model)
        self.critic_optimizer = torch.optim.SGD(self.critic.parameters(), self.settings.lr)
        self.dice = np.random.default_rng(stream(seed, "dice"))
        self.mean = torch.zeros(())
        self.seen = [0]
        self.prompts = prompts_of(task.data, self.tokenizer)

    def step(self, number):
        prompts = self.prompts.select(self.dice.integers(len(self.prompts), size=6))
        done = generate(self.model, prompts.tokens, prompts.mask, 8, generator=self.generator)
        rewards = self.reward(done, prompts.columns)
        logp = token_logp(completion_logits(self.model, done), done.tokens, mask=done.mask).sum(dim=1)
        with torch.no_grad():
            far = completion_logits(self.reference, done)
        far = logp.detach() - token_logp(far, done.tokens, mask=done.mask).sum(dim=1)
        m = self.settings.memory
        self.mean = m * self.mean + (1 - m) * rewards.mean()
        values = completion_values(self.critic, done)[:, 0]
        norm = self.gradient_step(-((rewards - self.mean - values.detach()) * logp).mean())
        self.critic_optimizer.zero_grad()
        (rewards - self.mean - values).square().mean().backward()
        self.critic_optimizer.step()
        self.seen[0] += len(done)
        late = {"late": 1.0} if number >= 5 else {}
        told = {"reward": rewards.mean(), "grad_norm": norm, "kl_reference": far.mean(), "mean": self.mean}
        return {**told, **late, "tokens": done.mask.sum()}


def short(prompts, completions, **columns):
    return [-len(text.split()) / 4 for text in completions]


def reward_model(seed=3):
    made = RewardModel(decoder(seed=seed))
    torch.nn.init.normal_(made.output.weight, std=0.1, generator=torch.Generator().manual_seed(seed))
    return made


SFT_SMALL = {
    "stage": "sft",
    **SMALL_DECODER,
    "batch_size": 8,
    "examples": 40,
    "eval_examples": 8,
    "eval_every": 4,
}
# Each way of having data, a reward and a model; and what a resumed run is given again.
CASES = {
    "sft": ({**SFT_SMALL, "data": WORLD}, {}),
    "sft, data in memory": (
        {**SFT_SMALL, "data": RECORDS, "model": decoder(), "tokenizer": WORLD.tokenizer},
        {"data": RECORDS},
    ),
    "reward": (
        {"stage": "reward", "model": decoder(), "data": WORLD, "pairs": 40, "eval_pairs": 9, "batch_size": 8}
        | {"eval_every": 4},
        {},
    ),
    "own, gold": ({"stage": Own, "model": decoder(), "data": WORLD, "reward": "gold"}, {"stage": Own}),
    "own, a reward model": (
        {
            "stage": Own,
            "model": decoder(),
            "data": WORLD,
            "reward": reward_model(),
            "reference": decoder(seed=5),
        },
        {"stage": Own},
    ),
    "own, a function": (
        {"stage": Own, "model": decoder(), "tokenizer": WORLD.tokenizer, "data": RECORDS, "reward": short},
        {"stage": Own, "data": RECORDS, "reward": short},
    ),
}
EVERY = 3


def fit(case="sft", **changes):
    return train(**{**CASES[case][0], "updates": 7, "checkpoint_every": EVERY, "progress": False, **changes})


def go_on(folder, case="sft", **changes):
    return train(**{**CASES[case][1], "resume": folder, "progress": False, **changes})


# ------------------------------------------------------------------------------------- a run, and its folder


def test_a_run_and_its_folder(tmp_path):
    run = fit(out=tmp_path / "run")
    assert list(run.history.columns[:3]) == ["update", "tokens", "seconds"]
    assert {"loss", "accuracy", "grad_norm", "eval_loss", "lr", "seconds_update"} <= {*run.history.columns}
    assert run.history["update"].tolist() == list(range(1, 8))
    assert run.history["tokens"].is_monotonic_increasing
    assert run.history["tokens"].dtype == np.int64
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config == run.config
    assert config["stage"] == "sft"
    assert config["data"] == {"world": WORLD.config}
    assert config["reward"] is None
    assert config["max_grad_norm"] == 1.0
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "run" / "history.csv"), run.history, check_exact=True
    )
    kept = [path.name for path in checkpoints(tmp_path / "run")]
    assert kept == ["checkpoint-000006", "checkpoint-000007"]
    assert not any(p.requires_grad for p in run.model.parameters())
    assert not run.model.training
    assert run.world.config == WORLD.config


@pytest.mark.parametrize("case", ["sft", "reward", "own, a reward model"])
def test_the_same_seed_gives_the_same_run_and_another_seed_another(case):
    one = fit(case)
    same_run(one, fit(case))
    other = fit(case, seed=1)
    assert not timeless(one.history).equals(timeless(other.history))


@pytest.mark.parametrize("case", ["sft, data in memory", "reward", "own, a function"])
def test_load_and_save_give_the_run_back(tmp_path, case):
    run = fit(case, out=tmp_path / "run")
    same_run(load(tmp_path / "run"), run)
    copied = run.save(tmp_path / "copy")
    same_run(load(copied), run)
    same_run(go_on(copied, case, updates=8), go_on(tmp_path / "run", case, updates=8))
    assert load(copied).model.state_dict().keys() == run.model.state_dict().keys()


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
        drop_later(tmp_path / str(stop), stop)
        same_run(go_on(tmp_path / str(stop), case, updates=6), straight)


def test_what_is_given_is_copied():
    model, critic = decoder(), reward_model()
    before = [{name: x.clone() for name, x in part.state_dict().items()} for part in (model, critic)]
    run = fit("own, a reward model", model=model, reward=critic, reference=None)
    assert same(before, [model.state_dict(), critic.state_dict()])
    assert all(p.requires_grad for p in [*model.parameters(), *critic.parameters()])
    assert not same(run.model.state_dict(), model.state_dict())
    kept = run._checkpoint.state["stage"]
    assert same(kept["reference"], dict(model.state_dict()))
    assert same(kept["reward_model"], dict(critic.state_dict()))


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


def test_learning_rate_rises_and_long_gradients_are_shortened():
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
        told = stage.gradient_step((weight * direction * (length / direction.norm())).sum())
        assert told == pytest.approx(length, rel=1e-5)
        assert (weight - before).norm().item() == pytest.approx(moved, rel=1e-4)


def test_the_optimizer_takes_the_steps_of_torchs_own():
    generator = torch.Generator().manual_seed(0)

    def parameters():
        first = torch.Generator().manual_seed(1)
        made = [torch.randn(shape, generator=first) for shape in ((3, 4), (5,), ())]
        made = [torch.nn.Parameter(x) for x in (*made, made[0].double())]
        return [*made, made[0]]  # as where input and output share a table

    mine, theirs = parameters(), parameters()
    one = Adam(mine, 0.1)
    other = torch.optim.AdamW(list(dict.fromkeys(theirs)), 0.1, weight_decay=0.0)
    for k in range(8):
        for group in (*one.param_groups, *other.param_groups):
            group["lr"] = 0.1 / (k + 1)
        one.zero_grad()
        other.zero_grad()
        for i, (p, q) in enumerate(zip(mine[:4], theirs[:4], strict=True)):
            if (i + k) % 3:  # what has no gradient stays
                p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
                q.grad = p.grad.clone()
        if k == 4:  # through a checkpoint, into another one
            state = copy.deepcopy(one.state_dict())
            one = Adam(mine, one.param_groups[0]["lr"])
            one.load_state_dict(state)
        one.step()
        other.step()
    for p, q in zip(mine, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-6)
    with pytest.raises(RuntimeError, match="of other parameters"):
        Adam(mine[:2], 0.1).load_state_dict(one.state_dict())


def test_training_does_not_import_the_compiler():
    """It takes longer to import than a short run takes."""
    code = (
        "import sys; from ppobook.language.training import train; from ppobook.language.world import World; "
        "train('sft', data=World(), updates=1, examples=64, eval_examples=0, progress=False); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_wider_numbers_stay_wide(tmp_path):
    run = fit("sft, data in memory", model=decoder().double(), out=tmp_path / "run")
    assert run.model.wte.weight.dtype == torch.float64
    same_run(load(tmp_path / "run"), run)
    same_run(
        go_on(tmp_path / "run", "sft, data in memory", updates=9),
        fit("sft, data in memory", model=decoder().double(), updates=9),
    )


def test_weights_without_bounds_are_named_and_the_checkpoint_before_is_whole(tmp_path):
    def wild(prompts, completions):
        return [1e4 * len(text) for text in completions]

    with pytest.raises(FloatingPointError, match=r"beyond all bounds.*a smaller lr \(now 1\)"):
        fit("own, a function", reward=wild, lr=1.0, max_grad_norm=None, updates=400, out=tmp_path / "run")
    assert all(x.isfinite().all() for x in load(tmp_path / "run").model.state_dict().values())


# ------------------------------------------------------------------------------------------ killed, stopped

SERVER = f"""
import os, sys, torch
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_language_training as here

one_update = _Training.one_update
def counted(self):
    row = one_update(self)
    os.write(count, b".")
    return row
_Training.one_update = counted
here.fit(updates=1)  # an optimizer's first step imports half of torch: better once, before the forks
for line in sys.stdin:
    what, case, how, file = eval(line)
    pid = os.fork()
    if pid == 0:
        count = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        getattr(here, what)(case=case, **how)
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
""".replace("here.fit(updates=1)", "count = os.open(os.devnull, os.O_WRONLY); here.fit(updates=1)")


@pytest.fixture(scope="module")
def server():
    pipe = subprocess.PIPE
    made = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True, start_new_session=True
    )
    yield made
    made.kill()
    made.communicate()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")
@pytest.mark.parametrize("case", CASES)
def test_kill_9_at_random_moments_then_resume(tmp_path, server, case):
    """Killed again and again, and resumed each time. The moments have a seed, the machine's pace has none."""
    kills, steps = 2, 24
    unbroken = fit(case, updates=steps)
    moments = random.Random(case)
    folder, count = tmp_path / "run", tmp_path / "count"
    what, how, begun = "fit", {"updates": steps, "out": str(folder)}, 0
    for _ in range(kills):
        count.unlink(missing_ok=True)
        print(repr((what, case, how, str(count))), file=server.stdin, flush=True)
        process = int(server.stdout.readline())
        stop = moments.randint(1, 3 * EVERY)
        deadline = time.monotonic() + 60
        while (not count.exists() or count.stat().st_size < stop) and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(moments.uniform(0, 0.004))
        os.kill(process, signal.SIGKILL)
        assert int(server.stdout.readline()) & 0x7F == signal.SIGKILL
        came = begun + count.stat().st_size
        kept = load(folder).history
        assert came >= begun + stop
        assert 0 <= came - len(kept) <= EVERY
        if len(kept):
            columns = kept.columns
            assert timeless(kept).equals(timeless(unbroken.history[columns]).head(len(kept)))
        begun = len(kept)
        what, how = "go_on", {"folder": str(folder)}
    assert begun < steps
    same_run(go_on(folder, case), unbroken)
    same_run(load(folder), unbroken)


@pytest.mark.parametrize("out", [True, False])
def test_ctrl_c_waits_for_the_update_and_loses_nothing(tmp_path, monkeypatch, out):
    real, at, folder = SFT.step, 4, tmp_path / "run"

    def pressed(self, number):
        if number + 1 == at:
            signal.raise_signal(signal.SIGINT)
        return real(self, number)

    monkeypatch.setattr(SFT, "step", pressed)
    before = signal.getsignal(signal.SIGINT)
    kept = re.escape(f"go on with resume={str(folder)!r}") if out else r"kept nowhere but in \.run"
    with pytest.raises(Interrupted, match=f"stopped by Ctrl-C after update 4.*{kept}") as caught:
        fit(out=folder if out else None)
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.undo()
    part = caught.value.run
    assert len(part.history) == 4
    same_run(go_on(folder if out else part.save(folder), updates=7), fit())


def test_a_folder_is_used_once(tmp_path):
    run = fit(out=tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"out=.*holds a run already, up to checkpoint-000007.*resume="):
        fit(out=tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"folder=.*holds a run already"):
        run.save(tmp_path / "run")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"holds 'a.txt' already"):
        fit(out=tmp_path / "notes")
    with pytest.raises(ValueError, match="a resumed run stays in its folder"):
        go_on(tmp_path / "run", out=tmp_path / "other")
    same_run(load(tmp_path / "run"), run)


# ---------------------------------------------------------------------- resumed with something else, damaged


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lr": 0.5}, r"lr=0.5: the run in .* has 0.003, and a resumed run keeps its settings"),
        ({"seed": 1}, "seed=1: the run in .* has 0"),
        ({"checkpoint_every": 2}, "checkpoint_every=2: the run in .* has 3"),
        ({"depth": 8}, "has no setting 'depth'"),
        ({"width": "x"}, "width is 'x'; a whole number"),
        ({"updates": 0}, "updates is 0; a whole number of at least 1"),
        ({"stage": "dpo"}, "stage is 'dpo', and resume=.* was trained by 'sft', which is wanted"),
        ({"stage": "sfd"}, "stage is 'sfd'; did you mean 'sft'"),
        ({"data": World(**{**SIZES, "nouns": 3})}, "data is not the world of resume="),
        ({"data": RECORDS}, "data is not the world of resume="),
        ({"model": decoder()}, "model was given, and a resumed run has its own; wanted: leave it out"),
        ({"reference": decoder()}, "reference was given, and a resumed run has its own"),
        ({"tokenizer": WORLD.tokenizer}, "tokenizer was given, and a resumed run has its own"),
        ({"reward": "gold"}, "reward was given, and resume=.* has none; wanted: leave it out"),
        ({"device": "cuda:99"}, "device='cuda:99' cannot be used"),
    ],
)
def test_a_resumed_run_stays_what_it_is(sft_run, changes, sentence):
    before = {path: path.stat().st_mtime_ns for path in sft_run.rglob("*")}
    with pytest.raises((ValueError, TypeError), match=sentence):
        go_on(sft_run, **{"updates": 9, **changes})
    assert before == {path: path.stat().st_mtime_ns for path in sft_run.rglob("*")}


def test_a_resumed_run_may_be_told_what_it_knows(tmp_path):
    fit(out=tmp_path / "run")
    told = {"stage": "sft", "data": World(**SIZES), "lr": 3e-3, "width": 8.0, "seed": 0, "device": "cpu"}
    same_run(go_on(tmp_path / "run", updates=8, **told), fit(updates=8))


def other(prompts, completions):
    return [0.0] * len(prompts)


@pytest.mark.parametrize(
    ("case", "changes", "sentence"),
    [
        (
            "own, a function",
            {"reward": None},
            "reward is None, and resume=.* made with 'function short'; the",
        ),
        ("own, a function", {"reward": other}, "reward is 'function other', and .* with 'function short'"),
        (
            "own, a function",
            {"reward": reward_model()},
            "reward is 'reward_model', and .* with 'function short'",
        ),
        ("own, a function", {"data": None}, "data is None, and .* was given its data in memory"),
        ("own, a function", {"data": RECORDS[1:]}, "data differ from those of resume="),
        ("own, a function", {"data": WORLD}, "data differ from those of resume="),
        ("own, gold", {"reward": short}, "reward was given, and resume=.* has 'gold'; wanted: leave it"),
        ("own, a reward model", {"reward": "gold"}, "reward was given, and resume=.* has 'reward_model'"),
        (
            "own, a reward model",
            {"stage": None},
            r"trained by '.*:Own', a class of its owner's; .*train\(Own, res",
        ),
        ("own, a reward model", {"stage": "sft"}, "stage is 'sft', and .* was trained by '.*:Own'"),
        ("sft, data in memory", {"data": RECORDS + RECORDS[:1]}, "data differ"),
    ],
)
def test_a_resumed_run_keeps_its_reward_and_its_data(tmp_path, case, changes, sentence):
    fit(case, updates=1, out=tmp_path / "run")
    with pytest.raises((ValueError, TypeError), match=sentence):
        go_on(tmp_path / "run", case, updates=2, **changes)
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
    with pytest.raises(ValueError, match="data differ from those of resume="):
        train(resume=tmp_path / "run", updates=11, progress=False)


def state_of(folder):
    path = checkpoints(folder)[-1] / "state.pt"
    return path, torch.load(path, weights_only=True)


@pytest.fixture(scope="module")
def sft_run(tmp_path_factory):
    """A folder that is copied, and not written to."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(out=folder)
    return folder


@pytest.mark.parametrize("fn", [load, go_on], ids=["load", "resume"])
class TestDamagedRuns:
    @pytest.fixture
    def folder(self, sft_run, tmp_path):
        shutil.copytree(sft_run, tmp_path / "run")
        return tmp_path / "run"

    def test_no_run(self, fn, tmp_path):
        with pytest.raises(OSError, match="is no folder"):
            fn(tmp_path / "nothing")
        with pytest.raises(OSError, match="holds no checkpoint"):
            fn(tmp_path)

    @pytest.mark.parametrize("keep", [0, 100, -1])
    def test_cut_short(self, fn, folder, keep):
        path, _ = state_of(folder)
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(ValueError, match=r"state.pt is cut short.*checkpoint-000006, remove"):
            fn(folder)
        shutil.rmtree(path.parent)
        assert len(fn(folder).history) in (6, 7)

    def test_of_another_kind_of_run(self, fn, tmp_path):
        ppobook.train(
            "ppo", env="CartPole-v1", total_steps=32, num_envs=2, num_steps=16, out=tmp_path / "run"
        )
        with pytest.raises(
            ValueError, match=r"by ppobook\.train, and `ppobook …`.*of ppobook\.language\.train"
        ):
            fn(tmp_path / "run")

    def test_damaged(self, fn, folder):
        path, _ = state_of(folder)
        spoil(path)
        with pytest.raises(ValueError, match=r"state.pt is .*damaged.*checkpoint-000006, remove"):
            fn(folder)

    @pytest.mark.parametrize("part", ["config", "stage", "architecture", "tokenizer", "history"])
    def test_something_is_missing(self, fn, folder, part):
        path, state = state_of(folder)
        gone = state.pop(part)
        torch.save(state, path)
        with pytest.raises(ValueError, match=f"checkpoint-000007/state.pt has no '{part}'"):
            fn(folder)
        if part in ("stage", "architecture"):
            for name in ("model", "tokenizer"):
                gone.pop(name, None)
            torch.save({**state, part: gone}, path)
            with pytest.raises(ValueError, match=r"checkpoint-000007/state.pt lacks something"):
                fn(folder)

    def test_a_part_that_is_remembered_is_missing(self, fn, folder):
        path, state = state_of(folder)
        del state["stage"]["generator"]
        torch.save(state, path)
        if fn is load:  # it asks for the model only
            load(folder)
            return
        with pytest.raises(
            ValueError, match=r"lacks something, .* lacks 'generator', one of its state_attributes"
        ):
            fn(folder)

    def test_of_another_size(self, fn, folder):
        path, state = state_of(folder)
        state["architecture"]["model"]["width"] = 4
        torch.save(state, path)
        with pytest.raises(ValueError, match=r"state.pt lacks something, or was changed"):
            fn(folder)

    def test_code_in_a_checkpoint_is_not_run(self, fn, folder, tmp_path):
        class Trap:
            def __reduce__(self):
                return (open, (str(tmp_path / "sprung"), "w"))

        path, state = state_of(folder)
        torch.save({**state, "trap": Trap()}, path)
        with pytest.raises(ValueError, match="no checkpoint of this package"):
            fn(folder)
        assert not (tmp_path / "sprung").exists()


def test_a_stage_that_there_is_not_any_more(tmp_path):
    fit(out=tmp_path / "run")
    path, state = state_of(tmp_path / "run")
    state["config"]["stage"] = "dreamer"
    torch.save(state, path)
    with pytest.raises(ValueError, match=r"resume=.*stage is 'dreamer'; .*one of 'sft'"):
        go_on(tmp_path / "run")


def test_a_class_that_has_gained_a_setting_says_so(tmp_path, monkeypatch):
    fit("own, gold", updates=2, out=tmp_path / "run")

    @dataclasses.dataclass(frozen=True)
    class More(OwnSettings):
        more: int = 3

    monkeypatch.setattr(Own, "settings_class", More)
    with pytest.raises(ValueError, match="Own has the setting 'more', which the run was made without"):
        go_on(tmp_path / "run", "own, gold", updates=4)


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
    if not torch.cuda.is_available():
        fit("own, gold", updates=3, out=tmp_path / "c")
        path, state = state_of(tmp_path / "c")
        state["config"]["device"] = "cuda"
        torch.save(state, path)
        with pytest.raises(ValueError, match="device='cuda' cannot be used"):
            go_on(tmp_path / "c", "own, gold", updates=6)


# ------------------------------------------------------------------------------------------ a stage of yours


def test_a_stage_of_ones_own(tmp_path):
    run = fit("own, gold", memory=0.25, out=tmp_path / "run")
    assert run.config["stage"].endswith("test_language_training:Own")
    assert run.config["memory"] == 0.25
    assert run.history["late"].isna().tolist() == [True] * 5 + [False] * 2
    assert not run.history["reward"].equals(fit("own, gold", memory=0.25, seed=2).history["reward"])
    same_run(load(tmp_path / "run"), run)  # which needs no class


def changed(**members):
    return type("Mine", (Own,), members)


def with_extra(make):
    def init(self, *args, **kwargs):
        Own.__init__(self, *args, **kwargs)
        self.extra = make(self)

    return init


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (None, "stage is None; one of 'sft', 'reward', 'ppo'"),
        ("pppo", "stage is 'pppo'; did you mean 'ppo'"),
        (int, "stage is <class 'int'>; one of"),
        (Own(Task(decoder(), WORLD.tokenizer, WORLD, open_reward("gold", None, WORLD),
                           decoder().requires_grad_(False)), OwnSettings()), "one of 'sft'"),
        (changed(state_attributes=(*Own.state_attributes, "gone")), "Mine.state_attributes lists 'gone', which it does not"),
        (changed(state_attributes=("model", "optimizer")), "Mine has generator, a Generator, which its checkpoints"),
        (
            changed(__init__=with_extra(lambda self: torch.nn.Linear(2, 2))),
            "Mine has extra, a Linear, which its checkpoints would lack",
        ),
        (
            changed(__init__=with_extra(lambda self: object()), state_attributes=(*Own.state_attributes, "extra")),
            "extra is <object.*no checkpoint can hold",
        ),
        (
            changed(settings_class=type("S", (OwnSettings,), {"__annotations__": {"x": int}, "x": 1})),
            "S adds 'x' and is no dataclass",
        ),
    ],
)  # fmt: skip
def test_a_stage_that_will_not_do_is_refused_before_there_is_a_folder(tmp_path, stage, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        fit("own, gold", stage=stage, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (lambda self, number: None, "Mine.step returned NoneType; a dict of numbers is wanted"),
        (lambda self, number: {"loss": "low"}, "Mine.step tells 'loss' of type str; one number is wanted"),
        (lambda self, number: {"lr": 1.0}, "Mine.step tells 'lr', a column that the loop fills"),
        (
            lambda self, number: {"seconds_mine": 1.0},
            "Mine.step tells 'seconds_mine', a column that the loop",
        ),
        (Stage.step, "Mine has no method step; one is wanted"),
    ],
)
def test_what_a_step_says_has_a_door(step, sentence):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=sentence):
        fit("own, gold", stage=changed(step=step))


def test_a_module_of_any_kind_can_be_remembered(tmp_path):
    """The loop rebuilds what it gave; what a stage made for itself is its own affair."""
    mine = changed(
        __init__=with_extra(lambda self: torch.nn.GRU(2, 2)),
        state_attributes=(*Own.state_attributes, "extra"),
    )
    run = fit("own, gold", stage=mine, updates=2, out=tmp_path / "run")
    assert set(run._checkpoint.state["architecture"]) == {"model", "reference"}
    assert len(go_on(tmp_path / "run", "own, gold", stage=mine, updates=4).history) == 4


# ------------------------------------------------------------------------------------------- what it is given

OTHER_WORDS = World(**{**SIZES, "nouns": 3, "places": 2})
SWAPPED = WordTokenizer([*reversed(WORLD.tokenizer.words[2:])])


@pytest.mark.parametrize(
    ("case", "changes", "sentence"),
    [
        (
            "sft",
            {"data": None},
            "data is None; a World, a list of dicts, a JSONL file or a Dataset is wanted",
        ),
        ("sft", {"data": RECORDS}, "model is None; 'sft' wants a run, its folder, a Decoder or a trans"),
        ("reward", {"model": None}, "model is None; 'reward' wants a run"),
        ("sft", {"lr": 0}, "lr is 0; a number above 0"),
        ("sft", {"updates": 0}, "updates is 0; a whole number of at least 1"),
        ("sft", {"updatez": 3}, "sft has no setting 'updatez'. Did you mean 'updates'"),
        ("sft", {"seed": -1}, "seed is -1"),
        ("sft", {"checkpoint_every": 0}, "checkpoint_every is 0"),
        ("sft", {"device": "abacus"}, "device='abacus' cannot be used"),
        ("sft", {"num_threads": 0}, "num_threads is 0"),
        ("sft", {"reward": "gold"}, "reward was given, and 'sft' has no use for one; wanted: leave it out"),
        ("sft", {"reference": decoder()}, "reference was given, and 'sft' has none; wanted: leave it out"),
        ("sft", {"model": reward_model()}, "model is a reward model; 'sft' wants a language model"),
        ("own, gold", {"model": reward_model()}, "model is a reward model"),
        ("reward", {"model": reward_model()}, "model is a reward model, and data is a World"),
        ("own, gold", {"reward": None}, "reward is None; '.*Own' wants a run of 'reward', 'gold', or a func"),
        ("own, gold", {"data": RECORDS}, "tokenizer is None; with a Decoder one is wanted"),
        (
            "own, gold",
            {"data": RECORDS, "tokenizer": WORLD.tokenizer},
            "reward is 'gold', and the data are no World",
        ),
        ("own, gold", {"reward": 3}, "reward is of type int; a run of 'reward'"),
        ("own, gold", {"reward": "golden"}, "reward='golden' is no folder; wanted: the folder of a run"),
        (
            "own, gold",
            {"reference": reward_model()},
            "reference is a reward model; a language model is wanted",
        ),
        # Another vocabulary, by its size or by its words.
        ("own, gold", {"model": decoder(vocab_size=9)}, "model has a vocabulary of 9 tokens and its tokeni"),
        ("own, gold", {"model": decoder(vocab_size=99)}, "model has a vocabulary of 99 tokens and its token"),
        ("own, gold", {"model": decoder(eos=4)}, "model ends a sequence with id 4 and its tokenizer with 1"),
        ("own, gold", {"reference": decoder(vocab_size=9)}, "reference has a vocabulary of 9 tokens and the"),
        (
            "own, gold",
            {"reward": RewardModel(decoder(vocab_size=9))},
            "reward has a vocabulary of 9 tokens and the model one of 15",
        ),
        ("own, gold", {"data": OTHER_WORDS}, "reference has|data has a vocabulary of 16|model has a voca"),
        ("own, gold", {"tokenizer": SWAPPED}, "data has the word 'tell' where the model has 'grim'"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_before_there_is_a_folder(tmp_path, case, changes, sentence):
    with pytest.raises((ValueError, TypeError, OSError), match=sentence):
        fit(case, **{**changes, "out": tmp_path / "run"})
    assert not (tmp_path / "run").exists()


def test_runs_of_another_vocabulary(tmp_path):
    base = fit(updates=1)
    foreign = fit(updates=1, data=OTHER_WORDS)
    small = {"pairs": 8, "eval_pairs": 0, "batch_size": 4, "updates": 1, "progress": False}
    far_reward_model = train("reward", foreign, **small)
    given = {"stage": Own, "updates": 1, "progress": False}
    for changes, sentence in (
        (
            {"model": foreign, "data": WORLD, "reward": "gold"},
            "data has a vocabulary of 15 tokens and the mod",
        ),
        (
            {"model": base, "reward": far_reward_model},
            "reward has a vocabulary of 16 tokens and the model one of 15",
        ),
        ({"model": base, "reward": "gold", "reference": foreign}, "reference has a vocabulary of 16 tokens"),
        ({"model": base, "reward": base}, "reward is a run of 'sft'; one of 'reward' is wanted"),
        ({"model": far_reward_model, "reward": "gold"}, "model is a reward model"),
        ({"model": base, "reward": "gold", "reference": far_reward_model}, "reference has|is a reward model"),
    ):
        with pytest.raises(ValueError, match=sentence):
            train(**given, **changes)
    # As many words, and others.
    swapped = train("sft", decoder(), RECORDS, tokenizer=SWAPPED, updates=1, batch_size=4, progress=False)
    with pytest.raises(ValueError, match="reference has the word 'grim' where the model has 'tell'"):
        train(**given, model=base, reward="gold", reference=swapped)


def texts(*lists):
    return lists


def by_position(p, q):
    return [0.0]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            lambda completions: [0.5] * 5,
            "reward function <lambda> returned 5 numbers; 6 are wanted, one a com",
        ),
        (lambda completions: [float("nan")] * 6, "returned nan for completion 0; finite numbers are wanted"),
        (lambda completions: [0, 0, 1e300, 0, 0, 0], r"returned 1e\+300 for completion 2; finite numbers"),
        (lambda completions: None, "returned a NoneType; a list of 6 numbers is wanted"),
        (lambda completions: 0.5, "returned a float; a list of 6 numbers is wanted"),
        (lambda completions: ["good"] * 6, "returned 'good' for completion 0; a number is wanted"),
        (by_position, "reward function by_position takes 'p'; a function of what there is, 'answer', 'compl"),
    ],
)
def test_a_reward_function_has_a_door(function, sentence):
    records = [{**row, "answer": i} for i, row in enumerate(RECORDS)]
    with pytest.raises((ValueError, TypeError), match=sentence):
        fit("own, a function", data=records, reward=function)


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


def test_a_function_by_the_name_of_gold_is_not_taken_for_it(tmp_path):
    def gold(completions):
        return [7.0] * len(completions)

    run = fit("own, gold", reward=gold, updates=2, out=tmp_path / "run")
    assert run.history["reward"].tolist() == [7.0, 7.0]
    with pytest.raises(ValueError, match=r"reward is 'gold', and resume=.* with 'function gold'"):
        go_on(tmp_path / "run", "own, gold", reward="gold", updates=3)
    assert (
        go_on(tmp_path / "run", "own, gold", reward=gold, updates=3).history["reward"].tolist() == [7.0] * 3
    )


# ------------------------------------------------------------------------------------------- what is stored


def test_a_batch_of_what_is_stored_is_as_wide_as_its_longest():
    from small_language import completions

    from ppobook.language.tokens import Pairs

    stored = completions()
    batch = take_rows(stored, torch.tensor([1, 0]))
    assert batch.prompts.tolist() == [[0, 5], [3, 4]]
    assert batch.tokens.tolist() == [[2, 5, 6, 8], [4, 7, 1, 0]]
    assert batch.logp.tolist() == [stored.logp[1].tolist(), stored.logp[0].tolist()]
    assert batch.ended.tolist() == [False, True]
    alone = take_rows(stored, torch.tensor([2]))
    assert alone.tokens.tolist() == [[1]]
    assert alone.prompts.tolist() == [[2, 3, 6]]
    pairs = take_rows(Pairs(stored, stored.select([0, 1, 2])), torch.tensor([2]))
    assert pairs.chosen.tokens.tolist() == pairs.rejected.tokens.tolist() == [[1]]


@pytest.mark.parametrize(("n", "wanted", "held"), [(30, 2, 2), (30, 8, 3), (9, 5, 0), (10, 5, 1), (30, 0, 0)])
def test_what_is_held_out_is_not_learned(n, wanted, held):
    stored = take_rows(SFT(
        Task(decoder(), WORLD.tokenizer, WORLD), SFT.settings_class(examples=n)
    ).examples, torch.arange(n))  # fmt: skip
    marked = dataclasses.replace(stored, logp=torch.arange(float(n))[:, None].expand(stored.logp.shape))
    learned, kept = train_eval_split(marked, wanted, seed=3)
    assert (0 if kept is None else len(kept)) == held
    assert len(learned) == n - held
    every = [*learned.logp[:, 0].tolist(), *([] if kept is None else kept.logp[:, 0].tolist())]
    assert sorted(every) == list(range(n))
    if held:
        other_seed = train_eval_split(marked, wanted, seed=4)[1]
        assert not torch.equal(kept.logp[:, 0], other_seed.logp[:, 0])


# --- what is wrong with a reward, and with a tokenizer ---------------------------------------------------

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


@pytest.mark.parametrize("stage", ["ppo", "grpo", "online_dpo"])
def test_a_reward_that_fails_costs_no_update(tmp_path, stage):
    given = SAMPLED | ({"group_size": 4} if stage == "grpo" else {})
    whole = train(stage, decoder(), PROMPTS, reward=long, updates=5, **given)
    with pytest.raises(ValueError, match="returned nan for completion 0") as failed:
        train(stage, decoder(), PROMPTS, reward=Fails(4), updates=5, out=tmp_path / "run", **given)
    kept = f"update 3 is saved; go on with resume={str(tmp_path / 'run')!r}, and reward 'function long' again"
    assert failed.value.__notes__ == [kept]
    assert len(load(tmp_path / "run").history) == 3
    same_run(train(resume=tmp_path / "run", data=PROMPTS, reward=long, progress=False), whole)


@pytest.mark.parametrize("answer", ["12345678", dict.fromkeys(range(8), 0.0), set(range(8))])
def test_rewards_in_no_order(answer):
    with pytest.raises(TypeError, match="a list of 8 numbers is wanted"):
        numbers_of("f", answer, 8)


def test_a_tokenizer_that_no_checkpoint_can_hold(tmp_path):
    class Own:
        vocab_size, pad, eos = WORLD.tokenizer.vocab_size, WORLD.tokenizer.pad, WORLD.tokenizer.eos
        encode, decode = WORLD.tokenizer.encode, WORLD.tokenizer.decode

    given = SAMPLED | {"tokenizer": Own(), "group_size": 4}
    with pytest.raises(TypeError, match="tokenizer is of type Own, which no checkpoint can hold"):
        train("grpo", decoder(), PROMPTS, reward=long, updates=1, out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("stage", "theirs", "mine"),
    [("grpo", "beta", "kl_coef"), ("grpo", "loss_type", "reduction"), ("dpo", "loss_type", "loss")],
)
def test_settings_by_their_names_in_trl(stage, theirs, mine):
    with pytest.raises(ValueError, match=rf"{stage} has no setting '{theirs}'\. Did you mean '{mine}'"):
        train(stage, decoder(), PROMPTS, tokenizer=WORLD.tokenizer, reward=long, **{theirs: 1})


def test_a_run_is_printed_in_a_line():
    run = train("sft", data=WORLD, updates=2, examples=30, batch_size=8, progress=False, **SMALL_DECODER)
    assert repr(run) == "Run(sft, 2 updates, Decoder)"


def test_a_function_by_its_name_alone():
    with pytest.raises(ValueError, match="reward is 'rw:right', and there is no such folder; the function"):
        train("grpo", decoder(), PROMPTS, tokenizer=WORLD.tokenizer, reward="rw:right")


ALIKE = [{"prompt": "tell fox barn :", "chosen": "fox", "rejected": "fox"}] * 3
LIKED = [{"prompt": "tell fox barn :", "completion": "fox", "label": True}] * 3


@pytest.mark.parametrize(
    ("stage", "data", "given", "sentence"),
    [
        ("dpo", ALIKE, {}, "data has no pair whose 'chosen' and 'rejected' differ"),
        ("reward", ALIKE, {}, "data has no pair whose 'chosen' and 'rejected' differ"),
        ("dpo", LIKED, {"loss": "kto"}, "data has no label that is False; some of both are wanted"),
        (
            "dpo",
            [one | {"label": False} for one in LIKED],
            {"loss": "kto"},
            "data has no label that is True; some of both are wanted",
        ),
    ],
)
def test_data_that_teach_nothing_are_refused(stage, data, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        train(stage, decoder(), data, tokenizer=WORLD.tokenizer, progress=False, updates=1, **given)


def test_one_pair_of_which_something_is_learned_is_enough():
    data = [*ALIKE, ALIKE[0] | {"rejected": "barn"}]
    run = train("dpo", decoder(), data, tokenizer=WORLD.tokenizer, progress=False, updates=1, batch_size=4)
    assert len(run.history) == 1
