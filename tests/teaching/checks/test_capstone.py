"""The checks of the capstone's stages, on answers as readers might write them."""

from __future__ import annotations

from typing import Any

import pytest
from answers import tables
from answers.capstone import advantages, collecting, losses, training, updates
from checks import Answer, CheckTests, Exercises

from ppobook.teaching import checks
from ppobook.teaching.checks import capstone

EXERCISES = Exercises("06_capstone", "")
RIGHT, WRONG, UNNAMED = tables(collecting, advantages, losses, updates, training)
CHAPTERS = {
    "03_the_clipped_surrogate": capstone.CLIPPED,
    "04_generalized_advantage_estimation": capstone.GAE,
    "05_the_whole_of_ppo": capstone.WHOLE,
    "06_ppo_in_practice": capstone.PRACTICE,
}


class TestChecks(CheckTests):
    module = capstone
    exercises = EXERCISES
    right, wrong, unnamed = RIGHT, WRONG, UNNAMED
    chapters = CHAPTERS

    def test_the_masters_solution_is_right_and_the_check_is_fast(self, name: str) -> None:
        if name == "capstone-learning":  # it trains eight times, whenever the executed master is tested
            return
        super().test_the_masters_solution_is_right_and_the_check_is_fast(name)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("capstone-rollout", collecting.but("return batch, obs", "return batch, torch.tensor(obs)")),
        ("capstone-evaluate", training.look("np.array(found)", "found")),
    ],
)
def test_the_next_cell_gets_a_numpy_array(name: str, answer: Answer) -> None:
    verdict = checks.run(name, answer)
    assert (verdict.kind, verdict.name) == ("returned", "no NumPy array")


@pytest.mark.learning
def test_ppo_written_otherwise_learns() -> None:
    train = training.Trainer()

    def learn(env_id: str, seed: int, total_steps: int, gamma: float) -> Any:
        return train(env_id, seed, total_steps, gamma=gamma)[:2]

    verdict = checks.run("capstone-learning", learn)
    assert verdict.right, verdict.message
