"""However a run ends, its whole updates are kept: signals, errors, a full disk, a folder that moves away."""

import errno
import os
import re
import shutil
import signal
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from engines import CONTROL, ENGINES
from line import Line, fit
from small_runs import Odd, same_run, small, timeless

from ppobook import load, train
from ppobook.run import checkpoint as checkpoint_module
from ppobook.run import state
from ppobook.run.files import atomic_write, write_synced
from ppobook.run.folder import RunFolder, checkpoints
from ppobook.run.interrupts import SIGNALS, Interrupted, Interrupts
from ppobook.run.lock import locked
from ppobook.run.naming import as_options
from ppobook.run.state import Kept


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def unbroken():
    return {engine.name: engine.new() for engine in ENGINES}


@pytest.fixture(autouse=True)
def signals_as_in_a_shell():
    """Tests may be run by something that ignores signals, nohup for one."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def at_update(engine, monkeypatch):
    """Let something happen in one of the engine's updates, after the weights have changed."""
    real = getattr(engine.kind, engine.method)

    def happens(number, what, *, before=False):
        calls = []

        def update(self, *given):
            calls.append(None)
            if len(calls) == number and before:
                what()
            metrics = real(self, *given)
            if len(calls) == number and not before:
                what()
            return metrics

        monkeypatch.setattr(engine.kind, engine.method, update)
        return lambda: monkeypatch.setattr(engine.kind, engine.method, real)

    return happens


def raising(error):
    def raises():
        raise error

    return raises


def names(folder):
    return [path.name.removeprefix("checkpoint-").lstrip("0") or "0" for path in checkpoints(folder)]


# ----------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_waits_for_the_update_and_saves(engine, unbroken, at_update, tmp_path, capfd, number):
    folder = tmp_path / "run"
    undo = at_update(3, lambda: signal.raise_signal(number))
    by = "Ctrl-C" if number == signal.SIGINT else number.name
    with pytest.raises(Interrupted, match=f"^stopped by {by} after update 3.*go on with resume=") as caught:
        engine.new(out=folder, progress=False)
    assert caught.value.signal is number
    first = "; press Ctrl-C again to stop at once without it" if by == "Ctrl-C" else ""
    prefix = "" if first else f"{by}: "
    assert capfd.readouterr().err == f"{prefix}stopping after this update{first}\n"
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    undo()
    assert len(caught.value.run.history) == len(engine.load(folder).history) == 3
    engine.same_run(engine.train(resume=folder), unbroken[engine.name])


def test_a_second_ctrl_c_loses_the_update_in_progress_and_no_other(engine, unbroken, at_update, tmp_path):
    def twice():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)  # only asks, as the first
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    folder = tmp_path / "run"
    undo = at_update(4, twice)
    with pytest.raises(
        Interrupted, match=r"^stopped by SIGTERM after update 3.*go on with resume="
    ) as caught:
        engine.new(out=folder)
    undo()
    assert len(engine.load(folder).history) == 3
    again = caught.value.run.save(tmp_path / "again")
    for place in (folder, again):
        engine.same_run(engine.train(resume=place), unbroken[engine.name])


def test_a_third_ctrl_c_while_the_run_is_saved_changes_nothing(
    engine, unbroken, at_update, tmp_path, monkeypatch
):
    def pressing(path, content):
        signal.raise_signal(signal.SIGINT)
        write_synced(path, content)

    def twice():
        monkeypatch.setattr(checkpoint_module, "write_synced", pressing)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    undo = at_update(4, twice)
    with pytest.raises(Interrupted, match=r"^stopped by Ctrl-C after update 3"):
        engine.new(out=tmp_path / "run")
    undo()
    monkeypatch.setattr(checkpoint_module, "write_synced", write_synced)
    engine.same_run(engine.train(resume=tmp_path / "run"), unbroken[engine.name])


