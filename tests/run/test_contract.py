"""What the runs of control and of language have in common: folder, resuming, refusals, a user's own class."""

import dataclasses
import json
import pickle
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from engines import CONTROL, ENGINES, LANGUAGE
from small_language import timeless
from spoiling import spoil

from ppobook.run import checkpoint as checkpoint_module
from ppobook.run.checkpoint import delete_later
from ppobook.run.files import write_synced
from ppobook.run.folder import RunFolder, checkpoints
from ppobook.run.interrupts import Interrupted
from ppobook.run.lock import locked


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


def denied(*_, **__):
    raise PermissionError(13, "Permission denied")


# ------------------------------------------------------------------------------------------ run and folder


def test_a_run_and_its_folder(engine, run, folder):
    assert run.history["update"].tolist() == list(range(1, 8))
    assert run.history["update"].dtype == np.int64
    assert (run.history["seconds"].diff().dropna() > 0).all()
    assert json.loads((folder / "config.json").read_text()) == listed(run.config)
    assert {engine.argument, "seed", "checkpoint_every", "device", "fast", "lr"} <= run.config.keys()
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


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_every_checkpoint_can_be_resumed(engine, run, tmp_path, stop):
    short = {"total_steps": 32 * max(stop, 1)} if engine is CONTROL else {"updates": max(stop, 1)}
    engine.new(out=tmp_path / "run", **short)
    delete_later(tmp_path / "run", stop)
    full = {"total_steps": 200} if engine is CONTROL else {"updates": 7}
    engine.same_run(engine.train(resume=tmp_path / "run", **full), run)


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


def test_a_folder_that_cannot_be_written(engine, folder, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"out=.*must be a folder that can be written, got: Not a directory"):
        engine.new(out=tmp_path / "file" / "run")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "touch", denied)
        with pytest.raises(OSError, match=r"^resume=.*can be written, got: Permission denied$"):
            engine.train(resume=folder, **engine.longer)
    monkeypatch.setattr(checkpoint_module, "write_synced", denied)
    with pytest.raises(OSError, match=r"^resume=.*got: Permission denied; update 7 is saved"):
        engine.train(resume=folder, **engine.longer)


def test_a_disk_that_fills_up_leaves_the_earlier_checkpoints(engine, run, tmp_path, monkeypatch):
    def full(path, content):
        if "000004" in str(path):
            raise OSError(28, "No space left on device")
        write_synced(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_module, "write_synced", full)
        with pytest.raises(OSError, match=r"No space left on device.*make room and resume"):
            engine.new(out=tmp_path / "run")
    engine.same_run(engine.train(resume=tmp_path / "run"), run)


def test_one_process_at_a_time_trains_in_a_folder(engine, folder):
    pytest.importorskip("fcntl")
    with (
        locked(RunFolder("resume", folder)),
        pytest.raises(ValueError, match=r"resume=.*that no other process trains in, got one in use"),
    ):
        engine.train(resume=folder, **engine.longer)
    assert len(engine.train(resume=folder, **engine.longer).history) == 11


# -------------------------------------------------------------------------------------------- damaged runs


def state_of(folder):
    path = folder / "checkpoint-000007" / "state.pt"
    return path, torch.load(path, weights_only=True)


def changed_state(change):
    def damage(folder):
        path, state = state_of(folder)
        torch.save(change(state), path)

    return damage


def without(*places):
    def change(state):
        inner = state
        for place in places[:-1]:
            inner = inner[place]
        del inner[places[-1]]
        return state

    return changed_state(change)


def truncated(keep):
    def damage(folder):
        path, _ = state_of(folder)
        path.write_bytes(path.read_bytes()[:keep])

    return damage


def test_a_checkpoint_in_the_place_of_its_run(engine, folder):
    said = f"must be the folder of a run, got a checkpoint of one: pass {str(folder)!r}"
    with pytest.raises(OSError, match=re.escape(said)):
        engine.load(folder / "checkpoint-000007")


