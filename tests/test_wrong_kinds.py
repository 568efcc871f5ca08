"""Mistakes that users make, and the sentence or the error that they get."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ppobook import evaluate, train
from ppobook.envs import TabularMDP, chain, make_env
from ppobook.evaluation import aggregate
from ppobook.objectives import (
    clipped_surrogate_loss,
    policy_gradient_loss,
    ppo_loss,
    sequence_surrogate_loss,
    value_loss,
)
from ppobook.policies import CategoricalPolicy, policy_for
from ppobook.returns import gae

STEPS = (np.ones((2, 3)), np.ones((2, 4)), np.zeros((2, 3)))  # rewards, values, terminated
ONE = torch.ones(2, 3)
TWO, COLUMN = torch.ones(2), torch.ones(2, 1)
THREE = {"clip_eps": 0.2, "value_coef": 0.5, "entropy_coef": 0.01}
BOX = spaces.Box(0, 1, (2,))


MISTAKES = {
    # Returns and advantages.
    "values without the last one": (
        lambda: gae(STEPS[0], *STEPS[::2]),
        r"values must have shape \(2, 4\), .*\(2, 3\)",
    ),
    "probabilities for flags": (
        lambda: gae(*STEPS[:2], STEPS[2] + 0.5),
        "terminated must be bool or 0/1, got 0.5",
    ),
    # Losses. A column beside a row would be broadcast to a square.
    "a column of advantages": (
        lambda: policy_gradient_loss(TWO, COLUMN),
        r"advantages must have shape \(2,\), .*\(2, 1\)",
    ),
    "a list of advantages": (
        lambda: clipped_surrogate_loss(TWO, TWO, [1.0, 2.0]),
        "advantages must be a torch tensor, got list",
    ),
    "a penalty without its KL": (
        lambda: ppo_loss(*[TWO] * 6, **THREE, beta=1.0),
        "kl and beta must both be given",
    ),
    "an advantage for each token": (
        lambda: sequence_surrogate_loss(ONE, ONE, ONE, 0.2),
        r"advantages must have shape \(2,\), one number a sequence of logp, got \(2, 3\)",
    ),
    "an unknown mean": (
        lambda: policy_gradient_loss(TWO, TWO, reduction="tokens"),
        "reduction must be one of .*, got 'tokens'. Did you mean 'token'",
    ),
    "a clip of values without old values": (
        lambda: value_loss(TWO, TWO, clip_eps=0.2),
        "old_values must be given",
    ),
    # Preferences, divergences, diagnostics.
    "a single seed": (lambda: aggregate([1.0]), "values must have at least two seeds"),
    # Networks and spaces.
    "images": (
        lambda: policy_for(spaces.Box(0, 1, (8, 8, 3)), spaces.Discrete(2)),
        "observation_space must be .*FlattenObs",
    ),
    "actions in a dict": (
        lambda: policy_for(BOX, spaces.Dict(a=BOX)),
        "action_space must be Discrete, or .*; got Dict",
    ),
    # Environments and training.
    "a policy for another game": (
        lambda: evaluate(CategoricalPolicy(6, 2), "Acrobot-v1"),
        "policy must have n_actions 3 for Acrobot-v1, .*, got 2",
    ),
    "a misspelled environment": (
        lambda: make_env("CartPol-v1"),
        "got 'CartPol-v1'. Did you mean 'CartPole-v1'",
    ),
    "a keyword that it does not know": (
        lambda: make_env("CartPole-v1", wind=1),
        "env 'CartPole-v1' with {'wind': 1} cannot be made",
    ),
    "an unknown algorithm": (lambda: train("pppo", env="CartPole-v1"), "'pppo'. Did you mean 'ppo'"),
    "probabilities that do not sum to 1": (
        lambda: TabularMDP(chain(3).P * 0.5, chain(3).R, 0.9, chain(3).start),
        "P must sum to 1, got 0.5",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_its_sentence(mistake):
    call, message = MISTAKES[mistake]
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        call()
