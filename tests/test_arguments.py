"""Numbers that formulas take: their ranges, the name in the error, and their defaults."""

import inspect

import numpy as np
import pytest
import torch

from ppobook import objectives, preferences, returns

STEPS = {"rewards": np.ones((2, 3)), "values": np.ones((2, 4)), "terminated": np.zeros((2, 3))}

# Function and argument, then the bounds: numbers that are taken, and numbers that are not.
RANGES = {
    (returns.discounted_returns, "gamma"): ([0, 1], [-0.01, 1.01]),
    (returns.n_step_advantages, "gamma"): ([0, 1], [-0.01, 1.01]),
    (returns.n_step_advantages, "n"): ([1, 2], [0, 1.5]),
    (returns.gae, "gamma"): ([0, 1], [-0.01, 1.01]),
    (returns.gae, "lam"): ([0, 1], [-0.01, 1.01]),
    (objectives.clipped_surrogate_loss, "clip_eps"): ([0.01, 2], [0, -0.2]),
    (objectives.clipped_surrogate_loss, "clip_eps_high"): ([0.01, 2], [0, -0.2]),
    (objectives.kl_penalized_loss, "beta"): ([0, 2], [-0.01]),
    (objectives.cispo_loss, "clip_eps_high"): ([0.01, 2], [0, -0.2]),
    (objectives.cispo_loss, "clip_eps_low"): ([0.01, 2], [0, -0.2]),
    (objectives.value_loss, "clip_eps"): ([0.01, 2], [0, -0.2]),
    (preferences.dpo_loss, "beta"): ([0.01, 2], [0]),
    (preferences.dpo_loss, "label_smoothing"): ([0, 0.5], [-0.01, 0.51]),
    (preferences.ipo_loss, "beta"): ([0.01, 2], [0]),
    (preferences.simpo_loss, "beta"): ([0.01, 2], [0]),
    (preferences.simpo_loss, "gamma"): ([0, 2], [-0.01]),
    (preferences.kto_loss, "beta"): ([0.01, 2], [0]),
    (preferences.kto_loss, "desirable_weight"): ([0, 2], [-0.01]),
    (preferences.kto_loss, "undesirable_weight"): ([0, 2], [-0.01]),
}

DEFAULTS = {
    returns.gae: {"gamma": 0.99, "lam": 0.95},
    returns.n_step_advantages: {"gamma": 0.99},
    objectives.clipped_surrogate_loss: {"clip_eps": 0.2, "reduction": "token"},
    objectives.sequence_surrogate_loss: {"reduction": "sequence"},
    preferences.bradley_terry_loss: {"margin": 0.0},
    preferences.dpo_loss: {"beta": 0.1, "label_smoothing": 0.0},
    preferences.ipo_loss: {"beta": 0.1},
    preferences.simpo_loss: {"beta": 2.0, "gamma": 0.5},
    preferences.kto_loss: {"beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 1.0},
}


def call(function, **given):
    """Call a formula, with ones for the tensors that are not given."""
    shape = torch.ones(2) if function.__module__.endswith("preferences") else torch.ones(2, 3)
    required = {"gamma": 0.9, "n": 2, "beta": 0.1, "clip_eps_high": 0.2}
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if function.__module__.endswith("returns"):
        required |= STEPS
    elif function is objectives.value_loss:
        given["old_values"] = shape
    return function(**{p.name: required.get(p.name, shape) for p in needed} | given)


@pytest.mark.parametrize(("function", "name"), RANGES, ids=lambda x: getattr(x, "__name__", x))
def test_a_number_has_a_range(function, name):
    taken, refused = RANGES[function, name]
    for x in taken:
        call(function, **{name: x})
    for x in refused:
        with pytest.raises((TypeError, ValueError), match=f"^{name} must be"):
            call(function, **{name: x})


@pytest.mark.parametrize("function", DEFAULTS, ids=lambda f: f.__name__)
def test_defaults_are_those_of_the_papers(function):
    parameters = inspect.signature(function).parameters
    assert {name: parameters[name].default for name in DEFAULTS[function]} == DEFAULTS[function]
