"""`ppobook train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ppobook import validation
from ppobook.cli.parsing import (
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
    see_here,
)
from ppobook.presets import PRESETS
from ppobook.settings import SETTINGS
from ppobook.validation import counted


@dataclass(frozen=True)
class TrainOptions(RunOptions):
    """Train a policy, or resume a run: ppobook train ALGORITHM, with vanilla, trpo, ppo or my_module:MyPPO.

    The settings of the algorithm are options too, as in --lr 0.01 --hidden 32,32; ppobook train ALGORITHM
    --help shows them. The command line precedes FILE, FILE the preset of the environment, and the preset the
    defaults.

    Args:
        env: a Gymnasium id, such as CartPole-v1; ppobook envs lists some
        total_steps: environment steps from the start of the run; none: 100,000
    """

    env: str | None = None
    total_steps: int | None = None


def train(words: Sequence[str], prog: str) -> None:
    """Train a policy: read the settings, train, and print what became of it."""
    algorithm = words[0] if words and not words[0].startswith("-") else None
    words = words[algorithm is not None :]
    file, resume = peek(words, "--config"), peek(words, "--resume")
    in_file = {} if file is None else read_file(file)
    named = in_file.pop("algorithm", None)
    if file is not None and algorithm is None:
        refuse_to_import(file, "algorithm", named)
    before = config_of(resume)
    called = algorithm or named or before.get("algorithm")
    if called is None:
        if {"-h", "--help"} & {*words}:
            parse(TrainOptions, words, prog)
        raise ValueError(f"{prog} needs ALGORITHM: {', '.join(SETTINGS)}, or MODULE:CLASS. See {prog} --help")
    learner, kind, presets = _algorithm(called, asked=algorithm is not None)
    prog = f"{prog} {called}" if algorithm else prog
    env = peek(words, "--env") or in_file.get("env")
    preset = presets.get(env or "", {})
    base = made(kind, called, in_file, preset) if resume is None else made(kind, called, before, {})
    options, settings = read(TrainOptions, base, words, prog)
    if options.list:
        print_settings(base, prog)
        for name, values in presets.items():
            print(f"preset of {name}\n    {as_words(values)}")
        return
    kind.make(called, settings, {})
    if file is not None and options.env is None:
        refuse_to_import(file, "env", in_file.get("env"))
    given, settings = filled_up(options, settings, in_file, kind, called)
    if resume is None and "env" not in given:
        raise ValueError(f"{prog} needs --env ID, as in --env CartPole-v1. ppobook envs lists some")
    see_here(given.get("env", before.get("env")))

    from ppobook.run.registry import short_name
    from ppobook.training import train

    updates = options.updates()
    run = train(learner if algorithm or named else None, **options.how(), **given, **settings)
    last = run.history.iloc[-1]
    steps = counted(int(last["steps"]), "step")
    if len(run.history) == updates:
        print(f"nothing to do: {resume} has its {steps}; a larger --total-steps continues it")
        return
    recent = run.history["return_mean"].tail(10).mean()
    print(f"{short_name(run.config['algorithm'])} on {run.config['env']}, seed {run.config['seed']}")
    print(f"{steps}, {counted(int(last['update']), 'update')}, {last['seconds']:.1f} seconds")
    over = counted(min(10, len(run.history)), "update")
    ended = f"{recent:.4g}" if recent == recent else "none, as no episode ended"
    print(f"mean return over the last {over}: {ended}")
    print(options.saved_in(given.get("out")))


def _algorithm(named: str, *, asked: bool) -> tuple[Any, Any, Mapping[str, dict[str, Any]]]:
    """An algorithm's name or class, its class of settings, and its presets."""
    if ":" in named and asked:
        from ppobook.training import ALGORITHMS

        learner = ALGORITHMS.find(imported_class(named, "algorithm", "MyPPO"))
        return learner, learner.settings_class, learner.presets
    if ":" in named:
        raise ValueError(
            f"the run is of algorithm {named!r}: give it again, as in ppobook train {named} --resume …"
        )
    validation.choice("algorithm", named, SETTINGS)
    return named, SETTINGS[named], PRESETS.get(named, {})
