"""Time the library's trainers through the public function `ppobook.train`.

A job's settings are those of the algorithm; none means the environment's preset.
"""

from __future__ import annotations

import contextlib
from typing import Any

import common
import numpy as np
import torch

from ppobook import train
from ppobook.training import ALGORITHMS


def actor(policy: Any, space: Any) -> common.Act:
    generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def act(observations: np.ndarray) -> np.ndarray:
        # The generator's state is a check's own: one check does not depend on how many came before.
        actions = policy.sample(torch.as_tensor(observations), generator)[0].numpy()
        return np.clip(actions, space.low, space.high) if hasattr(space, "low") else actions

    return act


def run(job: dict[str, Any]) -> dict[str, Any]:
    kind = ALGORITHMS.find(job["algorithm"])
    if not job.get("cold"):
        train(kind, env=job["env"], total_steps=1, progress=False, **job["settings"])  # imports, caches
    watch = common.Watch(job)

    class Watched(kind):  # type: ignore[misc, valid-type]
        def update(self, rollout: Any) -> dict[str, float]:
            measured = super().update(rollout)
            steps = watch.steps + rollout.rewards.numel()
            watch.after_update(steps, actor(self.policy, self.spaces[1]))
            return measured

    watch.clock.start()
    with contextlib.suppress(common.Enough):
        train(
            Watched,
            env=job["env"],
            seed=job["seed"],
            total_steps=job["total_steps"],
            num_threads=1,
            progress=False,
            **job["settings"],
        )
    watch.clock.stop()
    return watch.result()


if __name__ == "__main__":
    common.main(run)
