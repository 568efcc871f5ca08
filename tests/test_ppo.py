"""PPO: its update against slow and independent ways to say what it should do."""

import dataclasses
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ppobook import load, train
from ppobook.adaptive_kl import AdaptiveCoefficient
from ppobook.batches import Batch
from ppobook.envs import make_env
from ppobook.objectives import policy_gradient_loss
from ppobook.policies import CategoricalPolicy, ValueFunction
from ppobook.ppo import PPO
from ppobook.presets import PPO, PRESETS
from ppobook.rollouts import Collector
from ppobook.run.settings import Settings

SMALL = {"num_envs": 2, "num_steps": 32, "epochs": 2, "num_minibatches": 4, "hidden": (8,)}


class Choices(gym.Env):
    """Two choices a step, of three and of two kinds; (2, 1) is right. Over after five steps."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        reward = float(action[0] == 2) + float(action[1] == 1)
        return np.zeros(2, np.float32), reward, False, self.left == 0, {}


gym.register("tests/Choices-v0", Choices)


def learner(env: str = "CartPole-v1", seed: int = 0, **settings) -> tuple[PPO, Collector]:
    envs = make_env(env, settings.get("num_envs", 2))
    made = Settings.make("ppo", {**SMALL, **settings}, {})
    one = PPO(envs.single_observation_space, envs.single_action_space, made, seed=seed)
    return one, Collector(envs, one.policy, seed=seed)


def weights(one: PPO) -> torch.Tensor:
    return one.weights.detach().clone()


# --------------------------------------------------------------------------------------------- the update


def test_the_defaults_are_those_of_the_paper_and_the_code_that_made_it_known():
    found = dataclasses.asdict(Settings())
    wanted = {
        "clip_eps": 0.2,
        "lr": 3e-4,
        "epochs": 10,
        "num_minibatches": 32,
        "gamma": 0.99,
        "lam": 0.95,
        "entropy_coef": 0.01,
        "value_coef": 0.5,
        "max_grad_norm": 0.5,
        "num_steps": 2048,
        "num_envs": 8,
        "adam_eps": 1e-5,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found["num_envs"] * found["num_steps"] / found["num_minibatches"] == 512


@pytest.mark.parametrize("form", ["closed", "autograd"])
def test_the_first_step_is_a_plain_policy_gradient(form):
    """At ratio 1 the surrogate's gradient is the policy gradient's (A7), so nothing is clipped yet."""
    one, collector = learner(num_minibatches=1, normalize_advantages="none", value_coef=0.0, entropy_coef=0.0)
    if form == "autograd":
        one.closed_form = None
    rollout = one.collect(collector)
    advantages, returns, values = one.advantages(rollout)
    loss = policy_gradient_loss(one.policy.logp(rollout.observations, rollout.actions), advantages)
    wanted = torch.autograd.grad(loss, list(one.policy.parameters()))
    told = one.step(Batch.of(rollout, advantages, returns, values))
    assert float(told["clip_fraction"]) == 0
    assert float(told["approx_kl"]) == pytest.approx(0, abs=1e-6)
    clipped = min(1.0, 0.5 / float(told["grad_norm"]))
    for p, gradient in zip(one.policy.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, clipped * gradient, rtol=1e-3, atol=1e-6)


def test_advantages_are_those_of_a_slow_walk_through_the_rollout():
    """Every step's TD errors summed forwards, episode by episode, the critic being asked state by state."""
    one, collector = learner("Pendulum-v1", num_steps=150, gamma=0.9, lam=0.8)  # two cuts, one unfinished
    collector.collect(120)
    rollout = one.collect(collector)
    assert rollout.truncated.any()
    assert len(rollout.final_observations) == 2
    found, returns, values = one.advantages(rollout)
    ends = iter(rollout.final_observations)
    n, t = rollout.rewards.shape
    with torch.no_grad():
        for i in range(n):
            deltas, last = [], []
            for k in range(t):
                over, cut = bool(rollout.terminated[i, k]), bool(rollout.truncated[i, k])
                if cut and not over:
                    following = next(ends)
                elif k == t - 1:
                    following = rollout.last_observations[i]
                else:
                    following = rollout.observations[i, k + 1]
                after = 0.0 if over else one.value(following).item()
                before = one.value(rollout.observations[i, k]).item()
                deltas.append(rollout.rewards[i, k].item() + 0.9 * after - before)
                last.append(over or cut)
            for k in range(t):
                total, weight = 0.0, 1.0
                for j in range(k, t):
                    total += weight * deltas[j]
                    weight *= 0.9 * 0.8
                    if last[j]:
                        break
                assert found[i, k].item() == pytest.approx(total, rel=1e-4, abs=1e-4)
    torch.testing.assert_close(returns, found + values)


