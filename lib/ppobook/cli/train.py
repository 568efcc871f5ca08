"""`ppobook train`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any

import tyro

from ppobook import validation
from ppobook.cli.options import Default, as_words, first_word, print_settings, read
from ppobook.cli.users import (
    OF_TRAINING,
    Training,
    check_settings,
    imported_class,
    merged,
    read_settings,
    refuse_to_import,
    see_here,
    used_elsewhere,
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
    algorithm, rest = first_word(arguments, words)
    presets: dict[str, dict[str, Any]] = PRESETS.get(algorithm or "", {})
    kinds: list[type[Settings]] = [SETTINGS[algorithm]] if algorithm in SETTINGS else [*SETTINGS.values()]
    learner: Any = algorithm
    if algorithm is not None and ":" in algorithm:
        learner = imported_class(algorithm, "algorithm", "MyPPO")
        from ppobook.registry import learner_class

        kinds, presets = [learner_class(learner).settings_class], learner.presets
    elif algorithm is not None and algorithm not in SETTINGS:
        hint = used_elsewhere(algorithm) or validation.did_you_mean(algorithm, SETTINGS)
        raise ValueError(f"algorithm must be {validation.one_of([*SETTINGS])}, got {algorithm!r}{hint}")
    preset = next((presets.get(b, {}) for a, b in itertools.pairwise(words) if a == "--env"), {})
    called, shown = (prog, ()) if algorithm is None else (f"{prog} {algorithm}", kinds[:1])
    without = () if algorithm is None else ("algorithm",)
    _, options, settings = read(arguments, rest, called, kinds, preset, shown=shown, without=without)
    training: Training = options["training"]
    if training.list:
        steps = options["total_steps"]
        training.refuse_with_list(**settings, total_steps=None if isinstance(steps, Default) else steps)
        if options["env"] is not None:
            from ppobook.envs import env_maker

            see_here(options["env"])
            preset = presets.get(env_maker(options["env"]).name, {})
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
            presets = PRESETS.get(named, {})
        if "env" not in given:
            refuse_to_import(file, "env", in_file.get("env"))
    if training.resume is None and algorithm is None:
        raise ValueError(f"{prog} needs ALGORITHM: {', '.join(SETTINGS)}, or MODULE:CLASS. See {prog} --help")
    if file is not None:
        known = {f.name for kind in kinds for f in fields(kind)}
        given, settings = merged(file, in_file, given, settings, ARGUMENTS, known, algorithm)
    see_here(given.get("env", training.config_before().get("env")))
    if training.resume is None:
        assert algorithm is not None
        if ":" not in algorithm:
            validation.choice("algorithm", algorithm, SETTINGS)
        if given.get("env") is None:
            raise ValueError(
                f"{prog} {algorithm} needs --env ID, as in --env CartPole-v1. ppobook envs lists some"
            )
        from ppobook.envs import env_maker

        preset = presets.get(env_maker(given["env"]).name, {})
        check_settings(kinds[0], algorithm, given, settings, preset)

    from ppobook.run.registry import short_name
    from ppobook.training import train

    before = training.updates()
    run = train(learner, **training.how(given.get("out")), **given, **settings)
    last = run.history.iloc[-1]
    steps = counted(int(last["steps"]), "step")
    if len(run.history) == before:
        print(f"nothing to do: {training.resume} has its {steps}; a larger --total-steps continues it")
        return
    recent = run.history["return_mean"].tail(10).mean()
    print(f"{short_name(run.config['algorithm'])} on {run.config['env']}, seed {run.config['seed']}")
    print(f"{steps}, {counted(int(last['update']), 'update')}, {last['seconds']:.1f} seconds")
    over = counted(min(10, len(run.history)), "update")
    ended = f"{recent:.4g}" if recent == recent else "none, as no episode ended"
    print(f"mean return over the last {over}: {ended}")
    print(training.saved_in(given.get("out")))