def test_ignored_signals_and_handlers_of_ones_own_stay():
    def mine(number, frame):
        raise AssertionError

    handlers = dict.fromkeys(SIGNALS, signal.SIG_IGN) | {signal.SIGTERM: mine}
    for number, handler in handlers.items():
        signal.signal(number, handler)
    with Interrupts() as interrupts:
        assert {number: signal.getsignal(number) for number in SIGNALS} == handlers
        signal.raise_signal(SIGNALS[-1])
    assert interrupts.asked is None


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_sigterm_leaves_a_collection_of_episodes_and_ctrl_c_does_not(tmp_path, number):
    """A later SIGTERM does so after a Ctrl-C, too."""
    taken = []

    class Endless(Odd):
        def step(self, action):
            taken.append(None)
            if len(taken) in (1000, 3000):
                signal.raise_signal(number if len(taken) == 1000 else signal.SIGTERM)
            return *super().step(action)[:2], False, len(taken) <= 64, {}

    with pytest.raises(Interrupted, match=r"^stopped by .* after update \d+, .*go on with") as caught:
        small(env=Endless, baseline="none", out=tmp_path / "run", num_steps=16, num_envs=1)
    assert caught.value.signal is number
    assert len(taken) == (3000 if number == signal.SIGINT else 1000)
    assert len(load(tmp_path / "run").history) == len(caught.value.run.history) > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_of_an_environment_can_be_ended():
    with Interrupts() as interrupts:
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
        assert interrupts.asked is None


# ------------------------------------------------------------------------------------------------- errors

