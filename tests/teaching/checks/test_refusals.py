"""Answers that are no answer of their exercise, told in words, and right ones in another form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from answers.dpo import exact, pairs, texts
from answers.online import loops
from checks import Exercises, in_double

from ppobook.teaching import checks

ROWS = ", ".join(f'"{name}": {name}' for name in loops.TABLE)


@pytest.mark.parametrize(
    ("chapter", "name", "answer", "said"),
    [
        ("03_the_clipped_surrogate", "clip-table-up", "table", "row ρ = 0.5"),
        (
            "04_generalized_advantage_estimation",
            "gae-table",
            "followed, deltas, advantages",
            "“what followed”",
        ),
        ("07_rlhf", "token-table", "logits_at, mask, reward_at, ended", "“logits_at”"),
        ("09_dpo", "pair-by-hand", "ratios, h, chance, loss, weight", "“ratios”"),
        ("10_online_loops", "four-loops", f"{{{ROWS}}}", "“texts”"),
    ],
)
def test_a_table_that_is_not_filled_says_where(chapter: str, name: str, answer: str, said: str) -> None:
    stub = f'raise NotImplementedError("not yet: {name}")'
    blank = Exercises(chapter).blank(name, lambda source: source.replace(stub, f"return {answer}"))
    verdict = checks.run(name, blank)
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")
    assert said in verdict.message


@pytest.mark.parametrize(
    ("chapter", "name", "change", "said"),
    [
        (
            "03_the_clipped_surrogate",
            "hunt-stale",
            lambda x: (x, torch.zeros(())),
            "more than the log ratios",
        ),
        ("03_the_clipped_surrogate", "inside-the-box", lambda x: x.numpy(), "an array"),
        ("08_grpo", "grpo-token-loss", torch.Tensor.detach, "cut off from autograd"),
        ("08_grpo", "grpo-token-loss", torch.Tensor.item, "no tensor"),
        ("08_grpo", "grpo-update", lambda x: [], "no losses"),
        ("08_grpo", "hunt-groups", lambda x: x[2][None], "not three things"),
    ],
)
def test_what_the_cell_below_could_not_use_is_refused(
    chapter: str, name: str, change: Callable[..., Any], said: str
) -> None:
    answer = Exercises(chapter).reference(name)
    assert checks.run(name, lambda *given, **more: change(answer(*given, **more))).name == said


def test_float64_and_plain_lists_are_as_good() -> None:
    grpo, dpo = Exercises("08_grpo"), Exercises("09_dpo")
    for name in ("prompt-weight", "grpo-token-loss", "hunt-three"):
        assert checks.run(name, in_double(grpo.reference(name))).right, name
    for name in {*pairs.RIGHT, *exact.RIGHT, *texts.RIGHT} - {"pair-by-hand"}:
        assert checks.run(name, in_double(dpo.reference(name))).right, name
    answer = dpo.reference("best-policy")
    assert checks.run("best-policy", lambda *given: [x.tolist() for x in answer(*given)]).right


def test_a_batch_whose_rewards_are_equal_cannot_be_chosen_among_thousands() -> None:
    right, calls = Exercises("08_grpo").reference("hunt-groups"), []

    def zeros(prompts: Any, group_size: int, draw: Any, reward: Any) -> Any:
        """After a first batch, draw so many answers that some have equal rewards, and take those."""
        calls.append(group_size)
        if len(calls) == 1:
            return right(prompts, group_size, draw, reward)
        many = draw(prompts.repeat_interleave(4096 * group_size)).view(-1, 4096)
        rows, answers = prompts.repeat_interleave(group_size), many[:, 0]
        reward(rows, answers)
        return rows, answers, torch.zeros(len(rows))

    verdict = checks.run("hunt-groups", zeros)
    assert (verdict.kind, verdict.name) == ("returned", "far more answers than asked for")
