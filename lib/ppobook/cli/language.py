"""`ppobook language …`: the stages on the command line, and what one does with what they made.

    ppobook language sft --out base
    ppobook language reward base --out judge
    ppobook language ppo base --reward judge --out ppo
    ppobook language compare base ppo --judge judge --reference base

As in `ppobook.cli`, torch is imported by the commands that need it, after the arguments are read.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppobook.cli.arguments import (
    Parser,
    counted,
    hint_of,
    imported_class,
    list_settings,
    no_such_option,
    number,
    remember,
    see_here,
    settings_in,
    written_in,
)
from ppobook.cli.readings import (
    Policy,
    as_table,
    data_of,
    function_of,
    hush,
    lines,
    names_function,
    print_best_of_n,
    print_comparison,
    print_evaluation,
    print_ladder,
    print_samples,
    refuse_both,
    refuse_nowhere,
    refuse_without_data,
    sizes_in,
    told_of_judge,
    world_of,
    write_for_others,
    written,
)
from ppobook.language.registry import stage_class

if TYPE_CHECKING:
    from ppobook.language.run import Run
    from ppobook.language.stage import Stage

# Each stage, what it is, whether it wants a reward, and whether it takes a reference. To ask the stages
# themselves would import torch.
STAGES = {
    "sft": ("learn to write as a corpus does", False, False),
    "reward": ("train a reward model on preferences", False, False),
    "ppo": ("PPO on a reward, with a critic", True, True),
    "grpo": ("GRPO and its kin on a reward, without a critic", True, True),
    "dpo": ("DPO and its family on preferences, without a reward", False, True),
    "online_dpo": ("DPO on pairs of its own, judged as it goes", True, True),
    "iterative_ppo": ("PPO, whose judge goes on learning", True, True),
    "lagged_grpo": ("GRPO on completions of an earlier policy", True, True),
}

# What a file may say beside a stage's settings; all of them are options too.
_ASKED = (
    *("model", "data", "world", "reward", "reference", "tokenizer", "lora", "dtype"),
    *("seed", "out", "checkpoint_every", "device", "num_threads"),
)

# Columns whose first and last numbers are told at the end of a run.
_TOLD = (
    *("gold", "reward", "kl_reference", "length", "ended", "loss", "eval_loss"),
    *("accuracy", "eval_accuracy", "margin", "fresh_accuracy", "dead_groups", "tied"),
)


# ------------------------------------------------------------------------------------------- the commands


def add_commands(language: argparse.ArgumentParser, about: str) -> None:
    """Give the command `language` of `ppobook` its own commands.

    Parameters
    ----------
    language : ArgumentParser
    about : str
        What it is for, as the help of `ppobook` has it.
    """
    language.description = f"{about[0].upper()}{about[1:]}."
    language.formatter_class = argparse.RawDescriptionHelpFormatter
    language.epilog = (
        "examples:\n"
        "  ppobook language sft --out base\n"
        "  ppobook language reward base --out judge\n"
        "  ppobook language ppo base --reward judge --out ppo\n"
        "  ppobook language grpo base --reward judge --variant dr_grpo --out grpo\n"
        "  ppobook language dpo base --out dpo\n"
        "  ppobook language compare base ppo grpo dpo --judge judge --reference base\n"
        "  ppobook language best_of_n base --judge judge --n 1,4,16,64\n"
    )
    language.set_defaults(run=lambda _: language.print_help())
    remember(language, takes_settings=False)
    actions = language.add_subparsers(dest="action", metavar="COMMAND", parser_class=Parser)
    for name in STAGES:
        _add_stage(actions, name)
    _add_own(actions)
    _add_sample(actions)
    _add_evaluate(actions)
    _add_compare(actions)
    _add_best_of_n(actions)
    _add_ladder(actions)
    _add_export(actions)


def _add_stage(actions: Any, name: str) -> None:
    what, wants_reward, wants_reference = STAGES[name]
    begins = "[MODEL]" if name == "sft" else "MODEL"
    command = actions.add_parser(
        name,
        usage=f"ppobook language {name} {begins} [--OPTION ...] [--SETTING VALUE ...]",
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"Settings are given by name, as in --lr 0.001 --updates 50; ppobook language {name} --list "
        "shows them. What is given here counts before what FILE has, and that before the defaults. A run's "
        "config.json is such a FILE, but for MODEL and a reward that is not gold.",
        allow_abbrev=False,
    )
    _of_training(command, wants_reward, wants_reference, fresh=name == "sft")


def _add_own(actions: Any) -> None:
    command = actions.add_parser(
        "train",
        usage="ppobook language train MODULE:CLASS MODEL [--OPTION ...] [--SETTING VALUE ...]",
        help="train by a stage of your own",
        description="Train by a Stage of your own, as my_module:MyPPO for my_module.py in this folder.",
        epilog="ppobook language train MODULE:CLASS --list shows its settings.",
        allow_abbrev=False,
    )
    _of_training(command, wants_reward=True, wants_reference=True, fresh=False)


def _of_training(
    command: argparse.ArgumentParser, wants_reward: bool, wants_reference: bool, fresh: bool
) -> None:
    where = "a run's folder, a transformers model's, or its name on the hub"
    command.add_argument(
        "--model",
        help=f"where to begin, also as a word without --model: {where}"
        + ("; a fresh one, if left out" if fresh else ""),
    )
    command.add_argument(
        "--data", metavar="FILE", help="JSONL; the world that the model was trained on, if left out"
    )
    command.add_argument(
        "--world", metavar="SIZES", help="a world of these sizes as data, as in nouns=8,places=8"
    )
    if wants_reward:
        command.add_argument("--reward", help="a run of 'reward', gold, or MODULE:FUNCTION")
    if wants_reference:
        command.add_argument("--reference", help="what KL is measured from; MODEL, if left out")
    command.add_argument("--tokenizer", help="of a transformers model, if it is in another place")
    command.add_argument(
        "--lora", metavar="SIZES", help="of a transformers model, train adapters only, as in r=8,alpha=16"
    )
    command.add_argument("--dtype", help="of a transformers model: float32 or bfloat16")
    command.add_argument("--seed", type=number(0), help="0 if left out")
    command.add_argument(
        "--out", metavar="RUN", help="a new folder for the run; if left out, nothing is kept"
    )
    command.add_argument(
        "--checkpoint-every", type=number(1), metavar="N", help="updates between checkpoints (50)"
    )
    command.add_argument("--resume", metavar="RUN", help="go on from the last checkpoint in this folder")
    command.add_argument("--config", metavar="FILE", help="YAML: model, data, seed, …, and settings, by name")
    command.add_argument("--device", help="where the networks live (cpu)")
    command.add_argument("--num-threads", type=number(1), metavar="N", help="threads of torch (1)")
    command.add_argument("--tensorboard", action="store_true", help="write TensorBoard events into RUN too")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    command.add_argument("--list", action="store_true", help="list the settings of the stage and stop")
    command.set_defaults(run=_train)
    remember(command, takes_settings=True)


def _add_sample(actions: Any) -> None:
    command = actions.add_parser(
        "sample",
        help="read what a model writes",
        description="Let a model write, and print it.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL")
    command.add_argument("--n", type=number(1), default=5, help="completions (5)")
    command.add_argument(
        "--prompt", action="append", help="what to go on from; more than once, if you like; else the data's"
    )
    _of_writing(command)
    command.set_defaults(run=print_samples)


def _add_evaluate(actions: Any) -> None:
    command = actions.add_parser(
        "evaluate",
        help="measure what a model writes, or how good a reward model is",
        description="Let a language model write, and measure it; of a run of 'reward', say how often it is "
        "right about pairs that were held out.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL")
    _of_measuring(command)
    command.add_argument("--samples", type=number(0), default=3, help="completions to print (3)")
    command.set_defaults(run=print_evaluation)


def _add_compare(actions: Any) -> None:
    command = actions.add_parser(
        "compare",
        help="put models side by side, on the same prompts",
        description="Let several models write on the same prompts: a table, and some of each.",
        allow_abbrev=False,
    )
    command.add_argument("models", metavar="MODEL", nargs="+")
    _of_measuring(command)
    command.add_argument("--samples", type=number(0), default=2, help="completions of each (2)")
    command.set_defaults(run=print_comparison)


def _add_best_of_n(actions: Any) -> None:
    command = actions.add_parser(
        "best_of_n",
        help="draw n completions and keep the best, for several n",
        description="What the best of n completions would be like, and how far from the model that is. No "
        "training. It is the mean over all ways to take n of those that were drawn.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL")
    command.add_argument("--judge", default="gold", help="a run of 'reward', MODULE:FUNCTION, or gold (gold)")
    command.add_argument("--n", type=_numbers(), default=(1, 4, 16), help="several n (1,4,16)")
    command.add_argument(
        "--draws", type=number(1), help="completions of each prompt; if left out, twice the largest n"
    )
    command.add_argument(
        "--prompts", type=number(1), default=64, help="so many of a file's prompts at most (64)"
    )
    command.add_argument("--samples", type=number(0), default=3, help="completions to print (3)")
    _of_writing(command)
    command.set_defaults(run=print_best_of_n)


def _add_ladder(actions: Any) -> None:
    command = actions.add_parser(
        "ladder",
        help="ask a reward model about more and more of a good thing",
        description="What a reward model says of texts with more and more kind words, beside their gold.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="RUN", help="of 'reward'")
    command.add_argument("--world", metavar="SIZES", help="if it was trained on data of yours")
    command.add_argument("--top", type=number(1), help="the most kind words (6, or what has room)")
    command.add_argument("--texts", type=number(1), default=4, help="of each prompt (4)")
    command.add_argument("--seed", type=number(0), default=0, help="of their words (0)")
    command.add_argument("--device", default="cpu", help="where the networks live (cpu)")
    command.set_defaults(run=print_ladder)
    remember(command, takes_settings=False)


def _add_export(actions: Any) -> None:
    command = actions.add_parser(
        "export",
        help="write a trained model as transformers reads it",
        description="Write a trained model to a new folder, from which from_pretrained of transformers reads "
        "it: one that came from there as what it was, one of ours as GPT-2; its tokenizer as well.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="RUN")
    command.add_argument("folder", metavar="FOLDER")
    command.add_argument(
        "--adapters", action="store_true", help="of a run with LoRA, its adapters only, as peft reads them"
    )
    command.set_defaults(run=write_for_others)
    remember(command, takes_settings=False)


def _of_measuring(command: argparse.ArgumentParser) -> None:
    command.add_argument("--judge", help="a run of 'reward' or MODULE:FUNCTION, for the column reward")
    command.add_argument("--reference", help="a model, for the column kl_reference")
    command.add_argument("--n", type=number(1), default=512, help="completions (512)")
    _of_writing(command)


def _of_writing(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data", metavar="FILE", help="JSONL with prompts; the run's data, if left out")
    command.add_argument("--world", metavar="SIZES", help="a world, as in nouns=8,places=8")
    command.add_argument("--tokenizer", help="of a transformers model, if it is in another place")
    command.add_argument("--seed", type=number(0), default=0, help="of the tokens (0)")
    command.add_argument("--temperature", type=float, default=1.0, help="0: always the likeliest (1)")
    command.add_argument("--top-k", type=number(1), help="draw from the k likeliest tokens only")
    command.add_argument("--top-p", type=float, help="draw from the likeliest, together of this share, only")
    command.add_argument("--max-new-tokens", type=number(1), help="the world's or 64, if left out")
    command.add_argument("--dtype", help="of a transformers model: float32 or bfloat16")
    command.add_argument("--device", default="cpu", help="where the networks live (cpu)")
    command.add_argument("--num-threads", type=number(1), default=1, metavar="N", help="of torch (1)")
    remember(command, takes_settings=False)


# ---------------------------------------------------------------------------------------------- training


def _train(arguments: argparse.Namespace) -> None:
    from ppobook.language.training import train
    from ppobook.language.world import World

    hush(arguments.quiet)
    words, settings = settings_in(arguments.rest, most=2 if arguments.action == "train" else 1)
    stage = _own(words) if arguments.action == "train" else arguments.action
    kind = _stage_of(stage)
    if arguments.list:
        list_settings(kind.settings_class, _variants() if stage == "grpo" else {})
        return
    given, settings = _given(arguments, stage, words, settings, set(kind.settings_class.__dataclass_fields__))
    if arguments.resume is not None:
        _refuse_without_function(arguments.resume, given)
    else:
        if not kind.starts_from_scratch and "model" not in given:
            raise ValueError(f"model is left out; {stage} begins from one: {_called(arguments, stage)} MODEL")
        for option in ("model", "reference"):
            refuse_nowhere(option, given.get(option))
        if kind.starts_from_scratch and not {"model", "data", "world"} & given.keys():
            given["data"] = World()
    if isinstance(given.get("lora"), str):
        given["lora"] = sizes_in("lora", given["lora"])
    world = given.pop("world", None)
    if world is not None:
        given["data"] = world_of(world)
    if given.get("reward") is not None:
        given["reward"] = _reward(given["reward"])
    run = train(
        kind,
        resume=arguments.resume,
        progress=False if arguments.quiet else None,
        tensorboard=arguments.tensorboard,
        **given,
        **settings,
    )
    if arguments.resume is not None and settings.get("updates", len(run.history)) < len(run.history):
        print(f"the run had {counted(len(run.history))} already: nothing was trained")
    threads = given.get("num_threads") or 1
    _summary(run, given.get("model"), given.get("reward"), given.get("data"), threads)
    folder = arguments.resume or given.get("out")
    print(f"\nsaved in {folder}" if folder else "\nnot saved: --out was not given")


def _refuse_without_function(folder: str, given: dict[str, Any]) -> None:
    """Refuse to resume a run without the function that its reward was: no folder holds that."""
    try:
        named = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))["reward"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # no run; what reads it says so
    if "reward" not in given and isinstance(named, str) and named.startswith("function "):
        raise ValueError(
            f"--resume {folder}: the run was made with a {named}, which is not in its folder; wanted: "
            f"--reward MODULE:{named.removeprefix('function ')} beside it"
        )


def _own(words: list[str]) -> str:
    """The stage of the user's own, which is the first word; it is taken away."""
    if not words:
        raise ValueError("the stage is left out; MODULE:CLASS is wanted, as in my_module:MyPPO")
    stage = words.pop(0)
    if stage in STAGES:
        raise ValueError(f"{stage!r} is no stage of your own; ppobook language {stage} is wanted")
    if ":" not in stage:
        raise ValueError(f"{stage!r} names no class; MODULE:CLASS is wanted, as in my_module:MyPPO")
    return stage


