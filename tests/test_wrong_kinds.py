"""Mistakes that users make, and the sentence or the error that they get."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ppobook import evaluate, train
from ppobook.envs import TabularMDP, chain, make_env
from ppobook.evaluation import aggregate
from ppobook.objectives import (
    cispo_loss,
    clipped_surrogate_loss,
    policy_gradient_loss,
    ppo_loss,
    sequence_surrogate_loss,
    value_loss,
)
from ppobook.policies import CategoricalPolicy, policy_for
from ppobook.preferences import dpo_loss
from ppobook.returns import discounted_returns, gae

STEPS = (np.ones((2, 3)), np.ones((2, 4)), np.zeros((2, 3)))  # rewards, values, terminated
CUT = np.array([[0, 1, 0], [0, 0, 0]])
ONE, ROW, NAN = torch.ones(2, 3), torch.ones(2), torch.full((5, 4), torch.nan)
TWO, COLUMN = torch.ones(2), torch.ones(2, 1)
THREE = {"clip_eps": 0.2, "value_coef": 0.5, "entropy_coef": 0.01}
BOX = spaces.Box(0, 1, (2,))


class Outputs(torch.nn.Module):
    """A network with three outputs."""

    def forward(self, x):
        return x[..., :3]


MISTAKES = {
    # Returns and advantages.
    "values without the last one": (
        lambda: gae(STEPS[0], *STEPS[::2]),
        r"values must have shape \(2, 4\), .*\(2, 3\)",
    ),
    "gamma in percent": (lambda: gae(*STEPS, gamma=99), r"gamma must be a number in \[0, 1\], got 99"),
    "truncated, and nowhere to go on": (
        lambda: gae(*STEPS, CUT),
        r"final_values must be given, as truncated is set at index \(0, 1\)",
    ),
    "a reward that is NaN": (
        lambda: gae(STEPS[0] * np.nan, *STEPS[1:]),
        r"rewards must be finite, got nan at index \(0, 0\)",
    ),
    "probabilities for flags": (
        lambda: gae(*STEPS[:2], STEPS[2] + 0.5),
        "terminated must be bool or 0/1, got 0.5",
    ),
    "a last value for each step": (
        lambda: discounted_returns(STEPS[0], gamma=1, last_values=STEPS[0]),
        r"last_values must have shape \(2,\), .* got \(2, 3\)",
    ),
    # Losses. A column beside a row would be broadcast to a square.
    "a column of advantages": (
        lambda: policy_gradient_loss(TWO, COLUMN),
        r"advantages must have shape \(2,\), .*\(2, 1\)",
    ),
    "a column of values": (
        lambda: value_loss(COLUMN, TWO),
        r"returns must have shape \(2, 1\), .*, got \(2,\)",
    ),
    "a list of advantages": (
        lambda: clipped_surrogate_loss(TWO, TWO, [1.0, 2.0]),
        "advantages must be a torch tensor, got list",
    ),
    "a penalty without its KL": (
        lambda: ppo_loss(*[TWO] * 6, **THREE, beta=1.0),
        "kl and beta must both be given",
    ),
    "a mask of sequences": (
        lambda: cispo_loss(ONE, ONE, ONE, 0.2, mask=ROW),
        r"mask must have shape \(2, 3\)",
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
    "pairs of two batches": (lambda: dpo_loss(TWO, TWO, ONE, TWO), r"ref_chosen_logp must have shape \(2,\)"),
    "a β of 0": (lambda: dpo_loss(TWO, TWO, TWO, TWO, 0), "beta must be a number above 0, got 0"),
    "a single seed": (lambda: aggregate([1.0]), "values must have at least two seeds"),
    # Networks and spaces.
    "a network of three outputs": (
        lambda: CategoricalPolicy(4, 2, network=Outputs()).logits(torch.zeros(5, 4)),
        r"network of CategoricalPolicy must return shape \(5, 2\) for .*, got \(5, 3\)",
    ),
    "a policy that has diverged": (
        lambda: CategoricalPolicy(4, 2).sample(NAN),
        "outputs of the policy must be finite",
    ),
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
    "an unknown setting": (lambda: train("ppo", env="CartPole-v1", gama=0.9), "gama.*gamma"),
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
