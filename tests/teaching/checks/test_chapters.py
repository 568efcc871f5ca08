"""The checks of each chapter's exercises, on answers as readers might write them."""

from __future__ import annotations

import importlib
import pkgutil

from answers import tables
from checks import CheckTests, Exercises


def checks_of(chapter: str, room: str) -> type[CheckTests]:
    package = importlib.import_module(f"answers.{room}")
    modules = [
        importlib.import_module(f"answers.{room}.{m.name}") for m in pkgutil.iter_modules(package.__path__)
    ]
    right, wrong, unnamed = tables(*modules)
    module = importlib.import_module(f"ppobook.teaching.checks.{room}")
    space = {
        "module": module,
        "exercises": Exercises(chapter),
        "right": right,
        "wrong": wrong,
        "unnamed": unnamed,
        "chapters": {chapter: module.CHAPTER},
    }
    return type("TestChecks", (CheckTests,), space)


TestVanilla = checks_of("01_vanilla_policy_gradient", "vanilla")
TestTrustRegions = checks_of("02_trust_regions", "trust_regions")
TestClippedSurrogate = checks_of("03_the_clipped_surrogate", "clipped_surrogate")
TestGae = checks_of("04_generalized_advantage_estimation", "gae")
TestWholePPO = checks_of("05_the_whole_of_ppo", "whole_ppo")
TestPractice = checks_of("06_ppo_in_practice", "practice")
TestRLHF = checks_of("07_rlhf", "rlhf")
TestGRPO = checks_of("08_grpo", "grpo")
TestDPO = checks_of("09_dpo", "dpo")
TestOnline = checks_of("10_online_loops", "online")
