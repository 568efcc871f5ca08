"""Policies: probabilities, densities, gradients, bounds, and which policy fits which spaces."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from some_policies import DISCRETE, Own, policies, seeded, some_norm, vectors
from torch.func import functional_call

from ppobook.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    TabularPolicy,
    TabularValue,
    ValueFunction,
    policy_for,
    value_for,
)

LEADS = [(), (1,), (5,), (2, 3)]


class Logp(torch.nn.Module):
    """A module whose forward is logp, for `functional_call`."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, observations, actions):
        return self.policy.logp(observations, actions)


@pytest.mark.parametrize("name", list(policies()))
@pytest.mark.parametrize("lead", LEADS)
def test_shapes_and_that_sample_reports_its_own_logp(name, lead):
    policy, make = policies()[name]
    observations = make(lead)
    actions, logp = policy.sample(observations, seeded())
    own = () if name in DISCRETE else (2,)
    assert actions.shape == (*lead, *own)
    assert logp.shape == policy.entropy(observations).shape == lead
    assert policy.mode(observations).shape == actions.shape
    assert policy.in_bounds(actions).shape == actions.shape
    assert actions.dtype == (torch.float32 if isinstance(policy, GaussianPolicy) else torch.int64)
    assert not logp.requires_grad
    assert not actions.requires_grad
    again = policy.logp(observations, actions)
    assert again.requires_grad
    torch.testing.assert_close(again.detach(), logp)
    # Arrays, as environments return them.
    torch.testing.assert_close(policy.logp(observations.numpy(), actions.numpy()), again)


@pytest.mark.parametrize("name", list(policies()))
def test_gradient_of_logp_by_finite_differences(name):
    policy, make = policies()[name]
    policy = policy.double()
    observations = make((3,))
    actions, _ = policy.sample(observations, seeded())
    module = Logp(policy)
    parameters = {n: p.detach().clone().requires_grad_() for n, p in module.named_parameters()}

    def logp(*given):
        return functional_call(module, dict(zip(parameters, given, strict=True)), (observations, actions))

    assert torch.autograd.gradcheck(logp, tuple(parameters.values()))


def test_in_bounds_is_the_nearest_action_of_the_box():
    policy = GaussianPolicy(3, 2, low=[-2, -np.inf], high=[2, 1])
    actions = torch.tensor([[-3.0, -100.0], [0.5, 5.0], [9.0, 0.0]])
    assert policy.in_bounds(actions).tolist() == [[-2.0, -100.0], [0.5, 1.0], [2.0, 0.0]]
    # A half-open box has no width: the units are those of the action.
    assert policy.scale.tolist() == [2.0, 1.0]
    assert policy.centre.tolist() == [0.0, 0.0]
    drawn, _ = policy.sample(torch.zeros(500, 3), seeded())
    assert (drawn[:, 0].abs() > 2).any()
    space = spaces.Box(np.array([-2, -np.inf], "f"), np.array([2, 1], "f"))
    assert all(space.contains(a) for a in policy.in_bounds(drawn).numpy())


def test_policy_for_and_value_for():
    box, seven, three = spaces.Box(-1, 1, (4,)), spaces.Discrete(7), spaces.Discrete(3)
    policy = policy_for(box, three, (16,), activation="relu", seed=3)
    assert isinstance(policy, CategoricalPolicy)
    assert policy.n_actions == 3
    same = CategoricalPolicy(4, 3, (16,), activation="relu", seed=3)
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), same.parameters(), strict=True))
    table = policy_for(seven, three)
    assert isinstance(table, TabularPolicy)
    assert table.table.shape == (7, 3)
    gaussian = policy_for(box, spaces.Box(np.array([-2, 0], "f"), np.array([2, 1], "f")))
    assert isinstance(gaussian, GaussianPolicy)
    assert gaussian.low.tolist() == [-2, 0]
    assert gaussian.high.tolist() == [2, 1]
    assert isinstance(value_for(box), ValueFunction)
    assert isinstance(value_for(seven), TabularValue)
    several = policy_for(box, spaces.MultiDiscrete([2, 5]), (16,))
    assert isinstance(several, MultiCategoricalPolicy)
    assert several.nvec == (2, 5)
    assert policy_for(box, spaces.MultiBinary(3)).nvec == (2, 2, 2)
    wide = policy_for(box, spaces.Box(-1, 1, (2,)), initial_std=3.0, normalizer=some_norm(), network=Own(2))
    assert wide.mean_std(vectors((5,)))[1].unique().tolist() == [3.0]
    assert isinstance(wide.network, Own)