def test_good_actions_become_likelier_and_bad_ones_rarer():
    one, collector = learner(entropy_coef=0.0, lr=1e-2)
    rollout = one.collect(collector)
    one.advantages = lambda r: (
        torch.where(r.actions == 1, 1.0, -1.0),
        torch.zeros_like(r.rewards),
        torch.zeros_like(r.rewards),
    )
    before = one.policy.probs(rollout.observations)[..., 1].mean()
    one.update(rollout)
    assert one.policy.probs(rollout.observations)[..., 1].mean() > before + 0.05


def test_the_entropy_bonus_keeps_a_policy_random():
    entropies = []
    for coefficient in (0.0, 1.0):
        one, collector = learner(entropy_coef=coefficient, lr=1e-2, epochs=20)
        rollout = one.collect(collector)
        one.advantages = lambda r: (
            torch.where(r.actions == 1, 1.0, -1.0),
            torch.zeros_like(r.rewards),
            torch.zeros_like(r.rewards),
        )
        entropies.append(one.update(rollout)["entropy"])
    assert entropies[1] > entropies[0] + 0.05


def test_metrics_are_means_over_all_epochs_and_not_the_last():
    one, collector = learner(epochs=3)
    seen, step = [], one.step
    one.step = lambda minibatch: seen.append(step(minibatch)) or seen[-1]
    told = one.update(one.collect(collector))
    assert len(seen) == 12
    for name, column in (
        ("policy_loss", "policy_loss"),
        ("value_loss", "value_loss"),
        ("clip_fraction", "clip_fraction"),
        ("flat_fraction", "flat_fraction"),
        ("approx_kl", "minibatch_kl"),
        ("ratio_mean", "ratio_mean"),
        ("ratio_std", "ratio_std"),
        ("grad_norm", "grad_norm"),
    ):
        assert told[column] == pytest.approx(np.mean([float(s[name]) for s in seen])), name
    assert told["epochs"] == 3


def test_kl_and_entropy_describe_the_policy_after_the_update():
    one, collector = learner(lr=1e-2)
    rollout = one.collect(collector)
    told = one.update(rollout)
    with torch.no_grad():
        log_ratio = one.policy.logp(rollout.observations, rollout.actions) - rollout.logp
        assert told["approx_kl"] == pytest.approx((log_ratio.exp() - 1 - log_ratio).mean().item(), rel=1e-4)
        assert told["entropy"] == pytest.approx(one.policy.entropy(rollout.observations).mean().item())


def test_explained_variance_is_of_the_values_noted_in_the_rollout():
    one, collector = learner(lr=1e-2)
    rollout = one.collect(collector)
    _, returns, values = one.advantages(rollout)
    told = one.update(rollout)
    wanted = 1 - np.var((returns - values).numpy()) / np.var(returns.numpy())
    assert told["explained_variance"] == pytest.approx(wanted, rel=1e-4)


# ------------------------------------------------------------------------------------------ what holds it


def test_it_stops_early_once_the_kl_of_an_epoch_is_too_large():
    free, _ = learner(lr=0.05, epochs=10)
    held, collector = learner(lr=0.05, epochs=10, max_kl=0.02)
    rollout = held.collect(collector)
    assert free.update(rollout)["epochs"] == 10
    told = held.update(rollout)
    assert 1 <= told["epochs"] < 10
    calm, _ = learner(lr=1e-6, epochs=10, max_kl=0.02)
    assert calm.update(rollout)["epochs"] == 10


