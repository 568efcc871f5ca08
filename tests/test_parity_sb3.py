"""The same weights and the same batch give what Stable-Baselines3 makes of them.

Its own code runs, not a copy of its formulas: `PPO.train` on a filled rollout buffer, `collect_rollouts` in
an environment, `compute_returns_and_advantage`, and `TRPO.train` of sb3-contrib. Both forms of our gradient
step are compared with it, the fast and the plain one.

It differs from us in five places, and each has a test that says how:

- its value loss has no half, so its vf_coef of 0.5 is our value_coef of 1;
- it divides advantages by a standard deviation with n − 1 in it, we by one with n;
- its clipped value loss is that of the clipped value alone, ours the larger of the two;
- its Gaussian speaks in the units of the actions, ours in half widths of their box;
- TRPO's KL of a Gaussian is there a mean over the components of an action, and the sum here.
"""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ppobook.batches import Batch
from ppobook.diagnostics import normalize
from ppobook.envs import make_env
from ppobook.fast import FASTER
from ppobook.policies import CategoricalPolicy, GaussianPolicy
from ppobook.ppo import PPO
from ppobook.returns import gae
from ppobook.rollouts import Collector
from ppobook.trpo import TRPO

sb3 = pytest.importorskip("stable_baselines3")
sb3_contrib = pytest.importorskip("sb3_contrib")
from stable_baselines3.common.buffers import RolloutBuffer  # noqa: E402
from stable_baselines3.common.callbacks import CallbackList  # noqa: E402
from stable_baselines3.common.logger import Logger  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

OBSERVATIONS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = {
    "categorical": spaces.Discrete(4),
    "gaussian": spaces.Box(-1, 1, (2,), np.float32),  # half widths of 1: no difference of units here
    "several choices": spaces.MultiDiscrete([3, 2]),
}
N, T = 3, 16
FORMS = [
    ("categorical", True),
    ("categorical", False),
    ("gaussian", True),
    ("gaussian", False),
    ("several choices", False),
]
# A step of Adam is this long at most. The tolerances of the weights, 1e-5 and 1e-6, see a thousandth of it.
LR = 3e-3


@pytest.fixture(autouse=True)
def _global_random_numbers():
    """Stable-Baselines3 draws from the global generators: begun anew, and put back as they were."""
    before = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        yield
    np.random.set_state(before)  # noqa: NPY002


class Blank(gym.Env):
    """Never stepped: it only says which spaces the networks are for."""

    observation_space = OBSERVATIONS

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}


class Steering(gym.Env):
    """A point to be kept near 0, without any chance in it. Over past 2; a time limit may cut it before."""

    observation_space = OBSERVATIONS
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        self.x, self.v = 0.5, 0.0
        return self._seen(), {}

    def _seen(self):
        return np.array([self.x, self.v, math.sin(self.x)], np.float32)

    def step(self, action):
        self.v = 0.9 * self.v + 0.5 * (int(action) - 1.5)
        self.x += self.v
        return self._seen(), 1.0 - self.x**2, abs(self.x) > 2, False, {}


gym.register("tests/Steering-v0", Steering, max_episode_steps=6)


def theirs(kind, algorithm=sb3.PPO, envs=None, **more):
    """A model of Stable-Baselines3 whose weights are not the first ones, which are too alike."""
    model = algorithm(
        "MlpPolicy",
        envs or DummyVecEnv([lambda: Blank(ACTIONS[kind])] * N),
        n_steps=T,
        learning_rate=LR,
        device="cpu",
        policy_kwargs={"net_arch": [16, 8], **more.pop("policy_kwargs", {})},
        **{"batch_size": N * T, **more},
    )
    with torch.no_grad():
        for p in model.policy.parameters():
            p += 0.3 * torch.randn(p.shape)
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def ours(kind, algorithm=PPO, fast=False, **more):
    if algorithm is PPO:
        more.setdefault("num_minibatches", 1)
    made = algorithm.settings_class.make("", {"num_envs": N, "num_steps": T, "hidden": (16, 8), **more}, {})
    return (FASTER[algorithm] if fast else algorithm)(OBSERVATIONS, ACTIONS[kind], made)


def linear(*modules):
    return [layer for module in modules for layer in module.modules() if isinstance(layer, nn.Linear)]


