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

from ppobook.divergences import kl_categorical, kl_gaussian
from ppobook.policies import (
    ACTIVATIONS,
    MLP,
    Categorical,
    CategoricalPolicy,
    Gaussian,
    GaussianPolicy,
    MultiCategorical,
    MultiCategoricalPolicy,
    RunningNorm,
    TabularPolicy,
    TabularValue,
    ValueFunction,
    actor_critic_for,
    orthogonal_linear,
    policy_for,
    together,
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
        "several": (roughen(MultiCategoricalPolicy(4, (3, 2), (8,))), vectors),
        "normalized": (roughen(CategoricalPolicy(4, 3, (8,), normalizer=some_norm())), vectors),
        "own network": (roughen(CategoricalPolicy(4, 3, network=Own(3))), vectors),
        "own means": (roughen(GaussianPolicy(4, 2, low=-1, high=2, network=Own(2))), vectors),
    }


ONE_CHOICE = ("categorical", "table", "normalized", "own network")


class Own(torch.nn.Module):
    """A reader's network: two branches, and a layer norm."""

    def __init__(self, outputs):
        super().__init__()
        make = torch.Generator().manual_seed(3)
        self.left, self.right = orthogonal_linear(4, 5, 1, make), orthogonal_linear(4, 5, 1, make)
        self.norm, self.out = torch.nn.LayerNorm(5), orthogonal_linear(5, outputs, 1, make)

    def forward(self, x):
        return self.out(self.norm(torch.relu(self.left(x)) * self.right(x)))


def some_norm():
    norm = RunningNorm((4,))
    norm.update(torch.tensor([1.0, -2, 0, 5]) + torch.randn(50, 4, generator=seeded(5)) * torch.arange(1, 5))
    return norm


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
    own = () if name in ONE_CHOICE else (2,)
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


# --- the distributions by themselves ----------------------------------------------------------------------


def theirs(name, numbers):
    """torch's own distribution over the same actions, and a second way to the KL."""
    if name == "categorical":
        return torch.distributions.Categorical(logits=numbers)
    if name == "gaussian":
        return torch.distributions.Independent(torch.distributions.Normal(*numbers), 1)
    return [torch.distributions.Categorical(logits=part) for part in numbers.split((3, 1, 4), dim=-1)]


def numbers_for(name, lead, seed, scale):
    generator = seeded(seed)
    if name == "gaussian":
        mean, log_std = scale * torch.randn(2, *lead, 3, generator=generator, dtype=torch.float64)
        return mean, (log_std / 3).exp()
    return scale * torch.randn(*lead, 4 if name == "categorical" else 8, generator=generator).double()


def ours(name, numbers):
    if name == "categorical":
        return Categorical(numbers)
    return Gaussian(*numbers) if name == "gaussian" else MultiCategorical(numbers, (3, 1, 4))


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(["categorical", "gaussian", "several"]),
    st.sampled_from(LEADS),
    st.integers(0, 10**6),
    st.sampled_from([0.01, 1.0, 5.0]),
)
def test_distributions_are_torchs(name, lead, seed, scale):
    here, there = numbers_for(name, lead, seed, scale), numbers_for(name, lead, seed + 1, scale)
    p, q, their_p, their_q = ours(name, here), ours(name, there), theirs(name, here), theirs(name, there)
    actions = p.sample(seeded(seed))
    if name == "several":
        each = list(zip(their_p, their_q, strict=True))
        logp = sum(part.log_prob(actions[..., k]) for k, part in enumerate(their_p))
        entropy = sum(part.entropy() for part in their_p)
        kl = sum(torch.distributions.kl_divergence(a, b) for a, b in each)
    else:
        logp, entropy = their_p.log_prob(actions), their_p.entropy()
        kl = torch.distributions.kl_divergence(their_p, their_q)
    for found, wanted in ((p.logp(actions), logp), (p.entropy(), entropy), (p.kl(q), kl)):
        assert found.shape == lead
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(p.kl(p), torch.zeros(lead, dtype=torch.float64), rtol=0, atol=1e-12)
    if name == "categorical":
        torch.testing.assert_close(p.kl(q), kl_categorical(here, there), rtol=1e-9, atol=1e-9)
        assert torch.equal(p.mode(), here.argmax(-1))
    elif name == "gaussian":
        torch.testing.assert_close(p.kl(q), kl_gaussian(*here, *there), rtol=1e-9, atol=1e-9)
        assert torch.equal(p.mode(), here[0])
    else:
        assert p.mode().tolist() == torch.stack([part.probs.argmax(-1) for part in their_p], -1).tolist()


