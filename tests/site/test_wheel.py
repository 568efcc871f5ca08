"""The package from its wheel, outside the checkout, as Colab and a reader's own folder have it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

OUTSIDE = """
import ppobook
from ppobook.teaching import cards, check, checks, figures, quiz, style

assert "site-packages-of-the-wheel" in ppobook.__file__, ppobook.__file__
assert len(ppobook.results("vanilla_collapse")) > 1000
assert "details" in cards("01_vanilla_policy_gradient")._repr_html_()
assert figures.baseline()._repr_mimebundle_()
assert quiz("00_setting_out")._repr_mimebundle_()
style.use()
try:
    check("softmax-score", lambda logits, action, heat: -logits)
except checks.NotRight:
    pass
try:
    check("softmax-score", lambda logits, action, heat: logits.softmax(-1))
except checks.NotRight as wrong:
    assert "Think: the score is the gradient" in str(wrong), wrong
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site-packages-of-the-wheel")
    return folder / "site-packages-of-the-wheel"


def test_nothing_of_the_checkout_is_needed(installed: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(installed), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_each_recorded_table_travels_with_it(installed: Path) -> None:
    for file in ("table.csv", "facts.json"):
        here = {path.parent.name for path in (ROOT / "results").glob(f"*/{file}")}
        assert here == {path.parent.name for path in (installed / "ppobook" / "_results").glob(f"*/{file}")}
        assert here