def pairs(one, model):
    """(name, our parameter, theirs) for all of them."""
    policy = linear(one.policy), linear(model.policy.mlp_extractor.policy_net, model.policy.action_net)
    value = linear(one.value), linear(model.policy.mlp_extractor.value_net, model.policy.value_net)
    found = [
        (f"{part}.{i}.{name}", getattr(mine, name), getattr(its, name))
        for part, layers in (("policy", policy), ("value", value))
        for i, (mine, its) in enumerate(zip(*layers, strict=True))
        for name in ("weight", "bias")
    ]
    if isinstance(one.policy, GaussianPolicy):
        found.append(("log_std", one.policy.log_std, model.policy.log_std))
    assert len(found) == len(list(model.policy.parameters()))
    return found


@torch.no_grad()
def copy_weights(model, one):
    for _, mine, its in pairs(one, model):
        mine.copy_(its)


@torch.no_grad()
def filled(model, moved=0.3):
    """The same batch twice: in the model's buffer, and as ours.

    `moved` is how far the networks are, in logp and V, from those that are said to have played it.
    """
    observations = torch.randn(T, N, 3)
    steps = [model.policy(x) for x in observations]
    actions, values, logp = (torch.stack(parts) for parts in zip(*steps, strict=True))
    old_values = values.squeeze(-1) + moved * torch.randn(T, N)
    old_logp = logp + moved * torch.randn(T, N)
    advantages, returns = 2 * torch.randn(2, T, N) + 0.5
    buffer = model.rollout_buffer
    buffer.reset()
    for t in range(T):
        zeros = np.zeros(N, np.float32)
        buffer.add(observations[t].numpy(), actions[t].numpy(), zeros, zeros, old_values[t], old_logp[t])
    buffer.advantages[:] = advantages
    buffer.returns[:] = returns
    given = (observations, actions, old_logp, advantages, returns, old_values)
    return Batch(*(x.flatten(0, 1) for x in given))


def same(mine, its, what, rtol=1e-5, atol=1e-6):
    mine, its = torch.as_tensor(mine), torch.as_tensor(its)
    torch.testing.assert_close(
        mine.detach().double(), its.detach().double(), rtol=rtol, atol=atol, msg=lambda m: f"{what}: {m}"
    )


# -------------------------------------------------------------------------------------------- one step


@pytest.mark.parametrize("max_grad_norm", [None, 0.1, 1e-3])
@pytest.mark.parametrize("normalized", [False, True], ids=["plain", "normalized"])
@pytest.mark.parametrize("value_clip_eps", [None, 0.2])
@pytest.mark.parametrize(("kind", "fast"), FORMS)
def test_one_step(kind, fast, value_clip_eps, normalized, max_grad_norm):
    """Losses, gradients, their length, and the weights after a step of Adam.

    Clipped to 1e-3, gradients are so small that Adam's epsilon, 1e-5 on both sides, decides the step.
    """
    model = theirs(
        kind,
        n_epochs=1,
        clip_range=0.2,
        clip_range_vf=value_clip_eps,
        normalize_advantage=normalized,
        ent_coef=0.1,
        vf_coef=0.5,
        max_grad_norm=math.inf if max_grad_norm is None else max_grad_norm,
    )
    one = ours(
        kind,
        lr=LR,
        clip_eps=0.2,
        value_clip_eps=value_clip_eps,
        entropy_coef=0.1,
        value_coef=1.0,
        max_grad_norm=max_grad_norm,
        fast=fast,
    )
    copy_weights(model, one)
    batch = filled(model)
    if value_clip_eps is not None:
        # Where the clipped value is always the worse one, both mean the same: the target lies ahead of where
        # the value has moved to.
        with torch.no_grad():
            ahead = one.value(batch.observations) - batch.old_values
        batch.returns = batch.old_values + ahead * (1.5 + torch.rand(len(batch)))
        model.rollout_buffer.returns[:] = batch.returns.reshape(T, N)
    if normalized:
        batch.advantages = normalize(batch.advantages, ddof=1)

    with torch.no_grad():
        loss, _ = one.loss(batch)
    metrics = one.gradient_step(batch)
    model.train()
    logged = {name.removeprefix("train/"): x for name, x in model.logger.name_to_value.items()}

    assert 0.1 < logged["clip_fraction"] < 0.9  # there is something to see
    same(metrics["policy_loss"], logged["policy_gradient_loss"], "policy loss")
    same(2 * metrics["value_loss"], logged["value_loss"], "value loss")
    same(metrics["entropy"], -logged["entropy_loss"], "entropy")
    same(metrics["clip_fraction"], logged["clip_fraction"], "clip fraction")
    same(metrics["approx_kl"], logged["approx_kl"], "approximate KL")
    same(loss, logged["loss"], "loss")
    parts = metrics["policy_loss"] + 1.0 * metrics["value_loss"] - 0.1 * metrics["entropy"]
    same(parts, logged["loss"], "loss, from its parts")

    clipped = max_grad_norm is not None
    length = torch.cat([mine.grad.flatten() for _, mine, _ in pairs(one, model)]).norm()
    assert float(metrics["grad_norm"]) > 0.1  # long enough to be clipped
    same(length, max_grad_norm if clipped else metrics["grad_norm"], "length of the gradient")
    their_length = torch.cat([its.grad.flatten() for *_, its in pairs(one, model)]).norm()
    same(length, their_length, "length of the gradient")
    for name, mine, its in pairs(one, model):
        same(mine.grad, its.grad, f"gradient of {name}", atol=1e-6 * float(length))
        same(mine, its, f"{name} after the step")


