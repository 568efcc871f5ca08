"""What every run shares, tried with a trainer that has neither an environment nor a policy."""

import dataclasses
import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from ppobook import load
from ppobook.run.checkpoint import read_checkpoint, write_checkpoint
from ppobook.run.folder import RunFolder, checkpoints, locked, new_folder
from ppobook.run.history import History, checked_metrics
from ppobook.run.interrupts import Interrupted
from ppobook.run.loop import TrainingLoop, grown_beyond_bounds, run_training, weights_are_finite
from ppobook.run.machine import stream
from ppobook.run.settings import Settings, refuse_other_settings, setting
from ppobook.run.state import Stateful, refuse_to_forget


@dataclasses.dataclass(frozen=True)
class LineSettings(Settings):
    lr: float = setting(0.05, "learning rate", above=0)
    batch: int = setting(4, "points an update", low=1)


class Line(Stateful):
    """A line through noisy points, by Adam."""

    state_attributes = ("model", "optimizer", "draw", "dice", "average", "seen", "nothing")

    def __init__(self, settings, seed):
        self.settings = settings
        self.device = "cpu"
        self.model = nn.Linear(1, 1)
        nn.init.zeros_(self.model.weight)
        nn.init.zeros_(self.model.bias)
        self.optimizer = torch.optim.Adam(self.model.parameters(), settings.lr)
        self.draw = torch.Generator().manual_seed(stream(seed, "points"))
        self.dice = np.random.default_rng(stream(seed, "dice"))
        self.average = torch.zeros(())
        self.seen = [0]
        self.nothing = None

    def step(self):
        x = torch.randn(self.settings.batch, 1, generator=self.draw)
        loss = (self.model(x) - 2 * x + float(self.dice.normal())).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.average = 0.9 * self.average + 0.1 * loss.detach()
        self.seen = [self.seen[0] + len(x)]
        return {"loss": loss.item(), "average": self.average}


class Run:
    def __init__(self, model, history):
        self.model, self.history = model, history

    def bits(self):
        table = self.history.drop(columns="seconds")
        return table.to_csv(), {name: x.tolist() for name, x in self.model.state_dict().items()}


class Training(TrainingLoop):
    limit = "updates"
    format = "line 1"

    def __init__(self, config, line):
        super().__init__(config, History.empty(("update", "points", "loss", "seconds"), ("update", "points")))
        self.line = line

    @classmethod
    def fresh(cls, asked, updates):
        settings = LineSettings.make("line", asked, {})
        config = {"seed": 3, "updates": updates, "checkpoint_every": 2} | dataclasses.asdict(settings)
        line = Line(settings, config["seed"])
        refuse_to_forget(line)
        return cls(config, line)

    @classmethod
    def resumed(cls, home, asked, updates, first=False):
        place = checkpoints(home.folder)[0] if first else None
        read = read_checkpoint(
            home, format=cls.format, needs=("line",), files=("points.bin",), checkpoint=place
        )
        config = read.state["config"] | {"updates": updates}
        line = Line(LineSettings(config["lr"], config["batch"]), config["seed"])
        refuse_other_settings(home, asked, config, line.settings)
        line.load_state_dict(read.state["line"])
        assert read.files == {"points.bin": b"%d" % line.seen[0]}
        training = cls(config, line)
        training.go_on_from(read)
        return training

    def one_update(self):
        measured = checked_metrics("Line.step", self.line.step(), ("update", "points", "seconds*"))
        return {"points": self.line.seen[0], **measured}

    def modules(self):
        return [self.line.model]

    def parts(self):
        return {"line": self.line.state_dict()}, {"points.bin": b"%d" % self.line.seen[0]}

    def run(self):
        return Run(self.line.model, self.history.table())

    def label(self):
        return "a line"


def fit(updates=7, out=None, resume=None, first=False, progress=None, tensorboard=False, **settings):
    return run_training(
        lambda: Training.fresh(settings, updates),
        lambda home: Training.resumed(home, settings, updates, first),
        out=out,
        resume=resume,
        progress=progress,
        tensorboard=tensorboard,
    ).run()


# ------------------------------------------------------------------------------------- a run, and its folder


