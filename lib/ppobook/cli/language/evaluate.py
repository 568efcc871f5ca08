"""`ppobook language sample`, `evaluate`, `compare`, `best_of_n`, `ladder` and `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ppobook.cli.language.models import (
    Generation,
    Measures,
    measured,
    open_data,
    open_models,
    open_reward,
    world_of,
)
from ppobook.cli.parsing import Run, command

if TYPE_CHECKING:
    from ppobook.language.evaluating import Evaluation
    from ppobook.language.opening import Policy
    from ppobook.language.world import World

Model = Annotated[str, tyro.conf.arg(metavar="MODEL")]


@command
def sample(
    model: Model,
    /,
    *,
    n: int = 5,
    prompt: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    how: Generation = Generation(),  # noqa: B008 - frozen
) -> None:
    """Print completions of a model.

    Args:
        model: a run's folder, or a transformers model
        n: number of completions
        prompt: a prompt, instead of those of the data; may be repeated
    """
    from ppobook.language.records import Records
    from ppobook.run.machine import threads

    (policy,) = open_models([model], how)
    with threads(how.num_threads):
        typed = Records([{"prompt": one} for one in prompt], "--prompt")
        data: Any = typed if prompt else open_data(how, [policy])
        print(samples(completions_of(policy, data, n, **how.sampling()), n, how.seed))


@command
def evaluate(
    model: Model,
    /,
    *,
    by: Measures = Measures(),  # noqa: B008 - frozen
    samples: int = 3,
    how: Generation = Generation(),  # noqa: B008 - frozen
) -> None:
    """Evaluate a language model; or a reward model, on held-out pairs.

    Args:
        model: a run's folder, or a transformers model
        samples: completions to print
    """
    from ppobook.language.opening import Policy, run_given
    from ppobook.language.rewards import RewardModel
    from ppobook.run.machine import threads

    with threads(how.num_threads):
        run = run_given("model", model, how.device)
        if run is not None and isinstance(run.model, RewardModel):
            data = open_data(how, [Policy(model, run.model, run.tokenizer, run)])
            print_ranking(run, data, all_pairs=how.data is not None)
            return
        (policy,) = open_models([model], how)
        (found,) = measured([policy], by, how).values()
    print(f"{model}: {by.n} completions, seed {how.seed}")
    for name, x in found.numbers.items():
        print(f"{name:<14}{x:8.3f}")
    _print_samples(found, samples, how.seed)


@command
def compare(
    models: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL …")],
    /,
    *,
    by: Measures = Measures(),  # noqa: B008 - frozen
    samples: int = 2,
    how: Generation = Generation(),  # noqa: B008 - frozen
) -> None:
    """Compare models on the same prompts: a table, and samples of each.

    Args:
        models: runs' folders, or transformers models
        samples: completions of each model to print
    """
    import pandas as pd

    from ppobook.run.machine import threads

    with threads(how.num_threads):
        found = measured(open_models(models, how), by, how)
    print(as_table(pd.DataFrame({name: one.numbers for name, one in found.items()}).T))
    for name, one in found.items():
        _print_samples(one, samples, how.seed, title=f"{name}\n")


@command
def best_of_n(
    model: Model,
    /,
    *,
    reward_model: Model = "gold",
    n: tuple[int, ...] = (1, 4, 16),
    draws: int | None = None,
    prompts: int = 64,
    samples: int = 3,
    how: Generation = Generation(),  # noqa: B008 - frozen
) -> None:
    """Sample n completions of each prompt and keep the best, for several n.

    Prints the mean reward of the best, over all ways to choose n of the completions drawn, and its KL
    divergence from the model.

    Args:
        model: a run's folder, or a transformers model
        reward_model: a run of 'reward', MODULE:FUNCTION, or gold
        n: several n
        draws: completions of each prompt; if left out, twice the largest n
        prompts: number of prompts of a file, at most
        samples: completions to print
    """
    import torch

    from ppobook.language.best_of_n import best_of_n_curve
    from ppobook.language.data import prompts_of
    from ppobook.language.evaluating import evaluate
    from ppobook.language.records import records_of
    from ppobook.language.world import World
    from ppobook.run.machine import threads

    draws = 2 * max(n) if draws is None else draws
    with threads(how.num_threads):
        (policy,) = open_models([model], how)
        data = open_data(how, [policy])
        if not isinstance(data, World):
            data = list(records_of(data).rows[:prompts])
        others = {} if reward_model == "gold" else {"reward_model": open_reward(reward_model, [policy])}
        count = len(prompts_of(data, policy.tokenizer))
        others |= {"n": count * draws, "tokenizer": policy.tokenizer, **how.sampling()}
        found = evaluate(policy.model, data, **others)
    # Prompts are taken in turn, so the draws of one prompt are `count` rows apart.
    by = {"gold": found.gold, "reward": found.reward}
    known = {name: x.view(draws, count).T for name, x in by.items() if x is not None}
    chosen = "gold" if reward_model == "gold" else "reward"
    score = known.pop(chosen)
    curve = best_of_n_curve(score, n, known).rename(columns={"score": chosen})
    print(f"{model}: best of n by {reward_model}, {draws} draws of {count} prompts")
    print(as_table(curve, names=False))
    best = score[:, : max(n)].argmax(dim=1) * count + torch.arange(count)
    _print_samples(found, samples, how.seed, f"best of {max(n)}\n", best.tolist())


@command
def ladder(model: Run, /, *, world: str | None = None, top: int | None = None) -> None:
    """Print a reward model's rewards of texts with more and more kind words, beside their gold reward.

    Args:
        model: a run of 'reward'
        world: a World, if the reward model was trained on data of yours
        top: largest number of kind words; if left out, 6 or what fits
    """
    from ppobook.language.opening import check_same_words
    from ppobook.language.rewards import RewardModel
    from ppobook.language.run import load
    from ppobook.run.machine import threads

    run = load(model)
    if not isinstance(run.model, RewardModel):
        raise ValueError(f"RUN must be a run of 'reward', got {model!r}, a run of {run.config['stage']!r}")
    found = run.world if world is None else world_of(world)
    if found is None:
        raise ValueError(f"{model!r} was not trained on a World: give --world with its words")
    check_same_words("world", found.tokenizer, run.tokenizer)
    with threads(1):
        print(_ladder(run, found, top))


@command
def export(
    model: Run,
    folder: Annotated[str, tyro.conf.arg(metavar="FOLDER")],
    /,
    *,
    adapters: bool = False,
) -> None:
    """Export a model and its tokenizer for transformers' from_pretrained.

    A model that came from transformers keeps its architecture; one of ours becomes GPT-2.

    Args:
        model: the run
        folder: a new folder
        adapters: of a run with LoRA, only its adapters, for peft
    """
    from ppobook.language import hf
    from ppobook.language.opening import no_progress_bars
    from ppobook.language.rewards import RewardModel
    from ppobook.language.run import load

    no_progress_bars()
    run = load(model)
    folder = str(hf.save_pretrained(run, folder, merge=not adapters))
    if adapters:
        reader = f"peft.PeftModel.from_pretrained(the model it began from, {folder!r})"
    else:
        what = "SequenceClassification" if isinstance(run.model, RewardModel) else "CausalLM"
        reader = f"transformers.AutoModelFor{what}.from_pretrained({folder!r})"
    print(f"saved in {folder}, for {reader}")


def completions_of(policy: Policy, data: Any, n: int, **how: Any) -> Evaluation:
    """An evaluation with n completions of different prompts, if there are as many prompts."""
    from ppobook.language.evaluating import evaluate
    from ppobook.language.world import World

    if isinstance(data, World):
        n = max(n, len(data.prompts))
    return evaluate(policy.model, data, n=n, tokenizer=policy.tokenizer, **how)


def samples(
    found: Evaluation, n: int, seed: int = 0, indent: str = "", among: list[int] | None = None
) -> str:
    """n random completions as text. (The first prompts of a World all have the same noun.)"""
    import numpy as np

    among = list(range(len(found.texts))) if among is None else among
    chosen = np.random.default_rng(seed).permutation(len(among))[:n]
    return "\n".join(indent + in_one_line(found.line(among[i])) for i in sorted(chosen))


def _print_samples(
    found: Evaluation, n: int, seed: int, title: str = "", among: list[int] | None = None
) -> None:
    if n:
        print(f"\n{title}{samples(found, n, seed, '  ' if title else '', among)}")


def in_one_line(text: str) -> str:
    """A text with control characters and line breaks escaped: a new line as \\n."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def as_table(table: Any, names: bool = True) -> str:
    # Rounded first: a KL of −1e-9 is not "-0.000".
    text: str = table.to_string(index=names, na_rep="-", float_format=lambda x: f"{round(x, 3) + 0.0:.3f}")
    return text