ERRORS = {
    "an error": ValueError("mine"),
    "any error": ZeroDivisionError("mine"),
    "sys.exit": SystemExit(3),
    "no memory": MemoryError(),
    "Ctrl-C of somebody else": KeyboardInterrupt(),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_raises_in_an_update_costs_no_other(engine, unbroken, at_update, tmp_path, case):
    folder, error = tmp_path / "run", type(ERRORS[case])(*ERRORS[case].args)
    undo = at_update(4, raising(error))
    with pytest.raises(type(error)) as caught:
        engine.new(out=folder)
    if case != "Ctrl-C of somebody else":
        assert caught.value is error
        assert error.__notes__ == [f"update 3 is saved; go on with resume={str(folder)!r}"]
        assert caught.traceback[-1].name == "raises"
    undo()
    assert len(engine.load(folder).history) == 3
    engine.same_run(engine.train(resume=folder), unbroken[engine.name])


def test_an_error_without_a_folder_has_no_note(engine, at_update):
    at_update(4, raising(error := ValueError("mine")))
    with pytest.raises(ValueError, match="mine"):
        engine.new()
    assert not hasattr(error, "__notes__")


def test_an_error_in_the_first_update(engine, unbroken, at_update, tmp_path):
    undo = at_update(1, raising(error := ValueError("mine")))
    with pytest.raises(ValueError, match="mine"):
        engine.new(out=tmp_path / "run")
    assert error.__notes__[0].startswith("update 0 is saved; go on with")
    undo()
    engine.same_run(engine.train(resume=tmp_path / "run"), unbroken[engine.name])


def test_a_run_without_an_update_is_replaced(engine, unbroken, at_update, tmp_path, capfd):
    folder = tmp_path / "run"
    undo = at_update(1, raising(error := ValueError("mine")))
    with pytest.raises(ValueError, match="mine"):
        engine.new(out=folder)
    assert error.__notes__[0].endswith(", or begin again in the same folder")
    undo()
    with locked(RunFolder("out", folder)), pytest.raises(ValueError, match="no other process trains in"):
        engine.new(out=folder)
    assert (folder / "checkpoint-000000").exists()
    (folder / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="must be a new folder, got one that holds a run up to"):
        engine.new(out=folder)
    (folder / "notes.txt").unlink()
    capfd.readouterr()
    engine.same_run(engine.new(out=folder), unbroken[engine.name])
    assert f"out={str(folder)!r} held a run without an update: the new run" in capfd.readouterr().err


@pytest.mark.parametrize("before", [True, False], ids=["before the weights change", "after"])
def test_large_networks_are_not_copied(engine, unbroken, at_update, tmp_path, monkeypatch, before):
    """So they can be saved where the update in progress has not changed them."""
    monkeypatch.setattr(state, "MOST_COPIED", 0)
    undo = at_update(4, raising(error := ValueError("mine")), before=before)
    with pytest.raises(ValueError, match="mine"):
        engine.new(out=tmp_path / "run")
    undo()
    kept = len(engine.load(tmp_path / "run").history)
    assert kept == (3 if before else 2)
    *lost, saved = error.__notes__
    assert saved.startswith(f"update {kept} is saved; go on with")
    assert [note.partition(": ")[0] for note in lost] == ([] if before else ["update 3 could not be saved"])
    engine.same_run(engine.train(resume=tmp_path / "run"), unbroken[engine.name])


def test_a_kept_state():
    x, plain = torch.zeros(3), {"numbers": [1]}
    kept = Kept({"x": x, "inside": [{"y": (x[:1], 2)}], "plain": plain})
    x += 1
    plain["numbers"].append(2)
    assert kept.intact
    assert kept.state["x"].tolist() == [0, 0, 0]
    assert kept.state["inside"][0]["y"][0].tolist() == [0]
    assert kept.state["plain"] == {"numbers": [1]}


def test_diverging_weights_leave_the_update_before(engine, tmp_path):
    with pytest.raises(FloatingPointError, match="weights must stay finite") as caught:
        engine.diverges(out=tmp_path / "run", checkpoint_every=1000)
    kept = engine.load(tmp_path / "run")
    assert f"training has diverged in update {len(kept.history) + 1}: " in str(caught.value)
    assert caught.value.__notes__ == [f"update {len(kept.history)} is saved"]
    assert all(torch.isfinite(x).all() for x in getattr(kept, engine.module).state_dict().values())


class Fails(Odd):
    """Does something in one of its steps, counted over all episodes; `at` and `what` are of the class."""

    at, what = None, None

    def __init__(self, locked=False):
        super().__init__(locked=locked)
        self.taken = 0

    def step(self, action):
        self.taken += 1
        if self.taken == Fails.at:
            Fails.what()
        return super().step(action)

    def close(self):
        if Fails.at is not None:
            raise RuntimeError


gym.register("ppobook-test/Fails-v0", entry_point=Fails, max_episode_steps=20)


@pytest.fixture
def failing(monkeypatch):
    def at(step, what):
        monkeypatch.setattr(Fails, "at", step)
        monkeypatch.setattr(Fails, "what", staticmethod(what))

    yield at
    monkeypatch.undo()


ENVIRONMENT = {"env": "ppobook-test/Fails-v0", "total_steps": 32 * 9, "checkpoint_every": 4}


@pytest.mark.parametrize("baseline", ["value", "mean"])
def test_an_environment_that_raises_costs_no_update(tmp_path, failing, baseline):
    given = {**ENVIRONMENT, "baseline": baseline}
    straight = small(**given)
    failing(100, raising(KeyError("wheel")))
    with pytest.raises(ValueError, match=r"Fails-v0.*KeyError: 'wheel'") as caught:
        small(**given, out=tmp_path / "run")
    kept = load(tmp_path / "run").history
    assert len(kept) > 4 or baseline == "mean"
    assert caught.value.__notes__[-1].startswith(f"update {len(kept)} is saved; go on with")
    assert timeless(kept).equals(timeless(straight.history.head(len(kept))))
    failing(None, None)
    same_run(train(resume=tmp_path / "run"), straight)


def test_an_environment_that_raises_and_cannot_be_saved(tmp_path, failing):
    """The run is saved, and what is resumed repeats the updates after the last reset."""
    given = {**ENVIRONMENT, "env_kwargs": {"locked": True}}
    straight = small(**given, out=tmp_path / "straight")
    failing(100, raising(SystemExit))
    with pytest.raises(ValueError, match="raised SystemExit"):
        small(**given, out=tmp_path / "run")
    kept = load(tmp_path / "run").history
    assert names(tmp_path / "run") == ["4", "6"]
    assert timeless(kept).equals(timeless(straight.history.head(6)))
    failing(None, None)
    same_run(train(resume=tmp_path / "run"), straight)


# ------------------------------------------------------------------------------------------- the folder


def test_the_working_directory_may_change(engine, unbroken, at_update, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    undo = at_update(3, lambda: os.chdir(tmp_path / "elsewhere"))
    engine.same_run(engine.new(out="run"), unbroken[engine.name])
    undo()
    assert names(tmp_path / "run") == ["6", "7"]
    assert not any((tmp_path / "elsewhere").iterdir())
    os.chdir(tmp_path)
    at_update(2, lambda: os.chdir(tmp_path / "elsewhere"))
    assert len(engine.train(resume="run", **engine.longer).history) == 11
    assert names(tmp_path / "run") == ["10", "11"]


def full(from_update):
    def write(path, content):
        if int(re.search(r"checkpoint-(\d+)", str(path))[1]) >= from_update:
            raise OSError(28, "No space left on device")
        write_synced(path, content)

    return write


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (0, "No space left on device; nothing is saved"),
        (3, "; update 2 is saved: make room and resume; updates 3 to 4 are kept only in .run, to write .*"),
    ],
)
def test_a_full_disk_says_what_is_saved(engine, unbroken, tmp_path, monkeypatch, first, says):
    monkeypatch.setattr(checkpoint_module, "write_synced", full(first))
    with pytest.raises(OSError, match=f"^out=.*{says}$") as caught:
        engine.new(out=tmp_path / "run")
    assert not hasattr(caught.value, "__notes__")
    assert not first or engine.load(tmp_path / "run").history["update"].max() == 2
    assert len(caught.value.run.history) == (4 if first else 0)
    monkeypatch.setattr(checkpoint_module, "write_synced", write_synced)
    again = caught.value.run.save(tmp_path / "elsewhere")
    engine.same_run(engine.train(resume=again), unbroken[engine.name])


