"""Bad input to policies, value functions, networks and normalizers: the exception and its message."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Text
from some_policies import Constant, Own, some_norm

from ppobook.policies import (
    MLP,
    CategoricalPolicy,
    GaussianPolicy,
    MultiCategoricalPolicy,
    RunningNorm,
    TabularPolicy,
    TabularValue,
    ValueFunction,
    policy_for,
    value_for,
)

FOUR = torch.zeros(5, 4)
BOX = Box(0, 1, (2,))
categorical, table, gaussian = CategoricalPolicy(4, 2), TabularPolicy(3, 2), GaussianPolicy(4, 2)
several, norm = MultiCategoricalPolicy(4, (2, 3)), RunningNorm((4,))
no_std = GaussianPolicy(4, 2)
no_std.log_std.data.fill_(np.nan)

# What is called, and the start of a pattern for the message (of a ValueError, if no other is named).
BAD = [
    # Sizes and settings.
    (lambda: MLP((4,)), r"sizes must have at least an input and an output size, got \(4,\)"),
    (lambda: MLP((4, 0, 2)), r"sizes\[1\] must be an integer of at least 1, got 0"),
    (lambda: MLP((4, 2.5)), r"sizes\[1\] must be an integer of at least 1, got 2.5", TypeError),
    (lambda: MLP((4, 2), "rleu"), "activation must be one of .*, got 'rleu'. Did you mean 'relu'"),
    (lambda: MLP((4, 2), seed=-1), "seed must be an integer of at least 0, got -1"),
    (lambda: CategoricalPolicy(0, 2), "obs_dim must be .*, got 0"),
    (lambda: CategoricalPolicy(4, 0), "n_actions must be .*, got 0"),
    (lambda: TabularPolicy(0, 2), "n_states must be .*, got 0"),
    (lambda: GaussianPolicy(4, 0), "act_dim must be .*, got 0"),
    *(
        (
            lambda std=std: GaussianPolicy(4, 1, initial_std=std),
            f"initial_std must be .* least 1e-06, got {std}",
        )
        for std in (0.0, 1e-30)
    ),
    (lambda: CategoricalPolicy(4, 2, 64), "hidden must be a sequence of integers, got 64", TypeError),
    (lambda: ValueFunction(4, "64,64"), "hidden must be a sequence of integers, got '64,64'", TypeError),
    (lambda: GaussianPolicy(4, 2, (8, 0)), r"hidden\[1\] must be an integer of at least 1, got 0"),
    (lambda: MultiCategoricalPolicy(3, 4), "nvec must be a sequence of integers, got 4", TypeError),
    (lambda: GaussianPolicy(4, 2, low="a"), "low must be a number or 2 numbers, one per action, got 'a'"),
    (lambda: GaussianPolicy(4, 2, low=[0, 1], high=1), r"low must be below high, got low \[0.0, 1.0\]"),
    (lambda: GaussianPolicy(4, 2, low=[0, 1, 2]), "low must be a number or 2 numbers, one per action, got"),
    (lambda: GaussianPolicy(4, 2, high=np.nan), "high must be a number or 2 numbers, .* got nan"),
    (lambda: ValueFunction(0), "obs_dim must be .*, got 0"),
    (lambda: MultiCategoricalPolicy(4, ()), r"nvec must have at least one entry, got \(\)"),
    (lambda: MultiCategoricalPolicy(4, (2, 0)), r"nvec\[1\] must be .*, got 0"),
    # Networks and normalizers.
    (lambda: CategoricalPolicy(4, 2, network=abs), "network must be a torch.nn.Module, got", TypeError),
    (
        lambda: CategoricalPolicy(4, 2, network=Own(3)).logits(FOUR),
        r"network of CategoricalPolicy must return shape \(5, 2\) for .*, got \(5, 3\)",
    ),
    (
        lambda: CategoricalPolicy(4, 2, network=torch.nn.LSTM(4, 2)).logits(FOUR),
        r"network must return a tensor, got \(Tensor, \(Tensor, Tensor\)\)",
        TypeError,
    ),
    *(
        (
            lambda network=network: CategoricalPolicy(4, 2, network=network).logits(FOUR),
            r"network must take observations of shape \(5, 4\), got: .*(shape|size)",
        )
        for network in (torch.nn.Linear(5, 2), torch.nn.LayerNorm(5), torch.nn.Unflatten(-1, (3, 2)))
    ),
    (lambda: ValueFunction(4, network=Own(1))(FOUR[:, :3]), "observations must have a last axis of 4"),
    (lambda: RunningNorm((4,), clip=0), "clip must be a number above 0, got 0"),
    (lambda: CategoricalPolicy(3, 2, normalizer=norm), r"normalizer must have shape \(3,\).*, got \(4,\)"),
    (
        lambda: ValueFunction(4, normalizer=torch.nn.LayerNorm(4)),
        "normalizer must be a RunningNorm or None, got LayerNorm",
        TypeError,
    ),
    (lambda: norm.update(FOUR[:, :3]), r"batch must have last axes \(4,\), got shape \(5, 3\)"),
    (lambda: norm.update(FOUR[:0]), r"batch must have at least one entry, got shape \(0, 4\)"),
    (
        lambda: norm.update(torch.where(torch.arange(8).reshape(2, 4) == 6, torch.nan, 0.0)),
        r"batch must be finite, got nan at index \(1, 2\)",
    ),
    # Observations.
    *(
        (lambda take=take: take(FOUR[:, :3]), r"observations must have a last axis of 4 .* shape \(5, 3\)")
        for take in (categorical.logits, categorical.sample, gaussian.mode, ValueFunction(4))
    ),
    *(
        (lambda take=take: take(FOUR * torch.nan), r"^observations must be finite, got nan at index \(0, 0\)")
        for take in (categorical.sample, categorical.mode, gaussian.sample, gaussian.mode)
    ),
    (
        lambda: CategoricalPolicy(4, 2, network=Constant(torch.nan, 0)).mode(FOUR),
        r"logits\(observations\) must be finite, got nan at index \(0, 0\)",
    ),
    (
        lambda: CategoricalPolicy(4, 2, network=Constant(torch.inf, 0)).sample(FOUR),
        r"logits\(observations\) must be finite, got inf at index \(0, 0\)",
    ),
    (
        lambda: CategoricalPolicy(4, 2, network=Constant(-torch.inf, -torch.inf)).mode(FOUR),
        r"logits\(observations\) must have a finite logit in each distribution, got -inf for all actions",
    ),
    (
        lambda: MultiCategoricalPolicy(4, (1, 2), network=Constant(-torch.inf, 0, 1)).sample(FOUR),
        r"logits\(observations\) must have a finite logit in each distribution, got -inf for all actions",
    ),
    (lambda: no_std.sample(FOUR), "std of the actions must be finite, got nan at index 0"),
    *(
        (lambda use=use, x=x: use(x), f"observations must be an array of numbers, got {got}", TypeError)
        for use in (categorical.sample, table.sample, norm, CategoricalPolicy(4, 2, network=Own(2)).sample)
        for x, got in (
            (None, "NoneType"),
            ("abcd", "str"),
            (([0.0], {}), r"\(list, dict\)"),
            ((np.zeros(4), {}), r"\(ndarray, dict\)"),
        )
    ),
    (lambda: norm.update(None), "batch must be an array of numbers, got NoneType", TypeError),
    (lambda: categorical.sample(FOUR, 42), "generator must be a torch.Generator or None, got 42", TypeError),
    (lambda: table.logits(torch.arange(4)), "observations must be states in 0, …, 2, got values from 0 to 3"),
    (lambda: TabularValue(3)(torch.tensor([-1, 0])), "observations must be states .* from -1 to 0"),
    (lambda: table.logits(FOUR), "observations must be integer states, got dtype torch.float32", TypeError),
    # Actions.
    (lambda: categorical.logp(FOUR, torch.zeros(5, 1).long()), r"actions must have shape \(5,\), one action"),
    (lambda: categorical.logp(FOUR, torch.zeros(5)), "actions must be integers, got dtype", TypeError),
    (
        lambda: categorical.logp(FOUR, torch.full((5,), 2)),
        "actions must be in 0, …, 1, got values from 2 to 2",
    ),
    (lambda: categorical.logp(FOUR, torch.full((5,), -1)), "actions must be in 0, …, 1, got values from -1 "),
    (lambda: gaussian.logp(FOUR, "ab"), "actions must be an array of numbers, got str", TypeError),
    (lambda: categorical.logp(FOUR, None), "actions must be an array of numbers, got NoneType", TypeError),
    (lambda: gaussian.logp(FOUR, torch.zeros(5)), r"actions must have shape \(5, 2\), .*, got \(5,\)"),
    (lambda: several.logp(FOUR, torch.zeros(5).long()), r"actions must have shape \(5, 2\), .*, got \(5,\)"),
    (lambda: several.logp(FOUR, torch.full((5, 2), 2)), "actions must be in 0, …, 1, got values from 2 to 2"),
    # Spaces.
    (lambda: policy_for(Box(0, 1, (8, 8, 3)), Discrete(2)), "observation_space must be .*FlattenObservation"),
    (lambda: policy_for(MultiBinary(3), Discrete(2)), "observation_space must be Discrete or a Box with one"),
    (lambda: policy_for(BOX, Box(0, 0, (1,))), "action_space must have each low below its high, got Box"),
    (lambda: policy_for(BOX, Text(3)), "action_space must be Discrete, or .*, got Text"),
    (lambda: policy_for(BOX, Box(0, 1, (2, 2))), "action_space must be .* with one axis, got Box"),
    (lambda: policy_for(BOX, MultiBinary((2, 2))), "action_space must be .* with one axis, got MultiBinary"),
    (lambda: policy_for(Discrete(3), Box(0, 1, (1,))), "observation_space must be a Box .*one-hot"),
    (lambda: policy_for(Discrete(3), MultiDiscrete([2, 2])), "observation_space must be a Box .*one-hot"),
    (lambda: policy_for(BOX, MultiDiscrete([2], start=[1])), "action_space must count from 0, got Multi"),
    (lambda: policy_for(Discrete(3, start=1), Discrete(2)), "observation_space must count from 0, got Disc"),
    (lambda: policy_for(Discrete(3), Discrete(2, start=5)), "action_space must count from 0, got Discrete"),
    *(
        (make, f"observation_space must be a Box where {name} is passed, got Discrete")
        for name, given in {"normalizer": some_norm(), "network": Own(3)}.items()
        for make in (
            lambda name=name, given=given: policy_for(Discrete(7), Discrete(3), **{name: given}),
            lambda name=name, given=given: value_for(Discrete(7), **{name: given}),
        )
    ),
]


@pytest.fixture
def all_warnings():
    """Of torch as well, which gives some of its own once a process."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("all_warnings")
@pytest.mark.parametrize(("call", "message", "error"), [(*row, ValueError)[:3] for row in BAD])
def test_bad_input(call, message, error, recwarn):
    with pytest.raises(error, match=message):
        call()
    assert not recwarn.list
