"""Policies and value functions: distributions that sum to one, first weights, seeds, bounds and doors."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from torch.func import functional_call, grad, vmap

from ppobook.networks import (
    MLP,
    CategoricalPolicy,
    GaussianPolicy,
    TabularPolicy,
    TabularValue,
    ValueFunction,
    orthogonal_linear,
    policy_for,
    value_for,
)

LEADS = [(), (1,), (5,), (2, 3)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def roughen(policy, seed=0):
    """Move all parameters away from their start, where a policy is almost uniform and hides mistakes."""
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
    """Each kind of policy, and what makes observations for it."""
    return {
        "categorical": (roughen(CategoricalPolicy(4, 3, (8,))), vectors),
        "table": (roughen(TabularPolicy(6, 3)), states),
        "gaussian": (roughen(GaussianPolicy(4, 2, (8,))), vectors),
        "boxed": (roughen(GaussianPolicy(4, 2, (8,), -2, [1, 6])), vectors),
    }


class Logp(torch.nn.Module):
    """A module whose forward is logp, for `functional_call`."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, observations, actions):
        return self.policy.logp(observations, actions)


# --- shapes and what belongs together -------------------------------------------------------------------


@pytest.mark.parametrize("name", list(policies()))
@pytest.mark.parametrize("lead", LEADS)
def test_shapes_and_that_sample_reports_its_own_logp(name, lead):
    policy, make = policies()[name]
    observations = make(lead)
    actions, logp = policy.sample(observations, seeded())
    own = () if name in ("categorical", "table") else (2,)
    assert actions.shape == (*lead, *own)
    assert logp.shape == policy.entropy(observations).shape == lead
    assert policy.mode(observations).shape == actions.shape
    assert policy.in_bounds(actions).shape == actions.shape
    assert actions.dtype == (torch.float32 if own else torch.int64)
    assert not logp.requires_grad
    assert not actions.requires_grad
    again = policy.logp(observations, actions)
    assert again.requires_grad
    torch.testing.assert_close(again.detach(), logp)
    # Arrays, such as an environment returns, serve as well as tensors.
    torch.testing.assert_close(policy.logp(observations.numpy(), actions.numpy()), again)


@pytest.mark.parametrize("name", list(policies()))
def test_each_leading_entry_is_treated_alone(name):
    policy, make = policies()[name]
    observations = make((2, 3))
    actions, logp = policy.sample(observations, seeded())
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(policy.logp(observations[i, j], actions[i, j]).detach(), logp[i, j])


def test_value_function_shapes():
    for lead in LEADS:
        assert ValueFunction(4, (8,))(torch.zeros(*lead, 4)).shape == lead
        assert TabularValue(5)(torch.zeros(lead, dtype=torch.int64)).shape == lead


# --- the distributions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["categorical", "table"])
def test_probabilities_sum_to_one_and_entropy_is_their_sum(name):
    policy, make = policies()[name]
    observations = make((7,))
    each = torch.stack([policy.logp(observations, torch.full((7,), a)) for a in range(3)], dim=-1)
    torch.testing.assert_close(each.exp().sum(-1), torch.ones(7))
    torch.testing.assert_close(each.exp(), policy.probs(observations))
    by_hand = [-sum(math.exp(x) * x for x in row) for row in each.tolist()]
    np.testing.assert_allclose(policy.entropy(observations).tolist(), by_hand, rtol=1e-5)
    assert policy.mode(observations).tolist() == each.argmax(-1).tolist()


@pytest.mark.parametrize("name", ["categorical", "table"])
def test_actions_come_as_often_as_the_policy_says(name):
    policy, make = policies()[name]
    observations, count = make((1,)), 60_000
    actions, _ = policy.sample(observations.expand(count, *observations.shape[1:]), seeded())
    seen = np.bincount(actions.numpy(), minlength=3)
    wanted = policy.probs(observations)[0].detach().double().numpy()
    assert stats.chisquare(seen, wanted / wanted.sum() * count).pvalue > 1e-3


