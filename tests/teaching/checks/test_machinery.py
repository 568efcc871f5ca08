"""Behavior that all checks share: what they print, what they refuse, and that they stop."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch

from ppobook.teaching import check, checks
from ppobook.teaching.checks import Mistake, Stop, probes
from ppobook.teaching.checks.probes import agrees, random_problems


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


def test_a_result_in_place_of_the_function_is_refused() -> None:
    with pytest.raises(checks.UnknownCheck, match=r"your function itself, and got a tensor of shape"):
        check("pg-loss", torch.zeros(3))  # type: ignore[arg-type]


def test_an_endless_loop_is_stopped() -> None:
    def endless(*args: Any) -> Any:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    assert checks.run("softmax-score", endless, seconds=0.3).kind == "slow"


# --- what checks are written with


def doubled(x: Any) -> Any:
    x *= 2
    return x


def detached(x: Any) -> Any:
    return x.detach_()


def stumbling_late(x: Any) -> Any:
    return doubled(x) + undefined_name  # noqa: F821


@pytest.mark.parametrize(
    ("change", "value", "what"),
    [
        (doubled, np.ones(2), "an argument is overwritten"),
        (doubled, torch.ones(2), "an argument is overwritten"),
        (stumbling_late, np.ones(2), "NameError"),
        (detached, probes.leaf([1.0]), "an argument is detached in place"),
    ],
)
def test_an_argument_that_is_changed_in_place_is_named_and_spoils_no_other_call(
    change: Any, value: Any, what: str
) -> None:
    with pytest.raises((Mistake, Stop)) as raised:
        checks.Answer("toy", change)(value)
    assert raised.value.name == what
    assert float(value[0]) == 1


def _draw(rng: np.random.Generator) -> dict[str, Any]:
    size = rng.integers(1, 5)
    return {"x": rng.normal(size=size), "weights": 100 * rng.normal(size=size), "power": 2}


def _slow(p: probes.Problem) -> float:
    return sum(w * x**p.power for x, w in zip(p.x, p.weights, strict=True))


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (lambda x, w, power: (w.detach() * x**power).sum(), ""),
        (lambda x, w, power: ((w.detach() * x.detach() ** power) + 0 * x).sum(), "its gradient by x"),
        (lambda x, w, power: (w * x**power).sum(), "its gradient by weights"),
        (lambda x, w, power: (w.detach() * x**power).mean(), "your loss"),
    ],
)
def test_agrees_shows_the_smallest_problem_that_fails(answer: Any, part: str) -> None:
    problems = random_problems(_draw)
    found = agrees(answer, _slow, problems, what="your loss", by=("x",), held=("weights",))
    assert found.holds == (part == ""), found.seen
    if part:
        assert f"\n{part}:\n" in found.seen
        least = 2 if part == "your loss" else 1  # the mean of one number is its sum
        assert found.seen.splitlines()[1].count(",") == least - 1
        assert "    power = 2" in found.seen
        assert "by the slow definition:" in found.seen


def test_an_answer_that_writes_into_its_problem_still_disagrees() -> None:
    def answer(x: np.ndarray, *_: Any) -> float:
        x[:] = 1e300
        return 0.0

    assert not agrees(answer, _slow, random_problems(_draw), arrays=True).holds


# --- what a verdict shows


def verdict_of(monkeypatch: pytest.MonkeyPatch, *findings: Any) -> checks.Verdict:
    chapter = checks.Chapter(9, "A chapter", {"sec-here": "Here", "sec-there": "There"})
    rows = {"a mistake": {"seen": "it is {got}.", "think": "why?", "section": "sec-there"}}
    entry = checks._Entry(lambda answer: iter(findings), "sec-here", chapter, rows)
    monkeypatch.setattr(checks, "_entry", lambda name: entry)
    return checks.run("toy", lambda: None)


def test_the_headline_says_which_property_fails_and_each_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = checks.Property("one holds", True), checks.Property("two holds", False, "it is 3")
    verdict = verdict_of(monkeypatch, one, two, one, checks.Property("three holds", False, "it is 4"))
    assert verdict.kind == "property"
    assert verdict.message.splitlines() == [
        "✗ Not right; this fails: two holds",
        "  Seen: it is 3",
        "  ✓ one holds",
        "  ✗ three holds",
        "  Read: chapter 9, A chapter, “Here” (sec-here).",
    ]
    assert verdict_of(monkeypatch, one, one).message.splitlines() == ["✓ Right: toy", "  ✓ one holds"]


def test_a_property_that_failed_once_has_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two results are compared with a slow definition in the same words, and the first one differs."""
    sum_, same = checks.Property("the sum is 1", False, "it is 3"), "it agrees"
    for first, second in ((True, False), (False, True)):
        found = checks.Property(same, first, "at 5"), checks.Property(same, second, "at 7")
        message = verdict_of(monkeypatch, sum_, *found).message
        assert f"✗ {same}" in message
        assert f"✓ {same}" not in message
    assert "✓ it agrees" in verdict_of(monkeypatch, sum_, *2 * [checks.Property(same, True)]).message
