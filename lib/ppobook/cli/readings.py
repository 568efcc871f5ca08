"""What the commands of `ppobook language` print of a model: what it writes, and what that is worth.

Each command finds what it is told of, a run's folder or a model of transformers; takes prompts from where the
user says, or from what the run was trained on; lets the model write; and prints.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ppobook.cli.arguments import imported, literal, see_here

if TYPE_CHECKING:
    from ppobook.language.evaluating import Evaluation
    from ppobook.language.run import Run
    from ppobook.language.tokens import Pairs
    from ppobook.language.world import World


def print_samples(arguments: argparse.Namespace) -> None:
    from ppobook.run.machine import threads

    policy = _policy("model", arguments.model, arguments)
    with threads(arguments.num_threads):
        if arguments.prompt is not None:
            _refuse_other_data(arguments)
            data: Any = [{"prompt": prompt} for prompt in arguments.prompt]
        else:
            data = _data(arguments, [policy])
        print(
            lines(
                written(policy, data, arguments.n, **_how(arguments)),
                arguments.n,
                arguments.seed,
            )
        )


def print_evaluation(arguments: argparse.Namespace) -> None:
    from ppobook.language.evaluating import evaluate
    from ppobook.language.rewards import RewardModel
    from ppobook.run.machine import threads

    with threads(arguments.num_threads):
        run = _run_in(arguments.model, arguments.device)
        if run is not None and isinstance(run.model, RewardModel):
            data = _data(arguments, [Policy(arguments.model, run.model, run.tokenizer, run)])
            told_of_judge(run, data, others=arguments.data is not None)
            return
        policy = _policy("model", arguments.model, arguments)
        data = _data(arguments, [policy])
        found = evaluate(
            policy.model,
            data,
            tokenizer=policy.tokenizer,
            n=arguments.n,
            **_others(arguments, [policy]),
            **_how(arguments),
        )
    print(f"{arguments.model}: {arguments.n} completions, seed {arguments.seed}")
    for name, x in found.numbers.items():
        print(f"{name:<14}{x:8.3f}")
    if arguments.samples:
        print(f"\n{lines(found, arguments.samples, arguments.seed)}")


def print_comparison(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from ppobook.language.evaluating import evaluate
    from ppobook.run.machine import threads

    names = dict.fromkeys(arguments.models)
    policies = [_policy("model", name, arguments) for name in names]
    with threads(arguments.num_threads):
        data = _data(arguments, policies)
        how = {"n": arguments.n, **_others(arguments, policies), **_how(arguments)}
        found = {
            policy.name: evaluate(policy.model, data, tokenizer=policy.tokenizer, **how)
            for policy in policies
        }
    print(as_table(pd.DataFrame({name: one.numbers for name, one in found.items()}).T))
    for name, one in found.items():
        if arguments.samples:
            print(f"\n{name}\n{lines(one, arguments.samples, arguments.seed, indent='  ')}")


def print_best_of_n(arguments: argparse.Namespace) -> None:
    from ppobook.language.best_of_n import best_of_n_curve
    from ppobook.language.data import prompts_of
    from ppobook.language.evaluating import evaluate
    from ppobook.language.records import records_of
    from ppobook.language.world import World
    from ppobook.run.machine import threads

    most = max(arguments.n)
    draws = 2 * most if arguments.draws is None else arguments.draws
    if draws < most:
        raise ValueError(f"--draws {draws}: of n={most} at least {most} draws of each prompt are wanted")
    with threads(arguments.num_threads):
        policy = _policy("model", arguments.model, arguments)
        data = _data(arguments, [policy])
        if not isinstance(data, World):
            data = list(records_of(data).rows[: arguments.prompts])
        judge = None if arguments.judge == "gold" else _judge("judge", arguments.judge, [policy])
        if judge is None and not isinstance(data, World):
            raise ValueError(
                "--judge gold: the data are no World, and only a World has a true reward; a run of 'reward', "
                "or MODULE:FUNCTION, is wanted"
            )
        prompts = len(prompts_of(data, policy.tokenizer))
        # Prompts are taken in turn, so that the draws of one of them are this far apart.
        found = evaluate(
            policy.model,
            data,
            reward_model=judge,
            n=prompts * draws,
            tokenizer=policy.tokenizer,
            **_how(arguments),
        )
    by = {"gold": found.gold, "reward": found.reward}
    known = {name: x.view(draws, prompts).T for name, x in by.items() if x is not None}
    chosen = "gold" if judge is None else "reward"
    score = known.pop(chosen)
    curve = best_of_n_curve(score, arguments.n, known).rename(columns={"score": chosen})
    print(f"{arguments.model}: best of n by {arguments.judge}, {draws} draws of {prompts} prompts")
    print(as_table(curve, names=False))
    best = score[:, :most].argmax(dim=1)
    rows = [int(best[p]) * prompts + p for p in range(prompts)]
    if arguments.samples:
        print(f"\nbest of {most}\n{lines(_part(found, rows), arguments.samples, arguments.seed, '  ')}")


class Policy(NamedTuple):
    """A model that can be asked to write."""

    name: str
    model: Any
    tokenizer: Any
    run: Run | None
    device: str = "cpu"


def _policy(option: str, name: str, arguments: argparse.Namespace) -> Policy:
    """The language model in a run's folder, or a transformers model."""
    from ppobook.language.opening import open_model
    from ppobook.language.rewards import RewardModel
    from ppobook.run.machine import checked_device

    hush()
    device = checked_device(arguments.device)
    tokenizer = arguments.tokenizer if option == "model" else None
    run = _run_in(name, device)
    if run is None:
        refuse_nowhere(option, name)
        how = {} if arguments.dtype is None else {"dtype": arguments.dtype}
        model, tokenizer = open_model(name, tokenizer, None, how=how)
        return Policy(name, model.to(device), tokenizer, None, device)
    if isinstance(run.model, RewardModel):
        raise ValueError(f"{option} is {name!r}, a reward model; a language model is wanted")
    if tokenizer is not None:
        raise ValueError(f"--tokenizer {tokenizer}: the run {name!r} has its own; wanted: leave it out")
    if arguments.dtype is not None:
        raise ValueError(f"--dtype {arguments.dtype}: the run {name!r} has its own; wanted: leave it out")
    return Policy(name, run.model, run.tokenizer, run, device)