def _stage_of(stage: str) -> type[Stage]:

    if ":" not in stage:
        return stage_class(stage)
    see_here(stage)
    kind = imported_class(stage, "a Stage", "MyPPO")
    if not issubclass(kind, Stage):
        raise ValueError(f"{stage!r} is no Stage; a subclass of ppobook.language.training.Stage is wanted")
    return stage_class(kind)


def _called(arguments: argparse.Namespace, stage: str) -> str:
    """The command as far as its stage."""
    return f"ppobook {arguments.called}{f' {stage}' if ':' in stage else ''}"


def _given(
    arguments: argparse.Namespace, stage: str, words: list[str], settings: dict[str, Any], known: set[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the command line and the file say: what is asked for beside settings, and the settings."""
    from ppobook.language.settings import called_here

    given = {name: x for name in _ASKED if (x := getattr(arguments, name, None)) is not None}
    for model in words:
        if "model" in given:
            raise ValueError(f"{model!r} and --model {given['model']}: one model to begin from is wanted")
        given["model"] = model
    refuse_both(given)
    for name in settings:
        if name not in known:
            mine = called_here(name, known)
            if mine is not None:
                raise ValueError(f"--{name.replace('_', '-')}: it is called --{mine.replace('_', '-')} here")
            options = arguments.options + [f"--{one.replace('_', '-')}" for one in sorted(known)]
            option = f"--{name.replace('_', '-')}"
            raise ValueError(no_such_option(option, arguments.called, options))
    if arguments.config is None:
        return given, settings
    if arguments.resume is not None:
        raise ValueError(
            f"--config {arguments.config}: a resumed run keeps its settings; wanted: leave it out"
        )
    said = _said_in(arguments.config, stage)
    options = {name for name in _ASKED if hasattr(arguments, name)}
    for name in said:
        if name not in known | options:
            mine = called_here(name, known)
            hint = hint_of(name, [*known, *options]) if mine is None else f"it is called {mine!r} here; "
            raise ValueError(
                f"config={arguments.config!r} has {name!r}, which is no setting of {stage}; {hint}"
                f"{_called(arguments, stage)} --list shows what there is"
            )
    if "data" in given or "world" in given:  # the data are one thing, by whichever name
        said = {name: x for name, x in said.items() if name not in ("data", "world")}
    asked = {name: said.pop(name) for name in options & said.keys()} | given
    reward = asked.get("reward")
    if "reward" not in given and isinstance(reward, str) and ":" in reward:
        raise ValueError(
            f"config={arguments.config!r} has the reward {reward!r}, and a module that a file names is not "
            f"imported unasked; wanted: --reward {reward} on the command line"
        )
    return asked, said | settings


def _said_in(file: str, stage: str) -> dict[str, Any]:
    """What a file says, which may be the config.json of a run."""
    said: dict[str, Any] = {name: x for name, x in written_in(file).items() if x is not None}
    other = said.pop("stage", stage)
    if other != stage:
        raise ValueError(f"config={file!r} is of the stage {other!r}; one of {stage!r} is wanted")
    data = said.get("data")
    if isinstance(data, dict):
        del said["data"]
        known = {"world": "world", "file": "data"}
        found = {known[name]: data[name] for name in known if name in data}
        if not found:
            raise ValueError(
                f"config={file!r} is that of a run whose data were in memory; wanted: those, without its "
                "'data', and --data FILE"
            )
        said |= found
        if said.get("reward") != "gold":  # what it was called, and not where it is
            said.pop("reward", None)
    refuse_both(said)
    return said


def _variants() -> dict[str, dict[str, Any]]:
    from ppobook.language.settings import VARIANTS

    return {f"--variant {name} has": sets for name, sets in VARIANTS.items() if sets}


def _summary(run: Run, origin: str | None, reward: Any, data: Any, num_threads: int) -> None:
    """What became of a run, for somebody to read."""
    import pandas as pd

    from ppobook.language.rewards import RewardModel
    from ppobook.run.machine import threads

    history = run.history
    last = history.iloc[-1]
    begun = f" from {origin}" if origin is not None else ""
    print(f"{run.config['stage']}{begun}, seed {run.config['seed']}")
    print(f"{counted(int(last['update']))}, {last['tokens']:,.0f} tokens, {last['seconds']:.1f} seconds")
    # What is measured every so often only has gaps in its column.
    told = {name: history[name].dropna() for name in _TOLD if name in history}
    rows = {name: {"first": x.iloc[0], "last": x.iloc[-1]} for name, x in told.items() if len(x)}
    if rows:
        print(f"\n{as_table(pd.DataFrame(rows).T)}")
    with threads(num_threads):
        data = data_of(run) if data is None else data
        if isinstance(run.model, RewardModel):
            told_of_judge(run, data)
            return
        judge = None if reward == "gold" else reward
        policy = Policy("model", run.model, run.tokenizer, run, run.config["device"])
        try:
            refuse_without_data(data)
            longest = run.config.get("max_new_tokens")
            found = written(policy, data, 3, reward_model=judge, max_new_tokens=longest)
        except ValueError as error:
            # The run is made, whatever comes of reading it: {"text"} has no prompts, for one.
            print(f"\nno samples: {error}")
            return
        print(f"\n{lines(found, 3)}")


def _reward(named: Any) -> Any:
    """A folder, "gold", or the function that the user means by my_module:short."""
    if names_function(named):
        return function_of(named)
    if isinstance(named, str) and named != "gold" and not Path(named).exists():
        raise ValueError(
            f"reward is {named!r}, and there is no such folder; a run of 'reward', gold, or "
            "MODULE:FUNCTION is wanted"
        )
    return named


def _numbers() -> Any:
    """A reader of `1,4,16`."""
    one = number(1)

    def read(text: str) -> tuple[int, ...]:
        return tuple(one(part) for part in text.split(","))

    return read
