"""`ppobook …` on the command line.

Torch is imported by the commands that need it, after the arguments are read, so that `--help` is quick.
What cannot be used is refused with one sentence and exit code 2.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import ppobook


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence; the usage is a `--help` away."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parser = _parser()
    given = [_dashed(word) for word in (sys.argv[1:] if argv is None else argv)]
    arguments, rest = parser.parse_known_args(given)
    before = given[: given.index(arguments.command)] if arguments.command else rest
    unknown = [word for word in before if word in rest]
    if unknown:
        parser.error(f"{unknown[0]}: there is no such option")
    if not arguments.command:
        parser.print_help()
        return 0
    try:
        if rest and arguments.run is not _train:
            raise ValueError(_no_such_option(rest[0], arguments.command, arguments.options))
        arguments.rest = rest
        arguments.run(arguments)
    except KeyboardInterrupt as stopped:
        print(f"ppobook: {str(stopped) or 'stopped by Ctrl-C'}", file=sys.stderr)
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
        lacks = isinstance(error, ModuleNotFoundError)
        remedy = "; it comes with `make lab`, or `pip install -e .` in the book's folder" if lacks else ""
        print(f"ppobook: {error}{remedy}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ppobook",
        description="The command line of the book Steps You Can Trust.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog="examples:\n"
        "  ppobook train vanilla --env CartPole-v1 --seed 0 --total-steps 100000 --out RUN\n"
        "  ppobook train --resume RUN\n"
        "  ppobook evaluate RUN\n",
    )
    parser.add_argument("--version", action="version", version=f"ppobook {ppobook.__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error came from, to report it"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    train = commands.add_parser(
        "train",
        usage="ppobook train [ALGORITHM] [--OPTION ...] [--SETTING VALUE ...]",
        help="train a policy, or go on training one",
        description="Train a policy, or go on training one (--resume).",
        epilog="ALGORITHM is vanilla. Its settings are given by name, as in --lr 0.01 --num-envs 4 "
        "--hidden 32,32. ppobook train ALGORITHM --list shows them.",
        allow_abbrev=False,
    )
    train.add_argument("--env", help="a Gymnasium id, such as CartPole-v1; ppobook envs lists some")
    train.add_argument("--seed", type=_number(0), help="0 if left out")
    train.add_argument(
        "--total-steps", type=_number(1), help="environment steps from the start of the run (100000)"
    )
    train.add_argument("--out", metavar="RUN", help="a new folder for the run; without one, nothing is kept")
    train.add_argument(
        "--checkpoint-every", type=_number(1), metavar="N", help="updates between checkpoints (10)"
    )
    train.add_argument("--resume", metavar="RUN", help="go on from the last checkpoint in this folder")
    train.add_argument("--device", help="where the networks live (cpu)")
    train.add_argument("--num-threads", type=_number(1), default=1, metavar="N", help="threads of torch (1)")
    train.add_argument("--tensorboard", action="store_true", help="write TensorBoard events into RUN as well")
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.add_argument("--list", action="store_true", help="list the settings of the algorithm and stop")
    train.set_defaults(run=_train)

    evaluate = commands.add_parser("evaluate", help="let a trained policy play, and say how it does")
    evaluate.add_argument("folder", metavar="RUN")
    evaluate.add_argument("--episodes", type=_number(1), default=100, help="how many (100)")
    evaluate.add_argument("--seed", type=_number(0), default=0, help="of the episodes (0)")
    evaluate.add_argument(
        "--deterministic", action="store_true", help="take the most probable action, do not draw"
    )
    evaluate.set_defaults(run=_evaluate)

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
    for command in (train, evaluate, envs, work, reset):
        known = [option for action in command._actions for option in action.option_strings]
        command.set_defaults(options=[option for option in known if option.startswith("--")])
    return parser


def _train(arguments: argparse.Namespace) -> None:
    from ppobook import training

    algorithm, settings = _settings(arguments.rest)
    if arguments.list:
        _list_settings(training.learner_class(algorithm))
        return
    for name in settings:
        known = _known(training, algorithm, arguments.resume)
        if name not in known:
            options = arguments.options + [f"--{one.replace('_', '-')}" for one in sorted(known)]
            raise ValueError(_no_such_option(f"--{name.replace('_', '-')}", "train", options))
    run = training.train(
        algorithm,
        arguments.env,
        arguments.seed,
        arguments.total_steps,
        arguments.out,
        arguments.checkpoint_every,
        arguments.resume,
        arguments.device,
        num_threads=arguments.num_threads,
        progress=False if arguments.quiet else None,
        tensorboard=arguments.tensorboard,
        **settings,
    )
    last = run.history.iloc[-1]
    recent = run.history["return_mean"].tail(10).mean()
    folder = arguments.resume or arguments.out
    print(f"{run.config['algorithm']} on {run.config['env']}, seed {run.config['seed']}")
    print(f"{last['steps']:,.0f} steps, {last['update']:.0f} updates, {last['seconds']:.1f} seconds")
    print(f"mean return over the last {min(10, len(run.history))} updates: {recent:.4g}")
    print(f"saved in {folder}" if folder else "not saved: --out was not given")


def _known(training: Any, algorithm: str | None, resume: str | None) -> set[str]:
    """The names of the settings that may be given."""
    if algorithm is None and resume is not None:
        return set(training.read_record(resume, "resume").config)
    names = training.ALGORITHMS if algorithm is None else (algorithm,)
    return {name for a in names for name in training.learner_class(a).settings_class.__dataclass_fields__}


def _list_settings(learner: Any) -> None:
    from dataclasses import fields

    for f in fields(learner.settings_class):
        default = f.default_factory() if callable(f.default_factory) else f.default
        choices = f.metadata["choices"]
        known = f" ({', '.join(choices)})" if choices else ""
        print(f"--{f.name.replace('_', '-')}\n    {f.metadata['help']}{known}; default {default}")
    for env, preset in learner.presets.items():
        print(f"preset of {env}\n    " + " ".join(f"--{k.replace('_', '-')} {v}" for k, v in preset.items()))


def _evaluate(arguments: argparse.Namespace) -> None:
    from ppobook.envs import make_env
    from ppobook.evaluation import evaluate
    from ppobook.training import load, threads

    run = load(arguments.folder)
    config = run.config
    episodes, seed = arguments.episodes, arguments.seed
    side_by_side = max(1, min(episodes, 32))
    with threads(1):
        envs = make_env(config["env"], side_by_side, **config["env_kwargs"])
        found = evaluate(run.policy, envs, episodes, seed, deterministic=arguments.deterministic)
    steps = run.history["steps"].iloc[-1] if len(run.history) else 0
    mean, std, low, high = (found[name] for name in ("mean", "std", "min", "max"))
    print(f"{config['algorithm']} on {config['env']}, trained for {steps:,} steps")
    print(f"{episodes} episodes{', greedy' if arguments.deterministic else ''}, seed {seed}")
    print(f"return: mean {mean:.2f}, std {std:.2f}, min {low:g}, max {high:g}")


def _envs(arguments: argparse.Namespace) -> None:
    from ppobook.envs import list_envs

    print(list_envs().to_string(index=False, na_rep="none"))


def _work(arguments: argparse.Namespace) -> None:
    from ppobook.teaching.workspace import sync

    sync(arguments.folder)


def _reset(arguments: argparse.Namespace) -> None:
    from ppobook.teaching.workspace import reset

    reset(arguments.name, arguments.folder)


def _number(low: int) -> Callable[[str], int]:
    """A reader of whole numbers of at least `low`, also as 1e5 or 100_000."""

    def read(text: str) -> int:
        number = _literal(text)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if type(number) is not int or number < low:
            raise argparse.ArgumentTypeError(f"it is {text!r}; a whole number of at least {low} is wanted")
        return number

    return read


def _dashed(word: str) -> str:
    """`--total_steps=100` as `--total-steps=100`: both spellings are meant."""
    name, given, value = word.partition("=")
    return name.replace("_", "-") + given + value if word.startswith("--") else word


def _no_such_option(option: str, command: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(option, known, n=2)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{option}: ppobook {command} has no such option; {hint}see ppobook {command} --help"


def _settings(rest: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """`vanilla --num-envs 4 --hidden 32,32` as "vanilla" and {"num_envs": 4, "hidden": (32, 32)}."""
    algorithm: str | None = None
    settings: dict[str, Any] = {}
    waiting = list(rest)
    while waiting:
        option = waiting.pop(0)
        if not option.startswith("--"):
            if algorithm is not None:
                raise ValueError(f"{option!r} was not expected here; wanted: settings as --name value")
            algorithm = option
            continue
        name, given, text = option[2:].partition("=")
        if not given:
            # A negative number is a value too; another --name is not.
            if not waiting or waiting[0].startswith("--"):
                raise ValueError(f"{option} came without a value; wanted: {option} VALUE")
            text = waiting.pop(0)
        settings[name.replace("-", "_")] = _literal(text)
    return algorithm, settings


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    sys.exit(main())