def test_in_a_shell_what_a_full_disk_did_not_take_is_lost(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "write_synced", full(4))
    with as_options(), pytest.raises(OSError, match=r"; update 3 is saved: .*; updates 4 to 6 are lost$"):
        engine.new(out=tmp_path / "run", checkpoint_every=3)


@pytest.mark.parametrize("pressed", [1, 2])
def test_ctrl_c_on_a_full_disk_keeps_the_run(engine, unbroken, at_update, tmp_path, monkeypatch, pressed):
    def press():
        for _ in range(pressed):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(checkpoint_module, "write_synced", full(3))
    undo = at_update(3 if pressed == 1 else 4, press)
    says = r"No space left.*; update 2 is saved: make room and resume; update 3 is kept only in \.run"
    with pytest.raises(OSError if pressed == 1 else Interrupted, match=says) as caught:
        engine.new(out=tmp_path / "run")
    undo()
    monkeypatch.setattr(checkpoint_module, "write_synced", write_synced)
    assert len(caught.value.run.history) == 3
    for place in (tmp_path / "run", caught.value.run.save(tmp_path / "elsewhere")):
        engine.same_run(engine.train(resume=place), unbroken[engine.name])


def test_a_disk_that_is_full_after_a_checkpoint(engine, tmp_path, monkeypatch):
    """The checkpoint counts, and not history.csv."""

    def write(path, content, *, sync=True):
        if "history" in path.name and (path.parent / "checkpoint-000004").exists():
            raise OSError(28, "No space left on device")
        atomic_write(path, content, sync=sync)

    monkeypatch.setattr(checkpoint_module, "atomic_write", write)
    with pytest.raises(
        OSError, match=r"on a disk with room left, got.*; update 4 is saved: make room and re"
    ):
        engine.new(out=tmp_path / "run")
    assert len(engine.load(tmp_path / "run").history) == 4


def test_a_disk_that_is_full_when_an_error_comes(engine, at_update, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "write_synced", full(3))
    at_update(4, raising(error := ValueError("mine")))
    with pytest.raises(ValueError, match="mine"):
        engine.new(out=tmp_path / "run")
    lost, saved = error.__notes__
    assert lost.startswith("update 3 could not be saved: OSError: out=")
    assert "No space left on device" in lost
    assert saved.startswith("update 2 is saved; go on with")
    assert len(error.run.history) == 3


@pytest.mark.parametrize("fails", [False, True])
def test_a_folder_that_is_removed_is_written_again(engine, unbroken, at_update, tmp_path, capfd, fails):
    """Also where its last checkpoint was that of the update before."""
    folder = tmp_path / "run"

    def remove():
        shutil.rmtree(folder)
        if fails:
            raise ValueError("mine")

    undo = at_update(5, remove)
    if not fails:
        engine.same_run(engine.new(out=folder), unbroken[engine.name])
        assert names(folder) == ["6", "7"]
    else:
        with pytest.raises(ValueError, match="mine") as caught:
            engine.new(out=folder)
        assert caught.value.__notes__ == [f"update 4 is saved; go on with resume={str(folder)!r}"]
        assert names(folder) == ["4"]
    assert f"{str(folder)!r} was removed: written again" in capfd.readouterr().err
    undo()
    engine.same_run(engine.train(resume=folder), unbroken[engine.name])


def test_a_removed_folder_that_cannot_be_made_again_holds_nothing(engine, at_update, tmp_path):
    (tmp_path / "above").mkdir()

    def replace():
        shutil.rmtree(tmp_path / "above")
        (tmp_path / "above").touch()

    at_update(5, replace)
    with pytest.raises(OSError, match=r"^out=.*got: Not a directory; nothing is saved; updates 1 to 6 are"):
        engine.new(out=tmp_path / "above" / "run")


