"""`ppobook language …`: the stages on the command line, and what one does with what they made.

    ppobook language sft --out base
    ppobook language reward base --out judge
    ppobook language ppo base --reward judge --out ppo
    ppobook language compare base ppo --judge judge --reference base

As in `ppobook.cli`, torch is imported by the commands that need it, after the arguments are read.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppobook._arguments import (
    Parser,
    counted,
    hint_of,
    imported,
    imported_class,
    list_settings,
    literal,
    no_such_option,
    number,
    remember,
    see_here,
    settings_in,
    written_in,
)

if TYPE_CHECKING:
    from ppobook.language.evaluating import Evaluation
    from ppobook.language.tokens import Pairs
    from ppobook.language.training import Run, Stage
    from ppobook.language.world import World

# Each stage, what it is, whether it wants a reward, and whether it takes a reference. To ask the stages
# themselves would import torch.
STAGES = {
    "sft": ("learn to write as a corpus does", False, False),
    "reward": ("train a model of rewards on preferences", False, False),
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
    *("accuracy", "eval_accuracy", "margin", "fresh_accuracy"),
)


# ------------------------------------------------------------------------------------------- the commands


def add_commands(commands: Any) -> None:
    """Add the command `language` to those of `ppobook`.

    Parameters
    ----------
    commands : what `ArgumentParser.add_subparsers` gave
    """
    language = commands.add_parser(
        "language",
        help="train a small language model, reward it, and read what it says",
        description="Train a small language model, reward it, and read what it says.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog="examples:\n"
        "  ppobook language sft --out base\n"
        "  ppobook language reward base --out judge\n"
        "  ppobook language ppo base --reward judge --out ppo\n"
        "  ppobook language grpo base --reward judge --variant dr_grpo --out grpo\n"
        "  ppobook language dpo base --out dpo\n"
        "  ppobook language compare base ppo grpo dpo --judge judge --reference base\n"
        "  ppobook language best_of_n base --judge judge --n 1,4,16,64\n",
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
        epilog=f"Settings are given by name, as in --lr 0.001 --steps 50; ppobook language {name} --list "
        "shows them. What is given here counts before what FILE has, and that before the defaults. A run's "
        "config.json is such a FILE.",
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
    command.add_argument("--data", metavar="FILE", help="JSONL; what the model was trained on, if left out")
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
    command.set_defaults(run=_sample)


def _add_evaluate(actions: Any) -> None:
    command = actions.add_parser(
        "evaluate",
        help="measure what a model writes, or how good a model of rewards is",
        description="Let a language model write, and measure it; of a run of 'reward', say how often it is "
        "right about pairs that were held out.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL")
    _of_measuring(command)
    command.add_argument("--samples", type=number(0), default=3, help="completions to print (3)")
    command.set_defaults(run=_evaluate)


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
    command.set_defaults(run=_compare)


def _add_best_of_n(actions: Any) -> None:
    command = actions.add_parser(
        "best_of_n",
        help="draw n completions and keep the best, for several n",
        description="What the best of n completions would be like, and how far from the model that is. No "
        "training. It is the mean over all ways to take n of those that were drawn.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="MODEL")
    command.add_argument("--judge", default="gold", help="a run of 'reward', or gold (gold)")
    command.add_argument("--n", type=_numbers(), default=(1, 4, 16), help="several n (1,4,16)")
    command.add_argument(
        "--draws", type=number(1), help="completions of each prompt; if left out, twice the largest n"
    )
    command.add_argument(
        "--prompts", type=number(1), default=64, help="so many of a file's prompts at most (64)"
    )
    command.add_argument("--samples", type=number(0), default=3, help="completions to print (3)")
    _of_writing(command)
    command.set_defaults(run=_best_of_n)


def _add_ladder(actions: Any) -> None:
    command = actions.add_parser(
        "ladder",
        help="ask a model of rewards about more and more of a good thing",
        description="What a model of rewards says of texts with more and more kind words, beside their gold.",
        allow_abbrev=False,
    )
    command.add_argument("model", metavar="RUN", help="of 'reward'")
    command.add_argument("--world", metavar="SIZES", help="if it was trained on data of yours")
    command.add_argument("--top", type=number(1), help="the most kind words (6, or what has room)")
    command.add_argument("--texts", type=number(1), default=4, help="of each prompt (4)")
    command.add_argument("--seed", type=number(0), default=0, help="of their words (0)")
    command.add_argument("--device", default="cpu", help="where the networks live (cpu)")
    command.set_defaults(run=_ladder)
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
    command.set_defaults(run=_export)
    remember(command, takes_settings=False)


def _of_measuring(command: argparse.ArgumentParser) -> None:
    command.add_argument("--judge", help="a run of 'reward', for the column reward")
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
    from ppobook.language import training
    from ppobook.language.world import World

    words, settings = settings_in(arguments.rest, most=2 if arguments.action == "train" else 1)
    stage = _own(words) if arguments.action == "train" else arguments.action
    kind = _stage_of(stage)
    if arguments.list:
        list_settings(kind.settings_class, _variants() if stage == "grpo" else {})
        return
    given, settings = _given(arguments, stage, words, settings, set(kind.settings_class.__dataclass_fields__))
    named = dict(given)
    if arguments.resume is None:
        if not kind.begins_afresh and "model" not in given:
            raise ValueError(f"model is left out; {stage} begins from one: {_called(arguments, stage)} MODEL")
        for option in ("model", "reference"):
            _refuse_nowhere(option, given.get(option))
        if kind.begins_afresh and not {"model", "data", "world"} & given.keys():
            given["data"] = World()
    if isinstance(given.get("lora"), str):
        given["lora"] = _sizes("lora", given["lora"])
    world = given.pop("world", None)
    if world is not None:
        given["data"] = _world_of(world)
    if given.get("reward") is not None:
        given["reward"] = _reward(given["reward"])
    run = training.train(
        kind,
        resume=arguments.resume,
        progress=False if arguments.quiet else None,
        tensorboard=arguments.tensorboard,
        **given,
        **settings,
    )
    if arguments.resume is not None and settings.get("steps", len(run.history)) < len(run.history):
        print(f"the run had {counted(len(run.history))} already: nothing was trained")
    threads = given.get("num_threads") or 1
    _summary(run, named.get("model"), named.get("reward"), given.get("data"), threads)
    folder = arguments.resume or given.get("out")
    print(f"\nsaved in {folder}" if folder else "\nnot saved: --out was not given")


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
    from ppobook.language import training

    if ":" not in stage:
        return training.stage_class(stage)
    see_here(stage)
    kind = imported_class(stage, "a Stage", "MyPPO")
    if not issubclass(kind, training.Stage):
        raise ValueError(f"{stage!r} is no Stage; a subclass of ppobook.language.training.Stage is wanted")
    return training.stage_class(kind)


def _called(arguments: argparse.Namespace, stage: str) -> str:
    """The command as far as its stage."""
    return f"ppobook {arguments.called}{f' {stage}' if ':' in stage else ''}"


def _given(
    arguments: argparse.Namespace, stage: str, words: list[str], settings: dict[str, Any], known: set[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the command line and the file say: what is asked for beside settings, and the settings."""
    given = {name: x for name in _ASKED if (x := getattr(arguments, name, None)) is not None}
    for model in words:
        if "model" in given:
            raise ValueError(f"{model!r} and --model {given['model']}: one model to begin from is wanted")
        given["model"] = model
    _refuse_both(given)
    for name in settings:
        if name not in known:
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
            raise ValueError(
                f"config={arguments.config!r} has {name!r}, which is no setting of {stage}; "
                f"{hint_of(name, [*known, *options])}"
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
    _refuse_both(said)
    return said


def _refuse_both(given: dict[str, Any]) -> None:
    if "data" in given and "world" in given:
        raise ValueError(f"data is {given['data']!r} and world is {given['world']!r}; one of them is wanted")


def _variants() -> dict[str, dict[str, Any]]:
    from ppobook.language.grpo import VARIANTS

    return {f"--variant {name} has": sets for name, sets in VARIANTS.items() if sets}


def _summary(run: Run, origin: str | None, reward: str | None, data: Any, num_threads: int) -> None:
    """What became of a run, for somebody to read."""
    import pandas as pd

    from ppobook.language.rewards import Judge
    from ppobook.runs import threads

    history = run.history
    last = history.iloc[-1]
    begun = f" from {origin}" if origin is not None else ""
    print(f"{run.config['stage']}{begun}, seed {run.config['seed']}")
    print(f"{counted(int(last['update']))}, {last['tokens']:,.0f} tokens, {last['seconds']:.1f} seconds")
    # What is measured every so often only has gaps in its column.
    told = {name: history[name].dropna() for name in _TOLD if name in history}
    rows = {name: {"first": x.iloc[0], "last": x.iloc[-1]} for name, x in told.items() if len(x)}
    if rows:
        print(f"\n{_table(pd.DataFrame(rows).T)}")
    with threads(num_threads):
        data = _data_of(run) if data is None else data
        if isinstance(run.model, Judge):
            _told_of_judge(run, data)
            return
        # Whoever trained it has spoken of its reward; only a folder can be asked again.
        judge = reward if reward is not None and reward != "gold" and Path(reward).is_dir() else None
        policy = _Policy("model", run.model, run.tokenizer, run, run.config["device"])
        try:
            _refuse_without_data(data)
            longest = run.config.get("max_new_tokens") or _room(policy, data)
            found = _write(policy, data, 3, judge=judge, max_new_tokens=longest)
        except ValueError as error:
            # The run is made, whatever comes of reading it: {"text"} has no prompts, for one.
            print(f"\nno samples: {error}")
            return
        print(f"\n{_lines(found, 3)}")


# ---------------------------------------------------------------------------------- reading what is written


def _sample(arguments: argparse.Namespace) -> None:
    from ppobook.runs import threads

    policy = _policy("model", arguments.model, arguments)
    with threads(arguments.num_threads):
        if arguments.prompt is not None:
            _refuse_other_data(arguments)
            data: Any = [{"prompt": prompt} for prompt in arguments.prompt]
        else:
            data = _data(arguments, [policy])
        print(
            _lines(
                _write(policy, data, arguments.n, **_how(arguments, policy, data)),
                arguments.n,
                arguments.seed,
            )
        )


def _evaluate(arguments: argparse.Namespace) -> None:
    from ppobook.language.evaluating import evaluate
    from ppobook.language.rewards import Judge
    from ppobook.runs import threads

    with threads(arguments.num_threads):
        run = _run_in(arguments.model, arguments.device)
        if run is not None and isinstance(run.model, Judge):
            data = _data(arguments, [_Policy(arguments.model, run.model, run.tokenizer, run)])
            _told_of_judge(run, data, others=arguments.data is not None)
            return
        policy = _policy("model", arguments.model, arguments)
        data = _data(arguments, [policy])
        others = _others(arguments, policy)
        found = evaluate(
            policy.model,
            data,
            tokenizer=policy.tokenizer,
            n=arguments.n,
            **others,
            **_how(arguments, policy, data),
        )
    print(f"{arguments.model}: {arguments.n} completions, seed {arguments.seed}")
    for name, x in found.numbers.items():
        print(f"{name:<14}{x:8.3f}")
    if arguments.samples:
        print(f"\n{_lines(found, arguments.samples, arguments.seed)}")


def _compare(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from ppobook.language.evaluating import evaluate
    from ppobook.runs import threads

    names = dict.fromkeys(arguments.models)
    policies = [_policy("model", name, arguments) for name in names]
    with threads(arguments.num_threads):
        data = _data(arguments, policies)
        found = {}
        for policy in policies:
            others = _others(arguments, policy)
            found[policy.name] = evaluate(
                policy.model,
                data,
                tokenizer=policy.tokenizer,
                n=arguments.n,
                **others,
                **_how(arguments, policy, data),
            )
    print(_table(pd.DataFrame({name: one.numbers for name, one in found.items()}).T))
    for name, one in found.items():
        if arguments.samples:
            print(f"\n{name}\n{_lines(one, arguments.samples, arguments.seed, indent='  ')}")


def _best_of_n(arguments: argparse.Namespace) -> None:
    from ppobook.language.best_of_n import best_of_n_curve
    from ppobook.language.data import prompts_of
    from ppobook.language.evaluating import evaluate
    from ppobook.language.records import records_of
    from ppobook.language.world import World
    from ppobook.runs import threads

    most = max(arguments.n)
    draws = 2 * most if arguments.draws is None else arguments.draws
    if draws < most:
        raise ValueError(f"--draws {draws}: of n={most} at least {most} draws of each prompt are wanted")
    with threads(arguments.num_threads):
        policy = _policy("model", arguments.model, arguments)
        data = _data(arguments, [policy])
        if not isinstance(data, World):
            data = list(records_of(data).rows[: arguments.prompts])
        judge = None if arguments.judge == "gold" else _judge("judge", arguments.judge, policy)
        if judge is None and not isinstance(data, World):
            raise ValueError("--judge gold: the data are no World, and only a World has a true reward")
        prompts = len(prompts_of(data, policy.tokenizer))
        # Prompts are taken in turn, so that the draws of one of them are this far apart.
        found = evaluate(
            policy.model,
            data,
            judge=judge,
            n=prompts * draws,
            tokenizer=policy.tokenizer,
            **_how(arguments, policy, data),
        )
    by = {"gold": found.gold, "reward": found.reward}
    known = {name: x.view(draws, prompts).T for name, x in by.items() if x is not None}
    chosen = "gold" if judge is None else "reward"
    score = known.pop(chosen)
    curve = best_of_n_curve(score, arguments.n, known).rename(columns={"score": chosen})
    print(f"{arguments.model}: best of n by {arguments.judge}, {draws} draws of {prompts} prompts")
    print(_table(curve, names=False))
    best = score[:, :most].argmax(dim=1)
    rows = [int(best[p]) * prompts + p for p in range(prompts)]
    if arguments.samples:
        print(f"\nbest of {most}\n{_lines(_part(found, rows), arguments.samples, arguments.seed, '  ')}")


@dataclass
class _Policy:
    """A model that can be asked to write."""

    name: str
    model: Any
    tokenizer: Any
    run: Run | None
    device: str = "cpu"


def _policy(option: str, name: str, arguments: argparse.Namespace) -> _Policy:
    """The language model in a run's folder, or a transformers model."""
    from ppobook import runs
    from ppobook.language.rewards import Judge
    from ppobook.language.training import open_model

    device = runs.device(arguments.device)
    tokenizer = arguments.tokenizer if option == "model" else None
    run = _run_in(name, device)
    if run is None:
        _refuse_nowhere(option, name)
        how = {} if arguments.dtype is None else {"dtype": arguments.dtype}
        model, tokenizer = open_model(name, tokenizer, None, how=how)
        return _Policy(name, model.to(device), tokenizer, None, device)
    if isinstance(run.model, Judge):
        raise ValueError(f"{option} is {name!r}, a model of rewards; a language model is wanted")
    if tokenizer is not None:
        raise ValueError(f"--tokenizer {tokenizer}: the run {name!r} has its own; wanted: leave it out")
    if arguments.dtype is not None:
        raise ValueError(f"--dtype {arguments.dtype}: the run {name!r} has its own; wanted: leave it out")
    return _Policy(name, run.model, run.tokenizer, run, device)


def _run_in(name: str, device: str = "cpu") -> Run | None:
    from ppobook.language.training import is_run, load

    return load(name, device) if is_run(name) else None


def _judge(option: str, name: str, policy: _Policy) -> Any:
    """The model of rewards in a run's folder, or one of transformers, for what this policy writes."""
    from ppobook.language.rewards import Judge
    from ppobook.language.training import refuse_other_vocabulary, refuse_other_words

    run = _run_in(name, policy.device)
    if run is None:
        _refuse_nowhere(option, name, kind="a run of 'reward'")
        from ppobook.language import hf

        judge = hf.open_judge(name, policy.tokenizer).to(policy.device)
    elif not isinstance(run.model, Judge):
        raise ValueError(f"{option} is {name!r}, a run of {run.config['stage']!r}; one of 'reward' is wanted")
    else:
        judge = run.model
        refuse_other_words(option, run.tokenizer, policy.tokenizer)
    refuse_other_vocabulary("reward", judge, policy.model)
    return judge


def _others(arguments: argparse.Namespace, policy: _Policy) -> dict[str, Any]:
    """The model of rewards and the reference that a policy is measured with."""
    from ppobook.language.training import refuse_other_words

    found: dict[str, Any] = {}
    if arguments.judge is not None:
        found["judge"] = _judge("judge", arguments.judge, policy)
    if arguments.reference is not None:
        reference = _policy("reference", arguments.reference, arguments)
        refuse_other_words("reference", reference.tokenizer, policy.tokenizer)
        found["reference"] = reference.model
    return found


def _how(arguments: argparse.Namespace, policy: _Policy, data: Any) -> dict[str, Any]:
    names = ("temperature", "top_k", "top_p", "seed")
    how = {name: getattr(arguments, name) for name in names}
    return how | {"max_new_tokens": arguments.max_new_tokens or _room(policy, data)}


def _room(policy: _Policy, data: Any) -> int | None:
    """How long a completion may be where nobody says: 64 tokens, if the model can read as many."""
    from ppobook.language.data import prompts_of
    from ppobook.language.sampling import MAX_NEW_TOKENS
    from ppobook.language.world import World

    if isinstance(data, World):
        return None
    longest = int(prompts_of(data, policy.tokenizer).mask.sum(dim=1).max())
    return max(1, min(MAX_NEW_TOKENS, policy.model.context - longest))


def _write(policy: _Policy, data: Any, n: int, judge: str | None = None, **how: Any) -> Evaluation:
    """So many completions that some n of them are of different prompts, if there are as many."""
    from ppobook.language.evaluating import evaluate
    from ppobook.language.world import World

    if isinstance(data, World):
        n = max(n, len(data.prompts))
    opened = None if judge is None else _judge("reward", judge, policy)
    return evaluate(policy.model, data, judge=opened, n=n, tokenizer=policy.tokenizer, **how)


def _lines(found: Evaluation, n: int, seed: int = 0, indent: str = "") -> str:
    """n completions as text. A world's prompts stand in order: the first ones all speak of one animal."""
    import numpy as np

    rows = np.random.default_rng(seed).permutation(len(found.texts))[:n]
    return "\n".join(indent + _part(found, [int(row)]).samples(1) for row in sorted(rows))


def _part(found: Evaluation, rows: list[int]) -> Evaluation:
    """Some of the completions of an evaluation."""
    import torch

    return replace(
        found,
        completions=found.completions.select(torch.tensor(rows)),
        prompts=[found.prompts[row] for row in rows],
        texts=[found.texts[row] for row in rows],
        gold=None if found.gold is None else found.gold[rows],
        reward=None if found.reward is None else found.reward[rows],
    )


def _table(table: Any, names: bool = True) -> str:
    # Rounded first: a KL of −1e-9 is not "-0.000".
    text: str = table.to_string(index=names, na_rep="-", float_format=lambda x: f"{round(x, 3) + 0.0:.3f}")
    return text


# ------------------------------------------------------------------------------------- a model of rewards


def _ladder(arguments: argparse.Namespace) -> None:
    from ppobook.language.rewards import Judge
    from ppobook.language.training import refuse_other_words
    from ppobook.runs import threads

    run = _run_in(arguments.model, arguments.device)
    if run is None or not isinstance(run.model, Judge):
        what = "no folder of a run" if run is None else f"a run of {run.config['stage']!r}"
        raise ValueError(f"RUN is {arguments.model!r}, {what}; one of 'reward' is wanted")
    world = run.world if arguments.world is None else _world_of(arguments.world)
    if world is None:
        raise ValueError(f"{arguments.model!r} was trained on no World; --world, of its words, is wanted")
    refuse_other_words("world", world.tokenizer, run.tokenizer)
    with threads(1):
        print(_ladder_of(run, world, arguments.top, arguments.texts, arguments.seed))


def _ladder_of(run: Run, world: World, top: int | None = None, texts: int = 4, seed: int = 0) -> str:
    from ppobook.language.reward import ladder

    # Two clauses, "and" and the end are 15 tokens; each kind word is one more.
    top = min(6, world.max_new_tokens - 15) if top is None else top
    if top < 1:
        return f"no ladder: texts of two clauses have no room in {world.max_new_tokens} tokens"
    rungs = ladder(run.model, world, top=top, texts=texts, seed=seed)
    example = rungs.pop("text")
    return f"{_table(rungs, names=False)}\nwith {top} kind words: {example.iloc[-1]}"


def _told_of_judge(run: Run, data: Any, others: bool = False) -> None:
    """How often a model of rewards is right, how sure it is, and what it says of more and more kind words.

    `others`: the data are not those of the run, and are pairs to be judged, all of them.
    """
    from ppobook.language.data import pairs_of
    from ppobook.language.reward import calibration, calibration_error
    from ppobook.language.world import World

    if others:
        pairs: Pairs | None = pairs_of(data, run.tokenizer, max_length=run.model.body.context)
    else:
        pairs = _held_out(run, data)
    if pairs is None:
        print("\nno pairs were held out")
    else:
        table = calibration(run.model, pairs)
        # What a bin has of accuracy, weighted by its pairs.
        accuracy = (table["observed"] * table["pairs"]).sum() / table["pairs"].sum()
        print(f"\n{len(pairs)} pairs{'' if others else ' held out'}: accuracy {accuracy:.3f}", end=", ")
        print(f"calibration error {calibration_error(table):.3f}")
        print(_table(table, names=False))
    if isinstance(data, World):
        print(f"\n{_ladder_of(run, data)}")


def _held_out(run: Run, data: Any) -> Pairs | None:
    """The pairs that a model of rewards was not trained on."""
    from ppobook.language.data import pairs_of
    from ppobook.language.reward import SampledPairs
    from ppobook.language.training import hold_out

    wanted, state = run.config["eval_pairs"], run._checkpoint.state["stage"]
    if run.world is None:
        pairs = pairs_of(data, run.tokenizer, max_length=run.model.body.context)
        return hold_out(pairs, wanted, run.config["seed"])[1]
    sampled = SampledPairs(None)
    sampled.load_state_dict(state["sampled"])
    return None if sampled.pairs is None or not wanted else sampled.pairs.select(slice(-wanted, None))


# ------------------------------------------------------------------------------------------- for others


def _export(arguments: argparse.Namespace) -> None:
    from ppobook.language import hf
    from ppobook.language.rewards import Judge
    from ppobook.language.training import load

    run = load(arguments.model)
    if arguments.adapters and "lora" not in run.config:
        raise ValueError(f"--adapters: {arguments.model!r} was trained without --lora; wanted: leave it out")
    folder = str(hf.save_pretrained(run, arguments.folder, merge=not arguments.adapters))
    if arguments.adapters:
        reader = f"peft.PeftModel.from_pretrained(the model it began from, {folder!r})"
    else:
        what = "SequenceClassification" if isinstance(run.model, Judge) else "CausalLM"
        reader = f"transformers.AutoModelFor{what}.from_pretrained({folder!r})"
    print(f"saved in {folder}, for {reader}")


# ---------------------------------------------------------------------------------------------------- data


def _data(arguments: argparse.Namespace, policies: Sequence[_Policy]) -> Any:
    """What prompts are taken from: what the user names, or what the runs were trained on."""
    from ppobook.language.training import refuse_other_words
    from ppobook.language.world import World

    _refuse_both({name: x for name in ("data", "world") if (x := getattr(arguments, name)) is not None})
    data: Any = None
    if arguments.data is not None:
        data = arguments.data
    elif arguments.world is not None:
        data = _world_of(arguments.world)
    else:
        known = [(policy, found) for policy in policies if (found := _data_of(policy.run)) is not None]
        for policy, found in known:
            if _said(found) != _said(known[0][1]):
                raise ValueError(
                    f"{known[0][0].name!r} and {policy.name!r} were trained on different data; "
                    "--world or --data, for the prompts, is wanted"
                )
        data = known[0][1] if known else None
    _refuse_without_data(data)
    if isinstance(data, World):
        for policy in policies:
            refuse_other_words("data", data.tokenizer, policy.tokenizer)
    return data


def _data_of(run: Run | None) -> Any:
    """The world of a run, or its file; None if its data were in memory."""
    if run is None:
        return None
    return run.world if run.world is not None else run.config["data"].get("file")


def _said(data: Any) -> Any:
    return getattr(data, "config", data)


def _refuse_without_data(data: Any) -> None:
    if data is None:
        raise ValueError("there are no data to take prompts from; --data FILE or --world SIZES is wanted")


def _refuse_other_data(arguments: argparse.Namespace) -> None:
    for name in ("data", "world"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--prompt and --{name}: one of them is wanted")


def _world_of(said: Any) -> World:
    """The world that `nouns=8,places=8` means, or a mapping of a file."""
    from ppobook import _doors
    from ppobook.language.world import World

    sizes = _sizes("world", said)
    known = list(inspect.signature(World).parameters)
    for name in sizes:
        if name not in known:
            raise ValueError(
                f"world has {name!r}, which is no size of a World; {_doors.nearest(name, known)}"
            )
    return World(**sizes)


def _sizes(option: str, said: Any) -> dict[str, Any]:
    """`nouns=8,clauses=0.5,0.5` as {"nouns": 8, "clauses": (0.5, 0.5)}."""
    if isinstance(said, dict):
        return said
    found: dict[str, Any] = {}
    for part in re.split(r",(?=\s*[A-Za-z_]\w*=)", str(said)) if said else []:
        name, given, value = (word.strip() for word in part.partition("="))
        if not given or not name or not value:
            example = "r=8,alpha=16" if option == "lora" else "nouns=8,places=8"
            raise ValueError(f"{option} is {said!r}; names with a number each are wanted, as in {example}")
        if name in found:
            raise ValueError(f"{option} is {said!r}, with {name} twice; each size once is wanted")
        found[name] = literal(value)
    return found


def _reward(named: Any) -> Any:
    """A folder, "gold", or the function that the user means by my_module:short."""
    if named == "gold" or not isinstance(named, str) or Path(named).exists():
        return named
    if ":" not in named:
        raise ValueError(
            f"reward is {named!r}, and there is no such folder; a run of 'reward', gold, or "
            "MODULE:FUNCTION is wanted"
        )
    see_here(named)
    found = imported(named, "a function of prompts and completions", "short")
    if not callable(found):
        raise ValueError(f"{named!r} is of type {type(found).__name__}; a function is wanted")
    return found


def _refuse_nowhere(option: str, name: Any, kind: str = "a run's folder") -> None:
    """Refuse what is neither here nor something to ask the hub for."""
    from ppobook.language.training import is_run

    if not isinstance(name, str) or is_run(name):
        return
    path, or_else = Path(name), "or a transformers model, is wanted"
    if path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{option} is {name!r}, a folder without a run in it; {kind}, {or_else}")
    if path.is_dir() and not importlib.util.find_spec("transformers") and (path / "history.csv").exists():
        raise ValueError(f"{option} is {name!r}, a run without a checkpoint; {kind}, {or_else}")
    if not path.exists() and (not importlib.util.find_spec("transformers") or name.startswith((".", "/"))):
        raise ValueError(f"{option} is {name!r}, and there is no such folder; {kind}, {or_else}")


def _numbers() -> Any:
    """A reader of `1,4,16`."""
    one = number(1)

    def read(text: str) -> tuple[int, ...]:
        return tuple(one(part) for part in text.split(","))

    return read
