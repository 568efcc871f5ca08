"""A build by Sphinx in a process of its own: what an earlier one registered in this process would stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def sphinx(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Sphinx in a folder, with the book's extensions and library; warnings are errors."""
    paths = [str(ROOT / "tools"), str(ROOT / "lib"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
    )