def test_a_run_of_another_kind(tmp_path):
    run = fit(out=tmp_path / "run")
    assert list(run.history.columns) == ["update", "points", "loss", "seconds", "average"]
    assert run.history["update"].tolist() == list(range(1, 8))
    assert run.history["points"].tolist() == [4 * i for i in range(1, 8)]
    assert (run.history["seconds"].diff().dropna() > 0).all()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["lr"] == 0.05
    table = pd.read_csv(tmp_path / "run" / "history.csv")
    pd.testing.assert_frame_equal(table, run.history, check_exact=True)
    kept = [path.name for path in checkpoints(tmp_path / "run")]
    assert kept == ["checkpoint-000006", "checkpoint-000007"]
    assert fit(200, lr=0.1).model.weight.item() == pytest.approx(2, abs=0.4)


def test_resuming_goes_on_to_the_same_bits(tmp_path):
    unbroken = fit(9)
    for stop in (1, 2, 5):
        fit(stop, out=tmp_path / str(stop))
        assert fit(9, resume=tmp_path / str(stop)).bits() == unbroken.bits()
    # One that is as long as it was to be is left as it is.
    before = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    fit(9, resume=tmp_path / "1")
    assert before == {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}


DEADLY = f"""
import os, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_runs
test_runs.fit(1)  # an optimizer's first step imports half of torch: better once, before the forks
os.fsync = lambda file: None  # it helps against a loss of power, and takes its time

def killed(n, how):
    '''Whether a process that runs this dies at its n-th change of the disk, or comes to its end before.'''
    pid = os.fork()
    if pid == 0:
        left = n
        def hook(event, args):
            nonlocal left
            if event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR) or event in {{
                "os.rename", "os.mkdir", "os.remove", "os.rmdir"
            }}:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        test_runs.fit(**how)
        os._exit(0)
    ended = os.waitpid(pid, 0)[1]
    assert ended in (0, signal.SIGKILL), ended
    return ended != 0

for scenario in test_runs.SCENARIOS:
    print(test_runs.deaths(killed, scenario, sys.argv[1]))
"""
# How far a run is trained before; and how it is then trained on, in a process that is killed.
SCENARIOS = {
    "fresh": (None, {}),
    "resumed": (3, {}),
    "resumed where it had not begun": (0, {}),
    "resumed further back, over later checkpoints": (4, {"first": True}),
}


def deaths(killed, scenario, folder):
    """Kill a run at each change that it makes to the disk, and resume it; returns the number of changes."""
    folder, unbroken, n = Path(folder), fit(5).bits(), 0
    before, how = SCENARIOS[scenario]
    while True:
        n += 1
        shutil.rmtree(folder, ignore_errors=True)
        if before is not None:
            fit(before, out=folder)
        if not killed(n, {"updates": 5, "out" if before is None else "resume": folder, **how}):
            return n - 1
        begun = folder.exists() and checkpoints(folder)
        assert begun or before is None, (scenario, n)
        assert fit(5, **{"resume" if begun else "out": folder}).bits() == unbroken, (scenario, n)
        assert not list(folder.glob("checkpoint-*.part")), (scenario, n)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")