def test_normalized_advantages_differ_by_the_deviation_they_are_divided_by():
    """With n in it in place of n − 1 they are larger by a factor of √(n / (n − 1)), as is the loss."""
    model = theirs("categorical", n_epochs=1, ent_coef=0.0, vf_coef=0.0)
    one = ours("categorical", num_minibatches=1, epochs=1, entropy_coef=0.0, value_coef=0.0)
    copy_weights(model, one)
    batch = filled(model)
    batch.advantages = normalize(batch.advantages)
    metrics = one.gradient_step(batch)
    model.train()
    factor = math.sqrt(N * T / (N * T - 1))
    assert factor > 1.01
    same(
        metrics["policy_loss"],
        factor * model.logger.name_to_value["train/policy_gradient_loss"],
        "policy loss",
    )


@pytest.mark.parametrize("fast", [True, False])
def test_a_clipped_value_loss_is_the_larger_of_two_here_and_the_clipped_one_there(fast):
    """So theirs excuses a value that has moved too far the wrong way, and ours pulls it back."""
    model = theirs(
        "categorical", n_epochs=1, clip_range_vf=0.1, ent_coef=0.0, vf_coef=0.5, max_grad_norm=math.inf
    )
    weights = {"entropy_coef": 0.0, "value_coef": 1.0, "max_grad_norm": None}
    one = ours("categorical", value_clip_eps=0.1, fast=fast, **weights)
    copy_weights(model, one)
    batch = filled(model)
    with torch.no_grad():
        moved = one.value(batch.observations) - batch.old_values
    batch.returns = batch.old_values - 3 * moved  # everything moved the wrong way
    model.rollout_buffer.returns[:] = batch.returns.reshape(T, N)
    far = moved.abs() > 0.1
    assert 0.2 < far.float().mean() < 0.95

    def gradient(counted):
        value, weight = one.value(batch.observations), one.value.network.layers[0].weight
        return torch.autograd.grad((0.5 * (value - batch.returns).square() * counted).mean(), weight)[0]

    of_all, of_the_near = gradient(torch.ones_like(moved)), gradient((~far).float())

    metrics = one.gradient_step(batch)
    model.train()
    unclipped = (4 * moved).square()
    clipped = (moved.clamp(-0.1, 0.1) + 3 * moved).square()
    same(2 * metrics["value_loss"], unclipped.mean(), "our value loss")
    same(model.logger.name_to_value["train/value_loss"], clipped.mean(), "their value loss")
    mine, its = next((mine, its) for name, mine, its in pairs(one, model) if name == "value.0.weight")
    same(mine.grad, of_all, "our gradient")
    same(its.grad, of_the_near, "their gradient")


