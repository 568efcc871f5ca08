"""Progress of a run on stderr: a bar, lines, or nothing."""

import pytest
from line import fit
from small_runs import small

from ppobook.run import progress


@pytest.fixture
def lines(monkeypatch, capfd):
    """Lines that training writes to a stderr that is not a terminal, with a line due every time."""
    monkeypatch.setattr(progress, "BETWEEN_LINES", 0.0)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)

    def written(train, **given):
        train(**given)
        out, err = capfd.readouterr()
        assert out == ""
        return err.splitlines()

    return written


def test_without_a_terminal_there_is_a_line_now_and_then(lines, monkeypatch):
    announced, *said = lines(small, total_steps=96)
    preset = "preset: lr=0.003, value_lr=0.003"
    assert announced == f"vanilla on CartPole-v1: 3 updates of 16 × 2 steps; {preset}"
    assert [line.partition(" steps, mean_return ")[0] for line in said] == [
        f"vanilla on CartPole-v1: {n} of 96" for n in (32, 64, 96)
    ]
    assert said[-1].endswith(" steps/s, 00:00 left")
    # A short run has no line, a long one has a last line.
    clock = iter([0.0, 9.0, 20.0, 20.0, 30.0, 30.0])
    monkeypatch.setattr(progress, "BETWEEN_LINES", 15.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.Progress(300, 100, "a run", "step", None) as line:
        for count in (150, 200, 300):
            line.show(count, {"loss": "0.1"})
    monkeypatch.undo()
    assert lines(lambda: None) == [
        "a run: 200 of 300 steps, loss 0.1, 5 steps/s, 00:20 left",
        "a run: 300 of 300 steps, loss 0.1, 6.67 steps/s, 00:00 left",
    ]
    assert lines(fit) == []
