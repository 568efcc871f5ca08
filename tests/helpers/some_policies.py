"""Policies of every kind with weights far from the initial ones, and observations for them."""

import torch

from ppobook.policies import (
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    RunningNorm,
    TabularPolicy,
    orthogonal_linear,
)

DISCRETE = ("categorical", "table", "normalized", "own network")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def roughen(policy, seed=0):
    """Move all parameters away from their initial values, where a policy is almost uniform."""
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    return policy


def vectors(lead):
    return torch.randn(*lead, 4, generator=seeded(7))


def states(lead):
    return torch.randint(6, lead, generator=seeded(7))


def policies():
    """Name: (policy, function that makes observations from leading axes)."""
    return {
        "categorical": (roughen(CategoricalPolicy(4, 3, (8,))), vectors),
        "table": (roughen(TabularPolicy(6, 3)), states),
        "gaussian": (roughen(GaussianPolicy(4, 2, (8,))), vectors),
        "boxed": (roughen(GaussianPolicy(4, 2, (8,), -2, [1, 6])), vectors),
        "several": (roughen(MultiCategoricalPolicy(4, (3, 2), (8,))), vectors),
        "normalized": (roughen(CategoricalPolicy(4, 3, (8,), normalizer=some_norm())), vectors),
        "own network": (roughen(CategoricalPolicy(4, 3, network=Own(3))), vectors),
        "own means": (roughen(GaussianPolicy(4, 2, low=-1, high=2, network=Own(2))), vectors),
    }


class Own(torch.nn.Module):
    """A user's network: two branches, and a layer norm."""

    def __init__(self, outputs):
        super().__init__()
        make = seeded(3)
        self.left, self.right = orthogonal_linear(4, 5, 1, make), orthogonal_linear(4, 5, 1, make)
        self.norm, self.out = torch.nn.LayerNorm(5), orthogonal_linear(5, outputs, 1, make)

    def forward(self, x):
        return self.out(self.norm(torch.relu(self.left(x)) * self.right(x)))


def some_norm():
    norm = RunningNorm((4,))
    norm.update(torch.tensor([1.0, -2, 0, 5]) + torch.randn(50, 4, generator=seeded(5)) * torch.arange(1, 5))
    return norm
