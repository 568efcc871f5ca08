"""`ppobook evaluate`, `doctor`, `compare`, `watch` and `record`."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from ppobook.cli.parsing import File, MaybeFile, MaybeFolder, Run, command, imported_class, see_here
from ppobook.validation import counted


@dataclass(frozen=True)
class Named:
    """Code to import for a run. You name it, because the run's folder may be a stranger's.

    Args:
        learner: for a run of a Learner of your own: its class, as MODULE:CLASS
        env: another environment, or one of your own, as MODULE:ID; none: the run's
        env_kwargs: keyword arguments for the environment, as in "{'slip': 0.2}"; none: the run's
    """

    learner: str | None = None
    env: str | None = None
    env_kwargs: dict[str, Any] | None = None

    def run(self, folder: str) -> Any:
        """The run in a folder."""
        from ppobook.training import load

        kind = None if self.learner is None else imported_class(self.learner, "learner", "MyPPO")
        try:
            return load(folder, learner=kind)
        except ValueError as error:
            message, hint, _ = str(error).partition(": pass learner=")
            if self.learner is None and hint:
                raise ValueError(f"{message}: give --learner MODULE:CLASS") from None
            raise

    def environment(self, folder: str, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The environment to evaluate in, and its keyword arguments."""
        from ppobook.envs import env_maker, has_id

        env = config["env"] if self.env is None else self.env
        if self.env is None and not has_id(env):
            raise ValueError(
                f"the environment of {folder!r} is {env!r}, which has no id. Give --env MODULE:ID, or "
                "evaluate in Python"
            )
        if self.env is None and ":" in env:
            raise ValueError(
                f"the environment of {folder!r} is {env!r}: a module that a run names is not imported "
                f"unasked. Give --env {env}"
            )
        see_here(env)
        if self.env_kwargs is not None:
            return env, self.env_kwargs
        same = env == config["env"] or env_maker(env).name == config["env"]
        return env, config["env_kwargs"] if same else {}


def described(config: dict[str, Any], env: str, kwargs: dict[str, Any]) -> str:
    """Describe what was trained, and where it is evaluated."""
    from ppobook.run.registry import short_name

    return f"{short_name(config['algorithm'])} on {env}" + (f" with {kwargs}" if kwargs else "")


@dataclass(frozen=True)
class Episodes:
    """The episodes to play.

    Args:
        seed: random seed of the episodes
        deterministic: take the most probable action instead of sampling
    """

    seed: int = 0
    deterministic: bool = False


@command
def evaluate(
    folder: Run,
    /,
    *,
    episodes: int = 100,
    which: Episodes = Episodes(),
    how: Named = Named(),
) -> None:
    """Evaluate a trained policy.

    Args:
        folder: the run
        episodes: number of episodes
    """
    from ppobook.evaluation import evaluate
    from ppobook.run.machine import threads

    run = how.run(folder)
    env, kwargs = how.environment(folder, run.config)
    with threads(1):
        found = evaluate(run.policy, env, episodes, **vars(which), env_kwargs=kwargs)
    steps = run.history["steps"].iloc[-1] if len(run.history) else 0
    print(f"{described(run.config, env, kwargs)}, trained for {counted(steps, 'step')}")
    print(f"{counted(episodes, 'episode')}{', greedy' if which.deterministic else ''}, seed {which.seed}")
    mean, std, low, high = (found[name] for name in ("mean", "std", "min", "max"))
    print(f"return: mean {mean:.2f}, std {std:.2f}, min {low:g}, max {high:g}")


@command
def watch(
    folder: Run,
    /,
    *,
    out: File,
    episodes: int = 1,
    fps: float | None = None,
    which: Episodes = Episodes(),
    how: Named = Named(),
) -> None:
    """Film a trained policy, in the first episodes that evaluate plays with the same seed.

    Args:
        folder: the run
        out: the film, a .gif or .mp4 to write or replace
        episodes: number of episodes
        fps: frames per second; none: the environment's
    """
    from ppobook.analysis.watch import watch
    from ppobook.run.machine import threads

    run = how.run(folder)
    env, kwargs = how.environment(folder, run.config)
    with threads(1):
        found = watch(run.policy, env, out, episodes=episodes, fps=fps, **vars(which), env_kwargs=kwargs)
    for total, length in zip(found["returns"], found["lengths"], strict=True):
        print(f"return {total:g} in {counted(length, 'step')}")
    print(f"filmed in {out}")


