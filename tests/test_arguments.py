"""Arguments of the formulas: ranges of numbers, shapes of arrays, the name in the error, and defaults."""

import inspect

import numpy as np
import pytest
import torch

from ppobook import divergences, objectives, preferences, returns

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


# Function, then arrays whose shape must be that of the first one, or follow from it.
ARRAYS = {
    returns.discounted_returns: "terminated truncated last_values final_values",
    returns.gae: "values terminated truncated final_values",
    objectives.ppo_loss: "old_logp advantages returns mask",
    objectives.sequence_surrogate_loss: "old_logp advantages mask",
    preferences.bradley_terry_loss: "rejected_rewards margin",
    preferences.dpo_loss: "rejected_logp ref_chosen_logp ref_rejected_logp",
    preferences.kto_loss: "ref_logp desirable",
    divergences.kl_categorical: "logits_p",
}


def call(function, **given):
    """Call a formula, with random numbers for what it needs and is not given."""
    draw = np.random.default_rng(0)
    known = {"gamma": 0.9, "n": 2, "beta": 0.1, "clip_eps": 0.2, "clip_eps_high": 0.2}
    known |= {"value_coef": 0.5, "entropy_coef": 0.01}
    shape = (2,) if function.__module__.endswith("preferences") else (2, 3)
    if function.__module__.endswith("returns"):
        known |= {"rewards": draw.random(shape), "values": draw.random((2, 4)), "terminated": np.zeros(shape)}
    elif function is objectives.sequence_surrogate_loss:
        known["advantages"] = torch.ones(2)
    elif function is objectives.value_loss:
        given["old_values"] = torch.ones(shape)
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in given and parameter.default is parameter.empty:
            given[name] = known[name] if name in known else torch.tensor(draw.random(shape))
    return function(**given)


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
    plain, named = call(function), call(function, **DEFAULTS[function])
    assert str(plain) == str(named)


@pytest.mark.parametrize("function", ARRAYS, ids=lambda f: f.__name__)
def test_an_array_of_another_shape_is_named(function):
    for name in ARRAYS[function].split():
        with pytest.raises(ValueError, match=f"^{name} must have shape .*, (one|the shape|which)"):
            call(function, **{name: torch.ones(5, 7)})


@pytest.mark.parametrize("name", ["rewards", "values", "final_values"])
def test_a_number_of_the_steps_that_is_not_finite_is_named(name):
    cut = {"truncated": np.ones((2, 3)), "final_values": np.ones((2, 3))}
    bad = np.full((2, 4 if name == "values" else 3), np.nan)
    with pytest.raises(ValueError, match=f"^{name} must be finite"):
        call(returns.gae, **{**cut, name: bad})


def test_truncation_without_a_value_says_where():
    with pytest.raises(ValueError, match=r"final_values must be given, .* index \(0, 2\)"):
        call(returns.gae, truncated=np.array([[0, 0, 1], [0, 0, 0]]))


@pytest.mark.parametrize("name", ["std_q", "std_p"])
def test_a_standard_deviation_is_positive(name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        call(divergences.kl_gaussian, **{name: torch.zeros(2, 3)})


def test_whole_and_half_precision_rewards_have_the_returns_of_floats():
    for rewards in (np.ones(3, int), torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.bfloat16)):
        assert returns.discounted_returns(rewards, gamma=0.5).tolist() == [1.75, 1.5, 1.0]
    assert returns.discounted_returns(torch.ones(3, dtype=torch.bfloat16), gamma=0.5).dtype == torch.bfloat16


def test_a_softmax_is_taken_row_by_row():
    logits = np.array([[0.0, 1.0], [1000.0, 1001.0]])
    apart = divergences.kl_categorical(logits, logits[:, ::-1])
    np.testing.assert_allclose(apart, apart[:1].repeat(2))