def test_a_loss_that_tells_no_kl_cannot_be_stopped_by_it():
    class Silent(PPO):
        def loss(self, batch):
            return super().loss(batch)[0], {}

    told = train(Silent, env="CartPole-v1", total_steps=64, progress=False, **SMALL).history
    assert "minibatch_kl" not in told
    with pytest.raises(ValueError, match=r"max_kl is 0\.1, and Silent\.loss tells no 'approx_kl'"):
        train(Silent, env="CartPole-v1", total_steps=64, progress=False, max_kl=0.1, **SMALL)


@pytest.mark.parametrize("beta", [0.0, 100.0])
def test_a_kl_penalty_holds_the_policy_back(beta):
    one, collector = learner(objective="kl", kl_coef=beta, lr=0.02, epochs=10)
    told = one.update(one.collect(collector))
    assert told["kl_coef"] == beta
    assert told["flat_fraction"] == 0
    assert told["kl"] >= 0
    assert (told["kl"] < 0.02) == (beta > 0)


def test_beta_follows_the_exact_kl_of_the_update():
    one, collector = learner(objective="adaptive_kl", lr=0.05, kl_target=0.01, epochs=10, kl_coef=0.01)
    kls, betas = [], []
    for _ in range(4):
        rollout = one.collect(collector)
        with torch.no_grad():
            before = one.policy.logits(rollout.observations).log_softmax(-1)
        told = one.update(rollout)
        with torch.no_grad():
            after = one.policy.logits(rollout.observations).log_softmax(-1)
        assert told["kl"] == pytest.approx((before.exp() * (before - after)).sum(-1).mean().item(), rel=1e-3)
        kls.append(told["kl"])
        betas.append(told["kl_coef"])
    for kl, now, then in zip(kls, betas, betas[1:], strict=False):
        factor = 0.5 if kl < 0.01 / 1.5 else 2.0 if kl > 0.015 else 1.0
        assert then == pytest.approx(now * factor)


def test_a_long_gradient_is_shortened_and_measured_before():
    one, collector = learner(max_grad_norm=1e-3, num_minibatches=1, epochs=1)
    told = one.update(one.collect(collector))
    assert told["grad_norm"] > 1e-3
    assert torch.linalg.vector_norm(one.weights.grad).item() == pytest.approx(1e-3, rel=1e-4)


def test_advantages_are_normalised_where_the_setting_says():
    seen = {}
    for where in ("minibatch", "batch", "none"):
        one, collector = learner(normalize_advantages=where, epochs=1)
        parts = []
        one.step = lambda minibatch, parts=parts: (
            parts.append(minibatch.advantages)
            or {
                "approx_kl": 0.0,
                "grad_norm": 0.0,
            }
        )
        rollout = one.collect(collector)
        raw = one.advantages(rollout)[0]
        one.update(rollout)
        seen[where] = parts, raw
    for part in seen["minibatch"][0]:
        assert part.mean().item() == pytest.approx(0, abs=1e-5)
        assert part.std(unbiased=False).item() == pytest.approx(1, rel=1e-4)
    whole = torch.cat(seen["batch"][0])
    assert whole.mean().item() == pytest.approx(0, abs=1e-5)
    assert whole.std(unbiased=False).item() == pytest.approx(1, rel=1e-4)
    assert abs(seen["batch"][0][0].mean().item()) > 1e-3
    parts, raw = seen["none"]
    assert torch.equal(torch.cat(parts).sort().values, raw.flatten().sort().values)


def test_schedules_run_in_a_straight_line_to_their_ends():
    run = train(
        "ppo",
        env="CartPole-v1",
        total_steps=64 * 5,
        progress=False,
        **SMALL,
        lr=1e-3,
        lr_final=0.0,
        clip_eps=0.3,
        clip_eps_final=0.1,
        entropy_coef=0.02,
        entropy_coef_final=0.0,
    )
    share = np.arange(5) / 5
    np.testing.assert_allclose(run.history["lr"], 1e-3 * (1 - share))
    np.testing.assert_allclose(run.history["clip_eps"], 0.3 - 0.2 * share)
    one, _ = learner(entropy_coef=0.02, entropy_coef_final=0.0)
    one.progress = 0.25
    assert one.coefficients()["entropy_coef"] == pytest.approx(0.015)
    assert one.coefficients()["clip_eps_high"] == one.coefficients()["clip_eps"]


