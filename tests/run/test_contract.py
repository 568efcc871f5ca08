"""The contract of every run, control or language: folder, resuming, refusals, a user's own class."""

import json
import pickle
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from engines import CONTROL, ENGINES
from small_language import timeless

from ppobook.run.folder import RunFolder, checkpoints, locked


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request):
    return request.param


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """A run of each engine, with its folder; to be copied."""
    made = {}
    for one in ENGINES:
        folder = tmp_path_factory.mktemp(one.name) / "run"
        made[one.name] = one.new(out=folder), folder
    return made


@pytest.fixture
def run(engine, stored):
    return stored[engine.name][0]


@pytest.fixture
def folder(engine, stored, tmp_path):
    shutil.copytree(stored[engine.name][1], tmp_path / "run")
    return tmp_path / "run"


def listed(config):
    return {name: list(x) if isinstance(x, tuple) else x for name, x in config.items()}


def written(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


# ------------------------------------------------------------------------------------------ run and folder


def test_a_run_and_its_folder(engine, run, folder):
    assert run.history["update"].tolist() == list(range(1, 8))
    assert run.history["update"].dtype == np.int64
    assert (run.history["seconds"].diff().dropna() > 0).all()
    assert json.loads((folder / "config.json").read_text()) == listed(run.config)
    assert {engine.argument, "seed", "checkpoint_every", "device", "lr"} <= run.config.keys()
    pd.testing.assert_frame_equal(pd.read_csv(folder / "history.csv"), run.history, check_exact=True)
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-000006", "checkpoint-000007"]
    assert repr(run) in ("Run(vanilla on CartPole-v1, 7 updates)", "Run(sft, 7 updates)")


def test_a_checkpoint_holds_plain_data_and_no_code(folder, run):
    state = torch.load(folder / "checkpoint-000007" / "state.pt", weights_only=True)
    assert state["config"] == run.config
    assert json.loads(json.dumps(state["config"])) == listed(state["config"])


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(engine, run):
    engine.same_run(run, engine.new())
    assert not timeless(run.history).equals(timeless(engine.new(seed=1).history))


def test_a_run_neither_reads_nor_moves_the_global_random_state(engine, run):
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002 - the global state is what this is about
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    engine.same_run(run, engine.new())
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


def test_load_and_save_give_the_run_back(engine, run, folder, tmp_path):
    engine.same_run(engine.load(folder), run)
    assert engine.load(folder).config == run.config
    longer = engine.new(**engine.longer)
    changed = engine.load(folder)
    changed.history["mine"] = changed.config["mine"] = 1.0  # is not what was trained
    for name, one in (("trained", run), ("loaded", engine.load(folder)), ("changed", changed)):
        copy = one.save(tmp_path / name)
        engine.same_run(engine.load(copy), run)
        engine.same_run(engine.train(resume=copy, **engine.longer), longer)


def test_a_finished_run_is_left_as_it_is(engine, run, folder):
    before = written(folder)
    engine.same_run(engine.train(resume=folder), run)
    assert written(folder) == before


def test_a_folder_that_holds_something_is_never_written_to(engine, run, folder, tmp_path):
    before = written(folder)
    message = (
        r"out=.*new folder, got one that holds a run up to checkpoint-000007. Pass resume=.* to continue"
    )
    with pytest.raises(FileExistsError, match=message):
        engine.new(out=folder)
    with pytest.raises(FileExistsError, match=r"folder=.*got one that holds a run up to checkpoint-000007$"):
        run.save(folder)
    assert written(folder) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match=r"must be a new folder, got one that holds 'thesis.tex'"):
        engine.new(out=tmp_path / "mine")


def test_one_process_at_a_time_trains_in_a_folder(engine, folder):
    pytest.importorskip("fcntl")
    with (
        locked(RunFolder("resume", folder)),
        pytest.raises(ValueError, match=r"resume=.*that no other process trains in, got one in use"),
    ):
        engine.train(resume=folder, **engine.longer)
    assert len(engine.train(resume=folder, **engine.longer).history) == 11


# -------------------------------------------------------------------------------------------- damaged runs


