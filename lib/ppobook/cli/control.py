"""`ppobook …` on the command line.

Torch is imported by the commands that need it, after the arguments are read, so that `--help` is quick.
What cannot be used is refused with one sentence and exit code 2.

What is imported is what the user typed: `my_module:MyPPO` for an algorithm of one's own, `my_module:World-v0`
for an environment. A run's folder may name such things, too, and may be a stranger's; so they are asked for.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import ppobook
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
from ppobook.registry import ALGORITHMS, learner_class
from ppobook.training import read_record

# What is wanted where a class of the user's own is named, and an example of a name.
_A_LEARNER = ("a Learner", "MyPPO")

# A module of these that is missing was not installed; any other one is the user's own business.
_DEPENDENCIES = {"gymnasium", "matplotlib", "numpy", "pandas", "scipy", "torch", "tqdm", "yaml"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = [_dashed(word) for word in (sys.argv[1:] if argv is None else argv)]
    parser = _parser(given)
    arguments, rest = parser.parse_known_args(given)
    before = given[: given.index(arguments.command)] if arguments.command else rest
    unknown = [word for word in before if word in rest]
    if unknown:
        parser.error(f"{unknown[0]}: there is no such option")
    if not arguments.command:
        parser.print_help()
        return 0
    try:
        if rest and not arguments.takes_settings:
            raise ValueError(no_such_option(rest[0], arguments.called, arguments.options))
        arguments.rest = rest
        arguments.run(arguments)
    except KeyboardInterrupt as stopped:
        print(f"ppobook: {_in_options(str(stopped)) or 'stopped by Ctrl-C'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at exit
        return 0
    except FloatingPointError as error:
        print(f"ppobook: {error}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        if arguments.traceback:
            raise
        ours = isinstance(error, ModuleNotFoundError) and f"{error.name}".split(".")[0] in _DEPENDENCIES
        remedy = "; it comes with `make lab`, or `pip install -e .` in the book's folder" if ours else ""
        kept = "".join(f"; {_in_options(note)}" for note in getattr(error, "__notes__", []))
        print(f"ppobook: {_in_options(str(error))}{remedy}{kept}", file=sys.stderr)
        return 2
    return 0


def _in_options(message: str) -> str:
    """A sentence of the library, whose resume='folder' is --resume folder here."""
    return re.sub(r"\bresume='([^' ]+)'", r"--resume \1", message)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="ppobook",
        description="The command line of the book Steps You Can Trust.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog="examples:\n"
        "  ppobook train ppo --env CartPole-v1 --seed 0 --total-steps 100000 --out RUN\n"
        "  ppobook train --resume RUN\n"
        "  ppobook evaluate RUN\n"
        "  ppobook doctor RUN\n"
        "  ppobook compare RUN RUN RUN --out comparison.svg\n"
        "  ppobook watch RUN --out episode.gif\n"
        "  ppobook export RUN policy.onnx\n"
        "  ppobook language --help\n",
    )
    parser.add_argument("--version", action="version", version=f"ppobook {ppobook.__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error came from, to report it"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    train = commands.add_parser(
        "train",
        usage="ppobook train [ALGORITHM] [--OPTION ...] [--SETTING VALUE ...]",
        help="train a policy, or go on training one",
        description="Train a policy, or go on training one (--resume).",
        epilog="ALGORITHM is vanilla, trpo or ppo, or a Learner of your own, as my_module:MyPPO. Its "
        "settings are given by name, as in --lr 0.01 --num-envs 4 --hidden 32,32; ppobook train ALGORITHM "
        "--list shows them. What is given here counts before what FILE has, that before the preset of the "
        "environment, and that before the algorithm's defaults. A run's config.json is such a FILE.",
        allow_abbrev=False,
    )
    train.add_argument("--env", help="a Gymnasium id, such as CartPole-v1; ppobook envs lists some")
    train.add_argument("--seed", type=number(0), help="0 if left out")
    train.add_argument(
        "--total-steps", type=number(1), help="environment steps from the start of the run (100000)"
    )
    train.add_argument("--out", metavar="RUN", help="a new folder for the run; without one, nothing is kept")
    train.add_argument(
        "--checkpoint-every", type=number(1), metavar="N", help="updates between checkpoints (10)"
    )
    train.add_argument("--resume", metavar="RUN", help="go on from the last checkpoint in this folder")
    train.add_argument(
        "--config", metavar="FILE", help="YAML: algorithm, env, seed, …, and settings, by name"
    )
    train.add_argument("--device", help="where the networks live (cpu)")
    train.add_argument("--num-threads", type=number(1), metavar="N", help="threads of torch (1)")
    train.add_argument("--tensorboard", action="store_true", help="write TensorBoard events into RUN as well")
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.add_argument("--list", action="store_true", help="list the settings of the algorithm and stop")
    train.set_defaults(run=_train)

    evaluate = commands.add_parser(
        "evaluate",
        help="let a trained policy play, and say how it does",
        description="Let a trained policy play, and say how it does.",
        allow_abbrev=False,
    )
    evaluate.add_argument("folder", metavar="RUN")
    evaluate.add_argument("--episodes", type=number(1), default=100, help="how many (100)")
    evaluate.add_argument("--seed", type=number(0), default=0, help="of the episodes (0)")
    evaluate.add_argument(
        "--deterministic", action="store_true", help="take the most probable action, do not draw"
    )
    _of_a_run(evaluate)
    evaluate.set_defaults(run=_evaluate)

    doctor = commands.add_parser(
        "doctor",
        help="say what goes wrong in a run, with the evidence",
        description="Read a run's history, and say which of the usual diseases it shows: with the updates "
        "and numbers that show it, what usually causes it, and what to try. Exit code 0, whatever is found.",
        allow_abbrev=False,
    )
    doctor.add_argument("folder", metavar="RUN")
    doctor.set_defaults(run=_doctor)

    compare = commands.add_parser(
        "compare",
        help="put runs side by side, with intervals over their seeds",
        description="Group runs by algorithm, environment and settings, and sum up each group over its "
        "seeds: the mean over the last tenth of the steps, with a 95 % interval from a bootstrap.",
        epilog="With few seeds such an interval is too narrow; with one there is none.",
        allow_abbrev=False,
    )
    compare.add_argument("folders", metavar="RUN", nargs="+")
    compare.add_argument("--metric", default="return_mean", help="a column of the histories (return_mean)")
    compare.add_argument("--out", metavar="FILE", help="also draw the curves: .svg, .png or .pdf")
    compare.set_defaults(run=_compare)

    watch = commands.add_parser(
        "watch",
        help="film a trained policy",
        description="Let a trained policy play, as evaluate does with the same seed, and film it.",
        allow_abbrev=False,
    )
    watch.add_argument("folder", metavar="RUN")
    watch.add_argument("--out", metavar="FILE", required=True, help="the film: .gif or .mp4")
    watch.add_argument("--episodes", type=number(1), default=1, help="how many (1)")
    watch.add_argument("--seed", type=number(0), default=0, help="of the episodes (0)")
    watch.add_argument("--fps", type=float, help="frames a second; what the environment says, if left out")
    watch.add_argument(
        "--deterministic", action="store_true", help="take the most probable action, do not draw"
    )
    _of_a_run(watch)
    watch.set_defaults(run=_watch)

    export = commands.add_parser(
        "export",
        help="write a trained policy as ONNX",
        description="Write a trained policy as ONNX, after a trial in onnxruntime. It takes a batch of "
        '"observations" and gives the most probable "action", and "logits", or "mean" and "std".',
        allow_abbrev=False,
    )
    export.add_argument("folder", metavar="RUN")
    export.add_argument("file", metavar="FILE.onnx")
    _of_a_run(export)
    export.set_defaults(run=_export)

    envs = commands.add_parser("envs", help="list the environments that can be trained on")
    envs.set_defaults(run=_envs)

    work = commands.add_parser("work", help="put your own copies of chapters and exercises into a folder")
    work.add_argument(
        "folder", nargs="?", default="work", help="work, if left out; your answers there are never touched"
    )
    work.set_defaults(run=_work)

    reset = commands.add_parser("reset", help="start one exercise over, keeping what you wrote in a backup")
    reset.add_argument("name", help="of the exercise, as its check has it: reset pg-loss")
    reset.add_argument("--folder", default="work", help="where your copies are (work)")
    reset.set_defaults(run=_reset)
    for command in (train, evaluate, doctor, compare, watch, export, envs, work, reset):
        remember(command, takes_settings=command is train)

    about = "train a small language model, reward it, and read what it says"
    language = commands.add_parser("language", help=about, allow_abbrev=False)
    if "language" in given:  # it has many commands, which nobody else should wait for
        from ppobook.cli.language import add_commands

        add_commands(language, about)
    return parser


def _of_a_run(command: argparse.ArgumentParser) -> None:
    """The options that say what a run's folder may not decide alone."""
    command.add_argument(
        "--learner", metavar="MODULE:CLASS", help="for a run of a Learner of your own: its class"
    )
    command.add_argument(
        "--env", help="another environment, or one of your own, as MODULE:ID (the run's, if left out)"
    )


