"""Adam on a flat vector takes the steps of torch's."""

import pytest
import torch
from torch import nn

from ppobook.fast.adam import FlatAdam


def networks():
    torch.manual_seed(0)
    return nn.Linear(3, 4), nn.Linear(4, 2)


def parameters_of(*modules):
    return [p for module in modules for p in module.parameters()]


def train(modules, optimizer, steps, seed=0):
    a, b = modules
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for p in parameters_of(*modules):
            p.grad.zero_()
        b(a(torch.randn(5, 3, generator=generator)).tanh()).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("eps", [1e-8, 1e-3])
def test_its_steps_are_those_of_torch_and_go_on_after_a_checkpoint(eps):
    flat, plain, resumed = networks(), networks(), networks()
    ours = FlatAdam(parameters_of(*flat), 0.1, eps=eps)
    train(flat, ours, 5)
    for mine, other in zip(flat, resumed, strict=True):
        other.load_state_dict(mine.state_dict())
    again = FlatAdam(parameters_of(*resumed), 0.5, eps=eps)
    again.load_state_dict(ours.state_dict())
    for modules, optimizer in ((flat, ours), (resumed, again)):
        train(modules, optimizer, 5, seed=1)
    for p in parameters_of(*plain):
        p.grad = torch.zeros_like(p)
    theirs = torch.optim.Adam(parameters_of(*plain), 0.1, eps=eps)
    train(plain, theirs, 5)
    train(plain, theirs, 5, seed=1)
    for a, b, c in zip(*map(lambda x: parameters_of(*x), (flat, plain, resumed)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
        assert torch.equal(a, c)
