"""`ppobook evaluate`, `watch` and `export`: what one does with a trained policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from ppobook import validation
from ppobook.cli.options import File, Run, command
from ppobook.cli.users import imported_class, see_here
from ppobook.validation import counted


@dataclass(frozen=True)
class Named:
    """What is imported for a run, whose folder may be a stranger's, has to be named.

    Args:
        learner: for a run of a Learner of your own: its class, as MODULE:CLASS
        env: another environment, or one of your own, as MODULE:ID; none: the run's
        env_kwargs: keyword arguments for the environment, as in "{'slip': 0.2}"; none: the run's
    """

    learner: str | None = None
    env: str | None = None
    env_kwargs: Annotated[Any, tyro.conf.arg(metavar="DICT")] = None

    def run(self, folder: str) -> Any:
        """The run in a folder."""
        from ppobook.training import load

        if self.learner is not None and ":" not in self.learner:
            raise ValueError(f"--learner must be MODULE:CLASS, as in my_module:MyPPO, got {self.learner!r}")
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
            return env, validation.keywords("env_kwargs", self.env_kwargs)
        same = env == config["env"] or env_maker(env).name == config["env"]
        return env, config["env_kwargs"] if same else {}


def described(config: dict[str, Any], env: str, kwargs: dict[str, Any]) -> str:
    """What was trained, and where it is evaluated."""
    from ppobook.run.registry import short_name

    return f"{short_name(config['algorithm'])} on {env}" + (f" with {kwargs}" if kwargs else "")


@dataclass(frozen=True)
class Episodes:
    """Which episodes are played.

    Args:
        seed: random seed of the episodes
        deterministic: take the most probable action instead of sampling
    """

    seed: int = 0
    deterministic: bool = False


How = Annotated[Named, tyro.conf.arg(name="")]
Which = Annotated[Episodes, tyro.conf.arg(name="")]


@command
def evaluate(
    folder: Run,
    /,
    *,
    episodes: int = 100,
    which: Which,
    how: How,
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
    which: Which,
    how: How,
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
def export(
    folder: Run,
    out: Annotated[str, tyro.conf.arg(metavar="OUT.onnx")],
    /,
    *,
    how: How,
) -> None:
    """Export a trained policy to ONNX, and compare it with torch in onnxruntime.

    The model takes a batch of "observations" and returns the most probable "action", and "logits", or "mean"
    and "std".

    Args:
        folder: the run
        out: a file to write or replace
    """
    from ppobook.analysis.export import export_onnx, says_what_it_observes
    from ppobook.envs import make_env
    from ppobook.rollouts import Collector
    from ppobook.run.machine import threads

    run = how.run(folder)
    with threads(1):
        seen = None
        if how.env is not None or how.env_kwargs is not None or not says_what_it_observes(run.policy):
            env, kwargs = how.environment(folder, run.config)
            rollout = Collector(make_env(env, 4, **kwargs), run.policy, seed=0).collect(64)
            seen = rollout.observations.flatten(0, 1)
        found = export_onnx(run.policy, out, observations=seen)
    print(f"observations to {', '.join(found.outputs)}, in {found.path}")
    print(f"onnxruntime and torch differ by {found.largest_difference:.1e} at most")
