"""Tables that a reader fills in: a place that is still empty is named."""

from __future__ import annotations

import pytest
from answers.online import loops
from checks import Exercises

from ppobook.teaching import checks

ROWS = ", ".join(f'"{name}": {name}' for name in loops.TABLE)


@pytest.mark.parametrize(
    ("chapter", "name", "answer", "said"),
    [
        ("03_the_clipped_surrogate", "clip-table-up", "table", "row r = 0.5"),
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
