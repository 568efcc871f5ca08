"""Adam takes the steps of `torch.optim.Adam`, to the bit, on a list of parameters and on one flat vector."""

import copy

import pytest
import torch
from torch import nn

from ppobook.fast import choose
from ppobook.fast.adam import Adam, flatten
from ppobook.ppo import PPO


def two_networks(seed: int = 0) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), nn.Linear(3, 1)


def parameters_of(*modules: nn.Module) -> list[nn.Parameter]:
    return [p for module in modules for p in module.parameters()]


def follow(optimizer, networks, steps=20, lr=0.1):
    """Minimize a loss with a falling learning rate; returns the parameters."""
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
    for i in range(steps):
        optimizer.param_groups[0]["lr"] = lr * (1 - i / 40)
        optimizer.zero_grad()
        sum(network(x).square().mean() for network in networks).backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in parameters_of(*networks)])


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("eps", [1e-8, 1e-5])
def test_its_steps_are_those_of_torch(flat, eps):
    networks = two_networks()
    plain = copy.deepcopy(networks)
    ours = choose.optimizer(
        parameters_of(*networks), 0.1, eps=eps, step=PPO.loss if flat else None, fast=True
    )
    theirs = choose.optimizer(parameters_of(*plain), 0.1, eps=eps, fast=False)
    assert isinstance(ours, Adam)
    assert isinstance(theirs, torch.optim.Adam)
    if not flat:
        theirs = torch.optim.Adam(parameters_of(*plain), 0.1, eps=eps, fused=True)
    assert torch.equal(follow(ours, networks), follow(theirs, plain))


@pytest.mark.parametrize("flat", [True, False])
def test_a_parameter_frozen_while_training_stays_as_it_is(flat):
    networks = two_networks()
    plain = copy.deepcopy(networks)
    ours = Adam(parameters_of(*networks), 0.1, flat=flat)
    theirs = torch.optim.Adam(parameters_of(*plain), 0.1, fused=not flat)
    for optimizer, both in ((ours, networks), (theirs, plain)):
        follow(optimizer, both, steps=5)
        both[0][0].weight.requires_grad_(False)
    before = networks[0][0].weight.clone()
    assert torch.equal(follow(ours, networks, steps=5), follow(theirs, plain, steps=5))
    assert torch.equal(networks[0][0].weight, before)


@pytest.mark.parametrize("flat", [True, False])
def test_it_goes_on_after_a_checkpoint_as_if_nothing_had_been(flat):
    networks = two_networks()
    one = Adam(parameters_of(*networks), 0.1, flat=flat)
    follow(one, networks, steps=3)
    others = copy.deepcopy(networks)
    two = Adam(parameters_of(*others), 0.1, flat=flat)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    assert torch.equal(follow(one, networks), follow(two, others))


@pytest.mark.parametrize("flat", [True, False])
def test_a_state_is_read_by_an_optimizer_that_holds_the_same_parameters_otherwise(flat):
    """A subclass that gets a loss of its own has no flat optimizer; the runs before had one."""
    networks = two_networks()
    one = Adam(parameters_of(*networks), 0.1, flat=flat)
    follow(one, networks, steps=3)
    others = copy.deepcopy(networks)
    two = Adam(parameters_of(*others), 0.1, flat=not flat)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    torch.testing.assert_close(follow(one, networks), follow(two, others))


def test_states_of_old_checkpoints_are_read():
    """There a flat optimizer had one tensor where there is a list of one now, and an int for the steps."""
    networks = two_networks()
    one = Adam(parameters_of(*networks), 0.1, flat=True)
    follow(one, networks, steps=3)
    state = {name: x[0].clone() for name, x in one.state_dict().items() if name != "param_groups"}
    others = copy.deepcopy(networks)
    two = Adam(parameters_of(*others), 0.1, flat=True)
    two.load_state_dict({**state, "steps": 3})
    assert torch.equal(follow(one, networks), follow(two, others))


@pytest.mark.parametrize("flat", [True, False])
def test_a_state_of_other_parameters_is_refused(flat):
    a, b = two_networks()
    state = Adam(a.parameters(), 0.1, flat=flat).state_dict()
    with pytest.raises(RuntimeError, match="of other parameters"):
        Adam(b.parameters(), 0.1, flat=flat).load_state_dict(state)


def test_parameters_of_several_dtypes_stay_where_they_are():
    a, b = two_networks()
    optimizer = choose.optimizer(parameters_of(a, b.double()), 0.1, step=PPO.loss, fast=True)
    assert not optimizer.flat
    assert next(b.parameters()).dtype == torch.float64


def test_flatten_changes_no_weight_and_ties_weights_and_gradients_to_the_vector():
    networks = two_networks()
    plain = copy.deepcopy(networks)
    vector = flatten(parameters_of(*networks))
    after = parameters_of(*networks)
    before = parameters_of(*plain)
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    assert vector.numel() == sum(p.numel() for p in before)
    with torch.no_grad():
        vector += 1
    assert all(torch.equal(x + 1, y) for x, y in zip(before, after, strict=True))
    with torch.no_grad():
        vector -= 1
    x = torch.randn(7, 3)
    for f, g in (networks, plain):
        (f(x).square().sum() + g(x).sum()).backward()
    torch.testing.assert_close(vector.grad, torch.cat([p.grad.reshape(-1) for p in before]))
    a = networks[0]
    a.load_state_dict({name: torch.zeros_like(x) for name, x in a.state_dict().items()})
    assert (vector[: sum(p.numel() for p in a.parameters())] == 0).all()


def test_zero_grad_restores_the_tie_that_a_modules_own_zero_grad_has_cut():
    networks = two_networks()
    plain = copy.deepcopy(networks)
    optimizer = Adam(parameters_of(*networks), 0.1, flat=True)
    for network in networks:
        network.zero_grad()
    other = torch.optim.Adam(parameters_of(*plain), 0.1)
    assert torch.equal(follow(optimizer, networks), follow(other, plain))


def test_a_shared_parameter_is_in_the_vector_once():
    a, _ = two_networks()
    b = nn.Sequential(a[0], nn.Linear(5, 1))
    vector = flatten(parameters_of(a, b))
    assert vector.numel() == sum(p.numel() for p in a.parameters()) + 6
    assert a[0].weight is b[0].weight


def test_a_copy_of_a_flattened_network_stands_alone():
    a, b = two_networks()
    vector = flatten(parameters_of(a, b))
    other = copy.deepcopy(a)
    with torch.no_grad():
        vector.zero_()
    assert (other[0].weight != 0).all()
