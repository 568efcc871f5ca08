"""`ppobook language sft`, `reward`, `ppo`, …, and `train` for a stage of your own."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from ppobook.cli.language import STAGES
from ppobook.cli.language.models import (
    function_of,
    names_function,
    open_reward,
    refuse_both,
    sizes_in,
    world_of,
)
from ppobook.cli.options import MaybeFile, as_words, first_word, print_settings, read
from ppobook.cli.users import (
    OF_TRAINING,
    Training,
    check_settings,
    imported_class,
    merged,
    read_settings,
    refuse_to_import,
    used_elsewhere,
)
from ppobook.language.settings import SETTINGS, VARIANTS
from ppobook.run.folder import is_run
from ppobook.run.registry import short_name
from ppobook.validation import counted

# What a file may have besides a stage's settings.
OF_MODELS = ("model", "data", "world", "reward", "reference", "tokenizer", "lora", "dtype")

# Columns whose first and last values are printed at the end of a run.
COLUMNS = (
    *("gold", "reward", "kl_reference", "length", "ended", "loss", "eval_loss"),
    *("accuracy", "eval_accuracy", "margin", "fresh_accuracy", "dead_groups", "tied"),
)

Sizes = Annotated[str | None, tyro.conf.arg(metavar="SIZES")]


def arguments(
    start: Annotated[str | None, tyro.conf.arg(metavar="MODEL")] = None,
    /,
    *,
    model: str | None = None,
    data: MaybeFile = None,
    world: Sizes = None,
    reward: str | None = None,
    reference: str | None = None,
    tokenizer: str | None = None,
    lora: Sizes = None,
    dtype: str | None = None,
    training: Annotated[Training, tyro.conf.arg(name="")],
) -> None:
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


def _stage(stage: str, words: Sequence[str], prog: str) -> None:
    known = STAGES[stage]
    without = [*([] if known.wants_reward else ["reward"]), *([] if known.wants_reference else ["reference"])]
    _train(stage, SETTINGS[stage], stage, words, prog, without)


sft, reward, ppo, grpo, dpo, online_dpo, iterative_ppo, lagged_grpo = (
    functools.partial(_stage, name) for name in STAGES
)


def own(words: Sequence[str], prog: str) -> None:
    """Run `ppobook language train MODULE:CLASS`."""
    stage, words = first_word(arguments, words)
    if stage is None and not {"-h", "--help"} & {*words}:
        if (known := _stage_of_run(words)) not in STAGES:
            raise ValueError(f"{prog} needs MODULE:CLASS, as in {known or 'my_module:MyStage'}")
        _stage(known, words, prog)
        return
    if stage is None:
        read(arguments, words, f"{prog} MODULE:CLASS")
        return
    if ":" not in stage:
        raise ValueError(
            f"the stage must be MODULE:CLASS, as in my_module:MyStage, got {stage!r}{used_elsewhere(stage)}"
        )
    kind = imported_class(stage, "the stage", "MyStage")
    from ppobook.language.stage import Stage

    if not issubclass(kind, Stage):
        raise ValueError(f"the stage must be a subclass of ppobook.language.stage.Stage, got {stage!r}")
    _train(stage, kind.settings_class, kind, words, f"{prog} {stage}", [])


def _stage_of_run(words: Sequence[str]) -> str:
    """The stage of the run that --resume names; nothing where there is none, or where it can't be read."""
    for word, following in itertools.pairwise([*words, ""]):
        option, _, value = word.partition("=")
        if option == "--resume":
            try:
                return str(json.loads(Path(value or following, "config.json").read_text())["stage"])
            except (OSError, ValueError, KeyError, TypeError):
                break
    return ""


def _train(
    stage: str, settings_class: Any, kind: Any, words: Sequence[str], prog: str, without: Sequence[str]
) -> None:
    (start,), options, settings = read(
        arguments, words, prog, [settings_class], shown=[settings_class], without=without
    )
    training: Training = options["training"]
    if training.list:
        training.refuse_with_list(**settings, **options | {"training": None}, MODEL=start)
        print_settings(settings_class, {}, prog)
        for name, values in VARIANTS.items() if stage == "grpo" else ():
            if values:
                print(f"--variant {name} has\n    {as_words(values)}")
        return
    if start is not None and options["model"] is not None:
        raise ValueError(f"one model must be given, got {start!r} and --model {options['model']}")
    options["model"] = start if start is not None else options["model"]
    given = {name: x for name in OF_MODELS if (x := options.get(name)) is not None} | training.given()
    refuse_both(given)
    resume = training.resume
    file = training.file()
    if file is not None:
        in_file = _read_config(file, stage)
        if "data" in given or "world" in given:  # two names of one thing
            in_file = {name: x for name, x in in_file.items() if name not in ("data", "world")}
        if "reward" not in given:
            refuse_to_import(file, "reward", in_file.get("reward"))
        known = {f.name for f in fields(settings_class)}
        names = {*OF_MODELS, *OF_TRAINING} - {*without}
        given, settings = merged(file, in_file, given, settings, names, known, stage)
    if resume is None:
        check_settings(settings_class, stage, given, settings, {})
        _refuse_missing(kind, stage, given, prog)

    from ppobook.language.opening import no_progress_bars
    from ppobook.language.training import train
    from ppobook.language.world import World

    no_progress_bars(training.quiet)
    if resume is not None:
        _refuse_without_function(training, given, stage)
    else:
        _refuse_without_data(given, prog)

    if resume is None and not {"model", "data", "world"} & given.keys():
        given["data"] = World()
    if isinstance(given.get("lora"), str):
        given["lora"] = sizes_in("lora", given["lora"])
    if (sizes := given.pop("world", None)) is not None:
        given["data"] = world_of(sizes)
    if given.get("reward") is not None:
        given["reward"] = _reward(given["reward"])
    before = training.updates()
    run = train(kind, **training.how(given.get("out")), **given, **settings)
    if len(run.history) == before:
        print(f"nothing to do: {resume} has its {counted(before, 'update')}; larger --updates continue it")
        return
    _summary(run, given.get("model"), given.get("reward"), given.get("data"), given.get("num_threads") or 1)
    print(f"\n{training.saved_in(given.get('out'))}")


