"""The checks of each chapter's exercises, on answers as readers might write them."""

from __future__ import annotations

import importlib
import pkgutil

from answers import tables
from checks import CheckTests, Exercises


def checks_of(chapter: str, **kinds: int) -> type[CheckTests]:
    """The tests of a chapter's checks, which has at least so many exercises of each kind."""
    room = ROOMS[chapter]
    package = importlib.import_module(f"answers.{room}")
    modules = [
        importlib.import_module(f"answers.{room}.{m.name}") for m in pkgutil.iter_modules(package.__path__)
    ]
    right, wrong, unnamed = tables(*modules)
    space = {
        "module": importlib.import_module(f"ppobook.teaching.checks.{room}"),
        "exercises": Exercises(chapter),
        "right": right,
        "wrong": wrong,
        "unnamed": unnamed,
        "kinds": kinds,
    }
    return type("TestChecks", (CheckTests,), space)


ROOMS = {
    "01_vanilla_policy_gradient": "vanilla",
    "02_trust_regions": "trust_regions",
    "03_the_clipped_surrogate": "clipped_surrogate",
    "04_generalized_advantage_estimation": "gae",
    "05_the_whole_of_ppo": "whole_ppo",
    "06_ppo_in_practice": "practice",
    "07_rlhf": "rlhf",
    "08_grpo": "grpo",
    "09_dpo": "dpo",
    "10_online_loops": "online",
}
TestVanilla = checks_of("01_vanilla_policy_gradient", Prove=2, Build=3, Hunt=2, Reflect=1)
TestTrustRegions = checks_of("02_trust_regions", Prove=2, Build=3, Hunt=2, Reflect=1)
TestClippedSurrogate = checks_of("03_the_clipped_surrogate", Prove=3, Build=3, Hunt=3, Reflect=3)
TestGae = checks_of("04_generalized_advantage_estimation", Prove=2, Build=4, Hunt=3, Reflect=2)
TestWholePPO = checks_of("05_the_whole_of_ppo", Prove=2, Build=8, Hunt=3, Reflect=2)
TestPractice = checks_of("06_ppo_in_practice", Prove=2, Build=4, Hunt=2, Reflect=2)
TestRLHF = checks_of("07_rlhf", Prove=2, Build=5, Hunt=2, Reflect=2)
TestGRPO = checks_of("08_grpo", Prove=3, Build=5, Hunt=3, Reflect=1)
TestDPO = checks_of("09_dpo", Prove=4, Build=4, Hunt=1, Reflect=1)
TestOnline = checks_of("10_online_loops", Prove=2, Build=4, Hunt=2, Reflect=1)
