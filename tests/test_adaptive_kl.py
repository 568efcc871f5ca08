"""The coefficient of a KL penalty, by both rules."""

import pytest

from ppobook.adaptive_kl import AdaptiveKLCoefficient


def test_doubling_acts_outside_of_its_band_only():
    beta = AdaptiveKLCoefficient(1.0, 0.01)
    for kl, expected in ((0.01, 1), (0.0149, 1), (0.0067, 1), (0.016, 2), (0.5, 4), (0.006, 2), (0.0, 1)):
        beta.update(kl)
        assert beta.value == expected


def test_the_proportional_rule_is_the_papers():
    beta = AdaptiveKLCoefficient(0.2, 6.0, "proportional", horizon=640)
    for kl, samples, factor in (
        (6.0, 64, 1.0),
        (6.6, 64, 1 + 0.1 * 0.1),
        (60.0, 64, 1 + 0.2 * 0.1),  # the error is clipped
        (0.0, 64, 1 - 0.2 * 0.1),
        (6.6, 64_000, 1 + 0.1),  # no more than a whole horizon
    ):
        expected = beta.value * factor
        beta.update(kl, samples)
        assert beta.value == pytest.approx(expected)


@pytest.mark.parametrize("rule", ["double", "proportional"])
def test_without_a_target_it_is_fixed_and_a_state_restores_it(rule):
    fixed = AdaptiveKLCoefficient(1.0, None, rule)
    fixed.update(100.0)
    assert fixed.value == 1
    other = AdaptiveKLCoefficient(3.0, 0.1, rule)
    other.load_state_dict({"value": 0.25})  # as old checkpoints have it too
    assert other.state_dict() == {"value": 0.25}