def hush(quiet: bool = False) -> None:
    """Where nobody watches, transformers draws no bars either; said before it is imported."""
    if quiet or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def _run_in(name: str, device: str = "cpu") -> Run | None:
    from ppobook.language.run import load
    from ppobook.run.folder import is_run

    return load(name, device) if is_run(name) else None


def _judge(option: str, name: str, policies: Sequence[Policy]) -> Any:
    """The reward model in a run's folder, or one of transformers, for what these policies write; or the
    function that the user means."""
    from ppobook.language.opening import refuse_other_vocabulary, refuse_other_words
    from ppobook.language.rewards import RewardModel

    if names_function(name):
        return function_of(name)
    first, *others = policies
    run = _run_in(name, first.device)
    if run is None:
        refuse_nowhere(option, name, kind="a run of 'reward', MODULE:FUNCTION")
        from ppobook.language import hf

        judge = hf.open_reward_model(name, first.tokenizer).to(first.device)
    elif not isinstance(run.model, RewardModel):
        raise ValueError(f"{option} is {name!r}, a run of {run.config['stage']!r}; one of 'reward' is wanted")
    else:
        judge = run.model
        refuse_other_words(option, run.tokenizer, first.tokenizer)
    for policy in policies:
        refuse_other_vocabulary("reward", judge, policy.model)
    for policy in others:
        refuse_other_words(f"model {policy.name!r}", policy.tokenizer, first.tokenizer)
    return judge


def _others(arguments: argparse.Namespace, policies: Sequence[Policy]) -> dict[str, Any]:
    """What judges these policies, and the reference that they are measured with; each is opened once."""
    from ppobook.language.opening import refuse_other_words

    found: dict[str, Any] = {}
    if arguments.judge is not None:
        found["reward_model"] = _judge("judge", arguments.judge, policies)
    if arguments.reference is not None:
        reference = _policy("reference", arguments.reference, arguments)
        for policy in policies:
            refuse_other_words("reference", reference.tokenizer, policy.tokenizer)
        found["reference"] = reference.model
    return found


