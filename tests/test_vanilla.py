"""Vanilla policy gradient: its gradient against the exact one, and its batches."""

import dataclasses

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ppobook.envs import chain
from ppobook.episodes import episode_starts, whole_episodes
from ppobook.rollouts import Rollout
from ppobook.settings import VanillaSettings
from ppobook.vanilla import Vanilla

WEIGHTS = ("return", "reward_to_go")


def learner(mdp, logits, values=None, **settings):
    """A learner with a given table of logits and of values."""
    made = Vanilla(
        spaces.Discrete(mdp.n_states),
        spaces.Discrete(mdp.n_actions),
        VanillaSettings(gamma=mdp.gamma, **settings),
    )
    with torch.no_grad():
        made.policy.table.copy_(torch.as_tensor(logits))
        if values is not None and made.value is not None:
            made.value.table.copy_(torch.as_tensor(values))
    return made


def end_to_end(mdp, probs, episodes, seed):
    """Whole episodes as one long row: what a single environment shows."""
    played = mdp.sample_episodes(probs, episodes, seed)
    mask = played.mask
    last = mask & ~np.roll(np.pad(mask, ((0, 0), (0, 1))), -1, axis=1)[:, :-1]
    steps = int(mask.sum())
    row = [torch.as_tensor(x[mask][None]) for x in (played.states, played.actions, played.rewards, last)]
    logp = torch.as_tensor(np.log(probs))[row[0], row[1]].float()
    return Rollout(
        observations=row[0],
        actions=row[1],
        rewards=row[2].float(),
        terminated=row[3],
        truncated=torch.zeros(1, steps, dtype=torch.bool),
        logp=logp,
        final_observations=torch.zeros(0, dtype=torch.int64),
        last_observations=row[0][:, 0],
        episode_returns=np.zeros(0),
        episode_lengths=np.zeros(0),
    )


def softmax(logits):
    probs = np.exp(logits - logits.max(1, keepdims=True))
    return probs / probs.sum(1, keepdims=True)


def without_discount_of_visits(mdp, logits, undiscounted):
    """Σ_t E[∇ log π · Q_γ]: what reward-to-go estimates when its steps are not weighted by γ^t."""
    probs = softmax(logits)
    advantages = mdp.q_values(probs) - mdp.policy_value(probs)[:, None]
    return undiscounted.state_occupancy(probs)[:, None] * probs * advantages


@pytest.mark.parametrize(
    ("weight", "baseline", "gamma"),
    [
        ("return", "none", 1.0),
        ("return", "value", 0.9),
        ("reward_to_go", "mean", 1.0),
        ("reward_to_go", "value", 0.9),
    ],
)
def test_the_gradient_is_right_on_average(weight, baseline, gamma):
    """30 batches of 1000 episodes: everywhere the mean is within 4.5 standard errors of the exact gradient.

    The step of plain SGD with lr 1 is the gradient itself, so what is tested is what training does. The
    critic holds numbers that have nothing to do with the values: a baseline may be as wrong as it likes.
    """
    world = {"length": 4, "left_reward": 0.5, "right_reward": 2.0, "step_reward": -0.1, "start": 2}
    mdp = chain(**world, gamma=gamma)
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(mdp.n_states, 2)) * 0.5
    values = rng.normal(size=mdp.n_states)
    expected = mdp.policy_gradient(logits)
    if weight == "reward_to_go":
        expected = without_discount_of_visits(mdp, logits, chain(**world, gamma=1.0))
        if gamma == 1:
            np.testing.assert_allclose(expected, mdp.policy_gradient(logits), atol=1e-12)

    episodes, found = 1000, []
    for seed in range(30):
        rollout = end_to_end(mdp, softmax(logits), episodes, seed)
        steps = rollout.rewards.shape[1]
        made = learner(
            mdp,
            logits,
            values,
            weight=weight,
            baseline=baseline,
            optimizer="sgd",
            lr=1.0,
            num_steps=steps,
            value_epochs=1,
        )
        made.update(rollout)
        moved = made.policy.table.detach().double().numpy() - np.float32(logits)
        found.append(moved * steps / episodes)  # the loss is a mean over steps, J a mean over episodes
    found = np.stack(found)
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    off = np.abs(found.mean(0) - expected)
    inside = ~mdp.terminal
    assert (off <= 4.5 * error + 2e-4)[inside].all()
    # And the test could tell: the largest entry is known to a few percent.
    assert error.max() < 0.1 * np.abs(expected).max()