def test_a_checkpoint_that_does_not_fit_leaves_no_part(engine, tmp_path, monkeypatch):
    def too_large(path, content):
        path.write_bytes(content[:9])
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(checkpoint_module, "write_synced", too_large)
    with pytest.raises(OSError, match=r"File too large; nothing is saved$"):
        engine.new(out=tmp_path / "run")
    assert not any((tmp_path / "run").iterdir())


# ------------------------------------------------------------------------- when checkpoints are written


def test_checkpoints_by_time_change_nothing(engine, tmp_path, monkeypatch):
    written = []
    write = checkpoint_module.write_checkpoint
    monkeypatch.setattr(
        "ppobook.run.loop.write_checkpoint",
        lambda folder, one: (written.append(one.update), write(folder, one)),
    )
    run = engine.new(out=tmp_path / "run", checkpoint_every=5, checkpoint_minutes=1e-9)
    assert written == [0, 1, 2, 3, 4, 5, 6, 7]
    written.clear()
    engine.same_run(run, engine.new(out=tmp_path / "rarely", checkpoint_every=5))
    assert written == [0, 5, 7]


def test_checkpoints_by_time_would_be_of_no_use_where_environments_cannot_be_saved(tmp_path):
    given = {"env": "ppobook-test/Odd-v0", "env_kwargs": {"locked": True}, "checkpoint_every": 4}
    run = small(**given, out=tmp_path / "run", checkpoint_minutes=1e-9)
    assert names(tmp_path / "run") == ["4", "7"]
    same_run(run, small(**given, out=tmp_path / "by updates only"))


def test_checkpoint_every_may_change(engine, tmp_path):
    folder = tmp_path / "run"
    short = {"total_steps": 32 * 3} if engine is CONTROL else {"updates": 3}
    full = {"total_steps": 200} if engine is CONTROL else {"updates": 7}
    engine.new(out=folder, **short)
    run = engine.train(resume=folder, checkpoint_every=3, **full)
    assert names(folder) == ["6", "7"]
    assert run.config["checkpoint_every"] == engine.load(folder).config["checkpoint_every"] == 3
    engine.same_run(run, engine.new(checkpoint_every=3))
    with pytest.raises(ValueError, match="checkpoint_every must be an integer of at least 1, got 0"):
        engine.train(resume=folder, checkpoint_every=0)


def test_the_last_reset_is_found_after_checkpoint_every_has_changed(tmp_path):
    """Environments that can't be saved were reset at 4; 5 is no reset of a run that resets every 3."""
    given = {"env": "ppobook-test/Odd-v0", "env_kwargs": {"locked": True}}
    folder = tmp_path / "run"
    small(**given, checkpoint_every=4, total_steps=32 * 5, out=folder)
    train(resume=folder, checkpoint_every=7, total_steps=32 * 6)
    assert names(folder) == ["4", "6"]
    once = train(resume=folder, total_steps=32 * 9)
    small(**given, checkpoint_every=4, total_steps=32 * 5, out=tmp_path / "other")
    same_run(once, train(resume=tmp_path / "other", checkpoint_every=7, total_steps=32 * 9))


def test_bad_minutes(engine):
    with pytest.raises(ValueError, match="checkpoint_minutes must be a number above 0, got 0"):
        engine.new(checkpoint_minutes=0)


def test_a_line_is_kept_whole_by_every_trainer(tmp_path, monkeypatch):
    """The loop asks a trainer for no more than its state."""
    real, calls = Line.step, []

    def step(self):
        calls.append(None)
        metrics = real(self)
        if len(calls) == 4:
            raise ValueError("mine")
        return metrics

    straight = fit(7).bits()
    monkeypatch.setattr(Line, "step", step)
    with pytest.raises(ValueError, match="mine"):
        fit(7, out=tmp_path / "run")
    assert names(tmp_path / "run") == ["2", "3"]
    assert fit(7, resume=Path(tmp_path / "run")).bits() == straight


def test_a_network_that_grows_while_it_trains_is_not_saved_as_if_it_could_be_loaded(tmp_path, monkeypatch):
    real, folder = CONTROL.kind.update, tmp_path / "run"

    def grows(self, rollout):
        self.policy.extra = torch.nn.Linear(1, 1)
        return real(self, rollout)

    monkeypatch.setattr(CONTROL.kind, "update", grows)
    with pytest.raises(ValueError, match=r"must have the weights that it had before.*'extra\.bias' has come"):
        CONTROL.new(out=folder)
    assert len(load(folder).history) == 0