HINT = r".*To go back to checkpoint-000006, remove checkpoint-000007"
DAMAGES = {
    "no folder": (shutil.rmtree, OSError, "must be the folder of a run, got a folder that does not exist"),
    "no checkpoint": (
        lambda folder: [shutil.rmtree(path) for path in checkpoints(folder)],
        OSError,
        "must be the folder of a run, got one without a checkpoint",
    ),
    "empty": (truncated(0), ValueError, "got a truncated or damaged file" + HINT),
    "a byte": (truncated(1), ValueError, "got a truncated or damaged file" + HINT),
    "truncated": (truncated(100), ValueError, "got a truncated or damaged file" + HINT),
    "truncated by a byte": (truncated(-1), ValueError, "got a truncated or damaged file" + HINT),
    "damaged": (lambda f: spoil(state_of(f)[0]), ValueError, "got a truncated or damaged file" + HINT),
    "garbage": (
        lambda f: state_of(f)[0].write_bytes(b"garbage" * 99),
        ValueError,
        r"state.pt must be a checkpoint of ppobook, got a truncated or damaged file(?!.*weights_only)",
    ),
    "no state": (lambda f: state_of(f)[0].unlink(), OSError, "must hold state.pt, got a checkpoint without"),
    "without config": (without("config"), ValueError, "checkpoint-000007/state.pt must have 'config', got '"),
    "without history": (without("history"), ValueError, "state.pt must have 'history'"),
    "another version": (
        changed_state(lambda state: {**state, "format": 99, "version": "7.0"}),
        ValueError,
        r"must be written by ppobook.*train.*'ppobook.*train 2'.*got the format 99 of ppobook 7",
    ),
    "something else": (changed_state(lambda _: {"weights": 1}), ValueError, "got the format None"),
    "a list": (changed_state(lambda _: [1, 2]), ValueError, "got the format None"),
}


