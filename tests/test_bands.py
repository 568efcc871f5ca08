"""Bands over seeds: what they assert, and what they say of their room."""

import math

import pytest
from bands import Band, table_of


@pytest.mark.parametrize(
    ("values", "low", "high", "margin"),
    [
        ([9.0, 10.0, 11.0], 7.0, math.inf, 3.0),
        ([9.0, 10.0, 11.0], 7.0, 11.5, 1.5),
        ([9.0, 10.0, 11.0], 10.5, math.inf, -0.5),
        ([-500.0, -90.0, -90.0, -90.0, -90.0], -200.0, math.inf, 110 / (410 / math.sqrt(5))),
        ([1.0, 1.0, 1.0], 0.5, math.inf, math.inf),
        ([0.0, 0.0, 0.0], 0.5, math.inf, -math.inf),
        ([1.0, 1.0, 1.0], 1.0, math.inf, 0.0),
    ],
)
def test_the_margin_is_counted_in_spreads(values, low, high, margin):
    assert Band("", values, low, high).margin == pytest.approx(margin)


def test_outside_it_fails_and_too_near_if_room_is_asked_for():
    Band("x", [9.0, 10.0, 11.0], 8.5, math.inf).judge()
    with pytest.raises(AssertionError, match=r"x: 1\.5 spreads from its bound"):
        Band("x", [9.0, 10.0, 11.0], 8.5, math.inf).judge(2)
    with pytest.raises(AssertionError, match=r"must be at least 10\.5 and at most 12"):
        Band("x", [9.0, 10.0, 11.0], 10.5, 12.0).judge()


def test_the_table():
    made = [Band("b", [9.0, 10.0, 11.0], 7.0, math.inf), Band("a", [0.5, 0.5], -math.inf, 1.0)]
    assert [line.split() for line in table_of(made)] == [
        ["median", "spread", "seeds", "margin", "must", "be", "band"],
        ["0.5", "0", "2", "inf", "at", "most", "1", "a"],
        ["10", "1", "3", "3.0", "at", "least", "7", "b"],
    ]
