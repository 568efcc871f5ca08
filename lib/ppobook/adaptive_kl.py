"""The coefficient β of a KL penalty: fixed, or adapted so that the KL stays near a target."""

from __future__ import annotations

from typing import Any


class AdaptiveKLCoefficient:
    """β, by one of two rules.

    "double" (Schulman et al. 2017, section 4):

        KL < target / 1.5:  β ← β / 2            KL > 1.5 target:  β ← 2 β

    "proportional" (Ziegler et al. 2019, section 2.2), after n samples:

        e = clip(KL / target − 1, −0.2, 0.2)     β ← β (1 + e min(1, n / horizon))

    Parameters
    ----------
    value : float of at least 0
        β at first; above 0 if it is adapted.
    target : float above 0, or None
        In nats. None: β stays.
    rule : "double" or "proportional"
    horizon : int
        Read by "proportional" only; in samples. The paper has n / horizon = 0.1.

    Attributes
    ----------
    value : float

    References
    ----------
    Schulman et al. 2017, "Proximal policy optimization algorithms"; Ziegler et al. 2019, "Fine-tuning
    language models from human preferences".
    """

    def __init__(
        self, value: float, target: float | None = None, rule: str = "double", *, horizon: int = 1
    ) -> None:
        self.value = value
        self.target = target
        self.rule = rule
        self.horizon = horizon

    def update(self, kl: float, samples: int = 1) -> None:
        """Adapt β to the KL of an update, measured on so many samples."""
        if self.target is None:
            return
        if self.rule == "proportional":
            error = min(max(kl / self.target - 1, -0.2), 0.2)
            self.value *= 1 + error * min(1.0, samples / self.horizon)
            return
        if kl < self.target / 1.5:
            self.value /= 2
        elif kl > self.target * 1.5:
            self.value *= 2
        # If the policy no longer moves, β would otherwise leave the range of a float.
        self.value = min(max(self.value, 1e-10), 1e10)

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]
