"""Bands: what is learned, judged by the median over seeds, with its distance to the bound.

Rounding differs from processor to processor, and after some thousand updates so does all else: on another
machine a seed is another seed. A test that trains therefore asserts a band, at several seeds, whose bound was
settled on other seeds, 1000 and up, so far off that the median has room: at least twice the spread, which is
the standard deviation over seeds. The table of bands at the end of a session says how much room each had.

    def test_it_learns(band):
        band([trained(seed) for seed in seeds(4)], at_least=300)  # settled: 480, 15

Whoever changes a bound, a budget or a number of seeds after a look at what `seeds` gave settles them again on
seeds from 1000 on, and judges by new ones: `seeds(4, first=310)`.
"""

import math
from statistics import median, stdev
from typing import NamedTuple

import pytest


def seeds(number, first=300):
    """So many seeds to judge by: none that a bound was settled on."""
    return range(first, first + number)


class Band(NamedTuple):
    """The test; its values, one a seed; between which bounds their median must be."""

    name: str
    values: list[float]
    low: float
    high: float

    @property
    def median(self):
        return median(self.values)

    @property
    def spread(self):
        return stdev(self.values)

    @property
    def margin(self):
        """From the median to the nearest bound in standard deviations; negative outside."""
        distance = min(self.median - self.low, self.high - self.median)
        if not math.isfinite(distance) or not self.spread:
            return math.copysign(math.inf, distance) if distance else 0.0
        return distance / self.spread

    @property
    def wanted(self):
        parts = [f"at least {self.low:g}"] * (self.low > -math.inf)
        return " and ".join(parts + [f"at most {self.high:g}"] * (self.high < math.inf))

    def judge(self, least_margin=0.0):
        assert self.low <= self.median <= self.high, f"{self.name}: {self.values} must be {self.wanted}"
        assert self.margin >= least_margin, f"{self.name}: {self.margin:.1f} spreads from its bound"


def table_of(bands):
    """Lines: a heading, then the bands with their margins."""
    rows = [("median", "spread", "seeds", "margin", "must be", "band")]
    for band in sorted(bands, key=lambda band: band.name):
        numbers = f"{band.median:.4g}", f"{band.spread:.2g}", f"{len(band.values)}", f"{band.margin:.1f}"
        rows.append((*numbers, band.wanted, band.name))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(map(str.rjust, row[:4], widths)) + f"  {row[4].ljust(widths[4])}  {row[5]}" for row in rows
    ]


@pytest.fixture
def band(request, record_property):
    """A function that asserts that the median of `values`, one a seed, is within its bounds."""
    name = request.node.nodeid.removeprefix("tests/")

    def judge(values, *, at_least=-math.inf, at_most=math.inf, of=""):
        made = Band(f"{name}{of and ': '}{of}", [float(x) for x in values], at_least, at_most)
        record_property("band", list(made))
        made.judge(request.config.getoption("least_margin"))

    return judge


# Hooks, for conftest.py.


def pytest_addoption(parser):
    parser.addoption(
        "--least-margin",
        type=float,
        default=0.0,
        help="a band fails within so many standard deviations of its bound (`make learning`: 2)",
    )


def pytest_terminal_summary(terminalreporter):
    reports = [
        report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])
    ]
    bands = [Band(*value) for report in reports for key, value in report.user_properties if key == "band"]
    if bands:
        import torch

        terminalreporter.section(f"bands over seeds, {torch.backends.cpu.get_cpu_capability()}")
        for line in table_of(bands):
            terminalreporter.line(line)