def test_a_deviation_for_all_observations_at_once():
    mean, std = torch.randn(2, 5, 3, generator=seeded()).double(), torch.tensor([0.5, 1, 2]).double()
    one, each, other = Gaussian(mean, std), Gaussian(mean, std.expand_as(mean)), Gaussian(2 * mean, 3 * std)
    for a, b in (
        (one.entropy(), each.entropy()),
        (one.logp(mean + 1), each.logp(mean + 1)),
        (one.kl(other), each.kl(other)),
    ):
        assert a.shape == (2, 5)
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["categorical", "gaussian", "several"])
def test_gradients_of_logp_entropy_and_kl(name):
    here, there = (numbers_for(name, (3,), seed, 1.0) for seed in (1, 2))
    other = ours(name, there)
    actions = ours(name, here).sample(seeded())
    inputs = tuple(x.clone().requires_grad_() for x in (here if name == "gaussian" else (here,)))

    def of(*given):
        p = ours(name, given if name == "gaussian" else given[0])
        return p.logp(actions), p.entropy(), p.kl(other), other.kl(p)

    assert torch.autograd.gradcheck(of, inputs)
    p = ours(name, inputs if name == "gaussian" else inputs[0])
    assert p.kl(other).requires_grad
    assert not p.detach().kl(other).requires_grad
    assert not p.sample().requires_grad
    assert not p.mode().requires_grad


def test_several_choices_come_as_often_as_the_policy_says_and_independently():
    policy, make = policies()["several"]
    actions, _ = policy.sample(make((1,)).expand(60_000, 4), seeded())
    first, second = (part[0].detach().double().numpy() for part in policy.probs(make((1,))))
    seen = np.zeros((3, 2))
    np.add.at(seen, tuple(actions.T.numpy()), 1)
    wanted = np.outer(first, second)
    assert stats.chisquare(seen.ravel(), (wanted / wanted.sum() * 60_000).ravel()).pvalue > 1e-3


def test_gaussian_noise_is_normal_far_into_its_tails():
    noise = Gaussian(torch.zeros(1_000_000, 1).double(), torch.ones(1).double()).sample(seeded()).numpy()
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    assert 4.4 < np.abs(noise).max() < 7


@pytest.mark.parametrize("name", ["categorical", "gaussian", "several"])
def test_noise_is_the_same_however_it_is_portioned(name):
    """So a rollout drawn at once is the rollout drawn step by step, of whatever length."""
    whole = ours(name, numbers_for(name, (40, 3), 0, 1.0)).noise(seeded())
    generator = seeded()
    parts = [ours(name, numbers_for(name, (n, 3), 0, 1.0)).noise(generator) for n in (1, 7, 32)]
    assert torch.equal(torch.cat(parts), whole)


# --- the quick form ---------------------------------------------------------------------------------------


def actors():
    made = {name: policy for name, (policy, _) in policies().items()}
    for activation in ACTIVATIONS:
        made[activation] = roughen(CategoricalPolicy(4, 3, (8, 5), activation=activation))
    made["linear"] = roughen(CategoricalPolicy(4, 3, ()))
    made["float64"] = roughen(GaussianPolicy(4, 2).double())
    made["normalized means"] = roughen(GaussianPolicy(4, 2, normalizer=some_norm()))
    made["several, normalized"] = roughen(MultiCategoricalPolicy(4, (2, 5, 3), normalizer=some_norm()))
    return made


