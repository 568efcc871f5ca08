"""The coefficient β of a KL penalty: fixed, or adapted so that the KL stays near a target."""

from __future__ import annotations

import math
import numbers
from typing import Any

from ppobook import validation

RULES = ("double", "proportional")


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
        self.value = validation.number("value", value, low=0)
        self.target = None if target is None else validation.number("target", target, above=0)
        if target is not None and value == 0:
            raise ValueError(
                f"value, kl_coef in training, must be above 0 where it is adapted to a target, got {value!r}"
            )
        self.rule = validation.choice("rule", rule, RULES)
        self.horizon = validation.count("horizon", horizon)

    def update(self, kl: float, samples: int = 1) -> None:
        """Adapt β to the KL of an update, measured on so many samples.

        Raises
        ------
        ValueError
            The KL is NaN.
        """
        if self.target is None:
            return
        if not isinstance(kl, numbers.Real) or isinstance(kl, bool) or math.isnan(kl):
            raise validation.NotFiniteError(f"kl must be a number, got {kl!r}")
        kl, samples = validation.as_float(kl), validation.count("samples", samples)
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