@pytest.mark.parametrize("way", ["load", "resume"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_runs(engine, folder, damage, way):
    damages, error, message = DAMAGES[damage]
    damages(folder)
    with pytest.raises(error, match=message):
        engine.load(folder) if way == "load" else engine.train(resume=folder)


def test_an_earlier_checkpoint_is_offered_only_where_there_is_one(engine, folder):
    truncated(9)(folder)
    for path in checkpoints(folder)[:-1]:
        shutil.rmtree(path)
    with pytest.raises(ValueError, match=r"got a truncated or damaged file$"):
        engine.load(folder)


def test_missing_parts(engine, folder):
    original, state = state_of(folder)
    for part in {engine.state, "collector" if engine is CONTROL else "architecture"}:
        torch.save({name: x for name, x in state.items() if name != part}, original)
        with pytest.raises(ValueError, match=f"checkpoint-000007/state.pt must have '{part}', got"):
            engine.load(folder)
    inner = {name: x for name, x in state[engine.state].items() if name != engine.module}
    torch.save({**state, engine.state: inner}, original)
    with pytest.raises(ValueError, match=f"checkpoint-000007.*'{engine.module}'"):
        engine.load(folder)


def test_a_checkpoint_that_may_not_be_read_is_not_called_damaged(engine, folder, monkeypatch):
    for method in ("read_bytes", "iterdir"):
        with monkeypatch.context() as patched:
            patched.setattr(Path, method, denied)
            with pytest.raises(OSError, match=r"Permission denied") as caught:
                engine.load(folder)
            assert "remove" not in str(caught.value)


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


def test_runs_of_the_other_engine_are_told_apart(stored):
    for one, other in ((CONTROL, LANGUAGE), (LANGUAGE, CONTROL)):
        mine, theirs = (
            ("a language model", "a policy") if other is CONTROL else ("a policy", "a language model")
        )
        message = f"must be the run of {mine}, got {theirs}'s: it is for ppobook"
        for read in (one.load, lambda folder, train=one.train: train(resume=folder)):
            with pytest.raises(ValueError, match=message):
                read(stored[other.name][1])


def test_a_class_that_does_not_exist_any_more(engine, folder):
    changed_state(lambda state: {**state, "config": {**state["config"], engine.argument: "dreamer"}})(folder)
    with pytest.raises(ValueError, match=f"checkpoint-000007: {engine.argument} must be one of .*'dreamer'"):
        engine.train(resume=folder)


# ---------------------------------------------------------------------------------------------- arguments

BAD_ARGUMENTS = [
    ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ({"seed": 1.5}, "seed must be an integer of at least 0, got 1.5"),
    ({"checkpoint_every": 0}, "checkpoint_every must be an integer of at least 1, got 0"),
    ({"device": "abacus"}, "device must be 'cpu' or an accelerator that torch can use, got 'abacus'"),
    ({"device": "gpu"}, r"that torch can use, got 'gpu'\. Did you mean 'cuda'\?$"),
    ({"device": "meta"}, "device must be 'cpu' or .* got 'meta'"),
    ({"num_threads": 0}, r"num_threads must be an integer in \[1, 256\], got 0"),
    ({"num_threads": 100_000}, r"num_threads must be an integer in \[1, 256\], got 100000"),
    ({"progress": "x"}, "progress must be True or False, got 'x'"),
    ({"tensorboard": "no"}, "tensorboard must be True or False, got 'no'"),
    ({"tensorboard": True, "out": None}, "out must be a folder for the events of tensorboard=True, got None"),
    ({"out": 3}, "out must be the path of a folder, got 3"),
    ({"out": b"x"}, "out must be the path of a folder, got b'x'"),
    ({"out": "a\0b"}, "out must be the path of a folder, got 'a"),
    ({"out": " "}, "out must be the path of a folder, got ' '"),
    ({"resume": 3}, "resume must be the path of a folder, got 3"),
    ({"learning_rate": 0.1}, "learning_rate"),
    ({"lr": 0}, "lr must be a number above 0"),
    ({"lr": float("nan")}, "lr must be .* got nan"),
]


@pytest.mark.parametrize(("change", "message"), BAD_ARGUMENTS, ids=lambda x: str(x).partition(" must")[0])
def test_bad_arguments_leave_no_folder(engine, change, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        engine.new(**{"out": tmp_path / "run", **change})
    assert not (tmp_path / "run").exists()


def test_a_path_must_be_one(engine, run):
    for call in (engine.load, run.save):
        with pytest.raises(TypeError, match="folder must be the path of a folder, got None"):
            call(None)


RESUMED_WITH = [
    ({"lr": 0.5}, r"lr must be left out on resume, or 0.003 as in '.*run', got 0.5"),
    ({"lr": "x"}, "lr must be a number"),
    ({"seed": 1}, "seed must be left out on resume, or 0 as in .*, got 1"),
    ({"depth": 8}, "depth must be left out on resume, for the run has no such setting, got 8"),
    ({"device": "cuda:99"}, "device must be 'cpu' or"),
    (
        {"out": "elsewhere"},
        "out must be left out with resume, whose folder the run stays in, got 'elsewhere'",
    ),
    ({"updates": 0}, "updates must be"),
    ({"total_steps": 0}, "total_steps must be"),
    ({"algorithm": "ppo"}, "algorithm must be '?(vanilla'|left out)"),
    ({"stage": "dpo"}, "stage must be '?(sft'|left out)"),
    ({"env": "Acrobot-v1"}, "env must be left out on resume"),
]


@pytest.mark.parametrize(("change", "message"), RESUMED_WITH, ids=lambda x: str(x).partition(" must")[0])
def test_a_resumed_run_keeps_what_it_was_asked_for(engine, folder, change, message):
    before = written(folder)
    with pytest.raises((ValueError, TypeError), match=message):
        engine.train(resume=folder, **{**engine.longer, **change})
    assert written(folder) == before


def test_what_a_resumed_run_has_may_be_passed_again(engine, run, folder):
    names = [engine.argument, "seed", "lr", "device", "fast", "checkpoint_every"]
    engine.same_run(engine.train(resume=folder, **{name: run.config[name] for name in names}), run)


# --------------------------------------------------------------------------------- stopping, failing, showing


@pytest.mark.parametrize("out", [True, False])
def test_ctrl_c_finishes_the_update_and_loses_nothing(engine, run, tmp_path, monkeypatch, out):
    real, calls, folder = getattr(engine.kind, engine.method), [], tmp_path / "run"

    def pressed(self, *given):
        calls.append(None)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return real(self, *given)

    before = signal.getsignal(signal.SIGINT)
    kept = re.escape(f"go on with resume={str(folder)!r}") if out else r"kept only in \.run"
    with monkeypatch.context() as patched:
        patched.setattr(engine.kind, engine.method, pressed)
        with pytest.raises(Interrupted, match=f"^stopped by Ctrl-C after update 3.*{kept}") as caught:
            engine.new(out=folder if out else None)
    assert signal.getsignal(signal.SIGINT) is before
    assert len(caught.value.run.history) == 3
    engine.same_run(engine.train(resume=folder if out else caught.value.run.save(folder)), run)


def test_diverging_weights_end_the_run(engine, tmp_path):
    rate = {"control": r"1e\+37", "language": "1"}[engine.name]
    message = rf"has diverged in update \d+: weights must stay finite; try a smaller lr \(now {rate}\)"
    with pytest.raises(FloatingPointError, match=message):
        engine.diverges(out=tmp_path / "run", checkpoint_every=1)
    weights = getattr(engine.load(tmp_path / "run"), engine.module).state_dict().values()
    assert all(torch.isfinite(x).all() for x in weights)


def test_an_error_of_an_update_stays_what_it_is(engine, monkeypatch):
    def mistaken(self, *given):
        raise ValueError("a user's mistake")

    monkeypatch.setattr(engine.kind, engine.method, mistaken)
    with pytest.raises(ValueError, match=r"^a user's mistake$"):
        engine.new()


def test_the_progress_bar(engine, capfd):
    engine.new(progress=True)
    shown = capfd.readouterr().err
    assert {"control": "vanilla on CartPole-v1", "language": "sft"}[engine.name] in shown
    assert {"control": "steps/s", "language": "updates/s"}[engine.name] in shown
    assert {"control": "mean_return", "language": "loss"}[engine.name] in shown
    engine.new(progress=False)
    assert capfd.readouterr().err == ""


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


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_that_the_caller_has_switched_off_are_on_in_training(engine, run, off):
    with off():
        same = engine.new()
        assert not torch.is_grad_enabled()
    engine.same_run(run, same)


# ------------------------------------------------------------------------------------- a class of the user's


def changed(engine, **members):
    return type("Mine", (engine.own,), members)


def with_extra(engine, make):
    def init(self, *given, **named):
        engine.own.__init__(self, *given, **named)
        self.extra = make()

    return init


def test_a_users_class_is_passed_to_resume(engine, tmp_path):
    unbroken = engine.own_run(seed=3, **engine.longer)
    engine.own_run(seed=3, out=tmp_path / "run")
    name = f"{engine.own.__module__}:Own"
    assert json.loads((tmp_path / "run" / "config.json").read_text())[engine.argument] == name
    message = (
        rf"{engine.argument} must be the class that .*, '{name}', got None: pass {engine.argument}=Own, or"
    )
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


def test_a_users_class_may_move_to_another_module(engine, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(engine.own, "__module__", "__main__")
        run = engine.own_run(out=tmp_path / "run")
        assert run.config[engine.argument] == "__main__:Own"
    on = engine.train(**{engine.argument: engine.own}, resume=tmp_path / "run", **engine.longer)
    assert len(on.history) == 11


def test_a_run_of_the_library_takes_no_other_class(engine, folder):
    with pytest.raises(ValueError, match=f"{engine.argument} must be '(vanilla|sft)', which the run was tr"):
        engine.train(**{engine.argument: engine.own}, resume=folder, **engine.longer)


def test_a_class_with_a_new_setting(engine, tmp_path, monkeypatch):
    engine.own_run(out=tmp_path / "run")

    @dataclasses.dataclass(frozen=True)
    class More(engine.own.settings_class):
        more: int = 3

    monkeypatch.setattr(engine.own, "settings_class", More)
    with pytest.raises(ValueError, match=r"Own must have the settings that it had .*got a new one, 'more'"):
        engine.train(**{engine.argument: engine.own}, resume=tmp_path / "run", **engine.longer)


UNFIT = {
    "another class": (lambda e: int, "must be a subclass of (Learner|Stage), got the class int"),
    "no class": (lambda e: 3, "must be one of .*, got 3"),
    "a name": (
        lambda e: "vanila" if e is CONTROL else "pppo",
        "must be one of .*Did you mean '(vanilla|ppo)'",
    ),
    "None": (lambda e: None, "must be one of"),
    "a state attribute that does not exist": (
        lambda e: changed(e, state_attributes=(*e.own.state_attributes, "gone")),
        "Mine.state_attributes must list attributes that exist after __init__, got 'gone'",
    ),
    "a module that is not listed": (
        lambda e: changed(e, __init__=with_extra(e, lambda: torch.nn.Linear(2, 2))),
        "Mine.state_attributes must list 'extra', a Linear that its checkpoints would lack, got",
    ),
    "a generator that is not listed": (
        lambda e: changed(e, __init__=with_extra(e, torch.Generator)),
        "must list 'extra', a Generator that",
    ),
    "what a checkpoint can't hold": (
        lambda e: changed(
            e, __init__=with_extra(e, object), state_attributes=(*e.own.state_attributes, "extra")
        ),
        "extra .*<object",
    ),
    "settings without a decorator": (
        lambda e: changed(
            e, settings_class=type("S", (e.own.settings_class,), {"__annotations__": {"x": int}, "x": 1})
        ),
        "'x'",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_unfit_class_leaves_no_folder(engine, case, tmp_path):
    make, message = UNFIT[case]
    train = engine.own_run if isinstance(make(engine), type) else engine.new
    with pytest.raises((TypeError, ValueError), match=message):
        train(**{engine.argument: make(engine)}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


METRICS = [
    (None, r"Mine.(update|step) must return a dict of numbers, got NoneType"),
    ({"loss": "low"}, r"must return one number for 'loss', got str"),
    ({"loss": torch.zeros(2)}, r"must return one number for 'loss', got Tensor"),
    ({"update": 1.0}, r"must not return a column that the loop fills, got 'update'"),
    ({"seconds_mine": 1.0}, r"must not return a column that the loop fills, got 'seconds_mine'"),
]


@pytest.mark.parametrize(("returned", "message"), METRICS, ids=lambda x: str(x)[:30])
def test_metrics_are_checked_in_the_first_update(engine, returned, message):
    kind = changed(engine, **{engine.method: lambda self, *given: returned})
    with pytest.raises((TypeError, ValueError), match=message):
        engine.own_run(**{engine.argument: kind})


def test_metrics_are_checked_once(engine, monkeypatch):
    from ppobook.run import loop

    checked = []
    monkeypatch.setattr(loop, "check_metrics", lambda *given: checked.append(given))
    engine.new()
    assert len(checked) == 1


def test_a_class_without_an_update(engine):
    base = next(kind for kind in engine.own.__mro__ if kind.__name__ in ("Learner", "Stage"))
    method = getattr(base, engine.method)
    with pytest.raises(NotImplementedError, match=f"^Mine must implement {engine.method}$"):
        engine.own_run(**{engine.argument: changed(engine, **{engine.method: method})})