# ----------------------------------------------------------------------------------- networks and scaling


def test_observations_are_normalised_by_what_was_seen_before_and_saved_with_the_policy(tmp_path):
    run = train(
        "ppo", env="Pendulum-v1", total_steps=512, out=tmp_path / "run", progress=False, **SMALL,
        normalize_observations=True, normalize_rewards=True,
    )  # fmt: skip
    loaded = load(tmp_path / "run")
    norm = loaded.policy.normalizer
    assert norm.count == 512
    assert loaded.value.normalizer.count == 512
    torch.testing.assert_close(norm.mean, run.policy.normalizer.mean)
    x = torch.randn(5, 3) * 4
    torch.testing.assert_close(loaded.policy.mean_std(x), run.policy.mean_std(x))


@pytest.mark.parametrize("form", ["closed", "autograd"])
def test_the_ratio_begins_at_one_although_statistics_move(form):
    one, collector = learner("Pendulum-v1", normalize_observations=True, num_minibatches=1, epochs=1)
    if form == "autograd":
        one.closed_form = None
    for _ in range(3):
        told = one.update(one.collect(collector))
        assert told["minibatch_kl"] == pytest.approx(0, abs=1e-6)
        assert told["ratio_mean"] == pytest.approx(1, abs=1e-5)


def test_a_shared_trunk_is_stepped_once():
    one, collector = learner(shared_trunk=True)
    assert one.closed_form is None
    apart, _ = learner()
    trunk = 4 * 8 + 8
    assert one.weights.numel() == apart.weights.numel() - trunk
    before = weights(one)
    one.update(one.collect(collector))
    assert not torch.equal(before, weights(one))


def test_several_choices_at_once_are_learned():
    run = train(
        "ppo", env="tests/Choices-v0", total_steps=6000, progress=False, num_envs=4, num_steps=64,
        num_minibatches=4, lr=5e-3, entropy_coef=0.0, hidden=(8,),
    )  # fmt: skip
    assert run.history["return_mean"].iloc[-1] > 9
    assert run.policy.mode(torch.zeros(2)).tolist() == [2, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "kl"},
        {"objective": "adaptive_kl", "normalize_observations": True},
        {"value_clip_eps": 0.2},
        {"clip_eps_high": 0.28},
        {"shared_trunk": True, "value_clip_eps": 0.2},
        {"activation": "relu"},
        {"activation": "gelu"},
        {"hidden": ()},
        {"normalize_rewards": True},
        {"max_grad_norm": None},
        {"num_minibatches": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "tests/Choices-v0"])
def test_every_variant_trains_and_stays_finite(env, settings):
    run = train("ppo", env=env, total_steps=128, progress=False, **{**SMALL, **settings})
    assert len(run.history) == 2
    told = run.history.drop(columns=[c for c in run.history if c.startswith("return") or c == "length_mean"])
    assert np.isfinite(told.to_numpy(float)).all(), told.T


def test_states_are_learned_in_tables_too():
    run = train("ppo", env="ppobook/Chain-v0", total_steps=3000, progress=False, **{**SMALL, "lr": 0.05})
    assert run.history["return_mean"].iloc[-5:].mean() > run.history["return_mean"].iloc[:3].mean()


