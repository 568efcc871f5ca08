"""The command line: what it prints, what it refuses, and its exit codes."""

import contextlib
import io
import json
import os
import resource
import subprocess
import sys

import pytest
from warm import python

from ppobook import training
from ppobook.cli import main
from ppobook.language.settings import SETTINGS as LANGUAGE
from ppobook.presets import VANILLA
from ppobook.settings import VanillaSettings

SMALL = ["--env", "CartPole-v1", "--num-envs", "2", "--num-steps", "16", "--hidden", "8,8", "--quiet"]


def refused(capsys, *argv):
    """The one sentence on stderr, with exit code 2."""
    try:
        code = main(argv)
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert said.err.startswith("ppobook")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    return said.err


def test_train_resume_evaluate(tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert main(["train", "vanilla", *SMALL, "--seed", "1", "--total-steps", "1e2", "--out", folder]) == 0
    said = capsys.readouterr().out
    assert "vanilla on CartPole-v1, seed 1" in said
    assert "128 steps, 4 updates" in said
    assert f"saved in {folder}" in said
    assert main(["train", "--resume", folder, "--total-steps", "200", "--quiet"]) == 0
    assert "224 steps, 7 updates" in capsys.readouterr().out
    assert main(["evaluate", folder, "--episodes", "5", "--seed", "9" * 23]) == 0
    said = capsys.readouterr().out
    assert "5 episodes" in said
    assert "return: mean" in said


@pytest.mark.parametrize("kwargs", ["{'sutton_barto_reward': True}", '{"sutton_barto_reward": true}'])
def test_settings_reach_the_trainer(tmp_path, kwargs):
    options = ["--lr=0.01", "--weight", "return", "--baseline", "none", "--normalize-advantages", "true"]
    options += ["--env-kwargs", kwargs, "--total-steps", "32", "--out", str(tmp_path / "run")]
    assert main(["train", "vanilla", *SMALL, *options]) == 0
    config = config_of(tmp_path / "run")
    assert config["lr"] == 0.01
    assert config["weight"] == "return"
    assert config["normalize_advantages"] is True
    assert config["hidden"] == [8, 8]
    assert config["env_kwargs"] == {"sutton_barto_reward": True}


def test_names_with_underscores_and_settings_before_the_algorithm(capsys):
    before = ["--quiet", "--lr", "0.01", "--hidden", "1e1", "--num_envs", "2", "--num-steps=16", "vanilla"]
    assert main(["train", *before, "--env", "CartPole-v1", "--total_steps", "64", "--seed", "1" * 30]) == 0
    assert "64 steps, 2 updates" in capsys.readouterr().out


def test_ctrl_c_before_training_says_so(monkeypatch, capsys):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", pressed)
    assert main(["train", "vanilla", *SMALL]) == 130
    assert capsys.readouterr().err == "ppobook: stopped by Ctrl-C\n"


def test_envs_and_settings_are_listed(capsys):
    assert main(["envs"]) == 0
    listed = capsys.readouterr().out
    assert "CartPole-v1" in listed
    assert "ppobook/Chain-v0" in listed
    for asked in ("--list", "--help"):
        with pytest.raises(SystemExit) if asked == "--help" else contextlib.nullcontext():
            main(["train", "vanilla", "--env", "CartPole-v1", asked])
        listed = capsys.readouterr().out
        assert "--reward-to-go" not in listed
        assert "--value-epochs" in listed
        assert "(return, reward_to_go)" in " ".join(listed.replace("│", " ").split())
        assert "(default: 0.003)" in listed  # the preset's lr
    assert ("preset of ppobook/Chain-v0\n    --num-steps 32 --lr 0.1" in listed) == (asked == "--list")


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 0
    assert "examples:" in capsys.readouterr().out


ON_CARTPOLE = "train vanilla --env CartPole-v1"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("trane", "Did you mean 'train'?"),
        ("train", "ppobook train needs ALGORITHM: vanilla, trpo, ppo, or MODULE:CLASS"),
        (
            "train sft",
            "algorithm must be one of 'vanilla', 'trpo', 'ppo', got 'sft': use ppobook language sft",
        ),
        ("sft", "got 'sft': use ppobook language sft"),
        ("trpo", "got 'trpo': use ppobook train trpo"),
        ("language vanilla", "got 'vanilla': use ppobook train vanilla"),
        ("language watch", "got 'watch': ppobook watch is for policies; language models have none"),
        ("language doctor run", "got 'doctor': ppobook doctor is for policies; language models have none"),
        ("language work", "got 'work': use ppobook work"),
        ("train ppo --env CartPole-v1 --total-steps 1,000", "an integer of at least 1, got 1,000"),
        ("train ppo --env CartPole-v1 --gamma 1,0", "gamma must be a number in [0, 1], got 1,0"),
        ("train ppo --env CartPole-v1 --hidden 8 8", "argument '8': several numbers are one word, as in"),
        ("train ppo --env CartPole-v1 --verbose 1", "Did you mean --quiet?"),
        ("language train ppo x", "use ppobook train ppo or ppobook language ppo"),
        ("train vanila --env CartPole-v1", "Did you mean 'vanilla'"),
        ("train vanilla", "ppobook train vanilla needs --env ID, as in --env CartPole-v1"),
        ("train vanilla --env Cartpole-v1", "CartPole-v1"),
        (f"{ON_CARTPOLE} --lam 1.5", "train vanilla has no such option. Only trpo, ppo have it. See"),
        (
            f"{ON_CARTPOLE} --gae-lambda 1",
            "Only trpo, ppo have it, as --lam. See ppobook train vanilla --help",
        ),
        (f"{ON_CARTPOLE} --clip-eps 1", "Only ppo has it. See"),
        (f"{ON_CARTPOLE} --batch-size 1", "Only ppo has it, as --num-minibatches. See"),
        ("train trpo --env CartPole-v1 --learning-rate 1", "Only vanilla, ppo have it, as --lr. See"),
        ("train trpo --env CartPole-v1 --batch-size 1", "Did you mean --value-minibatches? See"),
        ("train trpo --env CartPole-v1 --epochs 1", "Did you mean --value-epochs? See"),
        (f"{ON_CARTPOLE} --lr 1 --lr=2", "--lr must be given once, got it twice"),
        (f"{ON_CARTPOLE} --num-envs 1 --num_envs 2", "--num_envs must be given once, got it twice"),
        (f"{ON_CARTPOLE} --env-kwargs {{'a':1,'a':2}}", "must have each name once, got 'a' twice in"),
        ("train ppo --env CartPole-v1 --epochs 1e20", "epochs must be an integer of at most 10**12, got 1"),
        (f"{ON_CARTPOLE} --device 99999999999999999999", "device must be 'cpu' or an accelerator"),
        (f"{ON_CARTPOLE} --total-steps 1e30", "total_steps must be an integer of at most 10**12, got 1"),
        (f"{ON_CARTPOLE} --hidden x", "each entry of hidden must be an integer in [1, 8192], got 'x'"),
        (f"{ON_CARTPOLE} --num-threads 0", "num_threads must be an integer in [1, 256], got 0"),
        (
            "train ppo --env CartPole-v1 --num-envs 1 --num-steps 1",
            "num_envs times num_steps must be at least 2 with normalize_advantages='minibatch', got 1",
        ),
        (f"{ON_CARTPOLE} --totl_steps 5", "Did you mean --total-steps"),
        (f"{ON_CARTPOLE} --progress 1", "--progress: ppobook train vanilla has no such option"),
        ("train --algorithm vanilla", "--algorithm: ppobook train has no such option"),
        ("train --resume nowhere --lr 0.1", "nowhere"),
        ("--foo", "--foo: ppobook has no such option"),
        ("--foo train vanilla", "--foo: ppobook has no such option"),
        (f"{ON_CARTPOLE} --gamma 1.5", "gamma must be a number in [0, 1], got 1.5"),
        (f"{ON_CARTPOLE} --lr -1", "lr must be a number above 0 and at most 1e+37, got -1"),
        (f"{ON_CARTPOLE} --lr abc", "lr must be a number above 0 and at most 1e+37, got 'abc'"),
        (f"{ON_CARTPOLE} --lr", "--lr needs a value"),
        (f"{ON_CARTPOLE} --lr --quiet", "--lr needs a value"),
        (f"{ON_CARTPOLE} extra", "unexpected argument 'extra'"),
        ("train ppo CartPole-v1", "argument 'CartPole-v1'. Did you mean --env CartPole-v1? See"),
        ("evaluate r1 --render", "--render: ppobook evaluate has no such option: use ppobook watch. See"),
        ("evaluate r1 r1", "unexpected argument 'r1': ppobook evaluate takes one RUN. See"),
        ("export r1 x.onnx y", "unexpected argument 'y': ppobook export takes one RUN and one OUT.onnx. See"),
        (f"{ON_CARTPOLE} --total-steps 1.5", "total_steps must be an integer of at least 1, got 1.5"),
        (f"{ON_CARTPOLE} --seed x", "seed must be an integer of at least 0, got 'x'"),
        ("train --resume nowhere", "nowhere"),
        ("evaluate nowhere", "ppobook: 'nowhere' must be the folder of a run, got a folder that does not"),
        ("evaluate a_file", "ppobook: 'a_file' must be the folder of a run, got a file"),
        ("evaluate", "needs RUN"),
        ("evaluate nowhere --learner mine", "--learner must be MODULE:CLASS"),
        ("train nowhere_at_all:Mine --env CartPole-v1", "there is no module 'nowhere_at_all'"),
        ("train mine.py:Mine --env CartPole-v1", "as in my_module:MyPPO for my_module.py"),
        ("train :Mine --env CartPole-v1", "must be MODULE:NAME, as in my_module:MyPPO for my_module.py, got"),
        ("train json:Mine --env CartPole-v1", "must be a name in json, got 'Mine'"),
        ("train json:dumps --env CartPole-v1", "got 'json:dumps', of type function"),
        (
            "train json:JSONDecoder --env CartPole-v1 --num-minibatches 2",
            "algorithm must be a subclass of Learner, got the class JSONDecoder",
        ),
        (
            f"{ON_CARTPOLE} --checkpoint-every 5",
            "out must be a folder for the checkpoints of checkpoint_every=5, got None",
        ),
        (f"{ON_CARTPOLE} --checkpoint-minutes 5", "for the checkpoints of checkpoint_minutes=5, got None"),
        (
            "train ppo --env Moon/Base-v1",
            "An id that a package registers is given with it, as in package:Moon/Base-v1",
        ),
        ("train vanilla --config nowhere.yml", "'nowhere.yml', which cannot be read (No such file"),
        ("train --resume nowhere --config x.yml", "a resumed run keeps its settings"),
        ("doctor nowhere", "nowhere"),
        ("doctor", "needs RUN"),
        ("compare nowhere", "nowhere"),
        ("compare", "needs RUN"),
        ("compare nowhere --out x.bmp", "x.bmp"),
        ("watch nowhere --out x.gif", "nowhere"),
        ("watch nowhere", "needs --out FILE"),
        ("export nowhere x.onnx", "nowhere"),
        ("export nowhere", "needs OUT.onnx"),
        ("envs --all", "--all: ppobook envs has no such option"),
        (
            "language sft --cut x",
            "online_dpo, iterative_ppo, lagged_grpo have it, as --truncation. See",
        ),
        ("language sft --reward gold", "--reward: ppobook language sft has no such option"),
        ("language sft --epochs 3", "Did you mean --updates? See ppobook language sft --help"),
        ("language sft --world nouns=1", "nouns must be"),
        ("language sft --world noun=4", "Did you mean 'nouns'"),
        ("language sft --world nouns", "must be names with numbers, as in nouns=8,places=8"),
        ("language sft --world nouns=4,nouns=5", "nouns twice"),
        ("language sft --data nowhere.jsonl --world nouns=4", "one of data and world must be given"),
        ("language sft --resume nowhere", "nowhere"),
        ("language sft --config nowhere.yaml", "cannot be read"),
        (
            "language sft --batch-size 5000",
            "batch_size must be at most 3000, the number of examples, got 5000",
        ),
        ("language sft --examples 1e9", "examples must be an integer in [1, 1000000], got 1000000000"),
        ("language sft --width 1e6", "layers, width and context must give weights that can be trained in"),
        ("language sft --lora 8", "as in r=8,alpha=16"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(line, sentence, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").touch()
    assert sentence in refused(capsys, *line.split())


@pytest.mark.parametrize(
    "line",
    [
        "train syn:Mine --env CartPole-v1",
        "train ppo --env syn:World-v0",
        "evaluate run --learner syn:Mine",
    ],
)
def test_a_module_with_a_syntax_error_is_named_with_its_line(line, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "syn.py").write_text("x = 1\ny = = 2\n")
    said = refused(capsys, *line.split())
    assert "SyntaxError: invalid syntax" in said
    assert said.endswith("; syn.py, line 2\n")


@pytest.mark.parametrize("option", ["--out", "--resume"])
def test_a_folder_without_a_name_is_refused(option, capsys):
    words = ["train"] if option == "--resume" else ON_CARTPOLE.split()
    assert f"{option[2:]} must be the path of a folder, got ''" in refused(capsys, *words, option, "")


# What users of Stable-Baselines3, CleanRL and TRL call a setting, and its name here.
OTHER_NAMES = """
    gae_lambda lam, ent_coef entropy_coef, vf_coef value_coef, n_steps num_steps, n_epochs epochs,
    update_epochs epochs, batch_size num_minibatches, learning_rate lr, clip_range clip_eps,
    clip_coef clip_eps, target_kl max_kl, n_envs num_envs, norm_adv normalize_advantages, anneal_lr lr_final,
    policy_kwargs hidden, total_timesteps total_steps
"""
CASES = [("ppo", *case.split()) for case in OTHER_NAMES.split(",")] + [("trpo", "target_kl", "max_kl")]


@pytest.mark.parametrize(("algorithm", "theirs", "ours"), CASES)
def test_other_libraries_names(algorithm, theirs, ours, tmp_path, capsys):
    option = f"--{theirs.replace('_', '-')}"
    words = ["train", algorithm, "--env", "CartPole-v1"]
    assert f"Did you mean --{ours.replace('_', '-')}" in refused(capsys, *words, option, "1")
    (tmp_path / "file.yml").write_text(f"{theirs}: 1\n")
    assert f"Did you mean '{ours}'" in refused(capsys, *words, "--config", str(tmp_path / "file.yml"))
    with pytest.raises(ValueError, match=f"{algorithm} has no setting '{theirs}'. Did you mean '{ours}'"):
        training.train(algorithm, env="CartPole-v1", **{theirs: 1})


def test_a_run_is_not_overwritten_nor_read_when_damaged(tmp_path, capsys):
    folder = tmp_path / "run"
    main(["train", "vanilla", *SMALL, "--total-steps", "32", "--out", str(folder)])
    capsys.readouterr()
    assert "must be a new folder, got one that holds a run" in refused(
        capsys, "train", "vanilla", *SMALL, "--out", str(folder)
    )
    (tmp_path / "file").touch()
    assert "must be a folder that can be written" in refused(
        capsys, "train", "vanilla", *SMALL, "--out", str(tmp_path / "file" / "run")
    )
    state = folder / "checkpoint-000001" / "state.pt"
    state.write_bytes(state.read_bytes()[:-9])
    assert "state.pt" in refused(capsys, "evaluate", str(folder))
    assert "state.pt" in refused(capsys, "train", "--resume", str(folder))


# ----------------------------------------------------------------------------------------- settings in a file


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_settings_from_a_file_and_which_counts(tmp_path, capsys):
    """The command line before the file, the file before the preset, the preset before the defaults."""

    file = tmp_path / "settings.yml"
    file.write_text(
        "algorithm: vanilla\nenv: CartPole-v1\nseed: 3\ntotal_steps: 1e2\nhidden: [8, 8]\n"
        "num-envs: 2\nnum_steps: 16\ngamma: 0.9\nvalue_lr: 2e-3\nweight: return\nenv_kwargs: {}\n"
    )
    folder = tmp_path / "run"
    given = ["--config", str(file), "--gamma", "0.8", "--seed", "4", "--out", str(folder), "--quiet"]
    assert main(["train", *given]) == 0
    config = config_of(folder)
    assert (config["gamma"], config["seed"]) == (0.8, 4)  # the command line
    assert (config["value_lr"], config["hidden"], config["num_envs"]) == (2e-3, [8, 8], 2)  # the file
    assert (config["weight"], config["total_steps"]) == ("return", 100)
    assert config["value_epochs"] == VANILLA["CartPole-v1"]["value_epochs"]  # the preset
    assert config["entropy_coef"] == VanillaSettings().entropy_coef  # the default
    assert "seed 4" in capsys.readouterr().out


def test_a_runs_config_is_such_a_file(tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    assert main(["train", "vanilla", *SMALL, "--total-steps", "64", "--out", str(first)]) == 0
    given = ["--config", str(first / "config.json"), "--out", str(again), "--quiet"]
    assert main(["train", *given]) == 0
    assert config_of(first) == config_of(again)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- 1\n- 2", "with lines such as 'lr: 0.001'"),
        ("", "with lines such as 'lr: 0.001'"),
        ("1: 2", "with lines such as 'lr: 0.001'"),
        ("lr: [", "must be a YAML file"),
        ("gamma: 1\nlr: [1}", "(line 2, column 7: expected ',' or ']', but got '}')"),
        ("lrr: 0.1", "has 'lrr', which is not a setting of vanilla. Did you mean 'lr'?"),
        ("total_step: 9", "Did you mean 'total_steps'"),
        ("lr: 0.1\ngamma: 0.9\nlr: 0.2", "each setting once, got 'lr' twice"),
        ("num-envs: 2\nnum_envs: 4", "got 'num_envs' twice"),
        ("env_kwargs: {length: 3, length: 4}", "got 'length' twice"),
        ("env_kwargs: {worlds: [{a: 1}, {a: 1, a: 2}]}", "got 'a' twice"),
        ("lr: fast", "lr must be a number above 0 and at most 1e+37, got 'fast'"),
        ("gamma: 1.5", "gamma must be a number in [0, 1], got 1.5"),
        ("env: my_worlds:World-v0", "has the env 'my_worlds:World-v0': a module that a file names is not"),
        (
            "CartPole-v1: {lr: 0.1}",
            "has 'CartPole-v1', which is not a setting of vanilla: settings are not group",
        ),
        ("total_steps: 1,000", "total_steps must be an integer of at least 1, got 1,000"),
        ("progress: true", "has 'progress', which is not a setting"),
        ("quiet: true", "has 'quiet', which no file can have: give --quiet on the command line"),
        ("resume: run", "has 'resume', which no file can have: give --resume on the command line"),
    ],
)
def test_a_file_that_will_not_do(tmp_path, capsys, text, sentence):
    (tmp_path / "bad.yml").write_text(text)
    env = [] if text.startswith("env") else ["--env", "CartPole-v1"]
    assert sentence in refused(capsys, "train", "vanilla", "--config", str(tmp_path / "bad.yml"), *env)


def test_a_file_names_no_class(tmp_path, capsys):
    (tmp_path / "own.yml").write_text("algorithm: mine:Mine\nenv: CartPole-v1\n")
    said = "has the algorithm 'mine:Mine': a module that a file names is not imported unasked"
    assert said in refused(capsys, "train", "--config", str(tmp_path / "own.yml"))
    (tmp_path / "own.yml").write_text("learning_rate: 0.1\n")
    said = "ppobook train needs ALGORITHM: vanilla, trpo, ppo, or MODULE:CLASS"
    assert said in refused(capsys, "train", "--config", str(tmp_path / "own.yml"))


# ------------------------------------------------------------------------------------------ what users bring


OWN = """
import gymnasium as gym
from ppobook.vanilla import Vanilla

class Mine(Vanilla):
    def update(self, rollout):
        return {**super().update(rollout), "mine": 1.0}

class World(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        self.t += 1
        return self.observation_space.sample() * 0, float(action), self.t == 5, False, {}

gym.register("World-v0", World)
"""


def test_a_learner_and_a_world_from_the_folder_one_stands_in(tmp_path):
    """In a process of its own, as somebody does it who has written one file."""
    (tmp_path / "own_things.py").write_text(OWN)

    def ppobook(*argv, code=0):
        done = python("-m", "ppobook", *argv, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    small = ["--num-envs", "2", "--num-steps", "16", "--hidden", "8,", "--quiet", "--total-steps", "64"]
    world = ["--env", "own_things:World-v0"]
    said = ppobook("train", "own_things:Mine", *world, *small, "--out", "run")
    assert "Mine on own_things:World-v0" in said
    said = ppobook("evaluate", "run", code=2)
    assert "give --learner MODULE:CLASS" in said
    learner = ["--learner", "own_things:Mine"]
    said = ppobook("evaluate", "run", *learner, code=2)
    assert "'own_things:World-v0': a module that a run names is not imported unasked. Give --env" in said
    assert "return: mean" in ppobook("evaluate", "run", *learner, *world, "--episodes", "3")
    assert "own_things:Mine" in ppobook("train", "--resume", "run", code=2)
    assert "4 updates" in ppobook(
        "train", "own_things:Mine", "--resume", "run", "--total-steps", "128", "--quiet"
    )
    assert "4 updates" in ppobook("doctor", "run")  # reads no class
    assert "Mine" in ppobook("compare", "run", "--metric", "mine")
    assert "render_mode='rgb_array'" in ppobook("watch", "run", *learner, *world, "--out", "x.gif", code=2)
    assert "--value-epochs" in ppobook("train", "own_things:Mine", "--list")


def test_traceback_on_request():
    with pytest.raises(OSError, match="nowhere"):
        main(["--traceback", "evaluate", "nowhere"])


WITH_HELP = ("train", "train ppo", "evaluate", "doctor", "compare", "watch", "export", "language grpo")
HELPS = ["--help", "help", "--version", "", "language", "train ppo --list"] + [
    f"{command} --help" for command in WITH_HELP
]


@pytest.mark.parametrize("line", HELPS)
def test_help_is_quick_and_loads_no_torch(line):
    unwanted = {"torch", "pandas", "gymnasium"} | (set() if " " in line else {"tyro"})
    code = f"""
import sys
from ppobook.cli import main
try:
    main({line.split()!r})
finally:
    assert not {unwanted!r} & set(sys.modules)
"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Processor time, which does not hang on what else runs: 0.3 s.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime < 2


REFUSED_AT_ONCE = """
train ppo --env CartPole-v1 --lrr 1
train ppo --env CartPole-v1 --lr x
train ppo --env CartPole-v1 --kl-coef 7
train ppo --env Nothing-v0
train ppo --env CartPole-v1 --total-steps 1e30
train ppo
train pppo --env CartPole-v1
train
language sft --lr x
language sft --layers 3 --lrr 1
language dpo base --loss kto --label-smoothing 0.1
language grpo base --kl-weighted true
language grpo base
language ppo --reward gold
language pppo
"""


def test_bad_settings_are_refused_before_torch_is_imported():
    code = f"""
import sys
from ppobook.cli import main
for line in {REFUSED_AT_ONCE.strip().splitlines()!r}:
    assert main(line.split()) == 2, line
    assert "torch" not in sys.modules, line
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # the second is the C locale's
@pytest.mark.parametrize(
    "line", ["train ppo --list", "train ppo --help", "envs", "language grpo --list", "--help"]
)
def test_output_in_ascii(line, errors, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", errors=errors))
    with contextlib.suppress(SystemExit):
        assert main(line.split()) == 0
    sys.stdout.flush()
    assert len(written.getvalue()) > 200


def test_errors_in_ascii(monkeypatch):
    """stderr replaces by default, by what nobody reads."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr(sys, "stderr", stream)
    main(["--help"])
    print("0, …, 3 − 1 × γ", file=sys.stderr, flush=True)
    assert written.getvalue() == b"0, ..., 3 - 1 x ?\n"


def test_an_argument_without_a_default_is_shown_as_required(capsys):
    with pytest.raises(SystemExit):
        main(["reset", "--help"])
    assert "(required)" in (said := capsys.readouterr().out)
    assert "default: '(required)'" not in said


def test_the_preset_in_use_is_printed(capsys):
    small = ["--env", "CartPole-v1", "--num-envs", "2", "--num-steps", "16", "--total-steps", "1"]
    assert main(["train", "ppo", *small, "--lr", "3e-4"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("preset")]
    assert line.startswith("preset for CartPole-v1: num_minibatches=4, gamma=0.98, lam=0.9, lr_final=0.0")
    assert line.endswith("(lr goes to 0 and clip_eps goes to 0.001 at the end of the run)")
    assert main(["train", "ppo", *small, "--quiet"]) == 0
    assert "preset" not in capsys.readouterr().err


def test_the_command_itself_ends_without_a_traceback():
    done = subprocess.run(
        [sys.executable, "-m", "ppobook", "train", "vanilla", "--env", "Nothing-v0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", ["envs", "--version", "doctor --help"])
def test_a_full_stdout_is_named(line, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ppobook", *line.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 2
    assert done.stderr == "ppobook: stdout must take what is printed, got: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_closed_stdout_takes_everything(closed, tmp_path):
    run = f"{sys.executable} -m ppobook train vanilla --env CartPole-v1 --total-steps 1 --num-steps 16"
    assert subprocess.run(f"{run} --num-envs 1 --out run {closed}", shell=True, cwd=tmp_path).returncode == 0
    assert (tmp_path / "run" / "history.csv").read_text().count("\n") == 2


def test_a_missing_library_gets_a_sentence(monkeypatch, capsys):
    # As after `make book`, which installs only what the site needs.
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for name in [name for name in sys.modules if name.startswith("ppobook.envs")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["envs"]) == 2
    assert "make lab" in capsys.readouterr().err


def test_a_run_with_nothing_left_to_do_says_so(tmp_path, capsys):
    run = str(tmp_path / "run")
    small = ["--env", "CartPole-v1", "--num-envs", "2", "--num-steps", "16", "--hidden", "8,", "--quiet"]
    assert main(["train", "vanilla", *small, "--total-steps", "96", "--out", run]) == 0
    assert "nothing to do" not in capsys.readouterr().out
    for more in ([], ["--total-steps", "96"], ["--total-steps", "32"]):
        assert main(["train", "--resume", run, *more, "--quiet"]) == 0
        expected = f"nothing to do: {run} has its 96 steps; a larger --total-steps continues it\n"
        assert capsys.readouterr().out == expected
    assert main(["train", "--resume", run, "--total-steps", "97", "--quiet"]) == 0
    assert "128 steps, 4 updates" in capsys.readouterr().out


TRL = """
    grpo learning_rate lr, grpo num_generations group_size, grpo steps updates, grpo loss_type reduction,
    dpo loss_type loss, ppo vf_coef value_coef, ppo cut truncation, ppo cliprange clip_eps,
    sft per_device_train_batch_size batch_size
"""


@pytest.mark.parametrize("case", [case.strip() for case in TRL.split(",")])
def test_names_of_trl(case, capsys):
    stage, theirs, ours = case.split()
    option = f"--{theirs.replace('_', '-')}"
    assert main(["language", stage, "base", option, "1"]) == 2
    assert f"Did you mean --{ours.replace('_', '-')}" in capsys.readouterr().err
    with pytest.raises(ValueError, match=f"{stage} has no setting '{theirs}'. Did you mean '{ours}'"):
        LANGUAGE[stage].make(stage, {theirs: 1}, {})


def test_a_return_that_no_episode_has_is_said(capsys):
    assert main([*ON_CARTPOLE.split(), "--num-envs", "2", "--num-steps", "2", "--total-steps", "4"]) == 0
    assert "mean return over the last 1 update: none, as no episode ended\n" in capsys.readouterr().out
