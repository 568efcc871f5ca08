"""TODO."""

from __future__ import annotations

from typing import Any


class AdaptiveCoefficient:
    """The weight β of a KL penalty: fixed, or halved and doubled so that the KL stays near a target.

        KL < target / 1.5:  β ← β / 2            KL > 1.5 target:  β ← 2 β

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms", section 4.
    """

    def __init__(self, value: float, target: float | None) -> None:
        self.value = value
        self.target = target

    def update(self, kl: float) -> None:
        """Follow the KL that an update has led to."""
        if self.target is None:
            return
        if kl < self.target / 1.5:
            self.value /= 2
        elif kl > self.target * 1.5:
            self.value *= 2
        # A policy that has stopped moving, or a batch of one state, must not take β out of a float's range.
        self.value = min(max(self.value, 1e-10), 1e10)

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]