def test_in_another_box_ours_is_theirs_for_actions_in_half_widths():
    """The density changes by a constant, which no ratio and no gradient sees."""
    model = theirs("gaussian")
    low, high = np.array([-3.0, 1.0], np.float32), np.array([1.0, 2.0], np.float32)
    policy = GaussianPolicy(3, 2, (16, 8), low, high)
    plain = ours("gaussian")
    copy_weights(model, plain)
    policy.network.load_state_dict(plain.policy.network.state_dict())
    with torch.no_grad():
        policy.log_std.copy_(plain.policy.log_std)
    batch = filled(model)
    centre, half = torch.tensor([-1.0, 1.5]), torch.tensor([2.0, 0.5])
    _, their_logp, their_entropy = model.policy.evaluate_actions(batch.observations, batch.actions)
    now = policy.distribution(batch.observations)
    shift = float(half.log().sum())
    same(now.logp(centre + half * batch.actions), their_logp - shift, "logp")
    same(now.entropy(), their_entropy + shift, "entropy")


# ------------------------------------------------------------------------------------------- a whole update


class Replaying(CategoricalPolicy):
    """A policy that takes the actions of a script, [T, N]."""

    def follow(self, script):
        self.rows = iter(torch.as_tensor(script))

    def sample(self, observations, generator=None):
        actions = next(self.rows)
        return actions, self.logp(observations, actions)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("value_coef", [0.5, 1.0])
