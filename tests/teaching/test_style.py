"""The book's look: what a colour means, whether colours differ enough, and what is drawn from seeds."""

from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from ppobook.teaching import style

MEANINGS = ("vanilla", "trpo", "ppo", "ppo_kl", "grpo", "dpo", "good", "bad")

# Machado, Oliveira and Fernandes 2009: complete protanopia, deuteranopia and tritanopia, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = xyz @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    low, high = sorted(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour) for colour in (one, other))
    return float((high + 0.05) / (low + 0.05))


@pytest.mark.parametrize("variant", ["light", "dark"])
@pytest.mark.parametrize("kind", BLINDNESS)
def test_any_two_meanings_can_be_told_apart(kind, variant):
    seen = {name: lab(BLINDNESS[kind] @ linear(style.colour(name, variant))) for name in MEANINGS}
    for one, other in itertools.combinations(MEANINGS, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 12, f"{one} and {other} look alike under {kind}"


@pytest.mark.parametrize("name", [*MEANINGS, "truth", "ink", "muted"])
def test_letters_have_enough_contrast(name):
    assert contrast(style.colour(name, "text"), style.colour("paper")) >= 4.5
    assert contrast(style.colour(name, "dark"), style.colour("paper", "dark")) >= 4.5


@pytest.mark.parametrize(("count", "level"), [(2, 0.95), (10, 0.8)])
def test_interval_of_the_mean_is_students(count, level):
    curves = np.random.default_rng(count).normal(3.0, 2.0, size=(count, 4))
    mean, low, high = style.mean_interval(curves, level)
    expected = stats.t.interval(level, count - 1, loc=curves.mean(0), scale=stats.sem(curves))
    np.testing.assert_allclose(mean, curves.mean(0))
    np.testing.assert_allclose((low, high), expected, rtol=1e-5)


def test_names_beside_curves_do_not_overlap():
    with mpl.rc_context(style.settings()):
        figure = Figure()
        ax = figure.subplots()
        for name, end in (("ppo", 1.0), ("trpo", 1.01), ("vanilla", 0.99)):
            ax.plot([0, 1], [0, end], color=style.colour(name), label=name)
        ax.plot([0, 1], [0, 0.5], color=style.colour("muted"))
        ax.plot([0, 1], [0, 2.0], color=style.colour("bad"), label="bad")
        style.label_curves(ax)
        figure.draw_without_rendering()
        boxes = {text.get_text(): text.get_window_extent() for text in ax.texts}
    assert set(boxes) == {"ppo", "trpo", "vanilla", "bad"}
    for one, other in itertools.combinations(boxes.values(), 2):
        assert min(one.y1, other.y1) - max(one.y0, other.y0) <= 2
    assert all(box.x1 <= figure.bbox.x1 for box in boxes.values())
    colours = {text.get_text(): text.get_color() for text in ax.texts}
    assert colours["vanilla"] == style.colour("vanilla", "text")


def draw_in_fresh_process(folder: Path) -> bytes:
    code = (
        "from ppobook.teaching import style; style.use()\n"
        "import matplotlib.pyplot as plt; fig, ax = plt.subplots()\n"
        "style.seeds(ax, [0, 1, 2], [[0, 1, 2], [1, 1, 3]], label='vanilla'); style.label_curves(ax)\n"
        "fig.savefig('out.svg', metadata={'Date': None})"
    )
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, env={**os.environ, "MPLBACKEND": "agg"}
    )
    return (folder / "out.svg").read_bytes()


def test_a_figure_is_drawn_with_the_same_bytes_twice(tmp_path):
    first = draw_in_fresh_process(tmp_path)
    assert draw_in_fresh_process(tmp_path) == first
    assert b"<text" not in first, "letters must be outlines: a reader's machine may lack the font"


def test_teaching_needs_no_torch_and_the_site_not_even_numpy():
    code = (
        "import sys, ppobook.teaching as t\n"
        "t.cards, t.figures, t.style\n"
        "t.cards('00_setting_out'), t.figures.source('baseline'), t.style.colour('ppo')\n"
        "heavy = ('torch', 'numpy', 'matplotlib', 'anywidget')\n"
        "print(*[name for name in heavy if name in sys.modules], end=';')\n"
        "t.check, t.figures.baseline()\n"
        "import ppobook.teaching.site\n"
        "print(*[name for name in ('torch', 'matplotlib', 'gymnasium') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ";"


def test_a_compact_svg_is_the_same_picture_in_fewer_bytes():
    figure = Figure()
    figure.subplots().plot(np.linspace(0, 1, 50) ** 2)
    file = io.StringIO()
    figure.savefig(file, format="svg")
    long, short = file.getvalue(), style.compact(file.getvalue())
    assert len(short) < 0.8 * len(long)
    before, after = (ElementTree.fromstring(svg) for svg in (long, short))
    drawn = [[e.tag for e in tree.iter() if e.tag.endswith(("}path", "}use"))] for tree in (before, after)]
    assert drawn[0] == drawn[1]
    numbers = [
        [float(x) for x in re.findall(r"-?\d+\.?\d*", e.get("d"))]
        for tree in (before, after)
        for e in tree.iter()
        if e.get("d")
    ]
    half = len(numbers) // 2
    for one, other in zip(numbers[:half], numbers[half:], strict=True):
        np.testing.assert_allclose(one, other, atol=0.0101)
