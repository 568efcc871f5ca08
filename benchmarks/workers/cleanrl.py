"""CleanRL's ppo.py, run as it stands but for two lines.

The file comes from the driver, which knows its checksum. Two lines have to change for Gymnasium 1.x:

1. Its environments are made with the autoreset mode SAME_STEP. Under Gymnasium's default the step after an
   episode's end is a reset that ignores its action, and the file would train on those steps.
2. `infos["final_info"]` is a dict of arrays now, and the loop over finished episodes reads it as one.

Everything else about it stays: settings are given as on its command line, its own metrics are computed. What
it prints is dropped, and what it logs goes to a writer that keeps nothing, so that no disk is on the clock;
that writer is also where this worker learns that an update is done.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

CHANGES = {
    "for i in range(args.num_envs)],\n": (
        "for i in range(args.num_envs)],\n        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,\n"
    ),
    'for info in infos["final_info"]:': (
        'for info in [{"episode": {k: v[i] for k, v in infos["final_info"]["episode"].items()}}'
        ' for i in np.flatnonzero(infos["final_info"]["_episode"])]:'
    ),
}


class Writer:
    """In place of TensorBoard's: keeps nothing, and calls `after_update` when an update has been logged."""

    watch: common.Watch | None = None

    def __init__(self, *_: Any) -> None:
        if Writer.watch is not None:
            Writer.watch.clock.start()  # arguments are read; now environments and networks are made

    def add_text(self, *_: Any) -> None:
        pass

    def add_scalar(self, name: str, _: Any, step: int) -> None:
        if name == "charts/SPS" and Writer.watch is not None:  # the last thing that an update logs
            Writer.watch.after_update(step, actor(sys.modules["__main__"].agent))

    def close(self) -> None:
        if Writer.watch is not None:
            Writer.watch.clock.stop()


def actor(agent: Any) -> common.Act:
    @torch.no_grad()
    def act(observations: np.ndarray) -> np.ndarray:
        return agent.get_action_and_value(torch.Tensor(observations))[0].numpy()

    return act


def run(job: dict[str, Any]) -> dict[str, Any]:
    tensorboard = types.ModuleType("torch.utils.tensorboard")
    tensorboard.SummaryWriter = Writer  # type: ignore[attr-defined]
    sys.modules[tensorboard.__name__] = tensorboard
    file = Path(os.environ["PEER_FILES"], "cleanrl", "ppo.py")
    source = common.patched(file.read_text(encoding="utf-8"), CHANGES)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ppo.py"
        file.write_text(source, encoding="utf-8")
        warm_up = {"total_timesteps": 256, "num_steps": 64}
        start(file, {**job, "settings": {**job["settings"], **warm_up}})
        Writer.watch = common.Watch(job)
        whole = {"total_timesteps": job["total_steps"]}
        with contextlib.suppress(common.Enough):
            start(file, {**job, "settings": {**job["settings"], **whole}})
        Writer.watch.clock.stop()
    return Writer.watch.result()


def start(file: Path, job: dict[str, Any]) -> None:
    """Run the file as its command line does."""
    given = {"env_id": job["env"], "seed": job["seed"], **job["settings"]}
    sys.argv = [file.name, "--no-cuda"]
    for name, value in given.items():
        flag = name.replace("_", "-")
        sys.argv += (
            [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
        )
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        runpy.run_path(str(file), run_name="__main__")


if __name__ == "__main__":
    common.main(run)