def print_ranking(run: Any, data: Any, *, all_pairs: bool = False) -> None:
    """Print how well a reward model ranks pairs; in a World also its rewards of more and more kind words."""
    from ppobook.language.data import pairs_of
    from ppobook.language.reward import calibration, calibration_error, held_out
    from ppobook.language.world import World

    every = pairs_of(data, run.tokenizer, max_length=run.model.body.context) if all_pairs else None
    pairs = every or held_out(run, data)
    if pairs is None:
        print("\nno pairs were held out")
    else:
        table = calibration(run.model, pairs)
        # The accuracy is the mean of the bins', weighted by their pairs.
        accuracy = (table["observed"] * table["pairs"]).sum() / table["pairs"].sum()
        print(f"\n{len(pairs)} pairs{'' if all_pairs else ' held out'}: accuracy {accuracy:.3f}", end=", ")
        print(f"calibration error {calibration_error(table):.3f}")
        print(as_table(table, names=False))
    if isinstance(data, World):
        print(f"\n{_ladder(run, data)}")


def _ladder(run: Any, world: World, top: int | None = None) -> str:
    from ppobook.language.reward import ladder

    # Two clauses, "and" and the end are 15 tokens; each kind word is one more.
    top = min(6, world.max_new_tokens - 15) if top is None else top
    if top < 1:
        return f"no ladder: texts of two clauses do not fit into {world.max_new_tokens} tokens"
    rungs = ladder(run.model, world, top=top, texts=4, seed=0)
    example = rungs.pop("text")
    return f"{as_table(rungs, names=False)}\nwith {len(rungs) - 1} kind words: {example.iloc[-1]}"
