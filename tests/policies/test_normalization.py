"""Running statistics of observations: the mean and variance of all data, in any split."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from some_policies import seeded

from ppobook.policies import RunningNorm


@settings(max_examples=100)
@given(
    st.sampled_from([(), (3,), (2, 2)]),
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.sampled_from([0.0, 1e6]),
    st.integers(0, 10**6),
)
def test_running_norm_is_mean_and_variance_of_all_in_any_split(shape, sizes, offset, seed):
    rng, norm = np.random.default_rng(seed), RunningNorm(shape)
    parts = [offset + rng.exponential(size=(n, *shape)) for n in sizes]
    for part in parts:
        norm.update(part if len(part) % 2 else torch.from_numpy(part))
    everything = np.concatenate(parts)
    assert norm.count.item() == len(everything)
    np.testing.assert_allclose(norm.mean.numpy(), everything.mean(0), rtol=1e-9)
    np.testing.assert_allclose(norm.var.numpy(), everything.var(0), rtol=1e-9, atol=1e-9 + 1e-15 * offset**2)
    expected = np.clip((everything - everything.mean(0)) / np.sqrt(everything.var(0) + 1e-8), -10, 10)
    np.testing.assert_allclose(norm(everything).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_running_norm_is_the_identity_at_first_and_zero_on_constants():
    norm, x = RunningNorm((4,)), torch.randn(5, 4, generator=seeded())
    torch.testing.assert_close(norm(x), x)
    assert norm(100 * torch.ones(4)).tolist() == [10.0] * 4
    norm.update(torch.full((1000, 4), 0.1))
    assert norm(torch.full((4,), 0.1)).tolist() == [0.0] * 4
