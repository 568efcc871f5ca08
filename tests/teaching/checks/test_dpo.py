"""The checks of chapter 9's exercises, on answers as readers might write them, and the messages.

At the end stands what the exercises' texts say of the numbers that they print.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from answers import tables
from answers.dpo import exact, pairs, texts
from checks import CheckTests, Exercises

from ppobook.course import masters
from ppobook.experiments import results
from ppobook.teaching import checks
from ppobook.teaching.checks import dpo

EXERCISES = Exercises("09_dpo")
RIGHT, WRONG, UNNAMED = tables(pairs, exact, texts)


class TestChecks(CheckTests):
    module = dpo
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    kinds = {"Prove": 4, "Build": 4, "Hunt": 1, "Reflect": 1}  # noqa: RUF012


def test_the_page_says_how_many_exercises_there_are() -> None:
    assert EXERCISES.cells[0]["source"].find("Ten exercises for") > 0
    assert len(masters.exercises(masters.read(EXERCISES.master))) == 10


def test_a_pair_that_is_not_filled_says_where() -> None:
    stub = 'raise NotImplementedError("not yet: pair-by-hand")'
    answer = "return ratios, h, chance, loss, weight"
    verdict = checks.run("pair-by-hand", EXERCISES.blank("pair-by-hand", lambda s: s.replace(stub, answer)))
    assert (verdict.kind, verdict.name) == ("returned", "an entry is still empty")
    assert "“ratios”" in verdict.message


@pytest.mark.parametrize("name", sorted({*RIGHT} - {"pair-by-hand"}))
def test_float64_is_as_good(name: str) -> None:
    answer = EXERCISES.reference(name)

    def in_double(*given: Any) -> Any:
        return answer(
            *(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given)
        )

    assert checks.run(name, in_double).right


@pytest.mark.parametrize("name", ["best-policy", "both-fall", "dpo-train", "no-reference", "pair-rest"])
def test_plain_lists_are_as_good(name: str) -> None:
    answer = EXERCISES.reference(name)

    def in_lists(*given: Any) -> Any:
        back = answer(*given)
        return [x.tolist() for x in back] if isinstance(back, tuple) else back.tolist()

    assert checks.run(name, in_lists).right


# --- what the texts say of the numbers that they print


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    return EXERCISES.world(END=0, KIND=1, PLAIN=2, RUDE=3, ASK=4, LIMIT=8)


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[float]]:
    """The numbers of each line."""
    lines = capsys.readouterr().out.splitlines()
    return [[float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", line)] for line in lines]


def test_three_gauges_show_three_bugs(world, capsys) -> None:
    world["gauges"](world["suspicious_loss"])
    first, counted, *pushes = printed(capsys)
    assert first[-1] == pytest.approx(0.5 * math.log(2), abs=1e-3)
    assert counted[0] - counted[1] == 2000  # a token of each text
    assert pushes[0][1] > 1.8 * pushes[1][1] > 3 * pushes[2][1]
    world["gauges"](world["pair_loss"])
    first, counted, *pushes = printed(capsys)
    assert first[-1] == pytest.approx(math.log(2), abs=1e-3)
    assert counted[0] == counted[1]
    assert np.ptp([push[1] for push in pushes]) < 1e-6


def test_with_the_bugs_the_loss_falls_and_gold_rises(world, capsys) -> None:
    world["learn"](world["suspicious_loss"])
    rows = printed(capsys)  # step, loss, gold, KL, cut off
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    assert rows[-1][2] > rows[0][2] + 1
    world["learn"](world["pair_loss"])
    mended = printed(capsys)
    assert mended[-1][4] < 0.05 < 0.1 < rows[-1][4]
    assert mended[-1][2] < rows[-1][2]
    worth = [end[2] - 0.5 * end[3] for end in (mended[-1], rows[-1])]
    assert worth == pytest.approx([0.3, 0.0], abs=0.15)


def test_both_fall_and_both_rise_somewhere(world) -> None:
    kind, few = torch.arange(5.0)[:, None], torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05])
    found = [world["rates"](few, kind, torch.tensor([x]), 2, 0, 0.5) for x in (0.0, 2.0)]
    assert found[0][2] > 0 > found[0][0]
    assert max(found[1][2], found[1][0]) < 0
    up = world["rates"](few, kind, torch.tensor([-3.0]), 3, 2, 0.5)
    assert min(up[3], up[2]) > 0


def test_a_certain_pair_goes_as_far_as_the_text_says() -> None:
    beta, h, t, step = 0.1, 0.0, 0.0, 2.0
    while t < 200_000:
        h += step * beta / (1 + math.exp(beta * h))
        t += step
    assert math.exp(beta * h) + beta * h == pytest.approx(1 + beta**2 * t, rel=1e-2)
    assert math.log(10) / beta == pytest.approx(23, abs=0.1)


def test_the_record_is_as_the_rubric_says() -> None:
    runs = results("language_dpo")
    runs = runs[(runs["loss"] == "dpo") & (runs["pairs"] == 3840) & (runs["update"] == 120)]
    end = runs.set_index(["data", "seed"])
    online, offline = end.loc["policy"], end.loc["reference"]
    assert (online["h"].mean(), offline["h"].mean()) == pytest.approx((2, 7), abs=0.5)
    assert (online["accuracy"].mean(), offline["accuracy"].mean()) == pytest.approx((0.62, 0.75), abs=0.01)
    assert (online["kl"].mean(), offline["kl"].mean()) == pytest.approx((7, 15), abs=0.6)
    assert (online["ended"].mean(), offline["ended"].mean()) == pytest.approx((1.0, 0.86), abs=0.01)
    assert (online["gold"].mean(), offline["gold"].mean()) == pytest.approx((3.7, 1.9), abs=0.06)
    assert (online["gold"] > offline["gold"]).all()
    assert (end["mass_chosen"] + end["mass_rejected"]).groupby("data").mean().max() < 0.005
    assert end["chosen"].groupby("data").mean().between(-12.6, -11.4).all()