def names_function(name: Any) -> bool:
    """Whether this is MODULE:FUNCTION, and not something that lies here."""
    return isinstance(name, str) and ":" in name and not Path(name).exists()


def function_of(name: str) -> Any:
    """The reward function that the user means by my_module:short."""
    see_here(name)
    found = imported(name, "a function of prompts and completions", "short")
    if not callable(found):
        raise ValueError(f"{name!r} is of type {type(found).__name__}; a function is wanted")
    return found


def _how(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("temperature", "top_k", "top_p", "seed", "max_new_tokens")
    return {name: getattr(arguments, name) for name in names}


def written(policy: Policy, data: Any, n: int, judge: Any = None, **how: Any) -> Evaluation:
    """So many completions that some n of them are of different prompts, if there are as many."""
    from ppobook.language.evaluating import evaluate
    from ppobook.language.world import World

    if isinstance(data, World):
        n = max(n, len(data.prompts))
    opened = _judge("reward", judge, [policy]) if isinstance(judge, str) else judge
    return evaluate(policy.model, data, reward_model=opened, n=n, tokenizer=policy.tokenizer, **how)


def lines(found: Evaluation, n: int, seed: int = 0, indent: str = "") -> str:
    """n completions as text. A world's prompts stand in order: the first ones all speak of one animal."""
    import numpy as np

    rows = np.random.default_rng(seed).permutation(len(found.texts))[:n]
    return "\n".join(indent + _in_one_line(_part(found, [int(row)]).samples(1)) for row in sorted(rows))


def _in_one_line(text: str) -> str:
    """A text without what would break a line, or tell a terminal to do something: a new line as \\n."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _part(found: Evaluation, rows: list[int]) -> Evaluation:
    """Some of the completions of an evaluation."""
    from dataclasses import replace

    import torch

    return replace(
        found,
        completions=found.completions.select(torch.tensor(rows)),
        prompts=[found.prompts[row] for row in rows],
        texts=[found.texts[row] for row in rows],
        gold=None if found.gold is None else found.gold[rows],
        reward=None if found.reward is None else found.reward[rows],
    )


def as_table(table: Any, names: bool = True) -> str:
    # Rounded first: a KL of −1e-9 is not "-0.000".
    text: str = table.to_string(index=names, na_rep="-", float_format=lambda x: f"{round(x, 3) + 0.0:.3f}")
    return text


# ------------------------------------------------------------------------------------- a reward model


def print_ladder(arguments: argparse.Namespace) -> None:
    from ppobook.language.opening import refuse_other_words
    from ppobook.language.rewards import RewardModel
    from ppobook.run.machine import threads

    run = _run_in(arguments.model, arguments.device)
    if run is None or not isinstance(run.model, RewardModel):
        what = "no folder of a run" if run is None else f"a run of {run.config['stage']!r}"
        raise ValueError(f"RUN is {arguments.model!r}, {what}; one of 'reward' is wanted")
    world = run.world if arguments.world is None else world_of(arguments.world)
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
    return f"{as_table(rungs, names=False)}\nwith {top} kind words: {example.iloc[-1]}"


def told_of_judge(run: Run, data: Any, others: bool = False) -> None:
    """How often a reward model is right, how sure it is, and what it says of more and more kind words.

    `others`: the data are not those of the run, and are pairs to be judged, all of them.
    """
    from ppobook.language.data import pairs_of
    from ppobook.language.reward import calibration, calibration_error, held_out
    from ppobook.language.world import World

    if others:
        pairs: Pairs | None = pairs_of(data, run.tokenizer, max_length=run.model.body.context)
    else:
        pairs = held_out(run, data)
    if pairs is None:
        print("\nno pairs were held out")
    else:
        table = calibration(run.model, pairs)
        # What a bin has of accuracy, weighted by its pairs.
        accuracy = (table["observed"] * table["pairs"]).sum() / table["pairs"].sum()
        print(f"\n{len(pairs)} pairs{'' if others else ' held out'}: accuracy {accuracy:.3f}", end=", ")
        print(f"calibration error {calibration_error(table):.3f}")
        print(as_table(table, names=False))
    if isinstance(data, World):
        print(f"\n{_ladder_of(run, data)}")


# ------------------------------------------------------------------------------------------- for others


def write_for_others(arguments: argparse.Namespace) -> None:
    from ppobook.language import hf
    from ppobook.language.rewards import RewardModel
    from ppobook.language.run import load

    hush()
    run = load(arguments.model)
    if arguments.adapters and "lora" not in run.config:
        raise ValueError(f"--adapters: {arguments.model!r} was trained without --lora; wanted: leave it out")
    folder = str(hf.save_pretrained(run, arguments.folder, merge=not arguments.adapters))
    if arguments.adapters:
        reader = f"peft.PeftModel.from_pretrained(the model it began from, {folder!r})"
    else:
        what = "SequenceClassification" if isinstance(run.model, RewardModel) else "CausalLM"
        reader = f"transformers.AutoModelFor{what}.from_pretrained({folder!r})"
    print(f"saved in {folder}, for {reader}")


# ---------------------------------------------------------------------------------------------------- data


def _data(arguments: argparse.Namespace, policies: Sequence[Policy]) -> Any:
    """What prompts are taken from: what the user names, or what the runs were trained on."""
    from ppobook.language.opening import refuse_other_words
    from ppobook.language.world import World

    refuse_both({name: x for name in ("data", "world") if (x := getattr(arguments, name)) is not None})
    data: Any = None
    if arguments.data is not None:
        data = arguments.data
    elif arguments.world is not None:
        data = world_of(arguments.world)
    else:
        known = [(policy, found) for policy in policies if (found := data_of(policy.run)) is not None]
        for policy, found in known:
            if _said(found) != _said(known[0][1]):
                raise ValueError(
                    f"{known[0][0].name!r} and {policy.name!r} were trained on different data; "
                    "--world or --data, for the prompts, is wanted"
                )
        data = known[0][1] if known else None
    refuse_without_data(data)
    if isinstance(data, World):
        for policy in policies:
            refuse_other_words("data", data.tokenizer, policy.tokenizer)
    return data


def data_of(run: Run | None) -> Any:
    """The world of a run, or its file; None if its data were in memory."""
    if run is None:
        return None
    return run.world if run.world is not None else run.config["data"].get("file")


def _said(data: Any) -> Any:
    return getattr(data, "config", data)


def refuse_without_data(data: Any) -> None:
    if data is None:
        raise ValueError("there are no data to take prompts from; --data FILE or --world SIZES is wanted")


def _refuse_other_data(arguments: argparse.Namespace) -> None:
    for name in ("data", "world"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--prompt and --{name}: one of them is wanted")


def world_of(said: Any) -> World:
    """The world that `nouns=8,places=8` means, or a mapping of a file."""
    import inspect

    from ppobook import validation
    from ppobook.language.world import World

    sizes = sizes_in("world", said)
    known = list(inspect.signature(World).parameters)
    for name in sizes:
        if name not in known:
            hint = validation.did_you_mean(name, known)
            raise ValueError(
                f"world must have sizes of a World, {validation.one_of(known)}, got {name!r}{hint}"
            )
    return World(**sizes)


def sizes_in(option: str, said: Any) -> dict[str, Any]:
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


def refuse_nowhere(option: str, name: Any, kind: str = "a run's folder") -> None:
    """Refuse what is neither here nor something to ask the hub for."""
    from ppobook.run.folder import is_run

    if not isinstance(name, str) or is_run(name):
        return
    path, or_else = Path(name), "or a transformers model, is wanted"
    if path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{option} is {name!r}, a folder without a run in it; {kind}, {or_else}")
    if path.is_dir() and not importlib.util.find_spec("transformers") and (path / "history.csv").exists():
        raise ValueError(f"{option} is {name!r}, a run without a checkpoint; {kind}, {or_else}")
    if not path.exists() and (not importlib.util.find_spec("transformers") or name.startswith((".", "/"))):
        raise ValueError(f"{option} is {name!r}, and there is no such folder; {kind}, {or_else}")


def refuse_both(given: dict[str, Any]) -> None:
    if "data" in given and "world" in given:
        raise ValueError(f"data is {given['data']!r} and world is {given['world']!r}; one of them is wanted")