@pytest.mark.parametrize("name", list(actors()))
def test_an_actor_does_what_sample_does_from_the_same_noise(name):
    policy, steps, n = actors()[name], 300, 7
    shown = (states if name == "table" else vectors)((steps, n)).numpy()
    shown = shown if name == "table" else 3 * shown
    act, generator = policy.actor(steps, n, seeded(4)), seeded(4)
    drawn, logps = [], []
    for t in range(steps):
        actions, given = act(t, shown[t])
        wanted, logp = policy.sample(shown[t], generator)
        assert actions.dtype == wanted.numpy().dtype
        if isinstance(policy, GaussianPolicy):
            np.testing.assert_allclose(actions, wanted.numpy(), rtol=1e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(actions, wanted.numpy())
        np.testing.assert_array_equal(given, policy.in_bounds(torch.from_numpy(actions)).numpy())
        drawn.append(actions)
        logps.append(logp)
    found = act.logp(torch.from_numpy(np.stack(drawn)))
    assert not found.requires_grad
    torch.testing.assert_close(found, torch.stack(logps), rtol=1e-4, atol=1e-4)
    again = policy.logp(shown, torch.from_numpy(np.stack(drawn))).detach()
    torch.testing.assert_close(found, again, rtol=1e-5, atol=1e-5)


def test_an_actor_sees_what_has_been_learned_and_leaves_torchs_state_alone():
    policy, before = CategoricalPolicy(4, 3, (8,)), torch.get_rng_state()
    policy.actor(5, 2, seeded())
    assert torch.equal(torch.get_rng_state(), before)
    with torch.no_grad():
        policy.network.layers[-1].bias += torch.tensor([0.0, 1000, 0])
    act = policy.actor(5, 2, seeded())
    assert all((act(t, np.zeros((2, 4), np.float32))[0] == 1).all() for t in range(5))


def test_a_subclass_has_no_quick_form():
    class Timid(CategoricalPolicy):
        def logits(self, observations):
            return 0 * super().logits(observations)

    assert Timid(4, 2).actor(5, 2) is None


def test_an_actor_refuses_states_that_a_table_does_not_have():
    for wrong in (-1, 6):
        with pytest.raises(ValueError, match=r"observations holds states from .*; 0 to 5 are wanted"):
            TabularPolicy(6, 3).actor(1, 2)(0, np.array([0, wrong]))


# --- normalised observations ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from([(), (3,), (2, 2)]),
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.sampled_from([0.0, 1e6]),
    st.integers(0, 10**6),
)
def test_running_norm_is_mean_and_variance_of_all_in_any_split(shape, sizes, offset, seed):
    rng, norm = np.random.default_rng(seed), RunningNorm(shape)
    parts = [offset + rng.exponential(size=(n, *shape)) for n in sizes]
    for part in parts:
        norm.update(part if len(part) % 2 else torch.from_numpy(part))
    everything = np.concatenate(parts)
    assert norm.count.item() == len(everything)
    np.testing.assert_allclose(norm.mean.numpy(), everything.mean(0), rtol=1e-9)
    np.testing.assert_allclose(norm.var.numpy(), everything.var(0), rtol=1e-9, atol=1e-9 + 1e-15 * offset**2)
    wanted = np.clip((everything - everything.mean(0)) / np.sqrt(everything.var(0) + 1e-8), -10, 10)
    np.testing.assert_allclose(norm(everything).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_running_norm_takes_batches_with_any_leading_axes_and_is_cut_off():
    norm, other = RunningNorm((4,), clip=1.5), RunningNorm((4,), clip=1.5)
    x = torch.randn(6, 5, 4, generator=seeded())
    norm.update(x)
    other.update(x.transpose(0, 1).flatten(0, 1))
    torch.testing.assert_close(norm.mean, other.mean)
    assert norm(x).abs().max() == 1.5
    assert norm(x).dtype == torch.float32
    assert norm(x.double()).dtype == torch.float64
    assert norm.mean.dtype == torch.float64


def test_running_norm_is_the_identity_at_first_and_on_what_never_changes_zero():
    norm, x = RunningNorm((4,)), torch.randn(5, 4, generator=seeded())
    torch.testing.assert_close(norm(x), x)
    assert norm(100 * torch.ones(4)).tolist() == [10.0] * 4
    norm.update(torch.full((1000, 4), 0.1))
    assert norm(torch.full((4,), 0.1)).tolist() == [0.0] * 4


def test_running_norm_changes_in_update_only_and_is_saved_with_its_policy():
    policy = GaussianPolicy(4, 2, normalizer=RunningNorm((4,)))
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    policy.sample(vectors((9,)), seeded())
    policy.logp(vectors((9,)), torch.zeros(9, 2)).sum().backward()
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())
    policy.normalizer.update(5 + vectors((9,)))
    other = GaussianPolicy(4, 2, normalizer=RunningNorm((4,)), seed=3)
    other.load_state_dict(policy.state_dict())
    assert torch.equal(other.mean_std(vectors((9,)))[0], policy.mean_std(vectors((9,)))[0])
    assert other.normalizer.count == 9


def test_running_norm_refuses():
    norm = RunningNorm((4,))
    with pytest.raises(ValueError, match=r"batch has shape \(5, 3\); last axes of \(4,\) are wanted"):
        norm.update(torch.zeros(5, 3))
    with pytest.raises(ValueError, match="batch is empty"):
        norm.update(torch.zeros(0, 4))
    with pytest.raises(ValueError, match=r"batch is nan at index \(1, 2\)"):
        norm.update(torch.where(torch.arange(8).reshape(2, 4) == 6, torch.nan, 0.0))
    with pytest.raises(ValueError, match="clip is 0; a number above 0"):
        RunningNorm((4,), clip=0)
    with pytest.raises(ValueError, match=r"normalizer has shape \(4,\); \(3,\) is wanted"):
        CategoricalPolicy(3, 2, normalizer=norm)
    with pytest.raises(TypeError, match="normalizer is of type LayerNorm; a RunningNorm or None"):
        ValueFunction(4, normalizer=torch.nn.LayerNorm(4))


