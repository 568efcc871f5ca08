"""The ends of a run: signals and errors; and when checkpoints are written."""

import signal

import pytest
from engines import ENGINES

from ppobook.run import checkpoint as checkpoint_module
from ppobook.run.interrupts import SIGNALS, Interrupted


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


# ------------------------------------------------------------------------------------------------- errors


def test_a_second_ctrl_c_leaves_the_update_in_progress(engine, unbroken, at_update, tmp_path):
    def twice():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    folder = tmp_path / "run"
    undo = at_update(4, twice)
    with pytest.raises(KeyboardInterrupt, match=r"^stopped by Ctrl-C\n") as caught:
        engine.new(out=folder)
    assert caught.value.__notes__ == [f"update 2 is saved; go on with resume={str(folder)!r}"]
    undo()
    engine.same_run(engine.train(resume=folder), unbroken[engine.name])


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3)], ids=["error", "exit"])
def test_an_error_loses_the_updates_since_the_last_checkpoint(engine, unbroken, at_update, tmp_path, error):
    folder = tmp_path / "run"
    undo = at_update(4, raising(error := type(error)(*error.args)))
    with pytest.raises(type(error)) as caught:
        engine.new(out=folder)
    assert caught.value is error
    assert error.__notes__ == [f"update 2 is saved; go on with resume={str(folder)!r}"]
    undo()
    engine.same_run(engine.train(resume=folder), unbroken[engine.name])


# ------------------------------------------------------------------------- when checkpoints are written


def test_checkpoints_by_time_change_nothing(engine, tmp_path, monkeypatch):
    written = []
    write = checkpoint_module.write_checkpoint
    monkeypatch.setattr(
        "ppobook.run.loop.write_checkpoint",
        lambda folder, one: (written.append(one.update), write(folder, one)),
    )
    monkeypatch.setattr("ppobook.run.loop.MOST_SECONDS", 0.0)
    run = engine.new(out=tmp_path / "run", checkpoint_every=5)
    assert written == [0, 1, 2, 3, 4, 5, 6, 7]
    written.clear()
    monkeypatch.setattr("ppobook.run.loop.MOST_SECONDS", 300.0)
    engine.same_run(run, engine.new(out=tmp_path / "rarely", checkpoint_every=5))
    assert written == [0, 5, 7]