def _refuse_missing(kind: Any, stage: str, given: dict[str, Any], prog: str) -> None:
    """Raise where a model, data or a reward is not named that the stage needs."""
    from_scratch, wants_reward = stage == "sft", ":" not in stage and STAGES[stage].wants_reward
    if ":" in stage:
        from_scratch, wants_reward = kind.starts_from_scratch, kind.wants_reward
    if not from_scratch and "model" not in given:
        raise ValueError(f"{prog} needs MODEL, the model to train")
    if wants_reward and "reward" not in given:
        raise ValueError(f"{prog} needs --reward: a run of 'reward', gold, or MODULE:FUNCTION")


def _refuse_without_data(given: dict[str, Any], prog: str) -> None:
    """Raise where data are neither named nor known from the model."""
    if "model" in given and not {"data", "world"} & given.keys() and not _has_world(given["model"]):
        raise ValueError(
            f"{prog} needs --data FILE or --world SIZES, as {given['model']!r} is not a run that was trained "
            "on a World"
        )


def _has_world(model: str) -> bool:
    """Whether a model is a run, and its data were a World. The checkpoint says so; its config is quicker."""
    try:
        return is_run(model) and "world" in json.loads(Path(model, "config.json").read_text())["data"]
    except (OSError, ValueError, KeyError, TypeError):
        return True  # a damaged run: whatever reads it says so


def _read_config(file: str, stage: str) -> dict[str, Any]:
    """The contents of a file, which may be the config.json of a run."""
    found: dict[str, Any] = {name: x for name, x in read_settings(file).items() if x is not None}
    other = found.pop("stage", stage)
    if other != stage:
        raise ValueError(f"config must be of the stage {stage!r}, got {file!r}, of the stage {other!r}")
    data = found.get("data")
    if isinstance(data, dict):
        del found["data"]
        names = {"world": "world", "file": "data"}
        sources = {names[name]: data[name] for name in names if name in data}
        if not sources:
            raise ValueError(
                f"config={file!r} is of a run whose data were in memory: remove its 'data', and "
                "give --data FILE"
            )
        found |= sources
        if found.get("reward") != "gold":  # its name, and not its place
            found.pop("reward", None)
    refuse_both(found)
    return found


def _refuse_without_function(training: Training, given: dict[str, Any], stage: str) -> None:
    """Raise if a run of this stage had a function as its reward, which no folder holds, and none is given."""
    before = training.config_before()
    named = before.get("reward")
    if short_name(str(before.get("stage"))) != short_name(stage):  # which is what is refused then
        return
    if "reward" not in given and isinstance(named, str) and named.startswith("function "):
        raise ValueError(
            f"--resume {training.resume}: the run was made with a {named}, which is not in its folder: give "
            f"--reward MODULE:{named.removeprefix('function ')} too"
        )


def _reward(named: Any) -> Any:
    """A folder, "gold", or the function that my_module:short names."""
    if names_function(named):
        return function_of(named)
    if isinstance(named, str) and named != "gold" and not Path(named).exists():
        raise ValueError(
            f"reward must be a run of 'reward', gold, or MODULE:FUNCTION, got {named!r}, and there is no "
            f"such folder"
        )
    return named


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
            scored = None if reward == "gold" else reward
            if isinstance(scored, str):
                scored = open_reward(scored, [policy])
            longest = run.config.get("max_new_tokens")
            found = completions_of(policy, data, 3, reward_model=scored, max_new_tokens=longest)
        except ValueError as error:
            # The run is finished, even if it cannot be sampled from: {"text"} has no prompts, for one.
            print(f"\nno samples: {error}")
            return
        print(f"\n{samples(found, 3)}")
