"""The stages of the library by name. They are built on this room, so they are imported when asked for."""

from __future__ import annotations

from typing import Any

from ppobook.language.stage import Stage
from ppobook.run.registry import Registry

STAGES: Registry[Stage] = Registry(
    "stage",
    Stage,
    {
        "sft": "ppobook.language.sft:SFT",
        "reward": "ppobook.language.reward:RewardModelling",
        "ppo": "ppobook.language.ppo:PPO",
        "grpo": "ppobook.language.grpo:GRPO",
        "dpo": "ppobook.language.dpo:DPO",
        "online_dpo": "ppobook.language.online:OnlineDPO",
        "iterative_ppo": "ppobook.language.online:IterativePPO",
        "lagged_grpo": "ppobook.language.online:LaggedGRPO",
    },
)


def stage_class(stage: Any) -> type[Stage]:
    """The class of a stage, "ppo"; a subclass of `Stage` is returned as it is."""
    return STAGES.find(stage)
