"""What all checks share: what they print, what they refuse, and that they stop."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import pytest
import torch

from ppobook.teaching import check, checks


def test_check_prints_or_raises(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        check("pg-loss", lambda logp, advantages, mask: -(logp * advantages.detach() * mask).sum(1).mean())
        is None
    )
    assert capsys.readouterr().out.startswith("✓ Right: pg-loss\n")
    with pytest.raises(checks.NotRight) as shown:
        check("pg-loss", lambda logp, advantages, mask: (logp * advantages.detach() * mask).sum() / len(logp))
    shown = shown.value._render_traceback_()
    assert shown[0] == "✗ Not right: a reward, not a loss"
    assert "Read: chapter 1" in "\n".join(shown)
    assert not any("Traceback" in line for line in shown)


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(
        checks.UnknownCheck, match=r"no check named 'reward-togo'\. Did you mean 'reward-to-go'"
    ):
        check("reward-togo", lambda: 0)
    with pytest.raises(checks.UnknownCheck, match=r"There are .*, softmax-score, score-mean"):
        check("zzz", lambda: 0)


def test_a_result_in_place_of_the_function_is_refused() -> None:
    with pytest.raises(checks.UnknownCheck, match=r"your function itself, and got a tensor of shape"):
        check("pg-loss", torch.zeros(3))  # type: ignore[arg-type]


def test_a_wrong_number_of_arguments_is_told() -> None:
    verdict = checks.run("reward-to-go", lambda rewards, gamma: rewards)
    assert verdict.kind == "raised"
    assert "positional arguments" in " ".join(verdict.message.split())
    assert "It was called with (a tensor of shape [1, 6]" in verdict.message


def test_an_answer_that_exits_is_told() -> None:
    verdict = checks.run("reward-to-go", lambda *args: sys.exit(0))
    assert verdict.kind == "raised"
    assert "SystemExit" in verdict.message


def test_an_endless_loop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SECONDS", 0.3)

    def endless(*args: Any) -> Any:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    assert checks.run("softmax-score", endless).kind == "slow"


def test_the_machinery_loads_no_torch() -> None:
    code = "import sys; from ppobook.teaching import check; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