@command
def doctor(folder: Run, /) -> None:
    """Find what goes wrong in a run.

    It reads the run's history for the usual failures, and prints the updates and numbers that show one, its
    usual causes and what to try; and for which of them the history is too short. The exit code is 0, whatever
    is found.

    Args:
        folder: the run
    """
    from gymnasium import spaces

    from ppobook.analysis.doctor import examine, too_short
    from ppobook.run.registry import short_name
    from ppobook.training import read_record

    record = read_record(folder)
    config, updates = record.config, len(record.history)
    what = f"{short_name(config['algorithm'])} on {config['env']}"
    print(f"{what}, seed {config['seed']}, {counted(updates, 'update')}")
    if not updates:
        print("too short to say anything")
        return
    done, total = int(record.history["steps"].iloc[-1]), config["total_steps"]
    if done < total:
        print(f"not at its end: {done:,} of {counted(total, 'step')}")
    actions = record.action_space
    dims = spaces.flatdim(actions) if isinstance(actions, spaces.Box) else 0
    findings = examine(record.history, config, action_dims=dims)
    for found in findings:
        print(f"\n{found.name}")
        _print_columns({"seen:": found.evidence, "causes:": found.causes, "try:": found.remedy})
    short = too_short(record.history)
    if short:
        print("\ntoo short to say")
        _print_columns({f"{name}:": lack for name, lack in short.items()})
    if not findings:
        print(f"{'otherwise ' if short else ''}nothing found")


def _print_columns(parts: dict[str, str]) -> None:
    """Print named texts, in columns."""
    width = max(map(len, parts)) + 1
    for head, text in parts.items():
        print(
            textwrap.fill(
                text,
                100,
                initial_indent=f"  {head:<{width}}",
                subsequent_indent=" " * (width + 2),
                break_long_words=False,
            )
        )


@command
def compare(
    folders: Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN …")],
    /,
    *,
    metric: str = "return_mean",
    out: MaybeFile = None,
) -> None:
    """Compare runs, grouped by algorithm, environment and settings.

    A group is the mean of its seeds over the last tenth of the steps that all of them have, with a 95 %
    bootstrap interval. With few seeds the interval is too narrow; with one there is none. A run that stopped
    early is left out, unless its whole group did.

    Args:
        folders: the runs
        metric: a column of the histories
        out: also draw the curves, in a .svg, .png or .pdf to write or replace
    """
    import warnings

    from ppobook.analysis.compare import PICTURES, compare
    from ppobook.analysis.files import new_file

    if out is not None:
        new_file("out", out, PICTURES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are printed below
        found = compare(folders, metric)
    print(found.table.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.4g}"))
    for note in found.notes:
        print(note)
    if out is not None:
        print(f"drawn in {found.plot(out)}")


@command
def record(
    name: Annotated[str, tyro.conf.arg(metavar="NAME")],
    /,
    *,
    workers: int | None = None,
    ray: str | None = None,
    folder: MaybeFolder = None,
) -> None:
    """Run an experiment: every setting with every seed, and one table of the results.

    A run that was stopped goes on where it was. Without an option it is as the experiment's script says.

    Args:
        name: an experiment of the book, or the path of a script of your own that calls
            ppobook.experiments.record
        workers: processes on this machine; 0 runs everything in one
        ray: run on a Ray cluster instead, at this address: auto, or HOST:PORT
        folder: where the experiment's folder is written; without it, results/
    """
    from ppobook.experiments.scripts import run_script

    given = {"workers": workers, "ray": ray, "folder": folder}
    for path in run_script(name, **{one: x for one, x in given.items() if x is not None}):
        print(f"written to {path}")