def test_an_action_of_negligible_probability_is_never_taken():
    policy = TabularPolicy(1, 3)
    with torch.no_grad():
        policy.table[0] = torch.tensor([0.0, -200.0, 0.0])
    actions, _ = policy.sample(torch.zeros(10_000, dtype=torch.int64), seeded())
    assert set(actions.tolist()) == {0, 2}


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([(None, None), (-2.0, 2.0), (0.0, 10.0)]))
def test_gaussian_density_integrates_to_one(seed, bounds):
    """Over the whole line and not over the box: what is drawn is an ordinary Gaussian."""
    policy = roughen(GaussianPolicy(2, 1, (4,), *bounds).double(), seed)
    observation = torch.randn(2, generator=seeded(seed))
    mean, std = (x.item() for x in policy.mean_std(observation))

    def density(x):
        return math.exp(policy.logp(observation, torch.tensor([x], dtype=torch.float64)).item())

    low, high = mean - 10 * std, mean + 10 * std
    assert integrate.quad(density, low, high)[0] == pytest.approx(1, abs=1e-7)
    entropy, _ = integrate.quad(lambda x: -density(x) * math.log(density(x)), low, high)
    assert policy.entropy(observation).item() == pytest.approx(entropy, abs=1e-6)


def test_gaussian_logp_is_the_sum_over_components_and_samples_have_its_moments():
    policy, make = policies()["boxed"]
    observation = make((1,))
    mean, std = (x[0].detach().double().numpy() for x in policy.mean_std(observation))
    actions, logp = policy.sample(observation.expand(40_000, 4), seeded())
    wanted = stats.norm(mean, std).logpdf(actions.double().numpy()).sum(-1)
    np.testing.assert_allclose(logp.numpy(), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(actions.mean(0).numpy(), mean, atol=5 * std.max() / 200)
    np.testing.assert_allclose(actions.std(0).numpy(), std, rtol=0.02)


def test_a_gaussians_entropy_may_be_negative():
    assert GaussianPolicy(2, 1, (), initial_std=0.01).entropy(torch.zeros(2)) < 0


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


def test_scores_average_to_zero():
    """E[∇ log π] = 0: each action's score, weighted with its probability."""
    policy, make = policies()["categorical"]
    observation = make(())
    total = [torch.zeros_like(p) for p in policy.parameters()]
    for a, p in enumerate(policy.probs(observation).tolist()):
        score = torch.autograd.grad(policy.logp(observation, torch.tensor(a)), list(policy.parameters()))
        total = [t + p * s for t, s in zip(total, score, strict=True)]
    for t in total:
        torch.testing.assert_close(t, torch.zeros_like(t), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", list(policies()))
def test_gradients_sample_by_sample(name):
    """vmap over samples gives what a loop over them gives."""
    policy, make = policies()[name]
    observations = make((4,))
    actions, _ = policy.sample(observations, seeded())
    module = Logp(policy)
    parameters = {n: p.detach() for n, p in module.named_parameters()}
    each = vmap(grad(lambda p, o, a: functional_call(module, p, (o, a))), in_dims=(None, 0, 0))(
        parameters, observations, actions
    )
    for i in range(4):
        wanted = torch.autograd.grad(policy.logp(observations[i], actions[i]), list(policy.parameters()))
        for found, w in zip(each.values(), wanted, strict=True):
            torch.testing.assert_close(found[i], w)


# --- first weights and seeds ----------------------------------------------------------------------------


@pytest.mark.parametrize(("n_in", "n_out"), [(4, 64), (64, 64), (64, 2)])
def test_first_weights_are_orthogonal(n_in, n_out):
    weight = orthogonal_linear(n_in, n_out, 1.5, seeded()).weight.detach().double()
    gram = weight @ weight.T if n_out <= n_in else weight.T @ weight
    torch.testing.assert_close(gram, 1.5**2 * torch.eye(min(n_in, n_out)).double(), rtol=0, atol=1e-5)


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


def test_a_policy_starts_almost_uniform_and_a_table_quite():
    observations = torch.randn(100, 4, generator=seeded())
    assert (CategoricalPolicy(4, 3).probs(observations) - 1 / 3).abs().max() < 0.02
    assert (TabularPolicy(5, 4).probs(torch.arange(5)) == 0.25).all()
    assert (TabularValue(5)(torch.arange(5)) == 0).all()
    mean, std = GaussianPolicy(4, 1, low=0, high=10).mean_std(observations)
    assert (mean - 5).abs().max() < 0.2
    assert (std == 5).all()


def test_the_seed_decides_and_torchs_own_state_is_left_alone():
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


@pytest.mark.parametrize("name", list(policies()))
def test_sampling_is_decided_by_its_generator(name):
    policy, make = policies()[name]
    observations = make((50,))
    before = torch.get_rng_state()
    first, again, other = (policy.sample(observations, seeded(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_policy_survives_its_state_dict():
    first = roughen(GaussianPolicy(4, 2, low=-1, high=3))
    second = GaussianPolicy(4, 2, low=-5, high=5, seed=9)
    second.load_state_dict(first.state_dict())
    observations = vectors((3,))
    for a, b in zip(first.mean_std(observations), second.mean_std(observations), strict=True):
        assert torch.equal(a, b)


# --- bounds ---------------------------------------------------------------------------------------------


def test_bounds_scale_the_mean_and_the_deviation():
    free, boxed = GaussianPolicy(3, 2), GaussianPolicy(3, 2, low=[-2, 0], high=[2, 10])
    roughen(free)
    boxed.load_state_dict({**boxed.state_dict(), **dict(free.named_parameters())})
    observations = torch.randn(5, 3, generator=seeded())
    mean, std = free.mean_std(observations)
    boxed_mean, boxed_std = boxed.mean_std(observations)
    torch.testing.assert_close(boxed_mean, mean * torch.tensor([2.0, 5.0]) + torch.tensor([0.0, 5.0]))
    torch.testing.assert_close(boxed_std, std * torch.tensor([2.0, 5.0]))


def test_in_bounds_is_the_nearest_action_of_the_box():
    policy = GaussianPolicy(3, 2, low=[-2, -np.inf], high=[2, 1])
    actions = torch.tensor([[-3.0, -100.0], [0.5, 5.0], [9.0, 0.0]])
    assert policy.in_bounds(actions).tolist() == [[-2.0, -100.0], [0.5, 1.0], [2.0, 0.0]]
    # A half-open box has no width to measure in: the units stay those of the action.
    assert policy.scale.tolist() == [2.0, 1.0]
    assert policy.centre.tolist() == [0.0, 0.0]
    drawn, _ = policy.sample(torch.zeros(500, 3), seeded())
    assert (drawn[:, 0].abs() > 2).any()
    space = spaces.Box(np.array([-2, -np.inf], "f"), np.array([2, 1], "f"))
    assert all(space.contains(a) for a in policy.in_bounds(drawn).numpy())


def test_huge_bounds_do_not_overflow():
    policy = GaussianPolicy(2, 1, low=-3e38, high=3e38)
    assert policy.centre.item() == 0
    assert policy.scale.item() == pytest.approx(3e38, rel=1e-6)


# --- which policy for which environment -----------------------------------------------------------------


def test_policy_for_and_value_for():
    box, rooms, choices = spaces.Box(-1, 1, (4,)), spaces.Discrete(7), spaces.Discrete(3)
    policy = policy_for(box, choices, (16,), activation="relu", seed=3)
    assert isinstance(policy, CategoricalPolicy)
    assert policy.n_actions == 3
    same = CategoricalPolicy(4, 3, (16,), activation="relu", seed=3)
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), same.parameters(), strict=True))
    table = policy_for(rooms, choices)
    assert isinstance(table, TabularPolicy)
    assert table.table.shape == (7, 3)
    gaussian = policy_for(box, spaces.Box(np.array([-2, 0], "f"), np.array([2, 1], "f")))
    assert isinstance(gaussian, GaussianPolicy)
    assert gaussian.low.tolist() == [-2, 0]
    assert gaussian.high.tolist() == [2, 1]
    assert isinstance(value_for(box), ValueFunction)
    assert isinstance(value_for(rooms), TabularValue)


@pytest.mark.parametrize(
    ("observation", "action", "sentence"),
    [
        (spaces.Box(0, 1, (8, 8, 3)), spaces.Discrete(2), "observation_space is Box.*FlattenObservation"),
        (
            spaces.MultiBinary(3),
            spaces.Discrete(2),
            "observation_space is MultiBinary.*Discrete space or a Box",
        ),
        (spaces.Box(0, 1, (2,)), spaces.Text(3), "action_space is Text.*is wanted"),
        (
            spaces.Box(0, 1, (2,)),
            spaces.Box(0, 1, (2, 2)),
            "action_space is Box.*or a Box, with one axis, is wanted",
        ),
        (spaces.Discrete(3), spaces.Box(0, 1, (1,)), "a box of observations is wanted"),
        (spaces.Discrete(3, start=1), spaces.Discrete(2), "observation_space is Discrete.*counts from 0"),
        (spaces.Discrete(3), spaces.Discrete(2, start=5), "action_space is Discrete.*counts from 0"),
    ],
)
def test_policy_for_refuses(observation, action, sentence):
    with pytest.raises(ValueError, match=sentence):
        policy_for(observation, action)


# --- the doors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: MLP((4,)), ValueError, r"sizes is \(4,\); at least an input and an output size are wanted"),
        (lambda: MLP((4, 0, 2)), ValueError, r"sizes\[1\] is 0; a whole number of at least 1 is wanted"),
        (lambda: MLP((4, 2.5)), TypeError, r"sizes\[1\] is 2.5; a whole number"),
        (lambda: MLP((4, 2), "rleu"), ValueError, "activation is 'rleu'; did you mean 'relu'"),
        (lambda: MLP((4, 2), seed=-1), ValueError, "seed is -1; a whole number of at least 0 is wanted"),
        (lambda: CategoricalPolicy(0, 2), ValueError, "obs_dim is 0"),
        (lambda: CategoricalPolicy(4, 0), ValueError, "n_actions is 0"),
        (lambda: TabularPolicy(0, 2), ValueError, "n_states is 0"),
        (lambda: GaussianPolicy(4, 0), ValueError, "act_dim is 0"),
        (lambda: GaussianPolicy(4, 1, initial_std=0.0), ValueError, "initial_std is 0.0; a number above 0"),
        (lambda: GaussianPolicy(4, 2, low=[0, 1], high=1), ValueError, "each low must be below its high"),
        (lambda: GaussianPolicy(4, 2, low=[0, 1, 2]), ValueError, "low is .*; a number, or 2 of them"),
        (lambda: GaussianPolicy(4, 2, high=np.nan), ValueError, "high is nan; a number, or 2 of them"),
        (lambda: ValueFunction(0), ValueError, "obs_dim is 0"),
    ],
)
def test_building_refuses(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


def test_observations_and_actions_are_refused():
    policy, table, gaussian = CategoricalPolicy(4, 2), TabularPolicy(3, 2), GaussianPolicy(4, 2)
    four = torch.zeros(5, 4)
    for function in (policy.logits, policy.sample, gaussian.mode, ValueFunction(4)):
        with pytest.raises(ValueError, match=r"observations has shape \(5, 3\); a last axis of 4 numbers"):
            function(torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"logits\(observations\) is nan at index \(0, 0\)"):
        policy.sample(four * torch.nan)
    with pytest.raises(ValueError, match=r"the mean for these observations is nan at index \(0, 0\)"):
        gaussian.sample(four * torch.nan)
    with pytest.raises(ValueError, match="observations holds states from 0 to 3; 0 to 2 are wanted"):
        table.logits(torch.arange(4))
    with pytest.raises(ValueError, match="observations holds states from -1 to 0; 0 to 2 are wanted"):
        TabularValue(3)(torch.tensor([-1, 0]))
    with pytest.raises(TypeError, match=r"observations has dtype torch.float32; a table wants states"):
        table.logits(four)
    with pytest.raises(ValueError, match=r"actions has shape \(5, 1\); \(5,\) is wanted, one action"):
        policy.logp(four, torch.zeros(5, 1, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"actions has dtype torch.float32; integers are wanted"):
        policy.logp(four, torch.zeros(5))
    for wrong in (2, -1):
        with pytest.raises(
            ValueError, match=rf"actions holds numbers from {wrong} to {wrong}; 0 to 1 are wanted"
        ):
            policy.logp(four, torch.full((5,), wrong))
    with pytest.raises(ValueError, match=r"actions has shape \(5,\); \(5, 2\) is wanted, one vector"):
        gaussian.logp(four, torch.zeros(5))