def spoil(path):
    """Turn a byte of the largest entry of an archive round, behind the archive's back."""
    with zipfile.ZipFile(path) as archive:
        entry = max(archive.infolist(), key=lambda one: one.file_size)
    content = bytearray(path.read_bytes())
    # Behind the entry's own header, which is its name and padding and well below this.
    content[entry.header_offset + 128 + entry.file_size // 2] ^= 0x41
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() == entry.filename


def state_of(folder):
    path = folder / "checkpoint-000007" / "state.pt"
    return path, torch.load(path, weights_only=True)


def truncated(keep):
    def damage(folder):
        path, _ = state_of(folder)
        path.write_bytes(path.read_bytes()[:keep])

    return damage


def saved(change):
    def damage(folder):
        path, state = state_of(folder)
        torch.save(change(state), path)

    return damage


HINT = r"got a truncated or damaged file.*To go back to checkpoint-000006, remove checkpoint-000007"
DAMAGES = {
    "no folder": (shutil.rmtree, OSError, "must be the folder of a run, got no folder"),
    "no checkpoint": (
        lambda folder: [shutil.rmtree(path) for path in checkpoints(folder)],
        OSError,
        "must be the folder of a run, got a folder without a checkpoint",
    ),
    "truncated": (truncated(100), ValueError, HINT),
    "damaged": (lambda folder: spoil(state_of(folder)[0]), ValueError, HINT),
    "no state": (lambda folder: state_of(folder)[0].unlink(), OSError, "state.pt"),
    "another version": (
        saved(lambda state: {**state, "format": "99"}),
        ValueError,
        r"must be written by ppobook.*train, as 'ppobook.*train 2', got '99'",
    ),
}


@pytest.mark.parametrize("way", ["load", "resume"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_runs(engine, folder, damage, way):
    damages, error, message = DAMAGES[damage]
    damages(folder)
    with pytest.raises(error, match=message):
        engine.load(folder) if way == "load" else engine.train(resume=folder)


def test_code_in_a_checkpoint_is_not_run(engine, folder, tmp_path, monkeypatch):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path, state = state_of(folder)
    monkeypatch.setattr(pickle, "loads", None)
    torch.save({**state, "trap": Trap()}, path)
    for read in (engine.load, lambda folder: engine.train(resume=folder)):
        with pytest.raises(ValueError, match="must be a checkpoint of ppobook"):
            read(folder)
    assert not (tmp_path / "sprung").exists()


# ---------------------------------------------------------------------------------------------- arguments

BAD_ARGUMENTS = [
    ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ({"device": "abacus"}, "device must be 'cpu' or an accelerator that torch can use, got 'abacus'"),
    ({"tensorboard": True, "out": None}, "out must be a folder for the events of tensorboard=True, got None"),
    ({"lr": 0}, "lr must be a number above 0"),
]


@pytest.mark.parametrize(("change", "message"), BAD_ARGUMENTS, ids=lambda x: str(x).partition(" must")[0])
def test_bad_arguments_leave_no_folder(engine, change, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        engine.new(**{"out": tmp_path / "run", **change})
    assert not (tmp_path / "run").exists()


RESUMED_WITH = [
    ({"lr": 0.5}, r"lr must be left out on resume, or 0.003 as in '.*run', got 0.5"),
    (
        {"out": "elsewhere"},
        "out must be left out with resume, whose folder the run stays in, got 'elsewhere'",
    ),
    ({"updates": 3}, "(updates must be at least 7, as many as are done, got 3|updates must be left out)"),
    ({"algorithm": "ppo"}, "algorithm must be '?(vanilla'|left out)"),
]


@pytest.mark.parametrize(("change", "message"), RESUMED_WITH, ids=lambda x: str(x).partition(" must")[0])
def test_a_resumed_run_keeps_what_it_was_asked_for(engine, folder, change, message):
    before = written(folder)
    with pytest.raises((ValueError, TypeError), match=message):
        engine.train(resume=folder, **{**engine.longer, **change})
    assert written(folder) == before


# --------------------------------------------------------------------------------- stopping, failing, showing


def test_diverging_weights_end_the_run(engine, tmp_path):
    message = r"has diverged in update \d+: .* must (stay|be) finite.*; try a smaller learning rate"
    with pytest.raises(FloatingPointError, match=message):
        engine.diverges(out=tmp_path / "run", checkpoint_every=1)
    weights = getattr(engine.load(tmp_path / "run"), engine.module).state_dict().values()
    assert all(torch.isfinite(x).all() for x in weights)


def test_tensorboard(engine, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = engine.new(out=tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    logged = events.Scalars("grad_norm")
    counter = "steps" if engine is CONTROL else "update"
    assert [event.step for event in logged] == run.history[counter].tolist()
    np.testing.assert_allclose([event.value for event in logged], run.history["grad_norm"], rtol=1e-6)


# ------------------------------------------------------------------------------------- a class of the user's


def test_a_users_class_is_passed_to_resume(engine, tmp_path):
    unbroken = engine.own_run(seed=3, **engine.longer)
    engine.own_run(seed=3, out=tmp_path / "run")
    name = f"{engine.own.__module__}:Own"
    assert json.loads((tmp_path / "run" / "config.json").read_text())[engine.argument] == name
    message = rf"{engine.argument} must be the class that .*, '{name}', got None: pass {engine.argument}=Own$"
    with pytest.raises(ValueError, match=message):
        engine.train(resume=tmp_path / "run")
    for other in (engine.kind, {"control": "vanilla", "language": "sft"}[engine.name]):
        with pytest.raises(
            ValueError, match=f"{engine.argument} must be '{name}', which the run was trained"
        ):
            engine.train(**{engine.argument: other}, resume=tmp_path / "run")
    on = engine.train(**{engine.argument: engine.own}, resume=tmp_path / "run", **engine.longer)
    knows_the_total = [name for name in ("progress", "late") if name in on.history and engine is CONTROL]
    one, two = (timeless(x.history).drop(columns=knows_the_total) for x in (on, unbroken))
    assert one.equals(two)
    a, b = (getattr(x, engine.module).state_dict() for x in (on, unbroken))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert len(engine.load_own(tmp_path / "run", engine.own).history) == 11
