"""Learning rates: those that an own optimizer's groups were given, scaled by the setting's schedule."""

import numpy as np
import pytest
import torch

from ppobook import train
from ppobook.ppo import PPO

PLAIN = {"num_envs": 2, "num_steps": 32, "hidden": (8,)}
SMALL = {**PLAIN, "epochs": 2, "num_minibatches": 4, "lr": 3e-4, "lr_final": None}
STEPS = 64 * 4


class TwoGroups(PPO):
    """Two rates."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        groups = [{"params": self.policy.parameters(), "lr": 1e-2}, {"params": self.value.parameters()}]
        self.optimizer = torch.optim.SGD(groups, lr=0.2)
        self.rates = [0.0, 0.0]

    def gradient_step(self, minibatch):
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        return super().gradient_step(minibatch)


def trained(kind, **settings):
    return train(kind, "CartPole-v1", total_steps=STEPS, progress=False, **{**SMALL, **settings})


@pytest.mark.parametrize("fast", [True, False])
def test_the_schedule_scales_all_groups_and_a_resumed_run_goes_on_with_it(fast, tmp_path):
    seen = []

    class Seen(TwoGroups):
        def update(self, rollout):
            metrics = super().update(rollout)
            seen.append(self.rates)
            return metrics

    run = trained(Seen, lr_final=0.0, fast=fast, out=tmp_path / "run", checkpoint_every=1)
    share = 1 - np.arange(4) / 4
    np.testing.assert_allclose(run.history["lr"], 1e-2 * share)
    np.testing.assert_allclose(np.array(seen), np.outer(share, [1e-2, 0.2]))
    seen.clear()
    train(Seen, resume=tmp_path / "run", total_steps=2 * STEPS, progress=False)
    np.testing.assert_allclose(np.array(seen), np.outer(1 - np.arange(4, 8) / 8, [1e-2, 0.2]))