# --- the reader's own network, and a shared trunk ---------------------------------------------------------


def test_own_networks_are_used_and_learned():
    for make in (
        lambda own: CategoricalPolicy(4, 3, network=own),
        lambda own: GaussianPolicy(4, 3, network=own, normalizer=RunningNorm((4,))),
        lambda own: MultiCategoricalPolicy(4, (2, 1), network=own),
    ):
        own = Own(3)
        policy = make(own)
        assert policy.network is own
        torch.testing.assert_close(policy.outputs(vectors((2, 3))), own(vectors((2, 3))))
        policy.entropy(vectors((5,))).sum().backward()
        actions, _ = policy.sample(vectors((5,)), seeded())
        policy.logp(vectors((5,)), actions).sum().backward()
        assert all(p.grad is not None for p in own.parameters())
    assert ValueFunction(4, network=Own(1))(vectors((2, 3))).shape == (2, 3)


def test_own_networks_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match=r"network is of type function; a torch.nn.Module is wanted"):
        CategoricalPolicy(4, 2, network=lambda x: x)
    with pytest.raises(
        ValueError,
        match=r"network gave an output of shape \(5, 3\) for .* shape \(5, 4\); \(5, 2\) is wanted",
    ):
        CategoricalPolicy(4, 2, network=Own(3)).logits(vectors((5,)))
    with pytest.raises(ValueError, match=r"observations has shape \(5, 3\); a last axis of 4 numbers"):
        ValueFunction(4, network=Own(1))(torch.zeros(5, 3))


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


def test_apart_nothing_is_shared():
    box = spaces.Box(-1, 1, (4,))
    policy, value = actor_critic_for(box, spaces.Discrete(3), (8,), activation="relu", seed=3)
    assert not {id(p) for p in policy.parameters()} & {id(p) for p in value.parameters()}
    assert not torch.equal(policy.network.layers[0].weight, value.network.layers[0].weight)
    distribution, values = together(policy, value, vectors((5,)))
    assert torch.equal(distribution.logits, policy.logits(vectors((5,))))
    assert torch.equal(values, value(vectors((5,))))
    # Another pair's head is not taken for this policy's.
    one, other = (actor_critic_for(box, spaces.Discrete(3), (8,), shared=True, seed=seed) for seed in (1, 2))
    assert torch.equal(together(one[0], other[1], vectors((5,)))[1], other[1](vectors((5,))))


def test_tables_have_nothing_to_share():
    policy, value = actor_critic_for(spaces.Discrete(7), spaces.Discrete(3), shared=True)
    assert isinstance(policy, TabularPolicy)
    assert isinstance(value, TabularValue)
    distribution, values = together(policy, value, torch.arange(7))
    assert distribution.entropy().shape == values.shape == (7,)


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
    several = policy_for(box, spaces.MultiDiscrete([2, 5]), (16,))
    assert isinstance(several, MultiCategoricalPolicy)
    assert several.nvec == (2, 5)
    assert policy_for(box, spaces.MultiBinary(3)).nvec == (2, 2, 2)
    wide = policy_for(box, spaces.Box(-1, 1, (2,)), initial_std=3.0, normalizer=some_norm(), network=Own(2))
    assert wide.mean_std(vectors((5,)))[1].unique().tolist() == [3.0]
    assert isinstance(wide.network, Own)
    for name, x in {"normalizer": some_norm(), "network": Own(3)}.items():
        for make in (
            lambda **given: policy_for(rooms, choices, **given),
            lambda **given: value_for(rooms, **given),
        ):
            with pytest.raises(ValueError, match=f"{name} is given and observation_space is Discrete"):
                make(**{name: x})


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
        (spaces.Discrete(3), spaces.MultiDiscrete([2, 2]), "a box of observations is wanted"),
        (spaces.Box(0, 1, (2,)), spaces.MultiDiscrete([2], start=[1]), "action_space is .*counts from 0"),
        (spaces.Box(0, 1, (2,)), spaces.MultiBinary((2, 2)), "action_space is .*with one axis, is wanted"),
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
        (lambda: MultiCategoricalPolicy(4, ()), ValueError, "nvec is empty"),
        (lambda: MultiCategoricalPolicy(4, (2, 0)), ValueError, r"nvec\[1\] is 0"),
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
    several = MultiCategoricalPolicy(4, (2, 3))
    with pytest.raises(ValueError, match=r"actions has shape \(5,\); \(5, 2\) is wanted, 2 choices"):
        several.logp(four, torch.zeros(5, dtype=torch.int64))
    with pytest.raises(ValueError, match="actions holds numbers from 2 to 2; 0 to 1 are wanted"):
        several.logp(four, torch.full((5, 2), 2))
