"""Films of episodes: as many frames as the episode has, the same episode that `evaluate` plays."""

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

    def __init__(self, render_mode=None, length=6, draws=True):
        self.render_mode, self.length, self.draws = render_mode, length, draws

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 1.0, self.t == self.length, False, {}

    def render(self):
        return np.full((32, 48, 3), 30 * self.t, np.uint8) if self.draws else "text"


class Blind(Counting):
    def __init__(self):
        super().__init__()


gym.register("test_watch/Counting-v0", Counting)
gym.register("test_watch/Blind-v0", Blind)
POLICY = CategoricalPolicy(1, 2, (4,))


def frames(path):
    return np.stack([frame[..., :3] for frame in imageio.mimread(path)])


def test_every_frame_from_the_first_observation_to_the_last(tmp_path):
    found = watch(POLICY, "test_watch/Counting-v0", tmp_path / "film.gif")
    assert found["lengths"].tolist() == [6]
    shown = frames(tmp_path / "film.gif")
    assert shown.shape == (7, 32, 48, 3)
    assert shown[:, 0, 0, 0].tolist() == [0, 30, 60, 90, 120, 150, 180]
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]
    watch(POLICY, "test_watch/Counting-v0", tmp_path / "two.gif", episodes=2, length=3)
    assert frames(tmp_path / "two.gif")[:, 0, 0, 0].tolist() == [0, 30, 60, 90, 0, 30, 60, 90]


def pace(path):
    return imageio.get_reader(path).get_meta_data()


def test_the_pace_is_the_environments_and_a_gif_has_50_frames_a_second_at_most(tmp_path):
    film = tmp_path / "film.gif"
    watch(POLICY, "test_watch/Counting-v0", film)
    assert pace(film)["duration"] == 100
    watch(POLICY, "test_watch/Counting-v0", film, fps=25)
    assert pace(film)["duration"] == 40
    watch(POLICY, "test_watch/Counting-v0", film, fps=100)
    assert pace(film)["duration"] == 20
    assert frames(film)[:, 0, 0, 0].tolist() == [0, 60, 120, 180]


def test_mp4(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    film = tmp_path / "film.mp4"
    watch(POLICY, "test_watch/Counting-v0", film)
    assert pace(film)["fps"] == 10
    assert sum(1 for _ in imageio.get_reader(film)) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


def test_the_episodes_are_those_of_evaluate(tmp_path):
    pytest.importorskip("pygame")
    policy = CategoricalPolicy(4, 2, (4,))
    found = watch(policy, "CartPole-v1", tmp_path / "film.gif", seed=5, episodes=2)
    again = evaluate(policy, "CartPole-v1", 1, seed=5)
    assert found["returns"][0] == again["returns"][0]
    # Frames that are alike are one in a GIF, which lasts the longer.
    assert len(frames(tmp_path / "film.gif")) <= found["lengths"].sum() + 2


def test_the_books_worlds_are_drawn_as_maps(tmp_path):
    found = watch(TabularPolicy(7, 2), "ppobook/Chain-v0", tmp_path / "chain.gif", slip=0.0)
    shown = frames(tmp_path / "chain.gif")
    assert len(shown) == found["lengths"][0] + 1
    assert shown.shape[1:] == (48, 7 * 48, 3)
    assert pace(tmp_path / "chain.gif")["duration"] == 200
    picture = _map(chain(5), 3)
    middles = [tuple(picture[24, 24 + 48 * i]) for i in range(7)]
    white, green, blue = (255, 255, 255), (0, 158, 115), (0, 114, 178)
    assert middles == [green, white, white, blue, white, white, green]
    grid = gridworld(("S#", ".G"))
    picture = _map(grid, 0)
    assert picture.shape == (96, 96, 3)
    assert tuple(picture[24, 24]) == blue
    assert tuple(picture[24, 72]) == (213, 218, 224)  # a wall
    assert tuple(picture[72, 72]) == green


@pytest.mark.parametrize(
    ("env", "given", "sentence"),
    [
        ("test_watch/Counting-v0", {"out": "film.avi"}, "out must end in .gif or .mp4, got .film.avi"),
        ("test_watch/Counting-v0", {"out": "nowhere/film.gif"}, "out must be a file in an existing folder"),
        ("test_watch/Counting-v0", {"fps": 0}, "fps must be .*, got 0"),
        (
            "test_watch/Counting-v0",
            {"draws": False},
            "env must support render_mode=.*, whose render returned str",
        ),
        ("test_watch/Counting-v0", {"episodes": 0}, "episodes must be .*, got 0"),
        ("test_watch/Blind-v0", {}, "env must support render_mode=.rgb_array."),
        ("test_watch/Nothing-v0", {}, "(?i)did you mean"),
    ],
)
def test_what_cannot_be_filmed_is_refused_and_leaves_nothing(tmp_path, monkeypatch, env, given, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError), match=sentence):
        watch(POLICY, env, **{"out": "film.gif", **given})
    assert list(tmp_path.iterdir()) == []


def test_a_film_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    (tmp_path / "film.gif").write_text("old")

    def broken(self):
        if self.t == 3:
            raise RuntimeError("no light")
        return np.zeros((8, 8, 3), np.uint8)

    monkeypatch.setattr(Counting, "render", broken)
    with pytest.raises(
        ValueError, match=r"env must be one that can be rendered, got .* \(RuntimeError: no light\)"
    ):
        watch(POLICY, "test_watch/Counting-v0", tmp_path / "film.gif")
    assert (tmp_path / "film.gif").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_not_installed_gets_a_sentence(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "imageio.v2", None)
    with pytest.raises(ValueError, match=r"pip install 'ppobook\[watch\]'"):
        watch(POLICY, "test_watch/Counting-v0", tmp_path / "film.gif")


def test_on_the_command_line(tmp_path, capsys):
    small = {"num_envs": 2, "num_steps": 16, "total_steps": 64}
    train("vanilla", env="ppobook/Gridworld-v0", **small, out=tmp_path / "run")
    film = str(tmp_path / "film.gif")
    assert main(["watch", str(tmp_path / "run"), "--out", film, "--episodes", "2", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert said.count("return ") == 2
    assert f"filmed in {film}" in said
    assert main(["watch", str(tmp_path / "run"), "--out", "film.mov"]) == 2
    assert "must end in .gif or .mp4" in capsys.readouterr().err
