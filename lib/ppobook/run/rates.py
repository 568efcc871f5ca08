"""Schedules of the learning rates of an optimizer's parameter groups."""

from __future__ import annotations

from typing import Any


def scale_rates(optimizer: Any, start: float, now: float) -> None:
    """Scale the learning rate that each group was given by now / start, for a schedule that began at `start`.

    Each group keeps the rate that it was given as "initial_lr", as the schedulers of torch do, so it is saved
    with the optimizer's state. As long as the schedule stands still, the rates are left alone: another
    scheduler may set them.
    """
    factor = now / start
    for group in optimizer.param_groups:
        if factor != group.get("lr_factor", 1.0):
            given = group.setdefault("initial_lr", group["lr"])
            group["lr"] = now if given == start else given * factor
            group["lr_factor"] = factor