def test_a_rollout_and_an_update_of_it(fast, value_coef):
    """From the same actions in an environment to the same weights after three epochs of four minibatches.

    Episodes here terminate, are cut by a time limit, and are unfinished when the rollout stops.
    """
    envs = DummyVecEnv([lambda: gym.make("tests/Steering-v0")] * N)
    model = theirs(
        "categorical",
        envs=envs,
        n_epochs=3,
        batch_size=N * T // 4,
        gamma=0.9,
        gae_lambda=0.8,
        clip_range=0.1,
        ent_coef=0.05,
        vf_coef=value_coef / 2,
        max_grad_norm=0.5,
        normalize_advantage=False,
    )
    buffer = model.rollout_buffer
    _, callback = model._setup_learn(10_000, CallbackList([]))
    for _ in range(2):  # so that episodes are under way when the second one begins
        before = buffer.actions.copy()
        assert model.collect_rollouts(envs, callback, buffer, T)
    script = np.concatenate([before, buffer.actions])[..., 0].astype(np.int64)

    one = ours(
        "categorical",
        num_minibatches=4,
        epochs=3,
        gamma=0.9,
        lam=0.8,
        lr=LR,
        clip_eps=0.1,
        entropy_coef=0.05,
        value_coef=value_coef,
        normalize_advantages="none",
        fast=fast,
    )
    copy_weights(model, one)
    replaying = Replaying(3, 4, (16, 8))
    replaying.load_state_dict(one.policy.state_dict())
    replaying.follow(script)
    collector = Collector(make_env("tests/Steering-v0", N), replaying, seed=0)
    collector.collect(T)
    rollout = collector.collect(T)

    assert rollout.terminated.any()
    assert len(rollout.final_observations) > 0
    assert not (rollout.terminated | rollout.truncated)[:, -1].all()
    same(rollout.observations.transpose(0, 1), buffer.observations, "observations")
    same(rollout.logp.T, buffer.log_probs, "logp")
    kept = ~(rollout.truncated & ~rollout.terminated).T
    same(rollout.rewards.T[kept], buffer.rewards[kept.numpy()], "rewards where nothing was cut")
    assert (rollout.rewards.T[~kept] != torch.as_tensor(buffer.rewards)[~kept]).all()
    advantages, returns, values = one.advantages(rollout)
    same(values.T, buffer.values, "values")
    same(advantages.T, buffer.advantages, "advantages", atol=1e-5)
    same(returns.T, buffer.returns, "returns", atol=1e-5)

    # Their batch goes environment by environment, ours step by step.
    numbers = np.random.RandomState(7)
    one.shuffle.order = lambda n: torch.as_tensor(
        [k % T * N + k // T for k in numbers.permutation(n).tolist()]
    )
    metrics = one.update(rollout)
    np.random.seed(7)  # noqa: NPY002
    model.train()
    logged = model.logger.name_to_value
    for name, its in (
        ("policy_loss", "policy_gradient_loss"),
        ("clip_fraction", "clip_fraction"),
        ("explained_variance", "explained_variance"),
    ):
        same(metrics[name], logged[f"train/{its}"], name, rtol=1e-4, atol=1e-5)
    same(2 * metrics["value_loss"], logged["train/value_loss"], "value loss", rtol=1e-4)
    assert metrics["clip_fraction"] > 0.1
    for name, mine, its in pairs(one, model):
        same(mine, its, f"{name} after twelve steps", rtol=1e-4, atol=2e-5)


# ------------------------------------------------------------------------------------------------ advantages


@given(seed=st.integers(0, 2**31), gamma=st.floats(0, 1), lam=st.floats(0, 1))
@settings(max_examples=200)
def test_gae(seed, gamma, lam):
    """Its buffer knows where episodes begin, ours how they end; at a cut it adds γ V to the reward."""
    rng = np.random.default_rng(seed)
    steps, n = int(rng.choice([1, 2, 7, 30, 64, 150])), int(rng.integers(1, 5))
    rewards, values, final_values = rng.normal(size=(3, steps, n)).astype(np.float32)
    last_values = rng.normal(size=n).astype(np.float32)
    terminated, truncated = rng.random((2, steps, n)) < 0.15
    cut = truncated & ~terminated
    over = terminated | truncated

    buffer = RolloutBuffer(steps, OBSERVATIONS, ACTIONS["categorical"], "cpu", lam, gamma, n)
    buffer.rewards = rewards + np.where(cut, np.float32(gamma) * final_values, 0)
    buffer.values = values
    buffer.episode_starts[1:] = over[:-1]
    buffer.compute_returns_and_advantage(torch.as_tensor(last_values), over[-1])

    final_values[~cut] = np.nan
    arrays = (rewards, np.concatenate([values, last_values[None]]), terminated, truncated, final_values)
    for make in (np.ascontiguousarray, torch.as_tensor):
        advantages, returns = gae(*(make(x).T for x in arrays), gamma=gamma, lam=lam)
        same(advantages.T, buffer.advantages, "advantages", atol=1e-5)
        same(returns.T, buffer.returns, "returns", atol=1e-5)


# ------------------------------------------------------------------------------------------------------ TRPO


@pytest.mark.parametrize("max_kl", [0.001, 0.05])
@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_trpo(kind, max_kl):
    """One step of the policy, and the critic after five of its own.

    The length of the advantages does not matter, for it cancels in the step. sb3-contrib measures the KL the
    other way round; the two have one curvature, so that only the line search can tell them apart. Of a
    Gaussian's KL it takes the mean over the components of an action, and the KL is the sum: with two of them,
    its damping and its trust region are worth twice as much of ours.
    """
    components = 2 if kind == "gaussian" else 1
    model = theirs(
        kind,
        sb3_contrib.TRPO,
        cg_max_steps=10,
        cg_damping=0.1,
        target_kl=max_kl,
        n_critic_updates=5,
        line_search_shrinking_factor=0.8,
        policy_kwargs={"optimizer_kwargs": {"eps": 1e-8}},
    )
    one = ours(
        kind,
        TRPO,
        max_kl=components * max_kl,
        cg_iterations=10,
        cg_damping=components * 0.1,
        backtrack=0.8,
        value_lr=LR,
        value_epochs=5,
        value_minibatches=1,
    )
    copy_weights(model, one)
    batch = filled(model, moved=0.0)
    batch.advantages = normalize(batch.advantages)
    before = [mine.detach().clone() for _, mine, _ in pairs(one, model)]
    metrics = one.improve(batch) | one.fit(batch)
    model.train()
    logged = model.logger.name_to_value
    assert metrics["accepted"]
    assert logged["train/is_line_search_success"] == 1
    same(2 * metrics["value_loss"], logged["train/value_loss"], "value loss", rtol=1e-4)
    their_kl = components * logged["train/kl_divergence_loss"]
    same(metrics["step_kl"], their_kl, "KL, one way and the other", rtol=0.3)
    for (name, mine, its), was in zip(pairs(one, model), before, strict=True):
        step = float((its.detach() - was).abs().max())
        same(mine, its, f"{name} after the update", atol=2e-3 * step)
