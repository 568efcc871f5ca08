"""Networks: initial weights, seeds, networks of the user's own, and shared hidden layers."""

import math

import pytest
import torch
from gymnasium import spaces
from some_policies import seeded, some_norm, vectors

from ppobook.policies import (
    ACTIVATIONS,
    MLP,
    CategoricalPolicy,
    GaussianPolicy,
    ValueFunction,
    actor_critic_for,
    together,
)


def test_mlp_layers_and_their_gains():
    mlp = MLP((4, 8, 8, 2), "relu", output_scale=0.3)
    linear = [layer for layer in mlp.layers if isinstance(layer, torch.nn.Linear)]
    assert [tuple(x.weight.shape) for x in linear] == [(8, 4), (8, 8), (2, 8)]
    assert [type(x).__name__ for x in mlp.layers] == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert all((x.bias == 0).all() for x in linear)
    for layer, gain in zip(linear, (math.sqrt(2), math.sqrt(2), 0.3), strict=True):
        singular = torch.linalg.svdvals(layer.weight.detach())
        torch.testing.assert_close(singular, torch.full_like(singular, gain))
    x = torch.randn(3, 4, generator=seeded())
    by_hand = x
    for i, layer in enumerate(linear):
        by_hand = by_hand @ layer.weight.T + layer.bias
        by_hand = by_hand.clamp(min=0) if i < 2 else by_hand
    torch.testing.assert_close(mlp(x), by_hand)


def test_seeds_reproduce_weights_and_leave_torchs_global_state():
    def weights(module):
        return torch.cat([p.detach().flatten() for p in module.parameters()])

    for make in (
        lambda seed: CategoricalPolicy(4, 2, seed=seed),
        lambda seed: GaussianPolicy(4, 2, seed=seed),
        lambda seed: ValueFunction(4, seed=seed),
    ):
        before = torch.get_rng_state()
        first, again, other = weights(make(1)), weights(make(1)), weights(make(2))
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        shared = seeded(1)
        assert torch.equal(weights(make(shared)), first)
        assert not torch.equal(weights(make(shared)), first)


class Counted(torch.nn.Tanh):
    calls = 0

    def forward(self, x):
        Counted.calls += 1
        return super().forward(x)


@pytest.mark.parametrize(
    "actions", [spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3])]
)
def test_a_shared_trunk_is_the_same_objects_and_both_gradients_add_up_in_it(actions, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "tanh", Counted)
    box, norm = spaces.Box(-1, 1, (4,)), some_norm()
    policy, value = actor_critic_for(box, actions, (8, 6), shared=True, normalizer=norm, seed=3)
    trunk = [p for layer in list(policy.network.layers)[:-1] for p in layer.parameters()]
    assert len(trunk) == 4
    assert {id(p) for p in trunk} == {id(p) for p in policy.parameters()} & {
        id(p) for p in value.parameters()
    }
    assert policy.normalizer is value.normalizer is norm

    Counted.calls = 0
    distribution, values = together(policy, value, vectors((5,)))
    assert Counted.calls == 2  # two hidden layers, each once
    torch.testing.assert_close(values, value(vectors((5,))))
    torch.testing.assert_close(distribution.entropy(), policy.entropy(vectors((5,))))
    taken = distribution.sample(seeded())
    both = torch.autograd.grad((distribution.logp(taken) + values).sum(), trunk)
    mine = torch.autograd.grad(policy.logp(vectors((5,)), taken).sum(), trunk)
    its = torch.autograd.grad(value(vectors((5,))).sum(), trunk)
    for a, b, c in zip(both, mine, its, strict=True):
        assert b.abs().sum() > 0
        assert c.abs().sum() > 0
        torch.testing.assert_close(a, b + c)
