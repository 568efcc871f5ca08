"""Learning rates of an optimizer's parameter groups: what each was given, and what a schedule makes of it.

Each group keeps the learning rate that it was given as "initial_lr", as the schedulers of torch do, so it is
saved with the optimizer's state.
"""

from __future__ import annotations

from typing import Any


def given_rates(optimizer: Any) -> list[Any]:
    """The learning rates that the groups of an optimizer were given; none for what is no optimizer."""
    groups = [group for group in getattr(optimizer, "param_groups", []) if "lr" in group]
    return [group.setdefault("initial_lr", group["lr"]) for group in groups]


def scale_rates(optimizer: Any, start: float, now: float) -> None:
    """Scale the given learning rate of each group by now / start, for a schedule that began at `start`.

    As long as the schedule stands still the rates are left alone: another scheduler may set them.
    """
    factor = now / start
    for group, given in zip(optimizer.param_groups, given_rates(optimizer), strict=True):
        if group.get("lr_factor", 1.0) != factor:
            group["lr"] = now if given == start else given * factor
            group["lr_factor"] = factor


def load_optimizer(optimizer: Any, state: Any) -> None:
    """`optimizer.load_state_dict(state)`; the state may be of an earlier version, without given rates."""
    given = given_rates(optimizer)
    optimizer.load_state_dict(state)
    for group, rate in zip(getattr(optimizer, "param_groups", []), given, strict=False):
        if "initial_lr" not in group:
            group.update(initial_lr=rate, lr_factor=None)  # by which its rate was scaled is not known
