"""`ppobook train`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from ppobook import validation
from ppobook.cli.options import Default, as_words, first_word, print_settings, read
from ppobook.cli.users import (
    OF_TRAINING,
    Training,
    imported_class,
    merged,
    read_settings,
    refuse_to_import,
    see_here,
)
from ppobook.presets import PRESETS
from ppobook.run.settings import Settings
from ppobook.settings import SETTINGS
from ppobook.validation import counted

# What a file may have besides the settings.
ARGUMENTS = ("env", "total_steps", *OF_TRAINING)


def arguments(
    algorithm: Annotated[str | None, tyro.conf.arg(metavar="ALGORITHM")] = None,
    /,
    *,
    env: str | None = None,
    total_steps: Any = Default(100_000),  # noqa: B008 - a Default is never changed
    training: Annotated[Training, tyro.conf.arg(name="")],
) -> None:
    """Train a policy, or resume a run.

    The settings of the algorithm are options too, as in --lr 0.01 --hidden 32,32; ppobook train ALGORITHM
    --help shows them. The command line precedes FILE, FILE the preset of the environment, and the preset the
    defaults.

    Args:
        algorithm: vanilla, trpo, ppo, or a Learner of your own, as my_module:MyPPO
        env: a Gymnasium id, such as CartPole-v1; ppobook envs lists some
        total_steps: environment steps from the start of the run
    """


def train(words: Sequence[str], prog: str) -> None:
    """Run the command."""
    algorithm = first_word(arguments, words)
    presets: dict[str, dict[str, Any]] = PRESETS.get(algorithm or "", {})
    kinds: list[type[Settings]] = [SETTINGS[algorithm]] if algorithm in SETTINGS else [*SETTINGS.values()]
    learner: Any = algorithm
    if algorithm is not None and ":" in algorithm:
        learner = imported_class(algorithm, "algorithm", "MyPPO")
        if isinstance(getattr(learner, "settings_class", None), type):
            kinds, presets = [learner.settings_class], learner.presets
    elif algorithm is not None:
        validation.choice("algorithm", algorithm, SETTINGS)
    preset = next((presets.get(b, {}) for a, b in itertools.pairwise(words) if a == "--env"), {})
    shown = kinds[:1] if algorithm is not None else ()
    _, options, settings = read(arguments, words, prog, kinds, preset, shown=shown)
    training: Training = options["training"]
    if training.list:
        print_settings(kinds[0], preset, prog)
        for env, values in presets.items():
            print(f"preset of {env}\n    {as_words(values)}")
        return
    given = {name: x for name in ("env", "total_steps") if (x := options[name]) is not None}
    given = {name: x for name, x in given.items() if not isinstance(x, Default)} | training.given()
    file = training.file()
    if file is not None:
        in_file = read_settings(file)
        named = in_file.pop("algorithm", None)
        if algorithm is None:
            refuse_to_import(file, "algorithm", named)
            learner = algorithm = named
            kinds = [SETTINGS[named]] if named in SETTINGS else kinds
        if "env" not in given:
            refuse_to_import(file, "env", in_file.get("env"))
        known = {name for kind in kinds for name in kind.__dataclass_fields__}
        given, settings = merged(file, in_file, given, settings, ARGUMENTS, known, algorithm)
    see_here(given.get("env"))

    from ppobook.run.registry import short_name
    from ppobook.training import train

    run = train(learner, **training.how(), **given, **settings)
    last = run.history.iloc[-1]
    asked = given.get("total_steps")
    if training.resume is not None and asked is not None and (run.history["steps"] >= asked).sum() > 1:
        print(f"the run was past {asked:,} steps already: nothing was trained")
    recent = run.history["return_mean"].tail(10).mean()
    print(f"{short_name(run.config['algorithm'])} on {run.config['env']}, seed {run.config['seed']}")
    length = f"{counted(int(last['steps']), 'step')}, {counted(int(last['update']), 'update')}"
    print(f"{length}, {last['seconds']:.1f} seconds")
    print(f"mean return over the last {counted(min(10, len(run.history)), 'update')}: {recent:.4g}")
    print(training.saved_in(given.get("out")))
