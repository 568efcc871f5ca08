"""`TabularMDP` against slow definitions: limits, sums over all trajectories, samples."""

import itertools

import numpy as np
import pytest
import torch

from ppobook.envs import TabularMDP, chain, gridworld


def random_mdp(seed, n_states=6, n_actions=3, gamma=0.9):
    """Any state to any other; the last one terminal; rewards depend on where one gets to."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    rewards = rng.normal(size=(n_states, n_actions, n_states))
    start = np.append(rng.dirichlet(np.ones(n_states - 1)), 0)
    return TabularMDP(transitions, rewards, gamma, start, np.arange(n_states) == n_states - 1)


def layered_mdp(seed, gamma=0.8):
    """Two states, then two states, then the end: few enough trajectories to write them all down."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((5, 2, 5))
    transitions[:2, :, 2:4] = rng.dirichlet(np.ones(2), size=(2, 2))
    transitions[2:4, :, 4] = 1
    start = np.array([0.3, 0.7, 0, 0, 0])
    return TabularMDP(transitions, rng.normal(size=(5, 2, 5)), gamma, start, np.arange(5) == 4)


def trajectories(mdp, probs):
    """Every trajectory of a world that soon ends: its probability, its discounted return, its steps."""

    def onward(state, probability, discount, earned, steps):
        if mdp.terminal[state]:
            yield probability, earned, steps
            return
        for action in range(mdp.n_actions):
            for following in np.flatnonzero(mdp.P[state, action]):
                yield from onward(
                    following,
                    probability * probs[state, action] * mdp.P[state, action, following],
                    discount * mdp.gamma,
                    earned + discount * mdp.rewards[state, action, following],
                    [*steps, (state, action)],
                )

    for state in np.flatnonzero(mdp.start):
        yield from onward(state, mdp.start[state], 1.0, 0.0, [])


def softmax(logits):
    return torch.as_tensor(logits).softmax(-1).numpy()


def random_policy(mdp, seed=0):
    return softmax(np.random.default_rng(seed).normal(size=(mdp.n_states, mdp.n_actions)))


WORLDS = {
    "chain": chain(),
    "undiscounted": chain(4, gamma=1.0, step_reward=-0.1),
    "gridworld": gridworld(),
    "random": random_mdp(1),
    "layered": layered_mdp(2),
}
worlds = pytest.mark.parametrize("mdp", WORLDS.values(), ids=WORLDS)


@pytest.mark.parametrize("seed", range(3))
def test_objective_and_gradient_are_sums_over_all_trajectories(seed):
    mdp = layered_mdp(seed)
    logits = np.random.default_rng(seed).normal(size=(5, 2))
    probs = softmax(logits)
    objective, gradient = 0.0, np.zeros_like(probs)
    for probability, earned, steps in trajectories(mdp, probs):
        score = np.zeros_like(probs)
        for s, a in steps:
            score[s] += np.eye(2)[a] - probs[s]
        objective += probability * earned
        gradient += probability * earned * score
    assert mdp.objective(probs) == pytest.approx(objective, abs=1e-12)
    np.testing.assert_allclose(mdp.policy_gradient(logits), gradient, atol=1e-12)


@worlds
def test_gradient_against_finite_differences_and_autograd(mdp):
    logits = np.random.default_rng(3).normal(size=(mdp.n_states, mdp.n_actions))
    gradient = mdp.policy_gradient(logits)

    slow = np.zeros_like(logits)
    for index in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[index] = 1e-5
        slow[index] = (mdp.objective(softmax(logits + step)) - mdp.objective(softmax(logits - step))) / 2e-5
    np.testing.assert_allclose(gradient, slow, atol=1e-8)

    tensor = torch.tensor(logits, requires_grad=True)
    objective = mdp.objective(tensor.softmax(-1))
    objective.backward()
    assert objective.item() == pytest.approx(mdp.objective(softmax(logits)), abs=1e-12)
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), atol=1e-12)


@worlds
def test_occupancy_is_the_sum_of_discounted_state_distributions(mdp):
    probs = random_policy(mdp)
    onward = np.einsum("sa,sat->st", probs, mdp.P)
    visits, now = np.zeros(mdp.n_states), mdp.start.copy()
    for t in range(5000):
        visits += mdp.gamma**t * np.where(mdp.terminal, 0, now)
        now = now @ onward
    np.testing.assert_allclose(mdp.state_occupancy(probs), visits, atol=1e-9)
    # J once more, from the visits: what is earned in each state, as often as one is there.
    assert mdp.state_occupancy(probs) @ (probs * mdp.R).sum(1) == pytest.approx(
        mdp.objective(probs), abs=1e-9
    )


@pytest.mark.parametrize(
    "mdp",
    [random_mdp(seed, n_states=4) for seed in range(5)]
    + [chain(3), chain(4, left_reward=0.9), layered_mdp(0)],
)
def test_no_deterministic_policy_is_better_than_the_optimal_one(mdp):
    best = mdp.optimal_policy()
    assert set(np.unique(best)) == {0.0, 1.0}
    assert (best.sum(1) == 1).all()
    values = [
        mdp.policy_value(np.eye(mdp.n_actions)[list(choice)])
        for choice in itertools.product(range(mdp.n_actions), repeat=mdp.n_states)
    ]
    np.testing.assert_allclose(mdp.policy_value(best), np.max(values, axis=0), atol=1e-9)


@worlds
def test_mean_return_of_samples_is_the_objective(mdp):
    probs = random_policy(mdp)
    batch = mdp.sample_episodes(probs, 20_000, seed=0)
    discounts = mdp.gamma ** np.arange(batch.rewards.shape[1])
    returns = (batch.rewards * discounts).sum(1)
    error = returns.std() / np.sqrt(len(returns))
    assert returns.mean() == pytest.approx(mdp.objective(probs), abs=4 * error)
    visits = [((batch.states == s) & batch.mask) @ discounts for s in range(mdp.n_states)]
    np.testing.assert_allclose(np.mean(visits, axis=1), mdp.state_occupancy(probs), atol=0.06)


TO_AND_FRO = np.array([[1, 0], [0, 1], [1, 0], [1, 0]])


def test_an_episode_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr("ppobook.envs.tabular._MOST_STEPS", 50)
    mdp = chain(2, slip=0.0)
    assert mdp.objective(TO_AND_FRO) == 0
    with pytest.raises(ValueError, match=r"probs must be a policy that reaches .* more than 50 steps"):
        mdp.sample_episodes(TO_AND_FRO, 3, seed=0)
    assert mdp.sample_episodes(TO_AND_FRO, 3, seed=0, max_steps=20).mask.all()
