"""Means and standard deviations of Python floats, for comparison; and how close is close."""

import math

import torch


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


def mean(x):
    return math.fsum(x) / len(x)


def sample_std(x):
    middle = mean(x)
    return math.sqrt(math.fsum((one - middle) ** 2 for one in x) / (len(x) - 1))
