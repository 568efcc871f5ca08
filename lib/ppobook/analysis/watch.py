"""Record episodes of a policy as a GIF or an MP4.

    watch(run.policy, "CartPole-v1", "episode.gif", seed=3)

The episodes are those that `evaluate` plays with the same seed.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

import gymnasium as gym
import numpy as np

from ppobook.analysis.files import new_file
from ppobook.envs import EnvLike, TabularEnv, TabularMDP, env_maker, make_env
from ppobook.evaluation import evaluate

FILMS = (".gif", ".mp4")
RENDERED = {"render_mode": "rgb_array"}
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
    env: EnvLike,
    out: str | Path,
    *,
    episodes: int = 1,
    seed: int = 0,
    deterministic: bool = False,
    fps: float | None = None,
    env_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Play episodes and record them as a film.

    Parameters
    ----------
    policy : Policy
    env : str, gymnasium.Env or function
        As for `make_env`. An environment must support ``render_mode="rgb_array"``, and one that no id stands
        for must be made with it. The book's tabular worlds are drawn as maps.
    out : path
        A file that ends in .gif or .mp4, to write or replace. It appears when it is complete. A GIF is put
        together in memory, at a quarter of a megabyte a frame of 600 x 400 pixels.
    episodes : int
    seed : int
    deterministic : bool
        Take the most probable action instead of sampling.
    fps : float, optional
        Frames a second; default: the environment's. A GIF has at most 50: a faster one skips frames.
    env_kwargs : dict, optional
        Keyword arguments of an environment that is given by its id.

    Returns
    -------
    dict
        As `evaluate` returns it: returns and lengths of the episodes, and their statistics.
    """
    path = new_file("out", out, FILMS)
    kind = path.suffix.lower()
    maker = env_maker(env, env_kwargs or {})
    with contextlib.ExitStack() as stack:
        # Let pygame look for neither a screen nor a sound card: it complains where there is none.
        stack.enter_context(mock.patch.dict(os.environ, SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="dummy"))
        spec = gym.registry.get(maker.name.rpartition(":")[2])
        drawn = spec is None or str(spec.entry_point).startswith("ppobook.envs")
        maker = maker if drawn else replace(maker, settings=maker.settings | RENDERED)
        envs: Any = make_env(maker, reset=False)
        if not isinstance(env, gym.Env):
            stack.callback(envs.close)
        inner = envs.envs[0]
        frame = _frames_of(inner)
        pace = fps or float(inner.metadata.get("render_fps") or 0)
        pace = pace or (_TABULAR_PACE if isinstance(inner.unwrapped, TabularEnv) else _PACE)
        every = math.ceil(pace / 50) if kind == ".gif" else 1
        add = stack.enter_context(_film(path, pace / every))
        envs.envs[0] = _Filmed(inner, frame, add, every)
        return evaluate(policy, envs, episodes, seed, deterministic)


class _Filmed(gym.Wrapper):
    """An environment that passes on its frames, from the first observation of an episode to the last."""

    def __init__(
        self, env: gym.Env, frame: Callable[[], np.ndarray], add: Callable[[np.ndarray], None], every: int
    ) -> None:
        super().__init__(env)
        self.frame, self.add, self.every = frame, add, every
        self.t = 0
        self.filming = False

    def reset(self, *, seed: int | None = None, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        shown = super().reset(seed=seed, **kwargs)
        self.t = 0
        # `evaluate` seeds its episodes. The one that begins where another ends is not played.
        self.filming = seed is not None
        self._take(True)
        return shown

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        happened = super().step(action)
        self.t += 1
        over = bool(happened[2] or happened[3])
        self._take(over or self.t % self.every == 0)
        return happened

    def _take(self, due: bool) -> None:
        if due and self.filming:
            self.add(self.frame())


def _frames_of(env: gym.Env) -> Callable[[], np.ndarray]:
    """A function that renders the environment as it is now, [height, width, 3] uint8."""
    world = env.unwrapped
    if isinstance(world, TabularEnv):
        return lambda: _map(world.mdp, world._state)
    return cast("Callable[[], np.ndarray]", env.render)


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
    """A function that adds a frame to the film, which is put in place when it is complete."""
    from imageio import v2 as imageio

    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix.lower()}")
    how: dict[str, Any] = {"fps": fps, "macro_block_size": 2, "ffmpeg_log_level": "quiet"}
    if part.suffix == ".gif":
        how = {"duration": 1000 / fps, "loop": 0}
    try:
        writer: Any = imageio.get_writer(part, **how)
        with writer:
            yield writer.append_data
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
