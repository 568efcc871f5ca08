"""What the presets learn, as bands over seeds, at budgets of steps that are fixed.

A run is judged once, at its end, by 100 episodes of the stochastic policy it has ended with: what one gets
who trains with the defaults. (The best of several looks would flatter it.) Seeds begin at 100, far from those
that the presets were picked on. A band names how many seeds have to be in it, since now and then one is not.

Vanilla policy gradient has its bands in `test_vanilla.py`; LunarLander and MuJoCo are recorded runs under
`results/`.
"""

import numpy as np
import pytest

from ppobook import evaluate, train
from ppobook.envs import chain, gridworld

# algorithm, environment, steps, what 100 episodes have to earn on average, for how many seeds, of how many
BANDS = [
    # The most there is to earn is 500; a policy that has learned nothing earns 20.
    ("ppo", "CartPole-v1", 100_000, 475, 9, 10),
    # Minus the steps until the end is swung up, 500 at most: near there at first, and 80 is about the best.
    ("ppo", "Acrobot-v1", 30_000, -110, 2, 3),
    ("trpo", "Acrobot-v1", 30_000, -120, 2, 3),
    # About -1200 at first; from -150 on, it is how far down the pendulum happened to hang that counts.
    ("ppo", "Pendulum-v1", 60_000, -400, 2, 3),
    ("trpo", "Pendulum-v1", 60_000, -600, 2, 3),
]


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "env", "total_steps", "expected", "at_least", "seeds"), BANDS)
def test_a_preset_learns(algorithm, env, total_steps, expected, at_least, seeds):
    reached = []
    for seed in range(100, 100 + seeds):
        run = train(algorithm, env=env, seed=seed, total_steps=total_steps, progress=False)
        reached.append(evaluate(run.policy, env, episodes=100, seed=seed)["mean"])
    assert sum(mean >= expected for mean in reached) >= at_least, reached


@pytest.mark.parametrize(("env", "steps"), [("chain", 6_000), ("gridworld", 12_000)])
def test_trpo_learns_the_small_worlds(env, steps):
    """With its preset: at least 2 of 3 seeds are worth 0.85 of a best policy."""
    mdp = {"chain": chain, "gridworld": gridworld}[env]()
    best = mdp.objective(mdp.optimal_policy())
    reached = []
    for seed in range(20, 23):
        run = train("trpo", env=f"ppobook/{env.title()}-v0", seed=seed, total_steps=steps)
        reached.append(mdp.objective(run.policy.table.detach().double().softmax(-1).numpy()) / best)
    assert np.sort(reached)[1] > 0.85


def test_trpo_learns_cartpole():
    """With its preset: after 50,000 steps a stochastic evaluation of at least 450, for 3 of 4 seeds."""
    reached = []
    for seed in range(20, 24):
        run = train("trpo", env="CartPole-v1", seed=seed, total_steps=50_000)
        assert (run.history["step_kl"] <= run.config["max_kl"]).all()
        reached.append(evaluate(run.policy, "CartPole-v1", episodes=40, seed=seed)["mean"])
    assert np.sort(reached)[1] >= 450
