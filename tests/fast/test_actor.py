"""The NumPy actor takes the actions that `policy.sample` takes from the same generator."""

import numpy as np
import pytest
import torch
from some_policies import policies, roughen, seeded, some_norm, vectors

from ppobook.fast import numpy_actor
from ppobook.fast.actor import NumpyActor
from ppobook.policies import (
    MLP,
    CategoricalPolicy,
    GaussianPolicy,
    RunningNorm,
)
from ppobook.rollouts import PolicyActor


def actors():
    made = {name: policies()[name][0] for name in ("categorical", "gaussian", "boxed", "normalized")}
    for activation in ("tanh", "relu"):
        made[activation] = roughen(CategoricalPolicy(4, 3, (8, 5), activation=activation))
    made["linear"] = roughen(CategoricalPolicy(4, 3, ()))
    made["float64"] = roughen(GaussianPolicy(4, 2).double())
    made["normalized means"] = roughen(GaussianPolicy(4, 2, normalizer=some_norm()))
    return made


@pytest.mark.parametrize("name", list(actors()))
def test_an_actor_takes_the_actions_of_sample(name):
    policy, steps, n = actors()[name], 300, 7
    shown = 3 * vectors((steps, n)).numpy()
    actor, generator = numpy_actor(policy, steps, n, seeded(4)), seeded(4)
    assert isinstance(actor, NumpyActor)
    drawn, logps = [], []
    for t in range(steps):
        actions, given = actor.sample(shown[t])
        expected, logp = policy.sample(shown[t], generator)
        assert actions.dtype == expected.numpy().dtype
        if isinstance(policy, GaussianPolicy):
            np.testing.assert_allclose(actions, expected.numpy(), rtol=1e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(actions, expected.numpy())
        np.testing.assert_array_equal(given, policy.in_bounds(torch.from_numpy(actions)).numpy())
        drawn.append(actions)
        logps.append(logp)
    found = actor.logp(torch.from_numpy(np.stack(drawn)))
    assert not found.requires_grad
    torch.testing.assert_close(found, torch.stack(logps), rtol=1e-4, atol=1e-4)
    again = policy.logp(shown, torch.from_numpy(np.stack(drawn))).detach()
    torch.testing.assert_close(found, again, rtol=1e-5, atol=1e-5)


def test_networks_of_ones_own_run_in_torch():
    class Timid(CategoricalPolicy):
        def logits(self, observations):
            return 0 * super().logits(observations)

    class Doubled(MLP):
        def forward(self, observations):
            return 2 * super().forward(observations)

    class Rescaled(RunningNorm):
        def forward(self, observations):
            return 2 * super().forward(observations)

    norm = Rescaled((4,))
    for policy in (
        Timid(4, 2),
        CategoricalPolicy(4, 2).bfloat16(),
        CategoricalPolicy(4, 3, normalizer=norm),
        CategoricalPolicy(4, 3, network=Doubled((4, 3))),
    ):
        assert isinstance(numpy_actor(policy, 5, 2, seeded()), PolicyActor)
