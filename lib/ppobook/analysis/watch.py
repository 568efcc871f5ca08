"""Record episodes of a policy as a GIF or an MP4.

    watch(run.policy, "CartPole-v1", "episode.gif", seed=3)

The episodes are those that `evaluate` plays with the same seed.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ppobook import validation
from ppobook.envs import TabularEnv, TabularMDP, make_env
from ppobook.evaluation import evaluate

FILMS = (".gif", ".mp4")
# Frames a second, for an environment without render_fps.
_PACE = 30
# Tabular worlds are shown slowly enough to follow.
_TABULAR_PACE = 5
# Pixels along a side of a state.
_CELL = 48
# Ground, lines, a state that ends the episode, the agent.
_WHITE, _GREY, _GREEN, _BLUE = (255, 255, 255), (213, 218, 224), (0, 158, 115), (0, 114, 178)


def watch(
    policy: Any,
    env: str,
    out: str | Path,
    *,
    episodes: int = 1,
    seed: int = 0,
    deterministic: bool = False,
    fps: float | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Play episodes and record them as a film.

    Parameters
    ----------
    policy : Policy
    env : str
        An id, as for `make_env`. The environment must support ``render_mode="rgb_array"``, or be one of the
        book's tabular worlds, which are drawn as maps.
    out : path
        A file that ends in .gif or .mp4. It is written when it is complete.
    episodes : int
    seed : int
    deterministic : bool
        Take the most probable action instead of sampling.
    fps : float, optional
        Frames a second; default: the environment's. A GIF has at most 50: a faster one skips frames.
    **settings
        Keyword arguments of the environment.

    Returns
    -------
    dict
        As `evaluate` returns it: returns and lengths of the episodes, and their statistics.

    Raises
    ------
    ValueError, OSError
        Errors of `evaluate` and `make_env`; an environment that cannot be rendered; another extension; a path
        that is not writable; a library that is not installed.
    """
    path = validation.path("out", out)
    kind = path.suffix.lower()
    if kind not in FILMS:
        raise ValueError(f"out must end in .gif or .mp4, got {str(path)!r}")
    if fps is not None:
        fps = validation.number("fps", fps, above=0, high=240)
    if path.is_dir() or not path.parent.is_dir():
        raise OSError(f"out must be a file in an existing folder, got {str(path)!r}")

    with contextlib.closing(_make(env, settings)) as envs:
        inner = envs.envs[0]
        frame = _frames_of(inner, env)
        pace = fps or float(inner.metadata.get("render_fps") or 0)
        pace = pace or (_TABULAR_PACE if isinstance(inner.unwrapped, TabularEnv) else _PACE)
        every = math.ceil(pace / 50) if kind == ".gif" else 1
        with _film(path, pace / every) as add:
            envs.envs[0] = _Filmed(inner, frame, add, every, episodes)
            return evaluate(policy, envs, episodes, seed, deterministic)


class _Filmed(gym.Wrapper):
    """An environment that passes on its frames, from the first observation of an episode to the last."""

    def __init__(
        self, env: gym.Env, frame: Callable[[], Any], add: Callable[[Any], None], every: int, episodes: int
    ) -> None:
        super().__init__(env)
        self.frame, self.add, self.every, self.left = frame, add, every, episodes
        self.t = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        shown = super().reset(**kwargs)
        self.t = 0
        self._take(True)
        return shown

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        happened = super().step(action)
        self.t += 1
        over = bool(happened[2] or happened[3])
        self._take(over or self.t % self.every == 0)
        self.left -= over
        return happened

    def _take(self, due: bool) -> None:
        # After the last episode the environment resets once more; that episode is not played.
        if due and self.left > 0:
            self.add(np.asarray(self.frame(), dtype=np.uint8))


def _make(env: str, settings: dict[str, Any]) -> Any:
    """One environment that can be drawn."""
    known = gym.registry.get(env) if isinstance(env, str) else None
    if known is not None and str(known.entry_point).startswith("ppobook.envs"):
        return make_env(env, 1, **settings)
    try:
        return make_env(env, 1, render_mode="rgb_array", **settings)
    except ValueError as error:
        if "pygame" in str(error):
            raise ValueError(
                f"env {env!r} needs pygame for rendering, which is not installed; "
                "run: pip install 'ppobook[watch]'"
            ) from None
        if "TypeError" in str(error):  # most likely it has no such argument
            raise ValueError(
                f"env must support render_mode='rgb_array', got {env!r} "
                f"({str(error).partition('cannot be made: ')[2] or error})"
            ) from None
        raise


def _frames_of(env: gym.Env, name: str) -> Callable[[], Any]:
    """A function that renders the environment as it is now, [height, width, 3] uint8."""
    world = env.unwrapped
    if isinstance(world, TabularEnv):
        return lambda: _map(world.mdp, world._state)

    def shown() -> Any:
        try:
            frame = env.render()
        except Exception as error:
            missing = isinstance(error, ImportError | gym.error.DependencyNotInstalled)
            remedy = "; run: pip install 'ppobook[watch]'" if missing else ""
            raise ValueError(
                f"env must be one that can be rendered, got {name!r} ({validation.reason(error)}){remedy}"
            ) from error
        if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3:
            raise ValueError(
                f"env must support render_mode='rgb_array', got {name!r}, whose render returned "
                f"{type(frame).__name__}"
            )
        return frame

    return shown


def _map(mdp: TabularMDP, state: int) -> np.ndarray:
    """The states as squares, at their positions if they have some; terminal ones green, the agent a disc."""
    spots = [(0, i) for i in range(mdp.n_states)] if mdp.positions is None else mdp.positions.tolist()
    places = [(int(row), int(column)) for row, column in spots]
    rows, columns = (max(place[axis] for place in places) + 1 for axis in (0, 1))
    picture = np.full((rows * _CELL, columns * _CELL, 3), _GREY, dtype=np.uint8)
    centre = np.arange(_CELL - 2) - (_CELL - 3) / 2
    disc = centre[:, None] ** 2 + centre**2 <= (0.35 * _CELL) ** 2
    for i, (row, column) in enumerate(places):
        top, left = row * _CELL + 1, column * _CELL + 1
        square = picture[top : top + _CELL - 2, left : left + _CELL - 2]
        square[:] = _GREEN if mdp.terminal[i] else _WHITE
        if i == state:
            square[disc] = _BLUE
    return picture


@contextlib.contextmanager
def _film(path: Path, fps: float) -> Iterator[Callable[[np.ndarray], None]]:
    """A function that adds a frame to a film. The file is put in place when it is complete."""
    try:
        import imageio.v2 as imageio
    except ImportError:
        raise ValueError(
            "out needs imageio, which is not installed; run: pip install 'ppobook[watch]'"
        ) from None
    kind = path.suffix.lower()
    part = path.with_name(f".{path.name}.part{kind}")
    how: dict[str, Any] = (
        {"loop": 0, "duration": 1000 / fps} if kind == ".gif" else {"fps": fps, "macro_block_size": 2}
    )
    try:
        try:
            writer = imageio.get_writer(part, mode="I", **how)
        except ImportError:
            raise ValueError(
                "out needs imageio-ffmpeg for .mp4, which is not installed; run: pip install 'ppobook[watch]'"
            ) from None
        with writer:
            yield writer.append_data
        os.replace(part, path)
    except OSError as error:
        raise OSError(f"out must be writable, got {str(path)!r} ({error.strerror or error})") from None
    finally:
        part.unlink(missing_ok=True)
