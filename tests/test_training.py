"""The loop that all trainers share: history, stopping, saving, loading, refusing."""

import dataclasses
import json
import pickle
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from spoiling import spoil
from threadpoolctl import threadpool_info

import ppobook
from ppobook import load, train
from ppobook.policies import Categorical
from ppobook.registry import learner_class
from ppobook.run import checkpoint
from ppobook.run.files import write_synced
from ppobook.run.folder import RunFolder, locked
from ppobook.run.machine import threads
from ppobook.run.settings import setting
from ppobook.settings import VanillaSettings
from ppobook.spaces import describe_space, space_of
from ppobook.training import COLUMNS
from ppobook.vanilla import Vanilla

SMALL = {"env": "CartPole-v1", "num_envs": 2, "num_steps": 16, "hidden": (8,), "value_epochs": 2}


def timeless(history):
    return history.loc[:, ~history.columns.str.startswith("seconds")]


def small(**changes):
    return train("vanilla", **{**SMALL, "total_steps": 200, **changes})


class Odd(gym.Env):
    """Three numbers, two actions; can pay NaN, and can refuse to be pickled."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, nan_at=None, locked=False):
        self.nan_at = nan_at
        self.lock = threading.Lock() if locked else None
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {}

    def step(self, action):
        self.t += 1
        reward = float("nan") if self.t == self.nan_at else float(action)
        return self._see(), reward, self.t >= 7 and self.np_random.random() < 0.2, False, {}

    def _see(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


gym.register("ppobook-test/Odd-v0", entry_point=Odd, max_episode_steps=20)


# ------------------------------------------------------------------------------------- history, stopping


def test_the_history_is_a_tidy_table():
    run = small()
    assert list(run.history.columns) == list(COLUMNS)
    history = run.history
    assert (history["update"] == np.arange(1, len(history) + 1)).all()
    assert history["steps"].dtype.kind == "i"
    assert history["episodes"].is_monotonic_increasing
    assert (history["entropy"] <= np.log(2) + 1e-6).all()
    assert (history["approx_kl"] >= 0).all()
    assert (history["grad_norm"] > 0).all()
    ended = history.dropna()
    assert (ended["return_min"] <= ended["return_mean"]).all()
    assert (ended["return_mean"] == ended["length_mean"]).all()  # CartPole pays 1 a step
    assert np.isfinite(timeless(history)[["policy_loss", "value_loss"]].to_numpy()).all()
    assert (history["seconds"].diff().dropna() > 0).all()


def test_without_a_critic_its_columns_are_missing_and_every_batch_has_an_end():
    history = small(baseline="none").history
    assert history["value_loss"].isna().all()
    assert history["explained_variance"].isna().all()
    assert history["return_mean"].notna().all()


@pytest.mark.parametrize("total_steps", [1, 32, 33, 200, 1e2])
def test_it_stops_at_the_first_whole_batch_at_or_past_the_total(total_steps):
    steps = small(total_steps=total_steps).history["steps"]
    assert steps.iloc[-1] >= total_steps
    assert steps.iloc[-1] - 32 < total_steps
    assert (steps.diff().dropna() == 32).all()


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not():
    one, same, other = small(seed=3), small(seed=3), small(seed=4)
    assert timeless(one.history).equals(timeless(same.history))
    assert not timeless(one.history).equals(timeless(other.history))
    for a, b in zip(one.policy.parameters(), same.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_run_neither_reads_nor_moves_the_global_random_state():
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - the global state is what this is about
    before = torch.get_rng_state()
    one = small()
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    assert timeless(one.history).equals(timeless(small().history))


def test_entropy_and_kl_are_measured_on_the_batch_after_the_update():
    """With a step of almost nothing the policy stays: KL about 0, and far below that of a long step."""
    still = small(lr=1e-12, optimizer="sgd").history
    moved = small(lr=0.05).history
    assert (still["approx_kl"] < 1e-9).all()
    assert (moved["approx_kl"] > 1e-6).all()


def test_explained_variance_uses_the_values_of_the_rollout():
    """Fitting the critic within an update does not flatter it: the first one knows nothing yet."""
    first = small(value_epochs=200, value_lr=0.05).history.iloc[0]
    assert first["explained_variance"] < 0.2


def test_what_an_update_reports_is_the_mean_over_its_gradient_steps():
    many = small(epochs=5, lr=0.01, total_steps=32).history.iloc[0]
    one = small(epochs=1, lr=0.01, total_steps=32).history.iloc[0]
    assert many["policy_loss"] != one["policy_loss"]


def test_threads_are_given_back():
    before = torch.get_num_threads()
    seen = []
    with threads(2):
        seen.append(torch.get_num_threads())
        with threads(1):
            seen.append(torch.get_num_threads())
            # NumPy's too: the closed form and the quick actor multiply there.
            assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}
    small(num_threads=1)
    assert seen == [2, 1]
    assert torch.get_num_threads() == before


def test_the_bar_shows_rate_and_time_left(capfd):
    small(progress=True)
    shown = capfd.readouterr().err
    assert "vanilla on CartPole-v1" in shown
    assert "steps/s" in shown
    assert "mean_return" in shown
    small()
    assert capfd.readouterr().err == ""


def test_tensorboard_on_request(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = small(out=tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    logged = events.Scalars("entropy")
    assert [event.step for event in logged] == run.history["steps"].tolist()
    np.testing.assert_allclose([event.value for event in logged], run.history["entropy"], rtol=1e-6)
    with pytest.raises(ValueError, match="out is left out"):
        small(tensorboard=True)


# --------------------------------------------------------------------------------------------- settings


def test_the_config_holds_everything_that_was_asked_for():
    config = small(seed=5, lr=0.01).config
    assert config["algorithm"] == "vanilla"
    assert config["env"] == "CartPole-v1"
    assert config["seed"] == 5
    assert config["lr"] == 0.01
    assert config["hidden"] == (8,)
    assert config["weight"] == "reward_to_go"


def test_given_beats_preset_beats_default(monkeypatch):
    from ppobook.vanilla import Vanilla

    monkeypatch.setattr(Vanilla, "presets", {"CartPole-v1": {"lr": 0.123, "gamma": 0.9}})
    config = small(gamma=0.8).config
    assert config["lr"] == 0.123
    assert config["gamma"] == 0.8
    assert config["entropy_coef"] == VanillaSettings().entropy_coef


BAD = [
    ({"algorithm": "vanila"}, "algorithm is 'vanila'; did you mean 'vanilla'"),
    ({"algorithm": None}, "algorithm is None"),
    ({"env": "CartPol-v1"}, "'CartPol-v1'.*CartPole-v1"),
    ({"env": None}, "env is None"),
    ({"seed": -1}, "seed is -1"),
    ({"seed": 1.5}, "seed is 1.5"),
    ({"total_steps": 0}, "total_steps is 0"),
    ({"total_steps": "many"}, "total_steps is 'many'"),
    ({"total_steps": 10.5}, "total_steps is 10.5"),
    ({"checkpoint_every": 0}, "checkpoint_every is 0"),
    ({"device": "cpuu"}, "device='cpuu'"),
    ({"num_threads": 0}, "num_threads is 0"),
    ({"learning_rate": 0.1}, "vanilla has no setting 'learning_rate'"),
    ({"value_epoch": 3}, "did you mean 'value_epochs'"),
    ({"lam": 1.5}, "vanilla has no setting 'lam'"),
    ({"gamma": 1.5}, r"gamma is 1.5; a number in \[0, 1\]"),
    ({"gamma": "high"}, "gamma is 'high'"),
    ({"lr": 0}, "lr is 0"),
    ({"lr": float("nan")}, "lr is nan"),
    ({"hidden": (8, 0)}, "hidden is 0"),
    ({"num_envs": 2.5}, "num_envs is 2.5"),
    ({"num_steps": True}, "num_steps is True"),
    ({"weight": "rewards_to_go"}, "weight is 'rewards_to_go'; did you mean 'reward_to_go'"),
    ({"baseline": "critic"}, "baseline is 'critic'"),
    ({"optimizer": "Adam"}, "optimizer is 'Adam'; did you mean 'adam'"),
    ({"normalize_advantages": 1}, "normalize_advantages is 1; True or False"),
    ({"env_kwargs": ["length"]}, "env_kwargs is"),
    ({"env_kwargs": {"lenght": 3}}, "lenght"),
    ({"env_kwargs": None}, "env_kwargs is None"),
    ({"env_kwargs": {"num_envs": 5}}, "env_kwargs holds 'num_envs'"),
    ({"env_kwargs": {"env_id": 5}}, "env_kwargs holds 'env_id'"),
    ({"env_kwargs": {1: 1}}, "env_kwargs is {1: 1}; a dict of keyword"),
    ({"env_kwargs": {"nan_at": object()}}, "env_kwargs is .* which no checkpoint can hold"),
    ({"hidden": None}, "hidden is None"),
    ({"hidden": 99999999999}, "hidden is 99999999999; .* at most 8192"),
    ({"num_envs": 1e12}, "num_envs is 1000000000000; .* at most 10000"),
    ({"num_threads": 100_000}, "num_threads is 100000; .* at most 256"),
    ({"lr": 1e300}, r"lr is 1e\+300; .* at most 1e\+37"),
    ({"value_lr": 1e39}, r"value_lr is 1e\+39"),
    ({"device": "meta"}, "device='meta'"),
    ({"progress": "x"}, "progress is 'x'; True or False"),
    ({"tensorboard": "no"}, "tensorboard is 'no'; True or False"),
    ({"out": 3}, "out is 3; the path of a folder"),
    ({"out": b"x"}, "out is b'x'"),
    ({"out": "a\0b"}, "out is 'a"),
    ({"out": " "}, "out is ' '"),
    ({"resume": 3}, "resume is 3; the path of a folder"),
]


# An object's address differs from process to process, and the workers must agree on the names of the tests.
@pytest.mark.parametrize(
    ("change", "sentence"), BAD, ids=[str(change).partition(" at 0x")[0] for change, _ in BAD]
)
def test_bad_input_gets_a_sentence(change, sentence, tmp_path):
    given = {"algorithm": "vanilla", **SMALL, "total_steps": 64, "out": tmp_path / "run", **change}
    with pytest.raises((ValueError, TypeError), match=sentence):
        train(**given)
    assert not (tmp_path / "run").exists()


def test_a_reward_that_is_not_finite_is_refused(tmp_path):
    with pytest.raises(ValueError, match="reward"):
        small(env="ppobook-test/Odd-v0", env_kwargs={"nan_at": 5}, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"optimizer": "sgd", "lr": 1e37, "epochs": 20}, r"lr \(now 1e\+37\)"),
        ({"value_lr": 1e20}, r"value_lr \(now 1e\+20\)"),
        ({"env": "Pendulum-v1", "lr": 1e10}, r"lr \(now 1e\+10\)"),  # finite weights, and infinite spread
    ],
)
def test_weights_beyond_all_bounds_end_the_run(tmp_path, settings, rate):
    with pytest.raises(FloatingPointError, match=f"weights have grown beyond all bounds.*{rate}"):
        small(**settings, out=tmp_path / "run", checkpoint_every=1, total_steps=10_000)
    kept = load(tmp_path / "run")
    assert all(torch.isfinite(p).all() for p in kept.policy.parameters())


def test_an_error_of_a_learner_whose_networks_are_sound_stays_what_it_is(monkeypatch):
    def mistaken(self, rollout):
        raise ValueError("a reader's mistake")

    monkeypatch.setattr(learner_class("vanilla"), "update", mistaken)
    with pytest.raises(ValueError, match="a reader's mistake"):
        small()


def test_numpys_values_are_plain_in_a_checkpoint(tmp_path):
    given = {"length": np.int64(3), "slip": np.float32(0.5), "start": np.array(1)}
    chain = {"env": np.str_("ppobook/Chain-v0"), "env_kwargs": given, "hidden": np.array([8, 8])}
    small(**chain, out=tmp_path / "run")
    config = load(tmp_path / "run").config
    assert config["env_kwargs"] == {"length": 3, "slip": 0.5, "start": 1}
    assert config["hidden"] == (8, 8)
    train(resume=tmp_path / "run", **chain)


# ------------------------------------------------------------------------------------- saving and loading


@pytest.fixture
def run(tmp_path):
    return small(out=tmp_path / "run", checkpoint_every=2)


def test_a_loaded_run_is_the_run(run, tmp_path):
    loaded = load(tmp_path / "run")
    assert loaded.history.equals(run.history)
    assert loaded.config == run.config
    observation = torch.randn(5, 4)
    assert torch.equal(loaded.policy.logits(observation), run.policy.logits(observation))
    assert torch.equal(loaded.value(observation), run.value(observation))


def test_the_folder_has_what_people_read(run, tmp_path):
    import pandas as pd

    folder = tmp_path / "run"
    assert json.loads((folder / "config.json").read_text())["lr"] == run.config["lr"]
    table = pd.read_csv(folder / "history.csv")
    pd.testing.assert_frame_equal(table, run.history, check_exact=True)
    assert [path.name for path in sorted(folder.glob("checkpoint-*"))] == [
        "checkpoint-000006",
        "checkpoint-000007",
    ]


def test_loading_opens_no_pickle_and_makes_no_environment(run, tmp_path, monkeypatch):
    (tmp_path / "run" / "checkpoint-000007" / "environments.pkl").write_bytes(b"not a pickle")
    monkeypatch.setattr("ppobook.training.make_env", None)
    monkeypatch.setattr(pickle, "loads", None)
    assert len(load(tmp_path / "run").history) == 7


@pytest.mark.parametrize("way", ["trained", "loaded"])
def test_save_writes_a_run_that_can_go_on(run, tmp_path, way):
    if way == "loaded":
        run = load(tmp_path / "run")
    copy = run.save(tmp_path / "copy")
    on = train(resume=copy, total_steps=400)
    straight = small(total_steps=400)
    assert timeless(on.history).equals(timeless(straight.history))


def test_a_folder_that_holds_something_is_never_written_to(run, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))}
    with pytest.raises(FileExistsError, match=r"out=.*holds a run already.*resume="):
        small(out=tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"folder=.*holds a run already"):
        run.save(tmp_path / "run")
    assert before == {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "run").rglob("*"))}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match=r"holds 'thesis.tex' already; wanted: a new folder"):
        small(out=tmp_path / "mine")


def test_what_is_no_folder_is_refused(run):
    for fn in (load, run.save):
        with pytest.raises(TypeError, match="folder is None; the path of a folder is wanted"):
            fn(None)


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"out=.*cannot be written"):
        small(out=tmp_path / "file" / "run")


def test_one_run_at_a_time_in_a_folder(run, tmp_path):
    pytest.importorskip("fcntl")
    home = RunFolder("resume", tmp_path / "run")
    with (
        locked(home),
        pytest.raises(ValueError, match=r"resume=.*is being trained in already"),
    ):
        train(resume=home.folder)
    assert train(resume=home.folder).history.equals(run.history)


def denied(*_, **__):
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_may_not_be_written_is_named_as_it_came(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "touch", denied)
    with pytest.raises(OSError, match=r"^resume=.*cannot be written \(Permission denied\)"):
        train(resume=tmp_path / "run", total_steps=400)
    monkeypatch.undo()
    monkeypatch.setattr(checkpoint, "write_synced", denied)
    with pytest.raises(OSError, match=r"^resume=.*any more \(Permission denied\)") as caught:
        train(resume=tmp_path / "run", total_steps=400)
    assert "make room" not in str(caught.value)


def test_a_disk_that_fills_up_leaves_the_earlier_checkpoints(tmp_path, monkeypatch):
    real = write_synced

    def full(path, content):
        if "000004" in str(path):
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(checkpoint, "write_synced", full)
    with pytest.raises(OSError, match=r"No space left on device.*resume"):
        small(out=tmp_path / "run", checkpoint_every=2)
    monkeypatch.undo()
    on = train(resume=tmp_path / "run")
    assert timeless(on.history).equals(timeless(small().history))


@pytest.mark.parametrize("fn", [load, lambda folder: train(resume=folder)], ids=["load", "resume"])
class TestDamagedRuns:
    def test_no_run(self, fn, tmp_path):
        with pytest.raises(OSError, match="is no folder"):
            fn(tmp_path / "nothing")
        with pytest.raises(OSError, match="holds no checkpoint"):
            fn(tmp_path)

    @pytest.mark.parametrize("keep", [0, 1, 100, -1])
    def test_cut_short(self, run, fn, tmp_path, keep):
        path = tmp_path / "run" / "checkpoint-000007" / "state.pt"
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(
            ValueError, match=r"state.pt is cut short.*checkpoint-000006, remove checkpoint-000007"
        ):
            fn(tmp_path / "run")

    def test_damaged(self, run, fn, tmp_path):
        spoil(tmp_path / "run" / "checkpoint-000007" / "state.pt")
        with pytest.raises(ValueError, match=r"state.pt is .*damaged.*checkpoint-000006, remove"):
            fn(tmp_path / "run")

    def test_no_permission_is_no_damage(self, run, fn, tmp_path, monkeypatch):
        monkeypatch.setattr(Path, "read_bytes", denied)
        with pytest.raises(OSError, match=r"cannot be read \(Permission denied\)") as caught:
            fn(tmp_path / "run")
        assert "remove" not in str(caught.value)
        monkeypatch.setattr(Path, "iterdir", denied)
        with pytest.raises(OSError, match=r"cannot be read \(Permission denied\)"):
            fn(tmp_path / "run")

    def test_garbage_is_not_answered_with_torchs_advice(self, run, fn, tmp_path):
        (tmp_path / "run" / "checkpoint-000007" / "state.pt").write_bytes(b"garbage" * 99)
        with pytest.raises(ValueError, match=r"state.pt is cut short") as caught:
            fn(tmp_path / "run")
        assert "weights_only" not in str(caught.value)

    @pytest.mark.parametrize("part", ["config", "learner", "collector"])
    def test_the_right_format_and_something_missing(self, run, fn, tmp_path, part):
        path = tmp_path / "run" / "checkpoint-000007" / "state.pt"
        state = torch.load(path, weights_only=True)
        del state[part]
        torch.save(state, path)
        with pytest.raises(ValueError, match=f"checkpoint-000007/state.pt has no '{part}'"):
            fn(tmp_path / "run")
        if part == "config":
            torch.save({**state, part: {}}, path)
            with pytest.raises(ValueError, match=r"checkpoint-000007/state.pt lacks something"):
                fn(tmp_path / "run")

    def test_a_part_is_missing(self, run, fn, tmp_path):
        (tmp_path / "run" / "checkpoint-000007" / "state.pt").unlink()
        with pytest.raises(OSError, match=r"has no state.pt"):
            fn(tmp_path / "run")

    def test_another_version(self, run, fn, tmp_path):
        path = tmp_path / "run" / "checkpoint-000007" / "state.pt"
        state = torch.load(path, weights_only=True)
        torch.save({**state, "format": 99, "version": "7.0"}, path)
        with pytest.raises(
            ValueError, match=f"by ppobook 7.0 in checkpoint format 99.*{ppobook.__version__}"
        ):
            fn(tmp_path / "run")

    @pytest.mark.parametrize("content", [{"weights": 1}, [1, 2]])
    def test_something_else(self, run, fn, tmp_path, content):
        torch.save(content, tmp_path / "run" / "checkpoint-000007" / "state.pt")
        with pytest.raises(ValueError, match="checkpoint format None"):
            fn(tmp_path / "run")

    def test_code_in_a_checkpoint_is_not_run(self, run, fn, tmp_path):
        class Trap:
            def __reduce__(self):
                return (open, (str(tmp_path / "sprung"), "w"))

        torch.save({"format": 1, "trap": Trap()}, tmp_path / "run" / "checkpoint-000007" / "state.pt")
        with pytest.raises(ValueError, match="no checkpoint of this package"):
            fn(tmp_path / "run")
        assert not (tmp_path / "sprung").exists()

    def test_another_algorithm(self, run, fn, tmp_path):
        path = tmp_path / "run" / "checkpoint-000007" / "state.pt"
        state = torch.load(path, weights_only=True)
        state["config"]["algorithm"] = "dreamer"
        torch.save(state, path)
        with pytest.raises(ValueError, match="run': checkpoint-000007: algorithm is 'dreamer'"):
            fn(tmp_path / "run")


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ({"env": "Acrobot-v1"}, "env='Acrobot-v1'.*has 'CartPole-v1'"),
        ({"algorithm": "ppo"}, "algorithm='ppo'.*has 'vanilla'"),
        ({"seed": 1}, "seed=1"),
        ({"lr": 0.5}, "lr=0.5.*keeps its settings"),
        ({"lam": 0.5}, "has no setting 'lam'"),
        ({"out": "elsewhere"}, "out='elsewhere'"),
    ],
)
def test_a_resumed_run_keeps_its_settings(run, tmp_path, argument, sentence):
    with pytest.raises(ValueError, match=sentence):
        train(resume=tmp_path / "run", **argument)
    same = train("vanilla", resume=tmp_path / "run", env="CartPole-v1", hidden=[8])
    assert same.history.equals(run.history)


def test_an_environment_state_that_is_cut_short_is_refused(run, tmp_path):
    path = tmp_path / "run" / "checkpoint-000007" / "environments.pkl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"environments.pkl.*cut short.*without it the run"):
        train(resume=tmp_path / "run", total_steps=400)


# ---------------------------------------------------------------------------------- learners of one's own


@dataclasses.dataclass(frozen=True)
class OwnSettings(Vanilla.settings_class):
    memory: float = setting(0.5, "of the average", low=0, high=1)
    temperature: float | None = setting(None, "none for one that is learned", above=0)
    word: str = "plain"  # a field without a door of its own
    pair: tuple[float, ...] = (0.5,)


class OwnPolicy(torch.nn.Module):
    """No class of the book's: layers of torch, and the methods that a policy has."""

    def __init__(self, size, actions):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(size, 8), torch.nn.ReLU(), torch.nn.Linear(8, actions)
        )

    def distribution(self, observations):
        return Categorical(self.layers(observations))

    @torch.no_grad()
    def sample(self, observations, generator=None):
        distribution = self.distribution(observations)
        actions = distribution.sample(generator)
        return actions, distribution.logp(actions)

    def logp(self, observations, actions):
        return self.distribution(observations).logp(actions)

    def entropy(self, observations):
        return self.distribution(observations).entropy()

    def mode(self, observations):
        return self.layers(observations).argmax(-1)

    def in_bounds(self, actions):
        return actions