# --------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"num_minibatches": 65, "normalize_advantages": "none"},
            "num_minibatches is 65, and a batch has 64",
        ),
        ({"num_minibatches": 64}, "at most 32 is wanted, so that each has 2 to be normalised over"),
        ({"objective": "adaptive_kl", "kl_coef": 0}, "kl_coef is 0"),
        ({"clip_eps": 0.0}, "clip_eps"),
        ({"clip_eps": -0.1}, "clip_eps"),
        ({"objective": "clipped"}, "did you mean 'clip'"),
        ({"normalize_advantages": True}, "normalize_advantages"),
        ({"lr": math.nan}, "lr"),
        ({"max_kl": 0}, "max_kl"),
        ({"lam": 1.5}, "lam"),
        ({"minibatch_size": 64}, "did you mean 'num_minibatches'"),
        ({"value_clip_eps": "0.2"}, "value_clip_eps"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        train("ppo", env="CartPole-v1", total_steps=64, progress=False, **{**SMALL, **settings})


def test_a_policy_without_a_normaliser_cannot_be_normalised():
    class Bare(PPO):
        def networks(self, observation_space, action_space, seed):
            policy, value = super().networks(observation_space, action_space, seed)
            policy.normalizer = None
            return policy, value

    with pytest.raises(ValueError, match=r"the policy that Bare\.networks made has no normalizer"):
        train(Bare, env="CartPole-v1", total_steps=64, progress=False, normalize_observations=True, **SMALL)


def test_states_have_nothing_to_normalise():
    with pytest.raises(ValueError, match="normalize_observations is True, and the observations are states"):
        train("ppo", env="ppobook/Chain-v0", total_steps=64, progress=False, normalize_observations=True)


def test_rewards_beyond_what_squares_hold_are_refused():
    class Rich(PPO):
        def advantages(self, rollout):
            return tuple(x * 1e25 for x in super().advantages(rollout))

    with (
        np.errstate(over="ignore"),
        pytest.raises(FloatingPointError, match="the gradient has length inf"),
    ):
        train(Rich, env="CartPole-v1", total_steps=64, progress=False, **SMALL)


def test_a_loss_that_takes_the_gradients_away_is_refused():
    class Zeroing(PPO):
        def loss(self, batch):
            self.policy.zero_grad()
            return super().loss(batch)

    with pytest.raises(ValueError, match=r"Zeroing\.loss has taken the parameters' gradients away"):
        train(Zeroing, env="CartPole-v1", total_steps=64, progress=False, **SMALL)


def test_a_loss_of_ones_own_can_ask_the_old_policy():
    class Pulled(PPO):
        def loss(self, batch):
            loss, told = super().loss(batch)
            now = self.policy.distribution(batch.observations)
            with torch.no_grad():
                before = self.old_policy.distribution(batch.observations)
            kl = before.kl(now).mean()
            return loss + kl, {**told, "pull": kl.detach()}

    told = train(Pulled, env="CartPole-v1", total_steps=128, progress=False, **{**SMALL, "lr": 1e-2}).history
    assert (told["pull"] > 1e-6).all()


def test_what_a_run_gives_back_stands_alone(tmp_path):
    run = train("ppo", env="CartPole-v1", total_steps=64, progress=False, **SMALL)
    torch.save(run.policy.state_dict(), tmp_path / "policy.pt")
    weights = sum(p.numel() for p in run.policy.parameters())
    assert (tmp_path / "policy.pt").stat().st_size < 4 * weights + 6000
    with torch.no_grad():
        for p in run.policy.parameters():
            p.zero_()
    again = load(run.save(tmp_path / "run"))
    assert any((p != 0).any() for p in again.policy.parameters())


def test_presets_are_settings_of_environments():
    for env, preset in PRESETS.items():
        made = Settings.make("ppo", {}, preset)
        assert made.num_minibatches <= made.num_envs * made.num_steps, env


def test_a_part_of_the_books_own_is_not_forgotten_either():
    class Forgetful(PPO):
        def __init__(self, observation_space, action_space, settings, **kwargs):
            super().__init__(observation_space, action_space, settings, **kwargs)
            self.second = AdaptiveCoefficient(1.0, 0.1)

    with pytest.raises(ValueError, match="Forgetful has second, a AdaptiveCoefficient"):
        train(Forgetful, env="CartPole-v1", total_steps=64, progress=False, **SMALL)


def test_a_run_from_a_machine_with_an_accelerator_is_loaded_and_resumed_here(tmp_path):
    run = train("ppo", env="CartPole-v1", total_steps=64, out=tmp_path / "run", progress=False, **SMALL)
    (checkpoint,) = sorted((tmp_path / "run").glob("checkpoint-*"))[-1:]
    state = torch.load(checkpoint / "state.pt", weights_only=True)
    state["config"]["device"] = "cuda:7"
    torch.save(state, checkpoint / "state.pt")
    again = load(tmp_path / "run")
    for a, b in zip(run.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match="device='cuda:7' cannot be used"):
        train(resume=tmp_path / "run", total_steps=128, progress=False)
    longer = train(resume=tmp_path / "run", total_steps=128, device="cpu", progress=False)
    assert len(longer.history) == 2
    assert longer.config["device"] == "cpu"


def test_returns_so_far_are_forgotten_when_environments_begin_anew():
    one, collector = learner(normalize_rewards=True, num_steps=8)
    one.advantages(one.collect(collector))
    assert (one.reward_scale.returns != 0).any()
    one.reset_episodes()
    assert (one.reward_scale.returns == 0).all()


# ------------------------------------------------------------------------------- what a user may hand back


def handed_back(**methods):
    return type("Mine", (PPO,), methods)


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        ({"advantages": lambda self, r: (r.rewards.T,) * 3}, r"advantages of shape \(32, 2\); \(2, 32\) is"),
        ({"advantages": lambda self, r: (r.rewards,) * 2}, "Mine.advantages returned 2 things"),
        ({"advantages": lambda self, r: None}, "Mine.advantages returned NoneType"),
        ({"advantages": lambda self, r: (r.rewards.numpy(),) * 3}, "advantages of type ndarray"),
        (
            {"advantages": lambda self, r: (r.rewards * math.nan,) * 3},
            "advantages, as Mine.advantages",
        ),
        ({"loss": lambda self, b: PPO.loss(self, b)[0]}, "Mine.loss returned Tensor; a pair"),
        ({"loss": lambda self, b: (1.0, {})}, "Mine.loss returned 1.0; a scalar tensor"),
        ({"loss": lambda self, b: (PPO.loss(self, b)[0].detach(), {})}, "a scalar tensor with a gradient"),
        ({"loss": lambda self, b: (PPO.loss(self, b)[0] * math.nan, {})}, "Mine.loss returned nan; a finite"),
        ({"loss": lambda self, b: (PPO.loss(self, b)[0], {"x": b.returns})}, "Mine.loss tells 'x' of shape"),
        (
            {"loss": lambda self, b: (PPO.loss(self, b)[0], {"steps": 3.0})},
            "Mine.update tells 'steps', a column",
        ),
        ({"update": lambda self, r: None}, "Mine.update returned NoneType; a dict of numbers"),
        ({"update": lambda self, r: {"seconds": 1.0}}, "Mine.update tells 'seconds', a column"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_a_subclass_returns_is_refused_with_its_name(methods, sentence):
    with pytest.raises((TypeError, ValueError, FloatingPointError), match=sentence):
        train(handed_back(**methods), env="CartPole-v1", total_steps=64, progress=False, **SMALL)


def own_networks(policy=None, value=None):
    def networks(self, observation_space, action_space, seed):
        ours = PPO.networks(self, observation_space, action_space, seed)
        return policy or ours[0], value or ours[1]

    return handed_back(networks=networks)


@pytest.mark.parametrize(
    ("mine", "sentence"),
    [
        (own_networks(policy=CategoricalPolicy(4, 2, network=torch.nn.Linear(4, 3))), "."),
        (own_networks(policy=CategoricalPolicy(4, 2, network=torch.nn.Linear(5, 2))), "."),
        (own_networks(value=torch.nn.Linear(4, 1)), r"the critic gave values of shape \(2, 32, 1\)"),
        (
            own_networks(
                value=ValueFunction(4, network=torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout()))
            ),
            "a network with a Dropout, which answers differently",
        ),
    ],
    ids=["outputs", "inputs", "squeeze", "dropout"],
)
def test_a_network_that_does_not_fit_is_not_blamed_on_the_learning_rate(mine, sentence):
    with pytest.raises(Exception, match=sentence) as caught:
        train(mine, env="CartPole-v1", total_steps=64, progress=False, **SMALL)
    assert "beyond all bounds" not in str(caught.value)
