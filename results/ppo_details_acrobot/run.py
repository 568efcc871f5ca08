"""Chapter 5: PPO with one detail changed at a time, Acrobot. Cases: `ppo_details/details.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "ppo_details"))
from details import CASES, one

from ppobook.experiments import record

if __name__ == "__main__":
    record(
        "ppo_details_acrobot",
        one,
        [{"env": "Acrobot-v1", "case": case} for case in CASES],
        seeds=range(100, 110),
        workers=1,
        digits=4,
        note="The presets, one thing changed at a time; steps by runs on seeds 0 and 1. Five seeds made ten, "
        "after the first five were seen; every seed reported.",
    )