def _train(arguments: argparse.Namespace) -> None:
    from ppobook.registry import learner_class
    from ppobook.run.registry import short_name
    from ppobook.training import train

    words, settings = settings_in(arguments.rest)
    algorithm = words[0] if words else None
    given = {name: value for name in _ASKED if (value := getattr(arguments, name)) is not None}
    if arguments.config is not None:
        if arguments.resume is not None:
            raise ValueError(
                f"--config {arguments.config}: a resumed run keeps its settings; wanted: leave it out"
            )
        written = written_in(arguments.config)
        named = {"algorithm": written.pop("algorithm", None), "env": written.get("env")}
        for name, typed in (("algorithm", algorithm), ("env", given.get("env"))):
            if typed is None and isinstance(named[name], str) and ":" in named[name]:
                raise ValueError(
                    f"config={arguments.config!r} has the {name} {named[name]!r}, and a module that a file "
                    f"names is not imported unasked; wanted: {named[name]} on the command line"
                )
        algorithm = named["algorithm"] if algorithm is None else algorithm
        given = {name: written.pop(name) for name in _ASKED if name in written} | given
        settings = written | settings
    see_here(algorithm, given.get("env"))
    kind = algorithm
    if isinstance(algorithm, str) and ":" in algorithm:
        kind = imported_class(algorithm, *_A_LEARNER)
    if arguments.list:
        learner = learner_class(kind)
        list_settings(learner.settings_class, {f"preset of {env}": x for env, x in learner.presets.items()})
        return
    known = _known(kind, arguments.resume) if settings else set()
    for name in settings:
        if name not in known and arguments.config is not None and name in written:
            raise ValueError(
                f"config={arguments.config!r} has {name!r}, which is no setting of {_called(algorithm)}; "
                f"{hint_of(name, [*known, *_ASKED, 'algorithm'])}"
                f"ppobook train {_called(algorithm)} --list shows what there is"
            )
        if name not in known:
            options = arguments.options + [f"--{one.replace('_', '-')}" for one in sorted(known)]
            raise ValueError(no_such_option(f"--{name.replace('_', '-')}", "train", options))
    run = train(
        kind,
        resume=arguments.resume,
        progress=False if arguments.quiet else None,
        tensorboard=arguments.tensorboard,
        **given,
        **settings,
    )
    last = run.history.iloc[-1]
    asked = given.get("total_steps")
    if arguments.resume is not None and asked is not None and (run.history["steps"] >= asked).sum() > 1:
        print(f"the run was past {asked:,} steps already: nothing was trained")
    recent = run.history["return_mean"].tail(10).mean()
    folder = arguments.resume or given.get("out")
    print(f"{short_name(run.config['algorithm'])} on {run.config['env']}, seed {run.config['seed']}")
    print(f"{last['steps']:,.0f} steps, {counted(int(last['update']))}, {last['seconds']:.1f} seconds")
    print(f"mean return over the last {counted(min(10, len(run.history)))}: {recent:.4g}")
    print(f"saved in {folder}" if folder else "not saved: --out was not given")