class Own(Vanilla):
    """What a user might write: own network, own setting, own state, own column."""

    settings_class = OwnSettings
    state_attributes = (*Vanilla.state_attributes, "average", "dice", "draw", "weights")

    def __init__(self, observation_space, action_space, settings, **kwargs):
        super().__init__(observation_space, action_space, settings, **kwargs)
        self.average = 0.0
        self.dice = np.random.default_rng(0)
        self.draw = torch.Generator().manual_seed(0)
        self.weights = torch.zeros(3)

    def networks(self, observation_space, action_space, seed):
        _, value = super().networks(observation_space, action_space, seed)
        return OwnPolicy(observation_space.shape[0], int(action_space.n)), value

    def update(self, rollout):
        metrics = super().update(rollout)
        m = self.settings.memory
        self.average = m * self.average + (1 - m) * metrics["policy_loss"]
        self.weights = self.weights + torch.rand(3, generator=self.draw)
        chance = {"dice": self.dice.random(), "drawn": self.weights.sum()}
        late = {"late": 1.0} if self.progress > 0.5 else {}
        return {**metrics, **late, **chance, "average": self.average, "progress": self.progress}


def own(**changes):
    return train(Own, **{**SMALL, "total_steps": 200, **changes})


def test_a_learner_of_ones_own_trains_and_adds_columns(tmp_path):
    run = own(memory=0.25, pair=[1, 0.5])
    assert run.config["algorithm"] == "tests.test_training:Own"
    assert run.config["memory"] == 0.25
    assert run.config["pair"] == (1.0, 0.5)
    assert list(run.history.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert run.history["progress"].tolist() == [32 * i / 200 for i in range(7)]
    assert run.history["late"].isna().tolist() == [True] * 4 + [False] * 3
    assert not run.history["average"].equals(own().history["average"])
    same = own(memory=0.25, pair=[1, 0.5])
    assert torch.equal(run.policy.layers[0].weight, same.policy.layers[0].weight)
    assert timeless(run.history).equals(timeless(same.history))


def test_its_state_is_remembered_and_its_class_is_asked_for(tmp_path):
    unbroken = own()
    own(total_steps=100, out=tmp_path / "run")
    short = r"trained by 'tests.test_training:Own', a class that is not ppobook's; .*load\(folder, learner=Own\)"
    for fn in (load, lambda folder: train(resume=folder), lambda folder: train("vanilla", resume=folder)):
        with pytest.raises(ValueError, match=short):
            fn(tmp_path / "run")
    with pytest.raises(
        ValueError, match="learner is 'vanilla', and the run was trained by 'tests.test_training:Own'"
    ):
        load(tmp_path / "run", learner=Vanilla)
    on = train(Own, resume=tmp_path / "run", total_steps=200)
    played = timeless(on.history).drop(columns=["progress", "late"])  # these know the total
    assert played.equals(timeless(unbroken.history).drop(columns=["progress", "late"]))
    assert load(tmp_path / "run", learner=Own).history.equals(on.history)
    assert torch.equal(on.policy.layers[0].weight, unbroken.policy.layers[0].weight)


def test_a_class_may_move_from_a_notebook_to_a_module(tmp_path, monkeypatch):
    monkeypatch.setattr(Own, "__module__", "__main__")
    run = own(total_steps=32, out=tmp_path / "run")
    assert run.config["algorithm"] == "__main__:Own"
    monkeypatch.undo()
    assert len(load(tmp_path / "run", learner=Own).history) == 1


def test_a_run_of_the_books_takes_no_other_class(tmp_path):
    small(total_steps=32, out=tmp_path / "run")
    assert load(tmp_path / "run", learner=Vanilla).config["algorithm"] == "vanilla"
    with pytest.raises(
        ValueError, match="learner is 'tests.test_training:Own', and the run was trained by 'vanilla'"
    ):
        load(tmp_path / "run", learner=Own)


def test_a_class_that_has_gained_a_setting_says_so(tmp_path, monkeypatch):
    own(total_steps=32, out=tmp_path / "run")

    @dataclasses.dataclass(frozen=True)
    class More(OwnSettings):
        more: int = 3

    monkeypatch.setattr(Own, "settings_class", More)
    with pytest.raises(ValueError, match="Own has the setting 'more', which the run was made without"):
        load(tmp_path / "run", learner=Own)


def test_global_random_numbers_stay_as_they_were_when_networks_are_made():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    own(total_steps=32)
    assert torch.equal(before, torch.get_rng_state())


def learner(**members):
    return type("Mine", (Vanilla,), members)


def forgetful(self, *args, **kwargs):
    Vanilla.__init__(self, *args, **kwargs)
    self.extra = torch.nn.Linear(2, 2)


class Bare(torch.nn.Module):
    def sample(self, observations, generator=None):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (int, "algorithm is the class int; a subclass of Learner is wanted"),
        (learner(networks=lambda *_: None), r"Mine.networks returned NoneType; a pair \(policy, value\)"),
        (learner(networks=lambda *_: (3, None)), "returned a policy of type int; a torch.nn.Module"),
        (learner(networks=lambda *_: (OwnPolicy(4, 2), 3)), "returned a value of type int"),
        (learner(networks=lambda *_: (OwnPolicy(4, 2), None)), "returned no value, and this algorithm has a"),
        (learner(networks=lambda *_: (Bare(), None)), "a policy of type Bare, which has no .*logp.*entropy"),
        (
            learner(state_attributes=("policy", "polisy")),
            "Mine.state_attributes lists 'polisy', which it does not have",
        ),
        (learner(__init__=forgetful), "Mine has extra, a Linear, which its checkpoints would lack"),
        (learner(state_attributes=("policy", "value")), "Mine has policy_optimizer, a Adam"),
        (
            learner(settings_class=type("S", (OwnSettings,), {"__annotations__": {"x": int}, "x": 1})),
            "S adds 'x'",
        ),
    ],
)
def test_a_learner_that_will_not_do_gets_a_sentence(kind, sentence, tmp_path):
    with pytest.raises((TypeError, ValueError), match=sentence):
        train(kind, **SMALL, total_steps=32, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), ("none", None), ("None", None), (2, 2.0), (0.5, 0.5)],
)
def test_a_setting_that_may_be_none(given, kept):
    assert OwnSettings.checked("temperature", given) == kept


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("temperature", 0, "temperature is 0; a number above 0"),
        ("temperature", "x", "temperature is 'x'"),
        ("memory", None, "memory is None"),
        ("memory", "none", "memory is 'none'"),
        ("word", 3, "word is 3; a string is wanted"),
        ("pair", ("a",), "pair is 'a'"),
    ],
)
def test_settings_of_ones_own_have_doors(name, given, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        OwnSettings.checked(name, given)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(3),
        gym.spaces.MultiDiscrete([3, 2, 4]),
        gym.spaces.MultiDiscrete([3, 2], start=[0, 1]),
        gym.spaces.MultiBinary(3),
        gym.spaces.Box(-1, np.array([1, np.inf], np.float32), (2,), np.float32),
    ],
    ids=str,
)
def test_spaces_are_kept_in_plain_data(space):
    described = describe_space(space)
    assert space_of(json.loads(json.dumps(described))) == space
