"""TODO."""

from __future__ import annotations

import importlib
from typing import Any

from ppobook import validation
from ppobook.language.stage import Stage
from ppobook.run.folder import RunFolder

# Found by name when asked for: this room may not import the stages, which are built on it.
STAGES = {
    "sft": "ppobook.language.sft:SFT",
    "reward": "ppobook.language.reward:RewardModelling",
    "ppo": "ppobook.language.ppo:PPO",
    "grpo": "ppobook.language.grpo:GRPO",
    "dpo": "ppobook.language.dpo:DPO",
    "online_dpo": "ppobook.language.online:OnlineDPO",
    "iterative_ppo": "ppobook.language.online:IterativePPO",
    "lagged_grpo": "ppobook.language.online:LaggedGRPO",
}


def stage_class(stage: Any) -> type[Stage]:
    """The stage of this name; a subclass of `Stage` stands for itself."""
    if isinstance(stage, type) and issubclass(stage, Stage):
        return stage
    module, _, name = STAGES[validation.choice("stage", stage, STAGES)].partition(":")
    found: type[Stage] = getattr(importlib.import_module(module), name)
    return found


def _name_of(kind: type[Stage]) -> str:
    """What a run's config calls a stage: "ppo", or "my_module:MyPPO" for a user's own."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    return {where: name for name, where in STAGES.items()}.get(place, place)


def _stage_of_run(home: RunFolder, config: dict[str, Any], given: Any) -> type[Stage]:
    named = config.get("stage")
    if given is None:
        if isinstance(named, str) and ":" in named:
            short = named.partition(":")[2]
            raise ValueError(
                f"{home} was trained by {named!r}, a class of its owner's; wanted: the class itself, "
                f"train({short}, resume=…)"
            )
        try:
            return stage_class(named)
        except ValueError as error:
            raise ValueError(f"{home}: {error}") from None
    kind = stage_class(given)
    if _name_of(kind) != named:
        raise ValueError(f"stage is {_name_of(kind)!r}, and {home} was trained by {named!r}, which is wanted")
    return kind
