"""Returns that the presets reach, as bands over seeds (helpers/bands.py), at budgets of steps that are fixed.

A run is judged once, at its end, by 40 episodes of the stochastic policy it has ended with: what one gets
who trains with the defaults. (The best of several looks would flatter it.) A small world is judged by what
its policy is worth, as a share of what a best policy is. LunarLander and MuJoCo are recorded runs under
`results/`.
"""

import pytest
from bands import seeds
from scipy.special import softmax

from ppobook import evaluate, train
from ppobook.envs import chain, gridworld

WORLDS = {"ppobook/Chain-v0": chain(), "ppobook/Gridworld-v0": gridworld()}

# Algorithm, environment, steps, settings; the least; how many seeds. In comments median and spread as settled
# on six to sixteen seeds from 1000 on.
BANDS = [
    # A policy that has learned nothing earns 20, the best 500.
    ("ppo", "CartPole-v1", 35_000, {}, 100, 3),  # 500, 10
    ("trpo", "CartPole-v1", 30_000, {}, 100, 4),  # 500, 70
    ("vanilla", "CartPole-v1", 30_000, {}, 100, 3),  # 370, 80
    # Minus the steps until the end is swung up, 500 at most: near there at first, and 80 is about the best.
    # With TRPO one seed in six is there still after 40,000 steps, so that no bound has room.
    ("ppo", "Acrobot-v1", 20_000, {"fast": True}, -250, 3),  # -91, 4
    # About -1200 at first; from -150 on, it is how far down the pendulum happened to hang that counts.
    ("ppo", "Pendulum-v1", 20_000, {"fast": True}, -700, 3),  # -230, 36
    (
        "trpo",
        "Pendulum-v1",
        40_000,
        {"fast": True},
        -800,
        4,
    ),  # -205, 80; behind after 25,000
    # In the chain the near exit pays 0.1 and the far one 1.
    ("vanilla", "ppobook/Chain-v0", 5_000, {"baseline": "none"}, 0.7, 3),  # 0.95, 0.003
    ("vanilla", "ppobook/Chain-v0", 5_000, {"baseline": "value"}, 0.7, 3),  # 0.98, 0.002
    ("vanilla", "ppobook/Gridworld-v0", 12_000, {}, 0.5, 3),  # 0.86, 0.04
    ("trpo", "ppobook/Gridworld-v0", 8_000, {}, 0.5, 3),  # 0.93, 0.06
]


def earned(algorithm, env, steps, seed, **settings):
    run = train(algorithm, env=env, seed=seed, total_steps=steps, progress=False, **settings)
    if algorithm == "trpo":
        assert (run.history["step_kl"] <= run.config["max_kl"]).all()
    if env not in WORLDS:
        return evaluate(run.policy, env, episodes=40, seed=seed)["mean"]
    mdp = WORLDS[env]
    probs = softmax(run.policy.table.detach().double().numpy(), axis=-1)
    return mdp.objective(probs) / mdp.objective(mdp.optimal_policy())


@pytest.mark.learning
@pytest.mark.parametrize(
    ("algorithm", "env", "steps", "settings", "least", "number"),
    BANDS,
    ids=[" ".join(map(str, [*x[:2], *x[3].values()])) for x in BANDS],
)
def test_a_preset_learns(algorithm, env, steps, settings, least, number, band):
    runs = seeds(number, first=320 if env == "Pendulum-v1" else 310)
    band([earned(algorithm, env, steps, seed, **settings) for seed in runs], at_least=least)