# What a file may say beside the algorithm and its settings; all of them are options too.
_ASKED = ("env", "seed", "total_steps", "out", "checkpoint_every", "device", "num_threads")


def _called(algorithm: Any) -> str:
    return algorithm if isinstance(algorithm, str) else "ALGORITHM"


def _known(kind: Any, resume: str | None) -> set[str]:
    """The names of the settings that may be given."""
    if kind is None and resume is not None:
        return set(read_record(resume, "resume").config)
    names = ALGORITHMS if kind is None else (kind,)
    return {name for a in names for name in learner_class(a).settings_class.__dataclass_fields__}


def _run(arguments: argparse.Namespace) -> Any:
    """The run in a folder, with the class that the user named, if it needs one."""
    from ppobook.training import load

    named = arguments.learner
    if named is not None and ":" not in named:
        raise ValueError(f"--learner {named}: a class is wanted, as in my_module:MyPPO")
    see_here(named)
    try:
        return load(arguments.folder, learner=None if named is None else imported_class(named, *_A_LEARNER))
    except ValueError as error:
        message, hint, _ = str(error).partition(": pass learner=")
        if named is None and hint:
            raise ValueError(f"{message}: pass --learner MODULE:CLASS") from None
        raise


def _world(arguments: argparse.Namespace, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The environment to play in, and its keyword arguments."""
    env = arguments.env
    if env is None:
        env = config["env"]
        if ":" in env:
            raise ValueError(
                f"the environment of {arguments.folder!r} is {env!r}, and a module that a run names is not "
                f"imported unasked; wanted: --env {env}"
            )
    see_here(env)
    return env, config["env_kwargs"] if env == config["env"] else {}


def _evaluate(arguments: argparse.Namespace) -> None:
    from ppobook.envs import make_env
    from ppobook.evaluation import evaluate
    from ppobook.run.machine import threads
    from ppobook.run.registry import short_name

    run = _run(arguments)
    env, settings = _world(arguments, run.config)
    episodes, seed = arguments.episodes, arguments.seed
    side_by_side = max(1, min(episodes, 32))
    with threads(1):
        envs = make_env(env, side_by_side, **settings)
        found = evaluate(run.policy, envs, episodes, seed, deterministic=arguments.deterministic)
    steps = run.history["steps"].iloc[-1] if len(run.history) else 0
    mean, std, low, high = (found[name] for name in ("mean", "std", "min", "max"))
    print(f"{short_name(run.config['algorithm'])} on {env}, trained for {steps:,} steps")
    print(f"{episodes} episodes{', greedy' if arguments.deterministic else ''}, seed {seed}")
    print(f"return: mean {mean:.2f}, std {std:.2f}, min {low:g}, max {high:g}")


def _doctor(arguments: argparse.Namespace) -> None:
    from gymnasium import spaces

    from ppobook.analysis.doctor import examine
    from ppobook.run.registry import short_name
    from ppobook.training import read_record

    record = read_record(arguments.folder)
    config, updates = record.config, len(record.history)
    print(f"{short_name(config['algorithm'])} on {config['env']}, seed {config['seed']}, {counted(updates)}")
    actions = record.action_space
    dims = spaces.flatdim(actions) if isinstance(actions, spaces.Box) else 0
    findings = examine(record.history, config, action_dims=dims) if updates else []
    for found in findings:
        print(f"\n{found.name}")
        for what, said in (("seen", found.evidence), ("causes", found.causes), ("try", found.remedy)):
            print(_indented(f"{what}: ", said))
    if not findings:
        print("nothing found")


def _indented(head: str, said: str) -> str:
    import textwrap

    return textwrap.fill(
        said, 100, initial_indent=f"  {head:<8}", subsequent_indent=" " * 10, break_long_words=False
    )


def _compare(arguments: argparse.Namespace) -> None:
    from ppobook.analysis.compare import compare, picture

    if arguments.out is not None:
        picture("out", arguments.out)
    found = compare(arguments.folders, arguments.metric)
    print(found.table.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.4g}"))
    if arguments.out is not None:
        print(f"drawn in {found.plot(arguments.out)}")


def _watch(arguments: argparse.Namespace) -> None:
    from ppobook.analysis.watch import watch
    from ppobook.run.machine import threads

    run = _run(arguments)
    env, settings = _world(arguments, run.config)
    with threads(1):
        found = watch(
            run.policy,
            env,
            arguments.out,
            episodes=arguments.episodes,
            seed=arguments.seed,
            deterministic=arguments.deterministic,
            fps=arguments.fps,
            **settings,
        )
    for earned, length in zip(found["returns"], found["lengths"], strict=True):
        print(f"return {earned:g} in {length} steps")
    print(f"filmed in {arguments.out}")


def _export(arguments: argparse.Namespace) -> None:
    from ppobook.analysis.export import export_onnx, says_what_it_observes
    from ppobook.envs import make_env
    from ppobook.rollouts import Collector
    from ppobook.run.machine import threads

    run = _run(arguments)
    with threads(1):
        seen = None
        if arguments.env is not None or not says_what_it_observes(run.policy):
            env, settings = _world(arguments, run.config)
            played = Collector(make_env(env, 4, **settings), run.policy, seed=0).collect(64)
            seen = played.observations.flatten(0, 1)
        found = export_onnx(run.policy, arguments.file, observations=seen)
    print(f"observations to {', '.join(found.outputs)}, in {found.path}")
    print(f"onnxruntime and torch differ by {found.largest_difference:.1e} at most")


def _envs(arguments: argparse.Namespace) -> None:
    from ppobook.envs import list_envs

    print(list_envs().to_string(index=False, na_rep="none"))


def _work(arguments: argparse.Namespace) -> None:
    from ppobook.teaching.workspace import sync

    sync(arguments.folder)


def _reset(arguments: argparse.Namespace) -> None:
    from ppobook.teaching.workspace import reset

    reset(arguments.name, arguments.folder)


def _dashed(word: str) -> str:
    """`--total_steps=100` as `--total-steps=100`: both spellings are meant."""
    name, given, value = word.partition("=")
    return name.replace("_", "-") + given + value if word.startswith("--") else word


if __name__ == "__main__":
    sys.exit(main())