# ------------------------------------------------------------------------------------------ batches


def random_rollout(rng, n=5, t=23, ends=0.2):
    terminated, truncated = rng.random((2, n, t)) < ends / 2
    cut = truncated & ~terminated
    obs = torch.as_tensor(rng.integers(1, 5, (n, t)))
    return Rollout(
        observations=obs,
        actions=torch.as_tensor(rng.integers(0, 2, (n, t))),
        rewards=torch.as_tensor(rng.normal(size=(n, t))).float(),
        terminated=torch.as_tensor(terminated),
        truncated=torch.as_tensor(truncated),
        logp=torch.full((n, t), -0.7),
        final_observations=torch.as_tensor(rng.integers(1, 5, int(cut.sum()))),
        last_observations=torch.as_tensor(rng.integers(1, 5, n)),
        episode_returns=np.zeros(0),
        episode_lengths=np.zeros(0),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weight", WEIGHTS)
def test_psi_by_hand(seed, weight):
    """Walk forward through each episode, with a critic and every way in which a rollout can stop."""
    rng = np.random.default_rng(seed)
    mdp = chain(4, gamma=0.9)
    rollout = random_rollout(rng)
    values = rng.normal(size=mdp.n_states)
    made = learner(mdp, np.zeros((mdp.n_states, 2)), values, weight=weight, baseline="value")
    followed, expected, psi = made.weigh(rollout)

    n, t = rollout.rewards.shape
    cut = (rollout.truncated & ~rollout.terminated).nonzero().tolist()
    for i in range(n):
        start = 0
        for k in range(t):
            total, discount = 0.0, 1.0
            for j in range(k, t):
                total += discount * rollout.rewards[i, j].item()
                discount *= mdp.gamma
                if rollout.terminated[i, j]:
                    break
                if rollout.truncated[i, j]:
                    total += discount * values[rollout.final_observations[cut.index([i, j])]]
                    break
                if j == t - 1:
                    total += discount * values[rollout.last_observations[i]]
            assert followed[i, k].item() == pytest.approx(total, rel=1e-5, abs=1e-5)
            assert expected[i, k].item() == pytest.approx(values[rollout.observations[i, k]], rel=1e-5)
            source = start if weight == "return" else k
            assert psi[i, k].item() == pytest.approx(
                (followed - expected)[i, source].item(), rel=1e-5, abs=1e-6
            )
            if rollout.terminated[i, k] or rollout.truncated[i, k]:
                start = k + 1


@pytest.mark.parametrize("seed", range(4))
def test_which_steps_belong_to_whole_episodes(seed):
    rng = np.random.default_rng(seed)
    rollout = random_rollout(rng, ends=0.4)
    at_least = int(rng.integers(1, 12))
    ended = (rollout.terminated | rollout.truncated).numpy()
    ended[:, -1] = True
    rollout = dataclasses.replace(rollout, terminated=torch.as_tensor(ended))
    used, starts = whole_episodes(rollout, at_least).numpy(), episode_starts(rollout).numpy()
    for i, row in enumerate(ended):
        counts, start = True, 0
        for k, end in enumerate(row):
            assert used[i, k] == counts
            assert starts[i, k] == start
            if end:
                start = k + 1
                counts = counts and start < at_least


# ----------------------------------------------------------------------------------------- learning


def test_an_entropy_bonus_keeps_a_policy_random():
    """With nothing to gain but entropy, its gradient is all there is: the policy becomes uniform."""
    world = chain()
    logits = 2 * np.random.default_rng(0).normal(size=(world.n_states, world.n_actions))
    entropies = []
    for coefficient in (0.0, 1.0):
        made = learner(world, logits, entropy_coef=coefficient, lr=0.05, epochs=40, baseline="none")
        rollout = end_to_end(world, softmax(logits), 50, 0)
        made.weigh = lambda rollout: 3 * (torch.zeros_like(rollout.rewards),)
        made.update(rollout)
        entropies.append(made.policy.entropy(rollout.observations).mean().item())
    assert entropies[0] < np.log(world.n_actions) - 0.05
    assert entropies[1] == pytest.approx(np.log(world.n_actions), abs=0.01)
