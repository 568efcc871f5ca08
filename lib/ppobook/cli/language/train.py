"""`ppobook language sft`, `reward`, `ppo`, …, and `train` for a stage of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tyro

from ppobook.cli.language.models import (
    MaybeModel,
    MaybeSizes,
    function_of,
    names_function,
    open_reward,
    sizes_in,
    world_of,
)
from ppobook.cli.parsing import (
    MaybeFile,
    RunOptions,
    as_words,
    config_of,
    filled_up,
    imported_class,
    made,
    parse,
    peek,
    print_settings,
    read,
    read_file,
    refuse_to_import,
)
from ppobook.language.settings import SETTINGS, VARIANTS
from ppobook.validation import counted

# Columns whose first and last values are printed at the end of a run.
COLUMNS = (
    *("gold", "reward", "kl_reference", "length", "ended", "loss", "eval_loss"),
    *("accuracy", "eval_accuracy", "margin", "fresh_accuracy", "dead_groups", "tied"),
)


@dataclass(frozen=True)
class StageOptions(RunOptions):
    """Train a language model or a reward model.

    The settings of the stage are options too, as in --lr 0.001 --updates 50. The command line precedes FILE,
    and FILE the defaults. A run's config.json is such a FILE, but for MODEL and a reward that is not gold.

    Args:
        start: the model to train: a run's folder, a transformers model's, or its name on the hub
        model: the same as the word MODEL
        data: JSONL; if left out, the world that the model was trained on
        world: a World of these sizes as data, as in nouns=8,places=8
        reward: a run of 'reward', gold, or MODULE:FUNCTION
        reference: the model that KL is measured from; if left out, MODEL
        tokenizer: of a transformers model, if it is in another place
        lora: of a transformers model, train adapters only, as in r=8,alpha=16
        dtype: of a transformers model: float32 or bfloat16
    """

    start: tyro.conf.Positional[MaybeModel] = None
    model: str | None = None
    data: MaybeFile = None
    world: MaybeSizes = None
    reward: str | None = None
    reference: str | None = None
    tokenizer: str | None = None
    lora: MaybeSizes = None
    dtype: str | None = None


def stage(words: Sequence[str], prog: str) -> None:
    """Train by the stage that is the last word of `prog`: ppobook language grpo."""
    name = prog.split()[-1]
    _train(name, SETTINGS[name], name, words, prog)


def own(words: Sequence[str], prog: str) -> None:
    """Train by the stage that MODULE:CLASS names."""
    if not words or words[0].startswith("-"):
        if {"-h", "--help"} & {*words}:
            parse(StageOptions, words, f"{prog} MODULE:CLASS")
        raise ValueError(f"{prog} needs MODULE:CLASS, as in my_module:MyStage")
    kind = imported_class(words[0], "the stage", "MyStage")
    from ppobook.language.training import STAGES

    kind = STAGES.find(kind)
    _train(words[0], kind.settings_class, kind, words[1:], f"{prog} {words[0]}")


def _train(stage: str, settings_class: Any, kind: Any, words: Sequence[str], prog: str) -> None:
    file, resume = peek(words, "--config"), peek(words, "--resume")
    in_file = {} if file is None else _read_file(file, stage)
    base = made(settings_class, stage, in_file if resume is None else config_of(resume), {})
    options, settings = read(StageOptions, base, words, prog)
    if options.list:
        print_settings(base, prog)
        for name, variant in VARIANTS.items() if stage == "grpo" else ():
            if variant.settings:
                print(f"--variant {name} has\n    {as_words(variant.settings)}")
        return
    if file is not None and options.reward is None:
        refuse_to_import(file, "reward", in_file.get("reward"))
    if (options.data, options.world) != (None, None):  # two names of one thing
        in_file = {name: x for name, x in in_file.items() if name not in ("data", "world")}
    given, settings = filled_up(options, settings, in_file, settings_class, stage)
    if options.start is not None:
        given["model"] = options.start
    if "data" in given and "world" in given:
        raise ValueError("one of data and world must be given, got both")

    from ppobook.language.opening import no_progress_bars
    from ppobook.language.training import train
    from ppobook.language.world import World

    no_progress_bars(options.quiet)
    if (sizes := given.pop("world", None)) is not None:
        given["data"] = world_of(sizes)
    elif resume is None and not {"model", "data"} & given.keys():
        given["data"] = World()
    if "lora" in given:
        given["lora"] = sizes_in("lora", given["lora"])
    if names_function(given.get("reward")):
        given["reward"] = function_of(given["reward"])
    before = options.updates()
    if kind in ("reward", "dpo") and resume is None and not options.quiet:
        print("Reading or sampling the pairs, which may take a minute …", flush=True)
    run = train(kind, **options.how(), **given, **settings)
    if len(run.history) == before:
        print(f"nothing to do: {resume} has its {counted(before, 'update')}; larger --updates continue it")
        return
    _summary(run, given.get("model"), given.get("reward"), given.get("data"), given.get("num_threads") or 1)
    print(f"\n{options.saved_in(given.get('out'))}")


def _read_file(file: str, stage: str) -> dict[str, Any]:
    """The contents of a file, which may be the config.json of a run."""
    found: dict[str, Any] = {name: x for name, x in read_file(file).items() if x is not None}
    other = found.pop("stage", stage)
    if other != stage:
        raise ValueError(f"config must be of the stage {stage!r}, got {file!r}, of the stage {other!r}")
    if isinstance(data := found.get("data"), dict):  # of a run
        del found["data"]
        found |= {new: data[name] for name, new in (("world", "world"), ("file", "data")) if name in data}
        if found.get("reward") != "gold":  # its name instead of its place
            found.pop("reward", None)
    return found


def _summary(run: Any, origin: str | None, reward: Any, data: Any, num_threads: int) -> None:
    """Print the result of a run: its history's first and last values, and samples."""
    import pandas as pd

    from ppobook.cli.language.evaluate import as_table, completions_of, print_ranking, samples
    from ppobook.language.opening import Policy, common_data, data_of
    from ppobook.language.rewards import RewardModel
    from ppobook.run.machine import threads

    history = run.history
    last = history.iloc[-1]
    print(
        f"{run.config['stage']}{f' from {origin}' if origin is not None else ''}, seed {run.config['seed']}"
    )
    length = f"{counted(int(last['update']), 'update')}, {counted(int(last['tokens']), 'token')}"
    print(f"{length}, {last['seconds']:.1f} seconds")
    # A column that is not measured in every update has gaps.
    columns = {name: history[name].dropna() for name in COLUMNS if name in history}
    rows = {name: {"first": x.iloc[0], "last": x.iloc[-1]} for name, x in columns.items() if len(x)}
    if rows:
        print(f"\n{as_table(pd.DataFrame(rows).T)}")
    with threads(num_threads):
        policy = Policy("model", run.model, run.tokenizer, run, run.config["device"])
        if isinstance(run.model, RewardModel):
            print_ranking(run, data_of(run) if data is None else data)
            return
        try:
            data = common_data([policy]) if data is None else data
            scored = open_reward(reward, [policy]) if isinstance(reward, str) and reward != "gold" else reward
            longest = run.config.get("max_new_tokens")
            found = completions_of(
                policy, data, 3, reward_model=None if reward == "gold" else scored, max_new_tokens=longest
            )
        except ValueError as error:
            # The run is finished, even if it cannot be sampled from: {"text"} has no prompts, for one.
            print(f"\nno samples: {error}")
            return
        print(f"\n{samples(found, 3)}")