def test_kill_9_at_every_change_of_the_disk(tmp_path):
    command = [sys.executable, "-c", DEADLY, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(int(count) > 20 for count in done.stdout.split())
    assert len(done.stdout.split()) == len(SCENARIOS)


def press(monkeypatch, *updates):
    """Ctrl-C during these updates, counted from now."""
    real, at = Line.step, []

    def step(self):
        at.append(None)
        for _ in range(updates.count(len(at))):
            signal.raise_signal(signal.SIGINT)
        return real(self)

    monkeypatch.setattr(Line, "step", step)


def test_ctrl_c_finishes_the_update_and_loses_nothing(tmp_path, monkeypatch):
    unbroken, before = fit(9), signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        press(patched, 3)
        with pytest.raises(
            Interrupted, match=r"^stopped by Ctrl-C after update 3; go on with resume="
        ) as caught:
            fit(9, out=tmp_path / "run")
    assert len(caught.value.run.history) == 3
    assert signal.getsignal(signal.SIGINT) is before
    assert checkpoints(tmp_path / "run")[-1].name == "checkpoint-000003"
    assert fit(9, resume=tmp_path / "run").bits() == unbroken.bits()


def test_ctrl_c_without_a_folder_and_a_second_one(monkeypatch):
    with monkeypatch.context() as patched:
        press(patched, 2)
        with pytest.raises(Interrupted, match=r"after update 2, and kept nowhere but in .run") as caught:
            fit(9)
    assert caught.value.run.bits() == fit(2).bits()
    press(monkeypatch, 2, 2)
    with pytest.raises(KeyboardInterrupt) as caught:
        fit(9)
    assert not isinstance(caught.value, Interrupted)


def test_one_trainer_in_a_folder(tmp_path):
    pytest.importorskip("fcntl")
    fit(3, out=tmp_path / "run")
    home = RunFolder.at("resume", tmp_path / "run")
    with locked(home), pytest.raises(ValueError, match=r"resume=.*is being trained in already"):
        fit(9, resume=home.folder)
    assert fit(9, resume=home.folder).bits() == fit(9).bits()


def test_what_cannot_be_used_leaves_no_folder(tmp_path):
    for given, sentence in [
        ({"batch": 0}, "batch is 0"),
        ({"lam": 1}, "line has no setting 'lam'"),
        ({"progress": 1}, "progress is 1"),
    ]:
        with pytest.raises((ValueError, TypeError), match=sentence):
            fit(out=tmp_path / "run", **given)
        assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="tensorboard=True, and out is left out"):
        fit(tensorboard=True)
    fit(3, out=tmp_path / "run")
    with pytest.raises(
        FileExistsError, match=r"out=.*holds a run already, up to checkpoint-000003; wanted: res"
    ):
        fit(out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"out=.*a resumed run stays in its folder"):
        fit(out=tmp_path / "other", resume=tmp_path / "run")
    for given, sentence in [
        ({"lr": 0.1}, r"lr=0.1: the run in .* has 0.05"),
        ({"lam": 1}, "lam=1: the run has"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            fit(resume=tmp_path / "run", **given)


def test_a_run_of_one_kind_is_not_taken_for_one_of_another(tmp_path):
    fit(3, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"in checkpoint format 'line 1'; wanted: format 1, which ppobook"):
        load(tmp_path / "run")
    read = functools.partial(read_checkpoint, RunFolder.at("folder", tmp_path / "run"), format="line 1")
    assert read().update == 3
    assert read().files == {}
    with pytest.raises(ValueError, match=r"checkpoint-000003/state.pt has no 'words'"):
        read(needs=("words",))


def test_a_rate_that_is_too_large_is_named(tmp_path):
    with pytest.raises(
        FloatingPointError, match=r"beyond all bounds, seen in update 2; a smaller lr \(now 1e\+37"
    ):
        fit(lr=1e37, out=tmp_path / "run")
    assert checkpoints(tmp_path / "run")[-1].name == "checkpoint-000000"


def test_an_error_of_a_trainer_that_is_sound_stays_what_it_is(monkeypatch):
    monkeypatch.setattr(Line, "step", lambda self: {"seconds_asleep": 3})
    with pytest.raises(ValueError, match=r"Line.step tells 'seconds_asleep', a column that the loop fills"):
        fit()


def test_what_cannot_be_kept_is_begun_anew_where_a_checkpoint_is_due(monkeypatch):
    at = []
    monkeypatch.setattr(Training, "before_checkpoint", lambda self: at.append(self.update))
    fit(7)
    assert at == [0, 2, 4, 6]


def test_the_bar_counts_in_the_trainers_unit(capfd):
    fit(progress=True)
    shown = capfd.readouterr().err
    assert "a line" in shown
    assert "updates/s" in shown
    assert "update=7" in shown


def test_tensorboard_goes_by_the_counter(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = fit(out=tmp_path / "run", tensorboard=True)
    read = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    read.Reload()
    assert [event.step for event in read.Scalars("loss")] == run.history["update"].tolist()
    assert "update" not in read.Tags()["scalars"]


# ---------------------------------------------------------------------------------------------- its parts


def test_a_class_lacks_no_method_unseen():
    with pytest.raises(TypeError, match="abstract method"):
        type("Lazy", (TrainingLoop,), {"limit": "updates", "format": 0})({}, History.empty(("update",)))


def test_settings_have_one_field_until_a_subclass_adds_some():
    assert [f.name for f in dataclasses.fields(Settings)] == ["fast"]
    with pytest.raises(ValueError, match="language has no setting 'gamma'"):
        Settings.make("language", {"gamma": 1}, {})
    assert LineSettings.make("line", {"lr": 1}, {"lr": 2, "batch": 1e2}) == LineSettings(1.0, 100)


@pytest.mark.parametrize("columns", [("update", "loss", "seconds"), ("loss", "update")])
def test_a_history_is_the_table_that_pandas_would_make(columns):
    history, rows = History.empty(columns), []
    assert len(history) == 0
    for i in range(5):
        row = {"update": i + 1, "loss": np.float32(i / 3)}
        row |= {"late": torch.tensor(i * 0.1)} if i > 2 else {}
        told = history.append(row)
        rows.append({"update": i + 1, "loss": float(np.float32(i / 3))})
        rows[-1] |= {"late": float(torch.tensor(i * 0.1))} if i > 2 else {}
        assert told == rows[-1]
        assert {type(x) for x in told.values()} == {int, float}
        history.text()  # in the middle too: what was written before is kept
    wanted = pd.DataFrame(rows, columns=[*columns, "late"])
    pd.testing.assert_frame_equal(history.table(), wanted.astype({"update": "int64"}), check_dtype=False)
    assert history.table()["update"].dtype == np.int64
    again = History(history.tensors())
    assert again.text() == history.text()
    assert again.text().splitlines()[1].count("nan") == len(columns) - 1
    assert history.last("late") == rows[-1]["late"]
    again.append({"update": 6})
    assert math.isnan(again.last("loss"))


def test_an_empty_history_stays_what_it_was():
    back = History(History.empty(("update", "loss")).tensors())
    assert [column.typecode for column in back.columns.values()] == ["q", "d"]
    with pytest.raises(ValueError, match="columns differ in length"):
        History({"update": torch.arange(2), "loss": torch.zeros(3)})


def test_a_number_is_wanted_of_each_metric():
    for said, sentence in [
        (None, "Line.step returned NoneType; a dict"),
        ({"loss": "low"}, "Line.step tells 'loss' of type str; one number"),
        ({"loss": torch.zeros(2)}, "Line.step tells 'loss' of type Tensor"),
        ({"update": 1}, "Line.step tells 'update', a column that the loop fills"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            checked_metrics("Line.step", said, ("update", "seconds*"))
    assert checked_metrics("Line.step", {"updates": 1.0}, ("update", "seconds*")) == {"updates": 1.0}


def test_what_is_remembered_comes_back_from_the_disk(tmp_path):
    line = Line(LineSettings(), 0)
    for _ in range(3):
        line.step()
    torch.save(line.state_dict(), tmp_path / "state.pt")
    after = [line.step() for _ in range(3)]
    other = Line(LineSettings(), 1)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert [other.step() for _ in range(3)] == after
    assert other.seen == line.seen
    assert "nothing" not in line.state_dict()
    for name in ("model", "dice", "seen"):
        less = {one: part for one, part in line.state_dict().items() if one != name}
        with pytest.raises(ValueError, match=f"state of Line lacks '{name}', one of its state_attributes"):
            other.load_state_dict(less)


def test_what_would_be_forgotten_is_refused():
    line = Line(LineSettings(), 0)
    line.head = line.model  # the same weights, by another name
    refuse_to_forget(line)
    line.scale = nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"Line has scale, a Linear, which its checkpoints would lack"):
        refuse_to_forget(line)
    del line.scale, line.dice
    with pytest.raises(ValueError, match=r"Line.state_attributes lists 'dice', which it does not have"):
        refuse_to_forget(line)


def module(*weights):
    made = nn.Module()
    made.weight = nn.Parameter(torch.tensor(weights))
    return made


@pytest.mark.parametrize(
    ("weights", "finite", "grown"),
    [
        ((1.0, -2.0), True, False),
        ((3e38, 3e38), True, True),  # their length is no float32 any more
        ((1.0, float("nan")), False, True),
        ((float("-inf"),), False, True),
        ((), True, False),
    ],
)
def test_weights_are_looked_at_in_every_module(weights, finite, grown):
    modules = [module(0.5), module(*weights)]
    assert weights_are_finite(modules) == finite
    assert grown_beyond_bounds(modules) == grown


def test_streams_of_one_run_are_apart_and_stay():
    assert stream(0, "points") == stream(0, "points")
    purposes = [stream(seed, what) for seed in range(3) for what in ("points", "dice", "policy")]
    assert len(set(purposes)) == 9


def test_files_beside_the_state_are_read_and_not_opened(tmp_path):
    fit(3, out=tmp_path / "run")
    home = RunFolder.at("folder", tmp_path / "run")
    (tmp_path / "run" / "checkpoint-000003" / "points.bin").write_bytes(b"not a pickle")
    read = read_checkpoint(home, format="line 1", files=("points.bin", "absent.bin"))
    assert read.files == {"points.bin": b"not a pickle"}
    new_folder(RunFolder.at("folder", tmp_path / "copy"))
    write_checkpoint(tmp_path / "copy", read)
    for name in ("state.pt", "points.bin"):
        one, copy = (tmp_path / run / "checkpoint-000003" / name for run in ("run", "copy"))
        assert one.read_bytes() == copy.read_bytes()
    assert (tmp_path / "run" / "history.csv").read_bytes() == (tmp_path / "copy" / "history.csv").read_bytes()
