"""Films of episodes: as many frames as the episode has, the same episode that `evaluate` plays."""

import os
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ppobook import evaluate, train
from ppobook.analysis.watch import _map, watch
from ppobook.cli import main
from ppobook.envs import chain, gridworld
from ppobook.policies import CategoricalPolicy, TabularPolicy

imageio = pytest.importorskip("imageio.v2")


class Counting(gym.Env):
    """Its picture is the brighter the more steps were taken. An episode has 6 steps, or `length`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def __init__(self, render_mode=None, length=6):
        self.render_mode, self.length = render_mode, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 1.0, self.t == self.length, False, {}

    def render(self):
        return np.full((32, 48, 3), 30 * self.t % 256, np.uint8)


COUNTING = "test_watch/Counting-v0"
gym.register(COUNTING, Counting)
POLICY = CategoricalPolicy(1, 2, (4,))


def test_no_window_is_opened(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        Counting, "render", lambda self: seen.append(dict(os.environ)) or np.zeros((32, 48, 3), np.uint8)
    )
    watch(POLICY, COUNTING, tmp_path / "film.gif")
    assert {x["SDL_VIDEODRIVER"] for x in seen} == {"dummy"}
    assert "SDL_VIDEODRIVER" not in os.environ


def frames(path):
    return np.stack([frame[..., :3] for frame in imageio.mimread(path)])


def test_every_frame_from_the_first_observation_to_the_last(tmp_path):
    found = watch(POLICY, COUNTING, tmp_path / "film.gif")
    assert found["lengths"].tolist() == [6]
    shown = frames(tmp_path / "film.gif")
    assert shown.shape == (7, 32, 48, 3)
    assert shown[:, 0, 0, 0].tolist() == [0, 30, 60, 90, 120, 150, 180]
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]
    watch(POLICY, COUNTING, tmp_path / "two.gif", episodes=2, env_kwargs={"length": 3})
    assert frames(tmp_path / "two.gif")[:, 0, 0, 0].tolist() == [0, 30, 60, 90, 0, 30, 60, 90]


def test_an_environment_of_ones_own(tmp_path):
    """Itself, or what a function makes; it is not closed."""
    env = Counting("rgb_array", length=3)
    for given in (env, lambda: Counting("rgb_array", length=3)):
        assert watch(POLICY, given, tmp_path / "film.gif")["lengths"].tolist() == [3]
        assert len(frames(tmp_path / "film.gif")) == 4


def pace(path):
    return imageio.get_reader(path).get_meta_data()


def test_the_pace_is_the_environments_and_a_gif_has_50_frames_a_second_at_most(tmp_path):
    film = tmp_path / "film.gif"
    watch(POLICY, COUNTING, film)
    assert pace(film)["duration"] == 100
    watch(POLICY, COUNTING, film, fps=100)
    assert pace(film)["duration"] == 20
    assert frames(film)[:, 0, 0, 0].tolist() == [0, 60, 120, 180]


def test_mp4(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    film = tmp_path / "film.mp4"
    watch(POLICY, COUNTING, film)
    assert pace(film)["fps"] == 10
    assert sum(1 for _ in imageio.get_reader(film)) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


def test_the_episodes_are_those_of_evaluate(tmp_path):
    pytest.importorskip("pygame")
    policy = CategoricalPolicy(4, 2, (4,))
    found = watch(policy, "CartPole-v1", tmp_path / "film.gif", seed=5, episodes=2)
    again = evaluate(policy, "CartPole-v1", 30, seed=5)
    assert found["returns"].tolist() == again["returns"][:2].tolist()
    # Frames that are alike are one in a GIF, which lasts the longer.
    assert len(frames(tmp_path / "film.gif")) <= found["lengths"].sum() + 2


def test_the_books_worlds_are_drawn_as_maps(tmp_path):
    found = watch(TabularPolicy(7, 2), "ppobook/Chain-v0", tmp_path / "chain.gif", env_kwargs={"slip": 0.0})
    shown = frames(tmp_path / "chain.gif")
    assert len(shown) == found["lengths"][0] + 1
    assert shown.shape[1:] == (48, 7 * 48, 3)
    assert pace(tmp_path / "chain.gif")["duration"] == 200
    picture = _map(chain(5), 3)
    middles = [tuple(picture[24, 24 + 48 * i]) for i in range(7)]
    white, green, blue = (255, 255, 255), (0, 158, 115), (0, 114, 178)
    assert middles == [green, white, white, blue, white, white, green]
    assert tuple(_map(gridworld(("S#", ".G")), 0)[24, 72]) == (213, 218, 224)  # a wall


@pytest.mark.parametrize("out", ["film.gif", "film.mp4"])
def test_what_cannot_be_filmed_leaves_nothing(tmp_path, monkeypatch, out):
    monkeypatch.setattr("ppobook.evaluation._MOST_STEPS", 100)
    with pytest.raises(ValueError, match=r"env must have episodes that end, .* than 100 steps"):
        watch(POLICY, COUNTING, tmp_path / out, env_kwargs={"length": 101})
    assert list(tmp_path.iterdir()) == []


def test_a_film_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    (tmp_path / "film.gif").write_text("old")

    def broken(self):
        if self.t == 3:
            raise RuntimeError("no light")
        return np.zeros((8, 8, 3), np.uint8)

    monkeypatch.setattr(Counting, "render", broken)
    with pytest.raises(RuntimeError, match="no light"):
        watch(POLICY, COUNTING, tmp_path / "film.gif")
    assert (tmp_path / "film.gif").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_on_the_command_line(tmp_path, capsys):
    """`evaluate`, `watch` and Python's `evaluate` play the same episodes."""
    small = {"num_envs": 2, "num_steps": 16, "total_steps": 64, "env_kwargs": {"slip": 0.5}}
    run = train("vanilla", env="ppobook/Gridworld-v0", **small, out=tmp_path / "run")
    folder, film = str(tmp_path / "run"), str(tmp_path / "film.gif")
    for words, how in (
        ([], {"env_kwargs": {"slip": 0.5}}),
        (["--seed", "1", "--deterministic"], {"env_kwargs": {"slip": 0.5}, "seed": 1, "deterministic": True}),
    ):
        found = evaluate(run.policy, "ppobook/Gridworld-v0", 3, **how)
        assert main(["watch", folder, "--out", film, "--episodes", "3", *words]) == 0
        said = capsys.readouterr().out
        assert [float(line.split()[1]) for line in said.splitlines()[:-1]] == pytest.approx(found["returns"])
        assert main(["evaluate", folder, "--episodes", "3", *words]) == 0
        said = capsys.readouterr().out
        assert said.startswith("vanilla on ppobook/Gridworld-v0 with {'slip': 0.5}, trained for 64 steps")
        assert f"mean {found['mean']:.2f}, std {found['std']:.2f}" in said
    assert main(["watch", folder, "--out", "film.mov"]) == 2
    assert "must end in .gif or .mp4" in capsys.readouterr().err


def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch, capsys):
    small = {"num_envs": 2, "num_steps": 16, "total_steps": 32}
    train("vanilla", env="ppobook/Chain-v0", **small, out=tmp_path / "run")
    monkeypatch.setitem(sys.modules, "imageio", None)
    assert main(["watch", str(tmp_path / "run"), "--out", str(tmp_path / "film.mp4")]) == 2
    assert "; pip install 'ppobook[watch]'\n" in capsys.readouterr().err
