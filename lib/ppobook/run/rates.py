"""Learning rates of an optimizer's parameter groups: what each was given, and what a schedule makes of it.

Each group keeps the learning rate that it was given as "initial_lr", as the schedulers of torch do, so it is
saved with the optimizer's state.
"""

from __future__ import annotations

import math
from typing import Any


def given_rates(optimizer: Any) -> list[Any]:
    """The learning rates that the groups of an optimizer were given; none for what is no optimizer."""
    groups = [group for group in getattr(optimizer, "param_groups", []) if "lr" in group]
    return [group.setdefault("initial_lr", group["lr"]) for group in groups]


def scale_rates(optimizer: Any, start: float, now: float, without: str) -> None:
    """Scale the given learning rate of each group by now / start, for a schedule that began at `start`.

    As long as the schedule stands still the rates are left alone: another scheduler may set them.

    Raises
    ------
    ValueError
        Another one has set a rate, and the schedule moves. `without` is the setting that ends the schedule.
    """
    factor = now / start
    for group, given in zip(optimizer.param_groups, given_rates(optimizer), strict=True):
        before = group.get("lr_factor", 1.0)
        if before != factor:
            if before is not None and not math.isclose(group["lr"], given * before, rel_tol=1e-6):
                raise ValueError(
                    f"the learning rate must be set by one schedule, got {float(group['lr']):g} where the "
                    f"run's own had set {given * before:g}. Pass {without} to set it yourself"
                )
            group["lr"] = now if given == start else given * factor
            group["lr_factor"] = factor


def load_optimizer(optimizer: Any, state: Any) -> None:
    """`optimizer.load_state_dict(state)`; the state may be of an earlier version, without given rates."""
    given = given_rates(optimizer)
    optimizer.load_state_dict(state)
    for group, rate in zip(getattr(optimizer, "param_groups", []), given, strict=False):
        if "initial_lr" not in group:
            group.update(initial_lr=rate, lr_factor=None)  # by which its rate was scaled is not known
