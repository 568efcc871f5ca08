"""The usual mistakes, planted one by one in the language part: a named test finds each (helpers/planting.py).

`stages.diff` has those of PPO, GRPO, DPO and the online methods, `language.diff` those of what they are made
of: tokens, model, data, rewards, sampling, losses, supervised fine-tuning. At the end a list says where each
of the eight mistakes is planted that training on tokens is known for.
"""

import pytest
from planting import outcomes, read

STAGES, PARTS = read("stages.diff"), read("language.diff")


@pytest.fixture(scope="module")
def found():
    return outcomes(PARTS + STAGES)


@pytest.mark.parametrize("bug", PARTS + STAGES, ids=lambda bug: f"{bug.file}: {bug.mistake}")
def test_a_bug_is_found(bug, found):
    assert found[bug] == "found"


# The eight, each with its name in the tables: for a stage among the bugs that its tests find, for a part
# among those that are planted in its file.
EIGHT = {
    "mask forgotten": {
        "mask forgotten": "ppo grpo dpo online tokens model sft rewards on_policy evaluating",
    },
    "shift by one token": {
        "shift by one token": "ppo grpo dpo online tokens cache rewards",
    },
    "KL sign": {
        "KL sign": "ppo grpo on_policy preferences evaluating",
    },
    "reference updated": {
        "reference updated": "ppo grpo preferences",
        "reference trained": "dpo",
        "the policy as reference": "online",
    },
    "advantage over the prompt's tokens": {
        "advantage over the prompt's tokens": "ppo",
        "the prompt's mask": "grpo",
        "the prompt's tokens counted": "dpo rewards",
        "the prompt's tokens learned": "encoding",
    },
    "terminal reward at the wrong token": {
        "terminal reward at the wrong token": "ppo tokens rewards",
    },
    "group mixed up": {
        "group mixed up": "grpo online data best_of_n",
    },
    "old log-probs recomputed": {
        "old log-probs recomputed after the update": "ppo",
        "old log-probs recomputed": "grpo online",
        "old log-probs of another distribution": "generation",
        "old log-probs with a gradient": "on_policy",
    },
}


@pytest.mark.parametrize("mistake", EIGHT)
def test_each_of_the_eight_is_planted_wherever_it_could_be_made(mistake):
    for name, places in EIGHT[mistake].items():
        for place in places.split():
            own = f"language/test_{place}.py"
            of_stage = {
                bug.mistake for bug in STAGES if bug.test.startswith(own) or bug.test.endswith(f"[{place}]")
            }
            of_part = {bug.mistake for bug in PARTS if bug.file.endswith(f"{place}.py")}
            assert name in of_stage | of_part, f"{place}: {name}"
